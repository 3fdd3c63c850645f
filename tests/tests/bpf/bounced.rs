//! Results of instructions that only the processor can do, from pairs of breakpoints.

use std::sync::OnceLock;

use anyhow::{Result, bail, ensure};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{Missing, as_root, gcc};

use crate::bench::{Bench, Clock, Test, counter, cpu_clock, lasting, succeeded};
use crate::checks::{self, CodeIn, Verdict};
use crate::killed::{self, Watched};

/// Pairs a second, at most.
const PAIRS: u32 = 500;
/// Of each kind of result so many are to be seen.
const LEAST: f64 = 20.0;

pub(crate) const RESULTS: Test = test(
    "results that only the processor can tell",
    results,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// Without breakpoints windows know none of these results. Pairs bring all kinds of them, and
/// none is wrong; where a block was worked out, the processor made the same of it.
fn results(bench: &Bench) -> Result<()> {
    let program = bench.compile("bounced.c", "bounced", &[])?;
    let checks = checks::of_image(&program)?;
    for engine in ["bpf", "ring"] {
        let name = format!("bounced-{engine}.db");
        let output = bench
            .record(engine, 1_000, &name)
            .arg(format!("--bounce={PAIRS}"))
            .arg("--")
            .arg(&program)
            .arg(lasting(8)?)
            .output()?;
        succeeded(&output)?;
        let database = bench.open(&name)?;
        let count = |name| counter(&database, "pairs", name);
        let (seen, compared, disagreed) = (count("seen")?, count("compared")?, count("disagreed")?);
        println!("{engine}: {seen} pairs, {compared} compared, {disagreed} disagreed");
        let mut verdict = Verdict::default();
        checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
        verdict.settle(engine, LEAST * checks.len() as f64)?;
        if disagreed != 0 {
            bail!("the processor disagrees {disagreed} times");
        }
        if compared == 0 {
            bail!("nothing was compared");
        }
        if engine == "bpf" && !verdict.unseen.is_empty() {
            bail!("no pair of {:?}", verdict.unseen);
        }
    }
    Ok(())
}

pub(crate) const VECTORS: Test = test(
    "results in vector registers that only the processor can tell",
    vectors,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// Pairs bring vector registers and those of x87 at both ends: approximations, and what x87 works
/// out, are right, and what the interpreter works out of the same registers is the same. Of what
/// the program stores, and nobody else can have written, memory holds just that.
fn vectors(bench: &Bench) -> Result<()> {
    let program = bench.compile("stepped.c", "stepped", &[])?;
    let checks = checks::of_image(&program)?;
    let name = "bounced-vectors.db";
    let output = bench
        .record("bpf", 1_000, name)
        .arg(format!("--bounce={PAIRS}"))
        .arg("--")
        .arg(&program)
        .args([&*lasting(8)?, "results"])
        .output()?;
    succeeded(&output)?;
    let database = bench.open(name)?;
    let count = |name| counter(&database, "pairs", name);
    let (with, without) = (count("with_vectors")?, count("without_vectors")?);
    let disagreed = count("disagreed")?;
    println!("    {with} pairs with vectors, {without} without, {disagreed} disagreed");
    let mut verdict = Verdict::default();
    checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
    verdict.settle("vectors", LEAST * checks.len() as f64)?;
    ensure!(disagreed == 0, "the processor disagrees {disagreed} times");
    ensure!(with > without, "vectors were brought of few pairs");
    // No window knows these.
    let in_vectors = ["an approximate quotient", "an approximate root"].map(|name| {
        let (reached, unknown) = verdict.counts(name);
        reached - unknown
    });
    ensure!(
        in_vectors.iter().sum::<i64>() > 0,
        "no value of a vector register"
    );
    Ok(())
}

pub(crate) const KILLS: Test = test(
    "collectors that are killed leave no breakpoints",
    kills,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// A collector that is killed leaves no pair of breakpoints.
fn kills(bench: &Bench) -> Result<()> {
    let watched = Watched {
        name: "bounced",
        arguments: &["3600"],
        option: "--bounce=1000",
        begun: 100,
        seen: ("pairs", "seen"),
        lacking: Some("no_debug_register"),
    };
    killed::leaves_nothing(bench, &watched)
}

/// Breakpoints, which are not set where they end programs.
pub(crate) fn breakpoints() -> Result<(), Missing> {
    static TRIED: OnceLock<Result<(), Missing>> = OnceLock::new();
    let is_refused = || -> Result<bool> {
        let bench = Bench::new(Clock::CpuClock)?;
        let mut record = bench.record("bpf", 1_000, "refused.db");
        let output = record.args(["--bounce=1", "--", "true"]).output()?;
        let says = String::from_utf8_lossy(&output.stderr);
        Ok(says.contains("breakpoints trap without saying so"))
    };
    let tried = TRIED.get_or_init(|| match is_refused() {
        Ok(true) => Err(Missing::new(
            "needs breakpoints that say so: virtual machines of Intel's processors have none",
        )),
        // What else is wrong, the test itself will show.
        _ => Ok(()),
    });
    tried.clone()
}
