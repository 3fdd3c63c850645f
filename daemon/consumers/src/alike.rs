//! How far the values that follow in a window depend on the one that it began with.
//!
//! A window begins where time is spent, so its first value is one of a share of time. The ones
//! behind it have shares of executions as far as they do not depend on the first. Of values that
//! follow each other at random they depend on nothing. Of values that come in turns each depends on
//! the one before, and all of a window together do not: when the turns have come round some times,
//! each value was met as often as it is executed. A value that lasts for the whole window is equal
//! to the first all the way.
//!
//! Where nearly all windows begin with one value, this says nothing: what comes behind it is all
//! that there is to compare with. Then the events of a window tell by how each follows from the one
//! before ([`Sequence`]).

use hotlist::unlike::MOST_OFF;
use hotlist::{Estimates, Hotlist};

/// How far the values of a window may depend on the first: a share of executions is off by about
/// this part of what lies between the shares of time and of executions.
const MOST_ALIKE: f64 = 0.1;
/// Standard errors that chance is granted.
const ERRORS: f64 = 2.0;

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
        let (alike, error) = self.measured()?;
        Some((alike, MOST_ALIKE + ERRORS * error))
    }

    /// That part, and its standard error where it is none.
    fn measured(&self) -> Option<(f64, f64)> {
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
        Some((alike, error))
    }
}

/// How each event of a window follows from the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    /// Events behind the first ones of their windows.
    events: u64,
    /// Some of them, compared with the ones before them.
    steps: Alike,
}

impl Sequence {
    /// Counts an event that is not the first of its window so often.
    pub(super) fn saw(&mut self, times: u64) {
        self.events += times;
    }

    /// Compares an event with the one before, which has this share.
    pub(super) fn step(&mut self, is_equal: bool, among: f64) {
        self.steps.count(is_equal, among, among);
    }

    /// Whether shares of later events may be off by more than [`MOST_OFF`] because windows begin
    /// with some values: of `firsts` windows, whose shares differ from those of later events by at
    /// most `apart`. And whether events take turns then.
    ///
    /// In a chain whose neighbours have the correlation a, the n events behind the first are off by
    /// (a + a^2 + ... + a^n) / n of that difference, on average. Of events that take turns, the sum
    /// is between a and 0.
    pub(super) fn may_be_off(&self, firsts: u64, apart: f64) -> Option<IsInTurns> {
        let (alike, error) = self.steps.measured()?;
        let certain = (alike.abs() - ERRORS * error).clamp(0.0, 1.0);
        let events = (self.events as f64 / firsts.max(1) as f64).max(1.0);
        let is_in_turns = alike < 0.0;
        let sum = match is_in_turns {
            true => certain,
            false if certain < 1.0 => certain * (1.0 - certain.powf(events)) / (1.0 - certain),
            false => events,
        };
        (sum / events * apart > MOST_OFF).then_some(IsInTurns(is_in_turns))
    }
}

/// Whether events take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IsInTurns(pub(super) bool);

/// The most that lies between the shares of a value in two lists.
pub(super) fn apart(one: &Hotlist<u64>, other: &Hotlist<u64>) -> f64 {
    let shares = |list: &Hotlist<u64>| {
        let list = Estimates::from(list);
        let all = list.events.max(1.0);
        let shares = list
            .tuples()
            .map(move |tuple| (tuple.value, tuple.estimate / all));
        shares.collect::<Vec<(u64, f64)>>()
    };
    let (one, other) = (shares(one), shares(other));
    let of = |list: &[(u64, f64)], value: u64| {
        let found = list.iter().find(|(of, _)| *of == value);
        found.map_or(0.0, |(_, share)| *share)
    };
    let values = one.iter().chain(&other).map(|(value, _)| *value);
    let apart = values.map(|value| (of(&one, value) - of(&other, value)).abs());
    apart.fold(0.0, f64::max)
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
