//! Call stacks of samples, merged: a calling-context tree, and the samples at its nodes.

use counters::{Counter, CounterKey, Group, Loss};
use profiledb::StackEnd;
use rustc_hash::FxHashMap;

use crate::events::{CallStack, Consumer, NONE, Options, Owner, PcId, Shared};
use machine::place::Pc;

/// A node: its caller's, or [`NONE`], and its instruction.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    pc: PcId,
}

/// Samples of one stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackCount {
    /// How many.
    pub samples: u64,
    /// What they stand for, in the clock's unit.
    pub weight: u64,
}

type Key = (Owner, u32, StackEnd);

/// Counts samples by their call stacks.
#[derive(Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    ids: FxHashMap<(u32, Pc), u32>,
    paths: FxHashMap<Key, StackCount>,
    /// Samples by the end of their stack.
    ends: [u64; StackEnd::ALL.len()],
}

/// Rough sizes of entries with their shares of the hash tables, in bytes.
const NODE_BYTES: usize = size_of::<Node>() + 2 * size_of::<((u32, Pc), u32)>();
const PATH_BYTES: usize = 2 * size_of::<(Key, StackCount)>();

impl Stacks {
    /// The node of a frame; `None` if there is no room.
    fn node(&mut self, shared: &mut Shared, parent: u32, pc: Pc) -> Option<u32> {
        if let Some(&node) = self.ids.get(&(parent, pc)) {
            return Some(node);
        }
        if shared.budget.is_over_full() {
            return None;
        }
        let id = shared.pc(pc)?;
        let node = u32::try_from(self.nodes.len())
            .ok()
            .filter(|n| *n != NONE)?;
        self.nodes.push(Node { parent, pc: id });
        self.ids.insert((parent, pc), node);
        shared.budget.charge(NODE_BYTES);
        Some(node)
    }

    /// Counts a stack; `None` if there is no room.
    fn add(&mut self, shared: &mut Shared, stack: &CallStack<'_>) -> Option<()> {
        let mut node = NONE;
        for pc in stack.frames.iter().rev() {
            node = self.node(shared, node, *pc)?;
        }
        let key = (stack.owner, node, stack.end);
        if !self.paths.contains_key(&key) {
            if shared.budget.is_over_full() {
                return None;
            }
            shared.budget.charge(PATH_BYTES);
        }
        let counted = self.paths.entry(key).or_default();
        counted.samples += 1;
        counted.weight = counted.weight.saturating_add(stack.weight);
        Some(())
    }

    /// The stacks: whose they are, the innermost node, and why there are no more frames.
    pub fn each(&self) -> impl Iterator<Item = (Owner, u32, StackEnd, StackCount)> {
        let all = self.paths.iter();
        all.map(|(&(owner, node, end), counted)| (owner, node, end, *counted))
    }

    /// The instructions from a node on outwards.
    pub fn frames(&self, node: u32) -> impl Iterator<Item = PcId> {
        let mut next = node;
        std::iter::from_fn(move || {
            let Node { parent, pc } = *self.nodes.get(next as usize)?;
            next = parent;
            Some(pc)
        })
    }

    /// Takes over the stacks of owners that pass the test; `pc` gives their PCs in the copy.
    pub(crate) fn copy(
        &mut self,
        from: &Self,
        shared: &mut Shared,
        takes: impl Fn(&Owner) -> bool,
        mut pc: impl FnMut(PcId) -> PcId,
    ) {
        let mut new_of = vec![NONE; from.nodes.len()];
        let all = from.paths.iter().filter(|((owner, ..), _)| takes(owner));
        let mut way = Vec::new();
        for (&(owner, node, end), counted) in all {
            let (mut at, mut parent) = (node, NONE);
            way.clear();
            while let Some(node) = from.nodes.get(at as usize) {
                if let Some(&known) = new_of.get(at as usize)
                    && known != NONE
                {
                    parent = known;
                    break;
                }
                way.push(at);
                at = node.parent;
            }
            for &old in way.iter().rev() {
                let (Some(node), Some(new)) =
                    (from.nodes.get(old as usize), new_of.get_mut(old as usize))
                else {
                    continue;
                };
                *new = u32::try_from(self.nodes.len()).unwrap_or(NONE);
                self.nodes.push(Node {
                    parent,
                    pc: pc(node.pc),
                });
                parent = *new;
                shared.budget.charge(NODE_BYTES);
            }
            self.paths.insert((owner, parent, end), *counted);
            shared.budget.charge(PATH_BYTES);
        }
    }

    /// Whose stacks there are.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.paths.keys().map(|(owner, ..)| *owner)
    }
}

impl Consumer for Stacks {
    fn new(_: &Options) -> Self {
        Self {
            nodes: Vec::new(),
            ids: FxHashMap::default(),
            paths: FxHashMap::default(),
            ends: [0; StackEnd::ALL.len()],
        }
    }

    fn stack(&mut self, shared: &mut Shared, stack: &CallStack<'_>) {
        match self.add(shared, stack) {
            Some(()) => self.ends[usize::from(stack.end.number())] += 1,
            None => shared.lost.count(Loss::TableFullStacks, 1),
        }
    }

    fn count(&self, add: &mut dyn FnMut(CounterKey, u64)) {
        for (end, samples) in StackEnd::ALL.into_iter().zip(self.ends) {
            add(CounterKey::of(Group::Stacks, end.name()), samples);
            if end.is_whole() {
                add(Counter::UserSamplesWithWholeStack.into(), samples);
            }
        }
    }
}
