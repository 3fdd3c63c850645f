//! The call stacks as one tree, for the flame graph and the tree of calls.

use std::collections::BTreeMap;

use foldhash::HashMap;
use profiledb::rows::ImageKind;
use serde::Serialize;

use crate::export::stacks::paths::{Origin, Path, each_path, frequent_paths};
use crate::export::stacks::{
    Location, Locations, Programs, SourceFrame, UNKNOWN_CALLERS, process_name,
};
use crate::failure::Failure;
use crate::names;
use crate::render::{clean, whole};
use crate::report::nothing;
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
#[derive(Debug)]
struct TreeNode {
    index: u32,
    parent: u32,
    frame: u32,
    heat: Heat,
    own: f64,
}

/// The nodes, each behind what is above it. There are many of them: they are small.
#[derive(Debug)]
struct Nodes {
    all: Vec<TreeNode>,
    /// The node of a frame below another node.
    below: HashMap<(u32, u32), u32>,
}

/// What all others are below.
const ROOT: u32 = 0;

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

impl Nodes {
    fn new() -> Nodes {
        let root = TreeNode {
            index: ROOT,
            parent: ROOT,
            frame: 0,
            heat: Heat::default(),
            own: 0.0,
        };
        Nodes {
            all: vec![root],
            below: HashMap::default(),
        }
    }

    /// The node of a frame below a node. There is none for those of more than 2^32.
    fn below(&mut self, parent: u32, frame: usize) -> Option<u32> {
        let frame = u32::try_from(frame).ok()?;
        let next = u32::try_from(self.all.len()).ok()?;
        let node = *self.below.entry((parent, frame)).or_insert(next);
        if node == next {
            self.all.push(TreeNode {
                index: next,
                parent,
                frame,
                heat: Heat::default(),
                own: 0.0,
            });
        }
        Some(node)
    }

    fn get_mut(&mut self, node: u32) -> Option<&mut TreeNode> {
        self.all.get_mut(node as usize)
    }

    /// Adds interrupts to the nodes of some frames, each below the one before.
    fn add(&mut self, way: &[usize], heat: Heat) {
        let mut at = ROOT;
        for frame in std::iter::once(None).chain(way.iter().map(Some)) {
            if let Some(frame) = frame {
                match self.below(at, *frame) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            if let Some(node) = self.get_mut(at) {
                node.heat.add(heat);
            }
        }
        if let Some(node) = self.get_mut(at) {
            node.own += heat.cycles;
        }
    }

    /// What a node must have at least, for there to be room for all that have it.
    fn least(&self) -> f64 {
        let mut all: Vec<f64> = self.all.iter().skip(1).map(|of| of.heat.cycles).collect();
        if all.len() <= MOST {
            return 0.0;
        }
        let (_, first_without, _) = all.select_nth_unstable_by(MOST, |a, b| b.total_cmp(a));
        // Those that have as much are left out as well.
        first_without.next_up()
    }
}

impl Tree {
    /// The tree of what a view wants.
    ///
    /// # Errors
    /// If there are no interrupts.
    pub(super) fn new(view: &mut View<'_>) -> Result<Tree, Failure> {
        let kept = !view.profile.stacks.is_empty();
        let mut tree = Tree {
            kept,
            ..Tree::default()
        };
        let programs = Programs::new(view.profile);
        let are_several = are_several(view, &programs);
        let origin = |origin: Origin| programs.of(origin.process);
        let mut frames = Frames::default();
        let mut nodes = Nodes::new();
        let mut add = |ways: &mut Ways<'_, '_>, path: &Path<usize>, heat: Heat| {
            if heat.samples == 0 {
                return;
            }
            match path.cut {
                None => tree.whole += heat.samples,
                Some(why) => *tree.cut.entry(why).or_default() += heat.samples,
            }
            nodes.add(ways.of(path, &mut frames), heat);
        };
        if view.min_samples > 1 {
            let paths = frequent_paths(view, origin)?;
            let pcs = paths.keys().flat_map(|path| &path.pcs);
            let locations = Locations::new(view, pcs.copied());
            let mut ways = Ways::new(view, are_several, &locations);
            for (path, heat) in &paths {
                add(&mut ways, path, *heat);
            }
        } else {
            let locations = Locations::new(view, pcs(view));
            let mut ways = Ways::new(view, are_several, &locations);
            each_path(view, origin, &mut |path, heat| add(&mut ways, &path, heat));
        }
        if nodes.all.first().is_none_or(|root| root.heat.samples == 0) {
            return Err(nothing("samples"));
        }
        tree.take(nodes);
        let mut in_order: Vec<(TreeFrame, usize)> = frames.of.into_iter().collect();
        in_order.sort_by_key(|(_, index)| *index);
        let told = in_order
            .into_iter()
            .map(|(TreeFrame(name, image, kind), _)| (names::short(&name), image, kind.name()));
        tree.frames = told.collect();
        Ok(tree)
    }

    /// Takes the nodes that there is room for, those below a node the hottest first.
    fn take(&mut self, nodes: Nodes) {
        let least = nodes.least();
        let Nodes { all, below } = nodes;
        drop(below);
        let mut kept: Vec<&TreeNode> = all.iter().skip(1).collect();
        kept.retain(|node| node.heat.cycles >= least);
        kept.sort_by(|a, b| {
            let by_cycles = b.heat.cycles.total_cmp(&a.heat.cycles);
            let by_parent = a.parent.cmp(&b.parent);
            by_parent.then(by_cycles).then(a.frame.cmp(&b.frame))
        });
        let below = |node: u32| {
            let start = kept.partition_point(|of| of.parent < node);
            let end = kept.partition_point(|of| of.parent <= node);
            kept.get(start..end).unwrap_or_default().iter().rev()
        };
        self.left_out = all.len() - 1;
        let mut next: Vec<(&TreeNode, u16)> = below(ROOT).map(|node| (*node, 0)).collect();
        while let Some((node, depth)) = next.pop() {
            self.left_out -= 1;
            self.depth.push(depth);
            self.frame.push(node.frame as usize);
            self.cycles.push(whole(node.heat.cycles));
            self.samples.push(node.heat.samples);
            self.own.push(whole(node.own));
            let depth = depth.saturating_add(1);
            next.extend(below(node.index).map(|node| (*node, depth)));
        }
    }
}

/// The PCs of the stacks that a view wants, some of them more than once.
fn pcs<'v>(view: &'v View<'_>) -> impl Iterator<Item = usize> + 'v {
    let profile = view.profile;
    let rows = profile.cycles.iter().filter(|row| view.wants(row.pc));
    let rows = rows.flat_map(|row| std::iter::once(row.pc).chain(row.caller));
    let stacks = profile.stacks.iter().filter(|row| {
        let leaf = profile.frames(row).next();
        leaf.is_some_and(|leaf| view.wants(leaf.pc))
    });
    let frames = stacks.flat_map(|row| profile.frames(row));
    rows.chain(frames.map(|frame| frame.pc))
}

/// Whether there are interrupts of several programs among those that a view wants.
fn are_several(view: &View<'_>, programs: &Programs) -> bool {
    let rows = view.profile.cycles.iter().filter(|row| view.wants(row.pc));
    let mut of_rows = rows.map(|row| programs.of(row.process));
    let first = of_rows.next();
    of_rows.any(|program| Some(program) != first)
}

/// The frames of paths, each location looked at once.
struct Ways<'v, 'p> {
    view: &'v View<'p>,
    /// There are several programs, which are told.
    are_several: bool,
    locations: &'v Locations,
    /// The frames of each location that was met, the outermost first.
    of_location: Vec<Option<Vec<usize>>>,
    /// Those of the last path.
    way: Vec<usize>,
}

impl<'v, 'p> Ways<'v, 'p> {
    fn new(view: &'v View<'p>, are_several: bool, locations: &'v Locations) -> Ways<'v, 'p> {
        Ways {
            view,
            are_several,
            locations,
            of_location: vec![None; locations.locations.len()],
            way: Vec::new(),
        }
    }

    /// The frames of a path, the outermost first.
    fn of(&mut self, path: &Path<usize>, frames: &mut Frames) -> &[usize] {
        let bare = |name: &str, kind| TreeFrame(name.to_owned(), String::new(), kind);
        self.way.clear();
        if self.are_several {
            let name = process_name(self.view.profile.processes.get(path.of));
            self.way.push(frames.index(bare(&name, FrameKind::Process)));
        }
        // Where no stacks were kept, that is said once.
        if path.cut.is_some() && !self.view.profile.stacks.is_empty() {
            self.way
                .push(frames.index(bare(UNKNOWN_CALLERS, FrameKind::Cut)));
        }
        for pc in path.pcs.iter().rev() {
            let Some(index) = self.locations.of_pc.get(pc) else {
                continue;
            };
            let location = self.locations.locations.get(*index);
            if let Some((known, location)) = self.of_location.get_mut(*index).zip(location) {
                let look = || frames_at(self.view, self.locations, location, frames);
                self.way.extend_from_slice(known.get_or_insert_with(look));
            }
        }
        &self.way
    }
}

/// The frames of a location, the outermost first.
fn frames_at(
    view: &View<'_>,
    locations: &Locations,
    location: &Location,
    frames: &mut Frames,
) -> Vec<usize> {
    let image = view.profile.images.get(location.image);
    let is_kernel = image.is_some_and(|image| image.kind == ImageKind::Kernel);
    let path = image.map_or_else(|| "?".to_owned(), |image| clean(&image.path));
    let index = |frame: &SourceFrame| {
        let kind = match frame.is_inlined {
            true => FrameKind::Inlined,
            false if is_kernel => FrameKind::Kernel,
            false => FrameKind::User,
        };
        let function = locations.functions.get(frame.function);
        let name = function.map_or("?", |function| &function.name);
        frames.index(TreeFrame(name.to_owned(), path.clone(), kind))
    };
    location.frames.iter().rev().map(index).collect()
}
