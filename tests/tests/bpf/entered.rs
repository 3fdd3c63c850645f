//! Calls of functions by breakpoints at their entries, held to what the program counts itself.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, counter, cpu_clock, succeeded};
use crate::bounced::breakpoints;
use crate::killed::{self, Watched};

/// Shares are to be within so many points of the truth, or within so many standard errors of what
/// was seen where a busy machine let few calls be seen.
const POINTS: f64 = 2.0;
const ERRORS: f64 = 4.0;
/// Seconds of each function.
const SECONDS: &str = "20";
/// What is counted of a function: the value of an argument or of the result, or the call site.
#[derive(Clone, Copy)]
enum Counted {
    /// The register of the argument, and the value.
    Argument(&'static str, &'static str),
    /// The parameter of the result, and the value.
    Result(&'static str, &'static str),
    Site,
}

/// 2.0 and 3.0 as bits.
const TWO: &str = "0x4000000000000000";
const THREE: &str = "0x4008000000000000";

/// The functions.
const FUNCTIONS: [(&str, Counted); 7] = [
    ("quick", Counted::Argument("rdi", "0x2")),
    ("slow", Counted::Argument("rdi", "0x2")),
    ("lasting", Counted::Argument("rdi", "0x2")),
    ("turns", Counted::Argument("rdi", "0x2")),
    ("real", Counted::Argument("xmm0", TWO)),
    ("real", Counted::Result("vresult", THREE)),
    ("sites", Counted::Site),
];

pub(crate) const SHARES: Test = test(
    "calls by breakpoints at entries are shares of executions",
    shares,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// Shares of arguments and results, floating-point ones among them, and of call sites are those of
/// executions:
/// where calls are far apart or close together, where a value lasts, and where values take turns.
/// `args` and `cg` show them beside the shares of time, which are far off.
fn shares(bench: &Bench) -> Result<()> {
    let program = bench.compile("entered.c", "entered", &["-g"])?;
    let mut wrong = Vec::new();
    for (function, counted) in FUNCTIONS {
        let name = format!("entered-{function}.db");
        let truth = record(bench, &name, function, &program, [SECONDS, function])?;
        let database = bench.open(&name)?;
        let count = |name| counter(&database, "entries", name);
        let (bursts, dense, calls) = (count("bursts")?, count("bursts_dense")?, count("calls")?);
        let report = |what: &str| bench.programs.report(&bench.path(&name), &[what, function]);
        let (seen, of_time) = match counted {
            Counted::Argument(register, value) => {
                let report = report("args")?;
                let share = |base| share_of(&report, register, value, base);
                (share("entries"), share("time"))
            }
            Counted::Result(parameter, value) => {
                (share_of_results(&report("list")?, parameter, value), None)
            }
            Counted::Site => (first_site(&report("cg")?), None),
        };
        println!(
            "    {function}: {seen:?} by entries, {of_time:?} by time, {truth} in truth \
             ({bursts} bursts, {dense} dense, {calls} calls)"
        );
        let is_right = |(seen, calls): (f64, f64)| {
            let error = (truth * (100.0 - truth) / calls.max(1.0)).sqrt();
            (seen - truth).abs() <= POINTS.max(ERRORS * error)
        };
        if !seen.is_some_and(is_right) {
            wrong.push(format!("{function}: {seen:?} for {truth}"));
        }
    }
    ensure!(wrong.is_empty(), wrong.join(", "));
    Ok(())
}

/// Watches the entries of a program's function, and returns the percentage that it counts itself.
fn record(
    bench: &Bench,
    name: &str,
    function: &str,
    program: &Path,
    args: [&str; 2],
) -> Result<f64> {
    let output = bench
        .record("bpf", 1_000, name)
        .arg(format!("--entries={function}"))
        .arg("--")
        .arg(program)
        .args(args)
        .output()?;
    succeeded(&output)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

pub(crate) const UNLIKE: Test = test(
    "no shares by entries where breakpoints are hit in slow stretches",
    unlike,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// Calls that follow each other closely are watched where time is spent. Where that is in slow
/// calls, of which more have the value, their shares are not told. Where slow and quick calls are
/// mixed they are.
fn unlike(bench: &Bench) -> Result<()> {
    let program = bench.compile("../unlike.c", "unlike", &[])?;
    let told = |mode: &str| {
        let name = format!("unlike-{mode}.db");
        let truth = record(bench, &name, "told", &program, [mode, "10"])?;
        let report = bench
            .programs
            .report(&bench.path(&name), &["args", "told"])?;
        anyhow::Ok((share_of(&report, "rdi", "0x7", "entries"), truth))
    };
    let (stretches, truth) = told("stretches")?;
    ensure!(stretches.is_none(), "{stretches:?} for {truth}");
    let (mixed, truth) = told("mixed")?;
    let is_right = mixed.is_some_and(|(seen, _)| (seen - truth).abs() <= 2.0 * POINTS);
    ensure!(is_right, "{mixed:?} for {truth}");
    Ok(())
}

/// The share of a value among those of the argument in a register, of all call sites together, and
/// the calls.
fn share_of(report: &Value, register: &str, value: &str, base: &str) -> Option<(f64, f64)> {
    let rows = report.as_array()?.iter();
    let row = { rows }.find(|row| row["call_site"].is_null())?;
    let arguments = row["args"].as_array()?.iter();
    let found = { arguments }.find(|of| of["register"] == register && of["base"] == base)?;
    let values = found["values"].as_array()?.iter();
    let counted = { values }.find(|of| of["value"] == value)?;
    Some((counted["percent"].as_f64()?, found["samples"].as_f64()?))
}

/// The share of a value among what the calls of a function returned, as breakpoints showed it, and
/// the calls.
fn share_of_results(report: &Value, parameter: &str, value: &str) -> Option<(f64, f64)> {
    let rows = report.as_array()?.iter();
    let mut profiles = rows.flat_map(|row| row["profiles"].as_array().into_iter().flatten());
    let found = profiles.find(|of| of["parameter"] == parameter && of["base"] == "entries")?;
    let values = found["values"].as_array()?.iter();
    let counted = { values }.find(|of| of["value"] == value)?;
    Some((counted["percent"].as_f64()?, found["samples"].as_f64()?))
}

/// The share of the calls from the first site, and the calls.
fn first_site(report: &Value) -> Option<(f64, f64)> {
    let rows = report.as_array()?;
    let calls = rows
        .iter()
        .filter_map(|row| row["entries"]["calls"].as_f64());
    let first = rows.iter().find(|row| row["caller"] == "first_site")?;
    Some((first["entries"]["percent"].as_f64()?, calls.sum()))
}

pub(crate) const KILLS: Test = test(
    "collectors that are killed leave no breakpoints at entries",
    kills,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// A collector that is killed leaves no breakpoint at an entry.
fn kills(bench: &Bench) -> Result<()> {
    let watched = Watched {
        name: "entered",
        arguments: &["3600", "quick"],
        option: "--entries=quick",
        begun: 700,
        seen: ("entries", "bursts"),
        lacking: Some("no_debug_register"),
    };
    killed::leaves_nothing(bench, &watched)
}
