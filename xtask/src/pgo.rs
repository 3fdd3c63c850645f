//! `cargo xtask pgo-demo`: what profiles are worth to real programs, by each route from a
//! recording, beside an instrumented build.
//!
//! A program is recorded on one load, and its builds are compared on another one. What was built
//! and recorded is kept, so that a run that was cut off goes on.

mod builds;
mod programs;
mod race;
mod sources;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use vcpi_tests::programs::target_dir;

use self::builds::{LLVM, Variant, Work};
use self::programs::{PROGRAMS, Program};
use self::race::Times;
use self::table::ProgramGains;
use crate::process::progress;
use crate::setup::{self, Need};
use crate::test::build;

/// What is built and compared.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only these programs.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    programs: Vec<String>,
    /// Rounds of all builds; with 0 nothing is run, and the table is of the rounds that were kept.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(0..=1000))]
    rounds: u16,
    /// The folder for sources, builds and recordings [default: pgo in cargo's target folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The processor that builds run on [default: the last one].
    #[arg(long, value_name = "NUMBER")]
    cpu: Option<usize>,
    /// Use the release programs that are there instead of building them.
    #[arg(long)]
    no_build: bool,
}

/// Where the rounds of a program are kept.
const TIMES: &str = "times";

/// Builds, compares, and prints the table.
///
/// # Errors
/// If the tools are missing, or a plain build cannot be made.
pub(crate) fn run(options: &Options) -> Result<()> {
    let asked = asked(&options.programs)?;
    setup::run(Need::Yield)?;
    if !options.no_build {
        build()?;
    }
    let folder = match &options.folder {
        Some(folder) => std::path::absolute(folder).context("the folder")?,
        None => target_dir()?.join("pgo"),
    };
    let processor = match options.cpu {
        Some(processor) => processor,
        None => last_processor()?,
    };
    let mut rows = Vec::new();
    for program in asked {
        rows.push(compared(program, &folder, options.rounds, processor)?);
    }
    let text = format!("{}\n\n{}", machine(), table::of(&rows));
    print!("{text}");
    let file = folder.join("table.md");
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    progress(&format!("written to {}", file.display()));
    Ok(())
}

/// The programs that were asked for.
fn asked(names: &[String]) -> Result<Vec<Program>> {
    for name in names {
        if !PROGRAMS.iter().any(|program| program.name == name) {
            let known = PROGRAMS.map(|program| program.name).join(", ");
            bail!("there is no program `{name}`: {known}");
        }
    }
    let is_asked =
        |program: &&Program| names.is_empty() || names.iter().any(|name| name == program.name);
    Ok(PROGRAMS.iter().filter(is_asked).copied().collect())
}

/// Builds a program in all ways, and lets its builds run.
fn compared(
    program: Program,
    folder: &Path,
    rounds: u16,
    processor: usize,
) -> Result<ProgramGains> {
    let work = Work::prepare(program, folder)?;
    work.make(Variant::Plain)?;
    let mut missing = Vec::new();
    let variants = Variant::ALL.into_iter();
    for variant in variants.filter(|one| one.takes(program.language)) {
        if let Err(error) = work.make(variant) {
            let why = format!("{}: {error:#}", variant.name());
            progress(&why);
            missing.push(why);
        }
    }
    let kept = work.folder.join(TIMES);
    let times = match rounds {
        0 => match std::fs::read_to_string(&kept) {
            Ok(text) => Times::of(&text)?,
            Err(_) => Times::default(),
        },
        rounds => {
            let times = race::run(&work, rounds.into(), processor)?;
            std::fs::write(&kept, times.text()).context("keeping the times")?;
            times
        }
    };
    let said = std::fs::read_to_string(work.folder.join("vcpi.raw.said")).unwrap_or_default();
    let basis = said.lines().find(|line| line.contains(" samples in "));
    Ok(ProgramGains {
        program: program.name,
        language: program.language.name(),
        basis: basis.unwrap_or_default().to_owned(),
        times,
        missing,
    })
}

/// The last processor that this process may use: the first ones get most interrupts.
fn last_processor() -> Result<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("asking for the processors")?;
    let mut all = (0..CpuSet::count()).rev();
    let last = all.find(|one| allowed.is_set(*one).unwrap_or(false));
    last.context("no processor may be used")
}

/// When and where this was measured.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": "));
    let date = std::process::Command::new("date").arg("+%F").output();
    let date = date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!(
        "{}, {} processors ({}), kernel {}, LLVM {LLVM}. What builds take of the plain one's user \
         and system time: medians of rounds in which all run at once on one processor, with 95 % \
         intervals; then the part of the instrumented build's gain. What gcc builds by a profile \
         is compared with what it builds without one.",
        date.unwrap_or_default(),
        cpuinfo
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
        model.map_or("unknown", |(_, name)| name),
        read("/proc/sys/kernel/osrelease").trim(),
    )
}
