//! Databases written anew.

use crate::common::Fixture;
use crate::{code, errors, json};

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
