//! Capture plans on real programs: what windows know with all memory, and with the plan's alone.
//!
//! A program is single-stepped; every few steps a window is interpreted from the stopped thread's
//! registers, once with all of its memory, once with nothing but what the plan for that PC brings
//! back. The two must agree wherever both know, and the shares of what they know are printed.
//! Whether the first is right is the oracle's business.
//!
//! `VCPI_PLAN_WINDOWS` sets the windows per program, `VCPI_PLAN_COMMAND` (words separated by
//! blanks) replaces the programs; the first `VCPI_PLAN_SKIP` system calls are not watched.

#[expect(dead_code, reason = "the oracle needs more of it")]
#[path = "../oracle/tracee.rs"]
mod tracee;
#[expect(dead_code, reason = "the oracle needs more of it")]
#[path = "../oracle/view.rs"]
mod view;
mod watch;

use std::path::Path;

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::tracee::Start;

/// Windows per program unless the environment says otherwise.
const WINDOWS: u64 = 4_000;

struct Program {
    name: String,
    command: Vec<String>,
    start: Start,
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// The programs; their input lies in `folder`.
fn programs(folder: &Path) -> Result<Vec<Program>> {
    let program = |name: &str, command: &[&str], start| Program {
        name: name.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        start,
    };
    if let Some(command) = variable::<String>("VCPI_PLAN_COMMAND") {
        let words: Vec<_> = command.split_whitespace().collect();
        let calls = variable("VCPI_PLAN_SKIP").unwrap_or(0);
        return Ok(vec![program("command", &words, Start::Calls(calls))]);
    }
    let lines: String = (0..20_000)
        .map(|i| format!("{} line {}\n", i * i % 977, i % 13))
        .collect();
    let path = folder.join("data");
    std::fs::write(&path, lines)?;
    let data = path
        .to_str()
        .context("the folder's name is no text")?
        .to_owned();
    let script = "d={}\nfor i in range(1000000): d[i%97]=d.get(i%89,0)+len(str(i))";
    Ok(vec![
        program(
            "xz",
            &["xz", "-9e", "-T1", "-k", "-c", &data],
            Start::Opened(data.clone(), 20),
        ),
        program("sort", &["sort", "-n", &data], Start::EndOf(data.clone())),
        program(
            "python3",
            &["/usr/bin/python3", "-S", "-c", script],
            Start::Calls(150),
        ),
    ])
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir()?;
    let windows = variable("VCPI_PLAN_WINDOWS").unwrap_or(WINDOWS);
    let trials = programs(folder.path())?
        .into_iter()
        .map(|program| Trial::test(program.name.clone(), move || watch(&program, windows)))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructor: the folder has to go before.
    drop(folder);
    conclusion.exit()
}

/// Watches a program and prints what was seen; any disagreement is a failure.
fn watch(program: &Program, windows: u64) -> Result<(), Failed> {
    let report = watch::run(&program.command, &program.start, windows)
        .map_err(|error| format!("{error:#}"))?;
    println!("{}: {report}", program.name);
    if !report.differences.is_empty() {
        return Err(report.differences.join("\n").into());
    }
    if report.windows < windows / 10 {
        return Err(format!("the program ended after {} windows", report.windows).into());
    }
    Ok(())
}
