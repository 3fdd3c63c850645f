//! `otlp`, by OpenTelemetry's own types.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{ProfilesData, ProfilesDictionary};
use prost::Message as _;

use crate::common::Fixture;
use crate::{exported, total};

/// Stacks as the names of their functions, the innermost first, with their attributes and value.
type Stacks = Vec<(Vec<String>, Vec<(String, Value)>, i64)>;

/// The profiles of a file by their types of value.
pub(crate) fn read(bytes: &[u8]) -> Vec<(String, Stacks)> {
    let data = ProfilesData::decode(bytes).expect("is a message");
    let dictionary = data.dictionary.expect("a dictionary");
    begins_with_nothing(&dictionary);
    let string = |place: i32| dictionary.string_table[place as usize].clone();
    let [resource] = data.resource_profiles.try_into().expect("one host");
    let [scope] = resource.scope_profiles.try_into().expect("one program");
    assert_eq!(scope.scope.expect("a program").name, "vcpi");
    let profiles = scope.profiles.into_iter();
    profiles
        .map(|profile| {
            let kind = profile.sample_type.expect("a type of value");
            let samples = profile.samples.iter().map(|sample| {
                let stack = &dictionary.stack_table[sample.stack_index as usize];
                let mut names = Vec::new();
                for place in &stack.location_indices {
                    let location = &dictionary.location_table[*place as usize];
                    assert!(location.mapping_index > 0);
                    for line in &location.lines {
                        let function = &dictionary.function_table[line.function_index as usize];
                        names.push(string(function.name_strindex));
                    }
                }
                let attributes = sample.attribute_indices.iter().map(|place| {
                    let attribute = &dictionary.attribute_table[*place as usize];
                    let value = attribute.value.clone().and_then(|value| value.value);
                    (string(attribute.key_strindex), value.expect("a value"))
                });
                let [value] = sample.values.clone().try_into().expect("one value");
                (names, attributes.collect(), value)
            });
            (string(kind.type_strindex), samples.collect())
        })
        .collect()
}

/// The first thing of each table stands for none.
fn begins_with_nothing(dictionary: &ProfilesDictionary) {
    assert_eq!(dictionary.mapping_table.first(), Some(&Default::default()));
    assert_eq!(dictionary.location_table.first(), Some(&Default::default()));
    assert_eq!(dictionary.function_table.first(), Some(&Default::default()));
    assert_eq!(dictionary.link_table.first(), Some(&Default::default()));
    assert_eq!(
        dictionary.attribute_table.first(),
        Some(&Default::default())
    );
    assert_eq!(dictionary.stack_table.first(), Some(&Default::default()));
    assert_eq!(dictionary.string_table.first(), Some(&String::new()));
}

/// Both profiles, of cycles and of samples, add up to all there is, with callers and processes.
#[test]
fn profiles() {
    let fixture = Fixture::new();
    let profiles = read(&exported(&fixture, &["otlp"]));
    let (samples, cycles) = total(&fixture);
    let sums: Vec<(&str, i64)> = profiles
        .iter()
        .map(|(kind, stacks)| {
            (
                kind.as_str(),
                stacks.iter().map(|(_, _, value)| value).sum(),
            )
        })
        .collect();
    assert_eq!(
        sums,
        [("cycles", cycles as i64), ("samples", samples as i64)]
    );
    let hot = profiles[1].1.iter().find(|(_, _, value)| *value == 600);
    let (names, attributes, _) = hot.expect("hot called by main");
    assert_eq!(*names, ["hot", "main"]);
    let attribute = |key: &str, value| attributes.contains(&(key.to_owned(), value));
    assert!(attribute("process.pid", Value::IntValue(100)));
    assert!(attribute(
        "process.executable.name",
        Value::StringValue("fixture".into())
    ));
}
