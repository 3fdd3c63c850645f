//! The single-step oracle: real programs run instruction by instruction, and whatever the
//! interpreter claims to know is compared with what the processor did.
//!
//! Before a step the interpreter is given the stopped thread's registers and memory, once in full
//! and twice with a random part of them hidden; after the step every register, flag and stored
//! byte that it calls known must agree. Every few steps it also runs a whole window ahead, with
//! memory as of the window's start, and the next steps must bear out each of its events.
//!
//! `VCPI_ORACLE_STEPS` sets the steps per program, `VCPI_ORACLE_COMMAND` (words separated by
//! blanks) replaces the programs; of it, `VCPI_ORACLE_SKIP` system calls are not watched, counted
//! from the opening of `VCPI_ORACLE_FILE` if that is set; with the file alone the watch begins
//! when it has been read. Watch programs of one thread: what another one stores between the
//! interpreter's look and the step shows as a difference.

mod check;
mod fixture;
mod tracee;
mod vectors;
mod view;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::tracee::Start;

/// Steps per program unless the environment says otherwise.
const STEPS: u64 = 100_000;
/// Steps of the program that runs every instruction: enough for its tables of values.
const FIXTURE_STEPS: u64 = 300_000;

/// A program to watch.
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
    if let Some(command) = variable::<String>("VCPI_ORACLE_COMMAND") {
        let words: Vec<_> = command.split_whitespace().collect();
        let start = match (variable("VCPI_ORACLE_FILE"), variable("VCPI_ORACLE_SKIP")) {
            (Some(file), Some(calls)) => Start::Opened(file, calls),
            (Some(file), None) => Start::EndOf(file),
            (None, calls) => Start::Calls(calls.unwrap_or(0)),
        };
        return Ok(vec![program("command", &words, start)]);
    }
    let write = |name: &str, text: &str| -> Result<String> {
        let path = folder.join(name);
        std::fs::write(&path, text)?;
        Ok(path
            .to_str()
            .context("the folder's name is no text")?
            .to_owned())
    };
    let lines: String = (0..20_000)
        .map(|i| format!("{} line {}\n", i * i % 977, i % 13))
        .collect();
    let data = write("data", &lines)?;
    let script = write("script.py", include_str!("script.py"))?;
    let source = write("source.c", include_str!("source.c"))?;
    // The driver only starts the compiler proper.
    let compiler = Command::new("gcc")
        .arg("-print-prog-name=cc1")
        .output()
        .context("gcc")?;
    let compiler = String::from_utf8(compiler.stdout)?;
    let compile = [compiler.trim(), "-quiet", "-O2", "-o", "/dev/null", &source];
    let python = ["/usr/bin/python3", "-S", &script];
    Ok(vec![
        program("dynamic_linker", &["/bin/true"], Start::Calls(0)),
        program(
            "xz",
            &["xz", "-9e", "-T1", "-k", "-c", &data],
            Start::Opened(data.clone(), 20),
        ),
        program("sort", &["sort", "-n", &data], Start::EndOf(data.clone())),
        program(
            "python3_compiling",
            &python,
            Start::Opened(script.clone(), 0),
        ),
        program("python3_running", &python, Start::EndOf(script.clone())),
        program("gcc", &compile, Start::Opened(source.clone(), 6)),
    ])
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir()?;
    let wanted = variable("VCPI_ORACLE_STEPS");
    let steps = wanted.unwrap_or(STEPS);
    let mut trials: Vec<_> = programs(folder.path())?
        .into_iter()
        .map(|program| Trial::test(program.name.clone(), move || watch(&program, steps)))
        .collect();
    let path = folder.path().to_owned();
    trials.push(Trial::test("every_integer_instruction", move || {
        watch_fixture(
            "every_integer_instruction",
            fixture::build_integer(&path),
            wanted,
        )
    }));
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let path = folder.path().to_owned();
        trials.push(Trial::test("every_vector_instruction", move || {
            watch_fixture(
                "every_vector_instruction",
                fixture::build_vector(&path),
                wanted,
            )
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructor: the folder has to go before.
    drop(folder);
    conclusion.exit()
}

fn watch_fixture(name: &str, built: Result<String>, steps: Option<u64>) -> Result<(), Failed> {
    let built = built.map_err(|error| format!("{error:#}"))?;
    let program = Program {
        name: name.to_owned(),
        command: vec![built],
        start: Start::Calls(0),
    };
    watch(&program, steps.unwrap_or(FIXTURE_STEPS))
}

/// Watches a program and prints what was seen; any difference is a failure, and so is a program
/// that ended before anything much was seen of it.
fn watch(program: &Program, steps: u64) -> Result<(), Failed> {
    let report = check::run(&program.command, &program.start, steps)
        .map_err(|error| format!("{error:#}"))?;
    println!("{}: {report}", program.name);
    if !report.differences.is_empty() {
        return Err(report.differences.join("\n").into());
    }
    if report.steps < steps.min(STEPS) / 10 {
        return Err(format!("the program ended after {} steps", report.steps).into());
    }
    Ok(())
}
