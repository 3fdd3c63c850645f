//! Patches for a program with lines and debug information.

use std::path::Path;

use serde_json::Value;

use super::{Rows, run, text, write};

/// Functions of `hinted.c` with their entries, the argument that is 10 in most calls, and the
/// instructions behind their divisions.
const DIVIDED: [(u64, &str, u64); 5] = [
    (0x11000, "arg1", 0x11018),
    (0x11030, "arg1", 0x11048),
    (0x11060, "arg1", 0x11078),
    (0x11090, "arg0", 0x110a8),
    (0x110c0, "arg1", 0x110d9),
];

/// A division of the same file that gives quotient and rest, and what is behind it.
const BOTH: (u64, u64) = (0x110f1, 0x110f3);

/// The hints of that program.
fn hints() -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let of = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hinted");
    for name in ["hinted.so", "hinted.c"] {
        std::fs::copy(of.join(name), dir.path().join(name)).expect("is copied");
    }
    let image = dir.path().join("hinted.so");
    write(dir.path(), &image, false, |mut rows: Rows<'_>| {
        for (entry, argument, behind) in DIVIDED {
            rows.values(entry, argument, 10, [190, 10]);
            rows.cycles(behind, 100);
        }
        let (division, behind) = BOTH;
        rows.values(division, "op0", 10, [190, 10]);
        rows.cycles(behind, 100);
        rows.flush.commit().expect("commits");
    });
    let output = run(dir.path(), &["hints", "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("reports are JSON")
}

/// A ready patch compares what is divided by with the number that this is there, under the name
/// that it has there: not with what the function was called with, where that was changed, moved, or
/// handed to a function that is inlined. All else in the statement stays as it is.
#[test]
fn ready_patches() {
    let hints = hints();
    for (function, condition, known) in [
        (
            "plain",
            "w == 10",
            "    s += (x + i) / 10 + (int)sizeof(w);",
        ),
        ("scaled", "w == 21", "    s += (x + i) / 21;"),
        ("swapped", "x == 10", "    s += (w + i) / 10;"),
    ] {
        let hint = hints.iter().find(|hint| hint["function"] == function);
        let hint = hint.unwrap_or_else(|| panic!("{function}: {hints:?}"));
        assert_eq!(hint["patch_is"], "ready", "{hint}");
        let first = format!("if (__builtin_expect({condition}, 1))");
        assert_eq!(
            (&hint["patch"][0], &hint["patch"][1]),
            (&first.into(), &known.into())
        );
    }
    let outer = hints.iter().find(|hint| hint["function"] == "outer");
    assert_eq!(
        outer.expect("it is listed")["patch"],
        serde_json::json!([
            "const int q = __builtin_expect(w == 15, 1) ? (x + i) / 15 : (x + i) / w;"
        ])
    );
}

/// What a function may have changed has no ready patch.
#[test]
fn what_is_in_doubt() {
    let hints = hints();
    let ready = |hint: &Value| hint["function"] == "referred" && hint["patch_is"] == "ready";
    assert!(!hints.iter().any(ready), "{hints:?}");
}

/// The pattern for a function has the names of all arguments in their places, also where the one
/// that has the value was seen where it is read.
#[test]
fn names_of_arguments() {
    let hints = hints();
    let hint = hints.iter().find(|hint| hint["function"] == "both");
    let hint = hint.expect("it is listed");
    assert_eq!(hint["patch_is"], "pattern");
    assert_eq!(
        hint["patch"].as_array().expect("lines")[2..],
        [
            "if (__builtin_expect(base == 10, 1))",
            "    return both_any(x, 10, out);",
            "return both_any(x, base, out);"
        ]
    );
}
