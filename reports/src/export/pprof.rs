//! `pprof`: what `go tool pprof` reads.

pub(crate) mod proto;
pub(super) mod values;

use std::io::Write as _;

use clap::{ArgMatches, Args, FromArgMatches as _};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

use super::about::About;
use super::stacks::{Stacks, process_name};
use super::table::{Strings, Table, int};
use super::{Export, Exported, STACKS, at_once};
use crate::failure::Failure;
use crate::render::whole;
use crate::view::View;
use profiledb::Apart;
use values::Arguments;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "pprof",
    about: "Protocol buffer for pprof, compressed",
    more: "Open it: go tool pprof -http : FILE",
    is_binary: true,
    by_flush: false,
    apart: Apart::Rows,
    stubs: false,
    rows: STACKS,
    options: Options::augment_args,
    turns: at_once,
    write,
};

/// Options of this export.
#[derive(Debug, Args)]
struct Options {
    /// Label samples with the most frequent value of each argument of the function that was
    /// interrupted, and that value's share in percent.
    #[arg(long)]
    values: bool,
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let options =
        Options::from_arg_matches(matches).map_err(|error| Failure::Usage(error.to_string()))?;
    let stacks = Stacks::new(view)?;
    let arguments = match options.values {
        true => Arguments::new(view),
        false => Arguments::default(),
    };
    packed(&profile(&stacks, view, &arguments)).map(Exported::from)
}

/// A profile as files have it.
pub(crate) fn packed(profile: &Profile) -> Result<Vec<u8>, Failure> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(&profile.encode_to_vec())?;
    Ok(packer.finish()?)
}

/// The profile of some stacks.
pub(super) fn profile(stacks: &Stacks<'_>, view: &View<'_>, arguments: &Arguments) -> Profile {
    let mut strings = Strings::new();
    let mut images = Table::default();
    // The first image is the program for pprof.
    for image in stacks.hottest() {
        images.place(image);
    }
    let samples = value_type(&mut strings, "samples", "count");
    let cycles = value_type(&mut strings, "cycles", "count");
    let location = locations(stacks, &mut images);
    let about = About::new(stacks.profile);
    let period = about.period.as_ref();
    let period_type = period.map(|(what, unit, _)| value_type(&mut strings, what, unit));
    let sentences = about.sentences.iter();
    let sample = stacks.samples.iter();
    Profile {
        sample_type: vec![samples, cycles],
        sample: sample
            .map(|sample| {
                let mut label = labels(stacks, sample, &mut strings);
                label.extend(arguments.labels(stacks, view, sample, &mut strings));
                Sample {
                    location_id: sample.locations.iter().map(|at| id(*at)).collect(),
                    value: vec![int(sample.heat.samples), int(whole(sample.heat.cycles))],
                    label,
                }
            })
            .collect(),
        function: functions(stacks, &mut strings),
        mapping: mappings(stacks, images.into_all(), &mut strings),
        location,
        time_nanos: about.began.unwrap_or_default(),
        duration_nanos: about.duration(),
        period_type,
        period: period.map_or(0, |(_, _, period)| int(*period)),
        comment: sentences.map(|text| int(strings.place(text))).collect(),
        default_sample_type: cycles.r#type,
        // Last: all strings are in it now.
        string_table: strings.into_all(),
    }
}

/// The id of what is at a place.
fn id(place: usize) -> u64 {
    place as u64 + 1
}

fn value_type(strings: &mut Strings, what: &str, unit: &str) -> ValueType {
    ValueType {
        r#type: int(strings.place(what)),
        unit: int(strings.place(unit)),
    }
}

fn labels(
    stacks: &Stacks<'_>,
    sample: &super::stacks::Sample,
    strings: &mut Strings,
) -> Vec<Label> {
    let process = stacks.process(sample);
    let mut labels = vec![Label {
        key: int(strings.place("process")),
        str: int(strings.place(&process_name(process))),
        ..Label::default()
    }];
    labels.extend(sample.cut.map(|why| Label {
        key: int(strings.place("cut")),
        str: int(strings.place(why)),
        ..Label::default()
    }));
    let pid = super::stacks::pid(process);
    let uid = stacks.subject(sample).and_then(|subject| subject.uid);
    for (key, number) in [("pid", pid), ("uid", uid)] {
        labels.extend(number.map(|number| Label {
            key: int(strings.place(key)),
            num: int(number),
            num_unit: int(strings.place("id")),
            ..Label::default()
        }));
    }
    labels
}

fn locations(stacks: &Stacks<'_>, images: &mut Table<usize>) -> Vec<Location> {
    let locations = stacks.locations.iter().enumerate();
    let line = |frame: &super::stacks::SourceFrame| Line {
        function_id: id(frame.function),
        line: frame.line.map_or(0, i64::from),
    };
    locations
        .map(|(place, location)| Location {
            id: id(place),
            mapping_id: id(images.place(location.image)),
            address: location.address,
            line: location.frames.iter().map(line).collect(),
        })
        .collect()
}

fn functions(stacks: &Stacks<'_>, strings: &mut Strings) -> Vec<Function> {
    let functions = stacks.functions.iter().enumerate();
    functions
        .map(|(place, function)| Function {
            id: id(place),
            name: int(strings.place(&function.name)),
            // The name is demangled, and pprof would cut its parameters off if it were here too.
            system_name: 0,
            filename: int(strings.place(function.file.as_deref().unwrap_or_default())),
            start_line: 0,
        })
        .collect()
}

fn mappings(stacks: &Stacks<'_>, images: Vec<usize>, strings: &mut Strings) -> Vec<Mapping> {
    let images = images.into_iter().enumerate();
    images
        .map(|(place, image)| Mapping {
            id: id(place),
            // Addresses are those in the file: this is how pprof is told so.
            memory_start: 0,
            memory_limit: u64::MAX,
            file_offset: 0,
            filename: int(strings.place(&stacks.path(image))),
            build_id: int(strings.place(&stacks.build_id(image).unwrap_or_default())),
            // What could be known is here.
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        })
        .collect()
}
