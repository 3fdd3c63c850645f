//! What a share is of: functions whose values decide how long the processor stays, seen in windows
//! of 200 instructions. Shares of executions are held to the truth where they are printed.
//!
//! Needs the release build of both programs, a C compiler, and the engine `bpf`, which brings the
//! code that such windows run through.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Arguments;
use serde_json::Value;
use vcpi_tests::harness::{Shared, Test, run, test, text};
use vcpi_tests::needs::{bpf, gcc};
use vcpi_tests::programs::{Programs, root};

/// Greatest allowed difference from the share of executions, in points.
const MAX_POINTS: f64 = 3.0;
/// The same from the share of time, which is measured by a clock on a shared machine.
const MAX_POINTS_OF_TIME: f64 = 12.0;

fn main() -> ExitCode {
    let tests = [
        MORE_INSTRUCTIONS,
        WAITING_FOR_MEMORY,
        DIVIDING,
        TIMES,
        LASTING,
        BIASED,
        SITES,
        FEW_ROUNDS,
        UNLIKE,
    ];
    run(&Arguments::from_args(), tests).exit_code()
}

const MORE_INSTRUCTIONS: Test = test(
    "executions with more instructions",
    more_instructions,
    &[gcc, bpf],
);
/// A value that takes more rounds of a loop is not seen too often, though fewer executions with it
/// fit into a window.
fn more_instructions() -> Result<()> {
    let (truth, list) = recorded()?;
    held(truth, list, "rounds")?;
    Ok(())
}

const WAITING_FOR_MEMORY: Test = test(
    "executions that wait for memory",
    waiting_for_memory,
    &[gcc, bpf],
);
/// A value that takes longer in the same instructions is not seen too often.
fn waiting_for_memory() -> Result<()> {
    let (truth, list) = recorded()?;
    held(truth, list, "missing")?;
    Ok(())
}

const DIVIDING: Test = test("executions that divide for longer", dividing, &[gcc, bpf]);
/// Nor is one that takes a little longer.
fn dividing() -> Result<()> {
    let (truth, list) = recorded()?;
    held(truth, list, "dividing")?;
    Ok(())
}

const TIMES: Test = test("time that the rare value takes", times, &[gcc, bpf]);
/// First events tell which part of the time goes by with a value, however seldom it comes.
fn times() -> Result<()> {
    let (truth, list) = recorded()?;
    for function in ["rounds", "missing", "dividing"] {
        let value = truth[function]["value"].as_str().context("no value")?;
        let true_time = truth["time"][function].as_f64().context("no time")?;
        let time = share(list, function, value, "time");
        ensure!(
            time.is_some_and(|time| (time - true_time).abs() <= MAX_POINTS_OF_TIME),
            "{function}: {time:?} % of the time, {true_time:.1} % in truth"
        );
    }
    Ok(())
}

const LASTING: Test = test(
    "executions that depend on each other are not claimed",
    lasting,
    &[gcc, bpf],
);
/// Where a value lasts for many executions, the next one is as long as the one that was sampled:
/// nothing is said of executions.
fn lasting() -> Result<()> {
    let (truth, list) = recorded()?;
    let value = truth["lasting"]["value"].as_str().unwrap_or_default();
    let executions = share(list, "lasting", value, "executions");
    ensure!(executions.is_none(), "{executions:?} % of executions");
    let time = share(list, "lasting", value, "time").context("no share of time")?;
    ensure!(time > 65.0, "{time} % of the time in long ones");
    Ok(())
}

const BIASED: Test = test("the biased functions of the fixture", biased, &[gcc, bpf]);
/// The argument at the call, at the end of the function, and the arm at the join.
fn biased() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let programs = Programs::find()?;
    let program = vcpi_tests::fixture::build(folder.path())?;
    let database = folder.path().join("shares.db");
    // Twice as long as the others: few windows come back to its function.
    record(&programs, &program, &database, &["40"])?;
    let report = |args: &[&str]| programs.report(&database, args);
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
        return Ok(());
    };
    near(
        percent(argument, "0x18"),
        100.0 * 102.0 / 1024.0,
        "the argument",
    )?;
    Ok(())
}

const SITES: Test = test(
    "a site of one call in 32 has its share of an argument",
    sites,
    &[gcc, bpf],
);
/// All sites together: windows come by the seldom one mostly once, by the other many times.
fn sites() -> Result<()> {
    let args = called()?.report(&["args", "called"])?;
    let all = args.as_array().into_iter().flatten();
    let all = all.filter(|row| row["call_site"].is_null());
    let told: Vec<&Value> = all
        .flat_map(|row| row["args"].as_array().into_iter().flatten())
        .filter(|of| of["arg"] == 1)
        .collect();
    ensure!(!told.is_empty(), "nothing is told: {args}");
    for argument in told {
        near(
            percent(argument, "0x9"),
            100.0 / 32.0,
            "the seldom argument",
        )?;
    }
    Ok(())
}

const FEW_ROUNDS: Test = test(
    "both rounds of a loop of two, seldom called",
    few_rounds,
    &[gcc, bpf],
);
/// The branch at the loop's end goes back in each other execution; the first one of a window is
/// nearly always one that does.
fn few_rounds() -> Result<()> {
    let list = called()?.report(&["list", "few"])?;
    let rows = list.as_array().into_iter().flatten();
    let profiles = rows.flat_map(|row| row["profiles"].as_array().into_iter().flatten());
    let back = profiles
        .filter(|of| of["parameter"] == "taken")
        .filter_map(|of| percent(of, "0x1"))
        .filter(|back| *back > 0.0)
        .collect::<Vec<f64>>();
    ensure!(
        !back.is_empty()
            && back
                .iter()
                .all(|back| (back - 50.0).abs() <= MAX_POINTS_OF_TIME),
        "{back:?} for 50: {list}"
    );
    Ok(())
}

const UNLIKE: Test = test(
    "no wrong executions where windows are of slow stretches, or of some steps",
    unlike,
    &[gcc, bpf],
);
/// Where most windows begin in slow calls, of which more have the value, they tell no share of
/// executions. Nor do they where they see the same few steps of a program, unless it is the right
/// one: windows may go through all steps. Where slow and quick calls are mixed they do.
fn unlike() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let programs = Programs::find()?;
    let program = folder.path().join("unlike");
    build("unlike.c", &program)?;
    let told = |mode: &str| {
        let database = folder.path().join(format!("{mode}.db"));
        let percent = record(&programs, &program, &database, &[mode, "8"])?;
        let list = programs.report(&database, &["list", "told"])?;
        let executions = share(&list, "told", "0x7", "executions");
        ensure!(
            share(&list, "told", "0x7", "time")
                .or(share(&list, "told", "0x7", "windows"))
                .is_some(),
            "nothing is told of {mode}: {list}"
        );
        anyhow::Ok((executions, percent.as_f64().context("no truth")?))
    };
    let (executions, truth) = told("stretches")?;
    ensure!(
        executions.is_none(),
        "stretches: {executions:?} % of executions, {truth} % in truth"
    );
    let (executions, truth) = told("steps")?;
    if executions.is_some() {
        near(executions, truth, "steps")?;
    }
    let (executions, truth) = told("mixed")?;
    near(executions, truth, "mixed")
}

/// A recording of `fixtures/callers.c`.
struct Called {
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Called {
    fn report(&self, args: &[&str]) -> Result<Value> {
        self.programs
            .report(&self.folder.path().join("callers.db"), args)
    }
}

fn called() -> Result<Called> {
    let of = Called {
        folder: tempfile::tempdir()?,
        programs: Programs::find()?,
    };
    let program = of.folder.path().join("callers");
    build("callers.c", &program)?;
    let output = Command::new(&of.programs.vcpid)
        .args(["record", "-q", "--engine", "bpf", "--clock", "cpu-clock"])
        .args(["--rate", "3000", "-o"])
        .arg(of.folder.path().join("callers.db"))
        .arg("--")
        .arg(program)
        .arg("20000000")
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(of)
}

fn build(source: &str, program: &Path) -> Result<()> {
    let compiled = Command::new("gcc")
        .args(["-O2", "-g", "-o"])
        .arg(program)
        .arg(root().join("tests/fixtures").join(source))
        .output()?;
    ensure!(compiled.status.success(), text(&compiled));
    Ok(())
}

/// Holds the share of executions of a function's value to the truth; that of time is another.
fn held(truth: &Value, list: &Value, function: &str) -> Result<()> {
    let value = truth[function]["value"].as_str().context("no value")?;
    let percent = truth[function]["percent"].as_f64().context("no truth")?;
    near(
        share(list, function, value, "executions"),
        percent,
        function,
    )?;
    ensure!(
        share(list, function, value, "time").is_some(),
        "no share of time in {function}"
    );
    Ok(())
}

fn near(share: Option<f64>, percent: f64, what: &str) -> Result<()> {
    ensure!(
        share.is_some_and(|share| (share - percent).abs() <= MAX_POINTS),
        "{what}: {share:?} % of executions, {percent:.1} % in truth"
    );
    Ok(())
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

/// The fixture's truth and what `vcpi list` says, of one recording for all tests.
fn recorded() -> Result<&'static (Value, Value)> {
    static RECORDED: Shared<(Value, Value)> = Shared::new();
    RECORDED.get(make)
}

fn make() -> Result<(Value, Value)> {
    let folder = tempfile::tempdir()?;
    let programs = Programs::find()?;
    let program = folder.path().join("bases");
    build("bases.c", &program)?;
    let database = folder.path().join("bases.db");
    let mut truth = record(&programs, &program, &database, &["20"])?;
    let times = Command::new(&program).arg("--times").output()?;
    ensure!(times.status.success(), text(&times));
    truth["time"] = serde_json::from_slice(&times.stdout)?;
    let mut rows = Vec::new();
    for function in ["rounds", "missing", "dividing", "lasting"] {
        let list = programs.report(&database, &["list", function])?;
        rows.extend(list.as_array().into_iter().flatten().cloned());
    }
    Ok((truth, Value::Array(rows)))
}

/// Records a program, which prints JSON.
fn record(
    programs: &Programs,
    program: &Path,
    database: &Path,
    arguments: &[&str],
) -> Result<Value> {
    let output = Command::new(&programs.vcpid)
        .args(["record", "-q", "--engine", "bpf", "--clock", "cpu-clock"])
        .args(["--rate", "3000", "--window", "200", "-o"])
        .arg(database)
        .arg("--")
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(serde_json::from_slice(&output.stdout)?)
}
