//! The interpreter against the processor: random instructions from the decoder's tables.
//!
//! Every instruction of the interpreter's coverage table that is interpreted or skipped is made
//! with random operands and prefixes, and run on a random state by the processor, in a process of
//! its own, and by the interpreter, once with everything known and once with parts hidden. Whatever
//! the interpreter calls known (registers, vectors, flags, memory, where it goes on, value events)
//! must be what the processor computed. How far instructions may be run is the table's matter: new
//! ones are taken up by themselves.
//!
//! `VCPI_ISA_CASES`, `VCPI_ISA_SEED`, `VCPI_ISA_FIRST` (number of the first case) and
//! `VCPI_ISA_CODE` (a name of the decoder's, or the beginning of some) say what is run; `cargo
//! xtask fuzz-isa` sets them.

mod address;
mod compare;
#[path = "../../../interpreter/tests/common/edges.rs"]
mod edges;
mod events;
mod features;
mod generate;
mod interpret;
mod native;
mod operands;
#[path = "../common/registers.rs"]
mod registers;
mod report;
mod trampoline;
mod tune;
mod values;
mod x87;

use anyhow::{Context as _, Result, ensure};
use iced_x86::Code;
use libtest_mimic::Arguments;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use vcpi_tests::harness::{Test, test, trial};
use vcpi_tests::variable;

use crate::compare::judge;
use crate::features::Features;
use crate::generate::{Case, make};
use crate::native::{BATCH, Native, Ran};
use crate::report::Report;
use crate::trampoline::Level;
use crate::values::Pool;

/// Cases of the test command: a million are run though some are left out.
const CASES: u64 = 1_010_000;
/// Batches that take their values from one pool.
const BATCHES_PER_POOL: u64 = 8;
/// Cases after which a line of progress is printed.
const PROGRESS: u64 = 5_000_000;
/// So few cases are printed, each with what came of it.
const FEW: u64 = 20;
/// Differences after which there is no sense in going on.
const MAX_DIFFERENCES: usize = 200;

/// What is run.
struct Request {
    cases: u64,
    first: u64,
    seed: u64,
    /// Beginning of the instructions' names.
    code: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let request = Request {
        cases: variable("VCPI_ISA_CASES")?.unwrap_or(CASES),
        first: variable("VCPI_ISA_FIRST")?.unwrap_or(0),
        seed: variable("VCPI_ISA_SEED")?.unwrap_or(1),
        code: variable("VCPI_ISA_CODE")?.unwrap_or_default(),
    };
    let test = trial(INSTRUCTIONS.sentence, [], move || {
        (INSTRUCTIONS.run)(&request)
    });
    libtest_mimic::run(&arguments, vec![test]).exit()
}

const INSTRUCTIONS: Test<fn(&Request) -> Result<()>> =
    test("instructions_as_the_processor", as_the_processor, &[]);
/// Whatever the interpreter calls known is what the processor computed.
fn as_the_processor(request: &Request) -> Result<()> {
    let report = fuzz(request)?;
    println!("{report}");
    ensure!(report.differences.is_empty(), report.differences.join("\n"));
    Ok(())
}

/// The instructions of the coverage table that can be run, and on this processor.
fn instructions(start: &str, report: &mut Report) -> Result<Vec<Code>> {
    let table = include_str!("../../../interpreter/coverage.tsv");
    let features = Features::of_this_processor()?;
    let names: std::collections::HashMap<String, Code> = Code::values()
        .map(|code| (format!("{code:?}"), code))
        .collect();
    let mut codes = Vec::new();
    for row in table.lines() {
        let (name, support) = row.split_once('\t').context("a row without a tab")?;
        if support.starts_with("stops") || !name.starts_with(start) {
            continue;
        }
        let code = *names.get(name).with_context(|| format!("no code {name}"))?;
        match features.missing(code) {
            Some(feature) => report.lacks(feature),
            None => codes.push(code),
        }
    }
    // One name alone, if it is one.
    if let Some(code) = names.get(start) {
        codes.retain(|c| c == code);
    }
    ensure!(!codes.is_empty(), "nothing to run by the name of {start}");
    Ok(codes)
}

/// Mixes the numbers that name a case into a seed.
fn mix(seed: u64, number: u64) -> u64 {
    let mixed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(number);
    mixed ^ mixed >> 31
}

fn fuzz(request: &Request) -> Result<Report> {
    let mut report = Report::new(request.seed, request.cases <= FEW);
    let codes = instructions(&request.code, &mut report)?;
    report.codes(&codes);
    let mut native = Native::new()?;
    let end = request.first + request.cases;
    let mut number = request.first;
    let mut pool = (u64::MAX, Pool::new(&mut SmallRng::seed_from_u64(0)));
    while number < end && report.differences.len() < MAX_DIFFERENCES {
        // A batch begins at a multiple of its size, so that a case's pool does not depend on the
        // first.
        let batch = number / BATCH as u64;
        let last = end.min((batch + 1) * BATCH as u64);
        let numbers: Vec<u64> = (number..last).collect();
        number = last;
        let age = batch / BATCHES_PER_POOL;
        if pool.0 != age {
            let mut rng = SmallRng::seed_from_u64(mix(report.seed, age));
            pool = (age, Pool::new(&mut rng));
        }
        run_batch(&mut native, &mut report, &codes, &pool.1, &numbers)?;
        if number / PROGRESS > (number - numbers.len() as u64) / PROGRESS {
            let differences = report.differences.len();
            eprintln!("case {number} of {end}, {differences} differences");
        }
    }
    Ok(report)
}

/// Makes, runs and judges the cases of some numbers, at most as many as a batch has.
fn run_batch(
    native: &mut Native,
    report: &mut Report,
    codes: &[Code],
    pool: &Pool,
    numbers: &[u64],
) -> Result<()> {
    let level = Level::of_this_processor();
    let mut cases: Vec<(u64, u64, Case)> = Vec::with_capacity(numbers.len());
    let mut room = [0; native::CODE_STRIDE as usize];
    for &number in numbers {
        let code = codes[(number % codes.len() as u64) as usize];
        let mut rng = SmallRng::seed_from_u64(mix(!report.seed, number));
        let at = cases.len();
        let slot = &mut native.slots()[at];
        match make(code, at, &mut rng, pool, slot, &mut room) {
            Ok(case) => {
                native.code(at).copy_from_slice(&room);
                cases.push((number, rng.random(), case));
            }
            Err(reason) => report.no_case(code, reason),
        }
    }
    let done = match native.run(cases.len())? {
        Ran::All => cases.len(),
        Ran::Lost(at) => at,
    };
    let mut knowledge = compare::Knowledge::default();
    for (at, (number, seed, case)) in cases.iter().take(done).enumerate() {
        let slot = &native.slots()[at];
        let verdict = judge(case, slot, level, *seed, &mut knowledge);
        report.judged(case, *number, slot, verdict);
    }
    report.knows(knowledge);
    if let Some((number, _, case)) = cases.get(done) {
        report.lost(case, *number);
        // The rest of the batch, in a new child.
        let rest: Vec<u64> = cases[done + 1..]
            .iter()
            .map(|(number, ..)| *number)
            .collect();
        if !rest.is_empty() {
            run_batch(native, report, codes, pool, &rest)?;
        }
    }
    Ok(())
}
