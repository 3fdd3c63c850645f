//! What the handler in the kernel takes of an interrupt, by the kernel's own account of BPF
//! programs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::attached::Attached;
use super::limits::Limits;
use super::table::median;
use super::{path_text, record};
use crate::process::{Killed, progress, run as run_command};

/// The program that is sampled, and how many calls deep it is.
const SOURCE: &str = include_str!("deep.c");
const DEPTH: &str = "70";

/// Callers that are walked to: none, the call site, and further ones.
const FRAMES: [u32; 5] = [0, 1, 9, 33, 64];

/// What the table says.
const LEGEND: &str = "Nanoseconds of the handler for each interrupt, medians of the rounds, as the kernel counts them
(kernel.bpf_stats_enabled). The program chases pointers 70 calls deep: registers, the two loads of each turn of its
loop, and so many callers. above: above a handler that finds nothing to sample; a frame: for each
caller beyond the call site. The interrupt itself is not in it.
";

/// What the handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandlerWork {
    /// It finds that none of its targets runs.
    Nothing,
    /// It takes samples with so many callers.
    Samples(u32),
}

/// Measures at these rates, in rounds of random order, and prints a table.
///
/// # Errors
/// What fails, of compiling, sampling and reading the kernel's account.
pub(super) fn run(
    vcpid: &str,
    folder: &Path,
    rates: &[u32],
    rounds: u32,
    random: &mut StdRng,
) -> Result<()> {
    let program = compile(folder)?;
    let output = folder.join("output");
    let _statistics = Limits::count_programs()?;
    let work = Killed::start(Command::new(&program).arg(DEPTH).stdin(Stdio::null()))?;
    let mut order: Vec<(u32, HandlerWork)> = Vec::new();
    for &rate in rates {
        order.extend(kinds().map(|kind| (rate, kind)));
    }
    let mut results = Vec::new();
    for round in 1..=rounds {
        progress(&format!("round {round} of {rounds}"));
        order.shuffle(random);
        for &(rate, kind) in &order {
            let (frames, target) = match kind {
                // All that the first process of the machine does.
                HandlerWork::Nothing => (1, 1),
                HandlerWork::Samples(frames) => (frames, work.0.id()),
            };
            let more = format!("--window 16 --frames {frames} -p {target} -o");
            let args = record("cpu-clock", rate, &more);
            let words = [vcpid].into_iter().chain(args.split(' '));
            let words = words
                .chain([path_text(&output)?.as_str()])
                .map(str::to_owned)
                .collect::<Vec<_>>();
            results.push(((rate, kind), measure(&words, &output)?));
        }
    }
    print!("\n{}", table(rates, &results));
    Ok(())
}

/// The kinds, in the order of the table.
fn kinds() -> impl Iterator<Item = HandlerWork> {
    let samples = FRAMES.into_iter().map(HandlerWork::Samples);
    [HandlerWork::Nothing].into_iter().chain(samples)
}

/// The table of what was measured at these rates.
fn table(rates: &[u32], results: &[((u32, HandlerWork), f64)]) -> String {
    let of = |rate, kind| {
        median(
            results
                .iter()
                .filter(|(of, _)| *of == (rate, kind))
                .map(|(_, ns)| *ns),
        )
    };
    let mut text = format!(
        "{LEGEND}\n{:<34} {:>8} {:>8} {:>8}\n",
        "", "ns", "above", "a frame"
    );
    for &rate in rates {
        let (nothing, called) = (
            of(rate, HandlerWork::Nothing),
            of(rate, HandlerWork::Samples(1)),
        );
        for kind in kinds() {
            let ns = of(rate, kind);
            let (name, above, frame) = match kind {
                HandlerWork::Nothing => ("nothing to sample".to_owned(), None, None),
                HandlerWork::Samples(frames @ ..=1) => {
                    (format!("callers: {frames}"), Some(ns - nothing), None)
                }
                HandlerWork::Samples(frames) => (
                    format!("callers: {frames}"),
                    Some(ns - nothing),
                    Some((ns - called) / f64::from(frames - 1)),
                ),
            };
            let shown =
                |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
            let name = format!("{rate}/s, {name}");
            let _ = writeln!(
                text,
                "{name:<34} {ns:>8.0} {:>8} {:>8}",
                shown(above),
                shown(frame)
            );
        }
    }
    text
}

fn compile(folder: &Path) -> Result<PathBuf> {
    let (source, program) = (folder.join("deep.c"), folder.join("deep"));
    fs::write(&source, SOURCE).with_context(|| format!("writing {}", source.display()))?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fomit-frame-pointer", "-o"]);
    run_command(gcc.args([&program, &source]))?;
    Ok(program)
}

/// Nanoseconds of the handler for each interrupt under this command.
fn measure(words: &[String], output: &Path) -> Result<f64> {
    /// The process and its rows are known by then.
    const SETTLE: Duration = Duration::from_secs(2);
    const LENGTH: Duration = Duration::from_secs(3);
    let attached = Attached::start(words, output)?;
    std::thread::sleep(SETTLE);
    let before = account(attached.pid())?;
    std::thread::sleep(LENGTH);
    let after = account(attached.pid())?;
    attached.end()?;
    let runs = after.1.saturating_sub(before.1);
    if runs == 0 {
        bail!("the handler did not run");
    }
    Ok(after.0.saturating_sub(before.0) as f64 / runs as f64)
}

/// How long the program on perf events of a process has run, in nanoseconds, and how often.
fn account(pid: u32) -> Result<(u64, u64)> {
    /// `BPF_PROG_TYPE_PERF_EVENT`.
    const ON_PERF_EVENTS: u64 = 7;
    let folder = format!("/proc/{pid}/fdinfo");
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {folder}"))? {
        // Others come and go.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
            lines.next()?.trim().parse::<u64>().ok()
        };
        if field("prog_type:") == Some(ON_PERF_EVENTS) {
            let fields = field("run_time_ns:").zip(field("run_cnt:"));
            return fields.context("the kernel does not tell how long programs run");
        }
    }
    bail!("vcpid has no handler in the kernel: 'vcpid check' says why")
}
