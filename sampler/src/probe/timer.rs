//! Whether the clock `timer` works here.

use std::fs;
use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;

use super::bpf::{BpfRefusal, bpf};
use super::calibrate::{FEW_ROUNDS, compare, period};
use crate::attr::Features;
use crate::bpf::Bpf;
use crate::{
    Clock, Config, Engine, Error, Handler, HandlerCounter, HandlerCounters, Intervals, Pid, Target,
    cpus,
};

/// Where a real-time kernel says that it is one.
const REALTIME: &str = "/sys/kernel/realtime";

/// Samples by which the clock is tried.
const SAMPLES: u64 = 16;

/// How long they are waited for: they take some milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the clock `timer` can do here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Each timer stays on its CPU (Linux 6.7). Else it may be moved when its CPU falls idle, and
    /// what it finds on another one is lost, which is counted.
    pub pinned: bool,
}

/// Lets a timer interrupt the calling process some times, and looks whether the handler finds out
/// what it interrupted.
///
/// # Errors
/// What is missing, with what would mend it.
pub fn timer() -> Result<Timer, BpfRefusal> {
    bpf()?;
    if fs::read_to_string(REALTIME).is_ok_and(|text| text.trim() == "1") {
        return Err(refusal(
            "this is a real-time kernel, which lets threads run the timers: what was interrupted \
             cannot be found there",
        ));
    }
    let tried = on_one_cpu(None, |bpf, handler| {
        let pinned = bpf.start_timer_here()?;
        let start = Instant::now();
        loop {
            let counters = handler.counters()?;
            if counters.get(HandlerCounter::Samples) >= SAMPLES || start.elapsed() > PATIENCE {
                return Ok((pinned, counters));
            }
            // Calls of the kernel should be the exception.
            (0..10_000).for_each(|_| spin_loop());
        }
    });
    let (pinned, counters) = tried.map_err(|error| refusal(&error.to_string()))?;
    judge(&counters)?;
    Ok(Timer { pinned })
}

/// What an interrupt of this clock costs that finds a process which is not sampled.
///
/// # Errors
/// The first call that failed. What [`timer`] looks for is not looked for here.
pub fn timer_cost() -> Result<Duration, Error> {
    let own = Pid(std::process::id());
    on_one_cpu(Some(own), |bpf, handler| {
        let cpu = current_cpu();
        let start = || bpf.start_timer_here().map(drop);
        let stop = || {
            bpf.stop_timers(&[cpu]);
            Ok(())
        };
        let interrupts = || Ok(handler.counters()?.get(HandlerCounter::Own));
        compare(FEW_ROUNDS, start, stop, interrupts)
    })
}

/// Loads the handler for the calling process, except for samples of `own`, and does something with
/// it in a thread that stays on its CPU.
fn on_one_cpu<T: Send>(
    own: Option<Pid>,
    work: impl FnOnce(&Bpf, &Handler) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let config = Config {
        engine: Engine::Bpf,
        ..Config::new(
            Target::Processes(vec![Pid(std::process::id())]),
            Clock::Timer,
            period(Clock::Timer),
        )
    };
    let on_this_cpu = || {
        let cpu = current_cpu();
        // Where that is not allowed it may stay by itself.
        if let Err(error) = cpus::stay_on(cpu) {
            tracing::debug!(cpu, %error, "a thread cannot be kept on its CPU");
        }
        let bpf = Bpf::load(&config, cpu + 1, own)?;
        let mut intervals = Intervals::new(config.clock, config.period, config.seed, cpu);
        let mut features = Features {
            lost: true,
            user_only: false,
        };
        let _of_cpu = bpf.open_cpu(&config, &mut features, &mut intervals, cpu)?;
        let result = work(&bpf, &Handler::new(bpf.maps()));
        bpf.stop_timers(&[cpu]);
        result
    };
    thread::scope(|scope| scope.spawn(on_this_cpu).join()).unwrap_or_else(|_| {
        Err(Error::Bpf {
            what: "try a timer",
            why: "its thread failed".to_owned(),
        })
    })
}

fn current_cpu() -> u32 {
    // Where the number is hidden there is still a first one.
    let cpu = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok());
    cpu.unwrap_or(0)
}

fn judge(counters: &HandlerCounters) -> Result<(), BpfRefusal> {
    let samples = counters.get(HandlerCounter::Samples);
    let unknown =
        counters.get(HandlerCounter::TimerOriginUnknown) + counters.get(HandlerCounter::TimerLate);
    if samples == 0 {
        return Err(refusal("no timer of the kernel's BPF machine ran out"));
    }
    // The thread is in user mode most of the time.
    if unknown * 2 > samples {
        return Err(refusal(
            "the handler does not find what a timer interrupted: the kernel enters interrupts in a \
             way that it does not know, or hides its addresses (kernel.kptr_restrict)",
        ));
    }
    Ok(())
}

fn refusal(why: &str) -> BpfRefusal {
    BpfRefusal {
        why: why.to_owned(),
        mend: "use the clock cpu-clock, which needs none of this".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that finds most of what it interrupts works; one that finds little, or does not run
    /// at all, does not.
    #[test]
    fn judged_by_what_is_found() {
        let of = |samples, unknown| {
            judge(&HandlerCounters::of(&[
                (HandlerCounter::Samples, samples),
                (HandlerCounter::TimerOriginUnknown, unknown),
            ]))
        };
        assert!(of(16, 0).is_ok());
        assert!(of(16, 3).is_ok());
        assert!(of(16, 16).is_err_and(|error| error.why.contains("kptr_restrict")));
        assert!(of(0, 0).is_err_and(|error| error.why.contains("ran out")));
    }
}
