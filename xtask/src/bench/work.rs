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

/// Pieces of equal work, one behind the other.
#[derive(Debug, Clone)]
struct Turn {
    /// When the first began and the last ended, by the monotonic clock, in nanoseconds.
    begin: u64,
    end: u64,
    /// How long each took: without interrupts, without them once more, and with those of each
    /// profiler.
    took: Vec<u64>,
}

impl Turn {
    fn parse(line: &str) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        match numbers.ok()?.as_slice() {
            [begin, end, took @ ..] if took.len() >= 2 => Some(Self {
                begin: *begin,
                end: *end,
                took: took.to_vec(),
            }),
            _ => None,
        }
    }
}

/// What a piece of work took: medians.
#[derive(Debug, Clone)]
pub(super) struct Took {
    /// Seconds of two pieces without interrupts, or under what is not switched.
    pub(super) seconds: f64,
    /// Time by that of the first piece of the same turn: of the second one, and of each profiler's.
    pub(super) ratios: Vec<f64>,
}

/// The program, which ends with this.
pub(super) struct Work {
    child: Killed,
    input: ChildStdin,
    turns: Arc<Mutex<Vec<Turn>>>,
    /// How many are switched.
    profilers: usize,
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
        let turns = Arc::default();
        let kept = Arc::clone(&turns);
        std::thread::spawn(move || read(output, &kept));
        Ok(Self {
            child,
            input,
            turns,
            profilers: 0,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// From now on the perf events of these processes are on for one piece of each turn, one process
    /// after the other.
    pub(super) fn toggle(&mut self, pids: &[u32]) -> Result<()> {
        self.profilers = pids.len();
        let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
        self.say(&format!("toggle {}", pids.join(" ")))
    }

    /// From now on nothing is switched off.
    pub(super) fn leave(&mut self) -> Result<()> {
        self.profilers = 0;
        self.say("leave")
    }

    fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").context("writing to python3, which is profiled")
    }

    /// Lets it work for so long, and says what the turns took that began and ended meanwhile.
    ///
    /// # Errors
    /// If there was none.
    pub(super) fn watch(&self, length: Duration) -> Result<Took> {
        let from = now()?;
        std::thread::sleep(length);
        let to = now()?;
        let pieces = 2 + self.profilers;
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|turn| turn.begin >= from);
        let whole: Vec<&[u64]> = turns
            .iter()
            .filter(|turn| turn.end <= to && turn.took.len() == pieces)
            .map(|turn| turn.took.as_slice())
            .collect();
        if whole.is_empty() {
            bail!("the program that is to be profiled has ended, or needs more than {length:?}");
        }
        let ratio =
            |piece: usize| median(whole.iter().map(|took| took[piece] as f64 / took[0] as f64));
        Ok(Took {
            seconds: median(whole.iter().map(|took| (took[0] + took[1]) as f64 * 1e-9)),
            ratios: (1..pieces).map(ratio).collect(),
        })
    }
}

/// Reads what it says, until it ends.
fn read(output: ChildStdout, turns: &Mutex<Vec<Turn>>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for turn in lines.filter_map(|line| Turn::parse(&line)) {
        turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(turn);
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> Result<u64> {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).context("reading a clock")?);
    Ok(u64::try_from(time.as_nanos())?)
}
