//! Every report on the fixture, as text and as JSON, against its snapshot.

mod common;

use common::Fixture;

/// Compares both forms of a report with their snapshots.
fn check(name: &str, args: &[&str]) {
    let fixture = Fixture::new();
    insta::assert_snapshot!(format!("{name}_text"), fixture.report(args));
    let json = fixture.report(&[args, &["--format", "json"]].concat());
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("reports are JSON");
    assert!(parsed.is_array() || parsed.is_object());
    insta::assert_snapshot!(format!("{name}_json"), json);
}

/// Cycles add up by function, over processes, flushes and the kernel.
#[test]
fn top_by_function() {
    check("top", &["top"]);
}

/// Cycles add up by image, instruction and process as well; names cannot control a terminal.
#[test]
fn top_by_others() {
    check("top_image", &["top", "--by", "image"]);
    check("top_instruction", &["top", "--by", "instruction"]);
    check("top_process", &["top", "--by", "process"]);
}

/// A listing has every instruction, the seen and the unseen, with its value profiles.
#[test]
fn list() {
    check("list", &["list", "hot"]);
}

/// Values are kept apart by caller where that is asked for.
#[test]
fn list_by_caller() {
    check(
        "list_by_caller",
        &["list", "hot", "--by-caller", "--values", "1"],
    );
}

/// Floating-point values are numbers, and an unknown indirect target is an address.
#[test]
fn list_of_floats() {
    check("list_helper", &["list", "helper"]);
}

/// Arguments are those that the callee reads, in their width, per call site and in all.
#[test]
fn args() {
    check("args", &["args"]);
}

/// The time in a function is divided among its call sites, the unknown ones included.
#[test]
fn cg() {
    check("cg", &["cg"]);
}

/// The shifts that make one value of several are the invariant run.
#[test]
fn blks() {
    check("blks", &["blks"]);
}

/// Branch directions, with what could not be told.
#[test]
fn branches() {
    check("branches", &["branches"]);
}

/// Indirect calls have named targets, indirect jumps addresses.
#[test]
fn targets() {
    check("targets", &["targets"]);
}

/// The status shows every counter there is, also of kinds that nobody has heard of.
#[test]
fn status() {
    check("status", &["status"]);
}

/// Without symbols everything is image and address.
#[test]
fn without_symbols() {
    check("no_symbols", &["top", "--no-symbols"]);
}
