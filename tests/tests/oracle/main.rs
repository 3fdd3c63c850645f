//! The single-step oracle: real programs run instruction by instruction, and whatever the
//! interpreter claims to know is compared with what the processor did.
//!
//! Before a step the interpreter is given the stopped thread's registers and memory, once in full
//! and twice with a random part of them hidden; after the step every register, flag and stored
//! byte that it calls known must agree. Every few steps it also runs a whole window ahead, with
//! memory as of the window's start, and the next steps must bear out each of its events.
//!
//! `VCPI_ORACLE_STEPS` sets the steps per program, `VCPI_ORACLE_COMMAND` (words separated by
//! blanks) replaces the programs, `VCPI_ORACLE_SKIP` is the number of system calls that it may do
//! before it is watched.

mod check;
mod fixture;
mod tracee;

use anyhow::{Context as _, Result};
use libtest_mimic::{Arguments, Failed, Trial};

/// Steps per program unless the environment says otherwise.
const STEPS: u64 = 150_000;

/// A program to watch: a name, its words, and how many system calls it does before.
struct Program {
    name: String,
    command: Vec<String>,
    skip: u32,
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// The programs; their input lies in `folder`.
fn programs(folder: &std::path::Path) -> Result<Vec<Program>> {
    let program = |name: &str, command: &[&str], skip| Program {
        name: name.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        skip,
    };
    if let Some(command) = variable::<String>("VCPI_ORACLE_COMMAND") {
        let words: Vec<_> = command.split_whitespace().collect();
        let skip = variable("VCPI_ORACLE_SKIP").unwrap_or(0);
        return Ok(vec![program("command", &words, skip)]);
    }
    let data = folder.join("data");
    let text: String = (0..20_000)
        .map(|i| format!("{} line {}\n", i * i % 977, i % 13))
        .collect();
    std::fs::write(&data, text)?;
    let data = data.to_str().context("the folder's name is no text")?;
    let script = "print(sorted({str(i * i): i for i in range(5000)}.items())[:9])";
    let source = folder.join("source.c");
    std::fs::write(
        &source,
        "int f(int a, long b) { return a % 7 ? b / 3 : (int)b << a; }\n",
    )?;
    let source = source.to_str().context("the folder's name is no text")?;
    // The driver only starts the compiler proper.
    let compiler = std::process::Command::new("gcc")
        .arg("-print-prog-name=cc1")
        .output()?
        .stdout;
    let compiler = String::from_utf8(compiler)?;
    Ok(vec![
        program("dynamic_linker", &["/bin/true"], 0),
        program("xz", &["xz", "-9e", "-T1", "-k", "-c", data], 60),
        program("python3", &["/usr/bin/python3", "-S", "-c", script], 120),
        program("sort", &["sort", "-n", data], 60),
        program(
            "gcc",
            &[compiler.trim(), "-quiet", "-O2", "-o", "/dev/null", source],
            150,
        ),
    ])
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir()?;
    let steps = variable("VCPI_ORACLE_STEPS").unwrap_or(STEPS);
    let mut trials: Vec<_> = programs(folder.path())?
        .into_iter()
        .map(|program| {
            Trial::test(program.name.clone(), move || {
                watch(&program.name, &program.command, program.skip, steps).map_err(Failed::from)
            })
        })
        .collect();
    let path = folder.path().to_owned();
    trials.push(Trial::test("every_integer_instruction", move || {
        let program = fixture::build(&path).map_err(|error| format!("{error:#}"))?;
        watch(
            "every_integer_instruction",
            &[program],
            0,
            steps.max(400_000),
        )
        .map_err(Failed::from)
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    drop(folder);
    conclusion.exit()
}

/// Watches a program and prints what was seen; any difference is a failure.
fn watch(name: &str, command: &[String], skip: u32, steps: u64) -> Result<(), String> {
    let report = check::run(command, skip, steps).map_err(|error| format!("{error:#}"))?;
    println!("{name}: {report}");
    if report.differences.is_empty() {
        Ok(())
    } else {
        Err(report.differences.join("\n"))
    }
}
