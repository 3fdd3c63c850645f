//! `firefox`: the processed format of the Firefox Profiler.
//!
//! The format is one of samples in time, and a database has no time of a sample, but that of its
//! flush. So those of a flush share the time that it is of: they stand one behind another, each as
//! long as its part of the interrupts.

mod json;

use std::collections::BTreeMap;

use clap::ArgMatches;
use json::{
    FrameTable, FuncTable, KERNEL, Lib, Markers, NativeSymbols, OTHER, Profile, ResourceTable,
    Samples, StackTable, Thread, USER,
};

use super::about::About;
use super::stacks::{self, Sample, Stacks, UNKNOWN_CALLERS, pid, process_name};
use super::table::{Strings, Table, int};
use super::{Export, Exported, STACKS, at_once, no_options};
use crate::failure::Failure;
use crate::view::{View, as_float};
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "firefox",
    about: "JSON for the Firefox Profiler",
    more: "Open it: load the file at https://profiler.firefox.com, which reads it in the browser. \
           A sample's time is known as far as its flush is (vcpid record --flush): those of a \
           flush are spread evenly over it, in no order.",
    is_binary: false,
    by_flush: true,
    apart: Apart::Rows,
    stubs: false,
    rows: STACKS,
    options: no_options,
    turns: at_once,
    write,
};

/// Processes that are shown at first, at most.
const MOST_VISIBLE: usize = 10;
/// The time from one interrupt to the next, where that is not known: a millisecond.
const INTERVAL: f64 = 1.0;
/// Stands for no image and no address.
const NONE: i64 = -1;
/// The kind of resource that an image is.
const LIBRARY: u32 = 1;
/// The id of an image without one.
const NO_ID: &str = "000000000000000000000000000000000";

fn write(view: &mut View<'_>, _: &ArgMatches) -> Result<Exported, Failure> {
    let stacks = Stacks::new(view)?;
    let about = About::new(stacks.profile);
    let interval = match about.period {
        Some(("cpu", "nanoseconds", period)) => as_float(period) / 1e6,
        _ => INTERVAL,
    };
    let mut libs = Table::default();
    let mut ids: BTreeMap<u32, usize> = BTreeMap::new();
    let threads: Vec<Thread> = by_process(&stacks)
        .into_iter()
        .map(|(process, samples)| {
            let number = process.1.unwrap_or_default();
            let times = ids.entry(number).or_default();
            *times += 1;
            // An id that comes again is another process.
            let pid = match *times {
                1 => number.to_string(),
                times => format!("{number}.{}", times - 1),
            };
            let began = about.began.unwrap_or_default();
            Maker::new(&stacks, &mut libs).thread(process.0, pid, &samples, began)
        })
        .collect();
    let start = milliseconds(about.began.unwrap_or_default());
    let visible = threads.len().min(MOST_VISIBLE);
    let profile = Profile {
        meta: json::meta(start, interval, visible, about.host.as_deref()),
        libs: libs
            .into_all()
            .into_iter()
            .map(|image| lib(&stacks, image))
            .collect(),
        threads,
        pages: [],
        profiler_overhead: [],
        counters: [],
    };
    Ok(Exported::from(serde_json::to_vec(&profile)?))
}

/// A process by its name, and its id if it is one.
type Process = (String, Option<u32>);

/// The samples of each process, those with most interrupts first.
fn by_process<'s>(stacks: &'s Stacks<'_>) -> Vec<(Process, Vec<&'s Sample>)> {
    let mut found: BTreeMap<(Process, u64), Vec<&Sample>> = BTreeMap::new();
    for sample in &stacks.samples {
        let process = stacks.process(sample);
        let key = (process_name(process), pid(process));
        let started = process.map_or(0, |process| process.started);
        found.entry((key, started)).or_default().push(sample);
    }
    let mut found: Vec<(Process, Vec<&Sample>)> = found
        .into_iter()
        .map(|((process, _), samples)| (process, samples))
        .collect();
    found.sort_by_cached_key(|(_, samples)| std::cmp::Reverse(count(samples)));
    found
}

/// Nanoseconds as milliseconds.
fn milliseconds(time: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds need no more")]
    let time = time as f64;
    time / 1e6
}

/// The samples of a process in the order of their flushes, each with its time in milliseconds since
/// `began`: those of a flush share the flush's time evenly by their interrupts, and each is in the
/// middle of its part.
fn timed<'s>(samples: &[&'s Sample], began: i64) -> Vec<(f64, &'s Sample)> {
    let mut in_order: Vec<&Sample> = samples.to_vec();
    in_order.sort_by_key(|sample| sample.time);
    let mut timed = Vec::with_capacity(samples.len());
    for flush in in_order.chunk_by(|a, b| a.time == b.time) {
        let (from, to) = flush
            .first()
            .and_then(|sample| sample.time)
            .unwrap_or((began, began));
        let length = milliseconds(to.saturating_sub(from)).max(0.0);
        let start = milliseconds(from.saturating_sub(began)).max(0.0);
        let all = as_float(count(flush)).max(1.0);
        let mut before = 0.0;
        for sample in flush {
            let own = as_float(sample.heat.samples);
            timed.push((start + (before + own / 2.0) / all * length, *sample));
            before += own;
        }
    }
    timed
}

fn count(samples: &[&Sample]) -> u64 {
    let samples = samples.iter().map(|sample| sample.heat.samples);
    samples.fold(0, u64::saturating_add)
}

/// Fills the tables of a process.
struct Maker<'s, 'p> {
    stacks: &'s Stacks<'p>,
    /// Images of the whole profile.
    libs: &'s mut Table<usize>,
    strings: Strings,
    /// Images of the process, by their places among those of the whole profile.
    resources: Table<usize>,
    /// Functions of the process, by their places among those of the whole profile.
    functions: Table<Option<usize>>,
    /// Instructions, and how deep in inlined functions.
    frames: Table<Option<(usize, u32)>>,
    /// Frames and what is around them.
    nodes: Table<(Option<usize>, usize)>,
    resource_table: ResourceTable,
    func_table: FuncTable,
    frame_table: FrameTable,
}

impl<'s, 'p> Maker<'s, 'p> {
    fn new(stacks: &'s Stacks<'p>, libs: &'s mut Table<usize>) -> Maker<'s, 'p> {
        Maker {
            stacks,
            libs,
            strings: Strings::new(),
            resources: Table::default(),
            functions: Table::default(),
            frames: Table::default(),
            nodes: Table::default(),
            resource_table: ResourceTable::default(),
            func_table: FuncTable::default(),
            frame_table: FrameTable::default(),
        }
    }

    fn thread(mut self, name: String, pid: String, samples: &[&Sample], began: i64) -> Thread {
        let mut table = Samples {
            weight_type: "samples",
            ..Samples::default()
        };
        let mut last = 0.0;
        for (time, sample) in timed(samples, began) {
            table.length += 1;
            table.stack.push(self.stack(sample));
            table.time_deltas.push(time - last);
            table.weight.push(sample.heat.samples);
            last = time;
        }
        let (prefix, frame) = self.nodes.into_all().into_iter().unzip();
        let mut stack_table = StackTable {
            length: 0,
            prefix,
            frame,
        };
        stack_table.length = stack_table.frame.len();
        Thread {
            frame_table: self.frame_table,
            func_table: self.func_table,
            markers: Markers::default(),
            name: name.clone(),
            is_main_thread: true,
            native_symbols: NativeSymbols::default(),
            paused_ranges: [],
            tid: pid.clone(),
            pid,
            process_name: name,
            process_shutdown_time: None,
            process_startup_time: 0.0,
            process_type: "default",
            register_time: 0.0,
            resource_table: self.resource_table,
            samples: table,
            stack_table,
            string_array: self.strings.into_all(),
            unregister_time: None,
            show_markers_in_timeline: false,
        }
    }

    /// The place of a sample's stack.
    fn stack(&mut self, sample: &Sample) -> Option<usize> {
        let stacks = self.stacks;
        let mut prefix = sample.cut.map(|_| {
            let frame = self.frame(None, 0);
            self.nodes.place((None, frame))
        });
        let mut depth = 0;
        for (location, frame) in stacks.frames(sample).rev() {
            depth = match frame.is_inlined {
                true => depth + 1,
                false => 0,
            };
            let frame = self.frame(Some((location, frame)), depth);
            prefix = Some(self.nodes.place((prefix, frame)));
        }
        prefix
    }

    /// The place of a frame; of what stands for those that are not known, without one.
    fn frame(&mut self, at: Option<(&stacks::Location, stacks::SourceFrame)>, depth: u32) -> usize {
        let key = at.map(|(location, _)| (location.pc, depth));
        let place = self.frames.place(key);
        if place < self.frame_table.length {
            return place;
        }
        let func = self.function(at.map(|(_, frame)| frame.function));
        let address = at.and_then(|(location, _)| u32::try_from(location.address).ok());
        let category = match at {
            Some((location, _)) if self.stacks.is_kernel(location.image) => KERNEL,
            Some(_) => USER,
            None => OTHER,
        };
        let table = &mut self.frame_table;
        table.length += 1;
        table.address.push(address.map_or(NONE, i64::from));
        table.inline_depth.push(depth);
        table.category.push(category);
        table.subcategory.push(0);
        table.func.push(func);
        table.native_symbol.push(None);
        table.inner_window_id.push(0);
        table.line.push(at.and_then(|(_, frame)| frame.line));
        table.column.push(None);
        place
    }

    fn function(&mut self, function: Option<usize>) -> usize {
        let place = self.functions.place(function);
        if place < self.func_table.length {
            return place;
        }
        let row = function.and_then(|function| self.stacks.functions.get(function));
        let name = row.map_or(UNKNOWN_CALLERS, |row| &row.name);
        let name = self.strings.place(name);
        let file = row.and_then(|row| row.file.as_deref());
        let file = file.map(|file| self.strings.place(file));
        let resource = row.map_or(NONE, |row| int(self.resource(row.image)));
        let table = &mut self.func_table;
        table.length += 1;
        table.name.push(name);
        table.is_js.push(false);
        table.relevant_for_js.push(false);
        table.resource.push(resource);
        table.file_name.push(file);
        table.line_number.push(None);
        table.column_number.push(None);
        place
    }

    fn resource(&mut self, image: usize) -> usize {
        let place = self.resources.place(image);
        if place < self.resource_table.length {
            return place;
        }
        let lib = self.libs.place(image);
        let name = self.strings.place(&short_name(&self.stacks.path(image)));
        let table = &mut self.resource_table;
        table.length += 1;
        table.lib.push(lib);
        table.name.push(name);
        table.host.push(None);
        table.r#type.push(LIBRARY);
        place
    }
}

fn lib(stacks: &Stacks<'_>, image: usize) -> Lib {
    let path = stacks.path(image);
    let name = short_name(&path);
    let build_id = stacks.build_id(image);
    Lib {
        debug_name: name.clone(),
        name,
        debug_path: path.clone(),
        path,
        breakpad_id: build_id
            .as_deref()
            .and_then(breakpad_id)
            .unwrap_or_else(|| NO_ID.to_owned()),
        code_id: build_id,
        arch: "x86_64",
    }
}

fn short_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The id that symbol servers know an image by: the first 16 bytes of the build id as a GUID, whose
/// first three numbers are little-endian, and an age of 0.
fn breakpad_id(build_id: &str) -> Option<String> {
    let digits = build_id.as_bytes();
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes: Vec<String> = digits
        .chunks_exact(2)
        .take(16)
        .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
        .collect();
    bytes.resize(16, "00".to_owned());
    for number in [0..4, 4..6, 6..8] {
        bytes.get_mut(number)?.reverse();
    }
    Some(format!("{}0", bytes.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples lie in their flushes' times, in order, and share these by their interrupts.
    #[test]
    fn times() {
        let sample = |time, samples| Sample {
            time,
            process: 0,
            subject: 0,
            locations: Vec::new(),
            cut: None,
            heat: crate::view::Heat {
                samples,
                cycles: 0.0,
            },
        };
        let second = 1_000_000_000;
        let late = sample(Some((3 * second, 5 * second)), 1);
        let early = [
            sample(Some((second, 2 * second)), 3),
            sample(Some((second, 2 * second)), 1),
        ];
        let [one, other] = &early;
        let times: Vec<(f64, u64)> = timed(&[&late, one, other], second)
            .into_iter()
            .map(|(time, sample)| (time, sample.heat.samples))
            .collect();
        assert_eq!(times, [(375.0, 3), (875.0, 1), (3000.0, 1)]);
        // Nothing is before the begin, whatever a database says.
        let odd = sample(Some((i64::MIN, i64::MAX)), 1);
        assert!(
            timed(&[&odd], second)
                .iter()
                .all(|(time, _)| time.is_finite() && *time >= 0.0)
        );
    }

    /// Build ids become the ids of symbol servers, whatever their length.
    #[test]
    fn ids() {
        let id = breakpad_id("be4e976c325246ee9d6b7847a670b2a90000ff");
        assert_eq!(id.as_deref(), Some("6C974EBE5232EE469D6B7847A670B2A90"));
        let short = breakpad_id("0102");
        assert_eq!(short.as_deref(), Some("000002010000000000000000000000000"));
        assert_eq!(breakpad_id("no id"), None);
    }
}
