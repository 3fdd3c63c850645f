//! From directions to counts.

use std::collections::BTreeMap;

use crate::chain::Chain;
use crate::code::{Exit, FunctionCode};
use crate::evidence::Evidence;

/// How counts are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The share of the flow that interrupts draw ([`Chain::pull`]).
    pub pull: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { pull: 0.03 }
    }
}

/// By which way control went from one instruction to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Without a jump.
    Falls,
    /// By a direct jump or a conditional branch that was taken.
    Jumps,
    /// By an indirect jump.
    Indirect,
    /// By a call.
    Calls,
}

/// A way that control went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Address of the instruction that control came from: the last one of a block, or a call.
    pub from: u64,
    /// Address of the instruction that control went to.
    pub to: u64,
    /// How it went.
    pub way: Way,
    /// How often.
    pub count: f64,
}

/// How often the code of a function ran. One unit is a count that interrupts tell: a function's
/// instructions together ran as often as it has interrupts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Of each block, in the order of [`FunctionCode::blocks`].
    pub blocks: Vec<f64>,
    /// Of each way, by address. Ways that no direction and no interrupt speaks for are left out.
    pub edges: Vec<Edge>,
}

/// A way out of a block within the function or out of it, and its share.
struct Out {
    to: u64,
    way: Way,
    share: f64,
}

impl Counts {
    /// The counts of a function.
    #[must_use]
    pub fn of(function: &FunctionCode, evidence: &Evidence, options: Options) -> Counts {
        let samples: Vec<f64> = function
            .blocks
            .iter()
            .map(|block| evidence.samples_in(block.start, block.end))
            .collect();
        let drawn: Vec<f64> = function
            .blocks
            .iter()
            .zip(&samples)
            .map(|(block, samples)| samples / f64::from(block.instructions.max(1)))
            .collect();
        let outs: Vec<Vec<Out>> = (0..function.blocks.len())
            .map(|block| outs(function, block, evidence, &drawn))
            .collect();
        let to = outs.iter().map(|outs| {
            let inside = outs
                .iter()
                .filter_map(|out| Some((function.at(out.to)?, out.share)));
            inside.collect()
        });
        let chain = Chain {
            to: to.collect(),
            drawn,
            pull: options.pull,
        };
        let mut blocks = chain.stationary();
        scale(&mut blocks, function, samples.iter().sum());
        let mut edges = Vec::new();
        for ((block, outs), count) in function.blocks.iter().zip(&outs).zip(&blocks) {
            edges.extend(outs.iter().map(|out| Edge {
                from: block.last,
                to: out.to,
                way: out.way,
                count: count * out.share,
            }));
        }
        for call in &function.calls {
            let count = blocks.get(call.block).copied().unwrap_or(0.0);
            let way = |to, share| Edge {
                from: call.at,
                to,
                way: Way::Calls,
                count: count * share,
            };
            match call.to {
                Some(to) => edges.push(way(to, 1.0)),
                None => edges.extend(shares(evidence, call.at).map(|(to, share)| way(to, share))),
            }
        }
        edges.retain(|edge| edge.count > 0.0);
        edges.sort_by_key(|edge| (edge.from, edge.to, edge.way));
        Counts { blocks, edges }
    }
}

/// Makes all instructions together have run `samples` times.
fn scale(blocks: &mut [f64], function: &FunctionCode, samples: f64) {
    let run = blocks.iter().zip(&function.blocks);
    let run: f64 = run
        .map(|(count, block)| count * f64::from(block.instructions))
        .sum();
    let by = if run > 0.0 { samples / run } else { 0.0 };
    blocks.iter_mut().for_each(|count| *count *= by);
}

fn outs(function: &FunctionCode, index: usize, evidence: &Evidence, drawn: &[f64]) -> Vec<Out> {
    let Some(block) = function.blocks.get(index) else {
        return Vec::new();
    };
    let out = |to, way, share| Out { to, way, share };
    match block.exit {
        Exit::Falls => vec![out(block.end, Way::Falls, 1.0)],
        Exit::Jump(to) => vec![out(to, Way::Jumps, 1.0)],
        Exit::Branch(to) => {
            let near = |address| {
                let block = function.at(address).and_then(|at| drawn.get(at));
                block.copied().unwrap_or(0.0)
            };
            let seen = evidence.directions.get(&block.last).copied();
            let taken = taken(seen.unwrap_or_default(), [near(to), near(block.end)]);
            vec![
                out(to, Way::Jumps, taken),
                out(block.end, Way::Falls, 1.0 - taken),
            ]
        }
        Exit::Indirect => shares(evidence, block.last)
            .map(|(to, share)| out(to, Way::Indirect, share))
            .collect(),
        Exit::Ends => Vec::new(),
    }
}

/// The probability that a branch is taken: by its directions, and without any by the interrupts
/// behind it.
fn taken([taken, not]: [f64; 2], [there, behind]: [f64; 2]) -> f64 {
    if taken + not > 0.0 {
        taken / (taken + not)
    } else if there + behind > 0.0 {
        there / (there + behind)
    } else {
        0.5
    }
}

/// Where an indirect call or jump leads, and with which share of all that was seen.
fn shares(evidence: &Evidence, at: u64) -> impl Iterator<Item = (u64, f64)> + '_ {
    let inside: Option<&BTreeMap<u64, f64>> = evidence.targets.get(&at);
    let elsewhere = evidence.elsewhere.get(&at).copied().unwrap_or(0.0);
    let sum: f64 = inside.into_iter().flat_map(BTreeMap::values).sum::<f64>() + elsewhere;
    let inside = inside.into_iter().flatten();
    inside
        .filter(move |_| sum > 0.0)
        .map(move |(to, count)| (*to, count / sum))
}
