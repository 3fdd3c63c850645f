//! Tests against the running kernel: they need the right to use perf events (root has it), and
//! some the hardware cycle counter, without which they report themselves as ignored.
//!
//! The harness is not the usual one because only a test itself can find out whether it can run.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial, run};
use sampler::{Clock, probe};

#[path = "live/bpf.rs"]
mod bpf;
#[path = "live/breakpoints.rs"]
mod breakpoints;
#[path = "live/programs.rs"]
mod programs;
#[path = "live/recording.rs"]
mod recording;
#[path = "live/records.rs"]
mod records;
#[path = "live/samples.rs"]
mod samples;
#[path = "live/stepped.rs"]
mod stepped;
#[path = "live/timer.rs"]
mod timer;
#[path = "live/unprivileged.rs"]
mod unprivileged;
#[path = "live/vectors.rs"]
mod vectors;
#[path = "live/ways.rs"]
mod ways;

/// The clock of a test, or the reason why it cannot run here.
fn with_clock(
    clock: Clock,
    scope: probe::Scope,
    test: impl FnOnce(Clock) -> Result<(), Failed>,
) -> Result<Completion, Failed> {
    match probe::probe_clock(clock, scope) {
        Ok(_) => test(clock).map(|()| Completion::Completed),
        Err(error) if clock == Clock::Cycles => Ok(Completion::ignored_with(format!(
            "needs the hardware cycle counter: {error}"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// A test for each clock.
fn for_clocks(
    name: &str,
    scope: probe::Scope,
    test: fn(Clock) -> Result<(), Failed>,
) -> [Trial; 2] {
    [(Clock::CpuClock, "cpu_clock"), (Clock::Cycles, "cycles")].map(|(clock, suffix)| {
        Trial::ignorable_test(format!("{name}::{suffix}"), move || {
            with_clock(clock, scope, test)
        })
    })
}

/// A test of the engine `bpf` for each clock.
fn for_clocks_with_bpf(name: &str, test: fn(Clock) -> Result<(), Failed>) -> [Trial; 3] {
    [
        (Clock::CpuClock, "cpu_clock"),
        (Clock::Cycles, "cycles"),
        (Clock::Timer, "timer"),
    ]
    .map(|(clock, suffix)| {
        Trial::ignorable_test(format!("bpf::{name}::{suffix}"), move || {
            if let Err(refusal) = probe::bpf() {
                // That is a defect of the handler, not something that the machine lacks.
                if refusal.why.starts_with("the kernel's verifier refuses") {
                    return Err(refusal.to_string().into());
                }
                return Ok(Completion::ignored_with(format!("needs BPF: {refusal}")));
            }
            match clock {
                Clock::Timer => with_timer(test),
                _ => with_clock(clock, probe::Scope::System, test),
            }
        })
    })
}

/// A test with the clock `timer`, or the reason why it cannot run here.
fn with_timer(test: fn(Clock) -> Result<(), Failed>) -> Result<Completion, Failed> {
    match probe::timer() {
        Ok(_) => test(Clock::Timer).map(|()| Completion::Completed),
        Err(refusal) => Ok(Completion::ignored_with(format!(
            "needs the clock timer: {refusal}"
        ))),
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(programs::ROLE) {
        return programs::play(arguments);
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    trials.extend(samples::trials());
    trials.extend(records::trials());
    trials.extend(unprivileged::trials());
    trials.extend(bpf::trials());
    trials.extend(ways::trials());
    trials.extend(vectors::trials());
    trials.extend(stepped::trials());
    trials.extend(breakpoints::trials());
    trials.extend(timer::trials());
    run(&arguments, trials).exit_code()
}
