//! `otlp`: profiles of OpenTelemetry, as their development version has them.

mod proto;

use clap::ArgMatches;
use profiledb::Apart;
use profiledb::rows::ImageKind;
use prost::Message as _;
use proto::{
    AnyValue, Function, InstrumentationScope, KeyValue, KeyValueAndUnit, Line, Link, Location,
    Mapping, Profile, ProfilesData, ProfilesDictionary, Resource, ResourceProfiles, Sample,
    ScopeProfiles, Stack, Value, ValueType,
};

use super::about::About;
use super::stacks::{self, Stacks, process_name};
use super::table::{Strings, Table, int};
use super::{Export, Exported, STACKS, at_once, no_options};
use crate::failure::Failure;
use crate::render::whole;
use crate::view::View;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "otlp",
    about: "Protocol buffer of OpenTelemetry's profiles (v1development)",
    more: "",
    is_binary: true,
    by_flush: false,
    apart: Apart::Rows,
    stubs: false,
    rows: STACKS,
    options: no_options,
    turns: at_once,
    write,
};

fn write(view: &mut View<'_>, _: &ArgMatches) -> Result<Exported, Failure> {
    let stacks = Stacks::new(view)?;
    let mut dictionary = Dictionary::new();
    let samples = samples(&stacks, &mut dictionary);
    let about = About::new(stacks.profile);
    let counts = samples.iter().map(|(sample, _)| sample.clone()).collect();
    let cycles = samples.into_iter().map(|(sample, cycles)| Sample {
        values: vec![cycles],
        ..sample
    });
    let cycles = cycles.collect();
    let host = about.host.clone().map(|host| KeyValue {
        key: "host.name".to_owned(),
        value: Some(text(host)),
    });
    let profiles = ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(Resource {
                attributes: host.into_iter().collect(),
            }),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(InstrumentationScope {
                    name: "vcpi".to_owned(),
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                }),
                // What viewers show first stands first.
                profiles: vec![
                    profile(&about, "cycles", cycles, &mut dictionary),
                    profile(&about, "samples", counts, &mut dictionary),
                ],
            }],
        }],
        dictionary: Some(dictionary.finish(&stacks)),
    };
    Ok(Exported::from(profiles.encode_to_vec()))
}

/// What the profiles refer to, as far as it is there.
struct Dictionary {
    strings: Strings,
    attributes: Table<(usize, Option<Value>)>,
    stacks: Table<Stack>,
}

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary {
            strings: Strings::new(),
            attributes: Table::beginning_with((0, None)),
            stacks: Table::beginning_with(Stack::default()),
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        index(self.strings.place(text))
    }

    fn attribute(&mut self, key: &str, value: Value) -> i32 {
        let key = self.strings.place(key);
        index(self.attributes.place((key, Some(value))))
    }

    fn finish(mut self, stacks: &Stacks<'_>) -> ProfilesDictionary {
        let mut images = Table::beginning_with(None);
        let location_table = self.locations(stacks, &mut images);
        let mapping_table = self.mappings(stacks, images.into_all());
        let mut function_table = vec![Function::default()];
        for function in &stacks.functions {
            function_table.push(Function {
                name_strindex: self.string(&function.name),
                filename_strindex: self.string(function.file.as_deref().unwrap_or_default()),
            });
        }
        let attributes = self.attributes.into_all().into_iter();
        ProfilesDictionary {
            mapping_table,
            location_table,
            function_table,
            link_table: vec![Link {}],
            string_table: self.strings.into_all(),
            attribute_table: attributes
                .map(|(key, value)| KeyValueAndUnit {
                    key_strindex: index(key),
                    value: value.map(|value| AnyValue { value: Some(value) }),
                })
                .collect(),
            stack_table: self.stacks.into_all(),
        }
    }

    fn locations(
        &mut self,
        stacks: &Stacks<'_>,
        images: &mut Table<Option<usize>>,
    ) -> Vec<Location> {
        let mut all = vec![Location::default()];
        for location in &stacks.locations {
            let kind = match stacks.is_kernel(location.image) {
                true => "kernel",
                false => "native",
            };
            let kind = Value::StringValue(kind.to_owned());
            let line = |frame: &stacks::SourceFrame| Line {
                function_index: index(frame.function + 1),
                line: frame.line.map_or(0, i64::from),
            };
            all.push(Location {
                mapping_index: index(images.place(Some(location.image))),
                address: location.address,
                lines: location.frames.iter().map(line).collect(),
                attribute_indices: vec![self.attribute("profile.frame.type", kind)],
            });
        }
        all
    }

    fn mappings(&mut self, stacks: &Stacks<'_>, images: Vec<Option<usize>>) -> Vec<Mapping> {
        let mut all = Vec::new();
        for image in images {
            let Some(image) = image else {
                all.push(Mapping::default());
                continue;
            };
            let is_file = stacks
                .image(image)
                .is_some_and(|image| image.kind == ImageKind::File);
            let build_id = stacks.build_id(image).filter(|_| is_file);
            let build_id = build_id.map(|id| {
                let key = "process.executable.build_id.gnu";
                self.attribute(key, Value::StringValue(id))
            });
            all.push(Mapping {
                memory_start: 0,
                memory_limit: u64::MAX,
                filename_strindex: self.string(&stacks.path(image)),
                attribute_indices: build_id.into_iter().collect(),
            });
        }
        all
    }
}

/// Samples with the number of interrupts, and their cycles.
fn samples(stacks: &Stacks<'_>, dictionary: &mut Dictionary) -> Vec<(Sample, i64)> {
    let mut all = Vec::new();
    for sample in &stacks.samples {
        let process = stacks.process(sample);
        let name = Value::StringValue(process_name(process));
        let mut attributes = vec![dictionary.attribute("process.executable.name", name)];
        if let Some(why) = sample.cut {
            let why = Value::StringValue(why.to_owned());
            attributes.push(dictionary.attribute("vcpi.stack.cut", why));
        }
        if let Some(pid) = stacks::pid(process) {
            let pid = Value::IntValue(i64::from(pid));
            attributes.push(dictionary.attribute("process.pid", pid));
        }
        if let Some(uid) = stacks.subject(sample).and_then(|subject| subject.uid) {
            let uid = Value::IntValue(i64::from(uid));
            attributes.push(dictionary.attribute("process.real_user.id", uid));
        }
        let stack = Stack {
            location_indices: sample.locations.iter().map(|at| index(at + 1)).collect(),
        };
        let sample_of = Sample {
            stack_index: index(dictionary.stacks.place(stack)),
            attribute_indices: attributes,
            values: vec![int(sample.heat.samples)],
        };
        all.push((sample_of, int(whole(sample.heat.cycles))));
    }
    all
}

fn profile(
    about: &About,
    what: &str,
    samples: Vec<Sample>,
    dictionary: &mut Dictionary,
) -> Profile {
    let mut value_type = |what: &str, unit: &str| ValueType {
        type_strindex: dictionary.string(what),
        unit_strindex: dictionary.string(unit),
    };
    let period = about.period.as_ref();
    Profile {
        sample_type: Some(value_type(what, "count")),
        samples,
        time_unix_nano: about.began.unwrap_or_default().try_into().unwrap_or(0),
        duration_nano: about.duration().try_into().unwrap_or(0),
        period_type: period.map(|(what, unit, _)| value_type(what, unit)),
        period: period.map_or(0, |(_, _, period)| int(*period)),
    }
}

fn text(text: String) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(text)),
    }
}

/// A place as the format has it.
fn index(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}
