//! Loads of every kind.

use anyhow::{Result, bail};
use rusqlite::Connection;
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, counter, percent, samples, seconds};
use crate::checks::{self, CodeIn, Verdict};

/// Samples of the ordinary run.
const SAMPLES: u32 = 40_000;
/// Loads that must be known after the first second, in percent of those that windows reached.
const KNOWN: f64 = 95.0;

pub(crate) const LOADS: Test = test(
    "loads of every kind have their true values",
    loads,
    &[as_root, gcc],
);
/// Every value of the checking instructions and every return of the checking functions is the one
/// that follows if all loads were right; and nearly all loads are had.
fn loads(bench: &Bench) -> Result<()> {
    let program = bench.compile("loads.c", "loads", &[])?;
    // Two threads.
    let time = seconds(samples(SAMPLES)? / 2);
    bench.watch(&program, &[&time], "loads.db")?;
    let database = bench.open("loads.db")?;
    let mut verdict = Verdict::default();
    let checks = checks::of_image(&program)?;
    checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
    let taken = counter(&database, "run", "samples")?;
    verdict.settle(&format!("loads, {taken} samples"), f64::from(SAMPLES) / 4.0)?;
    if !verdict.unseen.is_empty() {
        bail!("without any value: {}", verdict.unseen.join(", "));
    }
    let (captured, reached) = after_first_second(&database)?;
    let known = percent(captured, reached);
    println!("    after the first second {captured} of {reached} loads captured: {known:.1} %");
    if known < KNOWN {
        bail!("{known:.1} % of the loads captured");
    }
    Ok(())
}

/// Loads captured and loads reached in all flushes but what covers the first second.
fn after_first_second(database: &Connection) -> Result<(i64, i64)> {
    let sum = |name: &str| {
        let sql = "SELECT coalesce(sum(value), 0) FROM counter JOIN flush ON flush.id = counter.flush \
                   JOIN epoch ON epoch.id = flush.epoch \
                   WHERE kind = 'coverage' AND name = ? AND flush.started >= epoch.started + 1000000000";
        database.query_row(sql, [name], |row| row.get::<_, i64>(0))
    };
    Ok((sum("loads_captured")?, sum("loads_reached")?))
}
