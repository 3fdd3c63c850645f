//! The settings of a hotlist.

use crate::{Error, limits};

/// Which of the two counting methods a list uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// Counting samples first, concise samples once most values are found in the list, and back:
    /// SatCount decides.
    #[default]
    Switching,
    /// Counting samples only.
    Counting,
    /// Concise samples only.
    Concise,
}

/// What happens to the tuples when p falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// Coins for single events, as the methods were published.
    #[default]
    ByEvent,
    /// One coin for a tuple at most: its estimate stays as it is while it is at least the new
    /// 1/p; a smaller one becomes 1/p with the probability that keeps its expectation, or goes.
    /// Tuples that concise samples or a merge gave several events of B are thinned by event, so
    /// this goes best with [`Method::Counting`].
    /// As unbiased, and much less spread (see the [crate's page](crate#figures)).
    ByWeight,
}

/// Settings of a hotlist; the defaults are N = 16, f = 16/15, MinEnd = 0, MaxEnd = 50.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    factor: f64,
    capacity: u8,
    min_end: u8,
    max_end: u8,
    method: Method,
    eviction: Eviction,
}

impl Config {
    /// The largest N: beyond it a list searched from its front is the wrong structure.
    pub const MAX_CAPACITY: usize = limits::MAX_CAPACITY;
    /// The largest MaxEnd: SatCount is one byte.
    pub const MAX_END: u32 = limits::MAX_END;

    /// The least f: closer to one, making room for a value takes thousands of rounds.
    pub const MIN_FACTOR: f64 = limits::MIN_FACTOR;
    /// The largest f: it throws away all but one event in a million.
    pub const MAX_FACTOR: f64 = limits::MAX_FACTOR;

    /// A list of at most `capacity` tuples whose p falls by `factor` when it is full.
    ///
    /// SatCount runs from `min_end` (where counting samples take over) to `max_end` (where
    /// concise samples do).
    ///
    /// # Errors
    /// [`Error::Capacity`] below 2 tuples or above [`Config::MAX_CAPACITY`], [`Error::Factor`]
    /// outside [`Config::MIN_FACTOR`] to [`Config::MAX_FACTOR`], [`Error::Ends`] unless
    /// `min_end < max_end <= `[`Config::MAX_END`].
    pub fn new(capacity: usize, factor: f64, min_end: u32, max_end: u32) -> Result<Self, Error> {
        let tuples = u8::try_from(capacity).map_err(|_| Error::Capacity(capacity))?;
        if capacity < 2 {
            return Err(Error::Capacity(capacity));
        }
        if !(Self::MIN_FACTOR..=Self::MAX_FACTOR).contains(&factor) {
            return Err(Error::Factor(factor));
        }
        let ends = || Error::Ends { min_end, max_end };
        let low = u8::try_from(min_end).map_err(|_| ends())?;
        let high = u8::try_from(max_end).map_err(|_| ends())?;
        if low >= high {
            return Err(ends());
        }
        Ok(Self {
            factor,
            capacity: tuples,
            min_end: low,
            max_end: high,
            method: Method::Switching,
            eviction: Eviction::ByEvent,
        })
    }

    /// A [`Config::new`] with the preferred factor N/(N-1) and the usual ends 0 and 50.
    ///
    /// # Errors
    /// [`Error::Capacity`] below 2 tuples or above [`Config::MAX_CAPACITY`].
    pub fn with_capacity(capacity: usize) -> Result<Self, Error> {
        // For 0 and 1 the factor is none; the capacity is refused first.
        let tuples = capacity as f64;
        Self::new(capacity, tuples / (tuples - 1.0), 0, 50)
    }

    /// The same settings with this method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// The same settings with this way of eviction.
    #[must_use]
    pub fn eviction(self, eviction: Eviction) -> Self {
        Self { eviction, ..self }
    }

    /// The same settings with counting samples alone and eviction by weight: shares of frequent
    /// values right to a fraction of a percent, for some ten nanoseconds an event.
    #[must_use]
    pub fn precise(self) -> Self {
        self.method(Method::Counting).eviction(Eviction::ByWeight)
    }

    /// N, the most tuples a list holds.
    pub fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    /// f, by which p is divided when the list is full.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// MinEnd, where counting samples take over.
    pub fn min_end(&self) -> u32 {
        u32::from(self.min_end)
    }

    /// MaxEnd, where concise samples take over.
    pub fn max_end(&self) -> u32 {
        u32::from(self.max_end)
    }

    /// Which methods are used.
    pub fn methods(&self) -> Method {
        self.method
    }

    /// What happens to the tuples when p falls.
    pub fn evictions(&self) -> Eviction {
        self.eviction
    }

    pub(crate) fn bytes(&self) -> (u8, u8, u8) {
        (self.capacity, self.min_end, self.max_end)
    }

    /// The settings of a list, which were checked when it was made.
    pub(crate) fn of(factor: f64, bytes: (u8, u8, u8), method: Method, eviction: Eviction) -> Self {
        let (capacity, min_end, max_end) = bytes;
        Self {
            factor,
            capacity,
            min_end,
            max_end,
            method,
            eviction,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            factor: 16.0 / 15.0,
            capacity: 16,
            min_end: 0,
            max_end: 50,
            method: Method::Switching,
            eviction: Eviction::ByEvent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are what the constructor makes of the usual numbers.
    #[test]
    fn defaults() {
        assert_eq!(Config::new(16, 16.0 / 15.0, 0, 50), Ok(Config::default()));
        assert_eq!(Config::with_capacity(16), Ok(Config::default()));
    }

    /// Every setting that no list can have is refused with the error that names it.
    #[test]
    fn refused() {
        for capacity in [0, 1, 256, 65_536, usize::MAX] {
            assert_eq!(
                Config::new(capacity, 1.1, 0, 50),
                Err(Error::Capacity(capacity))
            );
            assert_eq!(
                Config::with_capacity(capacity),
                Err(Error::Capacity(capacity))
            );
        }
        for factor in [1.0, 1.000_1, 0.5, 0.0, -2.0, 1e7, f64::INFINITY] {
            assert_eq!(Config::new(16, factor, 0, 50), Err(Error::Factor(factor)));
        }
        assert!(matches!(
            Config::new(16, f64::NAN, 0, 50),
            Err(Error::Factor(_))
        ));
        for (min_end, max_end) in [(50, 50), (51, 50), (0, 256), (300, 400), (0, u32::MAX)] {
            assert_eq!(
                Config::new(16, 1.1, min_end, max_end),
                Err(Error::Ends { min_end, max_end })
            );
        }
    }
}
