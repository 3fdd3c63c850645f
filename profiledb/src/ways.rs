//! Where control went, and what that weighs.

/// How often windows saw a conditional branch go where.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Directions {
    /// Times it was taken.
    pub taken: u64,
    /// Times it was not.
    pub not_taken: u64,
    /// Times the window could not tell.
    pub unknown: u64,
    /// What each of the three weighs, in windows of a mean interval.
    pub weights: [f64; 3],
    /// The sum over windows of the square of what their known events weigh together; `None`: not
    /// known.
    pub squares: Option<f64>,
}

/// Directions that weigh one each: taken, not taken, unknown.
impl From<[u64; 3]> for Directions {
    fn from([taken, not_taken, unknown]: [u64; 3]) -> Self {
        Self {
            taken,
            not_taken,
            unknown,
            weights: [taken, not_taken, unknown].map(|times| times as f64),
            squares: None,
        }
    }
}

/// How often windows saw a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// Times.
    pub times: u64,
    /// What these weigh, in windows of a mean interval.
    pub weight: f64,
    /// The sum over windows of the square of what their calls weigh together; `None`: not known.
    pub squares: Option<f64>,
}

/// Calls that weigh one each.
impl From<u64> for Calls {
    fn from(times: u64) -> Self {
        Self {
            times,
            weight: times as f64,
            squares: None,
        }
    }
}
