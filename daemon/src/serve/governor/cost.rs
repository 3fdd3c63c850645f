//! What an interrupt costs here, handler and all: by how much a spin loop becomes slower.
//!
//! The statistics of BPF programs see the handler alone. The interrupt around it costs many times
//! as much, above all in a virtual machine, whose timer belongs to the host.

use std::time::{Duration, Instant};

use sampler::{Clock, Running, probe};

/// How long a round of the loop takes: shorter than what a thread is given at a time.
const ROUND: Duration = Duration::from_millis(1);
/// Rounds without and with interrupts.
const ROUNDS: usize = 100;
/// How often it is measured if it seems to be nothing.
const TRIES: usize = 3;
/// The mean interval while it is measured.
const INTERVAL: Duration = Duration::from_micros(100);
/// How long that may last: all processors are interrupted so often meanwhile, and where many others
/// want them the loop may wait a long time for its rounds.
const LONGEST: Duration = Duration::from_secs(1);
/// What an interrupt costs where that cannot be found out: as much as in a virtual machine, where it
/// is dearest. Rather too few samples than more than the budget.
const ASSUMED: Duration = Duration::from_micros(30);
/// Rounds until that interval holds: the one before ends as it was drawn, and the reader redraws
/// when it wakes up, twenty times a second at least.
const WARM_UP: usize = 80;

/// A loop, and how long a round of it takes while nothing is sampled.
pub(in crate::serve) struct Loop {
    turns: u64,
    quiet: Duration,
}

impl Loop {
    /// Finds out how fast the loop is here; takes some 100 ms.
    pub(in crate::serve) fn measure() -> Self {
        let turns = probe::turns_of(ROUND);
        let rounds = (0..ROUNDS).map(|_| probe::spin(turns)).collect();
        Self {
            turns,
            quiet: undisturbed(rounds),
        }
    }

    /// The cost of an interrupt of this sampling, which is at its configured interval afterwards;
    /// takes some 200 ms. On a machine that is so busy that it seems to be nothing, or takes too
    /// long, it is taken to be dear.
    pub(in crate::serve) fn cost(
        &self,
        running: &Running,
        clock: Clock,
        configured: u64,
    ) -> Duration {
        let mean = match clock {
            Clock::Cycles => {
                let hz = u128::from(probe::cycles_per_second().unwrap_or(1_000_000_000));
                u64::try_from(hz * INTERVAL.as_nanos() / 1_000_000_000).unwrap_or(configured)
            }
            _ => INTERVAL.as_nanos() as u64,
        };
        if running.set_period(mean).is_err() {
            return Duration::ZERO;
        }
        let end = Instant::now() + LONGEST;
        let warm = self.rounds(WARM_UP, end);
        let cost = warm.and_then(|_| self.slowed(end));
        // The configured one was taken at the start.
        let _ = running.set_period(configured);
        cost.unwrap_or(ASSUMED)
    }

    /// By how much an interrupt slows the loop, if it does and there is time enough to see it.
    fn slowed(&self, end: Instant) -> Option<Duration> {
        (0..TRIES).find_map(|_| {
            let busy = undisturbed(self.rounds(ROUNDS, end)?);
            let interrupts = busy.as_secs_f64() / INTERVAL.as_secs_f64();
            let cost = busy.saturating_sub(self.quiet).div_f64(interrupts.max(1.0));
            (!cost.is_zero()).then_some(cost)
        })
    }

    /// How long so many rounds take; `None` if it is too late before the last of them.
    fn rounds(&self, rounds: usize, end: Instant) -> Option<Vec<Duration>> {
        let round = |_| (Instant::now() < end).then(|| probe::spin(self.turns));
        (0..rounds).map(round).collect()
    }
}

/// How long a round takes that is not held up by others: the mean of the fastest fifth.
fn undisturbed(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort_unstable();
    rounds.iter().take(ROUNDS / 5).sum::<Duration>() / (ROUNDS / 5) as u32
}
