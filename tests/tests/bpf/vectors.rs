//! Values that live in vector registers across windows.

use anyhow::{Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, counter, cpu_clock, samples, seconds, succeeded};
use crate::checks::{self, CodeIn, Verdict};
use crate::killed::{self, Watched};

/// Samples of the ordinary run, at so many a second: each of which may bring its registers.
const SAMPLES: u32 = 8_000;
const RATE: u32 = 2_000;
/// Of the values in vector registers so many must be known, in percent of those that were reached
/// in windows that were to bring them.
const KNOWN: f64 = 85.0;
/// Parts of a second are given in those of the usual rate.
const USUAL: u32 = crate::bench::RATE / RATE;

pub(crate) const ACROSS_WINDOWS: Test = test(
    "values that live in vector registers",
    across_windows,
    &[as_root, gcc, cpu_clock],
);
/// With second records, all values that live in vector registers and on the stack of x87 are known
/// and right; without, none is.
fn across_windows(bench: &Bench) -> Result<()> {
    let program = bench.compile("vectors.c", "vectors", &[])?;
    let checks = checks::of_image(&program)?;
    let time = seconds(samples(SAMPLES)? * USUAL);
    let judged = |how: &str| -> Result<(Verdict, [i64; 4])> {
        let name = format!("vectors-{how}.db");
        let output = bench
            .record("bpf", RATE, &name)
            .args([
                "--vectors",
                how,
                "--",
                &program.display().to_string(),
                &time,
            ])
            .output()?;
        succeeded(&output)?;
        let database = bench.open(&name)?;
        let mut verdict = Verdict::default();
        checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
        let counters = [
            counter(&database, "vectors", "windows")?,
            counter(&database, "vectors", "missing")?,
            counter(&database, "handler", "vectors_awaited")?,
            counter(&database, "handler", "vectors_brought")?,
        ];
        Ok((verdict, counters))
    };
    let (without, none) = judged("off")?;
    without.settle("without vector registers", 0.0)?;
    let (with, [windows, missing, awaited, brought]) = judged("1000")?;
    with.settle("with vector registers", f64::from(SAMPLES) / 10.0)?;
    println!("    {awaited} awaited, {brought} brought, {windows} windows, {missing} missing");
    if none != [0; 4] {
        bail!("without them {none:?} were counted");
    }
    for (name, known) in &with.known {
        let percent = 100.0 * known;
        println!("    {name}: {percent:.1} % known");
        if percent < KNOWN {
            bail!("{name}: {percent:.1} % known");
        }
    }
    // Most second records come before their sample is looked at.
    if windows < awaited * 3 / 4 {
        bail!("{windows} windows of {awaited}");
    }
    Ok(())
}

pub(crate) const KILLS: Test = test(
    "collectors that are killed leave no thread that brings vector registers",
    kills,
    &[as_root, gcc, cpu_clock],
);
/// A collector that is killed while it brings vector registers leaves none of its threads of
/// real-time priority.
fn kills(bench: &Bench) -> Result<()> {
    let watched = Watched {
        name: "vectors",
        arguments: &["3600"],
        option: "--vectors=1000",
        begun: 100,
        seen: ("vectors", "windows"),
        lacking: None,
    };
    killed::leaves_nothing(bench, &watched)
}
