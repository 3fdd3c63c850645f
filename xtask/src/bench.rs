//! `cargo xtask bench`: what profiling costs a processor-bound program, side by side with
//! `perf record` at the same rate, with the interrupts alone, and with nothing.
//!
//! One program works all the time, in pieces of equal work (`work`). A shared machine is up to half
//! as fast again in one second as in the next. So those that are to be compared, which are all of
//! one rate, are attached at once, and one after the other has its perf events switched on for a
//! few hundredths of a second; a slowdown is the time of all pieces of a profiler against that of
//! the pieces of the same turns that none was on in. What a profiler takes of the processors is
//! seen when it is attached alone. The clock that is no perf event cannot be switched; its slowdown
//! is against nothing just before and after, and as uncertain as the spread says. All of it is done
//! in random order.

mod attached;
mod handler;
mod limits;
mod table;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use vcpi_tests::programs::{Programs, target_dir};

use self::attached::Attached;
use self::limits::Limits;
use self::work::Work;
use crate::demo::{REAL_DATA, gather};
use crate::process::progress;
use crate::setup::{self, Need};
use crate::test::build;

/// Bytes of real data that are compressed again and again.
const DATA_BYTES: u64 = 128 << 10;
/// Samples per second per CPU; and one every so many cycles, as DCPI sampled.
const RATES: [u32; 3] = [1000, 4000, 10_000];
const DCPI_CYCLES: f64 = 62_000.0;
/// The software clock, and the clock that only BPF has.
const CLOCKS: [&str; 2] = ["cpu-clock", "timer"];
/// What a profiler is given that learns nothing.
const START: Duration = Duration::from_secs(3);
/// How long the collector naps at most, and how many samples end a nap. What it costs is measured
/// over two at least.
const NAP: Duration = Duration::from_secs(16);
const NAP_SAMPLES: u32 = 16_384;
/// For longer than two turns of pieces take, at the highest rate.
const PAUSE: Duration = Duration::from_secs(5);

/// Under what the program works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profiler {
    /// Nothing: what it shows is how well this machine can be measured.
    Nothing,
    /// Interrupts, by a handler in BPF that finds it is none of its targets and does no more.
    Interrupts(&'static str, u32),
    /// As one does it without values: `perf record -g --intr-regs`.
    Perf(u32),
    /// `vcpid record` with no option but the process: at the rate and with the windows that it
    /// takes then.
    AsItComes,
    /// `vcpid record`, with windows of so many instructions.
    Vcpid(&'static str, u32, u32),
}

impl Profiler {
    fn name(self) -> String {
        match self {
            Profiler::Nothing => "nothing".to_owned(),
            Profiler::AsItComes => "vcpid record, as it comes".to_owned(),
            Profiler::Interrupts(clock, rate) => format!("interrupts alone, {clock}, {rate}/s"),
            Profiler::Perf(rate) => format!("perf -g --intr-regs, cpu-clock, {rate}/s"),
            Profiler::Vcpid(clock, rate, window) => {
                format!("vcpid record, {clock}, {rate}/s, window {window}")
            }
        }
    }

    /// Whether its interrupts can be switched off and on, or there are none.
    fn is_switched(self) -> bool {
        !matches!(
            self,
            Profiler::Interrupts("timer", _) | Profiler::Vcpid("timer", _, _)
        )
    }

    /// Whether it costs less once it has seen the program for a while.
    fn learns(self) -> bool {
        matches!(self, Profiler::AsItComes | Profiler::Vcpid(..))
    }

    /// How long it may sleep between two times that it works.
    fn nap(self) -> Duration {
        match self {
            Profiler::AsItComes => NAP,
            Profiler::Vcpid(_, rate, _) => {
                NAP.min(Duration::from_secs(1) * NAP_SAMPLES / rate.max(1))
            }
            _ => Duration::ZERO,
        }
    }

    /// Samples per second that are asked for.
    fn rate(self) -> Option<u32> {
        match self {
            Profiler::Nothing | Profiler::AsItComes => None,
            Profiler::Interrupts(_, rate) | Profiler::Perf(rate) | Profiler::Vcpid(_, rate, _) => {
                Some(rate)
            }
        }
    }

    /// The command line that attaches it to a process; `None` for nothing.
    fn words(self, vcpid: &str, output: &str, pid: u32) -> Option<Vec<String>> {
        let (program, args) = match self {
            Profiler::Nothing => return None,
            Profiler::AsItComes => (vcpid, format!("record -q -p {pid}")),
            // All that the first process of the machine does.
            Profiler::Interrupts(clock, rate) => (vcpid, record(clock, rate, "-p 1")),
            Profiler::Vcpid(clock, rate, window) => (
                vcpid,
                record(clock, rate, &format!("--window {window} -p {pid}")),
            ),
            Profiler::Perf(rate) => (
                "perf",
                format!(
                    "record -q --no-buildid --no-buildid-cache -e cpu-clock -g --intr-regs \
                     -F {rate} -p {pid}"
                ),
            ),
        };
        let words = [program].into_iter().chain(args.split(' '));
        let words = words.chain(["-o", output]);
        Some(words.map(str::to_owned).collect())
    }
}

/// The arguments of `vcpid record`.
fn record(clock: &str, rate: u32, more: &str) -> String {
    format!("record -q --engine bpf --clock {clock} --rate {rate} {more}")
}

/// What is done in a round.
#[derive(Debug, Clone, PartialEq)]
enum Task {
    /// One is attached, and what it takes and brings is seen.
    Alone(Profiler),
    /// All of these are, which can be switched, and how they slow the program down is seen.
    SideBySide(Vec<Profiler>),
}

/// What was seen of the kinds, round by round.
#[derive(Debug, Default)]
struct Results {
    /// The median time of a piece of work under it, by that of the same work without.
    ratios: Vec<(Profiler, f64)>,
    runs: Vec<(Profiler, Run)>,
}

/// What was seen of one that was attached alone.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Processor time of the collector per second, while the program was measured.
    collector: f64,
    /// The same from its start to its end, in seconds.
    whole: f64,
    /// What a report says of the samples; zeros if there is none.
    counts: Counts,
    /// Bytes written.
    bytes: f64,
}

/// What was collected.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// For how long, in seconds of which the clock was on.
    seconds: f64,
    samples: f64,
    user_samples: f64,
    values: f64,
    /// Known values of destinations, in windows of user samples.
    destinations: f64,
    lost: f64,
}

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Rounds, in each of which everything is measured once; medians are printed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds that each is measured for. What the collector costs is measured for longer where
    /// samples are few: it sleeps for up to sixteen seconds.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seconds: u64,
    /// Seconds that the collector is given to start and to learn before it is measured. After three
    /// it goes on learning; what it costs that runs for long shows after twenty to ninety, the
    /// sooner the higher the rate.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    settle: u64,
    /// Seed of the random order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Instructions per window; each of them is measured.
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "16,256"
    )]
    windows: Vec<u32>,
    /// Samples per second; each of them is measured. By default 1000, 4000, 10000 and one every
    /// 62,000 cycles.
    #[arg(long, value_name = "HZ,...", value_delimiter = ',')]
    rates: Vec<u32>,
    /// The clocks; each of them is measured.
    #[arg(long, value_name = "CLOCK,...", value_delimiter = ',', value_parser = CLOCKS,
        default_values = CLOCKS)]
    clocks: Vec<String>,
    /// Measure the handler in the kernel alone, by the number of callers that it walks to.
    #[arg(long, conflicts_with_all = ["seconds", "settle", "windows", "clocks"])]
    handler: bool,
}

/// Measures and prints the table.
///
/// # Errors
/// What fails, of setting up, building and running.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run(Need::Test)?;
    build()?;
    let folder = target_dir()?.join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut random = StdRng::seed_from_u64(options.seed);
    if options.handler {
        let vcpid = path_text(&Programs::find()?.vcpid)?;
        let rates: &[u32] = match options.rates.as_slice() {
            [] => &RATES,
            rates => rates,
        };
        return handler::run(&vcpid, &folder, rates, options.rounds, &mut random);
    }
    let data = folder.join("data");
    gather(REAL_DATA, &data, DATA_BYTES)?;

    let _limits = Limits::lift()?;
    let kinds = kinds(options)?;
    let tasks = tasks(&kinds);
    let mut bench = Bench {
        programs: Programs::find()?,
        folder,
        work: Work::start(&data)?,
        settle: Duration::from_secs(options.settle),
        length: Duration::from_secs(options.seconds),
    };
    let mut results = Results::default();
    let measured = bench.rounds(options.rounds, &tasks, &mut random, &mut results);
    // What was seen before something failed is not to be lost.
    print!("\n{}", table::of(&kinds, &results));
    measured
}

struct Bench {
    programs: Programs,
    /// Where profilers write.
    folder: PathBuf,
    work: Work,
    /// For how long one that learns is let be before it is measured.
    settle: Duration,
    /// For how long a profiler is measured.
    length: Duration,
}

impl Bench {
    /// Does all tasks in each of so many rounds, in random order.
    fn rounds(
        &mut self,
        rounds: u32,
        tasks: &[Task],
        random: &mut StdRng,
        results: &mut Results,
    ) -> Result<()> {
        for round in 1..=rounds {
            progress(&format!("round {round} of {rounds}"));
            let mut order = tasks.to_vec();
            order.shuffle(random);
            for task in order {
                match task {
                    Task::Alone(kind) => self.alone(kind, results)?,
                    Task::SideBySide(kinds) => self.side_by_side(&kinds, results)?,
                }
            }
        }
        Ok(())
    }

    /// Attaches one, and sees what it takes of the processors and what it brings; of one that
    /// cannot be switched, also how it slows the program down.
    fn alone(&mut self, kind: Profiler, results: &mut Results) -> Result<()> {
        let output = self.folder.join("output");
        let before = self.seconds_of_nothing(kind)?;
        let attached = self.attach(kind, &output)?;
        self.work.watch(self.settling(kind))?;
        let taken = attached.processor_seconds()?;
        let length = self.length.max(2 * kind.nap());
        let took = self.work.watch(length)?;
        let spent = attached.processor_seconds()? - taken;
        let whole = attached.end()?;
        let after = self.seconds_of_nothing(kind)?;
        if let Some((before, after)) = before.zip(after) {
            let ratio = 2.0 * took.seconds / (before + after);
            results.ratios.push((kind, ratio));
        }
        let counts = match kind {
            Profiler::Vcpid(..) | Profiler::AsItComes => attached::counts(&self.programs, &output)?,
            Profiler::Nothing | Profiler::Interrupts(..) | Profiler::Perf(_) => Counts::default(),
        };
        let run = Run {
            collector: spent / length.as_secs_f64(),
            whole,
            counts,
            bytes: std::fs::metadata(&output).map_or(0.0, |file| file.len() as f64),
        };
        results.runs.push((kind, run));
        Ok(())
    }

    /// Attaches all of these, and sees how each slows the program down while the others are off.
    fn side_by_side(&mut self, kinds: &[Profiler], results: &mut Results) -> Result<()> {
        let mut attached = Vec::new();
        for (number, &kind) in kinds.iter().enumerate() {
            let output = self.folder.join(format!("output-{number}"));
            attached.push(self.attach(kind, &output)?);
        }
        let settling = kinds.iter().map(|&kind| self.settling(kind)).max();
        self.work.watch(settling.unwrap_or(START))?;
        let pids: Vec<_> = attached.iter().map(Attached::pid).collect();
        self.work.toggle(&pids)?;
        // As many turns as if each were there alone.
        let pieces = 2 + u32::try_from(kinds.len())?;
        let took = self.work.watch(self.length * pieces / 2)?;
        self.work.leave()?;
        // The turn that is under way is the last.
        self.work.watch(PAUSE)?;
        for profiler in attached {
            profiler.end()?;
        }
        let of = [Profiler::Nothing].into_iter().chain(kinds.iter().copied());
        results.ratios.extend(of.zip(took.ratios));
        Ok(())
    }

    fn attach(&self, kind: Profiler, output: &Path) -> Result<Attached> {
        let vcpid = path_text(&self.programs.vcpid)?;
        let words = kind.words(&vcpid, &path_text(output)?, self.work.pid());
        Attached::start(&words.context("nothing is no profiler")?, output)
    }

    /// What the program takes under nothing, just before or after one that cannot be switched off.
    fn seconds_of_nothing(&self, kind: Profiler) -> Result<Option<f64>> {
        if kind.is_switched() {
            return Ok(None);
        }
        Ok(Some(self.work.watch(self.length / 2)?.seconds))
    }

    /// How long one is let be before it is measured.
    fn settling(&self, kind: Profiler) -> Duration {
        match kind.learns() {
            true => self.settle,
            false => self.settle.min(START),
        }
    }
}

/// Each profiler alone, and those of each rate that can be switched side by side; with them the one
/// that has a rate of its own.
fn tasks(kinds: &[Profiler]) -> Vec<Task> {
    let profilers = || {
        kinds
            .iter()
            .copied()
            .filter(|&kind| kind != Profiler::Nothing)
    };
    let mut tasks: Vec<_> = profilers().map(Task::Alone).collect();
    let mut groups: Vec<Vec<Profiler>> = Vec::new();
    for kind in profilers().filter(|kind| kind.is_switched()) {
        let of_rate = |group: &&mut Vec<Profiler>| {
            let rate = group.iter().find_map(|kind| kind.rate());
            rate.is_none() || kind.rate().is_none() || rate == kind.rate()
        };
        match groups.iter_mut().find(of_rate) {
            Some(group) => group.push(kind),
            None => groups.push(vec![kind]),
        }
    }
    tasks.extend(groups.into_iter().map(Task::SideBySide));
    tasks
}

/// Nothing, and at each rate of each clock all that can be set side by side.
fn kinds(options: &Options) -> Result<Vec<Profiler>> {
    let mut rates = options.rates.clone();
    if rates.is_empty() {
        rates.extend(RATES);
        rates.push(as_dcpi()?);
    }
    let mut kinds = vec![Profiler::Nothing, Profiler::AsItComes];
    for clock in CLOCKS
        .into_iter()
        .filter(|&clock| options.clocks.iter().any(|asked| asked == clock))
    {
        for &rate in &rates {
            kinds.push(Profiler::Interrupts(clock, rate));
            // perf knows no such clock.
            if clock != "timer" {
                kinds.push(Profiler::Perf(rate));
            }
            let windows = options.windows.iter();
            kinds.extend(windows.map(|&window| Profiler::Vcpid(clock, rate, window)));
        }
    }
    Ok(kinds)
}

/// The rate of one sample every [`DCPI_CYCLES`].
fn as_dcpi() -> Result<u32> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    let mhz: f64 = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("cpu MHz")?.split(':').nth(1))
        .and_then(|mhz| mhz.trim().parse().ok())
        .context("/proc/cpuinfo tells no frequency")?;
    Ok((mhz * 1e6 / DCPI_CYCLES) as u32)
}

fn path_text(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Side by side are those of one rate, and the one without a rate with the first of them; what
    /// cannot be switched is with none.
    #[test]
    fn groups() {
        let first = Profiler::Interrupts("cpu-clock", 1000);
        let kinds = [
            Profiler::Nothing,
            Profiler::AsItComes,
            first,
            Profiler::Perf(4000),
            Profiler::Perf(1000),
            Profiler::Vcpid("timer", 1000, 16),
        ];
        let mut wanted: Vec<_> = kinds[1..].iter().copied().map(Task::Alone).collect();
        wanted.push(Task::SideBySide(vec![
            Profiler::AsItComes,
            first,
            Profiler::Perf(1000),
        ]));
        wanted.push(Task::SideBySide(vec![Profiler::Perf(4000)]));
        assert_eq!(tasks(&kinds), wanted);
    }
}
