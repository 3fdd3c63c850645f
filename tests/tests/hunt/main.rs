//! The hunt: random small programs that write down which values each of their marked instructions
//! can have, recorded with both engines. Whatever is in the database and not among those values is
//! a finding.
//!
//! A program consists of blocks of marked code, in assembly or compiled C, which work on inputs
//! drawn at its start. It first calls every block with every input once, one instruction at a time,
//! and notes the state after each; then over and over. `fixtures/hunt/hunt.h` explains it. Programs
//! whose threads write what others read have invariants instead (`relations.rs`).
//!
//! `VCPI_HUNT_SECONDS`, `VCPI_HUNT_SEED`, `VCPI_HUNT_KIND` and `VCPI_HUNT_PROGRAMS` say what is
//! run; `cargo xtask hunt` sets them. `VCPI_HUNT_EACH` says for how many seconds each thread of a
//! program runs (0.6 unless it is set), and `VCPI_HUNT_ENGINES` with which engines.
//! `VCPI_HUNT_LOCK` names a file that is locked while something is recorded, for hunts that share a
//! machine.

mod block;
#[path = "../bpf/checks.rs"]
#[expect(dead_code, reason = "the hunt needs a part of it")]
mod checks;
mod codes;
mod compiled;
mod controls;
#[path = "../../../interpreter/tests/common/edges.rs"]
#[expect(dead_code, reason = "programs take a part of them")]
mod edges;
#[path = "../isa/features.rs"]
mod features;
mod hazards;
mod judge;
mod kinds;
mod layout;
mod program;
#[path = "../common/registers.rs"]
mod registers;
mod relations;
mod run;
mod steps;
mod trace;

use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use vcpi_tests::harness::{Test, one_at_a_time, test, trial};
use vcpi_tests::needs::{Missing, gcc};
use vcpi_tests::programs::Programs;
use vcpi_tests::variable;

use crate::block::VectorRegisters;
use crate::codes::Codes;
use crate::features::Features;
use crate::judge::Verdict;
use crate::kinds::{KINDS, Kind};
use crate::program::Machine;
use crate::run::Range;

/// Seconds of the test command.
const SECONDS: u64 = 60;

/// What is run.
#[derive(Clone)]
struct Request {
    seconds: u64,
    /// Programs, at most.
    programs: u64,
    /// Seed of the first program; each has one more than the program before.
    seed: u64,
    /// Kinds whose names begin so.
    kind: String,
}

impl Request {
    /// Nothing is left out: the tests of the hunt itself are run, too.
    fn is_whole(&self) -> bool {
        self.kind.is_empty() && self.programs == u64::MAX
    }
}

/// A test of what engines record.
type Live = Test<fn(&Range, &Request) -> Result<()>>;

fn main() -> Result<ExitCode> {
    let request = Request {
        seconds: variable("VCPI_HUNT_SECONDS")?.unwrap_or(SECONDS),
        programs: variable("VCPI_HUNT_PROGRAMS")?.unwrap_or(u64::MAX),
        seed: variable("VCPI_HUNT_SEED")?.unwrap_or(1),
        kind: variable("VCPI_HUNT_KIND")?.unwrap_or_default(),
    };
    let live = |test: Live| {
        let request = request.clone();
        trial(test.sentence, test.needs.iter().copied(), move || {
            (test.run)(&range()?, &request)
        })
    };
    let tests = if request.is_whole() {
        vec![
            controls::REPEATED.trial(),
            live(controls::PLANTED),
            live(HUNT),
        ]
    } else {
        vec![live(HUNT)]
    };
    Ok(libtest_mimic::run(&one_at_a_time(), tests).exit_code())
}

/// The engines that are asked for, else those that work here.
fn engines(programs: &Programs) -> Result<Vec<String>> {
    if let Some(asked) = variable::<String>("VCPI_HUNT_ENGINES")? {
        return Ok(asked.split(',').map(str::to_owned).collect());
    }
    let folder = tempfile::tempdir()?;
    let mut engines = Vec::new();
    for engine in ["bpf", "ring"] {
        let output = Command::new(&programs.vcpid)
            .args(["record", "-q", "--rate", "100", "--engine", engine, "-o"])
            .arg(folder.path().join(engine))
            .args(["--", "true"])
            .stdin(Stdio::null())
            .output()?;
        if output.status.success() {
            engines.push(engine.to_owned());
        } else {
            let said = String::from_utf8_lossy(&output.stderr);
            println!("without the engine {engine}: {}", said.trim_end());
        }
    }
    Ok(engines)
}

/// What this processor has.
fn machine() -> Result<Machine> {
    let features = Features::of_this_processor()?;
    let vectors = match (features.named("avx512bw"), features.named("avx")) {
        (true, _) => VectorRegisters::Zmm,
        (false, true) => VectorRegisters::Ymm,
        (false, false) => VectorRegisters::Xmm,
    };
    Ok(Machine {
        codes: Codes::of_this_processor(&features)?,
        vectors,
        segments: features.named("fsgsbase"),
    })
}

fn range() -> Result<Range> {
    let programs = Programs::find()?;
    let engines = engines(&programs)?;
    if engines.is_empty() {
        bail!(Missing::new("needs an engine that records here"));
    }
    Ok(Range {
        machine: machine()?,
        engines,
        programs,
        seconds: variable("VCPI_HUNT_EACH")?.unwrap_or(run::SECONDS),
        lock: variable("VCPI_HUNT_LOCK")?,
    })
}

/// The sum of a kind's programs.
#[derive(Default)]
struct Sum {
    programs: u64,
    failed: u64,
    verdict: Verdict,
}

const HUNT: Live = test("no value in a database is impossible", hunt, &[gcc]);
/// Whatever a database says of a marked instruction is among what that instruction can result in.
/// Runs programs until the time is over; fails where there is a finding, or a program failed.
fn hunt(range: &Range, request: &Request) -> Result<()> {
    let kinds: Vec<&Kind> = KINDS
        .iter()
        .filter(|kind| kind.name.starts_with(request.kind.as_str()))
        .collect();
    if kinds.is_empty() {
        bail!("no kind begins with {}", request.kind);
    }
    // The harness has begun a line.
    println!();
    let end = Instant::now() + Duration::from_secs(request.seconds);
    let mut sums: Vec<Sum> = kinds.iter().map(|_| Sum::default()).collect();
    // What a failing test says comes at the end of everything that is printed.
    let mut said = String::new();
    let mut number = 0;
    while number < request.programs && Instant::now() < end {
        let seed = request.seed.wrapping_add(number);
        let which = (number % kinds.len() as u64) as usize;
        number += 1;
        let (kind, sum) = (kinds[which], &mut sums[which]);
        if kind.segments && !range.machine.segments {
            continue;
        }
        sum.programs += 1;
        let name = kind.name;
        match range.run(kind, seed, request.programs == 1) {
            Ok(outcome) => {
                let verdict = &outcome.verdict;
                println!(
                    "{name:12} seed {seed:6}: {:8.0} values, {:5.1} % known, {} findings ({})",
                    verdict.values,
                    verdict.known(),
                    verdict.findings.len(),
                    outcome.about
                );
                for finding in &verdict.findings {
                    println!("    {}", finding.text);
                    _ = write!(said, "\n{name} seed {seed}: {}", finding.text);
                }
                if let Some(kept) = &outcome.kept {
                    println!("    kept: {}", kept.display());
                    println!(
                        "    again: cargo xtask hunt --kind {name} --seed {seed} --programs 1"
                    );
                }
                sum.verdict.add(verdict);
            }
            Err(error) => {
                println!("{name:12} seed {seed:6}: {error:#}");
                _ = write!(said, "\n{name} seed {seed}: {error:#}");
                sum.failed += 1;
            }
        }
    }
    println!();
    let mut findings = 0;
    for (kind, sum) in kinds.iter().zip(&sums) {
        let verdict = &sum.verdict;
        println!(
            "{:12} {:4} programs, {} failed, {:9.0} values, {:5.1} % known, {} thinned, {} untold, {} findings",
            kind.name,
            sum.programs,
            sum.failed,
            verdict.values,
            verdict.known(),
            verdict.thinned,
            verdict.untold,
            verdict.findings.len()
        );
        findings += verdict.findings.len() + sum.failed as usize;
    }
    ensure!(findings == 0, "{findings} findings{said}");
    Ok(())
}
