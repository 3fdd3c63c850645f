//! Calls of functions by breakpoints at their entries, held to what the program counts itself.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use serde_json::Value;

use crate::bench::{Bench, counter, succeeded};
use crate::bounced::Kept;

/// Shares are to be within so many points of the truth.
const POINTS: f64 = 2.0;
/// Seconds of each function.
const SECONDS: &str = "20";
/// The functions, and whether it is the first argument or the call site that is counted.
const FUNCTIONS: [(&str, bool); 5] = [
    ("quick", true),
    ("slow", true),
    ("lasting", true),
    ("turns", true),
    ("sites", false),
];

/// Shares of arguments and of call sites are those of executions: where calls are far apart or
/// close together, where a value lasts, and where values take turns. `args` and `cg` show them
/// beside the shares of time, which are far off.
pub(crate) fn shares(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("entered.c", "entered", &[])?;
    let mut wrong = Vec::new();
    for (function, is_argument) in FUNCTIONS {
        let name = format!("entered-{function}.db");
        let output = bench
            .record("bpf", 1_000, &name)
            .arg(format!("--entries={function}"))
            .arg("--")
            .arg(&program)
            .args([SECONDS, function])
            .output()?;
        succeeded(&output)?;
        let truth: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
        let database = bench.open(&name)?;
        let count = |name| counter(&database, "entries", name);
        let (bursts, dense, calls) = (count("bursts")?, count("bursts_dense")?, count("calls")?);
        let report = |what: &str| {
            let report = bench.programs.report(&bench.path(&name), &[what, function]);
            report.map_err(|error| Failed::from(format!("{error:#}")))
        };
        let seen = match is_argument {
            true => argument(&report("args")?, "entries"),
            false => first_site(&report("cg")?),
        };
        let of_time = match is_argument {
            true => argument(&report("args")?, "time"),
            false => None,
        };
        println!(
            "    {function}: {seen:?} by entries, {of_time:?} by time, {truth} in truth \
             ({bursts} bursts, {dense} dense, {calls} calls)"
        );
        if !seen.is_some_and(|seen| (seen - truth).abs() <= POINTS) {
            wrong.push(format!("{function}: {seen:?} for {truth}"));
        }
    }
    match wrong.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(wrong.join(", ").into()),
    }
}

/// The share of the value 2 in the first argument, of all call sites together.
fn argument(report: &Value, base: &str) -> Option<f64> {
    let rows = report.as_array()?.iter();
    let row = { rows }.find(|row| row["call_site"].is_null())?;
    let arguments = row["args"].as_array()?.iter();
    let first = { arguments }.find(|of| of["arg"] == 0 && of["base"] == base)?;
    let values = first["values"].as_array()?.iter();
    let two = { values }.find(|of| of["value"] == "0x2")?;
    two["percent"].as_f64()
}

/// The share of the calls from the first site.
fn first_site(report: &Value) -> Option<f64> {
    let rows = report.as_array()?.iter();
    let row = { rows }.find(|row| row["caller"] == "first_site")?;
    row["entries"]["percent"].as_f64()
}

/// Collectors that are killed while their breakpoints are set.
const KILLED: u64 = 20;

/// A collector that is killed leaves no breakpoint, and no thread stopped: were one left of each,
/// the last one would have found no more of the four.
pub(crate) fn kills(bench: &Bench) -> Result<Completion, Failed> {
    let program = bench.compile("entered.c", "entered", &[])?;
    let mut target = Kept(Command::new(&program).args(["3600", "quick"]).spawn()?);
    let pid = target.0.id().to_string();
    let record = |name: &str, arguments: &[&str]| {
        let mut command = bench.record("bpf", 1_000, name);
        command
            .args(["--entries=quick", "-p", &pid])
            .args(arguments)
            .stderr(Stdio::piped());
        command
    };
    for number in 0..KILLED {
        let mut collector = Kept(record(&format!("left-{number}.db"), &[]).spawn()?);
        let said = collector.0.stderr.take().ok_or("no output")?;
        // The first line comes when sampling begins. How much later it is killed is to differ.
        BufReader::new(said).read_line(&mut String::new())?;
        std::thread::sleep(Duration::from_millis(700 + 37 * (number % 17)));
        collector.0.kill()?;
        collector.0.wait()?;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    if !matches!(state, Some('R' | 'S' | 'D')) {
        return Err(format!("the program is in state {state:?}").into());
    }
    let output = record("left.db", &["--duration", "4"]).output()?;
    succeeded(&output)?;
    let database = bench.open("left.db")?;
    let count = |name| counter(&database, "entries", name);
    let (bursts, lacking) = (count("bursts")?, count("no_debug_register")?);
    println!("    after {KILLED} kills: {bursts} bursts, {lacking} without a debug register");
    if bursts == 0 || lacking != 0 {
        return Err(format!("{bursts} bursts, {lacking} without a debug register").into());
    }
    target.0.kill()?;
    Ok(Completion::Completed)
}
