//! Which windows count for values: the coins.
//!
//! A window is accepted with the product of two probabilities.
//!
//! The first undoes the pull of stalls ([`crate::blocks`]). It is for shares of executions.
//! Windows that are long enough to tell these by what comes back ([`crate::tables`]) are all kept,
//! since shares of time need all of them; there the coin decides only whether branches and calls
//! count. Where a capture plan would be evaluated
//! for a window, the interrupt's handler throws a coin for it: with a share somewhat above the
//! probability ([`crate::plans`]), since the handler cannot be told anew at each sample. A second
//! coin is thrown here, and the two are one of that probability.
//!
//! The second is the sample's interval over the longest interval that is drawn. An interval stays in
//! force for many samples, so a phase of the program that meets a short one is sampled more often
//! than a phase that meets a long one. Cycles are weighted by the interval. Hotlists count windows:
//! so a window is accepted in proportion to the time that it stands for. The clock `timer` draws
//! each interval anew: there each moment of the program is as likely as any other, and no window
//! is turned away.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sampler::Intervals;

/// The coins, and what they know of intervals.
#[derive(Debug)]
pub(crate) struct Acceptance {
    coins: StdRng,
    /// The longest interval that may have been drawn since the tables were last taken, in the
    /// clock's unit; 0 where intervals do not matter.
    longest: u64,
    /// The longest one that may be drawn now.
    present: u64,
}

impl Acceptance {
    /// Coins of a seed, for intervals around `mean`; `None` where each is drawn anew.
    pub(crate) fn new(seed: u64, mean: Option<u64>) -> Self {
        let longest = mean.map_or(0, Intervals::longest);
        Self {
            coins: StdRng::seed_from_u64(seed ^ 0x5eed_acce),
            longest,
            present: longest,
        }
    }

    /// Takes notice of another mean. Windows of one set of tables are compared with each other, so a
    /// shorter mean changes nothing until the tables are taken: each window goes on to stand for as
    /// much time as those before.
    pub(crate) fn set_mean(&mut self, mean: u64) {
        if self.present != 0 {
            self.present = Intervals::longest(mean);
            self.longest = self.longest.max(self.present);
        }
    }

    /// The tables were taken: new ones begin.
    pub(crate) fn begin(&mut self) {
        self.longest = self.present;
    }

    /// How far samples come at even distances of time ([`hotlist::Draws::even`]): less the square of
    /// the coefficient of variation of intervals that are each drawn anew, uniform on 1/2 to 3/2 of
    /// the mean. Others are in force for long, and windows stand for them.
    pub(crate) fn evenness(&self) -> f64 {
        match self.longest {
            0 => 1.0 - 1.0 / 12.0,
            _ => 1.0,
        }
    }

    /// The probability that is due to a sample's interval.
    pub(crate) fn of_interval(&self, interval: u64) -> f64 {
        match self.longest {
            0 => 1.0,
            longest => (interval as f64 / longest as f64).min(1.0),
        }
    }

    /// Whether a window that is kept for its values counts for branches and calls, too.
    pub(crate) fn draw(&mut self, probability: f64) -> bool {
        probability >= 1.0 || self.coins.random::<f64>() < probability
    }

    /// Whether a window is not accepted, so that it is with this probability in all. The handler has
    /// let this share of windows pass, and refused this one or not.
    pub(crate) fn thinned(
        &mut self,
        probability: f64,
        share: f64,
        by_handler: bool,
    ) -> Option<Thinned> {
        thinned(probability, share, by_handler, || self.coins.random())
    }
}

/// That a window is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinned {
    /// As it should be.
    Rightly,
    /// By the handler, which had yet to be told that more are wanted: fewer windows than there
    /// should be start there for the while.
    Early,
}

fn thinned(
    probability: f64,
    share: f64,
    by_handler: bool,
    draw: impl FnOnce() -> f64,
) -> Option<Thinned> {
    if by_handler {
        return Some(match probability > share {
            true => Thinned::Early,
            false => Thinned::Rightly,
        });
    }
    (probability < share && draw() * share >= probability).then_some(Thinned::Rightly)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refusals of the handler and of the collector together are those that the probability asks
    /// for; where the handler's share is the smaller one, what it refuses is said.
    #[test]
    fn two_coins_are_one() {
        let mut draws = StdRng::seed_from_u64(5);
        for (probability, share, expected) in [
            (1.0, 1.0, 1.0),
            (0.3, 1.0, 0.3),
            (0.3, 0.39, 0.3),
            (0.3, 0.3, 0.3),
            (0.3, 0.2, 0.2),
        ] {
            let (mut accepted, mut early) = (0, 0);
            for _ in 0..100_000 {
                let by_handler = draws.random::<f64>() >= share;
                match thinned(probability, share, by_handler, || draws.random()) {
                    None => accepted += 1,
                    Some(Thinned::Early) => early += 1,
                    Some(Thinned::Rightly) => {}
                }
            }
            // Five standard deviations of as many coins.
            let off = f64::from(accepted) - 1e5 * expected;
            assert!(off.abs() <= 800.0, "{accepted} at {probability} of {share}");
            assert_eq!(early > 0, probability > share, "{probability} of {share}");
        }
    }

    /// A phase that meets short intervals and one that meets long ones have as many windows
    /// accepted as they take time, whatever the mean of the intervals becomes meanwhile.
    #[test]
    fn windows_stand_for_time() {
        let mut acceptance = Acceptance::new(3, Some(1_000_000));
        let mut accepted = |interval: u64, mean: u64| {
            acceptance.set_mean(mean);
            let samples = 50_000_000_000 / interval;
            let kept = (0..samples).filter(|_| {
                let probability = acceptance.of_interval(interval);
                acceptance.thinned(probability, 1.0, false).is_none()
            });
            kept.count() as f64
        };
        let (short, long) = (accepted(500_000, 1_000_000), accepted(1_499_999, 1_000_000));
        let halved = accepted(500_000, 500_000);
        // 33,333 on average each; five standard deviations of the least certain of them.
        for found in [short, long, halved] {
            assert!((found - 33_333.0).abs() < 750.0, "{found}");
        }
    }

    /// A longer mean turns away more of what comes; new tables begin with the mean of the moment.
    #[test]
    fn means() {
        let mut acceptance = Acceptance::new(3, Some(1_000_000));
        assert_eq!(acceptance.of_interval(1_499_999), 1.0);
        acceptance.set_mean(2_000_000);
        assert!((acceptance.of_interval(1_499_999) - 0.5).abs() < 1e-6);
        acceptance.set_mean(1_000_000);
        assert!((acceptance.of_interval(1_499_999) - 0.5).abs() < 1e-6);
        acceptance.begin();
        assert_eq!(acceptance.of_interval(1_499_999), 1.0);
        assert_eq!(acceptance.of_interval(u64::MAX), 1.0);
    }

    /// Where each interval is drawn anew, none has a say.
    #[test]
    fn without_intervals() {
        let mut acceptance = Acceptance::new(3, None);
        acceptance.set_mean(5);
        assert_eq!(acceptance.of_interval(1), 1.0);
        assert!(acceptance.evenness() < 1.0);
    }
}
