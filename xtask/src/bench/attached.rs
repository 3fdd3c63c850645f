//! A profiler that is attached to the program.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;
use serde_json::Value;
use vcpi_tests::programs::{Programs, remove_database};

use super::Counts;
use crate::process::{Killed, processor_seconds};

/// It runs until [`Attached::end`].
pub(super) struct Attached {
    child: Killed,
    /// Processor time of the children before it, in seconds.
    before: f64,
}

impl Attached {
    /// Starts a profiler, which writes to `output`; what was there is removed.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(words: &[String], output: &Path) -> Result<Self> {
        remove_database(output)?;
        let (program, args) = words.split_first().context("an empty command")?;
        let before = children_seconds()?;
        let child = Killed::start(Command::new(program).args(args).stdout(Stdio::null()))?;
        Ok(Self { child, before })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Its processor time so far.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        processor_seconds(self.child.0.id())
    }

    /// Has it end, and says how much processor time it took from start to end, in seconds.
    ///
    /// # Errors
    /// If it has ended already.
    pub(super) fn end(mut self) -> Result<f64> {
        if let Some(status) = self.child.0.try_wait()? {
            bail!("the profiler ended by itself ({status})");
        }
        kill(
            Pid::from_raw(self.child.0.id().cast_signed()),
            Signal::SIGINT,
        )?;
        // perf dies of the signal after it has written all.
        self.child.0.wait()?;
        Ok(children_seconds()? - self.before)
    }
}

/// What a database holds.
pub(super) fn counts(programs: &Programs, database: &Path) -> Result<Counts> {
    let status = programs.report(database, &["status"])?;
    let number = |value: &Value| value.as_f64().context("vcpi status lacks a count");
    let coverage = &status["coverage"]["counts"];
    let lost = status["lost"].as_object().context("no losses")?;
    Ok(Counts {
        // Both clocks count nanoseconds.
        seconds: 1e-9 * number(&status["intervals"]["sum"])?,
        samples: number(&status["samples"])?,
        user_samples: number(&coverage["user_samples"])?,
        values: number(&status["value_events"])?,
        destinations: number(&coverage["user_destinations_known"])?,
        lost: lost.values().filter_map(Value::as_f64).sum(),
    })
}

/// Processor time of the children that were waited for, in seconds.
fn children_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the children's times")?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}
