//! Which bucket of a frequency distribution a value belongs to.

use crate::Error;

/// Buckets of powers of two: 63 for negative values, zero, 63 for positive ones.
pub(crate) mod power {
    /// How many there are.
    pub(crate) const BUCKETS: usize = 127;
    /// The one for zero.
    const ZERO: usize = 63;

    /// The bucket of a value: of those its own sign, the one of the largest power of two that is
    /// no larger than the value's size; -2^63 belongs with -2^62.
    pub(crate) fn bucket(value: i64) -> usize {
        let magnitude = value.unsigned_abs().checked_ilog2().map(|log| log as usize);
        match magnitude {
            None => ZERO,
            Some(log) if value > 0 => ZERO + 1 + log,
            Some(log) => (ZERO - 1).saturating_sub(log),
        }
    }

    /// The value that a bucket is named by: the one of its values that is nearest to zero.
    pub(crate) fn value(bucket: usize) -> i64 {
        match bucket {
            ..ZERO => -(1 << (ZERO - 1 - bucket)),
            ZERO => 0,
            _ => 1 << (bucket - ZERO - 1).min(62),
        }
    }
}

/// Buckets of one width between two bounds, one below and one above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    base: i32,
    levels: u16,
    step: u16,
}

impl Linear {
    /// Buckets of `step` values each from `base` up to `limit`, which is not included; where the
    /// steps do not fill the range, the last of them that does not fit is left out and its values
    /// count as above.
    ///
    /// # Errors
    /// [`Error::LinearStep`] for a step of zero or beyond the range, [`Error::LinearRange`] for an
    /// empty range or more than 65,535 steps.
    pub fn new(base: i32, limit: i32, step: u16) -> Result<Self, Error> {
        let range = i64::from(limit) - i64::from(base);
        if range <= 0 {
            return Err(Error::LinearRange { base, limit });
        }
        if step == 0 || i64::from(step) > range {
            return Err(Error::LinearStep { step, range });
        }
        let levels = u16::try_from(range / i64::from(step));
        let levels = levels.map_err(|_| Error::LinearRange { base, limit })?;
        Ok(Self { base, levels, step })
    }

    /// The parameters in the first word of the data: 16 bits of step, 16 of levels, 32 of base.
    pub fn encode(&self) -> u64 {
        // The cast keeps the bits of a negative base.
        u64::from(self.step) << 48 | u64::from(self.levels) << 32 | u64::from(self.base as u32)
    }

    /// The parameters of such a word; `None` if no distribution has them.
    pub fn decode(word: u64) -> Option<Self> {
        let (step, levels, base) = ((word >> 48) as u16, (word >> 32) as u16, word as u32 as i32);
        (step > 0 && levels > 0).then_some(Self { base, levels, step })
    }

    /// Buckets, those below and above included.
    pub(crate) fn buckets(&self) -> usize {
        usize::from(self.levels) + 2
    }

    pub(crate) fn bucket(&self, value: i64) -> usize {
        let above = i128::from(value) - i128::from(self.base);
        match usize::try_from(above) {
            Err(_) if above < 0 => 0,
            Err(_) => self.buckets() - 1,
            Ok(above) => (above / usize::from(self.step)).min(usize::from(self.levels)) + 1,
        }
    }

    /// The lower bound of a bucket; of the one below it is the bound that it lies under.
    pub(crate) fn bound(&self, bucket: usize) -> i64 {
        let step = bucket.clamp(1, self.buckets() - 1) - 1;
        // Within 2^32 of a 32-bit number.
        i64::from(self.base) + i64::from(self.step) * step as i64
    }
}

/// Buckets of one width within each magnitude, wider from magnitude to magnitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogLinear {
    factor: u16,
    low: u16,
    high: u16,
    steps: u16,
}

impl LogLinear {
    /// Magnitudes from `factor`^`low` to `factor`^(`high` + 1), each cut into as many buckets as
    /// make `steps` from zero up to its end.
    ///
    /// # Errors
    /// [`Error::LogLinearFactor`] for a factor below 2; [`Error::LogLinearRange`] where `low` is
    /// above `high` or `factor`^`high` beyond 63 bits; [`Error::LogLinearSteps`] for fewer steps
    /// than the factor, or steps that do not cut every magnitude into whole numbers: the factor
    /// must divide the steps, and the steps the first power of the factor that is no smaller.
    pub fn new(factor: u16, low: u16, high: u16, steps: u16) -> Result<Self, Error> {
        if factor < 2 {
            return Err(Error::LogLinearFactor(factor));
        }
        let top = i64::from(factor).checked_pow(u32::from(high));
        if low > high || top.is_none() {
            return Err(Error::LogLinearRange { factor, low, high });
        }
        let (wide, wide_steps) = (u64::from(factor), u64::from(steps));
        let mut power = wide;
        while power < wide_steps {
            // Both are below 2^16.
            power *= wide;
        }
        if steps < factor || !steps.is_multiple_of(factor) || !power.is_multiple_of(wide_steps) {
            return Err(Error::LogLinearSteps { factor, steps });
        }
        Ok(Self {
            factor,
            low,
            high,
            steps,
        })
    }

    /// The parameters in the first word of the data, 16 bits each: factor, low, high, steps from
    /// the top down.
    pub fn encode(&self) -> u64 {
        let [factor, low, high, steps] =
            [self.factor, self.low, self.high, self.steps].map(u64::from);
        factor << 48 | low << 32 | high << 16 | steps
    }

    /// The parameters of such a word; `None` if no distribution has them.
    pub fn decode(word: u64) -> Option<Self> {
        let [factor, low, high, steps] = [48, 32, 16, 0].map(|shift| (word >> shift) as u16);
        Self::new(factor, low, high, steps).ok()
    }

    /// The magnitudes from the lowest: first value, width of a bucket, buckets.
    fn magnitudes(&self) -> impl Iterator<Item = (u128, u128, usize)> {
        let (factor, steps) = (u128::from(self.factor), u128::from(self.steps));
        // At most 2^63 times 2^16.
        (self.low..=self.high).map(move |order| {
            let first = factor.pow(u32::from(order));
            let end = first * factor;
            let to_end = end.min(steps);
            // The cast is exact: no more than the steps.
            (first, end / to_end, (to_end - to_end / factor) as usize)
        })
    }

    /// Buckets, those below and above included.
    pub(crate) fn buckets(&self) -> usize {
        self.magnitudes()
            .map(|(_, _, buckets)| buckets)
            .sum::<usize>()
            + 2
    }

    pub(crate) fn bucket(&self, value: i64) -> usize {
        let value = u128::try_from(value).unwrap_or(0);
        let mut before = 0;
        for (first, width, buckets) in self.magnitudes() {
            if value < first {
                break;
            }
            // The cast is exact where it is used: less than the buckets.
            let within = (value - first) / width;
            if within < buckets as u128 {
                return before + within as usize + 1;
            }
            before += buckets;
        }
        // Below the first magnitude, or behind the last.
        if before == 0 { 0 } else { before + 1 }
    }

    /// The lower bound of a bucket; of the one below it is the bound that it lies under.
    pub(crate) fn bound(&self, bucket: usize) -> u128 {
        let mut left = bucket.saturating_sub(1);
        let mut end = 0;
        for (first, width, buckets) in self.magnitudes() {
            if left < buckets {
                return first + width * left as u128;
            }
            left -= buckets;
            end = first + width * buckets as u128;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Powers of two begin buckets, on both sides of zero, up to the extremes.
    #[test]
    fn powers() {
        assert_eq!(power::bucket(0), 63);
        for (value, name) in [
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 4),
            (1023, 512),
            (1024, 1024),
            (i64::MAX, 1 << 62),
            (-1, -1),
            (-2, -2),
            (-3, -2),
            (-4, -4),
            (-1023, -512),
            (i64::MIN + 1, -(1 << 62)),
            (i64::MIN, -(1 << 62)),
        ] {
            assert_eq!(power::value(power::bucket(value)), name, "{value}");
        }
        for bucket in 0..power::BUCKETS {
            assert_eq!(power::bucket(power::value(bucket)), bucket);
        }
    }

    /// Values below, within and from the limit on, with a negative base and at the extremes.
    #[test]
    fn linear() {
        let linear = Linear::new(-10, 20, 10).unwrap();
        assert_eq!(linear.buckets(), 5);
        for (value, bucket) in [
            (i64::MIN, 0),
            (-11, 0),
            (-10, 1),
            (-1, 1),
            (0, 2),
            (19, 3),
            (20, 4),
            (i64::MAX, 4),
        ] {
            assert_eq!(linear.bucket(value), bucket, "{value}");
        }
        assert_eq!(
            [0, 1, 2, 3, 4].map(|bucket| linear.bound(bucket)),
            [-10, -10, 0, 10, 20]
        );
        assert_eq!(Linear::decode(linear.encode()), Some(linear));
        assert_eq!(Linear::decode(0), None);
    }

    /// Ranges and steps that make no buckets are refused.
    #[test]
    fn linear_refused() {
        assert!(matches!(
            Linear::new(0, 10, 0),
            Err(Error::LinearStep { .. })
        ));
        assert!(matches!(
            Linear::new(0, 10, 11),
            Err(Error::LinearStep { .. })
        ));
        assert!(matches!(
            Linear::new(10, 10, 1),
            Err(Error::LinearRange { .. })
        ));
        assert!(matches!(
            Linear::new(10, -10, 1),
            Err(Error::LinearRange { .. })
        ));
        assert!(matches!(
            Linear::new(i32::MIN, i32::MAX, 1),
            Err(Error::LinearRange { .. })
        ));
    }

    /// Twenty steps to the power of ten: nine buckets from 1 to 10, eighteen in each magnitude
    /// after.
    #[test]
    fn log_linear() {
        let tens = LogLinear::new(10, 0, 2, 20).unwrap();
        assert_eq!(tens.buckets(), 1 + 9 + 18 + 18 + 1);
        for (value, bucket) in [
            (i64::MIN, 0),
            (-1, 0),
            (0, 0),
            (1, 1),
            (9, 9),
            (10, 10),
            (14, 10),
            (15, 11),
            (99, 27),
            (100, 28),
            (149, 28),
            (150, 29),
            (999, 45),
            (1000, 46),
            (i64::MAX, 46),
        ] {
            assert_eq!(tens.bucket(value), bucket, "{value}");
        }
        for bucket in 1..tens.buckets() {
            let bound = i64::try_from(tens.bound(bucket)).unwrap();
            assert_eq!(tens.bucket(bound), bucket);
            assert_eq!(tens.bucket(bound - 1), bucket - 1);
        }
        assert_eq!(LogLinear::decode(tens.encode()), Some(tens));
        assert_eq!(LogLinear::decode(0), None);
        let twos = LogLinear::new(2, 1, 62, 8).unwrap();
        assert_eq!(twos.bucket(i64::MAX), twos.buckets() - 2);
        assert_eq!((twos.bucket(1), twos.bucket(2), twos.bucket(3)), (0, 1, 2));
    }

    /// A factor that its steps do not fit is refused, and so are ranges beyond 63 bits.
    #[test]
    fn log_linear_refused() {
        for (factor, steps) in [(10, 5), (10, 15), (10, 30), (10, 0), (3, 8), (16, 24)] {
            assert_eq!(
                LogLinear::new(factor, 0, 2, steps),
                Err(Error::LogLinearSteps { factor, steps })
            );
        }
        for factor in [0, 1] {
            assert_eq!(
                LogLinear::new(factor, 0, 2, 10),
                Err(Error::LogLinearFactor(factor))
            );
        }
        for (low, high) in [(3, 2), (0, 19), (0, u16::MAX)] {
            assert!(matches!(
                LogLinear::new(10, low, high, 10),
                Err(Error::LogLinearRange { .. })
            ));
        }
    }
}
