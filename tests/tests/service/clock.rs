//! A wall clock that is set while the service runs, as it also seems to be after the machine slept:
//! then the clock of samples has stood still.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};
use vcpi_tests::programs::root;

use crate::bench::{Bench, ensure_whole, query};

/// By how much the clock is set, in seconds.
const STEP: i64 = 3600;

pub(crate) const SET: Test = test(
    "a clock that is set begins a new epoch",
    set,
    &[as_root, gcc],
);
/// The clock is set forth and back again: each time a new epoch begins, by the new time, which is
/// said; no interval is longer or shorter for it, and nothing is missing within an epoch.
fn set() -> Result<()> {
    let bench = Bench::new()?;
    let library = bench.path("clock.so");
    build(&library)?;
    let file = File::create(bench.path("step"))?;
    file.write_all_at(&0_i64.to_ne_bytes(), 0)?;
    let (library, step) = (library.display().to_string(), bench.path("step"));
    let environment = [
        ("LD_PRELOAD", library.as_str()),
        (
            "CLOCK_STEP",
            step.to_str().context("a path that is no text")?,
        ),
    ];
    // By the clock set forth the first epoch's hour is over: half rolled up, flushes have but half
    // of their rows.
    let configuration = bench.configure("database.rolled_hour_mib = 0")?;
    let mut service = bench.spawn(&configuration, &environment)?;
    service.await_told("READY=1")?;
    service.await_flushes(2)?;
    for (step, begun) in [(STEP, "-000002.db"), (0, "-000003.db")] {
        file.write_all_at(&step.to_ne_bytes(), 0)?;
        service.await_line(begun)?;
        service.await_flushes(2)?;
    }
    service.stop()?;
    ensure!(
        service.times_said("the clock was set") == 2,
        "{:?}",
        service.said
    );
    let mut begun = Vec::new();
    for end in ["-000001.db", "-000002.db", "-000003.db"] {
        let database = &bench.files(end)?.pop().context("an epoch is missing")?;
        ensure_whole(database)?;
        ensure_plain_times(database)?;
        let started: i64 = query(database, "SELECT started FROM epoch")?;
        begun.push(started / 1_000_000_000);
    }
    let half = STEP / 2;
    ensure!(
        begun[1] - begun[0] > half && begun[1] - begun[2] > half,
        "begun at {begun:?}"
    );
    Ok(())
}

/// Fails unless intervals follow one another, each of them as long as it can have been, within
/// their epoch.
fn ensure_plain_times(database: &Path) -> Result<()> {
    let wrong: i64 = query(
        database,
        &format!(
            "SELECT (SELECT count(*) FROM flush WHERE ended - started NOT BETWEEN 0 AND {half})
              + (SELECT count(*) FROM flush a JOIN flush b ON b.id = a.id + 1 WHERE b.started != a.ended)
              + (SELECT count(*) FROM epoch WHERE ended - started NOT BETWEEN 0 AND {half})",
            half = STEP / 2 * 1_000_000_000
        ),
    )?;
    ensure!(
        wrong == 0,
        "{}: {wrong} times are wrong",
        database.display()
    );
    Ok(())
}

/// Makes the library that the service's clock comes from.
fn build(library: &Path) -> Result<()> {
    let output = Command::new("gcc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(library)
        .arg(root().join("tests/tests/service/clock.c"))
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}
