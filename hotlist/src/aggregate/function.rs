//! The aggregating functions and the layout of what they keep.

use super::buckets::{Linear, LogLinear, power};

/// An aggregating function. What it keeps are 64-bit words in this layout:
///
/// | function | words |
/// |---|---|
/// | count | the count |
/// | sum, min, max | the number, as the signed integer with these bits |
/// | avg | count, sum |
/// | stddev | count, sum, and the sum of squares in 128 bits: high word, low word |
/// | quantize | 127 counts: -2^62, ..., -1, 0, 1, ..., 2^62 |
/// | lquantize | [the parameters](Linear::encode), the count below, the levels, the count above |
/// | llquantize | [the parameters](LogLinear::encode), the count below, the buckets, the count above |
///
/// Sums wrap around at 64 bits, the sum of squares at 128: that is what keeps them the same in
/// any order and any grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// How many values there were.
    Count,
    /// The sum of all values.
    Sum,
    /// The mean of all values.
    Avg,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The standard deviation of all values.
    Stddev,
    /// The distribution of values over powers of two.
    Quantize,
    /// The distribution of values over steps of one width.
    Lquantize(Linear),
    /// The distribution of values over steps that widen from magnitude to magnitude.
    Llquantize(LogLinear),
}

impl AggregateFunction {
    /// How many words are kept.
    pub fn words(&self) -> usize {
        match self {
            Self::Count | Self::Sum | Self::Min | Self::Max => 1,
            Self::Avg => 2,
            Self::Stddev => 4,
            Self::Quantize => power::BUCKETS,
            Self::Lquantize(linear) => 1 + linear.buckets(),
            Self::Llquantize(log_linear) => 1 + log_linear.buckets(),
        }
    }

    /// Makes the words those of no values.
    pub fn clear(&self, data: &mut [u64]) {
        data.fill(0);
        if let Some(word) = data.first_mut() {
            match self {
                // The casts here and below keep the bits.
                Self::Min => *word = i64::MAX as u64,
                Self::Max => *word = i64::MIN as u64,
                Self::Lquantize(linear) => *word = linear.encode(),
                Self::Llquantize(log_linear) => *word = log_linear.encode(),
                _ => {}
            }
        }
    }

    /// Adds one value. Data shorter than [`AggregateFunction::words`] keeps what it has room for.
    pub fn apply(&self, data: &mut [u64], value: i64) {
        let bucket = match self {
            Self::Count => 0,
            Self::Sum => return add(data, 0, value as u64),
            Self::Avg => {
                add(data, 1, value as u64);
                0
            }
            Self::Min => return fold(data, i64::min, value),
            Self::Max => return fold(data, i64::max, value),
            Self::Stddev => {
                add(data, 1, value as u64);
                add_squares(data, u128::from(value.unsigned_abs()).pow(2));
                0
            }
            Self::Quantize => power::bucket(value),
            Self::Lquantize(linear) => 1 + linear.bucket(value),
            Self::Llquantize(log_linear) => 1 + log_linear.bucket(value),
        };
        add(data, bucket, 1);
    }

    /// Adds what another data of this function keeps.
    pub fn merge(&self, data: &mut [u64], other: &[u64]) {
        let word = |at: usize| other.get(at).copied().unwrap_or_default();
        let sums = match self {
            Self::Min => return fold(data, i64::min, word(0) as i64),
            Self::Max => return fold(data, i64::max, word(0) as i64),
            Self::Stddev => {
                add_squares(data, u128::from(word(2)) << 64 | u128::from(word(3)));
                0..2
            }
            // The parameters stay.
            Self::Lquantize(_) | Self::Llquantize(_) => 1..self.words(),
            _ => 0..self.words(),
        };
        for at in sums {
            add(data, at, word(at));
        }
    }

    /// The one number that the data comes down to, rounded towards zero: the count, the sum, the
    /// mean, the smallest, the largest, the standard deviation, or for distributions the number of
    /// values. `None` for a mean or a deviation of no values.
    pub fn number(&self, data: &[u64]) -> Option<i128> {
        let word = |at: usize| data.get(at).copied().unwrap_or_default();
        let signed = |at: usize| i128::from(word(at) as i64);
        let count = word(0);
        Some(match self {
            Self::Count => i128::from(count),
            Self::Sum | Self::Min | Self::Max => signed(0),
            Self::Avg => signed(1).checked_div(i128::from(count))?,
            Self::Stddev => {
                let squares = u128::from(word(2)) << 64 | u128::from(word(3));
                let mean_square = squares.checked_div(u128::from(count))?;
                let mean = signed(1).checked_div(i128::from(count))?.unsigned_abs();
                // Less than zero only if a sum has wrapped around.
                i128::try_from(mean_square.saturating_sub(mean * mean).isqrt()).unwrap_or(i128::MAX)
            }
            Self::Quantize | Self::Lquantize(_) | Self::Llquantize(_) => self
                .counts(data)
                .iter()
                .map(|&count| i128::from(count))
                .sum(),
        })
    }

    /// The buckets of a distribution, those below and above included; nothing for the others.
    pub(crate) fn counts<'a>(&self, data: &'a [u64]) -> &'a [u64] {
        match self {
            Self::Quantize => data.get(..power::BUCKETS).unwrap_or(data),
            Self::Lquantize(_) | Self::Llquantize(_) => {
                data.get(1..self.words()).unwrap_or_default()
            }
            _ => &[],
        }
    }
}

fn add(data: &mut [u64], at: usize, amount: u64) {
    if let Some(word) = data.get_mut(at) {
        *word = word.wrapping_add(amount);
    }
}

fn add_squares(data: &mut [u64], amount: u128) {
    if let Some([high, low]) = data.get_mut(2..4) {
        let sum = (u128::from(*high) << 64 | u128::from(*low)).wrapping_add(amount);
        (*high, *low) = ((sum >> 64) as u64, sum as u64);
    }
}

fn fold(data: &mut [u64], choose: impl Fn(i64, i64) -> i64, value: i64) {
    if let Some(word) = data.first_mut() {
        *word = choose(*word as i64, value) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(function: AggregateFunction, values: &[i64]) -> Vec<u64> {
        let mut data = vec![0; function.words()];
        function.clear(&mut data);
        for &value in values {
            function.apply(&mut data, value);
        }
        data
    }

    fn number(function: AggregateFunction, values: &[i64]) -> Option<i128> {
        function.number(&of(function, values))
    }

    /// Each function's number over a small set with negative values, and its layout.
    #[test]
    fn small_set() {
        let set = [2, -1, 2, 5, 4, 3, -6, 4, 2];
        assert_eq!(number(AggregateFunction::Count, &set), Some(9));
        assert_eq!(number(AggregateFunction::Sum, &set), Some(15));
        assert_eq!(number(AggregateFunction::Avg, &set), Some(1));
        assert_eq!(number(AggregateFunction::Min, &set), Some(-6));
        assert_eq!(number(AggregateFunction::Max, &set), Some(5));
        assert_eq!(of(AggregateFunction::Avg, &set), [9, 15]);
        assert_eq!(of(AggregateFunction::Stddev, &set), [9, 15, 0, 115]);
        // sqrt(115/9 - (15/9)^2), with whole-number division: sqrt(12 - 1).
        assert_eq!(number(AggregateFunction::Stddev, &set), Some(3));
        assert_eq!(number(AggregateFunction::Quantize, &set), Some(9));
        assert_eq!(number(AggregateFunction::Avg, &[]), None);
        assert_eq!(number(AggregateFunction::Stddev, &[]), None);
    }

    /// Extremes fill 128 bits of squares and wrap the sums around, without a panic.
    #[test]
    fn extremes() {
        assert_eq!(
            of(AggregateFunction::Stddev, &[i64::MIN]),
            [1, 1 << 63, 1 << 62, 0]
        );
        assert_eq!(
            number(AggregateFunction::Stddev, &[i64::MIN, i64::MIN]),
            Some(1 << 63)
        );
        assert_eq!(
            number(AggregateFunction::Sum, &[i64::MAX, 1]),
            Some(i128::from(i64::MIN))
        );
        assert_eq!(number(AggregateFunction::Stddev, &[i64::MIN; 4]), Some(0));
        assert_eq!(
            number(AggregateFunction::Min, &[i64::MAX]),
            Some(i128::from(i64::MAX))
        );
        assert_eq!(
            number(AggregateFunction::Max, &[i64::MIN]),
            Some(i128::from(i64::MIN))
        );
        for function in [
            AggregateFunction::Stddev,
            AggregateFunction::Avg,
            AggregateFunction::Quantize,
        ] {
            function.apply(&mut [], 1);
            function.merge(&mut [0], &[]);
            function.number(&[]);
        }
    }
}
