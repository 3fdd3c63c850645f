//! `cargo xtask storage`: what days of a service take on the disk, what it costs to write them, and
//! how long reports on them take; beside the layout of a row for each value, and beside another
//! build, if there is one.
//!
//! The days are made up (`days`), of instructions that files of this machine have, by the project's
//! own hotlists and database writer.

mod days;
mod hour;
mod rolled;
mod times;
mod values;
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use vcpi_tests::programs::{Programs, target_dir};

pub(crate) use self::days::Amounts;
pub(crate) use self::rolled::roll;
use self::times::Times;
use crate::process::{cargo, progress, run as run_command, shown};
use crate::test::build;

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    amounts: Amounts,
    /// Another build to measure beside this one: a folder with its `xtask` and `vcpi`, or with
    /// `target/release`.
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
    /// Kill what rolls up so often, and see each time that every event is told once.
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// Run the service beside busy programs for so many minutes, and print what an hour of them
    /// takes (root).
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=600))]
    busy: Option<u64>,
    /// Keep the databases that an earlier run made.
    #[arg(long)]
    keep: bool,
}

/// A build whose layout is measured.
#[derive(Debug, Clone)]
struct Build {
    name: &'static str,
    xtask: PathBuf,
    vcpi: PathBuf,
}

/// The databases in the layout before: a row for each list, each value and each count.
const ROWS: &str = "rows";

/// Writes all databases of a folder anew in that layout.
fn unpack(build: &Build, packed: &Path, folder: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    for file in days::files(packed)? {
        let name = file.file_name().context("a file without a name")?;
        let mut convert = Command::new(&build.vcpi);
        convert.args(["convert", "--unpack"]).arg(&file).arg("-o");
        run_command(convert.arg(folder.join(name)))?;
    }
    Ok(())
}

/// Measures and prints the tables.
///
/// # Errors
/// What fails, of building and running.
pub(crate) fn run(options: &Options) -> Result<()> {
    build()?;
    run_command(&mut cargo(["build", "--release", "--package", "xtask"]))?;
    let mut builds = Vec::new();
    if let Some(folder) = &options.against {
        builds.push(find("other", folder)?);
    }
    builds.push(find("this", &target_dir()?)?);
    let all = target_dir()?.join("storage");
    let this = builds.last().context("no build")?;
    if let Some(kills) = options.kills {
        let folder = all.join("killed");
        let _ = std::fs::remove_dir_all(folder.with_extension("kept"));
        make(this, &folder, &options.amounts)?;
        return rolled::kills(&this.xtask, &folder, kills);
    }
    if let Some(minutes) = options.busy {
        return busy(this, &all.join("busy"), minutes);
    }
    for build in &builds {
        let folder = all.join(build.name);
        if !options.keep || !folder.is_dir() {
            make(build, &folder, &options.amounts)?;
        }
        println!("{}", times::bytes(build.name, &folder)?);
    }
    let folder = all.join(ROWS);
    if !options.keep || !folder.is_dir() {
        unpack(this, &all.join(this.name), &folder)?;
    }
    println!("{}", times::bytes(ROWS, &folder)?);
    let folder = all.join("rolled");
    if !options.keep || !folder.is_dir() {
        make(this, &folder, &options.amounts)?;
        run_command(Command::new(&this.xtask).arg("__roll").arg(&folder))?;
    }
    print!("{}", Times::HEAD);
    for report in times::REPORTS {
        let of_builds = builds.iter().map(|build| (build.name, &build.vcpi));
        for (name, vcpi) in of_builds.chain([(ROWS, &this.vcpi), ("rolled", &this.vcpi)]) {
            let times = Times::of(vcpi, &all.join(name), report)?;
            print!("{}", times.row(name));
        }
    }
    Ok(())
}

/// `cargo xtask __days FOLDER`: makes days with the layout that this program was built with.
///
/// # Errors
/// What the file system or the database says.
pub(crate) fn make_days(folder: &Path, amounts: &Amounts) -> Result<()> {
    let made = days::make(folder, amounts)?;
    let flushes = made.flushes.max(1) as f64;
    println!(
        "{} lists of {} events in {} flushes; a flush takes {:.1} ms, {:.1} ms of processor time, the \
         slowest {:.1} ms",
        made.lists,
        made.events,
        made.flushes,
        made.wall.as_secs_f64() * 1e3 / flushes,
        made.processor.as_secs_f64() * 1e3 / flushes,
        made.slowest.as_secs_f64() * 1e3,
    );
    Ok(())
}

fn make(build: &Build, folder: &Path, amounts: &Amounts) -> Result<()> {
    clear(folder)?;
    let mut command = Command::new(&build.xtask);
    command.arg("__days").arg(folder).args(amounts.words());
    progress(&shown(&command));
    let status = command.status().context("running xtask")?;
    if !status.success() {
        bail!(
            "the days of the {} build could not be made ({status})",
            build.name
        );
    }
    Ok(())
}

/// What an hour of this machine takes when it is busy.
fn busy(build: &Build, folder: &Path, minutes: u64) -> Result<()> {
    clear(folder)?;
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let rows = folder.join("rows");
    let begin = clock_hour()?;
    hour::serve(&Programs::find()?.vcpid, &rows, minutes)?;
    let hours = 60.0 / minutes as f64;
    let flushed = times::mib(&rows)?;
    // These minutes get their part of what an hour may take, each hour of the clock an equal one.
    let clock_hours = clock_hour()? - begin + 1;
    let part = rolled::HOUR_MIB / hours / clock_hours as f64;
    run_command(
        Command::new(&build.xtask)
            .arg("__roll")
            .arg(&rows)
            .args(["--hour-mib", &part.to_string()]),
    )?;
    let rolled = times::mib(&rows)?;
    println!(
        "{minutes} minutes: {flushed:.1} MiB as flushed, {:.1} an hour; {rolled:.2} MiB rolled up, \
         {:.1} an hour at most: what recurs in an hour is stored once for all of it",
        flushed * hours,
        rolled * hours,
    );
    Ok(())
}

/// The hour of the clock, counted from the epoch on: they are rolled up one by one.
fn clock_hour() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(now.context("the clock is before 1970")?.as_secs() / 3600)
}

fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The programs of a build.
fn find(name: &'static str, folder: &Path) -> Result<Build> {
    let find = |program: &str| {
        let places = ["", "release", "target/release"];
        let mut paths = places.iter().map(|place| folder.join(place).join(program));
        let found = paths.find(|path| path.is_file());
        found.with_context(|| format!("{} holds no {program}", folder.display()))
    };
    Ok(Build {
        name,
        xtask: find("xtask")?,
        vcpi: find("vcpi")?,
    })
}
