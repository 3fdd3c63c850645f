//! Whether events come from parts that differ: of a program, or processes of it.
//!
//! Windows are as many in each part as it has time, and not as it has executions. So the share of a
//! value in all windows is no share of executions where the parts differ in it
//! (`docs/decisions/037-time-or-executions.md`).

/// A share of executions may be off by so much.
pub const MOST_OFF: f64 = 0.03;
/// Standard errors that chance is granted.
pub const ERRORS: f64 = 2.5;
/// How far the shares of parts in executions may be from those in windows: the mean of the squares
/// of the difference, in parts of the latter. It is two where executions of a part with nine tenths
/// of the windows take ten times as long as those of the other one, and the most for that ratio.
const APART: f64 = 2.0;

/// Whether the share of a value varies between parts by more than chance, so that the share in all
/// of them may be off by more than [`MOST_OFF`]: by the variance between them, and the standard
/// error of that where they are alike. By Cauchy's inequality the share is off by no more than the
/// root of the variance and of how far the parts' own shares are from those in windows.
#[must_use]
pub fn are_unlike(variance: f64, error: f64) -> bool {
    variance > ERRORS * error && (APART * variance).sqrt() > MOST_OFF
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It must be certain, and matter.
    #[test]
    fn limits() {
        assert!(are_unlike(0.01, 0.001));
        assert!(!are_unlike(0.01, 0.005));
        assert!(!are_unlike(0.0004, 0.000_01));
        assert!(!are_unlike(-0.01, 0.001));
        assert!(!are_unlike(f64::NAN, 0.0));
    }
}
