//! `pprof`, by `go tool pprof`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::Fixture;
use crate::{export, read_by, top};

/// Nothing is left out.
const ALL: [&str; 4] = ["tool", "pprof", "-nodefraction=0", "-edgefraction=0"];

fn pprof(args: &[&str], file: &Path) -> String {
    read_by("go", &[&ALL[..], args].concat(), file)
}

/// The first column of `-top`, by function.
fn flat(file: &Path, index: &str) -> BTreeMap<String, u64> {
    let text = pprof(&["-top", "-nodecount=100000", index], file);
    let rows = text
        .lines()
        .skip_while(|line| !line.contains("flat%"))
        .skip(1);
    rows.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = words.first()?.parse().expect("a number");
        let name = words.get(5..)?.join(" ");
        Some((name, number))
    })
    .filter(|(_, number)| *number > 0)
    .collect()
}

/// Samples and cycles of each function are those of `vcpi top`.
#[test]
fn top_is_the_same() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["pprof"]);
    let mut samples = BTreeMap::new();
    let mut cycles = BTreeMap::new();
    for (name, (of_samples, of_cycles)) in top(&fixture) {
        samples.insert(name.clone(), of_samples);
        cycles.insert(name, of_cycles);
    }
    assert_eq!(flat(&file, "-sample_index=samples"), samples);
    assert_eq!(flat(&file, "-sample_index=cycles"), cycles);
    // What is shown unless another is asked for are cycles.
    assert_eq!(flat(&file, "-flat"), cycles);
}

/// Stacks lead to the callers, with the process as label.
#[test]
fn traces() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["pprof"]);
    let traces = pprof(&["-traces", "-sample_index=samples"], &file);
    let words: Vec<&str> = traces.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains("process: fixture"), "{traces}");
    assert!(text.contains("600 hot main"), "{traces}");
    let tags = pprof(&["-tags", "-sample_index=samples"], &file);
    for tag in ["process: Total", "pid: Total", "uid: Total"] {
        assert!(tags.contains(tag), "{tags}");
    }
}

/// Images have their paths, and addresses are those in the files.
#[test]
fn images() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["pprof"]);
    let raw = pprof(&["-raw"], &file);
    let path = fixture.image();
    let path = path.to_str().expect("is UTF-8");
    assert!(
        raw.contains(&format!("0x0/0xffffffffffffffff/0x0 {path}")),
        "{raw}"
    );
    assert!(raw.contains("0x1020 M="), "{raw}");
    assert!(raw.contains("PeriodType: cycles count"), "{raw}");
    assert!(raw.contains("Period: 100000"), "{raw}");
    assert!(raw.contains("fixture --loop"), "{raw}");
}

/// What is chosen on the command line is chosen in exports.
#[test]
fn filters() {
    let fixture = Fixture::new();
    let file = export(&fixture, &["pprof", "--pid", "101"]);
    let samples = flat(&file, "-sample_index=samples");
    assert_eq!(samples, BTreeMap::from([("hot".to_owned(), 10)]));
    let file = export(&fixture, &["pprof", "--function", "helper"]);
    let samples = flat(&file, "-sample_index=samples");
    assert_eq!(samples, BTreeMap::from([("helper".to_owned(), 50)]));
    let file = export(&fixture, &["pprof", "--image", "[kernel]"]);
    let samples = flat(&file, "-sample_index=samples");
    assert_eq!(samples, BTreeMap::from([("copy_page".to_owned(), 80)]));
}

/// Samples have the most frequent values of arguments as labels where that is asked for: from their
/// call site, in the argument's width, and only what is mostly known.
#[test]
fn values() {
    let fixture = Fixture::new();
    let labels = |args: &[&str]| {
        let file = export(&fixture, args);
        let text = pprof(&["-traces", "-sample_index=samples"], &file);
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    };
    let with = labels(&["pprof", "--values"]);
    let from_first = "uid: 1000 arg0: 4 arg0_share: 95 600 hot main";
    let words: Vec<&str> = with.split_whitespace().collect();
    let plain = words.join(" ");
    assert!(
        plain.contains("arg0: 4") && plain.contains("arg0_share: 95"),
        "{with}"
    );
    assert!(
        plain.contains("arg0: 9") && plain.contains("arg0_share: 100"),
        "{with}"
    );
    assert!(!plain.contains("arg1") && !plain.contains("arg2"), "{with}");
    assert!(plain.contains(from_first), "{with}");
    assert!(!labels(&["pprof"]).contains("arg0"));
}
