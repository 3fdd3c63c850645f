//! Which windows count for values: the coins.
//!
//! A window is accepted with the product of two probabilities, and may count twice.
//!
//! The first undoes the pull of stalls (`pipeline::blocks`). It is for shares of
//! executions. Windows that are long enough to tell these by what comes back
//! ([`crate::tables`]) are all kept, since shares of time need all of them; there
//! branches and calls count in part. In recordings of versions that went by plans the interrupt's
//! handler has thrown a coin for a window, with a share somewhat above the probability. A second
//! coin is thrown here, and the two are one of that probability.
//!
//! The second is for the sample's interval. An interval stays in force for many samples, so a phase
//! of the program that meets a short one is sampled more often than a phase that meets a long one.
//! Cycles are weighted by the interval. Hotlists count events: so the events of a window count as
//! often as its interval is long, in mean intervals. A coin rounds that to a whole number: 0, 1 or
//! 2 as a rule. The clock `timer` draws each interval anew: there each moment of the program is as
//! likely as any other, and each window counts once.
//! `docs/decisions/060-windows-count-by-interval.md` compares this with narrower intervals.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The coins, and what they know of intervals.
#[derive(Debug)]
pub struct Acceptance {
    coins: StdRng,
    /// The mean interval when the tables were last taken, in the clock's unit, which counts once; 0
    /// where intervals do not matter.
    once: u64,
    /// The mean interval now.
    mean: u64,
}

/// How often a window counts at most. An interval may be so many times as long as the mean of the
/// tables only while the service's governor makes intervals longer.
const MOST: f64 = 16.0;

impl Acceptance {
    /// Coins of a seed, for intervals around `mean`; `None` where each is drawn anew.
    pub fn new(seed: u64, mean: Option<u64>) -> Self {
        let mean = mean.unwrap_or(0);
        Self {
            coins: StdRng::seed_from_u64(seed ^ 0x5eed_acce),
            once: mean,
            mean,
        }
    }

    /// Takes notice of another mean. Windows of one set of tables are compared with each other, so
    /// it changes nothing until the tables are taken: each window goes on to stand for as much time
    /// as those before.
    pub fn set_mean(&mut self, mean: u64) {
        if self.mean != 0 {
            self.mean = mean.max(1);
        }
    }

    /// The tables were taken: new ones begin.
    pub fn begin(&mut self) {
        self.once = self.mean;
    }

    /// How far samples come at even distances of time ([`hotlist::Draws::even`]), beside the part
    /// of them that is turned away: less the square of the coefficient of variation of intervals
    /// that are each drawn anew, uniform on 1/2 to 3/2 of the mean. Others are in force for long,
    /// and windows stand for them, but for the coin that rounds: the mean square of the intervals
    /// is 13/12 of the square of the mean, that of the counts is 5/4 of it.
    pub fn evenness(&self) -> f64 {
        match self.once {
            0 => 1.0 - 1.0 / 12.0,
            _ => 13.0 / 12.0 / (5.0 / 4.0),
        }
    }

    /// How many mean intervals long a sample's interval is.
    pub fn means_of(&self, interval: u64) -> f64 {
        match self.once {
            0 => 1.0,
            mean => (interval as f64 / mean as f64).min(MOST),
        }
    }

    /// How often a window counts that was accepted with a probability of so many mean intervals,
    /// but one at most: as often as these are, on average.
    pub fn times(&mut self, means: f64) -> u32 {
        if means <= 1.0 {
            return 1;
        }
        (means + self.coins.random::<f64>()) as u32
    }

    /// Whether a window is not accepted, so that it is with this probability in all. The handler
    /// has let this share of windows pass, and refused this one or not.
    pub fn thinned(&mut self, probability: f64, share: f64, by_handler: bool) -> Option<Thinned> {
        thinned(probability, share, by_handler, || self.coins.random())
    }
}

/// That a window is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinned {
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

    /// A phase that meets short intervals and one that meets long ones count as often as they take
    /// time, whatever the mean of the intervals becomes meanwhile.
    #[test]
    fn windows_stand_for_time() {
        let mut acceptance = Acceptance::new(3, Some(1_000_000));
        let mut counted = |interval: u64, mean: u64| {
            acceptance.set_mean(mean);
            let samples = 50_000_000_000 / interval;
            let mut times = |_| {
                let means = acceptance.means_of(interval);
                let refused = acceptance.thinned(means.min(1.0), 1.0, false);
                u64::from(acceptance.times(means)) * u64::from(refused.is_none())
            };
            (0..samples).map(&mut times).sum::<u64>() as f64
        };
        let short = counted(500_000, 1_000_000);
        let long = counted(1_499_999, 1_000_000);
        let halved = counted(250_000, 500_000);
        let longer = counted(3_700_000, 4_000_000);
        // 50,000 on average each; five standard deviations of the least certain of them.
        for found in [short, long, halved, longer] {
            assert!((found - 50_000.0).abs() < 1_950.0, "{found}");
        }
    }

    /// Another mean is the measure of new tables; no window counts more often than there is room
    /// for.
    #[test]
    fn means() {
        let mut acceptance = Acceptance::new(3, Some(1_000_000));
        assert_eq!(acceptance.means_of(1_500_000), 1.5);
        acceptance.set_mean(2_000_000);
        assert_eq!(acceptance.means_of(1_500_000), 1.5);
        acceptance.begin();
        assert_eq!(acceptance.means_of(1_500_000), 0.75);
        assert_eq!(acceptance.times(0.75), 1);
        assert_eq!(acceptance.means_of(u64::MAX), MOST);
        assert!((16..=17).contains(&acceptance.times(MOST)));
    }

    /// Where each interval is drawn anew, none has a say.
    #[test]
    fn without_intervals() {
        let mut acceptance = Acceptance::new(3, None);
        acceptance.set_mean(5);
        acceptance.begin();
        assert_eq!(acceptance.means_of(1), 1.0);
        assert_eq!(acceptance.times(1.0), 1);
        assert!(acceptance.evenness() < 0.95);
    }
}
