//! What an interrupt of each clock costs here, and which clock is the better one for it.

use std::hint::black_box;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::{ProbeError, Scope, refusal};
use crate::attr::{Features, Role, attributes};
use crate::{Clock, Config, Pid, Target, sys};

/// Rounds with interrupts, for a choice between clocks and for an answer in numbers.
pub(crate) const FEW_ROUNDS: usize = 30;
/// As above.
pub(crate) const MANY_ROUNDS: usize = 100;

/// Of fewer rounds nothing is concluded.
const ENOUGH: usize = 12;

/// For how long they are tried, for each that is wanted: where others want the processor, many do
/// not count.
const LONGEST: Duration = Duration::from_millis(20);

/// The pause between them.
const PAUSE: Duration = Duration::from_millis(1);

/// How long a round without interrupts takes: some interrupts fall into it, and it is shorter than
/// what a thread is given at a time.
const ROUND: Duration = Duration::from_micros(500);

/// Interrupts per round, about.
const INTERRUPTS: u32 = 5;

/// What an interrupt costs by each clock, or why the clock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// With the hardware cycle counter.
    pub cycles: Result<Duration, ProbeError>,
    /// With the software clock.
    pub cpu_clock: Result<Duration, ProbeError>,
}

/// Measures both clocks on the calling thread; takes some tenth of a second for each, and six
/// tenths at most where the CPU is shared with others. What a handler or a buffer costs is not in
/// it, since that is the same for both.
pub fn calibrate() -> Calibration {
    Calibration {
        cycles: interrupt_cost(Clock::Cycles),
        cpu_clock: interrupt_cost(Clock::CpuClock),
    }
}

impl Calibration {
    /// What an interrupt of this clock costs, if it can be used; a timer's is the software clock's.
    pub fn cost(&self, clock: Clock) -> Option<Duration> {
        let cost = match clock {
            Clock::Cycles => &self.cycles,
            Clock::CpuClock | Clock::Timer => &self.cpu_clock,
        };
        cost.as_ref().ok().copied()
    }

    /// The clock to take: the hardware's, which also sees code that runs with interrupts off,
    /// unless there is none or the software's costs less than half.
    ///
    /// # Errors
    /// If there is neither: why there is no software clock.
    pub fn choice(&self) -> Result<Clock, ProbeError> {
        match (&self.cycles, &self.cpu_clock) {
            (Ok(hardware), Ok(software)) if is_cheap(*software, *hardware) => Ok(Clock::CpuClock),
            (Ok(_), _) => Ok(Clock::Cycles),
            (Err(_), Ok(_)) => Ok(Clock::CpuClock),
            (Err(_), Err(error)) => Err(error.clone()),
        }
    }
}

/// Whether the software's clock costs less than half; a cost of nothing was not measured.
fn is_cheap(software: Duration, hardware: Duration) -> bool {
    !software.is_zero() && software * 2 < hardware
}

/// The interval for so many interrupts in a round. Cycles at some 3 GHz; a bit more or less changes
/// the number of interrupts, which is asked for.
pub(crate) fn period(clock: Clock) -> u64 {
    let nanoseconds = ROUND.as_nanos() as u64 / u64::from(INTERRUPTS);
    match clock {
        Clock::Cycles => 3 * nanoseconds,
        Clock::CpuClock | Clock::Timer => nanoseconds,
    }
}

/// Measures one of them; a timer of the kernel's BPF machine interrupts as the software clock does,
/// and is taken to cost what that does. Zero if the cost is not to be seen.
///
/// # Errors
/// The kernel's refusal, with what would mend it.
pub fn interrupt_cost(clock: Clock) -> Result<Duration, ProbeError> {
    let clock = match clock {
        Clock::Timer => Clock::CpuClock,
        event => event,
    };
    let target = Target::Processes(vec![Pid(std::process::id())]);
    let period = period(clock);
    let config = Config::new(target, clock, period);
    let features = Features {
        lost: false,
        user_only: true,
    };
    let attr = attributes(&config, Role::Clock, period, features);
    let error = |error| refusal(clock, Scope::Own, &error);
    let event = sys::open(attr, 0, -1).map_err(error)?;
    compare(
        FEW_ROUNDS,
        || sys::enable(event.as_fd()).map_err(error),
        || sys::disable(event.as_fd()).map_err(error),
        || Ok(sys::totals(event.as_fd()).map_err(error)?.count / period),
    )
}

/// How much longer the same work takes with interrupts, by interrupt: between `start` and `stop`,
/// where `interrupts` counts on and on. Zero if that is not to be seen.
pub(crate) fn compare<E>(
    rounds: usize,
    start: impl Fn() -> Result<(), E>,
    stop: impl Fn() -> Result<(), E>,
    interrupts: impl Fn() -> Result<u64, E>,
) -> Result<Duration, E> {
    let work = turns_of(ROUND);
    let quiet = || alone(|| spin(work));
    let busy = || {
        let before = interrupts()?;
        start()?;
        let took = alone(|| spin(work));
        stop()?;
        let counted = interrupts()?.saturating_sub(before);
        Ok(took.map(|took| (took, counted)))
    };
    let rest = || {
        // Rounds see more of what the machine does, and a thread that has slept runs undisturbed.
        thread::sleep(PAUSE);
        spin(work / 10);
    };
    let cost = by_neighbours(rounds, rest, quiet, busy)?.filter(|cost| *cost > 0.0);
    Ok(cost.map_or(Duration::ZERO, Duration::from_secs_f64))
}

/// By how many seconds each of the interrupts that it counts makes the round `busy` longer than the
/// round `quiet`.
///
/// The speed of a shared processor changes within seconds by more than interrupts take. So each
/// round with interrupts is compared with the mean of the one before and the one after it, which
/// have none; rounds in which somebody else ran, which are `None`, do not count; and of all rounds
/// the median is taken, which a few cannot move.
fn by_neighbours<E>(
    rounds: usize,
    mut rest: impl FnMut(),
    mut quiet: impl FnMut() -> Option<Duration>,
    mut busy: impl FnMut() -> Result<Option<(Duration, u64)>, E>,
) -> Result<Option<f64>, E> {
    let end = Instant::now() + LONGEST.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
    let mut costs = Vec::with_capacity(rounds);
    while costs.len() < rounds && Instant::now() < end {
        rest();
        let (before, with, after) = (quiet(), busy()?, quiet());
        if let (Some(before), Some((with, interrupts @ 1..)), Some(after)) = (before, with, after) {
            let without = (before + after).as_secs_f64() / 2.0;
            costs.push((with.as_secs_f64() - without) / interrupts as f64);
        }
    }
    Ok(median(costs))
}

/// How long something takes, unless another thread had the processor meanwhile.
fn alone(round: impl FnOnce() -> Duration) -> Option<Duration> {
    let switches = || getrusage(UsageWho::RUSAGE_THREAD).map(|u| u.involuntary_context_switches());
    let before = switches();
    let took = round();
    (before == switches()).then_some(took)
}

/// The middle one; `None` if there are too few of them.
fn median(mut costs: Vec<f64>) -> Option<f64> {
    let middle = costs.len() / 2;
    if costs.len() < ENOUGH {
        return None;
    }
    let (_, median, _) = costs.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// How many turns of [`spin`] take so long, by the fastest of some tries.
fn turns_of(duration: Duration) -> u64 {
    const TURNS: u64 = 100_000;
    let fastest = (0..10).map(|_| spin(TURNS)).min().unwrap_or_default();
    let turns = u128::from(TURNS) * duration.as_nanos() / fastest.as_nanos().max(1);
    u64::try_from(turns).unwrap_or(TURNS)
}

/// How long so many turns of a loop take.
fn spin(turns: u64) -> Duration {
    let begin = Instant::now();
    let mut word = 1_u64;
    for turn in 0..turns {
        word = black_box(word.rotate_left(5) ^ turn);
    }
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn none() -> Result<Duration, ProbeError> {
        let error = std::io::Error::from_raw_os_error(libc::ENOENT);
        Err(refusal(Clock::Cycles, Scope::Own, &error))
    }

    /// Cycles are preferred until they cost more than twice as much; what is missing is not taken.
    #[test]
    fn choices() {
        let choice = |cycles, cpu_clock| Calibration { cycles, cpu_clock }.choice();
        let micros = |n| Ok(Duration::from_micros(n));
        assert_eq!(choice(micros(2), micros(1)), Ok(Clock::Cycles));
        assert_eq!(choice(micros(1), micros(3)), Ok(Clock::Cycles));
        assert_eq!(choice(micros(24), micros(9)), Ok(Clock::CpuClock));
        assert_eq!(choice(micros(24), micros(0)), Ok(Clock::Cycles));
        assert_eq!(choice(none(), micros(9)), Ok(Clock::CpuClock));
        assert_eq!(choice(micros(9), none()), Ok(Clock::Cycles));
        assert!(choice(none(), none()).is_err());
    }

    /// Of few rounds nothing is concluded, and of many what the middle one says, whatever the
    /// others do.
    #[test]
    fn middle() {
        assert_eq!(median(vec![1.0; ENOUGH - 1]), None);
        let mut costs = vec![2.0; ENOUGH];
        costs.extend([-1e9; ENOUGH / 2]);
        costs.extend([1e9; ENOUGH / 2]);
        assert_eq!(median(costs), Some(2.0));
    }

    /// What interrupts cost is found though the processor becomes slower and faster again, and
    /// though most rounds are held up by others: noticed in some of them, and in others not.
    #[test]
    fn neighbours() {
        let number = Cell::new(0_u32);
        let round = |micros: f64| {
            let number = number.replace(number.get() + 1);
            let slowness = 1.5 + 0.5 * (f64::from(number) / 40.0).sin();
            let held_up = if number % 13 == 2 { 4000.0 } else { 0.0 };
            let took = Duration::from_secs_f64((micros * slowness + held_up) / 1e6);
            (!number.is_multiple_of(5)).then_some(took)
        };
        let quiet = || round(500.0);
        let busy = || Ok::<_, ()>(round(500.0).map(|took| (took + Duration::from_micros(35), 5)));
        let cost = by_neighbours(MANY_ROUNDS, || {}, quiet, busy).unwrap();
        let cost = cost.unwrap();
        assert!((6.8e-6..7.2e-6).contains(&cost), "{cost}");
    }
}
