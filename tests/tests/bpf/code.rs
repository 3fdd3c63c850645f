//! Callers where unwind rules say little or nothing, and arguments of languages with a calling
//! convention of their own: with each engine, against what is true by construction.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, cpu_clock, succeeded};

/// Samples per second of processor time.
const RATE: u32 = 4000;
/// Functions of the fixture that have two callers each.
const PAIRS: [&str; 8] = [
    "plain", "pointed", "linked", "hopped", "pushing", "keeping", "aligned", "gopher",
];
/// Of the time in each, so much is under its first caller, in percent, give or take what chance
/// makes of the samples that there are, four times over.
const FIRST: f64 = 75.0;
/// Samples that each function must have.
const FEWEST: f64 = 200.0;
/// Samples of a function whose caller may be unknown, in percent: some fall into the few
/// instructions where the code does not tell.
const UNKNOWN: f64 = 3.0;

pub(crate) const CALLERS: Test = test(
    "callers that unwind rules do not tell",
    callers,
    &[as_root, gcc, cpu_clock],
);
/// Each function is under its two callers as long as it is, and under no other function.
fn callers(bench: &Bench) -> Result<()> {
    let library = bench.compile(
        "callers.c",
        "libcallers.so",
        &["-DLIBRARY", "-shared", "-fPIC"],
    )?;
    let library = library.display().to_string();
    let options = [
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        &library,
    ];
    let program = bench.compile("callers.c", "callers", &options)?;
    let mut failures = Vec::new();
    for engine in ["bpf", "ring"] {
        let database = format!("{engine}.db");
        let mut record = bench.record(engine, RATE, &database);
        record.arg("--").arg(&program).arg("6");
        succeeded(&record.output()?)?;
        for function in PAIRS {
            let wrong = judge(bench, &bench.path(&database), function, UNKNOWN)?;
            failures.extend(wrong.map(|wrong| format!("{engine}, {function}: {wrong}")));
        }
    }
    ensure!(failures.is_empty(), failures.join("; "));
    Ok(())
}

/// Functions of code that is made at run time, likewise, and what part of the samples may have an
/// unknown caller, in percent: the code is known from the second look on.
const MADE_FUNCTIONS: [(&str, f64); 9] = [
    ("framed", LATE),
    ("leaf", LATE),
    ("tailed", LATE),
    ("deep", LATE),
    ("leaving", LATE),
    ("filed", LATE),
    ("ruled", LATE),
    // Where it cannot be told what the way to the return is.
    ("doubtful", 100.0),
    ("changing", 100.0),
];
const LATE: f64 = 50.0;

pub(crate) const MADE: Test = test(
    "callers in code that is made at run time",
    made,
    &[as_root, gcc, cpu_clock],
);
/// The same for code that is made at run time, which calls and is called.
fn made(bench: &Bench) -> Result<()> {
    let program = bench.compile("made.c", "made", &[])?;
    let mut failures = Vec::new();
    for engine in ["bpf", "ring"] {
        let database = format!("{engine}.db");
        let mut record = bench.record(engine, RATE, &database);
        record.arg("--").arg(&program).arg("9");
        succeeded(&record.output()?)?;
        for (function, unknown) in MADE_FUNCTIONS {
            let wrong = judge(bench, &bench.path(&database), function, unknown)?;
            failures.extend(wrong.map(|wrong| format!("{engine}, {function}: {wrong}")));
        }
    }
    ensure!(failures.is_empty(), failures.join("; "));
    Ok(())
}

/// What is wrong with the callers of one function, of whose samples so many percent may be unknown.
fn judge(
    bench: &Bench,
    database: &Path,
    function: &str,
    most_unknown: f64,
) -> Result<Option<String>> {
    let rows = report(bench, database, &["cg", function])?;
    let mut samples: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["function"] == function) {
        let caller = row["caller"].as_str().unwrap_or("?").to_owned();
        *samples.entry(caller).or_default() += row["samples"].as_f64().unwrap_or_default();
    }
    let all: f64 = samples.values().sum();
    let mut of = |caller: &str| samples.remove(caller).unwrap_or_default();
    let first = of(&format!("{function}_a"));
    let known = first + of(&format!("{function}_b"));
    let unknown = of("?");
    // Code whose name had not been read yet when its sample was looked at, as happens to a few
    // samples where the collector waits for the processor.
    let unnamed = of("[anon]");
    if 100.0 * unnamed > all {
        return Ok(Some(format!(
            "{unnamed} of {all} called by code without a name"
        )));
    }
    println!("    {function}: {first} of {known} under its first caller, {unknown} unknown");
    if all < FEWEST {
        return Ok(Some(format!("{all} samples")));
    }
    if !samples.is_empty() {
        return Ok(Some(format!("called by {samples:?}")));
    }
    let share = 100.0 * first / known;
    let chance = 100.0 * (FIRST / 100.0 * (1.0 - FIRST / 100.0) / known).sqrt();
    let wrong = if 100.0 * unknown / all > most_unknown {
        Some(format!("{unknown} of {all} unknown"))
    } else if known >= FEWEST && (share - FIRST).abs() > 4.0 * chance + 2.0 {
        Some(format!("{share:.1} % under its first caller"))
    } else {
        None
    };
    Ok(wrong)
}

pub(crate) const LANGUAGES: Test = test(
    "arguments in the registers of other languages",
    languages,
    &[as_root, gcc, cpu_clock],
);
/// The arguments of a function are in the order of its language, those of C in the same image in
/// the platform's.
fn languages(bench: &Bench) -> Result<()> {
    let kinds: [(&str, &str, &[&str], [&str; 5]); 2] = [
        (
            "go",
            "main.five",
            &["-DGO", "-no-pie"],
            ["rax", "rbx", "rcx", "rdi", "rsi"],
        ),
        (
            "ocaml",
            "camlDemo__five_7",
            &["-rdynamic"],
            ["rax", "rbx", "rdi", "rsi", "rdx"],
        ),
    ];
    for (convention, function, options, registers) in kinds {
        let program = bench.compile("languages.c", convention, options)?;
        let database = format!("{convention}.db");
        let mut record = bench.record("bpf", RATE, &database);
        record.arg("--").arg(&program).arg("3");
        succeeded(&record.output()?)?;
        let database = bench.path(&database);
        let found = arguments(bench, &database, function)?;
        let expected: Vec<_> = (0..5)
            .zip(registers)
            .map(|(index, register)| (index, register.to_owned(), format!("0x{:x}", 0xa1 + index)))
            .collect();
        if found != (convention.to_owned(), expected) {
            bail!("{function}: {found:?}");
        }
        let found = arguments(bench, &database, "plain")?;
        let expected = [(0, "rdi", "0xb1"), (1, "rsi", "0xb2")];
        let expected = expected.map(|(i, register, value)| (i, register.into(), value.into()));
        if found != ("sysv".to_owned(), expected.to_vec()) {
            bail!("plain, beside {function}: {found:?}");
        }
    }
    Ok(())
}

/// Convention of a function, and of each argument its position, register and most frequent value.
type Arguments = (String, Vec<(u64, String, String)>);

fn arguments(bench: &Bench, database: &Path, function: &str) -> Result<Arguments> {
    let rows = report(bench, database, &["args", function])?;
    let row = rows.iter().find(|row| row["caller"].is_null());
    let row = row.with_context(|| format!("no call of {function} was seen"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arguments = row["args"].as_array().into_iter().flatten();
    let arguments = arguments.map(|argument| {
        (
            argument["arg"].as_u64().unwrap_or(u64::MAX),
            text(&argument["register"]),
            text(&argument["values"][0]["value"]),
        )
    });
    let mut arguments: Vec<_> = arguments.collect();
    // Shares of time and of executions stand side by side, and are of the same values.
    arguments.dedup();
    Ok((text(&row["convention"]), arguments))
}

fn report(bench: &Bench, database: &Path, words: &[&str]) -> Result<Vec<Value>> {
    let report = bench.programs.report(database, words);
    let report = report?;
    Ok(report.as_array().cloned().unwrap_or_default())
}
