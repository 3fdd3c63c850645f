//! How often the interval that is printed holds the truth: `fixtures/phases.c`, recorded, and what
//! `vcpi list` says of its values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::programs::{Programs, check, remove_database, root};

/// How the fixture is recorded.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Engine and clock.
    pub engine: &'static str,
    /// The clock.
    pub clock: &'static str,
    /// Samples per second; `None`: what is usual.
    pub rate: Option<u32>,
    /// Instructions of a window; `None`: what is usual.
    pub window: Option<u32>,
    /// Threads of the fixture.
    pub threads: u32,
}

/// What came of the values of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Covered {
    /// Intervals that were printed.
    pub intervals: u32,
    /// Those that held the truth.
    pub held: u32,
    /// Values that no interval was printed of.
    pub missing: u32,
    /// Sums over the intervals: of squared differences from the truth, in points; of half widths;
    /// of windows.
    pub squares: f64,
    /// Of half widths.
    pub widths: f64,
    /// Of windows.
    pub windows: u64,
}

/// Kinds of values, as the fixture names them: which, and how long they last.
pub type Kinds = BTreeMap<(String, String), Covered>;

/// Bounds in reports are rounded to this many points.
const ROUNDING: f64 = 0.05;

/// Compiles the fixture into `folder` and returns the program's path.
///
/// # Errors
/// If there is no compiler, or it fails.
pub fn build(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let program = folder.join("phases");
    let output = Command::new("gcc")
        // What is on the stack is to lie above its pointer, where each engine finds it.
        .args(["-O2", "-g", "-mno-red-zone", "-pthread", "-o"])
        .arg(&program)
        .arg(root().join("tests/fixtures/phases.c"))
        .stdin(Stdio::null())
        .output()
        .context("running gcc")?;
    check("gcc", &output)?;
    Ok(program)
}

/// Records the fixture once, for so many seconds of each thread, and adds what came of it.
///
/// # Errors
/// If a program fails, or a report has not the documented form.
pub fn run(
    programs: &Programs,
    program: &Path,
    cell: &Cell,
    (seconds, seed): (u32, u64),
    kinds: &mut Kinds,
) -> Result<()> {
    let database = program.with_extension("db");
    remove_database(&database)?;
    let mut command = Command::new(&programs.vcpid);
    command.args(["record", "-q", "-o"]).arg(&database);
    command.args(["--engine", cell.engine, "--clock", cell.clock]);
    if let Some(rate) = cell.rate {
        command.args(["--rate", &rate.to_string()]);
    }
    if let Some(window) = cell.window {
        command.args(["--window", &window.to_string()]);
    }
    let output = command
        .arg("--")
        .arg(program)
        .args([seconds.to_string(), cell.threads.to_string()])
        .arg(seed.to_string())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", programs.vcpid.display()))?;
    check("vcpid record", &output)?;
    let truth: Value =
        serde_json::from_slice(&output.stdout).context("what the fixture printed")?;
    let report = programs.report(&database, &["list", "even"])?;
    add(&truth, &report, kinds)
}

/// Adds the intervals of a report, beside the truth that the fixture printed.
///
/// # Errors
/// If one of them has not the documented form.
pub fn add(truth: &Value, report: &Value, kinds: &mut Kinds) -> Result<()> {
    let rows = report.as_array().context("no array")?;
    let by_address: BTreeMap<&str, &Value> = rows
        .iter()
        .filter_map(|row| Some((row["address"].as_str()?, row)))
        .collect();
    for value in truth.as_array().context("no array of truths")? {
        let text = |field: &str| value[field].as_str().map(str::to_owned).context("no text");
        let percent = value["percent"].as_f64().context("no truth")?;
        let covered = kinds.entry((text("values")?, text("change")?)).or_default();
        let row = by_address.get(text("address")?.as_str());
        let Some((low, middle, high, windows)) = row.and_then(|row| first(row)) else {
            covered.missing += 1;
            continue;
        };
        if !(low <= middle && middle <= high) {
            bail!("{low} to {high} is no interval of {middle}");
        }
        covered.intervals += 1;
        let holds = low - ROUNDING <= percent && percent <= high + ROUNDING;
        covered.held += u32::from(holds);
        covered.squares += (middle - percent).powi(2);
        covered.widths += (high - low) / 2.0;
        covered.windows += windows;
    }
    Ok(())
}

/// Interval and share of the value 1, and the windows, of the register that an instruction loads,
/// as a share of time.
fn first(row: &Value) -> Option<(f64, f64, f64, u64)> {
    let profiles = row["profiles"].as_array()?;
    let profile = profiles.iter().find(|profile| {
        let parameter = profile["parameter"].as_str().unwrap_or_default();
        ["rax", "rdx", "rcx", "rsi", "eax"].contains(&parameter) && profile["base"] != "executions"
    })?;
    let values = profile["values"].as_array()?;
    let value = values.iter().find(|value| value["value"] == "0x1")?;
    let number = |field: &str| value[field].as_f64();
    Some((
        number("low")?,
        number("percent")?,
        number("high")?,
        profile["windows"].as_u64()?,
    ))
}

/// The kinds as lines of a table.
pub fn table(kinds: &Kinds) -> String {
    let mut text = format!(
        "  {:<12} {:<10} {:>9} {:>8} {:>8} {:>10} {:>8} {:>8}\n",
        "values", "change", "intervals", "missing", "held", "half width", "error", "windows"
    );
    for ((values, change), covered) in kinds {
        let n = f64::from(covered.intervals.max(1));
        let _ = writeln!(
            text,
            "  {values:<12} {change:<10} {:>9} {:>8} {:>7.1}% {:>10.2} {:>8.2} {:>8.0}",
            covered.intervals,
            covered.missing,
            100.0 * f64::from(covered.held) / n,
            covered.widths / n,
            (covered.squares / n).sqrt(),
            covered.windows as f64 / n,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An interval counts for its kind, as one that holds the truth or not; a share of executions
    /// is not meant, and what was not seen is missing.
    #[test]
    fn intervals_are_counted() {
        let value = |percent: f64| {
            let (low, high) = (percent - 2.0, percent + 2.0);
            json!([{"value": "0x1", "percent": percent, "low": low, "high": high}])
        };
        let report = json!([{"address": "0x10", "profiles": [
            {"parameter": "ea", "windows": 9, "values": value(0.0)},
            {"parameter": "rax", "base": "executions", "windows": 9, "values": value(1.0)},
            {"parameter": "rax", "base": "time", "windows": 9, "values": value(50.0)}]}]);
        let truth = |percent: f64, address: &str| json!({"values": "two", "change": "never", "address": address, "percent": percent});
        let mut kinds = Kinds::new();
        let truths = json!([truth(51.0, "0x10"), truth(53.0, "0x10"), truth(1.0, "0x20")]);
        add(&truths, &report, &mut kinds).unwrap();
        let covered = kinds.values().next().unwrap();
        assert_eq!(
            (covered.intervals, covered.held, covered.missing),
            (2, 1, 1)
        );
        assert_eq!(covered.windows, 18);
        assert!(table(&kinds).contains("50.0%"));
        assert!(add(&json!({}), &report, &mut kinds).is_err());
    }
}
