//! Every report on the fixture, as text and as JSON, against its snapshot.

#[path = "common/accesses.rs"]
mod accesses;
#[path = "common/after.rs"]
mod after;
mod common;
#[path = "common/lots.rs"]
mod lots;

use common::Fixture;
use serde_json::Value;

/// Compares both forms of a report with their snapshots.
fn check(name: &str, args: &[&str]) {
    check_in(&Fixture::new(), name, args);
}

/// As [`check`], in a fixture.
fn check_in(fixture: &Fixture, name: &str, args: &[&str]) {
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

/// What changed between two databases: shares of functions, and values of instructions.
#[test]
fn diff() {
    let fixture = Fixture::new();
    after::write_after(&fixture);
    check_in(&fixture, "diff", &["diff", "vcpi.db", "after.db"]);
    check_in(
        &fixture,
        "diff_all",
        &["diff", "vcpi.db", "after.db", "--all"],
    );
}

/// Sizes at calls of the C library's functions on memory, by call site.
#[test]
fn copies() {
    let fixture = Fixture::with_hot("__memcpy_avx_unaligned_erms");
    check_in(&fixture, "copies", &["copies"]);
}

/// A load has one address, a stride or neither; returns and what the stack keeps are left out.
#[test]
fn loads() {
    let fixture = Fixture::new();
    accesses::write_accesses(&fixture);
    check_in(&fixture, "loads", &["loads", "-i", accesses::DATABASE]);
}

/// Loads and stores of which some are redundant, with how sure that is.
#[test]
fn redundant() {
    let fixture = Fixture::new();
    accesses::write_accesses(&fixture);
    let args = ["redundant", "-i", accesses::DATABASE];
    check_in(&fixture, "redundant", &args);
}

/// A system call has its name and as many arguments as it takes; several at one place have all.
#[test]
fn syscalls() {
    let fixture = Fixture::new();
    accesses::write_accesses(&fixture);
    check_in(
        &fixture,
        "syscalls",
        &["syscalls", "-i", accesses::DATABASE],
    );
}

/// Futex calls have what they do and where; a place of other calls has none.
#[test]
fn locks() {
    let fixture = Fixture::new();
    accesses::write_accesses(&fixture);
    check_in(&fixture, "locks", &["locks", "-i", accesses::DATABASE]);
}

/// Cycles are divided by priority, interrupts apart, and what is not known is told.
#[test]
fn priorities() {
    let fixture = Fixture::new();
    accesses::write_accesses(&fixture);
    check_in(&fixture, "prio", &["prio", "-i", accesses::DATABASE]);
    check_in(&fixture, "irq", &["irq", "-i", accesses::DATABASE]);
}

/// Values that a special case is worth, with what they decide.
#[test]
fn hints() {
    check("hints", &["hints"]);
}

/// Shares of one whole never add up to more than 100, whatever was recorded.
#[test]
fn shares_add_up() {
    let fixture = Fixture::new();
    for seed in 0..12 {
        lots::write_by_lot(&fixture, seed);
        for args in [
            &["top"][..],
            &["top", "--by", "instruction"],
            &["list", "hot"],
            &["list", "hot", "--by-caller"],
            &["list", "main"],
            &["args"],
            &["cg", "hot"],
            &["targets"],
            &["branches"],
        ] {
            let json = fixture.report(&[args, &["--format", "json"]].concat());
            let rows: Value = serde_json::from_str(&json).expect("reports are JSON");
            let at_once = args[0] == "top" || args[0] == "cg";
            check_shares(&rows, at_once, &format!("{args:?} {seed}"));
        }
    }
}

/// In an array of shares they add up to 100 at most, each being rounded; so do those in each array
/// inside. With `at_once` the rows themselves are shares.
fn check_shares(value: &Value, is_whole: bool, what: &str) {
    let members: Vec<&Value> = match value {
        Value::Array(rows) => rows.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => return,
    };
    let percents: Vec<f64> = members
        .iter()
        .filter_map(|member| member.get("percent")?.as_f64())
        .collect();
    assert!(
        percents
            .iter()
            .all(|percent| (0.0..=100.0).contains(percent))
    );
    if is_whole {
        let sum: f64 = percents.iter().sum();
        assert!(sum <= 100.0 + 0.05 * percents.len() as f64, "{what}: {sum}");
    }
    for (name, member) in names(value).zip(members) {
        check_shares(member, ["values", "targets"].contains(&name), what);
    }
}

/// The names of the members of an object; nothing for those of an array.
fn names(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::Object(map) => Box::new(map.keys().map(String::as_str)),
        _ => Box::new(std::iter::repeat("")),
    }
}
