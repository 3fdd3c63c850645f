//! `cargo xtask yield`: what a recording brings of real programs, what it takes, and where its
//! windows end; beside another build, if there is one.
//!
//! Each program is run in turn alone and under each build, so that all meet the same neighbours of
//! a shared machine. What the collector takes to start is measured apart and left out: it would
//! hide the price of a sample in a recording of a few seconds.

mod compare;
mod database;
mod measure;
mod programs;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use vcpi_tests::exact::Exact;
use vcpi_tests::programs::{Programs, target_dir};

use self::compare::Accuracy;
use self::measure::Build;
pub(crate) use self::measure::timed;
use self::programs::Load;
pub(crate) use self::programs::{LOADS, Size};
use self::table::ProgramYield;
pub(crate) use self::table::{geometric, median};
use crate::process::progress;
use crate::setup::{self, Need};
use crate::test::build;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Only these programs.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    programs: Vec<String>,
    /// Instructions per window, each of which is measured; `default` leaves it to the collector.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "default",
        value_parser = number)]
    window: Vec<Number>,
    /// Samples per second, each of which is measured; `default` leaves it to the collector.
    #[arg(long, value_name = "HZ,...", value_delimiter = ',', default_value = "default",
        value_parser = number)]
    rate: Vec<Number>,
    /// How samples are taken, as for `vcpid record`.
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Another build to record with in turn: a folder with its `vcpid`, or with `target/release`.
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
    /// Pairs of runs, alone and recorded; with 0 each program is recorded once, and no slowdown
    /// told.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pairs: u32,
    /// Compare directions of branches and targets of calls with exact counts, which a simulator
    /// takes of a smaller load.
    #[arg(long)]
    exact: bool,
    /// Measure the build that is there instead of building.
    #[arg(long)]
    no_build: bool,
}

/// A number, or what the collector takes if it is not told.
type Number = Option<u32>;

fn number(text: &str) -> Result<Number, String> {
    match text {
        "default" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .map_err(|_| format!("expected a number or `default`, not `{text}`")),
    }
}

/// The options of a recording.
#[derive(Debug, Clone)]
struct Setting {
    window: Number,
    rate: Number,
    engine: Option<String>,
}

impl Setting {
    /// As words for `vcpid record`.
    fn words(&self) -> Vec<String> {
        let numbers = [("--window", self.window), ("--rate", self.rate)];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, n)| Some((name, n?.to_string())));
        let engine = self
            .engine
            .iter()
            .map(|engine| ("--engine", engine.clone()));
        let all = numbers.chain(engine);
        all.flat_map(|(name, value)| [name.to_owned(), value])
            .collect()
    }

    fn title(&self) -> String {
        match self.words() {
            words if words.is_empty() => "vcpid record, as it comes".to_owned(),
            words => format!("vcpid record {}", words.join(" ")),
        }
    }
}

/// Measures and prints the tables.
///
/// # Errors
/// What fails, of setting up, building and running.
pub(crate) fn run(options: &Options) -> Result<()> {
    let loads = loads(&options.programs)?;
    setup::run(Need::Test)?;
    if let Err(error) = setup::run(Need::Yield) {
        // Programs that are not there are passed over.
        progress(&format!("{error:#}"));
    }
    if !options.no_build {
        build()?;
    }
    let mut builds = Vec::new();
    if let Some(folder) = &options.against {
        builds.push(Build {
            name: "other",
            vcpid: find(folder)?,
        });
    }
    builds.push(Build {
        name: "this",
        vcpid: Programs::find()?.vcpid,
    });
    let folder = target_dir()?.join("yield");
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for &rate in &options.rate {
        for &window in &options.window {
            let setting = Setting {
                window,
                rate,
                engine: options.engine.clone(),
            };
            if options.exact {
                println!("\n## {}\n", setting.title());
                compared(&loads, &builds, &setting, &folder)?;
                continue;
            }
            let rows = measured(&loads, &builds, &setting, options.pairs, &folder)?;
            println!("\n## {}\n\n{}", setting.title(), table::of(&rows));
        }
    }
    Ok(())
}

/// The programs that were asked for and are here; why others are passed over is printed.
fn loads(names: &[String]) -> Result<Vec<Load>> {
    for name in names {
        if !LOADS.iter().any(|load| load.name == name) {
            let known = LOADS.map(|load| load.name).join(", ");
            bail!("there is no program `{name}`: {known}");
        }
    }
    let asked = |load: &&Load| names.is_empty() || names.iter().any(|name| name == load.name);
    Ok(LOADS.iter().filter(asked).copied().collect())
}

/// The collector of another build.
fn find(folder: &Path) -> Result<PathBuf> {
    let places = ["vcpid", "release/vcpid", "target/release/vcpid"];
    let mut places = places.iter().map(|place| folder.join(place));
    let found = places.find(|path| path.is_file());
    found.with_context(|| format!("{} holds no vcpid", folder.display()))
}

/// All programs under one setting.
fn measured(
    loads: &[Load],
    builds: &[Build],
    setting: &Setting,
    pairs: u32,
    folder: &Path,
) -> Result<Vec<ProgramYield>> {
    let mut starts = Vec::new();
    for build in builds {
        starts.push(start(build, setting, folder)?);
    }
    let mut all = Vec::new();
    for load in loads {
        if let Some(reason) = load.lacks() {
            println!("skipped: {}: {reason}", load.name);
            continue;
        }
        let words = load.prepare(folder, Size::Seconds)?;
        let rows = builds.iter().zip(&starts);
        let mut rows: Vec<ProgramYield> = rows
            .map(|(build, start)| ProgramYield {
                program: load.name.to_owned(),
                build: build.name,
                runs: Vec::new(),
                ratios: Vec::new(),
                start: *start,
            })
            .collect();
        for pair in 1..=pairs.max(1) {
            progress(&format!("{}: {pair} of {}", load.name, pairs.max(1)));
            let alone = || match pairs {
                0 => Ok(f64::NAN),
                _ => measure::alone(&words, folder),
            };
            let mut before = alone()?;
            for (row, build) in rows.iter_mut().zip(builds) {
                let run = measure::recorded(build, setting, &words, folder)?;
                // Between two runs alone: a machine that grows slower meanwhile is no slowdown.
                let after = alone()?;
                row.ratios.push(2.0 * run.program / (before + after));
                row.runs.push(run);
                before = after;
            }
        }
        all.append(&mut rows);
    }
    Ok(all)
}

/// Compares recordings under one setting with exact counts, and prints them as they come.
fn compared(loads: &[Load], builds: &[Build], setting: &Setting, folder: &Path) -> Result<()> {
    print!("{}", Accuracy::HEAD);
    for load in loads {
        let differs = || {
            let why = "the code that runs most depends on the size of the load";
            (!load.has_rounds()).then(|| why.to_owned())
        };
        if let Some(reason) = load.lacks().or_else(differs) {
            println!("skipped: {}: {reason}", load.name);
            continue;
        }
        let exact = counted(load, folder)?;
        let words = load.prepare(folder, Size::Seconds)?;
        for build in builds {
            progress(&format!("{}: recorded", load.name));
            measure::recorded(build, setting, &words, folder)?;
            let verdict = Accuracy::of(&folder.join(measure::DATABASE), &exact)?;
            print!("{}", verdict.row(load.name, build.name));
        }
    }
    Ok(())
}

/// Exact counts of the small load. They are kept: it is always the same.
fn counted(load: &Load, folder: &Path) -> Result<Exact> {
    let kept = folder.join(format!("exact-{}", load.name));
    if !kept.is_dir() {
        progress(&format!("{}: counted exactly", load.name));
        let words = load.prepare(folder, Size::Small)?;
        let making = folder.join("exact-making");
        let _ = std::fs::remove_dir_all(&making);
        std::fs::create_dir_all(&making)?;
        measure::simulated(&words, &making)?;
        std::fs::rename(&making, &kept)?;
    }
    let mut exact = Exact::default();
    for file in std::fs::read_dir(&kept)? {
        exact.add(&file?.path())?;
    }
    Ok(exact)
}

/// What the collector takes to start and to end, in seconds of processor time.
fn start(build: &Build, setting: &Setting, folder: &Path) -> Result<f64> {
    let nothing = ["true".to_owned()];
    let mut seconds = Vec::new();
    for _ in 0..3 {
        seconds.push(measure::recorded(build, setting, &nothing, folder)?.collector);
    }
    Ok(table::median(&seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left to the collector is no word of its command.
    #[test]
    fn settings() {
        let mut setting = Setting {
            window: None,
            rate: None,
            engine: None,
        };
        assert!(setting.words().is_empty());
        setting.window = Some(64);
        setting.engine = Some("ring".to_owned());
        assert_eq!(setting.words(), ["--window", "64", "--engine", "ring"]);
        assert_eq!(number("default"), Ok(None));
        assert!(number("many").is_err());
    }

    /// A program that nobody knows is said to be so.
    #[test]
    fn unknown_programs() {
        assert!(loads(&["no-such".to_owned()]).is_err());
        assert_eq!(loads(&["xz".to_owned()]).unwrap().len(), 1);
    }
}
