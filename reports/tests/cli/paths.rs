//! Trees of call stacks.

use crate::common::Fixture;
use crate::{code, errors, json};
use serde_json::{Value, json as value};

/// Each node of a tree in words, with its depth.
fn nodes(tree: &Value) -> Vec<(usize, String, u64, f64)> {
    fn add(nodes: &Value, depth: usize, all: &mut Vec<(usize, String, u64, f64)>) {
        for node in nodes.as_array().expect("nodes") {
            let name = node["function"].as_str().or(node["cut"].as_str());
            let name = name.expect("a name").to_owned();
            let samples = node["samples"].as_u64().expect("a count");
            let own = node["own_percent"].as_f64().expect("a share");
            all.push((depth, name, samples, own));
            add(&node["nodes"], depth + 1, all);
        }
    }
    let mut all = Vec::new();
    add(&tree["nodes"], 0, &mut all);
    all
}

fn named(names: &[(usize, &str, u64, f64)]) -> Vec<(usize, String, u64, f64)> {
    let own = names.iter();
    own.map(|(depth, name, samples, own)| (*depth, (*name).to_owned(), *samples, *own))
        .collect()
}

/// Downwards, each function has what it calls; stacks that were cut are under their reason.
#[test]
fn tree() {
    let fixture = Fixture::new();
    let tree = json(&fixture, &["cg", "--tree"]);
    assert_eq!(
        [&tree["direction"], &tree["samples"], &tree["whole"]],
        [&value!("down"), &value!(800), &value!(720)]
    );
    let expected = [
        (0, "main", 720, 0.0),
        (1, "hot", 720, 75.0),
        (2, "hot", 120, 15.0),
        (0, "no-rules", 80, 0.0),
        (1, "hot", 80, 0.0),
        (2, "helper", 80, 10.0),
    ];
    assert_eq!(nodes(&tree), named(&expected));
    let tree = json(&fixture, &["cg", "--tree", "hot"]);
    let expected = [
        (0, "hot", 800, 75.0),
        (1, "hot", 120, 15.0),
        (1, "helper", 80, 10.0),
    ];
    assert_eq!(nodes(&tree), named(&expected));
}

/// Upwards, each function has who calls it; what is beyond a cut is not known.
#[test]
fn up() {
    let fixture = Fixture::new();
    let tree = json(&fixture, &["cg", "--up", "hot"]);
    let expected = [
        (0, "hot", 800, 0.0),
        (1, "main", 600, 75.0),
        (1, "hot", 120, 0.0),
        (2, "main", 120, 15.0),
        (1, "no-rules", 80, 10.0),
    ];
    assert_eq!(nodes(&tree), named(&expected));
    let text = fixture.report(&["cg", "--up", "helper"]);
    assert!(text.contains("unknown callers (no-rules)"), "{text}");
    assert!(text.contains("in percent of the time of"), "{text}");
}

/// As rows, each node comes before those below it and says which it is below; nothing else differs.
#[test]
fn flat() {
    let fixture = Fixture::new();
    for args in [
        &["cg", "--tree"][..],
        &["cg", "--up"],
        &["cg", "--up", "hot"],
    ] {
        let tree = json(&fixture, args);
        let flat = json(&fixture, &[args, &["--flat"]].concat());
        for key in ["direction", "base", "samples", "whole"] {
            assert_eq!(flat[key], tree[key], "{args:?}");
        }
        let rows = flat["nodes"].as_array().expect("rows");
        assert_eq!(rebuilt(rows, &Value::Null, 0), tree["nodes"], "{args:?}");
        assert_eq!(rows.len(), nodes(&tree).len(), "{args:?}");
        let is_before = |(at, row): (usize, &Value)| {
            let parent = row["parent"].as_u64();
            row["id"] == at && parent.is_none_or(|parent| parent < at as u64)
        };
        assert!(rows.iter().enumerate().all(is_before), "{flat}");
    }
    for args in [
        &["cg", "--flat", "--format", "json"][..],
        &["cg", "--tree", "--flat"],
    ] {
        let output = fixture.run(args);
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(errors(&output).contains("--flat is for trees in JSON"));
    }
}

/// The tree below a row, of rows.
fn rebuilt(rows: &[Value], parent: &Value, depth: usize) -> Value {
    let below = rows.iter().filter(|row| row["parent"] == *parent);
    let below = below.map(|row| {
        assert_eq!(row["depth"], depth);
        let mut node = row.clone();
        let fields = node.as_object_mut().expect("a row");
        for field in ["id", "parent", "depth"] {
            fields.remove(field);
        }
        node["nodes"] = rebuilt(rows, &row["id"], depth + 1);
        node
    });
    below.collect()
}

/// Without call stacks there is nothing to show; both directions at once are refused.
#[test]
fn none() {
    let fixture = Fixture::new();
    let output = fixture.run(&["cg", "--tree", "hotter"]);
    assert_eq!(code(&output), 1);
    assert!(
        errors(&output).contains("no call stacks"),
        "{}",
        errors(&output)
    );
    assert_eq!(code(&fixture.run(&["cg", "--tree", "--up"])), 2);
}
