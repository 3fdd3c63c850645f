//! The program that is profiled: it compresses real data in pieces of equal work, for ever.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};

use super::table::median;
use crate::process::Killed;

/// What it does.
const SCRIPT: &str = include_str!("work.py");

/// Two pieces of equal work, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// When the first began and the second ended, by the monotonic clock.
    begin: u64,
    end: u64,
    /// How long each took, with a profiler's interrupts and without.
    on: u64,
    off: u64,
}

impl Pair {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map_while(|word| word.parse().ok());
        Some(Self {
            begin: numbers.next()?,
            end: numbers.next()?,
            on: numbers.next()?,
            off: numbers.next()?,
        })
    }
}

/// What a piece of work took: medians.
#[derive(Debug, Clone, Copy)]
pub(super) struct Took {
    /// Seconds for both pieces of a pair.
    pub(super) seconds: f64,
    /// Time with interrupts by time without.
    pub(super) ratio: f64,
}

/// The program, which ends with this.
pub(super) struct Work {
    child: Killed,
    input: ChildStdin,
    pairs: Arc<Mutex<Vec<Pair>>>,
}

impl Work {
    /// Starts it on this data.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(data: &Path) -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", SCRIPT]).arg(data);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Killed(python.spawn().context("running python3")?);
        let input = child.0.stdin.take().context("no pipe to python3")?;
        let output = child.0.stdout.take().context("no pipe from python3")?;
        let pairs = Arc::default();
        let kept = Arc::clone(&pairs);
        std::thread::spawn(move || read(output, &kept));
        Ok(Self {
            child,
            input,
            pairs,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// From now on the perf events of this process are switched off for one piece of each pair.
    pub(super) fn toggle(&mut self, pid: u32) -> Result<()> {
        self.say(&format!("toggle {pid}"))
    }

    /// From now on nothing is switched off.
    pub(super) fn leave(&mut self) -> Result<()> {
        self.say("leave")
    }

    fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").context("writing to python3, which is profiled")
    }

    /// Lets it work for so long, and says what the pairs took that began and ended meanwhile.
    ///
    /// # Errors
    /// If there was none.
    pub(super) fn watch(&self, length: Duration) -> Result<Took> {
        let from = now()?;
        std::thread::sleep(length);
        let to = now()?;
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|pair| pair.begin >= from);
        let whole: Vec<Pair> = pairs
            .iter()
            .filter(|pair| pair.end <= to)
            .copied()
            .collect();
        if whole.is_empty() {
            bail!("the program that is to be profiled has ended, or needs more than {length:?}");
        }
        Ok(Took {
            seconds: median(whole.iter().map(|pair| (pair.on + pair.off) as f64 * 1e-9)),
            ratio: median(whole.iter().map(|pair| pair.on as f64 / pair.off as f64)),
        })
    }
}

/// Reads what it says, until it ends.
fn read(output: ChildStdout, pairs: &Mutex<Vec<Pair>>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for pair in lines.filter_map(|line| Pair::parse(&line)) {
        pairs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pair);
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> Result<u64> {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).context("reading a clock")?);
    Ok(u64::try_from(time.as_nanos())?)
}
