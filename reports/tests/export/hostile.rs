//! Names that would break a format or a terminal.

use std::process::Command;

use crate::common::Fixture;
use crate::{KINDS, export, exported, folded, json, read_by, total};

/// What would end a name, a line, a string or a page, and much of it.
fn name() -> String {
    let mut name =
        String::from("evil;\n\r\t\"'`\\</script><b>&amp;\u{1b}[2J\u{202e} fn=(1) calls=9 ");
    name.push_str("; 7\nmain 1000\n");
    name.push_str(&"long".repeat(2_500));
    name.push('\0');
    name
}

/// Every reader reads them, finds all samples, and gets no control character.
#[test]
fn names() {
    let fixture = Fixture::with_hot(&name());
    let (samples, cycles) = total(&fixture);
    for kind in KINDS {
        let bytes = exported(&fixture, &[kind]);
        let is_text = !matches!(kind, "pprof" | "otlp");
        let controls = |byte: &&u8| byte.is_ascii_control() && **byte != b'\n';
        assert_eq!(
            bytes.iter().find(controls).filter(|_| is_text),
            None,
            "{kind}"
        );
    }
    let lines = exported(&fixture, &["folded", "--weight", "samples"]);
    let graph = folded::flame_graph(&lines);
    assert!(graph.contains(&format!("all ({samples} samples, 100%)")));
    for line in String::from_utf8_lossy(&lines).lines() {
        assert!(line.matches(';').count() <= 3, "{line}");
    }
    let profiles = crate::speedscope::read(&json(&fixture, &["speedscope"]));
    let sum: u64 = profiles[1].iter().map(|(_, weight)| weight).sum();
    assert_eq!(sum, samples);
    assert_eq!(
        crate::firefox::read(&json(&fixture, &["firefox"])).0,
        samples
    );
    let profiles = crate::otlp::read(&exported(&fixture, &["otlp"]));
    let names = profiles[0].1.iter().flat_map(|(names, _, _)| names);
    assert!(
        names
            .flat_map(|name| name.chars())
            .all(|one| !one.is_control())
    );

    let file = export(&fixture, &["callgrind"]);
    let annotated = read_by("callgrind_annotate", &["--threshold=100"], &file);
    assert!(annotated.contains("evil;"), "{annotated}");
    let text = std::fs::read_to_string(&file).expect("is text");
    assert!(text.contains(&format!("totals: {cycles} {samples}\n")));
    let file = export(&fixture, &["pprof"]);
    let shown = read_by(
        "go",
        &[
            "tool",
            "pprof",
            "-top",
            "-nodefraction=0",
            "-sample_index=samples",
        ],
        &file,
    );
    let all = format!("100% of {samples} total");
    assert!(shown.contains(&all), "{shown}");
    assert!(shown.chars().all(|one| one == '\n' || !one.is_control()));
}

/// A name of a file that is none of ours is one of a file.
#[test]
fn output_names() {
    let fixture = Fixture::new();
    let name = "a b;\n\"c";
    let output = Command::new(env!("CARGO_BIN_EXE_vcpi"))
        .args(["export", "folded", "-o", name])
        .current_dir(fixture.dir())
        .output()
        .expect("vcpi runs");
    assert!(output.status.success());
    assert!(fixture.dir().join(name).is_file());
}
