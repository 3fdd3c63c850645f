//! How often one can afford to sample, where no rate is asked for.

use std::time::Duration;

use sampler::{Clock, probe};

/// What an interrupt of this clock costs; zero if that is not to be seen.
pub(crate) fn interrupt_cost(clock: Clock) -> Duration {
    // Whoever opens the event says why it is refused.
    probe::interrupt_cost(clock).unwrap_or_default()
}

/// What an interrupt costs where that cannot be found out: as much as in a virtual machine, where it
/// is dearest. Rather too few samples than more than the budget.
pub(crate) const ASSUMED_COST: Duration = Duration::from_micros(30);

/// The rates that are sampled at where none is asked for. They lie so far apart that the cost, which
/// is never quite the same, mostly leads to the same one.
const RATES: [u32; 7] = [1000, 500, 200, 100, 50, 20, 10];

/// The share of its time that a program may lose by them.
const BUDGET: f64 = 0.01;

/// What a sample takes of a program, by what an interrupt takes of the loop that it is found out with. That
/// one needs no caches and is interrupted all the time; a program finds its own gone from there, and
/// before it the kernel and the handler find theirs gone. `cargo xtask bench` shows it: where the loop
/// loses 12 us, a compressor at 250 to 1000 samples a second lost 26 to 29 us to interrupts alone, and 31
/// to 46 us with all that is captured.
const BY_PROGRAM: f64 = 3.0;

/// How often one can afford to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affordable {
    /// Samples per second and CPU.
    pub(crate) rate: u32,
    /// What an interrupt costs; zero if that could not be seen.
    cost: Duration,
}

impl Affordable {
    /// Where an interrupt costs this, or nothing that was seen.
    pub(crate) fn with(cost: Duration) -> Self {
        let seen = if cost.is_zero() { ASSUMED_COST } else { cost };
        let share = |rate: u32| f64::from(rate) * BY_PROGRAM * seen.as_secs_f64();
        let [.., least] = RATES;
        let rate = RATES.into_iter().find(|rate| share(*rate) <= BUDGET);
        Self {
            rate: rate.unwrap_or(least),
            cost,
        }
    }

    /// Why so often.
    pub(crate) fn why(&self) -> String {
        let Self { rate, cost } = self;
        let cost = match cost.is_zero() {
            true => {
                format!("what an interrupt costs is not to be seen: {ASSUMED_COST:.0?} assumed")
            }
            false => format!("an interrupt costs {cost:.1?} here"),
        };
        format!("{rate} a second, so as to cost one percent at most: {cost}; --rate changes that")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many samples as cost one percent, of round numbers; no more than a thousand, and ten where even
    /// those are dearer.
    #[test]
    fn affordable_rates() {
        let rate = |micros| Affordable::with(Duration::from_micros(micros)).rate;
        assert_eq!(rate(1), 1000);
        assert_eq!(rate(3), 1000);
        assert_eq!(rate(4), 500);
        assert_eq!(rate(12), 200);
        assert_eq!(rate(28), 100);
        assert_eq!(rate(0), rate(30));
        assert_eq!(rate(100_000), 10);
        let dear = Affordable::with(Duration::from_micros(12)).why();
        assert!(
            dear.contains("200 a second") && dear.contains("12.0µs"),
            "{dear}"
        );
    }
}
