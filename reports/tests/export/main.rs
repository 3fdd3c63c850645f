//! Exports, as those that read them see them.
//!
//! Needs what `cargo xtask setup` installs: `go` with its pprof, callgrind_annotate, and gcc with
//! binutils.

mod callgrind;
#[path = "../common/mod.rs"]
mod common;
mod firefox;
mod folded;
mod hostile;
mod inlined;
mod optimisers;
mod otlp;
mod output;
mod pprof;
mod snapshots;
mod speedscope;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Fixture;

/// Every kind of export of call stacks.
const KINDS: [&str; 6] = [
    "pprof",
    "firefox",
    "folded",
    "otlp",
    "speedscope",
    "callgrind",
];

/// Exports to a file in the fixture's folder.
fn export(fixture: &Fixture, args: &[&str]) -> PathBuf {
    let file = fixture.dir().join("exported");
    let name = file.to_str().expect("is UTF-8");
    let output = fixture.run(&[&["export"], args, &["-o", name]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    assert!(output.stdout.is_empty());
    file
}

/// What an export to standard output is.
fn exported(fixture: &Fixture, args: &[&str]) -> Vec<u8> {
    let output = fixture.run(&[&["export"], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    output.stdout
}

fn json(fixture: &Fixture, args: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&exported(fixture, args)).expect("this export is JSON")
}

/// Samples and cycles of each function as `vcpi top` tells them.
fn top(fixture: &Fixture) -> BTreeMap<String, (u64, u64)> {
    let rows = fixture.report(&["top", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("reports are JSON");
    let rows = rows.as_array().expect("a report of rows");
    rows.iter()
        .map(|row| {
            let name = row["key"].as_str().expect("a name").to_owned();
            let number = |key: &str| row[key].as_u64().expect("a count");
            (name, (number("samples"), number("cycles")))
        })
        .collect()
}

/// All samples and cycles.
fn total(fixture: &Fixture) -> (u64, u64) {
    let top = top(fixture);
    let samples = top.values().map(|(samples, _)| samples).sum();
    (samples, top.values().map(|(_, cycles)| cycles).sum())
}

/// What a program that reads a file prints.
fn read_by(program: &str, args: &[&str], file: &Path) -> String {
    let output = Command::new(program)
        .args(args)
        .arg(file)
        .env("PPROF_TMPDIR", file.parent().expect("in a folder"))
        .env("HOME", file.parent().expect("in a folder"))
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask setup` installs it"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
