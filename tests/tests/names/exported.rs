//! Exports of a real recording, by the tool that reads them.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};

use crate::bench::Bench;

/// A program that spends its time in a function that it calls, and in one that is inlined there.
const SOURCE: &str = "
static inline __attribute__((always_inline)) unsigned long mixed(unsigned long a, long i) {
  return a * 33 + (a >> 7) + i;
}
__attribute__((noinline)) unsigned long spun(unsigned long a, long n) {
  for (long i = 0; i < n; i++)
    a = mixed(a, i);
  return a;
}
__attribute__((noinline)) unsigned long outer(unsigned long a) {
  return spun(a, 1000000) + 1;
}
int main(void) {
  unsigned long a = 1;
  for (int i = 0; i < 1000; i++)
    a = outer(a);
  return a == 42;
}
";

/// Samples of each function as `go tool pprof` adds them up: inlined ones count where they are
/// inlined, unless asked for apart.
fn by_pprof(bench: &Bench, words: &[&str]) -> Result<String> {
    let output = Command::new("go")
        .args(["tool", "pprof", "-sample_index=samples"])
        .args(["-nodefraction=0", "-nodecount=1000000"])
        .args(words)
        .arg(bench.path("profile"))
        .env("PPROF_TMPDIR", bench.folder.path())
        .env("HOME", bench.folder.path())
        .output()
        .context("go, which `cargo xtask setup` installs")?;
    ensure!(output.status.success(), text(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names without what blanks are in them.
fn plain(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) const TOTALS: Test = test(
    "an export has the totals, callers and inlined functions of a recording",
    totals,
    &[as_root, gcc],
);
/// The samples of each function in an export are those of `vcpi top`, callers stand behind what
/// they call, and an inlined function has its line.
fn totals() -> Result<()> {
    let bench = Bench::new()?;
    let program = bench.compile("spinning", SOURCE)?;
    let output = bench.record(&["-q", "--"]).arg(&program).output()?;
    ensure!(output.status.success(), text(&output));
    let output = Command::new(&bench.programs.vcpi)
        .args(["export", "pprof", "-i"])
        .arg(bench.path("db"))
        .arg("-o")
        .arg(bench.path("profile"))
        .output()?;
    ensure!(output.status.success(), text(&output));

    let report = bench.programs.report(&bench.path("db"), &["top"])?;
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for row in report.as_array().into_iter().flatten() {
        let name = plain(row["key"].as_str().unwrap_or_default());
        *expected.entry(name).or_default() += row["samples"].as_u64().unwrap_or_default();
    }
    let top = by_pprof(&bench, &["-top", "-noinlines"])?;
    let rows = top.lines().skip_while(|line| !line.contains("flat%"));
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows.skip(1) {
        let words: Vec<&str> = row.split_whitespace().collect();
        if let [flat, _, _, _, _, name @ ..] = words.as_slice()
            && let Ok(flat) = flat.parse::<u64>()
            && flat > 0
        {
            *found.entry(name.join(" ")).or_default() += flat;
        }
    }
    ensure!(found == expected, "{found:?}\nnot {expected:?}\n{top}");
    ensure!(found.get("spun").is_some_and(|spun| *spun > 100), "{top}");
    let raw = by_pprof(&bench, &["-raw"])?;
    ensure!(
        raw.contains("mixed") && raw.contains("spinning.c:3"),
        "{raw}"
    );
    let traces = by_pprof(&bench, &["-traces", "-noinlines"])?;
    let traces = plain(&traces);
    ensure!(traces.contains("spun outer"), "{traces}");

    // The same again as JSON whose weights add up.
    let output = Command::new(&bench.programs.vcpi)
        .args(["export", "speedscope", "-i"])
        .arg(bench.path("db"))
        .output()?;
    let file: Value = serde_json::from_slice(&output.stdout)?;
    let sum: u64 = expected.values().sum();
    let end = &file["profiles"][1]["endValue"];
    ensure!(*end == sum, "{end}, not {sum}");
    Ok(())
}
