//! Compiles `fixtures/shares.c`, profiles it, and collects what was reported.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::programs::{Programs, check, remove_database, root};
use crate::shares::{Comparison, Measure, Share, compare, parse_truth};

/// How the fixture is profiled.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Processor time that the fixture uses.
    pub seconds: u32,
    /// Samples per second.
    pub rate: u32,
    /// Percent of them whose ways are followed.
    pub ways: u32,
}

/// Enough for some 5,000 windows at each instruction that is compared, where most of them are
/// thinned, too: in the same time some processors gave 6,000, and one 3,000.
pub const DEFAULT: Settings = Settings {
    seconds: 20,
    rate: 6000,
    ways: 100,
};

/// As many windows, where two of five samples go without a way.
pub const SPARSE: Settings = Settings {
    rate: 10_000,
    ways: 60,
    ..DEFAULT
};

/// Compiles the fixture into `folder` and returns the program's path.
///
/// # Errors
/// If there is no compiler, or it fails.
pub fn build(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let program = folder.join("shares");
    let output = Command::new("gcc")
        .args(["-O2", "-g", "-o"])
        .arg(&program)
        .arg(root().join("tests/fixtures/shares.c"))
        .stdin(Stdio::null())
        .output()
        .context("running gcc")?;
    check("gcc", &output)?;
    Ok(program)
}

/// The command line that profiles the fixture into `database`.
pub fn record_args(program: &Path, database: &Path, settings: Settings) -> Vec<String> {
    let mut args: Vec<String> = ["record", "-o"].map(str::to_owned).into();
    args.push(database.display().to_string());
    // The fixture's loops are longer than such a window.
    args.extend(["--window", "16", "--clock", "auto", "--rate"].map(str::to_owned));
    args.push(settings.rate.to_string());
    if settings.ways < 100 {
        args.extend(["--ways".to_owned(), settings.ways.to_string()]);
    }
    args.push("--".to_owned());
    args.push(program.display().to_string());
    args.push(settings.seconds.to_string());
    args
}

/// Profiles the fixture into `folder/fixture.db` (which is made anew) and sets
/// its true shares next to those that `vcpi` reports.
///
/// # Errors
/// If a program fails, or a report has not the documented form. What was not
/// sampled is no error: its [`Comparison`] has no windows.
pub fn profile(programs: &Programs, folder: &Path, settings: Settings) -> Result<Vec<Comparison>> {
    let program = build(folder)?;
    let database = folder.join("fixture.db");
    remove_database(&database)?;
    let output = Command::new(&programs.vcpid)
        .args(record_args(&program, &database, settings))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", programs.vcpid.display()))?;
    if !output.status.success() {
        bail!(
            "vcpid record failed ({}); its message is above",
            output.status
        );
    }
    let truth = parse_truth(&String::from_utf8_lossy(&output.stdout))
        .context("what the fixture printed")?;
    truth
        .into_iter()
        .map(|share| {
            let report = reported(programs, &database, &share)?;
            compare(share, &report)
        })
        .collect()
}

/// The report that answers for `share`.
fn reported(programs: &Programs, database: &Path, share: &Share) -> Result<Value> {
    let function = share.function.as_str();
    match share.measure {
        Measure::Argument(_) => programs.report(database, &["args", function]),
        Measure::Load | Measure::Value => programs.report(database, &["list", function]),
        Measure::Taken => programs.report(database, &["branches", "--function", function]),
        Measure::Target => programs.report(database, &["targets", "--function", function]),
    }
}
