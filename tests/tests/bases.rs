//! What a share is of: functions whose values decide how long the processor stays, seen in windows
//! of 200 instructions. Shares of executions are held to the truth where they are printed.
//!
//! Needs the release build of both programs, a C compiler, and the engine `bpf`, which brings the
//! code that such windows run through.

mod common;
#[path = "common/trial.rs"]
mod trial;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use common::{ensure, text};
use libtest_mimic::{Arguments, Completion, Failed};
use serde_json::Value;
use trial::{Test, TestResult, done, trials};
use vcpi_tests::programs::{Programs, root};

/// Greatest allowed difference from the share of executions, in points.
const MAX_POINTS: f64 = 3.0;
/// The same from the share of time, which is measured by a clock on a shared machine.
const MAX_POINTS_OF_TIME: f64 = 12.0;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 6] = [
        ("executions with more instructions", more_instructions),
        ("executions that wait for memory", waiting_for_memory),
        ("executions that divide for longer", dividing),
        ("time that the rare value takes", times),
        (
            "executions that depend on each other are not claimed",
            lasting,
        ),
        ("the biased functions of the fixture", biased),
    ];
    libtest_mimic::run(&arguments, trials(tests)).exit_code()
}

/// A value that takes more rounds of a loop is not seen too often, though fewer executions with it
/// fit into a window.
fn more_instructions() -> TestResult {
    let Some((truth, list)) = recorded()? else {
        return skipped();
    };
    held(truth, list, "rounds")?;
    done()
}

/// A value that takes longer in the same instructions is not seen too often.
fn waiting_for_memory() -> TestResult {
    let Some((truth, list)) = recorded()? else {
        return skipped();
    };
    held(truth, list, "missing")?;
    done()
}

/// Nor is one that takes a little longer.
fn dividing() -> TestResult {
    let Some((truth, list)) = recorded()? else {
        return skipped();
    };
    held(truth, list, "dividing")?;
    done()
}

/// First events tell which part of the time goes by with a value, however seldom it comes.
fn times() -> TestResult {
    let Some((truth, list)) = recorded()? else {
        return skipped();
    };
    for function in ["rounds", "missing", "dividing"] {
        let value = truth[function]["value"].as_str().ok_or("no value")?;
        let true_time = truth["time"][function].as_f64().ok_or("no time")?;
        let time = share(list, function, value, "time");
        ensure(
            time.is_some_and(|time| (time - true_time).abs() <= MAX_POINTS_OF_TIME),
            || format!("{function}: {time:?} % of the time, {true_time:.1} % in truth"),
        )?;
    }
    done()
}

/// Where a value lasts for many executions, the next one is as long as the one that was sampled:
/// nothing is said of executions.
fn lasting() -> TestResult {
    let Some((truth, list)) = recorded()? else {
        return skipped();
    };
    let value = truth["lasting"]["value"].as_str().unwrap_or_default();
    let executions = share(list, "lasting", value, "executions");
    ensure(executions.is_none(), || {
        format!("{executions:?} % of executions")
    })?;
    let time = share(list, "lasting", value, "time").ok_or("no share of time")?;
    ensure(time > 65.0, || format!("{time} % of the time in long ones"))?;
    done()
}

/// The argument at the call, at the end of the function, and the arm at the join.
fn biased() -> TestResult {
    let folder = tempfile::tempdir()?;
    let programs = Programs::find().map_err(|error| format!("{error:#}"))?;
    let program = vcpi_tests::fixture::build(folder.path()).map_err(|e| format!("{e:#}"))?;
    let database = folder.path().join("shares.db");
    if record(&programs, &program, &database, "20")?.is_none() {
        return skipped();
    }
    let report = |args: &[&str]| {
        let report = programs.report(&database, args);
        report.map_err(|error| format!("{error:#}"))
    };
    for (function, value) in [("slow_argument", "0x1018"), ("slow_branch", "0x2002")] {
        let list = report(&["list", function])?;
        near(
            share(&list, function, value, "executions"),
            100.0 * 102.0 / 1024.0,
            function,
        )?;
    }
    let args = report(&["args", "slow_argument"])?;
    let all_sites = args.as_array().into_iter().flatten();
    let all_sites = all_sites.filter(|row| row["call_site"].is_null());
    let argument = all_sites
        .flat_map(|row| row["args"].as_array().into_iter().flatten())
        .find(|of| of["arg"] == 0 && of["base"] == "executions");
    // Where calls come back in less than 90 % of the windows, it is not told.
    let Some(argument) = argument else {
        return done();
    };
    near(
        percent(argument, "0x18"),
        100.0 * 102.0 / 1024.0,
        "the argument",
    )?;
    done()
}

/// Holds the share of executions of a function's value to the truth; that of time is another.
fn held(truth: &Value, list: &Value, function: &str) -> Result<(), Failed> {
    let value = truth[function]["value"].as_str().ok_or("no value")?;
    let percent = truth[function]["percent"].as_f64().ok_or("no truth")?;
    near(
        share(list, function, value, "executions"),
        percent,
        function,
    )?;
    ensure(share(list, function, value, "time").is_some(), || {
        format!("no share of time in {function}")
    })
}

fn near(share: Option<f64>, percent: f64, what: &str) -> Result<(), Failed> {
    ensure(
        share.is_some_and(|share| (share - percent).abs() <= MAX_POINTS),
        || format!("{what}: {share:?} % of executions, {percent:.1} % in truth"),
    )
}

/// The share of a value that one instruction of a function alone computes.
fn share(list: &Value, function: &str, value: &str, base: &str) -> Option<f64> {
    let rows = list.as_array().into_iter().flatten();
    rows.filter(|row| row["function"] == function)
        .flat_map(|row| row["profiles"].as_array().into_iter().flatten())
        .filter(|profile| profile["base"] == base)
        .find_map(|profile| percent(profile, value))
}

fn percent(profile: &Value, value: &str) -> Option<f64> {
    let values = profile["values"].as_array()?;
    values.iter().find(|of| of["value"] == value)?["percent"].as_f64()
}

/// The fixture's truth and what `vcpi list` says, of one recording for all tests; `None` if it
/// cannot be made here.
fn recorded() -> Result<Option<(&'static Value, &'static Value)>, Failed> {
    static RESULT: OnceLock<Result<Option<(Value, Value)>, String>> = OnceLock::new();
    let result = RESULT
        .get_or_init(|| make().map_err(|error| error.message().unwrap_or("failed").to_owned()));
    match result {
        Ok(both) => Ok(both.as_ref().map(|(truth, list)| (truth, list))),
        Err(error) => Err(error.clone().into()),
    }
}

fn make() -> Result<Option<(Value, Value)>, Failed> {
    let folder = tempfile::tempdir()?;
    let programs = Programs::find().map_err(|error| format!("{error:#}"))?;
    let program = folder.path().join("bases");
    let compiled = Command::new("gcc")
        .args(["-O2", "-g", "-o"])
        .arg(&program)
        .arg(root().join("tests/fixtures/bases.c"))
        .output()?;
    ensure(compiled.status.success(), || text(&compiled))?;
    let database = folder.path().join("bases.db");
    let Some(mut truth) = record(&programs, &program, &database, "20")? else {
        return Ok(None);
    };
    let times = Command::new(&program).arg("--times").output()?;
    ensure(times.status.success(), || text(&times))?;
    truth["time"] = serde_json::from_slice(&times.stdout)?;
    let mut rows = Vec::new();
    for function in ["rounds", "missing", "dividing", "lasting"] {
        let list = programs.report(&database, &["list", function]);
        let list = list.map_err(|error| format!("{error:#}"))?;
        rows.extend(list.as_array().into_iter().flatten().cloned());
    }
    Ok(Some((truth, Value::Array(rows))))
}

/// Records a program, which prints JSON; `None` where the engine is refused.
fn record(
    programs: &Programs,
    program: &Path,
    database: &Path,
    seconds: &str,
) -> Result<Option<Value>, Failed> {
    let output = Command::new(&programs.vcpid)
        .args(["record", "-q", "--engine", "bpf", "--clock", "cpu-clock"])
        .args(["--rate", "3000", "--window", "200", "-o"])
        .arg(database)
        .arg("--")
        .arg(program)
        .arg(seconds)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && output.stdout.is_empty() && said.contains("engine") {
        return Ok(None);
    }
    ensure(output.status.success(), || text(&output))?;
    Ok(Some(serde_json::from_slice(&output.stdout)?))
}

fn skipped() -> TestResult {
    Ok(Completion::ignored_with(
        "the engine bpf is not to be had here",
    ))
}
