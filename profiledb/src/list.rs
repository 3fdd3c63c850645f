//! The values of a list in few bytes: a profile of a service's day holds millions of them.

use std::fmt;

use hotlist::{Estimate, Estimates};

use crate::chunk::bytes::{Reader, put, put_real, whole};

/// What a list says, as [`Estimates`] does, with a few bytes for a number instead of
/// eight. Every number is kept exactly.
#[derive(Clone, PartialEq)]
pub struct List {
    /// Events offered, as [`Estimates::events`].
    pub events: f64,
    /// 1/p, as [`Estimates::threshold`].
    pub threshold: f64,
    /// Pairs of events, as [`Estimates::pairs`].
    pub pairs: Option<(f64, f64)>,
    /// How many values there are.
    pub(crate) count: u32,
    /// The values, one behind the other: see [`put_tuple`].
    pub(crate) tuples: Vec<u8>,
}

/// The estimate is a whole number of events that were all counted.
const COUNTED: u8 = 1;
/// There are pairs.
const PAIRS: u8 = 2;

/// Whether so far, 0 to 1, the windows of a list can have come at even distances.
pub(crate) fn is_even(even: f64) -> bool {
    (0.0..=1.0).contains(&even)
}

/// Appends a value. What is appended does not depend on what is there, so that the values of two
/// lists are those of the one behind those of the other.
pub(crate) fn put_tuple(bytes: &mut Vec<u8>, tuple: &Estimate<u64>) {
    let Estimate {
        value,
        estimate,
        variance,
        least,
        first,
        pairs,
    } = *tuple;
    let counted = whole(estimate).filter(|_| variance == 0.0 && least == estimate);
    let has_pairs = pairs != (0.0, 0.0);
    let shape = counted.map_or(0, |_| COUNTED) | if has_pairs { PAIRS } else { 0 };
    bytes.push(shape);
    put(bytes, value);
    match counted {
        Some(count) => put(bytes, count),
        None => [estimate, variance, least]
            .into_iter()
            .for_each(|number| put_real(bytes, number)),
    }
    bytes.extend(first.to_le_bytes());
    if has_pairs {
        put_real(bytes, pairs.0);
        put_real(bytes, pairs.1);
    }
}

/// The next value; `None`: there is none.
fn next_tuple(reader: &mut Reader<'_>) -> Option<Estimate<u64>> {
    let shape = reader.byte().ok()?;
    let value = reader.number().ok()?;
    let (estimate, variance, least) = match shape & COUNTED {
        0 => {
            let mut real = || reader.real().ok();
            (real()?, real()?, real()?)
        }
        _ => {
            let count = reader.number().ok()? as f64;
            (count, 0.0, count)
        }
    };
    let first = u64::from_le_bytes(reader.array().ok()?);
    let pairs = match shape & PAIRS {
        0 => (0.0, 0.0),
        _ => (reader.real().ok()?, reader.real().ok()?),
    };
    Some(Estimate {
        value,
        estimate,
        variance,
        least,
        first,
        pairs,
    })
}

impl List {
    /// Values.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no estimates.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values: of one list the highest estimate first, of lists that were added up by value.
    pub fn tuples(&self) -> impl Iterator<Item = Estimate<u64>> + '_ {
        let mut reader = Reader::new(&self.tuples);
        std::iter::from_fn(move || next_tuple(&mut reader))
    }

    /// The same with its room.
    pub fn estimates(&self) -> Estimates<u64> {
        let mut estimates = Estimates::default();
        self.unpack(&mut estimates);
        estimates
    }

    /// Makes `estimates` say what this does. What they had is forgotten, but for its room.
    pub(crate) fn unpack(&self, estimates: &mut Estimates<u64>) {
        estimates.events = self.events;
        estimates.threshold = self.threshold;
        estimates.pairs = self.pairs;
        estimates.tuples.clear();
        estimates.tuples.extend(self.tuples());
    }

    /// Has these values alone.
    pub(crate) fn set_tuples(&mut self, tuples: &[Estimate<u64>]) {
        self.tuples.clear();
        for tuple in tuples {
            put_tuple(&mut self.tuples, tuple);
        }
        self.count = u32::try_from(tuples.len()).unwrap_or(u32::MAX);
    }

    /// Appends the values of another list: some may be there twice then.
    pub(crate) fn append(&mut self, other: &List) {
        let free = self.tuples.capacity() - self.tuples.len();
        if free < other.tuples.len() {
            // All lists together take most of the memory that there is.
            let more = other.tuples.len() + self.tuples.len() / 4;
            self.tuples.reserve_exact(more);
        }
        self.tuples.extend_from_slice(&other.tuples);
        self.count = self.count.saturating_add(other.count);
    }
}

impl Default for List {
    /// A list without events.
    fn default() -> Self {
        List::from(&Estimates::default())
    }
}

impl From<&Estimates<u64>> for List {
    fn from(estimates: &Estimates<u64>) -> Self {
        let mut list = Self {
            events: estimates.events,
            threshold: estimates.threshold,
            pairs: estimates.pairs,
            count: 0,
            tuples: Vec::new(),
        };
        list.set_tuples(&estimates.tuples);
        list.tuples.shrink_to_fit();
        list
    }
}

impl fmt::Debug for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.estimates().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of a list comes back to the last bit, whatever it is.
    #[test]
    fn lists_are_kept_exactly() {
        let numbers = [
            0.0,
            1.0,
            0.1,
            7.0,
            1e-300,
            (1_u64 << 53) as f64,
            (1_u64 << 54) as f64,
            1e300,
        ];
        let mut tuples = Vec::new();
        for (index, &estimate) in numbers.iter().enumerate() {
            for (&variance, &pair) in numbers.iter().zip(numbers.iter().rev()) {
                tuples.push(Estimate {
                    value: u64::MAX >> (tuples.len() % 64),
                    estimate,
                    variance,
                    least: if index % 2 == 0 { estimate } else { variance },
                    first: u64::MAX - tuples.len() as u64,
                    pairs: (pair, variance),
                });
            }
        }
        for pairs in [None, Some((0.3, 4.0))] {
            let estimates = Estimates {
                events: 12.5,
                threshold: 1.0 / 3.0,
                pairs,
                tuples: tuples.clone(),
            };
            let list = List::from(&estimates);
            assert_eq!(list.len(), tuples.len());
            assert_eq!(list.estimates(), estimates);
            let mut twice = list.clone();
            twice.append(&list);
            let both: Vec<_> = tuples.iter().chain(&tuples).copied().collect();
            assert_eq!(twice.tuples().collect::<Vec<_>>(), both);
        }
        assert_eq!(List::default().estimates(), Estimates::default());
    }
}
