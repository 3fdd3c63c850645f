//! What each way to values brings, on one program.

use anyhow::{Result, ensure};
use vcpi_tests::harness::test;
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::{Bench, Test, cpu_clock, lasting, percent, succeeded};
use crate::bounced::breakpoints;
use crate::checks::{self, CodeIn, Verdict};

/// The ways: names, and what `vcpid record` is told.
const WAYS: [(&str, &str); 4] = [
    ("windows alone", "--bounce=off"),
    ("with vectors", "--vectors=1000"),
    ("with pairs", "--bounce=500"),
    ("with steps", "--bounce=step:500"),
];

/// Where windows know what they have vectors for.
const OF_VECTORS: [&str; 2] = ["words that change places", "a word of a vector"];
/// Where only the processor tells.
const OF_THE_PROCESSOR: [&str; 3] = ["an approximate root", "a logarithm", "a sine"];

pub(crate) const WAYS_TO_VALUES: Test = test(
    "what windows, vectors, pairs and steps each bring",
    ways_to_values,
    &[as_root, gcc, cpu_clock, breakpoints],
);
/// Of one program that no window knows much of, vector registers, pairs and steps each bring what
/// they are for, and none of it is wrong.
fn ways_to_values(bench: &Bench) -> Result<()> {
    let program = bench.compile("stepped.c", "stepped", &[])?;
    let checks = checks::of_image(&program)?;
    let mut verdicts = Vec::new();
    for (number, (name, option)) in WAYS.into_iter().enumerate() {
        let database = format!("way-{number}.db");
        let mut record = bench.record("bpf", 1_000, &database);
        if !option.starts_with("--vectors") {
            record.arg("--vectors=off");
        }
        record.args([option, "--"]).arg(&program);
        succeeded(&record.args([&*lasting(4)?, "results"]).output()?)?;
        let mut verdict = Verdict::default();
        let database = bench.open(&database)?;
        checks::judge(&database, CodeIn::File(&program), &checks, &mut verdict)?;
        verdict.settle(name, 0.0)?;
        verdicts.push(verdict);
    }
    let [alone, vectors, pairs, steps] = &verdicts[..] else {
        unreachable!("a verdict for each way");
    };
    let known = |verdict: &Verdict, names: &[&str]| {
        let counts = names.iter().map(|name| verdict.counts(name));
        let (reached, unknown) = counts.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        (reached - unknown, percent(reached - unknown, reached))
    };
    let (_, before) = known(alone, &OF_VECTORS);
    let (_, after) = known(vectors, &OF_VECTORS);
    for name in checks.iter().map(|check| &*check.name) {
        let told = [alone, vectors, pairs, steps].map(|verdict| known(verdict, &[name]));
        let told = told.map(|(count, percent)| format!("{count} ({percent:.1} %)"));
        println!("    {name}: {}", told.join(", "));
    }
    println!("    of vectors {before:.1} % are known to windows alone, {after:.1} % with vectors");
    ensure!(
        before < 50.0 && after > 95.0,
        "{before:.1} and {after:.1} %"
    );
    let told = [alone, vectors, pairs, steps].map(|verdict| known(verdict, &OF_THE_PROCESSOR).0);
    println!("    values that only the processor tells: {told:?}");
    ensure!(told[0] == 0 && told[1] == 0, "windows cannot know them");
    ensure!(told[2] > 0 && told[3] > 0, "nothing was told");
    Ok(())
}
