//! Counts by contexts: those of a function apart for each way of calls that leads to it, so that
//! the compiler may treat its callers differently (the context-sensitive form of llvm-profgen's
//! unsymbolized profiles).
//!
//! How often a function ran comes from directions of branches; how that divides among its callers
//! comes from the interrupts in it, as far as their callers are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use flow::Way;

use super::{PlaceSums, rows};
use crate::export::program::positions::{LookUp, Position, positions};
use crate::export::program::{CountedFunction, Program};
use crate::export::stacks::paths::paths;
use crate::view::View;

/// Calls that are told apart at most, from the function outwards.
const DEEPEST: usize = 8;
/// Interrupts below which a way of calls is not told apart from others.
const FEWEST: f64 = 10.0;
/// Ways of calls to one function.
const MOST: usize = 64;

/// What divides counts among contexts.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// By the address where a function begins.
    functions: BTreeMap<u64, CallerTree>,
    /// Interrupts with at least one caller in the program, in parts of all in its functions.
    pub(super) known: f64,
}

/// Interrupts in a function, by the calls that lead there.
#[derive(Debug, Default)]
struct CallerTree {
    /// Those of which no more calls are known.
    own: f64,
    /// By the address of the call one further out.
    callers: BTreeMap<u64, CallerTree>,
}

impl CallerTree {
    fn sum(&self) -> f64 {
        self.own + self.callers.values().map(CallerTree::sum).sum::<f64>()
    }

    /// Takes ways that are too thin for those that they are parts of.
    fn thin_out(&mut self) {
        let thin = |tree: &CallerTree| tree.sum() < FEWEST;
        self.own += self
            .callers
            .values()
            .filter(|tree| thin(tree))
            .map(CallerTree::sum)
            .sum::<f64>();
        self.callers.retain(|_, tree| !thin(tree));
        for tree in self.callers.values_mut() {
            tree.thin_out();
        }
    }

    /// The ways, each from the function outwards, with their interrupts.
    fn ways(&self, before: &[u64], ways: &mut Vec<(Vec<u64>, f64)>) {
        if self.own > 0.0 {
            ways.push((before.to_vec(), self.own));
        }
        for (call, tree) in &self.callers {
            tree.ways(&[before, &[*call]].concat(), ways);
        }
    }
}

impl Callers {
    /// Those of a program's functions.
    pub(super) fn of(view: &View<'_>, program: &Program) -> Callers {
        let mut callers = Callers::default();
        let place = |pc: usize| {
            let at = view.profile.pcs.get(pc)?;
            program.images.contains(&at.image).then_some(at.address)
        };
        let (mut all, mut known) = (0.0, 0.0);
        for (path, heat) in paths(view, |_| ()) {
            let mut addresses = path.pcs.iter().map_while(|pc| place(*pc));
            let Some(function) = addresses.next().and_then(|leaf| program.function_at(leaf)) else {
                continue;
            };
            let samples = heat.samples as f64;
            all += samples;
            let mut tree = callers.functions.entry(function).or_default();
            let mut inside = BTreeSet::from([function]);
            let mut depth = 0;
            for call in addresses.take(DEEPEST) {
                // Of recursion the compiler makes a context without callers.
                match program.function_at(call) {
                    Some(caller) if inside.insert(caller) => {}
                    _ => break,
                }
                tree = tree.callers.entry(call).or_default();
                depth += 1;
            }
            tree.own += samples;
            if depth > 0 {
                known += samples;
            }
        }
        callers.known = if all > 0.0 { known / all } else { 0.0 };
        for tree in callers.functions.values_mut() {
            tree.thin_out();
        }
        callers
    }

    /// The ways that lead to a function, with their parts of its counts.
    fn shares(&self, function: u64) -> Vec<(Vec<u64>, f64)> {
        let mut ways = Vec::new();
        if let Some(tree) = self.functions.get(&function) {
            tree.ways(&[], &mut ways);
        }
        // Those beyond a bound are part of what is not told apart.
        ways.sort_by(|one, other| other.1.total_cmp(&one.1));
        let rest: f64 = ways.drain(MOST.min(ways.len())..).map(|(_, sum)| sum).sum();
        if rest > 0.0 || ways.is_empty() {
            ways.push((Vec::new(), rest.max(f64::MIN_POSITIVE)));
        }
        let all: f64 = ways.iter().map(|(_, sum)| sum).sum();
        ways.into_iter()
            .map(|(way, sum)| (way, sum / all))
            .collect()
    }
}

/// Counts of one context: ranges of instructions, and branches.
#[derive(Debug, Default)]
struct ContextCounts {
    ranges: PlaceSums,
    branches: PlaceSums,
}

/// A profile by contexts.
#[derive(Debug, Default)]
pub(super) struct ContextProfile {
    contexts: BTreeMap<String, ContextCounts>,
}

impl ContextProfile {
    /// The profile of a program; `None`: it has no debug information.
    pub(super) fn of(program: &Program, callers: &Callers) -> Option<ContextProfile> {
        let debug = program.debug()?;
        positions(&debug, |look_up| {
            let mut profile = ContextProfile::default();
            for function in &program.functions {
                profile.add(program, function, callers, look_up);
            }
            profile
        })
    }

    fn add(
        &mut self,
        program: &Program,
        function: &CountedFunction,
        callers: &Callers,
        look_up: &mut LookUp<'_>,
    ) {
        // The counts of the function by what is inlined in it.
        let mut inside: BTreeMap<String, ContextCounts> = BTreeMap::new();
        for (block, count) in function.code.blocks.iter().zip(&function.counts.blocks) {
            let addresses = program.instructions(block.start, block.end);
            let contexts = look_up(&addresses);
            let contexts = contexts.iter().map(innermost);
            let mut open: Option<(String, u64, u64)> = None;
            let mut close = |run: Option<(String, u64, u64)>| {
                if let Some((context, first, last)) = run {
                    let ranges = &mut inside.entry(context).or_default().ranges;
                    *ranges.entry((first, last)).or_default() += count;
                }
            };
            for (address, context) in addresses.iter().zip(contexts) {
                open = match (open.take(), context) {
                    (Some((same, first, _)), Some(context)) if same == context => {
                        Some((same, first, *address))
                    }
                    (before, context) => {
                        close(before);
                        context.map(|context| (context, *address, *address))
                    }
                };
            }
            close(open);
        }
        let edges = function.counts.edges.iter();
        let edges: Vec<_> = edges.filter(|edge| edge.way != Way::Falls).collect();
        let from: Vec<u64> = edges.iter().map(|edge| edge.from).collect();
        for (edge, position) in edges.iter().zip(look_up(&from)) {
            if let Some(context) = innermost(&position) {
                let branches = &mut inside.entry(context).or_default().branches;
                *branches.entry((edge.from, edge.to)).or_default() += edge.count;
            }
        }
        for (way, share) in callers.shares(function.start()) {
            // Beyond a call whose line is not known, there is no context. The outermost comes
            // first.
            let calls: Vec<String> = look_up(&way).iter().map_while(call).collect();
            let calls: String = calls.into_iter().rev().collect();
            for (context, counts) in &inside {
                let all = self
                    .contexts
                    .entry(format!("{calls}{context}"))
                    .or_default();
                for (sums, more) in [
                    (&mut all.ranges, &counts.ranges),
                    (&mut all.branches, &counts.branches),
                ] {
                    for (key, count) in more {
                        *sums.entry(*key).or_default() += count * share;
                    }
                }
            }
        }
    }

    /// How many contexts there are.
    pub(super) fn len(&self) -> usize {
        self.contexts.len()
    }

    /// The profile; empty without a range.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (context, counts) in &self.contexts {
            let rows = rows(&counts.ranges, &counts.branches);
            if !rows.is_empty() {
                let _ = writeln!(text, "[{context}]");
                text.push_str(&rows);
            }
        }
        text
    }
}

/// A name as contexts have it: without what LLVM puts behind those of copies.
fn canonical(name: &str) -> &str {
    let cut = [".llvm.", ".part."]
        .iter()
        .filter_map(|suffix| name.rfind(suffix))
        .min();
    name.get(..cut.unwrap_or(name.len())).unwrap_or(name)
}

/// The frames of a position with their places, the outermost first.
fn frames(position: &Position) -> Option<Vec<(&str, String)>> {
    /// Lines of a function have so many bits.
    const LINES: u32 = 0xffff;
    let frames = position.frames.iter().zip(&position.discriminators).rev();
    let frames: Option<Vec<_>> = frames
        .map(|(frame, discriminator)| {
            if frame.line == 0 || frame.declared == 0 {
                return None;
            }
            let line = frame.line.wrapping_sub(frame.declared) & LINES;
            let place = match discriminator {
                0 => line.to_string(),
                some => format!("{line}.{some}"),
            };
            Some((canonical(&frame.name), place))
        })
        .collect();
    frames.filter(|frames| !frames.is_empty())
}

/// Calls with their places, in front of what they call.
fn in_front(calls: &[(&str, String)]) -> String {
    calls
        .iter()
        .map(|(name, place)| format!("{name}:{place} @ "))
        .collect()
}

/// A call, with those that were inlined around it.
fn call(position: &Position) -> Option<String> {
    frames(position).map(|frames| in_front(&frames))
}

/// What is around an instruction in its function: calls that were inlined, and the innermost
/// function.
fn innermost(position: &Position) -> Option<String> {
    let frames = frames(position)?;
    let ((last, _), outer) = frames.split_last()?;
    Some(in_front(outer) + last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ways with few interrupts become part of the way that they are longer than, and shares add
    /// up to all.
    #[test]
    fn thin_ways() {
        let leaf = |own| CallerTree {
            own,
            ..CallerTree::default()
        };
        let mut tree = CallerTree {
            own: 5.0,
            callers: BTreeMap::from([
                (1, leaf(60.0)),
                (2, leaf(4.0)),
                (
                    3,
                    CallerTree {
                        own: 8.0,
                        callers: BTreeMap::from([(9, leaf(3.0)), (8, leaf(20.0))]),
                    },
                ),
            ]),
        };
        tree.thin_out();
        let mut ways = Vec::new();
        tree.ways(&[], &mut ways);
        assert_eq!(
            ways,
            [
                (vec![], 9.0),
                (vec![1], 60.0),
                (vec![3], 11.0),
                (vec![3, 8], 20.0)
            ]
        );
        let callers = Callers {
            functions: BTreeMap::from([(0x10, tree)]),
            known: 1.0,
        };
        let shares = callers.shares(0x10);
        assert_eq!(shares[0], (vec![1], 0.6));
        assert!((shares.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        // What no interrupt is in has no callers.
        assert_eq!(callers.shares(0x20), [(vec![], 1.0)]);
    }

    /// Names are those that the compiler looks for.
    #[test]
    fn canonical_names() {
        assert_eq!(canonical("f.llvm.123"), "f");
        assert_eq!(canonical("f.part.0"), "f");
        assert_eq!(canonical("f.__uniq.42"), "f.__uniq.42");
    }
}
