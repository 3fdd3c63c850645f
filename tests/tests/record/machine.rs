//! What the machine has: its clocks, and what `vcpid check` says of it.

use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::Missing;

use crate::bench::{BURN, Bench};

pub(crate) const HARDWARE_CYCLES: Test = test("hardware cycles count", hardware_cycles, &[]);
fn hardware_cycles() -> Result<()> {
    let bench = Bench::new()?;
    let check = Command::new(&bench.programs.vcpid)
        .args(["check", "--format", "json"])
        .output()?;
    let found: Value = serde_json::from_slice(&check.stdout)?;
    let cycles = found["clocks"]
        .as_array()
        .and_then(|clocks| clocks.iter().find(|clock| clock["name"] == "cycles"));
    if cycles.and_then(|cycles| cycles["works"].as_bool()) != Some(true) {
        bail!(Missing::new("needs the hardware cycle counter"));
    }
    let output = Command::new(&bench.programs.vcpid)
        .args(["record", "--clock", "cycles", "-o"])
        .arg(bench.path("db"))
        .args(["--", "sh", "-c", BURN])
        .output()?;
    ensure!(output.status.success(), text(&output));
    let status = bench.status()?;
    ensure!(
        status["clock"] == "cycles" && status["samples"].as_u64() > Some(20),
        "{status}"
    );
    Ok(())
}

pub(crate) const CHECK: Test = test("check says what works, as text and JSON", check, &[]);
fn check() -> Result<()> {
    let bench = Bench::new()?;
    let json = Command::new(&bench.programs.vcpid)
        .args(["check", "--format", "json"])
        .output()?;
    let found: Value = serde_json::from_slice(&json.stdout)?;
    for kind in ["engines", "clocks", "targets", "reports"] {
        let findings = found[kind].as_array().context("not an array")?;
        for finding in findings {
            let mended =
                finding["works"] == true || finding["mend"].as_str().is_some_and(|m| !m.is_empty());
            ensure!(mended, "{finding}");
        }
    }
    let clocks = found["clocks"].as_array().context("not an array")?;
    let named = |name: &str| clocks.iter().find(|clock| clock["name"] == name);
    // What an interrupt of a working clock costs, and which one is taken and why.
    for clock in clocks.iter().filter(|clock| clock["works"] == true) {
        let cost = clock["interrupt_ns"].as_u64();
        let seen = cost.is_some_and(|ns| ns > 0) || clock["interrupt_not_seen"] == true;
        ensure!(seen, "{clock}");
    }
    let auto = &found["auto_clock"];
    let taken = auto["clock"].as_str().and_then(named);
    ensure!(
        taken.is_some_and(|clock| clock["works"] == true)
            && auto["why"].as_str().is_some_and(|why| !why.is_empty()),
        "{auto}"
    );
    let often = auto["rate"].as_u64().unwrap_or(0);
    ensure!((10..=1000).contains(&often), "{auto}");
    let plain = Command::new(&bench.programs.vcpid).arg("check").output()?;
    ensure!(
        plain.status.success() && text(&plain).contains("cpu-clock"),
        text(&plain)
    );
    Ok(())
}

/// A process that does not outlive the test.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) const CHECK_TRUTH: Test = test(
    "check compares with the processor, by breakpoints or steps",
    check_truth,
    &[],
);
/// The cross-check compares something of a program that runs, and finds it as it was worked out:
/// by pairs of breakpoints, or by steps where a recording is refused breakpoints.
fn check_truth() -> Result<()> {
    let bench = Bench::new()?;
    let has_breakpoints = bench.record(&["--bounce=1", "--", "true"]).output()?;
    let has_breakpoints = has_breakpoints.status.success();
    let mut busy = Kept(
        Command::new("sh")
            .args(["-c", "i=0; while :; do i=$((i+1)); done"])
            .spawn()?,
    );
    let checked = Command::new(&bench.programs.vcpid)
        .args(["check", "--truth", "4", "--format", "json"])
        .output()?;
    ensure!(checked.status.success(), text(&checked));
    ensure!(busy.0.try_wait()?.is_none(), "it has ended");
    let found: Value = serde_json::from_slice(&checked.stdout)?;
    println!("    {found}");
    let count = |name: &str| found[name].as_u64().unwrap_or(0);
    let (compared, raced) = (count("compared"), count("raced"));
    ensure!(
        compared > raced
            && count("agreed") + raced == compared
            && count("pairs") >= compared
            && count("results") > 0,
        text(&checked)
    );
    let why = &found["no_breakpoints"];
    let is_told = match has_breakpoints {
        true => why.is_null(),
        false => why.as_str().is_some_and(|why| !why.is_empty()),
    };
    ensure!(is_told, text(&checked));
    Ok(())
}

pub(crate) const DEFAULT_RATE: Test =
    test("the rate is what one percent affords", default_rate, &[]);
/// Where no rate is asked for, it is one of the round numbers that cost one percent, and it is said
/// which and why.
fn default_rate() -> Result<()> {
    let bench = Bench::new()?;
    let output = Command::new(&bench.programs.vcpid)
        .args(["record", "--clock", "cpu-clock", "-o"])
        .arg(bench.path("db"))
        .args(["--", "true"])
        .output()?;
    ensure!(output.status.success(), text(&output));
    let period: i64 = bench.query("SELECT period FROM epoch")?;
    let per_second = (1_000_000_000 + period / 2) / period;
    let is_round = [10, 20, 50, 80, 100, 150, 200, 300, 500, 1000].contains(&per_second);
    ensure!(is_round, "{period}");
    let said = format!("{per_second} a second, which cost a program up to ");
    ensure!(text(&output).contains(&said), text(&output));
    Ok(())
}

pub(crate) const DEAR_RATE: Test = test(
    "a rate that costs a program much is said to",
    dear_rate,
    &[],
);
/// Who asks for so many samples that a program loses much of its time to them is told so, and who
/// asks for few is not.
fn dear_rate() -> Result<()> {
    let bench = Bench::new()?;
    let said = |rate: &str| {
        let output = Command::new(&bench.programs.vcpid)
            .args(["record", "--clock", "cpu-clock", "--rate", rate, "-o"])
            .arg(bench.path(rate))
            .args(["--", "true"])
            .output()?;
        ensure!(output.status.success(), text(&output));
        anyhow::Ok(text(&output))
    };
    // On a machine where an interrupt costs a third of a microsecond it would not be said.
    let dear = said("100000")?;
    let told = "100000 samples a second take ";
    ensure!(
        dear.contains(told) && dear.contains("--rate 4000 takes"),
        "{dear}"
    );
    let cheap = said("4000")?;
    ensure!(!cheap.contains("samples a second take"), "{cheap}");
    Ok(())
}

pub(crate) const HUGE_PAGES: Test = test(
    "the recorder does without huge pages, the command does not",
    huge_pages,
    &[],
);
/// The recorder does without huge pages, which does not pass on to what it records.
fn huge_pages() -> Result<()> {
    let bench = Bench::new()?;
    // The command's parent is the recorder, which has set this up before the command runs.
    let script = "grep THP_enabled /proc/self/status /proc/$PPID/status";
    let output = bench.record(&["--", "sh", "-c", script]).output()?;
    let said = text(&output);
    let flags: Vec<&str> = said
        .lines()
        .filter_map(|line| Some(line.split_once("THP_enabled:")?.1.trim()))
        .collect();
    if flags.is_empty() {
        bail!(Missing::new(
            "needs a kernel that tells of huge pages in /proc/PID/status"
        ));
    }
    ensure!(flags == ["1", "0"], "{said}");
    Ok(())
}
