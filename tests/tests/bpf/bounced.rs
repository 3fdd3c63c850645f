//! Results of instructions that only the processor can do, from pairs of breakpoints.

use std::sync::OnceLock;

use anyhow::{Result, bail};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{Missing, as_root, gcc};

use crate::bench::{Bench, Clock, Test, counter, cpu_clock, succeeded};
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
            .arg("8")
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
