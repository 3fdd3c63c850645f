//! The call stacks as one tree, for the flame graph and the tree of calls.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::export::stacks::{self, Sample, Stacks, UNKNOWN_CALLERS, process_name};
use crate::failure::Failure;
use crate::names;
use crate::render::whole;
use crate::view::{Heat, View};

/// Nodes of a page at most. What is rarer is told by its number.
const MOST: usize = 40_000;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FrameKind {
    User,
    Kernel,
    Inlined,
    Process,
    Cut,
}

/// A frame: name, image, kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TreeFrame(String, String, FrameKind);

/// The tree in preorder; the vectors are of one length.
#[derive(Debug, Default, Serialize)]
pub(super) struct Tree {
    /// Whether there are stacks of more than one caller.
    kept: bool,
    /// Short name, image and kind of each frame.
    frames: Vec<(String, String, &'static str)>,
    /// How many nodes are above each.
    depth: Vec<u16>,
    /// Index of the frame of each.
    frame: Vec<usize>,
    /// Cycles of the samples whose stack comes by.
    cycles: Vec<u64>,
    /// Samples whose stack comes by.
    samples: Vec<u64>,
    /// Cycles of the samples whose stack ends there.
    own: Vec<u64>,
    /// Samples with all their frames.
    whole: u64,
    /// Samples by why their stack was cut.
    cut: BTreeMap<&'static str, u64>,
    /// Nodes that were left out, being the rarest.
    left_out: usize,
}

/// A node that is being added to.
#[derive(Debug, Default)]
struct TreeNode {
    heat: Heat,
    own: f64,
    next: BTreeMap<usize, TreeNode>,
}

/// Tells frames by their index.
#[derive(Debug, Default)]
struct Frames {
    of: BTreeMap<TreeFrame, usize>,
}

impl Frames {
    fn index(&mut self, frame: TreeFrame) -> usize {
        let next = self.of.len();
        *self.of.entry(frame).or_insert(next)
    }
}

impl FrameKind {
    fn name(self) -> &'static str {
        match self {
            FrameKind::User => "user",
            FrameKind::Kernel => "kernel",
            FrameKind::Inlined => "inlined",
            FrameKind::Process => "process",
            FrameKind::Cut => "cut",
        }
    }
}

impl Tree {
    /// The tree of what a view wants.
    pub(super) fn new(view: &mut View<'_>) -> Result<Tree, Failure> {
        let stacks = Stacks::new(view)?;
        let kept = !view.profile.stacks.is_empty();
        let mut tree = Tree {
            kept,
            ..Tree::default()
        };
        let mut frames = Frames::default();
        let mut ways = Ways::new(&stacks, kept);
        let mut root = TreeNode::default();
        for sample in &stacks.samples {
            match sample.cut {
                None => tree.whole += sample.heat.samples,
                Some(why) => *tree.cut.entry(why).or_default() += sample.heat.samples,
            }
            let mut at = &mut root;
            at.heat.add(sample.heat);
            for frame in ways.of(sample, &mut frames) {
                at = at.next.entry(*frame).or_default();
                at.heat.add(sample.heat);
            }
            at.own += sample.heat.cycles;
        }
        let least = least(&root);
        tree.add(&root, 0, least);
        let mut in_order: Vec<(TreeFrame, usize)> = frames.of.into_iter().collect();
        in_order.sort_by_key(|(_, index)| *index);
        let told = in_order
            .into_iter()
            .map(|(TreeFrame(name, image, kind), _)| (names::short(&name), image, kind.name()));
        tree.frames = told.collect();
        Ok(tree)
    }

    /// Adds what is below a node, the hottest first.
    fn add(&mut self, node: &TreeNode, depth: u16, least: f64) {
        let mut next: Vec<(&usize, &TreeNode)> = node.next.iter().collect();
        next.sort_by(|a, b| {
            b.1.heat
                .cycles
                .total_cmp(&a.1.heat.cycles)
                .then(a.0.cmp(b.0))
        });
        for (frame, node) in next {
            if node.heat.cycles < least {
                self.left_out += count(node);
                continue;
            }
            self.depth.push(depth);
            self.frame.push(*frame);
            self.cycles.push(whole(node.heat.cycles));
            self.samples.push(node.heat.samples);
            self.own.push(whole(node.own));
            self.add(node, depth.saturating_add(1), least);
        }
    }
}

/// The frames of samples, each process and location looked at once.
struct Ways<'s, 'p> {
    stacks: &'s Stacks<'p>,
    /// Stacks of more than one caller were kept.
    kept: bool,
    /// The name of each process that there is, if there are several names.
    processes: BTreeMap<usize, String>,
    /// The frames of each location that was met, the outermost first.
    of_location: Vec<Option<Vec<usize>>>,
    /// Those of the last sample.
    way: Vec<usize>,
}

impl<'s, 'p> Ways<'s, 'p> {
    fn new(stacks: &'s Stacks<'p>, kept: bool) -> Ways<'s, 'p> {
        let mut processes = BTreeMap::new();
        for sample in &stacks.samples {
            let name = || process_name(stacks.process(sample));
            processes.entry(sample.process).or_insert_with(name);
        }
        if processes.values().collect::<BTreeSet<_>>().len() <= 1 {
            processes.clear();
        }
        Ways {
            stacks,
            kept,
            processes,
            of_location: vec![None; stacks.locations.len()],
            way: Vec::new(),
        }
    }

    /// The frames of a sample, the outermost first.
    fn of(&mut self, sample: &Sample, frames: &mut Frames) -> &[usize] {
        let bare = |name: &str, kind| TreeFrame(name.to_owned(), String::new(), kind);
        self.way.clear();
        if let Some(name) = self.processes.get(&sample.process) {
            self.way.push(frames.index(bare(name, FrameKind::Process)));
        }
        // Where no stacks were kept, that is said once.
        if sample.cut.is_some() && self.kept {
            self.way
                .push(frames.index(bare(UNKNOWN_CALLERS, FrameKind::Cut)));
        }
        for location in sample.locations.iter().rev() {
            if let Some(known) = self.of_location.get_mut(*location) {
                let look = || frames_at(self.stacks, *location, frames);
                self.way.extend_from_slice(known.get_or_insert_with(look));
            }
        }
        &self.way
    }
}

/// The frames of a location, the outermost first.
fn frames_at(stacks: &Stacks<'_>, location: usize, frames: &mut Frames) -> Vec<usize> {
    let Some(location) = stacks.locations.get(location) else {
        return Vec::new();
    };
    let index = |frame: &stacks::SourceFrame| {
        let kind = match frame.is_inlined {
            true => FrameKind::Inlined,
            false if stacks.is_kernel(location.image) => FrameKind::Kernel,
            false => FrameKind::User,
        };
        let function = stacks.functions.get(frame.function);
        let name = function.map_or("?", |function| &function.name);
        let frame = TreeFrame(name.to_owned(), stacks.path(location.image), kind);
        frames.index(frame)
    };
    location.frames.iter().rev().map(index).collect()
}

/// How many nodes there are from one on.
fn count(node: &TreeNode) -> usize {
    1 + node.next.values().map(count).sum::<usize>()
}

/// What a node must have at least, for there to be room for all that have it.
fn least(root: &TreeNode) -> f64 {
    fn gather(node: &TreeNode, all: &mut Vec<f64>) {
        for next in node.next.values() {
            all.push(next.heat.cycles);
            gather(next, all);
        }
    }
    let mut all = Vec::new();
    gather(root, &mut all);
    all.sort_by(|a, b| b.total_cmp(a));
    match all.get(MOST) {
        // Those that have as much are left out as well.
        Some(first_without) => first_without.next_up(),
        None => 0.0,
    }
}
