//! Two commands that run in turn, and the processor time that they take: which one takes less, and
//! how sure that is.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotlist::Generator;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use serde::Serialize;

use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::page::Page;
use crate::render::rounded;

/// Rounds that are run unless asked for otherwise.
pub(crate) const ROUNDS: u16 = 11;
/// With fewer rounds an interval says nothing.
pub(crate) const LEAST_ROUNDS: i64 = 5;

/// Drawings of the rounds from which intervals come (B. Efron, Bootstrap methods, 1979).
const DRAWINGS: usize = 4000;
/// The draws are the same in each run.
const SEED: u64 = 0x7472_6961;
/// Runs that take less are mostly the start of a process.
const SHORT: Duration = Duration::from_millis(50);

/// A command that can be run again and again.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// As people write it.
    pub(crate) text: String,
    /// The program, and what it is told.
    pub(crate) words: Vec<std::ffi::OsString>,
}

impl Candidate {
    /// What a shell makes of a line.
    pub(crate) fn of_shell(line: &str) -> Candidate {
        Candidate {
            text: line.to_owned(),
            words: ["/bin/sh", "-c", line].map(Into::into).to_vec(),
        }
    }
}

/// How two commands compare.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Trial {
    a: String,
    b: String,
    rounds: usize,
    /// Median of user and system time, in seconds.
    a_seconds: f64,
    b_seconds: f64,
    /// What B takes of A's time: the median of the rounds, with a 95 % interval.
    ratio: f64,
    low: f64,
    high: f64,
    /// What B takes less than A, in percent.
    saving_percent: f64,
    saving_low: f64,
    saving_high: f64,
    /// The interval leaves out 1.
    differs: bool,
    /// What both printed is the same, in all rounds.
    same_output: bool,
    /// A prints the same each time: only then does another output of B say anything.
    a_repeats: bool,
}

/// What the runs of two commands printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Printed {
    is_same: bool,
    a_repeats: bool,
}

/// What one run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TrialRun {
    time: Duration,
    /// Of what it printed.
    hash: u64,
}

/// Runs two commands in turn. A first round, which shows what they say on standard error, does not
/// count. Who goes first changes from round to round.
///
/// # Errors
/// If one cannot be run, or fails.
pub(crate) fn run(commands: &[Candidate; 2], rounds: u16) -> Result<Trial, Failure> {
    let [a, b] = commands;
    let mut runs: Vec<[TrialRun; 2]> = Vec::new();
    let first = [once(a, true)?, once(b, true)?];
    for round in 0..rounds {
        let (of_a, of_b);
        if round % 2 == 0 {
            of_a = once(a, false)?;
            of_b = once(b, false)?;
        } else {
            of_b = once(b, false)?;
            of_a = once(a, false)?;
        }
        runs.push([of_a, of_b]);
    }
    let times: Vec<[Duration; 2]> = runs.iter().map(|pair| pair.map(|ran| ran.time)).collect();
    let expected = first[0].hash;
    let mut pairs = runs.iter().chain([&first]);
    let printed = Printed {
        a_repeats: pairs.clone().all(|[a, _]| a.hash == expected),
        is_same: pairs.all(|pair| pair.iter().all(|ran| ran.hash == expected)),
    };
    Ok(compared([&a.text, &b.text], &times, printed))
}

/// Runs a command once.
fn once(command: &Candidate, is_first: bool) -> Result<TrialRun, Failure> {
    let failed = |why: String| Failure::Program(format!("{}: {why}", command.text));
    let (program, rest) = command
        .words
        .split_first()
        .ok_or_else(|| failed("no command".to_owned()))?;
    let before = of_children().map_err(|error| failed(error.to_string()))?;
    let mut child = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(match is_first {
            true => Stdio::inherit(),
            false => Stdio::null(),
        })
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut hasher = DefaultHasher::new();
    if let Some(mut out) = child.stdout.take() {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match out.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => bytes
                    .iter()
                    .take(length)
                    .for_each(|byte| hasher.write_u8(*byte)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let after = of_children().map_err(|error| failed(error.to_string()))?;
    Ok(TrialRun {
        time: after.saturating_sub(before),
        hash: hasher.finish(),
    })
}

/// User and system time of all children that have ended: only one at a time is running.
fn of_children() -> nix::Result<Duration> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time =
        |of: TimeVal| Duration::from_micros(u64::try_from(of.num_microseconds()).unwrap_or(0));
    Ok(time(usage.user_time()) + time(usage.system_time()))
}

/// What the times of rounds say.
fn compared([a, b]: [&str; 2], times: &[[Duration; 2]], printed: Printed) -> Trial {
    let seconds = |which: usize| {
        let of = times.iter().filter_map(|pair| pair.get(which));
        median(of.map(Duration::as_secs_f64).collect())
    };
    let ratios: Vec<f64> = times
        .iter()
        .map(|[a, b]| b.as_secs_f64() / a.as_secs_f64().max(1e-6))
        .collect();
    let ratio = median(ratios.clone());
    let (low, high) = interval(&ratios);
    let (low, high) = (low.min(ratio), high.max(ratio));
    let saving = |ratio: f64| rounded(100.0 * (1.0 - ratio), 2);
    Trial {
        a: a.to_owned(),
        b: b.to_owned(),
        rounds: times.len(),
        a_seconds: rounded(seconds(0), 6),
        b_seconds: rounded(seconds(1), 6),
        ratio: rounded(ratio, 4),
        low: rounded(low, 4),
        high: rounded(high, 4),
        saving_percent: saving(ratio),
        saving_low: saving(high),
        saving_high: saving(low),
        differs: low > 1.0 || high < 1.0,
        same_output: printed.is_same,
        a_repeats: printed.a_repeats,
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
    match numbers.len() % 2 {
        0 => f64::midpoint(at(half.saturating_sub(1)), at(half)),
        _ => at(half),
    }
}

/// A 95 % interval of the median: of rounds that are drawn from these again and again.
fn interval(ratios: &[f64]) -> (f64, f64) {
    let mut coins = Generator::new(SEED);
    let length = ratios.len() as u64;
    let mut medians: Vec<f64> = (0..DRAWINGS)
        .map(|_| {
            let drawn = ratios.iter().map(|_| {
                let place = coins.next_u64().checked_rem(length).unwrap_or(0);
                let place = usize::try_from(place).unwrap_or(0);
                ratios.get(place).copied().unwrap_or(f64::NAN)
            });
            median(drawn.collect())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |place: usize| medians.get(place).copied().unwrap_or(f64::NAN);
    (at(DRAWINGS / 40), at(DRAWINGS - DRAWINGS / 40 - 1))
}

impl Model for Trial {
    fn page(&self, _names: Names) -> Page {
        let mut page = Page::default();
        page.item(0, format!("A: {}", self.a));
        page.item(0, format!("B: {}", self.b));
        page.text(format!(
            "{} rounds in turn; medians of user and system time: A {:.3} s, B {:.3} s",
            self.rounds, self.a_seconds, self.b_seconds
        ));
        page.text(format!(
            "B takes {:.3} of A's time, with a 95 % interval from {:.3} to {:.3}, in the median of \
             the rounds",
            self.ratio, self.low, self.high
        ));
        page.text(match self.differs {
            true if self.ratio < 1.0 => format!(
                "measured: B saves {:.1} % ({:.1} to {:.1} %)",
                self.saving_percent, self.saving_low, self.saving_high
            ),
            true => format!(
                "measured: B costs {:.1} % more ({:.1} to {:.1} %)",
                -self.saving_percent, -self.saving_high, -self.saving_low
            ),
            false => "measured: no difference; the interval includes 1".to_owned(),
        });
        if !self.a_repeats {
            page.text(
                "What A prints changes from run to run: whether A and B do the same is not known.",
            );
        } else if !self.same_output {
            page.text("What A and B printed differs: they do not do the same.");
        }
        let short = SHORT.as_secs_f64();
        if self.a_seconds.min(self.b_seconds) < short {
            page.text("These runs are short: the start of the processes is much of them.");
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(pairs: &[[u64; 2]]) -> Trial {
        let times: Vec<[Duration; 2]> = pairs
            .iter()
            .map(|pair| pair.map(Duration::from_millis))
            .collect();
        let printed = Printed {
            is_same: true,
            a_repeats: true,
        };
        compared(["a", "b"], &times, printed)
    }

    /// A difference that every round shows is one, with the sign of a saving where B takes less.
    #[test]
    fn differences() {
        let faster: Vec<[u64; 2]> = (0..11)
            .map(|round| [1000 + round, 900 + 2 * round])
            .collect();
        let faster = trial(&faster);
        assert!(faster.differs && faster.high < 0.95);
        assert!((faster.saving_percent - 9.5).abs() < 0.1, "{faster:?}");
        assert!(faster.saving_low <= faster.saving_percent);
        assert!(faster.saving_percent <= faster.saving_high);
        let slower: Vec<[u64; 2]> = (0..11).map(|round| [1000, 1100 + round]).collect();
        let slower = trial(&slower);
        assert!(slower.differs && slower.saving_percent < -10.0);
    }

    /// Where rounds fall on both sides of 1, no difference is claimed.
    #[test]
    fn noise() {
        let noise: Vec<[u64; 2]> = (0..11)
            .map(|round| [1000, if round % 2 == 0 { 950 } else { 1060 }])
            .collect();
        let noise = trial(&noise);
        assert!(!noise.differs && noise.low < 1.0 && noise.high > 1.0);
        let text = format!("{:?}", noise.page(Names::Short).blocks());
        assert!(
            text.contains("includes 1") && !text.contains("saves"),
            "{text}"
        );
    }

    /// What two commands print is compared, and one that fails is an error that names it.
    #[test]
    fn runs() {
        let of = |a, b| run(&[a, b].map(Candidate::of_shell), 5);
        let same = of("echo one", "echo one").expect("both run");
        assert!(same.same_output && same.rounds == 5 && same.a_seconds > 0.0);
        let other = of("echo one", "echo two").expect("both run");
        assert!(!other.same_output && other.a_repeats);
        let text = |trial: &Trial| format!("{:?}", trial.page(Names::Short).blocks());
        assert!(text(&other).contains("do not do the same"));
        let changing = of("date +%N", "date +%N").expect("both run");
        assert!(!changing.same_output && !changing.a_repeats);
        assert!(text(&changing).contains("from run to run"));
        assert!(!text(&changing).contains("do not do the same"));
        let failure = of("true", "exit 3").expect_err("one fails");
        assert_eq!(failure.code(), 5);
        assert!(failure.to_string().starts_with("exit 3: "), "{failure}");
    }
}
