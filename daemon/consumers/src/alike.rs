//! How far the values that follow in a window depend on the one that it began with.
//!
//! A window begins where time is spent, so its first value is one of a share of time. The ones
//! behind it have shares of executions as far as they do not depend on the first. Of values that
//! follow each other at random they depend on nothing. Of values that come in turns each depends on
//! the one before, and all of a window together do not: when the turns have come round some times,
//! each value was met as often as it is executed. A value that lasts for the whole window is equal
//! to the first all the way.

use hotlist::Hotlist;

/// How far the values of a window may depend on the first: a share of executions is off by about
/// this part of what lies between the shares of time and of executions.
const MOST_ALIKE: f64 = 0.1;

/// Values compared with the first of their windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alike {
    pairs: u64,
    equal: u64,
    expected: f64,
    /// Firsts that another first would be equal to.
    by_time: f64,
}

/// The share of a value in a list; `None` of an empty one.
pub(super) fn share(list: &Hotlist<u64>, value: u64) -> Option<f64> {
    let events = list.events();
    let same = list.tuples().find(|tuple| tuple.value == value);
    let share = same.map_or(0.0, |tuple| tuple.estimate() / events.max(1) as f64);
    (events > 0).then_some(share.min(1.0))
}

impl Alike {
    /// Counts a value that is equal to the window's first or is not; with the shares of the first
    /// one among such values, and among firsts.
    pub(super) fn count(&mut self, is_equal: bool, among: f64, of_firsts: f64) {
        self.pairs += 1;
        self.equal += u64::from(is_equal);
        self.expected += among;
        self.by_time += of_firsts;
    }

    /// Whether values do not depend on the first, as far as can be told: by the part of the values
    /// that are what the first is because it is, less two of its standard errors.
    pub(super) fn is_independent(&self) -> bool {
        self.part()
            .is_none_or(|(alike, error)| alike.abs() <= error)
    }

    /// Whether values are mostly others than the first, as where they take turns of which a window
    /// sees few.
    pub(super) fn is_unlike(&self) -> bool {
        self.part().is_some_and(|(alike, error)| alike < -error)
    }

    /// The part of the values that are what the first is because it is, and how large it may be of
    /// values that do not depend on it; `None` of a constant.
    fn part(&self) -> Option<(f64, f64)> {
        let pairs = self.pairs as f64;
        let (other, others) = (pairs - self.expected, pairs - self.by_time);
        if other < 1.0 || others < 1.0 {
            // It is a constant.
            return None;
        }
        // With this part a of the values t the time's share and e that of executions, these are
        // a t + (1 - a) e on average: equal to the first more often than by chance by a (1 - t).
        let alike = (self.equal as f64 - self.expected) / others;
        let error = (self.expected * other / pairs).sqrt() / others;
        Some((alike, MOST_ALIKE + 2.0 * error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of so many values behind the first, whose number tells the value.
    fn windows(behind: u32, value: impl Fn(u32) -> u32, share: f64) -> Alike {
        let mut alike = Alike::default();
        for start in 0..300 {
            for of in 1..=behind {
                alike.count(value(start + of) == value(start), share, share);
            }
        }
        alike
    }

    /// Values that take turns are as good as independent where a window has several turns, and
    /// not where it has one. Values that last longer than a window never are.
    #[test]
    fn turns() {
        let turns = |number| number % 3;
        assert!(windows(12, turns, 1.0 / 3.0).is_independent());
        assert!(!windows(1, turns, 1.0 / 3.0).is_independent());
        let lasts = |number| number / 40 % 2;
        assert!(!windows(12, lasts, 0.5).is_independent());
        assert!(windows(12, |_| 7, 1.0).is_independent());
    }
}
