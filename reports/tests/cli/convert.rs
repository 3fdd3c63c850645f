//! Databases written anew.

use crate::common::{Fixture, epoch};
use crate::{code, errors, json};

/// Noon of 2026-05-02 UTC, a day after the fixture's epoch, in nanoseconds.
const NEXT_DAY: i64 = 1_777_723_200_000_000_000;

/// What is written anew gives the same reports.
#[test]
fn same_reports() {
    let fixture = Fixture::new();
    for arguments in [&["convert"][..], &["convert", "--unpack"]] {
        let new = format!("{}.db", arguments.len());
        let output = fixture.run(&[arguments, &["vcpi.db", "-o", &new]].concat());
        assert_eq!(code(&output), 0, "{}", errors(&output));
        let report = json(&fixture, &["-i", &new, "top"]);
        assert_eq!(report, json(&fixture, &["top"]), "{arguments:?}");
    }
}

/// Which of the two databases is in the way is said, why, and what to do; nothing is left behind.
#[test]
fn failures() {
    let fixture = Fixture::new();
    let missing = "No such file or directory";
    std::fs::write(fixture.dir().join("other.db"), [7; 5000]).expect("writes");
    for (old, new, status, said) in [
        ("no.db", "new.db", 3, [missing, "name the database"]),
        ("vcpi.db/x", "new.db", 3, ["vcpi.db/x", "Not a directory"]),
        (".", "new.db", 3, ["a directory", "name the database"]),
        (
            "other.db",
            "new.db",
            3,
            ["another kind", "name the database"],
        ),
        (
            "vcpi.db",
            "no/new.db",
            1,
            ["cannot write no/new.db", missing],
        ),
        ("vcpi.db", "other.db", 2, ["other.db", "is there already"]),
    ] {
        let output = fixture.run(&["convert", old, "-o", new]);
        let text = errors(&output);
        assert_eq!(code(&output), status, "{old}, {new}: {text}");
        for words in said {
            assert!(text.contains(words), "{old}, {new}: {text}");
        }
        assert!(!fixture.dir().join("new.db").exists(), "{old}, {new}");
    }
}

/// A database is converted whole: options that choose among databases and rows are wrong use.
#[test]
fn nothing_is_chosen() {
    let fixture = Fixture::new();
    for option in [
        &["--input", "vcpi.db"][..],
        &["--pid", "1"],
        &["--since", "-1min"],
        &["--image", "fixture"],
        &["--lines", "3"],
    ] {
        let output = fixture.run(&[&["convert", "vcpi.db", "-o", "new.db"], option].concat());
        assert_eq!(code(&output), 2, "{option:?}: {}", errors(&output));
        let said = format!("convert: {} is for reports", option[0]);
        assert!(errors(&output).contains(&said), "{}", errors(&output));
        assert!(!fixture.dir().join("new.db").exists(), "{option:?}");
    }
}

/// A copy of an epoch that runs is not called cut short, also when others are written behind it;
/// one of an epoch whose collector died is.
#[test]
fn copies_of_what_runs() {
    let fixture = Fixture::new();
    let begin = |path: &str| {
        let path = fixture.dir().join(path);
        let epoch = epoch(NEXT_DAY, "another", "bpf");
        profiledb::Writer::create_epoch(&path, &epoch).expect("appends")
    };
    let copies = |name: &str| {
        let converted = format!("{name}.db");
        let copy = |words: &[&str], to: &str| {
            let output = fixture.run(&[words, &["-o", to]].concat());
            assert_eq!(code(&output), 0, "{}", errors(&output));
            errors(&output)
        };
        copy(&["convert", "vcpi.db"], &converted);
        let said = copy(&["bundle"], name);
        assert_eq!(said.contains("cut short"), name == "dead", "{said}");
        [converted, name.to_owned()]
    };
    let states = |input: &str| {
        let status = json(&fixture, &["-i", input, "status"]);
        let epochs = status["epochs"].as_array().expect("epochs").clone();
        let states = epochs.iter().map(|epoch| epoch["state"].as_str());
        let states: Option<Vec<_>> = states.map(|state| state.map(str::to_owned)).collect();
        states.expect("states")
    };
    let writer = begin("vcpi.db");
    let alive = copies("alive");
    drop(writer);
    for (copies, state) in [(&alive, "copied"), (&copies("dead"), "cut_short")] {
        for copy in copies {
            assert_eq!(states(copy), ["ended", state], "{copy}");
        }
    }
    let said = errors(&fixture.run(&["-i", "alive", "top"]));
    assert!(
        said.contains("some were running when they were copied"),
        "{said}"
    );
    let text = fixture.report(&["-i", "alive", "status"]);
    assert!(text.contains("running when copied"), "{text}");
    begin("alive.db").end_epoch(NEXT_DAY + 1).expect("ends");
    assert_eq!(states("alive.db"), ["ended", "copied", "ended"]);
}
