//! A list as plain data, to be stored and brought back.

use crate::config::{Config, Method};
use crate::error::Error;
use crate::list::{Hotlist, Mode};
use crate::store::{Counts, Store};
use crate::words::Words;

/// Everything a list is made of but the run in progress, which may be drawn anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<V = u64> {
    /// N, f and the ends of SatCount.
    pub config: Config,
    /// The probability of entering the list.
    pub p: f64,
    /// Whether concise samples are in use.
    pub concise: bool,
    /// SatCount.
    pub sat_count: u32,
    /// Events offered.
    pub events: u64,
    /// Time of the last event counted; where that was not kept, the end of the collection will do.
    pub last: u64,
    /// The tuples, highest estimate first.
    pub tuples: Vec<PartsTuple<V>>,
}

/// One tuple as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsTuple<V = u64> {
    /// The value.
    pub value: V,
    /// B: events counted with probability p, at least 1.
    pub counted: u64,
    /// D: events counted surely.
    pub certain: u64,
    /// S: estimated time of the first event still counted.
    pub first: u64,
}

impl<V: Words> Hotlist<V> {
    /// The list as plain data.
    pub fn to_parts(&self) -> Parts<V> {
        let tuples = self.tuples().map(|tuple| PartsTuple {
            value: tuple.value,
            counted: tuple.counted,
            certain: tuple.certain,
            first: tuple.first,
        });
        Parts {
            config: self.config(),
            p: self.p,
            concise: self.is_concise(),
            sat_count: self.sat_count(),
            events: self.events,
            last: self.store.last(),
            tuples: tuples.collect(),
        }
    }

    /// The list that these are the parts of. Tuples may come in any order; times are kept as
    /// exactly as in a list that lived as long (see [`Tuple::first`](crate::Tuple::first)).
    ///
    /// # Errors
    /// Parts that no list can have: p outside (0, 1] or below 2^-200, SatCount outside its ends or
    /// at the end where the other method takes over, more tuples than N, a repeated value, a tuple
    /// with no event counted with probability p or with a count of 2^32 - 1 or more. Counts may
    /// add up to more than the events offered: estimates are right in the mean, not each time.
    pub fn from_parts(parts: Parts<V>) -> Result<Self, Error> {
        let mut list = Self::new(&parts.config);
        if !(parts.p >= Self::LEAST_STORED_P && parts.p <= 1.0) {
            return Err(Error::Probability(parts.p));
        }
        list.p = parts.p;
        list.sat_count = Self::checked_sat_count(&parts)?;
        list.mode = match (parts.config.methods(), parts.concise) {
            (Method::Switching, false) => Mode::Counting,
            (Method::Switching, true) => Mode::Concise,
            (Method::Counting, _) => Mode::AlwaysCounting,
            (Method::Concise, _) => Mode::AlwaysConcise,
        };
        list.events = parts.events;
        let capacity = parts.config.capacity();
        if parts.tuples.len() > capacity {
            return Err(Error::TooManyTuples {
                tuples: parts.tuples.len(),
                capacity,
            });
        }
        list.store = Self::checked_tuples(&parts)?;
        list.store.sort(list.p);
        Ok(list)
    }

    /// About 1e-60: a list that comes to it has seen more events than can be.
    const LEAST_STORED_P: f64 = f64::from_bits((1023 - 200) << 52);

    fn checked_sat_count(parts: &Parts<V>) -> Result<u8, Error> {
        let (min_end, max_end) = (parts.config.min_end(), parts.config.max_end());
        let fits = match (parts.config.methods(), parts.concise) {
            (Method::Switching, false) => (min_end..max_end).contains(&parts.sat_count),
            (Method::Switching, true) => (min_end + 1..=max_end).contains(&parts.sat_count),
            (Method::Counting, concise) => {
                !concise && (min_end..=max_end).contains(&parts.sat_count)
            }
            (Method::Concise, concise) => concise && (min_end..=max_end).contains(&parts.sat_count),
        };
        let byte = u8::try_from(parts.sat_count).ok().filter(|_| fits);
        byte.ok_or(Error::SatCount(parts.sat_count))
    }

    fn checked_tuples(parts: &Parts<V>) -> Result<Store<V>, Error> {
        let (capacity, ..) = parts.config.bytes();
        let mut store = Store::new(capacity, parts.config.evictions());
        for (index, tuple) in parts.tuples.iter().enumerate() {
            let &PartsTuple {
                value,
                counted,
                certain,
                first,
            } = tuple;
            let counts = Counts {
                counted,
                certain,
                first,
            };
            if counted == 0 || counts.is_at_end() {
                return Err(Error::Counts {
                    index,
                    counted,
                    certain,
                });
            }
            if store.find(value).is_some() {
                return Err(Error::Duplicate(index));
            }
            store.push(value, counts);
        }
        let latest = parts.tuples.iter().map(|tuple| tuple.first).max();
        if let Some(latest) = latest {
            store.saw(parts.last.max(latest));
        }
        Ok(store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        Parts {
            config: Config::default(),
            p: 0.5,
            concise: false,
            sat_count: 3,
            events: 100,
            last: 90,
            tuples: vec![
                PartsTuple {
                    value: 7,
                    counted: 2,
                    certain: 60,
                    first: 5,
                },
                PartsTuple {
                    value: 9,
                    counted: 1,
                    certain: 3,
                    first: 40,
                },
            ],
        }
    }

    /// What goes in comes out, and the list lives on.
    #[test]
    fn round_trip() {
        let list = Hotlist::from_parts(parts()).unwrap();
        assert_eq!(list.to_parts(), parts());
        assert_eq!(
            list.tuples().map(|t| t.estimate()).collect::<Vec<_>>(),
            [64.0, 5.0]
        );
        let empty = Hotlist::<u64>::new(&Config::default());
        assert_eq!(
            Hotlist::from_parts(empty.to_parts()).unwrap().to_parts(),
            empty.to_parts()
        );
    }

    /// Times that span more than 32 bits come back right to a part in 2^31 of the span, and no
    /// worse the second time.
    #[test]
    fn long_spans() {
        let mut long = parts();
        long.tuples[0].first = 1_700_000_000_000_000_001;
        long.tuples[1].first = 1_700_000_000_000_000_001 + 86_400_000_000_007;
        long.last = long.tuples[1].first;
        let once = Hotlist::from_parts(long.clone()).unwrap().to_parts();
        assert_eq!(once.tuples[0].first, long.tuples[0].first);
        assert!(long.tuples[1].first - once.tuples[1].first < 86_400_000_000_007 >> 31);
        assert_eq!(Hotlist::from_parts(once.clone()).unwrap().to_parts(), once);
        for (first, second) in [(u64::MAX, 0), (0, u64::MAX), (1, u64::MAX - 1)] {
            long.tuples[0].first = first;
            long.tuples[1].first = second;
            let back = Hotlist::from_parts(long.clone()).unwrap().to_parts();
            assert!(first.abs_diff(back.tuples[0].first) <= 1 << 33);
            assert!(second.abs_diff(back.tuples[1].first) <= 1 << 33);
        }
    }

    /// Parts that no list can have are refused with the reason.
    #[test]
    fn hostile() {
        let refused = |change: &dyn Fn(&mut Parts)| {
            let mut bad = parts();
            change(&mut bad);
            Hotlist::from_parts(bad).unwrap_err()
        };
        for p in [
            0.0,
            -1.0,
            1.000_1,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
        ] {
            assert!(matches!(refused(&|b| b.p = p), Error::Probability(_)));
        }
        assert_eq!(refused(&|b| b.sat_count = 50), Error::SatCount(50));
        assert_eq!(
            refused(&|b| b.sat_count = u32::MAX),
            Error::SatCount(u32::MAX)
        );
        assert_eq!(
            refused(&|b| (b.concise, b.sat_count) = (true, 0)),
            Error::SatCount(0)
        );
        let counts = |counted, certain| Error::Counts {
            index: 1,
            counted,
            certain,
        };
        assert_eq!(refused(&|b| b.tuples[1].counted = 0), counts(0, 3));
        assert_eq!(
            refused(&|b| b.tuples[1].counted = u64::MAX),
            counts(u64::MAX, 3)
        );
        assert_eq!(
            refused(&|b| b.tuples[1].certain = u64::MAX),
            counts(1, u64::MAX)
        );
        assert_eq!(refused(&|b| b.tuples[1].value = 7), Error::Duplicate(1));
        let many = |b: &mut Parts| b.tuples = vec![b.tuples[0]; 17];
        assert_eq!(
            refused(&many),
            Error::TooManyTuples {
                tuples: 17,
                capacity: 16
            }
        );
    }
}
