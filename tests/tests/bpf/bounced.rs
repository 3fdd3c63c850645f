//! Results of instructions that only the processor can do, from pairs of breakpoints.

use libtest_mimic::{Completion, Failed};

use crate::bench::{Bench, counter, succeeded};
use crate::checks::{self, Place, Verdict};
use crate::killed::{self, Watched};

/// Pairs a second, at most.
const PAIRS: u32 = 500;
/// Of each kind of result so many are to be seen.
const LEAST: f64 = 20.0;

/// Without breakpoints windows know none of these results. Pairs bring all kinds of them, and
/// none is wrong; where a block was worked out, the processor made the same of it.
pub(crate) fn results(bench: &Bench) -> Result<Completion, Failed> {
    if let Some(skipped) = without_breakpoints(bench)? {
        return Ok(skipped);
    }
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
        checks::judge(&database, Place::File(&program), &checks, &mut verdict)?;
        verdict.settle(engine, LEAST * checks.len() as f64)?;
        if disagreed != 0 {
            return Err(format!("the processor disagrees {disagreed} times").into());
        }
        if compared == 0 {
            return Err("nothing was compared".into());
        }
        if engine == "bpf" && !verdict.unseen.is_empty() {
            return Err(format!("no pair of {:?}", verdict.unseen).into());
        }
    }
    Ok(Completion::Completed)
}

/// A collector that is killed leaves no pair of breakpoints.
pub(crate) fn kills(bench: &Bench) -> Result<Completion, Failed> {
    if let Some(skipped) = without_breakpoints(bench)? {
        return Ok(skipped);
    }
    let watched = Watched {
        name: "bounced",
        arguments: &["3600"],
        option: "--bounce=1000",
        begun: 100,
        seen: ("pairs", "seen"),
    };
    killed::leaves_nothing(bench, &watched)
}

/// Why nothing can be shown of breakpoints on this machine: none are set where they end programs.
pub(crate) fn without_breakpoints(bench: &Bench) -> Result<Option<Completion>, Failed> {
    let mut record = bench.record("bpf", 1_000, "refused.db");
    let output = record.args(["--bounce=1", "--", "true"]).output()?;
    let says = String::from_utf8_lossy(&output.stderr);
    let refused = says.contains("breakpoints trap without saying so");
    let reason = "needs breakpoints that say so: virtual machines of Intel's processors have none";
    Ok(refused.then(|| Completion::ignored_with(reason)))
}
