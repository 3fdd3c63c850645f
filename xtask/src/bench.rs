//! `cargo xtask bench`: what profiling costs a processor-bound command (`xz`), side by
//! side with `perf record` at the same rate, with the interrupts alone, and with nothing.
//!
//! Runs of all kinds alternate in random order, so that a slow spell of the
//! machine falls on all alike; medians are printed. The command's own times are
//! taken by a small parent process inside the profile (`cargo xtask measure`),
//! the collector's from outside: what the whole tree used less the command.

mod table;

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
/// Samples per second per CPU; and one every so many cycles, as DCPI sampled.
const RATES: [u32; 3] = [1000, 4000, 10_000];
const DCPI_CYCLES: f64 = 62_000.0;
/// The software clock, and the clock that only BPF has.
const CLOCKS: [&str; 2] = ["cpu-clock", "timer"];

/// Under what the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By itself.
    Nothing,
    /// Interrupted, by a handler in BPF that finds it is none of its targets and does no more.
    Interrupts(&'static str, u32),
    /// As one does it without values: `perf record -g --intr-regs`.
    Perf(u32),
    /// `vcpid record`, with windows of so many instructions.
    Vcpid(&'static str, u32, u32),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Nothing => "nothing".to_owned(),
            Kind::Interrupts(clock, rate) => format!("interrupts alone, {clock}, {rate}/s"),
            Kind::Perf(rate) => format!("perf -g --intr-regs, cpu-clock, {rate}/s"),
            Kind::Vcpid(clock, rate, window) => {
                format!("vcpid record, {clock}, {rate}/s, window {window}")
            }
        }
    }

    /// The command line up to the command.
    fn words(self, vcpid: &str, output: &str) -> Vec<String> {
        let record = |clock: &str, rate: u32, more: &[String]| {
            let mut words = [vcpid, "record", "-q", "--engine", "bpf", "--clock", clock]
                .map(str::to_owned)
                .to_vec();
            words.extend(["--rate".to_owned(), rate.to_string()]);
            words.extend(["-o".to_owned(), output.to_owned()]);
            words.extend_from_slice(more);
            words
        };
        match self {
            Kind::Nothing => Vec::new(),
            // All that the first process of the machine does.
            Kind::Interrupts(clock, rate) => record(clock, rate, &["-p", "1"].map(str::to_owned)),
            Kind::Vcpid(clock, rate, window) => {
                record(clock, rate, &["--window".to_owned(), window.to_string()])
            }
            Kind::Perf(rate) => {
                let mut words = ["perf", "record", "-q", "--no-buildid", "--no-buildid-cache"]
                    .map(str::to_owned)
                    .to_vec();
                words.extend(["-e", "cpu-clock", "-g", "--intr-regs", "-F"].map(str::to_owned));
                words.extend([rate.to_string(), "-o".to_owned(), output.to_owned()]);
                words
            }
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
    /// What a report says of the samples; zeros if there is none.
    counts: Counts,
    /// Bytes written.
    bytes: f64,
}

/// What was collected.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    samples: f64,
    user_samples: f64,
    values: f64,
    /// Known values of destinations.
    destinations: f64,
    lost: f64,
}

/// Measures with `runs` runs of each kind and prints the table.
///
/// # Errors
/// What fails, of setting up, building and running.
pub(crate) fn run(runs: u32, seed: u64, windows: &[u32]) -> Result<()> {
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

    let _limits = Limits::lift()?;
    let kinds = kinds(windows)?;
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
    print!("\n{}", table::of(&kinds, &results));
    Ok(())
}

struct Bench {
    programs: Programs,
    folder: PathBuf,
    command: Vec<String>,
}

impl Bench {
    fn counts(&self, output: &Path) -> Result<Counts> {
        let status = self.programs.report(output, &["status"])?;
        let number = |value: &Value| value.as_f64().context("vcpi status lacks a count");
        let coverage = &status["coverage"]["counts"];
        let lost = status["lost"].as_object().context("no losses")?;
        Ok(Counts {
            samples: number(&status["samples"])?,
            user_samples: number(&coverage["user_samples"])?,
            values: number(&status["value_events"])?,
            destinations: number(&coverage["destinations_known"])?,
            lost: lost.values().filter_map(Value::as_f64).sum(),
        })
    }

    fn run(&self, kind: Kind) -> Result<Run> {
        let times = self.folder.join("times.json");
        let output = self.folder.join("output");
        remove_database(&output)?;
        let mut words = kind.words(&path_text(&self.programs.vcpid)?, &path_text(&output)?);
        if kind != Kind::Nothing {
            words.push("--".to_owned());
        }
        words.push(path_text(&std::env::current_exe()?)?);
        words.extend(["measure".to_owned(), path_text(&times)?]);
        words.extend(self.command.iter().cloned());

        let (program, args) = words.split_first().context("an empty command")?;
        let before = children_times()?;
        let status = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("running {program}"))?;
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
            counts: match kind {
                Kind::Vcpid(..) => self.counts(&output)?,
                Kind::Nothing | Kind::Interrupts(..) | Kind::Perf(_) => Counts::default(),
            },
            bytes: std::fs::metadata(&output).map_or(0.0, |file| file.len() as f64),
        })
    }
}

/// What runs: nothing, and at each rate of each clock all that can be set side by side.
fn kinds(windows: &[u32]) -> Result<Vec<Kind>> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    let mhz: f64 = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("cpu MHz")?.split(':').nth(1))
        .and_then(|mhz| mhz.trim().parse().ok())
        .context("/proc/cpuinfo tells no frequency")?;
    let as_dcpi = (mhz * 1e6 / DCPI_CYCLES) as u32;
    let mut kinds = vec![Kind::Nothing];
    for clock in CLOCKS {
        for rate in RATES.into_iter().chain([as_dcpi]) {
            kinds.push(Kind::Interrupts(clock, rate));
            // perf knows no such clock.
            if clock != "timer" {
                kinds.push(Kind::Perf(rate));
            }
            kinds.extend(
                windows
                    .iter()
                    .map(|&window| Kind::Vcpid(clock, rate, window)),
            );
        }
    }
    Ok(kinds)
}

/// The kernel's limits of sampling, out of the way while this lives: they would cut the highest
/// rate, and what one run made the kernel lower would hold for the next.
struct Limits([(&'static str, String); 2]);

impl Limits {
    const RATE: &'static str = "/proc/sys/kernel/perf_event_max_sample_rate";
    const SHARE: &'static str = "/proc/sys/kernel/perf_cpu_time_max_percent";

    fn lift() -> Result<Self> {
        let read = |path: &'static str| {
            std::fs::read_to_string(path)
                .map(|text| (path, text))
                .with_context(|| format!("reading {path}"))
        };
        // Written back in this order: the share sets the rate anew.
        let limits = Self([read(Self::SHARE)?, read(Self::RATE)?]);
        // Without a share the kernel takes no rate.
        for (path, value) in [(Self::RATE, "100000"), (Self::SHARE, "0")] {
            std::fs::write(path, value).with_context(|| format!("writing {path}"))?;
        }
        Ok(limits)
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            if let Err(error) = std::fs::write(path, value) {
                eprintln!("{path} could not be put back to {}: {error}", value.trim());
            }
        }
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
