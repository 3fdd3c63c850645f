//! `folded`, by inferno.

use inferno::flamegraph;

use crate::common::Fixture;
use crate::{exported, total};

/// Stacks and their numbers.
fn stacks(bytes: &[u8]) -> Vec<(String, u64)> {
    let text = std::str::from_utf8(bytes).expect("is UTF-8");
    text.lines()
        .map(|line| {
            let (stack, number) = line.rsplit_once(' ').expect("a number behind a blank");
            (stack.to_owned(), number.parse().expect("a number"))
        })
        .collect()
}

/// A flame graph, whose totals are those of all samples.
pub(crate) fn flame_graph(bytes: &[u8]) -> String {
    let mut options = flamegraph::Options::default();
    let mut graph = Vec::new();
    let lines = std::str::from_utf8(bytes).expect("is UTF-8").lines();
    flamegraph::from_lines(&mut options, lines, &mut graph).expect("a flame graph");
    String::from_utf8(graph).expect("is UTF-8")
}

/// Lines have the process, callers, and what was interrupted; they add up to all there is.
#[test]
fn lines() {
    let fixture = Fixture::new();
    let samples = exported(&fixture, &["folded", "--weight", "samples"]);
    let stacks_of_samples = stacks(&samples);
    for (stack, number) in [
        ("fixture;main;hot", 600),
        ("fixture;main;hot;hot", 100),
        ("fixture;[unknown callers];main;hot", 40),
        ("fixture;[unknown callers];copy_page_[k]", 80),
        ("fixture;[unknown callers];hot;helper", 50),
        ("fixture;[unknown callers];[libgone.so]", 30),
        ("evil\\u{1b}[2J;[unknown callers];hot", 10),
    ] {
        assert!(
            stacks_of_samples.contains(&(stack.to_owned(), number)),
            "{stack} {number} in {stacks_of_samples:?}"
        );
    }
    let (all_samples, all_cycles) = total(&fixture);
    let sum = |stacks: &[(String, u64)]| stacks.iter().map(|(_, number)| number).sum::<u64>();
    assert_eq!(sum(&stacks_of_samples), all_samples);
    let cycles = exported(&fixture, &["folded"]);
    assert_eq!(sum(&stacks(&cycles)), all_cycles);
    let graph = flame_graph(&samples);
    assert!(
        graph.contains(&format!("all ({all_samples} samples, 100%)")),
        "{graph}"
    );
    assert!(graph.contains("<title>copy_page ("), "{graph}");
}
