//! The command line: exit codes, inputs, filters, hostile input.

#[path = "../common/after.rs"]
mod after;
mod args;
mod bundle;
#[path = "../common/mod.rs"]
mod common;
mod convert;
mod diff;
mod ends;
mod filters;
mod functions;
mod inputs;
mod manners;
mod modes;
mod parts;
mod paths;
mod pointers;
mod processes;
mod rolled;
mod transfers;

use std::process::Output;

use common::Fixture;

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal ends vcpi")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(fixture: &Fixture, args: &[&str]) -> serde_json::Value {
    let text = fixture.report(&[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).expect("reports are JSON")
}

fn samples(report: &serde_json::Value) -> u64 {
    let rows = report.as_array().expect("a report of rows");
    rows.iter()
        .map(|row| row["samples"].as_u64().expect("a count"))
        .sum()
}
