//! Executions that no window saw.
//!
//! Shares of executions are those of events that come behind another one in a window. What comes
//! after longer than a window is the first event of its window, or is not seen: of a loop whose
//! function is called once in a while, the first round. Where one execution in forty has none
//! behind it in its window, that round is one value in forty, and by later events alone it is none.
//!
//! First events are shares of time. Those that come after long have most of them, since windows
//! begin in the stretch before. So the executions that were not seen get the shares of first
//! events. They are three in a hundred at most, or no shares of executions are told
//! (`docs/decisions/037-time-or-executions.md`).

use std::collections::BTreeMap;

use super::as_float;
use super::trend::Trend;
use super::values::{Base, Share, Values};

/// Gives those of some values that are of executions the ones that were not seen. All are of one
/// PC.
pub(super) fn fill(of_pc: &mut [Values]) {
    for index in 0..of_pc.len() {
        let (before, rest) = of_pc.split_at_mut(index);
        let Some(own) = rest
            .first_mut()
            .filter(|own| own.base == Base::Executions && own.unknown > 0)
        else {
            continue;
        };
        // A parameter's own name comes before that of its executions.
        let firsts = before.iter().rfind(|other| {
            !other.base.is_of_executions()
                && other.parameter == own.parameter
                && other.caller == own.caller
        });
        if let Some(firsts) = firsts {
            own.fill(firsts);
        }
    }
}

impl Values {
    /// Adds the executions that no window saw, with the shares of the first events of windows. What
    /// was reached and not known of these is not known of executions either.
    fn fill(&mut self, firsts: &Values) {
        let known = firsts.samples();
        if known == 0 || firsts.shares.is_empty() {
            return;
        }
        let unknown_part = as_float(firsts.unknown) / as_float(firsts.reached.max(1));
        let unknown = as_float(self.reached) * unknown_part;
        let unseen = (as_float(self.unknown) - unknown).max(0.0);
        // At most what is unknown.
        let unseen = unseen.round() as u64;
        let before = as_float(self.samples());
        self.unknown -= unseen.min(self.unknown);
        let (unseen, all) = (as_float(unseen), as_float(self.samples()));
        if unseen == 0.0 || all == 0.0 {
            return;
        }
        let (seen, part) = (before / all, unseen / all);
        let mut shares: BTreeMap<u64, Share> = BTreeMap::new();
        for mut share in std::mem::take(&mut self.shares) {
            (share.low, share.high) = (share.low * seen, share.high * seen);
            shares.insert(share.value, share);
        }
        let weight = unseen / as_float(known);
        for first in &firsts.shares {
            let none = Share {
                estimate: 0.0,
                variance: 0.0,
                low: 0.0,
                high: 0.0,
                trend: Trend::Steady,
                ..*first
            };
            let share = shares.entry(first.value).or_insert(none);
            share.estimate += first.estimate * weight;
            share.variance += first.variance * weight * weight;
            share.low += first.low * part;
            share.high += first.high * part;
        }
        self.shares = shares.into_values().collect();
        for index in 0..self.shares.len() {
            let percent = self.percent(self.shares[index].estimate);
            let share = &mut self.shares[index];
            share.percent = percent;
            (share.low, share.high) = (share.low.min(percent), share.high.max(percent));
        }
        self.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Words;

    impl Values {
        /// Values of an argument with these estimates.
        pub(in crate::view) fn made_up(
            base: Base,
            estimates: &[(u64, f64)],
            (reached, unknown): (u64, u64),
        ) -> Values {
            let mut values = Values {
                pc: 0,
                caller: None,
                parameter: "arg1".to_owned(),
                base,
                independent: true,
                reached,
                unknown,
                windows: reached - unknown,
                threshold: 1.0,
                by_process: Vec::new(),
                typed: None,
                name: None,
                words: Words::None,
                pointed: BTreeMap::new(),
                live: true,
                shares: Vec::new(),
            };
            let share = |(value, estimate): &(u64, f64)| Share {
                value: *value,
                estimate: *estimate,
                variance: 0.0,
                percent: values.percent(*estimate),
                low: 0.0,
                high: 100.0,
                trend: Trend::Steady,
            };
            values.shares = estimates.iter().map(share).collect();
            values
        }
    }

    fn percents(values: &Values) -> Vec<(u64, f64)> {
        let rounded = |share: &Share| (share.value, share.percent.round());
        values.shares.iter().map(rounded).collect()
    }

    /// A loop of twelve rounds whose function is called once in a while: the first round has its
    /// share, too, and all shares add up.
    #[test]
    fn first_round() {
        let rounds: Vec<(u64, f64)> = (2..=12).map(|round| (round, 100.0)).collect();
        let mut of_pc = [
            Values::made_up(Base::Time, &[(1, 920.0), (2, 40.0), (3, 40.0)], (1000, 0)),
            Values::made_up(Base::Executions, &rounds, (1200, 100)),
        ];
        fill(&mut of_pc);
        let [firsts, executions] = of_pc;
        assert_eq!(percents(&firsts)[0], (1, 92.0));
        let shares = percents(&executions);
        assert_eq!(shares.len(), 12);
        assert!(
            shares
                .iter()
                .all(|(_, percent)| *percent == 8.0 || *percent == 9.0)
        );
        let all: f64 = executions.shares.iter().map(|share| share.percent).sum();
        assert!((all - 100.0).abs() < 1e-6 && executions.unknown == 0);
        let whole = |share: &Share| share.low <= share.percent && share.percent <= share.high;
        assert!(executions.shares.iter().all(whole));
    }

    /// What windows do not know stays unknown. Of another parameter or caller nothing is taken.
    #[test]
    fn unknown_stays() {
        let executions = Values::made_up(Base::Executions, &[(7, 950.0)], (1000, 50));
        for (firsts, unknown) in [
            (Values::made_up(Base::Time, &[(1, 900.0)], (1000, 100)), 50),
            (Values::made_up(Base::Time, &[(1, 980.0)], (1000, 20)), 20),
            (Values::made_up(Base::Time, &[], (1000, 1000)), 50),
            (Values::made_up(Base::Entries, &[(1, 900.0)], (900, 0)), 50),
        ] {
            let mut of_pc = [firsts, executions.clone()];
            fill(&mut of_pc);
            assert_eq!(of_pc[1].unknown, unknown);
        }
        let other = Values {
            caller: Some(1),
            ..Values::made_up(Base::Time, &[(1, 900.0)], (900, 0))
        };
        let mut of_pc = [other, executions.clone()];
        fill(&mut of_pc);
        assert_eq!(of_pc[1], executions);
    }
}
