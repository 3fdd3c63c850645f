//! `callgrind`: what callgrind_annotate and KCachegrind read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::ArgMatches;

use super::about::About;
use super::stacks::{Location, Sample, Stacks};
use super::{Export, Exported, STACKS, at_once, no_options};
use crate::failure::Failure;
use crate::render::{brief, clean, whole};
use crate::view::{Heat, View};
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "callgrind",
    about: "Costs of lines and calls, for callgrind_annotate and KCachegrind",
    more: "Open it: callgrind_annotate FILE, or kcachegrind FILE. How often something was called \
           is not known: in place of calls, the samples below a call are counted.",
    is_binary: false,
    by_flush: false,
    apart: Apart::Programs,
    stubs: false,
    rows: STACKS,
    options: no_options,
    turns: at_once,
    write,
};

/// Stands for a source file that is not known, as in callgrind's own files.
const UNKNOWN: &str = "???";
/// Characters of the command that was profiled, at most.
const MOST_CHARACTERS: usize = 200;

/// Where something costs: the function's index, the address and the line.
type Place = (usize, u64, u32);

/// What functions cost.
#[derive(Debug, Default)]
struct Costs {
    /// In themselves, by place.
    own: BTreeMap<Place, Heat>,
    /// In what they call: by place of the call and place of the entry.
    calls: BTreeMap<(Place, usize), Heat>,
}

fn write(view: &mut View<'_>, _: &ArgMatches) -> Result<Exported, Failure> {
    let stacks = Stacks::of_programs(view)?;
    let mut costs = Costs::default();
    for sample in &stacks.samples {
        costs.add(&stacks, sample);
    }
    Ok(Exported::from(text(&stacks, &costs).into_bytes()))
}

impl Costs {
    fn add(&mut self, stacks: &Stacks<'_>, sample: &Sample) {
        let mut places = stacks.frames(sample).map(|(location, frame)| {
            let line = frame.line.unwrap_or_default();
            (frame.function, location.address, line)
        });
        let Some(leaf) = places.next() else {
            return;
        };
        self.own.entry(leaf).or_default().add(sample.heat);
        // Of a call that is several times in a stack, what it costs is there once.
        let mut seen = BTreeSet::new();
        let mut callee = leaf.0;
        for place in places {
            if seen.insert((place, callee)) {
                let call = self.calls.entry((place, callee)).or_default();
                call.add(sample.heat);
            }
            callee = place.0;
        }
    }
}

fn text(stacks: &Stacks<'_>, costs: &Costs) -> String {
    let about = About::new(stacks.profile);
    let command = stacks.profile.epochs.first();
    let command = command.map_or_else(String::new, |epoch| {
        brief(&clean(&epoch.command), MOST_CHARACTERS)
    });
    // Of what is written, rounded as that is: readers add up the lines and compare.
    let total = costs.own.values().fold((0, 0), |(cycles, samples), heat| {
        (cycles + whole(heat.cycles), samples + heat.samples)
    });
    let mut out = String::from("# callgrind format\nversion: 1\n");
    let _ = writeln!(out, "creator: vcpi {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "cmd: {command}\npart: 1");
    for sentence in &about.sentences {
        let _ = writeln!(out, "desc: Trigger: {sentence}");
    }
    out.push_str("positions: instr line\nevents: Cycles Samples\n");
    let _ = writeln!(out, "summary: {} {}\n", total.0, total.1);
    let mut names = Names::default();
    let mut by_function: BTreeMap<usize, Vec<CostLine<'_>>> = BTreeMap::new();
    for ((function, address, line), heat) in &costs.own {
        by_function.entry(*function).or_default().push(CostLine {
            address: *address,
            line: *line,
            heat,
            callee: None,
        });
    }
    for (((function, address, line), callee), heat) in &costs.calls {
        by_function.entry(*function).or_default().push(CostLine {
            address: *address,
            line: *line,
            heat,
            callee: Some(*callee),
        });
    }
    let entries = entries(stacks);
    for (function, costs) in by_function {
        names.open(stacks, function, ["ob", "fl", "fn"], &mut out);
        for cost in costs {
            if let Some(callee) = cost.callee {
                names.open(stacks, callee, ["cob", "cfi", "cfn"], &mut out);
                let entry = entries.get(&callee).map_or(0, |location| location.address);
                // Readers ignore what was called 0 times.
                let count = cost.heat.samples.max(1);
                let _ = writeln!(out, "calls={count} 0x{entry:x} 0");
            }
            let CostLine {
                address,
                line,
                heat,
                ..
            } = cost;
            let cycles = whole(heat.cycles);
            let _ = writeln!(out, "0x{address:x} {line} {cycles} {}", heat.samples);
        }
        out.push('\n');
    }
    let _ = writeln!(out, "totals: {} {}", total.0, total.1);
    out
}

/// A line of costs.
struct CostLine<'c> {
    address: u64,
    line: u32,
    heat: &'c Heat,
    /// The function that is called there.
    callee: Option<usize>,
}

/// The first location of each function that is known.
fn entries<'s>(stacks: &'s Stacks<'_>) -> BTreeMap<usize, &'s Location> {
    let mut entries: BTreeMap<usize, &Location> = BTreeMap::new();
    for location in &stacks.locations {
        for frame in &location.frames {
            let first = entries.entry(frame.function).or_insert(location);
            if location.address < first.address {
                *first = location;
            }
        }
    }
    entries
}

/// Names that were written have a number, and are written once.
#[derive(Debug, Default)]
struct Names {
    images: BTreeMap<String, usize>,
    files: BTreeMap<String, usize>,
    functions: BTreeMap<usize, usize>,
}

impl Names {
    /// Writes which function is meant: its image, its file, and itself, under these keys.
    fn open(&mut self, stacks: &Stacks<'_>, function: usize, keys: [&str; 3], out: &mut String) {
        let Some(row) = stacks.functions.get(function) else {
            return;
        };
        let [object, file, name] = keys;
        let path = stacks.path(row.image);
        let source = row.file.as_deref().unwrap_or(UNKNOWN);
        name_of(&mut self.images, path.clone(), object, &path, out);
        name_of(&mut self.files, source.to_owned(), file, source, out);
        name_of(&mut self.functions, function, name, &row.name, out);
    }
}

fn name_of<K: Ord>(
    known: &mut BTreeMap<K, usize>,
    key: K,
    what: &str,
    name: &str,
    out: &mut String,
) {
    let next = known.len() + 1;
    let number = *known.entry(key).or_insert(next);
    let _ = match number == next {
        true => writeln!(out, "{what}=({number}) {name}"),
        false => writeln!(out, "{what}=({number})"),
    };
}
