//! `propeller`: which blocks of functions to lay out together, as clang reads it
//! (`-fbasic-block-sections=list=`), and in which order lld puts functions
//! (`--symbol-ordering-file`).
//!
//! This is what Propeller's tools write from records of branches. Blocks have the numbers that
//! the compiler gave them; a section of the program tells these ([`map`]).

mod layout;
mod map;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{ArgMatches, Args};
use flow::{Exit, Way};

use self::layout::{Arc, Node};
use self::map::Mapped;
use super::profgen::count;
use super::program::{Asked, CODE, CountedFunction, Program, options};
use super::{Export, Exported, at_once, next};
use crate::failure::Failure;
use crate::render::{counted, percent};
use crate::view::View;
use profiledb::Apart;

/// See the module.
pub(crate) const EXPORT: Export = Export {
    name: "propeller",
    about: "Blocks to lay out together, for clang -fbasic-block-sections=list=",
    more: "Name the program with --image; it must be built by clang with \
           -fbasic-block-address-map. The counts are computed from directions of branches. What \
           they rest on, and the commands that use them, are told on standard error.",
    is_binary: false,
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
    /// Write the order of functions instead, for lld's --symbol-ordering-file.
    #[arg(long)]
    order: bool,
}

/// The flag that has clang write the section with the numbers of blocks.
const FLAG: &str = "-fbasic-block-address-map";
/// Flags of a build whose blocks can be told.
const FLAGS: &str = "-O2 -fbasic-block-address-map -funique-internal-linkage-names";

/// A function with the blocks that ran.
#[derive(Debug)]
struct Laid<'p> {
    function: &'p CountedFunction,
    /// The numbers of the blocks that ran, in their new order.
    blocks: Vec<u32>,
    /// Bytes of these blocks.
    size: u64,
    /// Whether all of its blocks ran.
    is_whole: bool,
}

/// The functions that the file is about, and what is left out.
#[derive(Debug, Default)]
struct Layout<'p> {
    laid: Vec<Laid<'p>>,
    /// Samples in functions without numbers of blocks.
    unmapped: f64,
    /// Samples in functions whose names others have, too.
    ambiguous: f64,
}

fn write(view: &mut View<'_>, matches: &ArgMatches) -> Result<Exported, Failure> {
    let Options { few, order } = options(matches)?;
    let asked = Asked {
        kind: EXPORT.name,
        flags: FLAGS,
        is_for_compilers: true,
    };
    let program = Program::new(view, asked)?;
    let binary = program.path.display();
    let section = program.binary.section(map::SECTION).unwrap_or_default();
    if section.is_empty() {
        return Err(Failure::Nothing(format!(
            "{binary} has no section {}, which tells the numbers of blocks: build it with \
             clang {FLAGS}, and record that",
            map::SECTION
        )));
    }
    let maps = map::decode(&section)
        .map_err(|why| Failure::Input(format!("{binary}: section {}: {why}", map::SECTION)))?;
    let layout = Layout::of(&program, &maps);
    if layout.laid.is_empty() {
        return Err(Failure::Nothing(format!(
            "{binary}: no function that ran has numbers of blocks in section {}",
            map::SECTION
        )));
    }
    program.has_enough(few)?;
    view.notes.extend(program.coverage());
    view.notes.push(layout.coverage(&program));
    let file = next::file(matches.get_one("output"));
    let (text, next) = match order {
        true => {
            let used = next::command([format!("-Wl,--symbol-ordering-file={file}")]);
            let next = format!(
                "next: add -fuse-ld=lld {used} -Wl,--no-warn-symbol-ordering to the build with \
                 the list of blocks"
            );
            (layout.order(&program), next)
        }
        false => {
            let used = next::command([format!("-fbasic-block-sections=list={file}")]);
            let next = format!(
                "next: the same build with {used} -fuse-ld=lld in place of {FLAG}, and with what \
                 the option --order writes"
            );
            (layout.list(), next)
        }
    };
    Ok(Exported {
        bytes: text.into_bytes(),
        next: vec![next],
    })
}

impl<'p> Layout<'p> {
    fn of(program: &'p Program, maps: &BTreeMap<u64, Mapped>) -> Layout<'p> {
        let mut layout = Layout::default();
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for function in &program.functions {
            *seen.entry(function.name.as_str()).or_default() += 1;
        }
        for function in &program.functions {
            let start = function.code.blocks.first().map(|block| block.start);
            let Some(mapped) = start.and_then(|start| maps.get(&start)) else {
                layout.unmapped += function.samples;
                continue;
            };
            // A line of the list is of all functions with that name, in whatever file.
            let is_one = seen.get(function.name.as_str()) == Some(&1);
            let is_word = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
            if !is_one || !is_word(&function.name) {
                layout.ambiguous += function.samples;
                continue;
            }
            layout.laid.extend(laid(function, mapped));
        }
        layout
    }

    fn coverage(&self, program: &Program) -> String {
        let inside: f64 = self.laid.iter().map(|one| one.function.samples).sum();
        let blocks: usize = self.laid.iter().map(|one| one.blocks.len()).sum();
        let mut said = format!(
            "{} of {} are laid out anew, with {:.0} % of the samples",
            counted(blocks as u64, "block"),
            counted(self.laid.len() as u64, "function"),
            percent(inside, program.samples),
        );
        for (left_out, why) in [
            (self.unmapped, "numbers of blocks are not told"),
            (self.ambiguous, "names are not the only ones of their kind"),
        ] {
            if left_out >= 1.0 {
                let share = percent(left_out, program.samples);
                let _ = write!(said, "; functions whose {why}: {share:.0} %");
            }
        }
        said
    }

    /// The list of blocks, in the form of its first version.
    fn list(&self) -> String {
        let mut text = "v1\n".to_owned();
        for one in &self.laid {
            let numbers: Vec<String> = one.blocks.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "f {}\nc {}", one.function.name, numbers.join(" "));
        }
        text
    }

    /// The functions in their new order, and behind all of them the blocks that did not run.
    fn order(&self, program: &Program) -> String {
        let starts: BTreeMap<u64, usize> = self
            .laid
            .iter()
            .zip(0..)
            .filter_map(|(one, index)| Some((one.function.code.blocks.first()?.start, index)))
            .collect();
        let nodes: Vec<Node> = self
            .laid
            .iter()
            .map(|one| Node {
                size: one.size,
                weight: one.function.samples,
            })
            .collect();
        let mut calls: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (one, from) in self.laid.iter().zip(0..) {
            for edge in &one.function.counts.edges {
                // A jump out of the function is a call, too.
                if let Some(to) = starts.get(&edge.to).copied().filter(|to| *to != from) {
                    *calls.entry((from, to)).or_default() += edge.count;
                }
            }
        }
        let calls = calls
            .into_iter()
            .map(|((from, to), weight)| Arc { from, to, weight })
            .collect();
        let order = layout::functions(&nodes, calls);
        let names: Vec<&str> = order
            .into_iter()
            .filter_map(|index| Some(self.laid.get(index)?.function.name.as_str()))
            .collect();
        let mut text = String::new();
        for name in &names {
            let _ = writeln!(text, "{name}");
        }
        let known: BTreeSet<&str> = names.iter().copied().collect();
        let rest = program.functions.iter().map(|one| one.name.as_str());
        for name in rest.filter(|name| !name.is_empty() && !known.contains(name)) {
            let _ = writeln!(text, "{name}");
        }
        for one in self.laid.iter().filter(|one| !one.is_whole) {
            let _ = writeln!(text, "{}.cold", one.function.name);
        }
        text
    }
}

/// The blocks of a function that ran, in their new order; `None`: none ran.
fn laid<'p>(function: &'p CountedFunction, mapped: &Mapped) -> Option<Laid<'p>> {
    let blocks = &mapped.blocks;
    let around = |address: u64| {
        let index = blocks.partition_point(|block| block.start <= address);
        let index = index.checked_sub(1)?;
        (address < blocks.get(index)?.end).then_some(index)
    };
    let mut counts = vec![0.0_f64; blocks.len()];
    let mut arcs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (block, ran) in function.code.blocks.iter().zip(&function.counts.blocks) {
        // Where code runs on from one of the compiler's blocks into the next, ours does not end.
        let (Some(first), Some(last)) = (around(block.start), around(block.last)) else {
            continue;
        };
        for index in first..=last {
            if let Some(count) = counts.get_mut(index) {
                *count = count.max(*ran);
            }
            if index > first {
                *arcs.entry((index - 1, index)).or_default() += ran;
            }
        }
        if block.exit == Exit::Falls
            && let Some(next) = around(block.end).filter(|next| *next != last)
        {
            *arcs.entry((last, next)).or_default() += ran;
        }
    }
    for edge in &function.counts.edges {
        let is_counted = function
            .code
            .around(edge.from)
            .and_then(|at| function.code.blocks.get(at))
            .is_some_and(|block| block.exit == Exit::Falls);
        if edge.way == Way::Calls || is_counted {
            continue;
        }
        if let (Some(from), Some(to)) = (around(edge.from), around(edge.to))
            && from != to
            && blocks.get(to).is_some_and(|block| block.start == edge.to)
        {
            *arcs.entry((from, to)).or_default() += edge.count;
        }
    }
    let is_hot = |index: usize| {
        // The entry leads, whatever is known of it.
        index == 0 || counts.get(index).is_some_and(|ran| count(*ran).is_some())
    };
    if !counts.iter().any(|ran| count(*ran).is_some()) {
        return None;
    }
    let hot: Vec<usize> = (0..blocks.len()).filter(|index| is_hot(*index)).collect();
    let place: BTreeMap<usize, usize> = hot.iter().copied().zip(0..).collect();
    let nodes: Vec<Node> = hot
        .iter()
        .filter_map(|index| {
            let block = blocks.get(*index)?;
            let size = block.end - block.start;
            Some(Node {
                size,
                weight: counts.get(*index)? * layout::as_float(size),
            })
        })
        .collect();
    let mut ways: BTreeMap<usize, u32> = BTreeMap::new();
    for ((from, _), weight) in &arcs {
        if *weight > 0.0 {
            *ways.entry(*from).or_default() += 1;
        }
    }
    let arcs = arcs.into_iter().filter_map(|((from, to), weight)| {
        let by = match ways.get(&from) {
            Some(1) => layout::ONLY_WAY,
            _ => 1.0,
        };
        Some(Arc {
            from: *place.get(&from)?,
            to: *place.get(&to)?,
            weight: weight * by,
        })
    });
    let order = layout::blocks(&nodes, arcs.collect());
    let numbers = order.into_iter().filter_map(|at| {
        let block = blocks.get(*hot.get(at)?)?;
        Some(block.number)
    });
    Some(Laid {
        function,
        blocks: numbers.collect(),
        is_whole: hot.len() == blocks.len(),
        size: nodes.iter().map(|node| node.size).sum(),
    })
}
