//! What can be wrong with what a caller hands in.

use crate::limits;

/// Why a configuration or the stored parts of a list were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A list of no or one tuple cannot tell a frequent value from a new one.
    #[error("a hotlist needs room for 2 to {max} tuples, not {0}", max = limits::MAX_CAPACITY)]
    Capacity(usize),
    /// The factor by which p falls does not make it fall, or too little or far to be of use.
    #[error(
        "the factor by which p falls must lie between {min} and {max}, not {0}",
        min = limits::MIN_FACTOR,
        max = limits::MAX_FACTOR
    )]
    Factor(f64),
    /// The ends of SatCount leave no range to count in.
    #[error("SatCount needs MinEnd < MaxEnd <= {max}, not {min_end} and {max_end}", max = limits::MAX_END)]
    Ends {
        /// MinEnd as given.
        min_end: u32,
        /// MaxEnd as given.
        max_end: u32,
    },
    /// p is no probability that a list can have come to.
    #[error("p must lie in (0, 1] and not be vanishingly small, not {0}")]
    Probability(f64),
    /// SatCount is outside its ends, or where the other method would be in use.
    #[error("SatCount {0} does not fit the ends or the method of the list")]
    SatCount(u32),
    /// More tuples than the list has room for.
    #[error("{tuples} tuples in a list with room for {capacity}")]
    TooManyTuples {
        /// Tuples given.
        tuples: usize,
        /// N of the list.
        capacity: usize,
    },
    /// A tuple that counts nothing, or more than a list can count.
    #[error("tuple {index} has counts that no list can have: {counted} and {certain}")]
    Counts {
        /// Position of the tuple.
        index: usize,
        /// Events of the tuple that were counted with probability p.
        counted: u64,
        /// Events of the tuple that were counted surely.
        certain: u64,
    },
    /// A variance that is no number from 0 on.
    #[error("tuple {0} has a variance that no list can have")]
    Variance(usize),
    /// One value has two tuples.
    #[error("tuple {0} repeats the value of an earlier one")]
    Duplicate(usize),
    /// A tuple of correlated values has 1 to 8 of them.
    #[error("a tuple has 1 to {max} values, not {0}", max = limits::MAX_TUPLE)]
    TupleLength(usize),
    /// Linear buckets of no width, or wider than all of the range.
    #[error("a step of {step} makes no buckets in a range of {range}")]
    LinearStep {
        /// The step.
        step: u16,
        /// The values between the bounds.
        range: i64,
    },
    /// Linear buckets over nothing, or too many of them.
    #[error("no linear buckets from {base} to {limit}: 1 to 65535 steps are possible")]
    LinearRange {
        /// The lower bound.
        base: i32,
        /// The upper bound.
        limit: i32,
    },
    /// Magnitudes that do not grow.
    #[error("the factor of log-linear buckets must be at least 2, not {0}")]
    LogLinearFactor(u16),
    /// Magnitudes in the wrong order, or beyond 63 bits.
    #[error("no magnitudes from {factor}^{low} to {factor}^{high} in 63 bits")]
    LogLinearRange {
        /// The factor.
        factor: u16,
        /// The lowest exponent.
        low: u16,
        /// The highest exponent.
        high: u16,
    },
    /// Steps that do not cut every magnitude into whole numbers.
    #[error("{steps} steps do not fit magnitudes of a factor of {factor}")]
    LogLinearSteps {
        /// The factor.
        factor: u16,
        /// The steps.
        steps: u16,
    },
    /// Two aggregations have one id.
    #[error("aggregation {0} is there twice")]
    SameAggregation(u32),
}
