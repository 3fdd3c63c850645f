//! What is mapped: memory at two addresses, and accesses that it does not allow.

use anyhow::{Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, cpu_clock, percent, samples, seconds};
use crate::checks::{self, CodeIn, Verdict};

/// Samples of each program in the ordinary run; a long run takes three quarters of what is asked
/// for.
const SAMPLES: u32 = 60_000;

/// What is demanded of some checks: that so many percent of what was reached is known.
type Known = [(&'static str, f64)];

/// Records a fixture with an engine, judges its checks, and demands that so much is known.
fn judged(bench: &Bench, engine: &str, name: &str, known: &Known) -> Result<()> {
    judged_with(bench, engine, (name, &[]), known)
}

/// The same of a fixture that is given more than a time and a file.
///
/// How much is known depends on where stack and pages lie: a way keeps each word that it stored in
/// one of 128 places, by its address, and two words of one place are not both kept. In one layout
/// of some sixty these are words that a check needs. So a second run, which lies elsewhere, may
/// show what the first did not; what is wrong in either is wrong.
fn judged_with(bench: &Bench, engine: &str, fixture: (&str, &[&str]), known: &Known) -> Result<()> {
    if let Some(lack) = lacking(bench, engine, fixture, known)? {
        println!("{lack}: once more, in another layout");
        if let Some(lack) = lacking(bench, engine, fixture, known)? {
            bail!("{lack}");
        }
    }
    Ok(())
}

/// What is less known than demanded, of one run in which nothing is wrong.
fn lacking(
    bench: &Bench,
    engine: &str,
    (name, more): (&str, &[&str]),
    known: &Known,
) -> Result<Option<String>> {
    let program = bench.compile(&format!("{name}.c"), name, &[])?;
    let time = seconds(samples(4 * SAMPLES / 3)? / 4 * 3);
    let file = bench.path("mapped.file").display().to_string();
    let arguments = [&[time.as_str(), file.as_str()], more].concat();
    bench.watch_with(engine, &program, &arguments, "mapped.db")?;
    let database = bench.open("mapped.db")?;
    let checks = checks::of_image(&program)?;
    let mut verdict = Verdict::default();
    checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
    let title = [&[name], more, &[engine]].concat().join(", ");
    verdict.settle(&title, 200.0)?;
    for (check, least) in known {
        let (reached, unknown) = verdict.counts(check);
        let share = percent(reached - unknown, reached);
        if share < *least {
            return Ok(Some(format!("{check}: {share:.1} % of {reached} known")));
        }
    }
    Ok(None)
}

pub(crate) const VIEWS: Test = test("memory that is mapped twice", views, &[as_root, gcc]);
/// Behind a store nothing is believed that may be the same memory under another address, code
/// included; what is private is believed as ever.
fn views(bench: &Bench) -> Result<()> {
    judged(bench, "bpf", "views", &[("private pages", 90.0)])
}

pub(crate) const VIEWS_BY_RING: Test = test(
    "memory that is mapped twice, engine ring",
    views_by_ring,
    &[as_root, gcc, cpu_clock],
);
/// The same where only stacks and images are known.
fn views_by_ring(bench: &Bench) -> Result<()> {
    judged(bench, "ring", "views", &[])
}

pub(crate) const REWRITTEN: Test = test(
    "the file of a program that is written through another mapping",
    rewritten,
    &[as_root, gcc, cpu_clock],
);
/// A page of a program's file, mapped privately and only to be read, is not what the file holds
/// another time, by whichever process it is written.
fn rewritten(bench: &Bench) -> Result<()> {
    for engine in ["bpf", "ring"] {
        for how in [&[][..], &["other"]] {
            // The engine ring knows none of these words.
            rewritten_by(
                bench,
                engine,
                how,
                if engine == "bpf" { 200.0 } else { 0.0 },
            )?;
        }
    }
    Ok(())
}

fn rewritten_by(bench: &Bench, engine: &str, how: &[&str], least: f64) -> Result<()> {
    let program = bench.compile("rewritten.c", "rewritten", &[])?;
    let (time, file) = (seconds(samples(SAMPLES)? / 6), bench.path("rewritten.file"));
    let file = file.display().to_string();
    let arguments = [&[time.as_str(), file.as_str()], how].concat();
    bench.watch_with(engine, &program, &arguments, "rewritten.db")?;
    let database = bench.open("rewritten.db")?;
    let (checks, mut verdict) = (checks::of_image(&program)?, Verdict::default());
    checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
    verdict.settle(&format!("rewritten, {how:?}, {engine}"), least)?;
    std::fs::remove_file(bench.path("rewritten.db"))?;
    Ok(())
}

pub(crate) const FAULTS: Test = test("accesses that raise exceptions", faults, &[as_root, gcc]);
/// Nothing is told of what stands behind a load or store that raises an exception; a window goes on
/// where pages are not there yet, or are copied.
fn faults(bench: &Bench) -> Result<()> {
    judged(bench, "bpf", "faults", &[("lazy", 90.0), ("copied", 90.0)])
}

pub(crate) const SWAPPED: Test = test(
    "stores to pages that are swapped without a record",
    swapped,
    &[as_root, gcc, cpu_clock],
);
/// By `mremap` alone, a page that can only be read comes to where one can be written by all that
/// the kernel tells, and goes again: nothing is told of what stands behind a store to it.
fn swapped(bench: &Bench) -> Result<()> {
    let known = [("lazy", 90.0), ("copied", 90.0)];
    judged_with(bench, "bpf", ("faults", &["swapped"]), &known)
}

pub(crate) const FAULTS_BY_RING: Test = test(
    "accesses that raise exceptions, engine ring",
    faults_by_ring,
    &[as_root, gcc, cpu_clock],
);
/// The same where only stacks and images are known.
fn faults_by_ring(bench: &Bench) -> Result<()> {
    judged(bench, "ring", "faults", &[])
}
