//! `cargo xtask bench`: what profiling costs a processor-bound command (`xz`), side by
//! side with `perf record` at the same rate and with nothing.
//!
//! Runs of all kinds alternate in random order, so that a slow spell of the
//! machine falls on all alike; medians are printed. The command's own times are
//! taken by a small parent process inside the profile (`cargo xtask measure`),
//! the collector's from outside: what the whole tree used less the command.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use vcpi_tests::programs::{Programs, remove_database, target_dir};

use crate::demo::{REAL_DATA, gather};
use crate::process::progress;
use crate::setup::{self, Need};
use crate::test::build;

/// Bytes of real data that `xz` compresses in a run: two or three seconds of work.
const DATA_BYTES: u64 = 8 << 20;
/// Samples per second per CPU.
const RATES: [u32; 2] = [1000, 4000];

/// Under what the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Vcpid(u32),
    Perf(u32),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Nothing => "nothing".to_owned(),
            Kind::Vcpid(rate) => format!("vcpid record, {rate}/s"),
            Kind::Perf(rate) => format!("perf record -g --intr-regs, {rate}/s"),
        }
    }
}

/// What one run took, in seconds unless named otherwise.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Wall time of the command.
    wall: f64,
    /// User time of the command.
    user: f64,
    /// System time of the command.
    system: f64,
    /// Processor time of the collector.
    collector: f64,
    /// Wall time of the whole run, collector included.
    whole: f64,
    /// Samples taken; 0 if not known.
    samples: f64,
    /// Bytes written.
    bytes: f64,
}

/// Measures with `runs` runs of each kind and prints the table.
pub(crate) fn run(runs: u32, seed: u64) -> Result<()> {
    setup::run(Need::Test)?;
    build()?;
    let programs = Programs::find()?;
    let folder = target_dir()?.join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let data = folder.join("data");
    gather(REAL_DATA, &data, DATA_BYTES)?;
    let mut command: Vec<String> = ["xz", "-T1", "-c"].map(str::to_owned).into();
    command.push(path_text(&data)?);
    let bench = Bench {
        programs,
        folder,
        command,
    };

    let kinds: Vec<Kind> = std::iter::once(Kind::Nothing)
        .chain(
            RATES
                .iter()
                .flat_map(|&rate| [Kind::Vcpid(rate), Kind::Perf(rate)]),
        )
        .collect();
    let mut order: Vec<Kind> = kinds
        .iter()
        .flat_map(|&kind| (0..runs).map(move |_| kind))
        .collect();
    order.shuffle(&mut StdRng::seed_from_u64(seed));

    let mut results: Vec<(Kind, Run)> = Vec::new();
    for (number, &kind) in order.iter().enumerate() {
        progress(&format!(
            "run {} of {}: {}",
            number + 1,
            order.len(),
            kind.name()
        ));
        results.push((kind, bench.run(kind)?));
    }
    print!("\n{}", table(&kinds, &results));
    Ok(())
}

struct Bench {
    programs: Programs,
    folder: PathBuf,
    command: Vec<String>,
}

impl Bench {
    fn run(&self, kind: Kind) -> Result<Run> {
        let times = self.folder.join("times.json");
        let output = self.folder.join("output");
        remove_database(&output)?;
        let mut words: Vec<String> = Vec::new();
        match kind {
            Kind::Nothing => {}
            Kind::Vcpid(rate) => {
                words.push(path_text(&self.programs.vcpid)?);
                words.extend(["record", "-q", "--clock", "cpu-clock", "--rate"].map(str::to_owned));
                words.extend([
                    rate.to_string(),
                    "-o".to_owned(),
                    path_text(&output)?,
                    "--".to_owned(),
                ]);
            }
            Kind::Perf(rate) => {
                words.extend(
                    [
                        "perf",
                        "record",
                        "-q",
                        "-e",
                        "cpu-clock",
                        "-g",
                        "--intr-regs",
                        "-F",
                    ]
                    .map(str::to_owned),
                );
                words.extend([
                    rate.to_string(),
                    "-o".to_owned(),
                    path_text(&output)?,
                    "--".to_owned(),
                ]);
            }
        }
        words.push(path_text(&std::env::current_exe()?)?);
        words.extend(["measure".to_owned(), path_text(&times)?]);
        words.extend(self.command.iter().cloned());

        let (program, args) = words.split_first().context("an empty command")?;
        let before = children_times()?;
        let start = Instant::now();
        let status = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("running {program}"))?;
        let whole = start.elapsed().as_secs_f64();
        let after = children_times()?;
        if !status.success() {
            bail!("{} failed ({status})", kind.name());
        }

        let text = std::fs::read_to_string(&times).context("reading the command's times")?;
        let inner: Value = serde_json::from_str(&text).context("the command's times")?;
        let seconds = |name: &str| {
            inner[name]
                .as_f64()
                .with_context(|| format!("no time {name:?}"))
        };
        let (wall, user, system) = (seconds("wall")?, seconds("user")?, seconds("system")?);
        Ok(Run {
            wall,
            user,
            system,
            collector: (after.0 + after.1 - before.0 - before.1 - user - system).max(0.0),
            whole,
            samples: match kind {
                Kind::Vcpid(_) => self.programs.report(&output, &["status"])?["samples"]
                    .as_f64()
                    .context("vcpi status says no samples")?,
                Kind::Nothing | Kind::Perf(_) => 0.0,
            },
            bytes: std::fs::metadata(&output).map_or(0.0, |file| file.len() as f64),
        })
    }
}

/// `cargo xtask measure`: runs the command, writes its times, passes its status on.
pub(crate) fn measure(output: &Path, command: &[String]) -> Result<ExitCode> {
    let (program, args) = command.split_first().context("no command")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(args)
        .status()
        .with_context(|| format!("running {program}"))?;
    let wall = start.elapsed().as_secs_f64();
    let (user, system) = children_times()?;
    let times = json!({"wall": wall, "user": user, "system": system});
    std::fs::write(output, times.to_string())
        .with_context(|| format!("writing {}", output.display()))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// User and system time of the children that were waited for, in seconds.
fn children_times() -> Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the children's times")?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 * 1e-6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

fn path_text(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

/// The median; 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (Some(upper), 1) => *upper,
        (Some(upper), _) => (upper + values.get(middle.saturating_sub(1)).unwrap_or(upper)) / 2.0,
        (None, _) => 0.0,
    }
}

fn table(kinds: &[Kind], results: &[(Kind, Run)]) -> String {
    let of = |kind: Kind, what: fn(&Run) -> f64| {
        median(
            results
                .iter()
                .filter(|(other, _)| *other == kind)
                .map(|(_, run)| what(run)),
        )
    };
    let base = of(Kind::Nothing, |run| run.wall);
    let base_cpu = of(Kind::Nothing, |run| run.user + run.system);
    let mut text = String::from(
        "Medians. wall, user, sys: the command alone; slowdown: against nothing; collector:\n\
         processor time of the profiler from its start to its end, per second of the command\n\
         and per sample; MB/min: what it wrote per minute of the command (in so short a run a\n\
         database is mostly what it holds once: images, instructions, first values).\n\n",
    );
    let _ = writeln!(
        text,
        "{:<37} {:>7} {:>7} {:>7} {:>9} {:>9} {:>10} {:>10} {:>8}",
        "under",
        "wall s",
        "user s",
        "sys s",
        "slowdown",
        "of CPU",
        "collector",
        "us/sample",
        "MB/min"
    );
    for &kind in kinds {
        let wall = of(kind, |run| run.wall);
        let cpu = of(kind, |run| run.user + run.system);
        let ratio = |value: f64, base: f64| match base > 0.0 {
            true => format!("{:+.1} %", 100.0 * (value / base - 1.0)),
            false => "-".to_owned(),
        };
        let per_sample = of(kind, |run| match run.samples > 0.0 {
            true => run.collector / run.samples * 1e6,
            false => 0.0,
        });
        let _ = writeln!(
            text,
            "{:<37} {:>7.3} {:>7.3} {:>7.3} {:>9} {:>9} {:>10} {:>10} {:>8}",
            kind.name(),
            wall,
            of(kind, |run| run.user),
            of(kind, |run| run.system),
            ratio(wall, base),
            ratio(cpu, base_cpu),
            format!("{:.1} %", 100.0 * of(kind, |run| run.collector / run.wall)),
            if per_sample > 0.0 {
                format!("{per_sample:.1}")
            } else {
                "-".to_owned()
            },
            format!("{:.1}", of(kind, |run| run.bytes / 1e6 / (run.wall / 60.0))),
        );
    }
    let _ = writeln!(
        text,
        "\nStart and end of a run, the command left out: nothing {:.3} s{}",
        of(Kind::Nothing, |run| run.whole - run.wall),
        kinds
            .iter()
            .filter(|kind| **kind != Kind::Nothing)
            .map(|&kind| format!(
                "; {} {:.3} s",
                kind.name(),
                of(kind, |run| run.whole - run.wall)
            ))
            .collect::<String>()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The median of an even number of values lies between the middle two.
    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    /// The table sets each kind against the runs under nothing.
    #[test]
    fn slowdown() {
        let run = |wall, samples| Run {
            wall,
            user: wall,
            system: 0.0,
            collector: 0.1,
            whole: wall,
            samples,
            bytes: 1e6,
        };
        let kinds = [Kind::Nothing, Kind::Vcpid(1000)];
        let results = [
            (Kind::Nothing, run(2.0, 0.0)),
            (Kind::Vcpid(1000), run(2.1, 1000.0)),
        ];
        let text = table(&kinds, &results);
        let line = text.lines().find(|line| line.starts_with("vcpid")).unwrap();
        assert!(line.contains("+5.0 %") && line.contains("100.0"), "{line}");
    }
}
