//! How long a breakpoint stays at an entry, and which of its hits count.
//!
//! Each call of a burst counts if it began within a time that is the same in all bursts of its
//! function: the *width*. Hits slow the thread down, so the time that counts is that of the clock
//! less what the hits took. The width is found in bursts that count for nothing, so that a burst
//! seldom ends because it is full. One that does has seen a part of its width, and its calls count
//! for the whole: as often as the width is longer.
//!
//! Where a function is entered again sooner than a hit takes, no clock tells what is left of the
//! time. There bursts are of so many calls. Which phase of a program they fall into is a matter of
//! time then: values count where they do not depend on the first call of their burst, which is not
//! counted itself.

use std::ops::Range;
use std::time::Duration;

use sampler::Burst;

/// The first width, and the least one.
const WIDEST: u64 = 10_000_000;
const NARROWEST: u64 = 20_000;
/// Bursts of a width that were not full before bursts count.
const TRIALS: u32 = 3;

/// The width of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    ns: u64,
    /// Bursts of it that were not full.
    tried: u32,
    /// The function is entered again sooner than a hit takes.
    is_dense: bool,
}

/// Which calls of a burst count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// These of them.
    pub(crate) calls: Range<usize>,
    /// How often each of them counts.
    pub(crate) times: u32,
    /// They are of a part of the time that is not known.
    pub(crate) is_dense: bool,
}

impl Kept {
    /// All calls of a burst but the first, of a part of the time that is not known.
    pub(super) fn all_but_first(burst: &Burst) -> Self {
        Self {
            calls: 1.min(burst.calls.len())..burst.calls.len(),
            times: 1,
            is_dense: true,
        }
    }
}

impl Default for Width {
    fn default() -> Self {
        Self {
            ns: WIDEST,
            tried: 0,
            is_dense: false,
        }
    }
}

impl Width {
    /// How long the next burst is to last.
    pub(super) fn lasts(&self) -> Duration {
        Duration::from_nanos(self.ns)
    }

    /// Which calls of a burst count, where a hit costs so much; `None`: it was to find the width.
    pub(super) fn judge(&mut self, burst: &Burst, cost: u64) -> Option<Kept> {
        let calls = &burst.calls;
        // The time of the program, as far as the hits before have not taken it.
        let passed = |number: usize| {
            let at = calls[number].time.saturating_sub(burst.begin);
            at.saturating_sub(cost.saturating_mul(calls[number].stops))
        };
        let last = calls.len().saturating_sub(1);
        if burst.is_full && !calls.is_empty() {
            let span = calls[last].time.saturating_sub(calls[0].time);
            let stops = calls[last].stops.saturating_sub(calls[0].stops);
            self.is_dense |= span / stops.max(1) < cost.saturating_mul(3) / 2;
        }
        if self.is_dense {
            return Some(Kept::all_but_first(burst));
        }
        let late = (0..calls.len()).rev();
        let late = late.take_while(|number| passed(*number) > self.ns).count();
        let within = calls.len() - late;
        if !burst.is_full || within < calls.len() || calls.is_empty() {
            self.tried = self.tried.saturating_add(1);
            return (self.tried > TRIALS).then_some(Kept {
                calls: 0..within,
                times: 1,
                is_dense: false,
            });
        }
        // It has seen a part of its width.
        let seen = passed(last).max(1);
        if self.tried < TRIALS {
            self.ns = (seen / 2).max(NARROWEST);
            self.tried = 0;
            return None;
        }
        // No more than some thousand together: else it were dense.
        let times = ((self.ns + seen / 2) / seen).clamp(1, WIDEST / NARROWEST);
        Some(Kept {
            calls: 0..calls.len(),
            times: times as u32,
            is_dense: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use sampler::{Entered, Registers};

    use super::*;

    const COST: u64 = 2_000;

    fn call(time: u64, stops: u64, registers: Registers) -> Entered {
        Entered {
            time,
            registers,
            return_address: None,
            stops,
            returned: None,
        }
    }

    /// A program: the times between its calls, and a value of each.
    struct Program {
        calls: Vec<(u64, u64)>,
        length: u64,
    }

    impl Program {
        fn new(count: u32, mut next: impl FnMut(u32, &mut StdRng) -> (u64, u64)) -> Self {
            let mut random = StdRng::seed_from_u64(7);
            let mut now = 0;
            let calls = (0..count).map(|number| {
                let (gap, value) = next(number, &mut random);
                now += gap;
                (now, value)
            });
            let calls = calls.collect();
            Self { calls, length: now }
        }

        /// The burst that begins at a moment.
        fn burst(&self, moment: u64, width: &Width) -> Burst {
            let first = self.calls.partition_point(|(time, _)| *time < moment);
            let mut burst = Burst::default();
            for (time, value) in &self.calls[first..] {
                let time = time - moment + COST * burst.calls.len() as u64;
                if burst.calls.len() >= Burst::MOST || time > width.lasts().as_nanos() as u64 {
                    break;
                }
                let mut registers = Registers::default();
                registers.gpr[7] = *value;
                burst
                    .calls
                    .push(call(time, burst.calls.len() as u64, registers));
            }
            burst.is_full = burst.calls.len() >= Burst::MOST;
            burst
        }

        /// The percentages of the value 2 in bursts that begin at random, and in truth.
        fn shares(&self, bursts: u32) -> (f64, f64) {
            let mut random = StdRng::seed_from_u64(8);
            let mut width = Width::default();
            let (mut twos, mut all) = (0_u64, 0_u64);
            for _ in 0..bursts {
                let moment = random.random_range(0..self.length - WIDEST);
                let burst = self.burst(moment, &width);
                let Some(kept) = width.judge(&burst, COST) else {
                    continue;
                };
                for call in &burst.calls[kept.calls] {
                    all += u64::from(kept.times);
                    twos += u64::from(kept.times) * u64::from(call.registers.gpr[7] == 2);
                }
            }
            let truth = self.calls.iter().filter(|(_, value)| *value == 2).count();
            (
                100.0 * twos as f64 / all as f64,
                100.0 * truth as f64 / self.calls.len() as f64,
            )
        }
    }

    /// Shares are of executions where the value decides how long the next call takes to come:
    /// for calls far apart and for such as come sooner than a hit takes.
    #[test]
    fn slow_values() {
        for scale in [1, 100, 10_000] {
            let program = Program::new(2_000_000 / scale as u32 + 50_000, |_, random| match random
                .random_bool(0.1)
            {
                true => (400 * scale, 2),
                false => (20 * scale, 1),
            });
            let (seen, truth) = program.shares(4_000);
            assert!((seen - truth).abs() < 1.0, "{seen} for {truth} at {scale}");
        }
    }

    /// So they are where phases of many calls take turns, of which one is forty times as quick.
    #[test]
    fn phases() {
        let program = Program::new(400_000, |number, _| match number / 5_000 % 2 {
            0 => (200_000, 2),
            _ => (5_000, 1),
        });
        let (seen, truth) = program.shares(20_000);
        assert!((seen - truth).abs() < 2.0, "{seen} for {truth}");
    }

    /// A full burst of a function whose width is known stands for all calls of the width, and no
    /// call counts so often that the lists would take long.
    #[test]
    fn full_bursts() {
        let mut width = Width::default();
        let quiet = Burst::default();
        for _ in 0..TRIALS {
            assert_eq!(width.judge(&quiet, COST), None);
        }
        let mut burst = Burst::default();
        for number in 0..Burst::MOST as u64 {
            let time = number * (COST + 2_000);
            burst.calls.push(call(time, number, Registers::default()));
        }
        burst.is_full = true;
        let kept = width.judge(&burst, COST).expect("it counts");
        let counted = kept.calls.len() as u64 * u64::from(kept.times);
        // One each two microseconds.
        assert!((4_900..5_200).contains(&counted), "{counted}");
        assert!(!kept.is_dense);
    }
}
