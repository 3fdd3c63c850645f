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

/// What a piece of work took.
#[derive(Debug, Clone)]
pub(super) struct Took {
    /// Seconds of two pieces without interrupts, or under what is not switched: the median.
    pub(super) seconds: f64,
    /// Time by that of the first pieces: of the second ones, and of each profiler's. All of a kind
    /// together: intervals are random, and what is slowed down more than the average is not half of
    /// it, so a median would flatter who draws them.
    pub(super) ratios: Vec<f64>,
}

/// A piece that took so many times the median of its kind was not slowed down by a profiler: the
/// machine stood still.
const STALL: f64 = 3.0;

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

    /// From now on the perf events of these processes are on for one piece of each turn, one
    /// process after the other.
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
        Ok(Took {
            seconds: median(whole.iter().map(|took| (took[0] + took[1]) as f64 * 1e-9)),
            ratios: ratios(&whole, pieces),
        })
    }
}

/// The time of each kind of piece but the first by that of the first, without the turns in which
/// the machine stood still.
fn ratios(turns: &[&[u64]], pieces: usize) -> Vec<f64> {
    let most = |piece: usize| STALL * median(turns.iter().map(|took| took[piece] as f64));
    let most: Vec<f64> = (0..pieces).map(most).collect();
    let is_steady = |took: &&&[u64]| {
        took.iter()
            .zip(&most)
            .all(|(took, most)| *took as f64 <= *most)
    };
    let steady: Vec<_> = turns.iter().filter(is_steady).collect();
    let all = |piece: usize| steady.iter().map(|took| took[piece] as f64).sum::<f64>();
    (1..pieces).map(|piece| all(piece) / all(0)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All time of a kind counts, but for turns in which the machine stood still.
    #[test]
    fn ratios_of_sums() {
        let turns: [&[u64]; 4] = [&[10, 10, 11], &[10, 12, 15], &[10, 8, 10], &[10, 10, 400]];
        assert_eq!(ratios(&turns, 3), [1.0, 1.2]);
    }
}
