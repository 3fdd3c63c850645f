//! Profiles by contexts: the counts of a function apart for its callers.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use vcpi_tests::harness::{Test, test, text};

use crate::{Recorded, recorded, tool, tools};

/// Counts from which on rounding says little.
const MANY: f64 = 1000.0;
/// Counts that begin with code that has a line, at least, in parts of 1.
const FOUND: f64 = 0.8;
/// What sums may be apart by rounding, in parts of 1.
const ROUNDING: f64 = 0.05;

/// The ranges of an export, by where they begin, added up over contexts; and the contexts.
fn ranges(of: &Recorded, file: &str) -> Result<(BTreeMap<u64, f64>, Vec<String>)> {
    let text = std::fs::read_to_string(of.path(file))?;
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    let mut contexts = Vec::new();
    for line in text.lines().filter(|line| !line.contains("->")) {
        if line.starts_with('[') {
            contexts.push(line.to_owned());
        } else if let Some((range, count)) = line.split_once(':') {
            let (start, _) = range.split_once('-').context("no range")?;
            *sums.entry(u64::from_str_radix(start, 16)?).or_default() += count.parse::<f64>()?;
        }
    }
    Ok((sums, contexts))
}

pub(crate) const CONTEXTS: Test = test(
    "counts by contexts add up to all, and clang takes them",
    contexts,
    &[tools],
);
/// One caller of each interrupt is known without being asked for: the two calls of a function that
/// is not inlined have counts apart. What contexts have adds up to what the function has without
/// them, and the compiler makes direct calls by them.
fn contexts() -> Result<()> {
    let recorded = recorded()?;
    let words = |more: &[&'static str]| {
        let all = ["export", "profgen", "-i", "opt.db", "--image", "./opt"];
        [&all[..], more].concat()
    };
    recorded.vcpi(&words(&["-o", "flat.raw"]))?;
    let said = text(&recorded.vcpi(&words(&["--contexts", "-o", "contexts.raw"]))?);
    ensure!(said.contains("callers are known of "), "{said}");
    let (flat, none) = ranges(recorded, "flat.raw")?;
    let (sums, contexts) = ranges(recorded, "contexts.raw")?;
    ensure!(
        none.is_empty(),
        "contexts without being asked for: {none:?}"
    );
    let mut found = 0.0;
    for (start, count) in flat.iter().filter(|(_, count)| **count >= MANY) {
        // What begins with code of no line has no context there.
        if let Some(sum) = sums.get(start) {
            found += count;
            ensure!(
                (sum / count - 1.0).abs() <= ROUNDING,
                "{start:#x}: {count} without contexts, and {sum} in {contexts:?}"
            );
        }
    }
    let all: f64 = flat.values().sum();
    ensure!(found >= FOUND * all, "{found} of {all} are in {contexts:?}");
    let calls = contexts.iter().filter_map(|context| {
        let context = context.trim_matches(['[', ']']);
        let (callers, leaf) = context.rsplit_once(" @ ")?;
        leaf.contains("sink").then_some(callers)
    });
    let calls: Vec<&str> = calls.collect();
    ensure!(
        calls.len() >= 2,
        "the calls of sink: {calls:?} in {contexts:?}"
    );
    let profile = recorded.symbolize("contexts.raw", "contexts.prof")?;
    ensure!(profile.contains("!Attributes"), "no contexts: {profile}");
    let more = [
        "-fprofile-sample-use=contexts.prof",
        "-Rpass=pgo-icall-prom",
    ];
    let remarks = text(&recorded.compile(&more, "by-contexts")?);
    ensure!(
        remarks.contains("romote indirect call") && remarks.contains("upwards"),
        "nothing is promoted: {remarks}"
    );
    ensure!(
        recorded.result("by-contexts")? == recorded.result("opt")?,
        "the program that was compiled with the profile prints something else"
    );
    Ok(())
}

pub(crate) const NO_SOURCE: Test = test(
    "contexts of a program without debug information are refused",
    no_source,
    &[tools],
);
/// Without debug information no context has a name: the export says so, and leaves no file.
fn no_source() -> Result<()> {
    let of = recorded()?;
    let bare = Recorded::empty()?;
    std::fs::copy(of.path("opt.db"), bare.path("opt.db"))?;
    std::fs::copy(of.path("opt"), bare.path("whole"))?;
    bare.run(tool("llvm-objcopy"), &["--strip-debug", "whole", "opt"])?;
    let mut command = bare.command(&bare.programs.vcpi);
    command.args(["export", "profgen", "--contexts", "-i", "opt.db"]);
    let output = command.args(["--image", "./opt", "-o", "out"]).output()?;
    let said = text(&output);
    ensure!(
        output.status.code() == Some(1) && said.contains("no debug information"),
        "{said}"
    );
    ensure!(!bare.path("out").exists(), "a file was left");
    Ok(())
}
