//! One run of a program, alone or recorded, and the processor time that both took.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use vcpi_tests::programs::remove_database;

use super::Setting;
use super::database::Counts;
use crate::process::shown;

/// Where recordings are written.
pub(super) const DATABASE: &str = "yield.db";

/// What a recorded run brought.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    /// Processor time of the program, in seconds.
    pub(super) program: f64,
    /// That of the collector.
    pub(super) collector: f64,
    pub(super) counts: Counts,
}

/// A build of the collector.
#[derive(Debug, Clone)]
pub(super) struct Build {
    /// Its name in tables.
    pub(super) name: &'static str,
    pub(super) vcpid: PathBuf,
}

/// Processor time of the children that were waited for, in seconds.
fn children_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for the children's times")?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// `cargo xtask __timed FILE COMMAND`: runs a command and writes to a file how much processor time
/// it took, in seconds. So the time of a program is told apart from that of a collector which
/// started it.
///
/// # Errors
/// If the command cannot be run, or the file not be written.
pub(crate) fn timed(file: &Path, command: &[String]) -> Result<ExitCode> {
    let (program, args) = command.split_first().context("an empty command")?;
    let status = Command::new(program).args(args).status();
    let status = status.with_context(|| format!("running {program}"))?;
    std::fs::write(file, children_seconds()?.to_string())
        .with_context(|| format!("writing {}", file.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// The words of a command that is timed.
fn timing(file: &Path, words: &[String]) -> Result<Vec<String>> {
    let own = std::env::current_exe().context("asking for the own path")?;
    let mut all: Vec<String> = [&own, Path::new("__timed"), file]
        .map(|path| path.to_string_lossy().into_owned())
        .to_vec();
    all.extend_from_slice(words);
    Ok(all)
}

/// Runs a command in a folder without its output; what is asked of it is that it succeeds.
fn run(words: &[String], folder: &Path) -> Result<()> {
    let (program, args) = words.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output();
    let output = output.with_context(|| format!("running {}", shown(&command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed ({}): {}",
            shown(&command),
            output.status,
            said.trim_end()
        );
    }
    Ok(())
}

/// Runs a program alone; its processor time.
///
/// # Errors
/// If it fails.
pub(super) fn alone(words: &[String], folder: &Path) -> Result<f64> {
    let before = children_seconds()?;
    run(words, folder)?;
    Ok(children_seconds()? - before)
}

/// Runs a program and what it starts under a simulator that counts, which writes a file for each
/// process to the folder.
///
/// # Errors
/// If it fails.
pub(super) fn simulated(words: &[String], folder: &Path) -> Result<()> {
    let mut all = [
        "valgrind",
        "-q",
        "--tool=callgrind",
        "--trace-children=yes",
        "--dump-instr=yes",
        "--collect-jumps=yes",
        "--compress-pos=no",
        "--compress-strings=no",
        "--callgrind-out-file=counts.%p",
    ]
    .map(str::to_owned)
    .to_vec();
    all.extend_from_slice(words);
    run(&all, folder)
}

/// Records a program.
///
/// # Errors
/// If it or the collector fails.
pub(super) fn recorded(
    build: &Build,
    setting: &Setting,
    words: &[String],
    folder: &Path,
) -> Result<Recorded> {
    let database = folder.join(DATABASE);
    let time = folder.join("time");
    remove_database(&database)?;
    let mut all = vec![build.vcpid.to_string_lossy().into_owned()];
    all.extend(["record", "-q", "-o"].map(str::to_owned));
    all.push(database.to_string_lossy().into_owned());
    all.extend(setting.words());
    all.push("--".to_owned());
    all.extend(timing(&time, words)?);
    let before = children_seconds()?;
    run(&all, folder)?;
    let both = children_seconds()? - before;
    let program: f64 = std::fs::read_to_string(&time)
        .context("reading the program's time")?
        .parse()
        .context("the program's time")?;
    Ok(Recorded {
        program,
        collector: both - program,
        counts: Counts::read(&database)?,
    })
}
