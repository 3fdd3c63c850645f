//! What an interrupt of each clock costs here, and which clock is the better one for it.

use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::{ProbeError, Scope, refusal};
use crate::attr::{Features, Role, attributes};
use crate::{Clock, Config, Pid, Target, sys};

/// Rounds with and without interrupts.
const ROUNDS: usize = 20;

/// How often a cost of nothing is measured again.
const TRIES: u32 = 4;

/// How long a round without interrupts takes: some interrupts fall into it, and it is shorter than
/// what a thread is given at a time.
const ROUND: Duration = Duration::from_millis(1);

/// Interrupts per round, about.
const INTERRUPTS: u32 = 10;

/// What an interrupt costs by each clock, or why the clock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// With the hardware cycle counter.
    pub cycles: Result<Duration, ProbeError>,
    /// With the software clock.
    pub cpu_clock: Result<Duration, ProbeError>,
}

/// Measures both clocks on the calling thread; takes less than a tenth of a second if the CPU is
/// not shared with others. What a handler or a buffer costs is not in it, since that is the same
/// for both.
pub fn calibrate() -> Calibration {
    Calibration {
        cycles: sure(|| interrupt_cost(Clock::Cycles)),
        cpu_clock: sure(|| interrupt_cost(Clock::CpuClock)),
    }
}

/// The first cost found that is one: on a busy machine interrupts may seem to cost nothing.
pub(super) fn sure<E>(measure: impl Fn() -> Result<Duration, E>) -> Result<Duration, E> {
    for _ in 1..TRIES {
        let cost = measure()?;
        if !cost.is_zero() {
            return Ok(cost);
        }
    }
    measure()
}

impl Calibration {
    /// The clock to take: the hardware's, which also sees code that runs with interrupts off, unless
    /// there is none or the software's costs less than half.
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
pub(super) fn period(clock: Clock) -> u64 {
    let nanoseconds = ROUND.as_nanos() as u64 / u64::from(INTERRUPTS);
    match clock {
        Clock::Cycles => 3 * nanoseconds,
        Clock::CpuClock | Clock::Timer => nanoseconds,
    }
}

fn interrupt_cost(clock: Clock) -> Result<Duration, ProbeError> {
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
        || sys::enable(event.as_fd()).map_err(error),
        || sys::disable(event.as_fd()).map_err(error),
        || Ok(sys::totals(event.as_fd()).map_err(error)?.count / period),
    )
}

/// How much longer the same work takes with interrupts, by interrupt: between `start` and `stop`,
/// where `interrupts` counts on and on. The fastest rounds are compared: others share their CPU with
/// somebody.
pub(super) fn compare<E>(
    start: impl Fn() -> Result<(), E>,
    stop: impl Fn() -> Result<(), E>,
    interrupts: impl Fn() -> Result<u64, E>,
) -> Result<Duration, E> {
    let work = turns_of(ROUND);
    let mut fastest = [(Duration::MAX, 1); 2];
    for _ in 0..ROUNDS {
        let without = spin(work);
        let before = interrupts()?;
        start()?;
        let with = spin(work);
        stop()?;
        let counted = interrupts()?.saturating_sub(before);
        let counted = u32::try_from(counted).unwrap_or(u32::MAX).max(1);
        fastest[0] = fastest[0].min((without, 1));
        fastest[1] = fastest[1].min((with, counted));
    }
    let [(without, _), (with, interrupts)] = fastest;
    Ok(with.saturating_sub(without) / interrupts)
}

/// How many turns of [`spin`] take so long, by the fastest of some tries.
pub fn turns_of(duration: Duration) -> u64 {
    const TURNS: u64 = 100_000;
    let fastest = (0..10).map(|_| spin(TURNS)).min().unwrap_or_default();
    let turns = u128::from(TURNS) * duration.as_nanos() / fastest.as_nanos().max(1);
    u64::try_from(turns).unwrap_or(TURNS)
}

/// How long so many turns of a loop take.
pub fn spin(turns: u64) -> Duration {
    let begin = Instant::now();
    let mut word = 1_u64;
    for turn in 0..turns {
        word = black_box(word.rotate_left(5) ^ turn);
    }
    begin.elapsed()
}

#[cfg(test)]
mod tests {
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
}
