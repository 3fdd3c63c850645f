//! Random intervals: a base plus a random part, repeatable from a seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::{CPU_CLOCK_FLOOR, Clock};

/// The intervals that one CPU draws, uniform on `mean/2 .. 3*mean/2`, so that no loop of the
/// program can stay in step with the clock.
///
/// An interval is in force for many samples, so a recording of seconds has few of them, whose mean
/// would be far from the one asked for. Therefore every second one is what the one before lacks:
/// the two together are as long as two means, and each by itself is uniform (antithetic variates;
/// Hammersley and Morton, 1956).
///
/// The generator is fixed here, so that a seed draws the same intervals with every build. With
/// [`Clock::CpuClock`] what would lie below the clock's floor is drawn as the floor; a mean of less
/// than twice the floor is therefore a little exceeded.
#[derive(Clone, Debug)]
pub struct Intervals {
    random: Xoshiro256PlusPlus,
    mean: u64,
    floor: u64,
    /// The random part of the next interval, if the one before was the first of two.
    second: Option<u64>,
}

impl Intervals {
    /// The sequence of a CPU under a seed.
    pub fn new(clock: Clock, mean: u64, seed: u64, cpu: u32) -> Intervals {
        // Seed and CPU are mixed by the generator's own seeding; an odd multiplier keeps the
        // sequences of neighbouring seeds and CPUs from being the same pairs turned around.
        let stream = u64::from(cpu).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Intervals {
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ stream),
            mean,
            second: None,
            floor: match clock {
                Clock::Cycles => 1,
                Clock::CpuClock | Clock::Timer => CPU_CLOCK_FLOOR,
            },
        }
    }

    /// Draws around this mean from now on.
    pub fn set_mean(&mut self, mean: u64) {
        if mean != self.mean {
            (self.mean, self.second) = (mean, None);
        }
    }

    /// Draws the next interval, in the clock's unit.
    pub fn draw(&mut self) -> u64 {
        let base = self.mean / 2;
        let random = match (self.second.take(), self.mean) {
            (_, 0) => 0,
            (Some(second), _) => second,
            (None, spread) => {
                let first = self.random.random_range(0..spread);
                self.second = Some(spread - 1 - first);
                first
            }
        };
        base.saturating_add(random).max(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(clock: Clock, mean: u64, seed: u64, cpu: u32) -> Vec<u64> {
        let mut intervals = Intervals::new(clock, mean, seed, cpu);
        (0..10_000).map(|_| intervals.draw()).collect()
    }

    /// The same seed and CPU draw the same intervals; another seed or another CPU draws others.
    #[test]
    fn repeatable() {
        let first = drawn(Clock::Cycles, 1_000_000, 7, 1);
        assert_eq!(first, drawn(Clock::Cycles, 1_000_000, 7, 1));
        assert_ne!(first, drawn(Clock::Cycles, 1_000_000, 8, 1));
        assert_ne!(first, drawn(Clock::Cycles, 1_000_000, 7, 0));
    }

    /// The sequence of a seed is part of what a seed promises: a build that draws others shows.
    #[test]
    fn pinned() {
        let first: Vec<u64> = drawn(Clock::CpuClock, 1_000_000, 0, 0)[..4].to_vec();
        assert_eq!(first, [824_575, 1_175_424, 882_239, 1_117_760]);
    }

    /// Intervals lie within half and one and a half of the mean, reach both ends and average to it.
    #[test]
    fn uniform() {
        let all = drawn(Clock::Cycles, 1_000_000, 3, 0);
        assert!(
            all.iter()
                .all(|interval| (500_000..1_500_000).contains(interval))
        );
        assert!(all.iter().any(|interval| *interval < 510_000));
        assert!(all.iter().any(|interval| *interval > 1_490_000));
        let mean = all.iter().sum::<u64>() / 10_000;
        assert!((985_000..1_015_000).contains(&mean), "{mean}");
    }

    /// Two by two they are as long as two means, to the unit, so a short recording has the mean
    /// that was asked for; which of the two is the longer is left to chance.
    #[test]
    fn pairs() {
        let all = drawn(Clock::Cycles, 1_000_000, 3, 0);
        let (pairs, _) = all.as_chunks::<2>();
        assert!(pairs.iter().all(|[a, b]| a + b == 1_999_999));
        let longer = pairs.iter().filter(|[a, b]| a > b).count();
        assert!((2400..2600).contains(&longer), "{longer} of 5000");
    }

    /// A new mean holds from the next draw on.
    #[test]
    fn another_mean() {
        let mut intervals = Intervals::new(Clock::Cycles, 1_000_000, 3, 0);
        intervals.set_mean(10_000_000);
        assert!((0..1000).all(|_| (5_000_000..15_000_000).contains(&intervals.draw())));
    }

    /// No interval is below the clock's floor, and no mean makes the generator panic.
    #[test]
    fn extremes() {
        assert!(
            drawn(Clock::CpuClock, 10_000, 0, 0)
                .iter()
                .all(|i| *i >= CPU_CLOCK_FLOOR)
        );
        for mean in [0, 1, 2, u64::MAX] {
            assert!(drawn(Clock::Cycles, mean, 0, 0).iter().all(|i| *i >= 1));
        }
    }
}
