//! `gcov`: counts of lines as GCC reads them for its AutoFDO (`-fauto-profile`).
//!
//! The compiler knows a place by its function's name and the line's distance from the function's
//! declaration, and code that was inlined by the call that it was inlined at. The form is that
//! which GCC's `auto-profile.cc` reads. Its version 2, from GCC 12 on, counts the bytes of a name,
//! and version 1 its words.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use clap::{ArgMatches, Args};
use flow::Exit;

use super::profgen::count;
use super::program::positions::{FunctionEntry, FunctionId, LookUp, PositionFrame, positions};
use super::program::{Asked, CODE, CountedFunction, Program, options};
use super::{Export, Exported, at_once, next};
use crate::failure::Failure;
use crate::render::{counted, percent};
use crate::view::View;
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "gcov",
    about: "Counts of a program's lines for GCC's AutoFDO: gcc -fauto-profile",
    more: "Name the program with --image; it needs debug information (-g). The counts are computed \
           from directions of branches. What they rest on, and the commands that use them, are \
           told on standard error.",
    is_binary: true,
    by_flush: false,
    apart: Apart::Calls,
    stubs: false,
    rows: CODE,
    options: Options::augment_args,
    turns: at_once,
    write,
};

/// Options of this export.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Export also what rests on fewer than 2500 samples.
    #[arg(long)]
    few: bool,
    /// The version of GCC that is to read the file.
    #[arg(long, value_name = "VERSION", default_value_t = 12,
          value_parser = clap::value_parser!(u32).range(11..=14))]
    gcc: u32,
}

/// The first version of the compiler that reads version 2: it counts a name's bytes.
const COUNTS_BYTES: u32 = 12;
/// The first word of a file.
const KIND: u32 = 0x6763_6461;
/// Begins the names.
const NAMES: u32 = 0xaa00_0000;
/// Begins the functions.
const FUNCTIONS: u32 = 0xac00_0000;
/// Begins what groups modules, of which there are none.
const MODULES: u32 = 0xae00_0000;
/// Says that what follows is a target of an indirect call.
const TARGET: u32 = 7;
/// What the linker's names of functions in C++ begin with.
const MANGLED: &str = "_Z";
/// A name that no function has: the compiler refuses the first one.
const FIRST: &str = "vcpi";

/// Flags without which the counts cannot be matched with source code.
const FLAGS: &str = "-O2 -g";
/// What makes the compiler do better with any profile. It unrolls loops and copies the ends of
/// branches, also of code that nothing is known of, which is better left undone. And before it
/// looks at counts it inlines one call deep, while what was recorded is inlined several calls deep.
pub(crate) const BETTER: &str =
    "-fno-unroll-loops -fno-tracer --param=max-early-inliner-iterations=3";

/// What ran at a place.
#[derive(Debug, Default)]
struct PlaceCounts {
    count: f64,
    targets: BTreeMap<String, f64>,
}

/// A function, or a copy of it that was inlined.
#[derive(Debug, Default)]
struct Instance {
    /// How often it was entered; of what was inlined, not told.
    head: f64,
    /// By the lines' distance from the declaration.
    places: BTreeMap<u32, PlaceCounts>,
    /// By the call's distance, and the name.
    inlined: BTreeMap<(u32, Rc<str>), Instance>,
}

/// The counts of a program's source.
#[derive(Debug, Default)]
struct SourceCounts {
    /// The linker's names of functions that have code of their own and of which debug information
    /// has another name: of what other files cannot call, and functions of one name may be many.
    names: HashMap<FunctionId, Rc<str>>,
    functions: BTreeMap<Rc<str>, Instance>,
    /// Samples in functions of which lines are known.
    samples: f64,
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few, gcc } = options(matches)?;
    let asked = Asked {
        kind: EXPORT.name,
        flags: FLAGS,
        is_for_compilers: true,
    };
    let program = Program::new(view, asked)?;
    let lacks = || {
        Failure::Nothing(format!(
            "{}: no line of its source is known, which the compiler counts by: build it with \
             {FLAGS}, and record that",
            program.path.display()
        ))
    };
    let source = SourceCounts::of(&program).ok_or_else(lacks)?;
    if source.functions.is_empty() {
        return Err(lacks());
    }
    program.has_enough(few)?;
    view.notes.extend(program.coverage());
    view.notes.push(format!(
        "lines are known of {}, with {:.0} % of the samples",
        counted(source.functions.len() as u64, "function"),
        percent(source.samples, program.samples),
    ));
    let used = format!("-fauto-profile={}", next::file(matches.get_one("output")));
    let used = next::command([&used]);
    Ok(Exported {
        bytes: source.bytes(gcc),
        next: vec![format!(
            "next: gcc {FLAGS} {BETTER} {used} (GCC {gcc}; --gcc VERSION for others)"
        )],
    })
}

/// The distance of a line from its function's declaration, as the compiler keeps it.
fn distance(frame: &PositionFrame) -> Option<u32> {
    (frame.declared > 0 && frame.line > 0)
        .then(|| frame.line.wrapping_sub(frame.declared).wrapping_shl(16))
}

/// A name without what the compiler puts behind those of copies. It leaves that out of all names
/// that it reads; two that were alike then would hide each other.
fn original(name: &str) -> &str {
    match name.split_once('.') {
        Some((original, _)) if !original.is_empty() => original,
        _ => name,
    }
}

impl SourceCounts {
    /// The counts of a program; `None`: there is no debug information.
    fn of(program: &Program) -> Option<SourceCounts> {
        let debug = program.debug()?;
        positions(&debug, |look_up| {
            let mut source = SourceCounts::default();
            for function in &program.functions {
                let position = look_up(&[function.start()]).pop().unwrap_or_default();
                let Some((frame, entry)) = position.frames.last().zip(position.entries.last())
                else {
                    continue;
                };
                if function.name.starts_with(MANGLED) && !frame.name.starts_with(MANGLED) {
                    let name = Rc::from(original(&function.name));
                    source.names.insert(entry.function, name);
                }
            }
            for function in &program.functions {
                source.add(program, function, look_up);
            }
            source
        })
    }

    /// Adds a function of the program, whose name in the source others may share: it may be one of
    /// several copies.
    fn add(&mut self, program: &Program, function: &CountedFunction, look_up: &mut LookUp<'_>) {
        let mut at: Vec<(u64, f64)> = Vec::new();
        for (block, count) in function.code.blocks.iter().zip(&function.counts.blocks) {
            let instructions = program.instructions(block.start, block.end);
            at.extend(instructions.into_iter().map(|address| (address, *count)));
        }
        let addresses: Vec<u64> = at.iter().map(|(address, _)| *address).collect();
        let counts: HashMap<u64, f64> = at.iter().copied().collect();
        let calls = function.code.calls.iter();
        let calls = calls.filter(|call| call.to.is_none()).map(|call| call.at);
        let blocks = function.code.blocks.iter();
        let jumps = blocks.filter(|block| block.exit == Exit::Indirect);
        let indirect: BTreeSet<u64> = calls.chain(jumps.map(|block| block.last)).collect();
        // Instructions of one line are in several blocks: the line ran as often as that which ran
        // most.
        let mut most: BTreeMap<Vec<(Rc<str>, u32)>, PlaceCounts> = BTreeMap::new();
        for ((address, count), position) in at.iter().zip(look_up(&addresses)) {
            let step = |(frame, entry): (&PositionFrame, &FunctionEntry)| {
                let name = match (self.names.get(&entry.function), original(&frame.name)) {
                    (Some(name), _) => name.clone(),
                    (None, cut) if cut.len() < frame.name.len() => Rc::from(cut),
                    (None, _) => frame.name.clone(),
                };
                Some((name, distance(frame)?))
            };
            let frames = position.frames.iter().zip(&position.entries);
            let steps: Option<Vec<_>> = frames.rev().map(step).collect();
            let Some(steps) = steps.filter(|steps| !steps.is_empty()) else {
                continue;
            };
            // A call that was inlined ran as often as what it calls was entered: where the compiler
            // does not inline it in time, this is all that it knows of it.
            for (depth, entry) in position.entries.iter().rev().enumerate().skip(1) {
                let count = entry.entered.and_then(|address| counts.get(&address));
                if let (Some(count), Some(call)) = (count, steps.get(..depth)) {
                    let place = most.entry(call.to_vec()).or_default();
                    place.count = place.count.max(*count);
                }
            }
            let place = most.entry(steps).or_default();
            place.count = place.count.max(*count);
            let targets = program.evidence.targets.get(address);
            let targets = targets.filter(|_| indirect.contains(address));
            let targets = targets.into_iter().flatten();
            let elsewhere = program.evidence.elsewhere.get(address);
            let sum = targets.clone().map(|(_, weight)| weight).sum::<f64>()
                + elsewhere.copied().unwrap_or(0.0);
            for (target, weight) in targets {
                // A jump within the function calls nobody.
                if let Some(name) = program.name_at(*target).filter(|_| sum > 0.0) {
                    let name = original(&name).to_owned();
                    *place.targets.entry(name).or_default() += count * weight / sum;
                }
            }
        }
        let mut outermost: BTreeSet<Rc<str>> = BTreeSet::new();
        for (steps, place) in most {
            let Some(((last, distance), outer)) = steps.split_last() else {
                continue;
            };
            let root = outer.first().map_or(last, |(name, _)| name);
            outermost.insert(root.clone());
            let mut instance = self.functions.entry(root.clone()).or_default();
            // A call stands for what it calls: the name of the next step.
            for (index, (_, call)) in outer.iter().enumerate() {
                let callee = steps.get(index + 1).map_or(last, |(name, _)| name);
                instance = instance.inlined.entry((*call, callee.clone())).or_default();
            }
            let sum = instance.places.entry(*distance).or_default();
            sum.count += place.count;
            for (name, count) in place.targets {
                *sum.targets.entry(name).or_default() += count;
            }
        }
        if outermost.is_empty() {
            return;
        }
        self.samples += function.samples;
        let entered = function.counts.blocks.first().copied().unwrap_or(0.0);
        for name in outermost {
            if let Some(instance) = self.functions.get_mut(&name) {
                instance.head += entered;
            }
        }
    }

    fn bytes(&self, gcc: u32) -> Vec<u8> {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (name, instance) in &self.functions {
            names.insert(name);
            instance.name(&mut names);
        }
        let all: Vec<&str> = std::iter::once(FIRST).chain(names).collect();
        let places = all.iter().zip(0..).map(|(name, place)| (*name, place));
        // The first one is in the way of no function of that name.
        let places: BTreeMap<&str, u32> = places.collect();
        let mut bytes = Bytes(Vec::new());
        let is_older = gcc < COUNTS_BYTES;
        bytes.word(KIND);
        bytes.word(if is_older { 1 } else { 2 });
        // What stands for the program's time is not looked at.
        bytes.word(0);
        bytes.word(NAMES);
        bytes.word(0);
        bytes.length(all.len());
        for name in &all {
            bytes.name(name, is_older);
        }
        bytes.word(FUNCTIONS);
        bytes.word(0);
        bytes.length(self.functions.len());
        for (name, instance) in &self.functions {
            bytes.count(instance.head);
            instance.write(name, &places, is_older, &mut bytes);
        }
        bytes.word(MODULES);
        bytes.word(0);
        bytes.word(0);
        bytes.0
    }
}

impl Instance {
    /// Adds the names that it refers to.
    fn name<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        for place in self.places.values() {
            names.extend(place.targets.keys().map(String::as_str));
        }
        for ((_, name), instance) in &self.inlined {
            names.insert(name);
            instance.name(names);
        }
    }

    fn write(&self, name: &str, names: &BTreeMap<&str, u32>, is_older: bool, bytes: &mut Bytes) {
        let place_of = |name: &str| names.get(name).copied().unwrap_or(0);
        bytes.word(place_of(name));
        bytes.length(self.places.len());
        bytes.length(self.inlined.len());
        for (distance, place) in &self.places {
            bytes.word(*distance);
            // GCC 11 has room for one target, and reads more behind it.
            let targets = Some(&place.targets).filter(|_| !is_older);
            bytes.length(targets.map_or(0, BTreeMap::len));
            bytes.count(place.count);
            for (name, count) in targets.into_iter().flatten() {
                bytes.word(TARGET);
                bytes.long(u64::from(place_of(name)));
                bytes.count(*count);
            }
        }
        for ((distance, name), instance) in &self.inlined {
            bytes.word(*distance);
            instance.write(name, names, is_older, bytes);
        }
    }
}

/// The bytes of a file.
struct Bytes(Vec<u8>);

impl Bytes {
    fn word(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.word(u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn count(&mut self, sum: f64) {
        self.long(count(sum).unwrap_or(0));
    }

    /// A name with the zero behind it.
    fn name(&mut self, name: &str, in_words: bool) {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        if in_words {
            text.resize(text.len().next_multiple_of(4), 0);
            self.length(text.len() / 4);
        } else {
            self.length(text.len());
        }
        self.0.extend(text);
    }
}
