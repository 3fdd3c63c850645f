//! Strides, redundant accesses and system calls of a program that has known ones, and locks of one
//! that counts where its threads meet.
//!
//! Needs the release build of both programs, gcc, and root for the engine `bpf`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, one_at_a_time, run, test, text};
use vcpi_tests::needs::{as_root, bpf, gcc};
use vcpi_tests::programs::{Programs, root};

fn main() -> ExitCode {
    let tests = [STRIDES, REDUNDANT, SYSCALLS, PRIORITIES, LOCKS];
    run(&one_at_a_time(), tests).exit_code()
}

/// The program recorded.
struct Recording {
    programs: Programs,
    program: PathBuf,
    database: PathBuf,
    /// What the program printed.
    printed: Vec<u8>,
    _folder: tempfile::TempDir,
}

/// A recording with these kinds of values, of `loads.c` run by these words.
fn record(kinds: &str, by: &[&str]) -> Result<Recording> {
    record_of("loads", "2", kinds, by)
}

/// As [`record`], of a fixture that is told this.
fn record_of(fixture: &str, told: &str, kinds: &str, by: &[&str]) -> Result<Recording> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join(fixture);
    let built = Command::new("gcc")
        .args(["-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(
            root()
                .join("tests/fixtures")
                .join(fixture)
                .with_extension("c"),
        )
        .output()?;
    ensure!(built.status.success(), text(&built));
    let programs = Programs::find()?;
    let database = folder.path().join("vcpi.db");
    let output = Command::new(&programs.vcpid)
        .args(["record", "-q", "--engine", "bpf", "--rate", "4000"])
        .args(["--capture", kinds, "-o"])
        .arg(&database)
        .arg("--")
        .args(by)
        .arg(&program)
        .arg(told)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(Recording {
        programs,
        program,
        database,
        printed: output.stdout,
        _folder: folder,
    })
}

impl Recording {
    /// The rows of a report that are of the program.
    fn rows(&self, report: &str) -> Result<Vec<Value>> {
        let report = self.programs.report(&self.database, &[report])?;
        let rows = report.as_array().cloned().unwrap_or_default();
        let of_program = |row: &Value| row["image"] == self.program.to_string_lossy().as_ref();
        Ok(rows.into_iter().filter(of_program).collect())
    }
}

/// The rows of a function.
fn of<'r>(rows: &'r [Value], function: &str) -> Vec<&'r Value> {
    rows.iter()
        .filter(|row| row["function"] == function)
        .collect()
}

/// Values as the report has them.
fn values(shares: &Value) -> Result<Vec<u64>> {
    let bits = |share: &Value| {
        let hex = share["value"].as_str()?.strip_prefix("0x")?;
        u64::from_str_radix(hex, 16).ok()
    };
    let shares = shares.as_array().map(Vec::as_slice).unwrap_or_default();
    let values: Option<Vec<u64>> = shares.iter().map(bits).collect();
    values.context("values that are no numbers")
}

/// The distances of the fixture's generator.
fn scattered() -> BTreeSet<i64> {
    let next = |state: i64| (state * 25173 + 13849) & 0xffff;
    let mut state = next(1);
    let mut distances = BTreeSet::new();
    for _ in 1..4000 {
        let after = next(state);
        distances.insert(8 * (after - state));
        state = after;
    }
    distances
}

const STRIDES: Test = test(
    "strides are those of the program",
    strides,
    &[as_root, gcc, bpf],
);
/// No load has a stride that it cannot have, and each has its pattern.
fn strides() -> Result<()> {
    let recording = record("stride", &[])?;
    let rows = recording.rows("loads")?;
    let wraps = 4096 + 64 - (1 << 20);
    for (function, pattern, distances) in [
        ("one_address", "one-address", BTreeSet::from([0])),
        ("in_line", "stride", BTreeSet::from([4])),
        ("by_line", "stride", BTreeSet::from([64])),
        ("backwards", "stride", BTreeSet::from([-256])),
        ("by_page", "stride", BTreeSet::from([4096 + 64, wraps])),
        ("scattered", "scattered", scattered()),
    ] {
        let [row] = of(&rows, function)[..] else {
            bail!("{function} has not one load: {rows:?}");
        };
        println!("{function}: {row}");
        let found = values(&row["strides"])?;
        let is_right = |stride: &u64| distances.contains(&stride.cast_signed());
        ensure!(
            !found.is_empty() && found.iter().all(is_right),
            "a stride that cannot be: {row}"
        );
        ensure!(row["pattern"] == pattern, "another pattern: {row}");
        let (line, page) = (&row["other_line"], &row["other_page"]);
        let lines_are_right = match function {
            "one_address" => line == 0.0 && page == 0.0,
            "in_line" => line.as_f64().is_some_and(|line| line > 0.0 && line < 15.0),
            "by_line" | "backwards" => line == 100.0,
            "by_page" => page == 100.0,
            _ => true,
        };
        ensure!(lines_are_right, "other lines: {row}");
    }
    Ok(())
}

const REDUNDANT: Test = test(
    "redundant is what the program does twice",
    redundant,
    &[as_root, gcc, bpf],
);
/// Stores of what is there and loads of the same again are found, and nothing else is taken for
/// one.
fn redundant() -> Result<()> {
    let recording = record("redundant", &[])?;
    let rows = recording.rows("redundant")?;
    for row in &rows {
        println!("{row}");
    }
    for (function, kind) in [
        ("store_same", "store"),
        ("load_stored", "store"),
        ("load_again", "load"),
        ("one_address", "load"),
    ] {
        let rows = of(&rows, function);
        let row = rows.iter().find(|row| row["kind"] == kind);
        let share = row.and_then(|row| row["redundant"].as_f64());
        // The first of 4000 loads is none that comes again.
        ensure!(
            share.is_some_and(|share| share > 98.0),
            "{function} {kind}: {row:?}"
        );
    }
    for (function, kind) in [
        ("store_other", "store"),
        ("load_stored", "load"),
        ("by_line", "load"),
        ("in_line", "load"),
        ("scattered", "load"),
    ] {
        let rows = of(&rows, function);
        ensure!(
            rows.iter().all(|row| row["kind"] != kind),
            "{function} {kind}: {rows:?}"
        );
    }
    Ok(())
}

const SYSCALLS: Test = test(
    "system calls have the program's arguments",
    syscalls,
    &[as_root, gcc, bpf],
);
/// Numbers and arguments are those of the call site, and nothing else is.
fn syscalls() -> Result<()> {
    let recording = record("syscall", &[])?;
    let rows = recording.rows("syscalls")?;
    for (caller, call, number, arguments) in [
        ("seeks", "lseek", 8, &[1000, 77, 1][..]),
        ("asks", "getpriority", 140, &[0, 0]),
    ] {
        let is_its = |row: &&Value| row["caller"]["function"] == caller;
        let row = rows.iter().find(is_its);
        let row = row.with_context(|| format!("no call from {caller}: {rows:?}"))?;
        println!("{row}");
        ensure!(
            row["call"] == call && row["function"] == "call",
            "another call: {row}"
        );
        ensure!(
            values(&row["numbers"])? == [number],
            "another number: {row}"
        );
        let found = row["arguments"].as_array().cloned().unwrap_or_default();
        let found: Result<Vec<_>, _> = found.iter().map(|of| values(&of["values"])).collect();
        let expected: Vec<_> = arguments.iter().map(|value| vec![*value]).collect();
        ensure!(found? == expected, "other arguments: {row}");
    }
    Ok(())
}

const PRIORITIES: Test = test(
    "priorities are those of the program",
    priorities,
    &[as_root, gcc, bpf],
);
/// A program that is nice has its time under that number.
fn priorities() -> Result<()> {
    let recording = record("sched", &["nice", "-n", "7"])?;
    let program = recording.program.to_string_lossy();
    let args = ["prio", "--image", &program];
    let rows = recording.programs.report(&recording.database, &args)?;
    println!("{rows}");
    let rows = rows.as_array().cloned().unwrap_or_default();
    let is_its = |row: &&Value| row["class"] == "other" && row["nice"] == 7;
    let row = rows.iter().find(is_its);
    // Its first samples may be from before it was nice.
    let cycles = |row: &Value| row["cycles"].as_f64().unwrap_or_default();
    let all: f64 = rows.iter().map(cycles).sum();
    ensure!(
        row.is_some_and(|row| cycles(row) > 0.95 * all),
        "another priority: {rows:?}"
    );
    Ok(())
}

const LOCKS: Test = test(
    "locks are taken as the program counts it",
    locks,
    &[as_root, gcc, bpf],
);
/// The shares of locks at the instruction that takes them are those that the program counts, and
/// the kernel is asked about those locks alone that threads waited for, most often about the one
/// that they waited for most.
fn locks() -> Result<()> {
    let recording = record_of("contended", "3000", "ea,syscall", &[])?;
    let counted: Value = serde_json::from_slice(&recording.printed)?;
    let counted = counted.as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |name: &str| -> Result<BTreeMap<u64, f64>> {
        let count = |lock: &Value| {
            let hex = lock["address"].as_str()?.strip_prefix("0x")?;
            let address = u64::from_str_radix(hex, 16).ok()?;
            Some((address, lock[name].as_f64()?))
        };
        let counts: Option<_> = counted.iter().map(count).collect();
        counts.context("counts in another form")
    };
    let (taken, waited) = (of("taken")?, of("waited")?);
    println!("{taken:x?}\n{waited:x?}");
    let rows = recording.rows("locks")?;
    let is_of = |function: &str, kind: &str| {
        let of = |row: &&Value| row["function"] == function && row["kind"] == kind;
        rows.iter().filter(of).collect::<Vec<_>>()
    };
    let [take] = is_of("take", "instruction")[..] else {
        bail!("not one instruction takes locks: {rows:?}");
    };
    let all: f64 = taken.values().sum();
    let mut overlap = 0.0;
    for (share, address) in shares_of(take)? {
        let count = taken.get(&address).copied();
        let count = count.with_context(|| format!("no lock at {address:#x}: {take}"))?;
        overlap += f64::min(share, count / all);
    }
    println!("overlap {overlap:.3} of {}", take["seen"]);
    ensure!(
        take["seen"].as_u64() >= Some(1500) && overlap >= 0.95,
        "overlap {overlap}: {take}, {taken:x?}"
    );
    let calls = is_of("futex", "futex");
    let most = |counts: &BTreeMap<u64, f64>| {
        let most = counts.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.map(|(address, _)| *address)
    };
    let mut asked: BTreeMap<u64, f64> = BTreeMap::new();
    for row in &calls {
        println!("{row}");
        let operations = values(&row["operations"])?;
        // FUTEX_WAIT and FUTEX_WAKE, private.
        let are_right = operations.iter().all(|of| [0x80, 0x81].contains(of));
        ensure!(are_right, "another operation: {row}");
        let seen = row["seen"].as_f64().unwrap_or_default();
        for (share, address) in shares_of(row)? {
            let is_contended = waited.get(&address).is_some_and(|waited| *waited > 0.0);
            ensure!(
                is_contended,
                "nobody waited at {address:#x}: {row}, {waited:x?}"
            );
            *asked.entry(address).or_default() += share * seen;
        }
    }
    ensure!(
        most(&asked).is_some() && most(&asked) == most(&waited),
        "another lock first: {calls:?}, {waited:x?}"
    );
    Ok(())
}

/// The addresses of a row with their shares.
fn shares_of(row: &Value) -> Result<Vec<(f64, u64)>> {
    let rows = row["addresses"].as_array().context("no addresses")?;
    let percents = rows.iter().map(|share| share["percent"].as_f64());
    let percents: Option<Vec<f64>> = percents.collect();
    let percents = percents.context("a share without percent")?;
    let shares = percents.into_iter().map(|percent| percent / 100.0);
    Ok(shares.zip(values(&row["addresses"])?).collect())
}
