//! The clock `timer`: starting and stopping the timers of the handler.

use std::io;
use std::thread;
use std::time::Duration;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, ProgramInput, ProgramMut};

use super::Bpf;
use crate::abi::TimerStart;
use crate::{Clock, Error, cpus};

/// Runs on the CPU whose timer it starts.
const START: &str = "start_timer";
/// Is told the CPU.
const STOP: &str = "stop_timer";

/// The kernel has a timer's memory from what is free at once, and refuses where there is none just
/// then. So often it is asked, and so long after each refusal.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The map with the mean of the intervals.
const MEAN: &str = "mean_interval";

/// The programs of this clock.
pub(super) const PROGRAMS: [&str; 2] = [START, STOP];

impl Bpf {
    /// Starts the timers of these CPUs; with another clock there are none.
    ///
    /// # Errors
    /// The kernel's refusal. A CPU that has gone offline is none.
    pub(crate) fn start_timers(&self, cpus: &[u32]) -> Result<(), Error> {
        if self.clock != Clock::Timer {
            return Ok(());
        }
        for cpu in cpus {
            // A timer runs on the CPU that starts it, so a thread goes there.
            let started = thread::scope(|scope| {
                let start = || match cpus::stay_on(*cpu) {
                    Ok(()) => self.start_timer_here().map(drop),
                    Err(error) => {
                        tracing::warn!(cpu, %error, "the CPU of a timer cannot be reached");
                        Ok(())
                    }
                };
                scope.spawn(start).join()
            });
            started.map_err(|_| Error::Bpf {
                what: "start a timer",
                why: "its thread failed".to_owned(),
            })??;
        }
        Ok(())
    }

    /// Starts the timer of the CPU that the calling thread runs on; says whether it stays there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn start_timer_here(&self) -> Result<bool, Error> {
        let program = self.timer_program(START)?;
        let mut tries = 1;
        loop {
            let (is_short, why) = match program.test_run(ProgramInput::default()) {
                Ok(output) => {
                    if let Some(start) = TimerStart::of(output.return_value) {
                        return Ok(matches!(start, TimerStart::Pinned));
                    }
                    let error = -output.return_value.cast_signed();
                    let why = io::Error::from_raw_os_error(error).to_string();
                    (error == libc::ENOMEM, why)
                }
                Err(error) => {
                    let is_short = error.kind() == ErrorKind::OutOfMemory;
                    (is_short, format!("{error:#}"))
                }
            };
            if !is_short || tries == TRIES {
                let what = "start a timer";
                return Err(Error::Bpf { what, why });
            }
            tries += 1;
            thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Lets the timers draw around another mean, in nanoseconds, from their next intervals on;
    /// other clocks draw elsewhere.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn set_mean(&self, mean: u64) -> Result<(), Error> {
        if self.clock != Clock::Timer {
            return Ok(());
        }
        super::map(&self.object, MEAN)?
            .update(&0_u32.to_ne_bytes(), &mean.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::bpf("tell the timers their interval", &error))
    }

    /// Stops the timers of these CPUs, and waits for the ends of their callbacks.
    pub(crate) fn stop_timers(&self, cpus: &[u32]) {
        if self.clock != Clock::Timer {
            return;
        }
        for cpu in cpus {
            let stopped = self.timer_program(STOP).and_then(|program| {
                let mut argument = cpu.to_ne_bytes();
                let input = ProgramInput {
                    context_in: Some(&mut argument),
                    ..ProgramInput::default()
                };
                let run = program.test_run(input);
                run.map_err(|error| Error::bpf("stop a timer", &error))?;
                Ok(())
            });
            if let Err(error) = stopped {
                // It ends with the handler.
                tracing::warn!(cpu, %error, "a timer cannot be stopped");
            }
        }
    }

    fn timer_program(&self, name: &str) -> Result<ProgramMut<'_>, Error> {
        let program = self.object.progs_mut().find(|of| of.name() == name);
        program.ok_or(Error::Bpf {
            what: "find a program",
            why: format!("{name} is not in the object"),
        })
    }
}
