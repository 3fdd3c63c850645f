//! A list as plain data, to be stored and brought back.

use crate::config::{Config, Eviction, Method};
use crate::error::Error;
use crate::evict::{MOST_VARIANCE, entry_variance};
use crate::list::{CountingMode, Hotlist};
use crate::pairs::Pairs;
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
    /// How the events came together; `None` where that is not known.
    pub pairs: Option<Pairs>,
    /// The tuples, highest estimate first.
    pub tuples: Vec<PartsTuple<V>>,
}

/// One tuple as plain data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartsTuple<V = u64> {
    /// The value.
    pub value: V,
    /// B: events counted with probability p, at least 1.
    pub counted: u64,
    /// D: events counted surely.
    pub certain: u64,
    /// S: estimated time of the first event still counted.
    pub first: u64,
    /// Estimated variance of its estimate, where the list evicts by weight and B is 1; `None`
    /// stands for the largest that such a tuple can have without a merge, (1-p) / p^2.
    pub variance: Option<f32>,
    /// How events of the tuple came together. Nobody looks at it where the list's pairs are not
    /// known.
    pub pairs: Pairs,
}

impl<V> PartsTuple<V> {
    /// A tuple of which no more is known.
    pub fn new(value: V, counted: u64, certain: u64, first: u64) -> Self {
        Self {
            value,
            counted,
            certain,
            first,
            variance: None,
            pairs: Pairs::default(),
        }
    }
}

impl<V: Words> Hotlist<V> {
    /// The list as plain data.
    pub fn to_parts(&self) -> Parts<V> {
        let config = self.config();
        let tuples = (0..self.len()).map(|index| {
            let counts = self.store.counts(index);
            PartsTuple {
                value: self.store.value(index),
                counted: counts.counted,
                certain: counts.certain,
                first: counts.first,
                variance: keeps_variance(&config, counts.counted).then_some(counts.variance),
                pairs: self.store.pairs(index + 1),
            }
        });
        Parts {
            config,
            p: self.p,
            concise: self.is_concise(),
            sat_count: self.sat_count(),
            events: self.events,
            last: self.store.last(),
            pairs: self.pairs(),
            tuples: tuples.collect(),
        }
    }

    /// The list that these are the parts of. Tuples may come in any order; times are kept as
    /// exactly as in a list that lived as long (see [`Tuple::first`](crate::Tuple::first)).
    ///
    /// # Errors
    /// Parts that no list can have: p outside (0, 1] or below 2^-200, SatCount outside its ends or
    /// at the end where the other method takes over, more tuples than N, a repeated value, a tuple
    /// with no event counted with probability p or with a count of 2^32 - 1 or more, a variance
    /// that is no finite number from 0 on. Counts may
    /// add up to more than the events offered: estimates are right in the mean, not each time.
    pub fn from_parts(parts: Parts<V>) -> Result<Self, Error> {
        let mut list = Self::new(&parts.config);
        if !(parts.p >= Self::LEAST_STORED_P && parts.p <= 1.0) {
            return Err(Error::Probability(parts.p));
        }
        list.p = parts.p;
        list.sat_count = Self::checked_sat_count(&parts)?;
        list.mode = match (parts.config.methods(), parts.concise) {
            (Method::Switching, false) => CountingMode::Counting,
            (Method::Switching, true) => CountingMode::Concise,
            (Method::Counting, _) => CountingMode::AlwaysCounting,
            (Method::Concise, _) => CountingMode::AlwaysConcise,
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
                variance,
                ..
            } = tuple;
            let variance = match keeps_variance(&parts.config, counted) {
                true => variance.unwrap_or(entry_variance(parts.p)),
                false => 0.0,
            };
            if !(0.0..=MOST_VARIANCE).contains(&f64::from(variance)) {
                return Err(Error::Variance(index));
            }
            let counts = Counts {
                counted,
                certain,
                first,
                variance,
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
        let of_list = parts
            .pairs
            .filter(|_| parts.config.methods() == Method::Counting);
        let of_tuples = parts.tuples.iter().map(|tuple| tuple.pairs);
        let told = of_list.is_some_and(|of_list| {
            let mut places = (0..).zip([of_list].into_iter().chain(of_tuples));
            places.all(|(place, pairs)| store.set_pairs(place, pairs))
        });
        if !told {
            store.forget_pairs();
        }
        Ok(store)
    }
}

/// Whether a tuple of so many events counted with probability p has a variance of its own.
fn keeps_variance(config: &Config, counted: u64) -> bool {
    config.evictions() == Eviction::ByWeight && counted == 1
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
            tuples: vec![PartsTuple::new(7, 2, 60, 5), PartsTuple::new(9, 1, 3, 40)],
            pairs: None,
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
