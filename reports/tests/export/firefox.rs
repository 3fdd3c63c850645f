//! `firefox`, by the crate that makes the same format, and by what its tables have to be.

use std::collections::BTreeSet;

use fxprof_processed_profile::debugid::DebugId;
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, LibraryInfo, Profile,
    ReferenceTimestamp, SamplingInterval, Timestamp,
};
use serde_json::Value;

use crate::common::Fixture;
use crate::{json, total};

/// A profile of the crate, with something in each table.
fn of_crate() -> Value {
    let start = ReferenceTimestamp::from_millis_since_unix_epoch(1.0);
    let mut profile = Profile::new("other", start, SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    profile.set_os_name("Linux");
    let category = profile.add_category("User", CategoryColor::Yellow);
    let time = Timestamp::from_millis_since_reference(0.0);
    let process = profile.add_process("other", 1, time);
    let thread = profile.add_thread(process, 1, time, true);
    profile.add_initial_visible_thread(thread);
    profile.add_initial_selected_thread(thread);
    let library = profile.add_lib(LibraryInfo {
        name: "other".into(),
        debug_name: "other".into(),
        path: "/other".into(),
        debug_path: "/other".into(),
        debug_id: DebugId::default(),
        code_id: None,
        arch: Some("x86_64".into()),
        symbol_table: None,
    });
    let frames = [FrameInfo {
        frame: Frame::RelativeAddressFromInstructionPointer(library, 0x1000),
        category_pair: category.into(),
        flags: FrameFlags::empty(),
    }];
    let stack = profile.intern_stack_frames(thread, frames.into_iter());
    profile.add_sample(thread, time, stack, CpuDelta::ZERO, 1);
    serde_json::to_value(&profile).expect("is JSON")
}

/// The keys of all objects, by their ways in.
fn keys(value: &Value, way: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let way = format!("{way}.{key}");
                keys(field, &way, found);
                found.insert(way);
            }
        }
        Value::Array(items) => {
            for item in items.iter().filter(|item| item.is_object()) {
                keys(item, way, found);
            }
        }
        _ => {}
    }
}

/// The places in a column.
fn places(table: &Value, column: &str) -> Vec<Option<usize>> {
    let column = table[column].as_array().expect("a column");
    column
        .iter()
        .map(|place| place.as_u64().map(|place| place as usize))
        .collect()
}

/// The samples of all threads, and the names of each one's functions, if every place in every table
/// is one that there is.
pub(crate) fn read(profile: &Value) -> (u64, Vec<BTreeSet<String>>) {
    let mut samples = 0;
    let mut names = Vec::new();
    let libs = profile["libs"].as_array().expect("images").len();
    let categories = profile["meta"]["categories"]
        .as_array()
        .expect("categories")
        .len();
    for thread in profile["threads"].as_array().expect("threads") {
        let strings = thread["stringArray"].as_array().expect("strings");
        let length = |table: &str| thread[table]["length"].as_u64().expect("a length") as usize;
        for table in [
            "frameTable",
            "funcTable",
            "resourceTable",
            "stackTable",
            "samples",
            "markers",
            "nativeSymbols",
        ] {
            let columns = thread[table].as_object().expect("a table").iter();
            for (name, column) in columns.filter(|(_, column)| column.is_array()) {
                let rows = column.as_array().map(Vec::len);
                assert_eq!(rows, Some(length(table)), "{table}.{name}");
            }
        }
        let within = |table: &str, column: &str, most: usize| {
            let places = places(&thread[table], column).into_iter().flatten();
            assert!(
                places.max().is_none_or(|place| place < most),
                "{table}.{column}"
            );
        };
        within("frameTable", "func", length("funcTable"));
        within("frameTable", "category", categories);
        within("funcTable", "name", strings.len());
        within("funcTable", "fileName", strings.len());
        within("funcTable", "resource", length("resourceTable"));
        within("resourceTable", "lib", libs);
        within("resourceTable", "name", strings.len());
        within("stackTable", "frame", length("frameTable"));
        within("samples", "stack", length("stackTable"));
        for (place, prefix) in places(&thread["stackTable"], "prefix")
            .into_iter()
            .enumerate()
        {
            assert!(prefix.is_none_or(|prefix| prefix < place));
        }
        samples += places(&thread["samples"], "weight")
            .into_iter()
            .flatten()
            .sum::<usize>() as u64;
        let of_functions = places(&thread["funcTable"], "name").into_iter().flatten();
        let name = |place: usize| strings[place].as_str().expect("a string").to_owned();
        names.push(of_functions.map(name).collect());
    }
    (samples, names)
}

/// Every field that the crate writes is there but for processor time, which is not known, and no
/// other.
#[test]
fn fields() {
    let fixture = Fixture::new();
    let ours = json(&fixture, &["firefox"]);
    let theirs = of_crate();
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    keys(&ours, "", &mut own);
    keys(&theirs, "", &mut others);
    others.remove(".threads.samples.threadCPUDelta");
    assert_eq!(own, others);
    for key in ["preprocessedProfileVersion", "version", "sampleUnits"] {
        assert_eq!(ours["meta"][key], theirs["meta"][key]);
    }
}

/// Each process is a thread, the one with most samples first, and all samples are there.
#[test]
fn processes() {
    let fixture = Fixture::new();
    let profile = json(&fixture, &["firefox"]);
    let (samples, names) = read(&profile);
    assert_eq!(samples, total(&fixture).0);
    let threads = profile["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 2);
    assert_eq!(threads[0]["processName"], "fixture");
    assert_eq!(threads[0]["pid"], "100");
    assert_eq!(threads[1]["processName"], "evil\\u{1b}[2J");
    assert!(names[0].contains("copy_page"));
    let unknown = "[unknown callers]".to_owned();
    assert_eq!(names[1], BTreeSet::from(["hot".to_owned(), unknown]));
}
