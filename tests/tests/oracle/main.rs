//! The single-step oracle: real programs run instruction by instruction, and whatever the
//! interpreter claims to know is compared with what the processor did.
//!
//! Before a step the interpreter is given the stopped thread's registers and memory, once in full
//! and twice with a random part of them hidden; after the step every register, flag and stored
//! byte that it calls known must agree. It also runs whole windows ahead, with memory as of the
//! window's start: from the registers of a sample (the general ones, no vectors), and with part of
//! all registers and memory hidden. The next steps must bear out each of their events.
//!
//! Printed is what windows from the registers of a sample achieve. An instruction is *reached* if a
//! window fetched it; a window *ends* at it if the window goes no further although it has not its
//! full length. The share of ends is of all instructions reached, and is told by cause. A window
//! depends on vector registers if it goes on where the same window is told those that the
//! processor had.
//!
//! `VCPI_ORACLE_STEPS` sets the steps per program, each of which then starts a window,
//! `VCPI_ORACLE_COMMAND` (words separated by blanks) replaces the programs; of it,
//! `VCPI_ORACLE_SKIP` system calls are not watched, counted from the opening of `VCPI_ORACLE_FILE`
//! if that is set; with the file alone the watch begins when it has been read. Watch programs of
//! one thread: what another one stores between the interpreter's look and the step shows as a
//! difference.

mod check;
mod compare;
#[path = "../../../interpreter/tests/common/edges.rs"]
#[expect(dead_code, reason = "these programs need a part of them")]
mod edges;
mod fixture;
mod programs;
mod report;
mod tracee;
mod vectors;
mod view;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use vcpi_tests::harness::trial;
use vcpi_tests::variable;

use crate::check::Extent;
use crate::programs::{Program, programs};
use crate::tracee::Start;

/// How a program is watched unless the environment says otherwise.
const PROGRAM: Extent = Extent {
    steps: 60_000,
    stride: 2,
};
/// How those are watched that run every instruction: long enough for their tables of values.
const FIXTURE: Extent = Extent {
    steps: 300_000,
    stride: 7,
};

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = tempfile::tempdir()?;
    let wanted = variable("VCPI_ORACLE_STEPS")?.map(|steps| Extent { steps, stride: 1 });
    let extent = wanted.unwrap_or(PROGRAM);
    let mut trials: Vec<_> = programs(folder.path())?
        .into_iter()
        .map(|program| trial(program.name.clone(), [], move || watch(&program, extent)))
        .collect();
    let path = folder.path().to_owned();
    trials.push(trial("every_integer_instruction", [], move || {
        watch_fixture(
            "every_integer_instruction",
            fixture::build_integer(&path)?,
            wanted.unwrap_or(FIXTURE),
        )
    }));
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let path = folder.path().to_owned();
        trials.push(trial("every_vector_instruction", [], move || {
            watch_fixture(
                "every_vector_instruction",
                fixture::build_vector(&path)?,
                wanted.unwrap_or(FIXTURE),
            )
        }));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // `exit` runs no destructor: the folder has to go before.
    drop(folder);
    conclusion.exit()
}

fn watch_fixture(name: &str, built: String, extent: Extent) -> Result<()> {
    let program = Program {
        name: name.to_owned(),
        command: vec![built],
        start: Start::Calls(0),
    };
    watch(&program, extent)
}

/// Watches a program and prints what was seen; any difference is a failure, and so is a program
/// that ended before anything much was seen of it.
fn watch(program: &Program, extent: Extent) -> Result<()> {
    let report = check::run(&program.command, &program.start, extent)?;
    println!("{}: {report}", program.name);
    ensure!(report.differences.is_empty(), report.differences.join("\n"));
    ensure!(
        report.steps >= extent.steps.min(PROGRAM.steps) / 10,
        "the program ended after {} steps",
        report.steps
    );
    Ok(())
}
