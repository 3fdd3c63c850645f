//! `speedscope`: what the fields of its file format have to be.

use serde_json::Value;

use crate::common::Fixture;
use crate::{json, total};

/// The profiles of a file, each as the names of its stacks with their weights; fields that are
/// wrong end the test.
pub(crate) fn read(file: &Value) -> Vec<Vec<(Vec<String>, u64)>> {
    assert_eq!(
        file["$schema"],
        "https://www.speedscope.app/file-format-schema.json"
    );
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let names: Vec<&str> = frames
        .iter()
        .map(|frame| frame["name"].as_str().expect("a name"))
        .collect();
    let profiles = file["profiles"].as_array().expect("profiles");
    profiles
        .iter()
        .map(|profile| {
            assert_eq!(profile["type"], "sampled");
            assert_eq!(profile["unit"], "none");
            let samples = profile["samples"].as_array().expect("samples");
            let weights = profile["weights"].as_array().expect("weights");
            assert_eq!(samples.len(), weights.len());
            let weights: Vec<u64> = weights
                .iter()
                .map(|one| one.as_u64().expect("one"))
                .collect();
            assert_eq!(profile["startValue"], 0);
            assert_eq!(profile["endValue"], weights.iter().sum::<u64>());
            let stack = |sample: &Value| {
                let frames = sample.as_array().expect("a stack").iter();
                let place = |frame: &Value| frame.as_u64().expect("a place") as usize;
                frames.map(|frame| names[place(frame)].to_owned()).collect()
            };
            samples.iter().map(stack).zip(weights).collect()
        })
        .collect()
}

/// Both profiles, of cycles and of samples, add up to all there is, and have the callers.
#[test]
fn profiles() {
    let fixture = Fixture::new();
    let profiles = read(&json(&fixture, &["speedscope"]));
    let sum = |stacks: &[(Vec<String>, u64)]| stacks.iter().map(|(_, weight)| weight).sum::<u64>();
    let sums: Vec<u64> = profiles.iter().map(|stacks| sum(stacks)).collect();
    let (samples, cycles) = total(&fixture);
    assert_eq!(sums, [cycles, samples]);
    let hot = ["fixture", "main", "hot"].map(str::to_owned).to_vec();
    assert!(profiles[1].contains(&(hot, 600)), "{profiles:?}");
}
