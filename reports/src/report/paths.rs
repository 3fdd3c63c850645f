//! `cg --tree` and `cg --up`: whole paths of calls, as trees.

use std::collections::BTreeMap;

use profiledb::{StackEnd, StackRow};
use serde::{Serialize, Serializer};

use super::nothing;
use crate::model::Model;
use crate::names::Names;
use crate::page::Page;
use crate::query::Answer;
use crate::render::{counted, percent, rounded};
use crate::symbols::FunctionId;
use crate::view::{Heat, View, as_float};

/// Which way a tree grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From callers to what they call.
    Down,
    /// From functions to who calls them.
    Up,
}

/// Nodes below this share of all are left out of the text.
const LEAST: f64 = 0.5;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathNode {
    /// A function.
    Function(FunctionId),
    /// An instruction that is in no function.
    Elsewhere(usize),
    /// What is beyond a stack that was cut.
    Cut(StackEnd),
}

/// A node that is being added to.
#[derive(Debug, Default)]
struct PathSum {
    /// All samples whose path comes by.
    heat: Heat,
    /// Those whose path ends here.
    own: Heat,
    next: BTreeMap<PathNode, PathSum>,
}

/// A node as it is told, with those below it.
#[derive(Debug, Serialize)]
struct ToldNode {
    #[serde(flatten)]
    told: ToldPlace,
    nodes: Vec<ToldNode>,
}

/// A node by itself.
#[derive(Debug, Serialize)]
struct ToldPlace {
    /// The function; `null`: callers that are not known.
    function: Option<String>,
    image: Option<String>,
    /// Why the callers are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<&'static str>,
    samples: u64,
    /// Of the time in all that the tree is about.
    percent: f64,
    /// Of these the time in the function itself; where the tree grows upwards, of paths that end.
    own_percent: f64,
}

/// Nodes with those below them.
#[derive(Debug)]
struct ToldNodes {
    roots: Vec<ToldNode>,
    /// For programs they are rows, none within another.
    is_flat: bool,
}

/// A node as a row.
#[derive(Debug, Serialize)]
struct NodeRow<'a> {
    /// Where it stands among the rows.
    id: usize,
    /// The row that it is below; `null`: none.
    parent: Option<usize>,
    /// How many are above it.
    depth: usize,
    #[serde(flatten)]
    told: &'a ToldPlace,
}

impl Serialize for ToldNodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_flat {
            return self.roots.serialize(serializer);
        }
        let mut all = Vec::new();
        add_rows(&self.roots, None, 0, &mut all);
        all.serialize(serializer)
    }
}

/// Adds nodes as rows, each before those below it.
fn add_rows<'a>(
    nodes: &'a [ToldNode],
    parent: Option<usize>,
    depth: usize,
    all: &mut Vec<NodeRow<'a>>,
) {
    for node in nodes {
        let id = all.len();
        all.push(NodeRow {
            id,
            parent,
            depth,
            told: &node.told,
        });
        add_rows(&node.nodes, Some(id), depth + 1, all);
    }
}

/// A tree with what it stands for.
#[derive(Debug, Serialize)]
struct Tree {
    direction: &'static str,
    base: &'static str,
    samples: u64,
    /// Samples of these whose path has all its frames.
    whole: u64,
    nodes: ToldNodes,
    /// Lines of the text at most; `None`: all.
    #[serde(skip)]
    most: Option<usize>,
}

/// The report; `is_flat`: for programs its nodes are rows.
pub(crate) fn answer<'p>(view: &mut View<'p>, direction: Direction, is_flat: bool) -> Answer<'p> {
    let mut root = PathSum::default();
    let mut whole = 0_u64;
    for row in &view.profile.stacks {
        let Some(way) = way(view, row, direction) else {
            continue;
        };
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        if row.end.is_whole() {
            whole = whole.saturating_add(row.samples);
        }
        let mut at = &mut root;
        at.heat.add(heat);
        for place in way {
            at = at.next.entry(place).or_default();
            at.heat.add(heat);
        }
        at.own.add(heat);
    }
    if root.heat.samples == 0 {
        return Err(nothing("call stacks"));
    }
    let all = root.heat;
    let tree = Tree {
        direction: match direction {
            Direction::Down => "down",
            Direction::Up => "up",
        },
        base: "time",
        samples: all.samples,
        whole,
        nodes: ToldNodes {
            roots: nodes(view, root.next, all.cycles),
            is_flat,
        },
        most: view.most_lines(),
    };
    Ok(Box::new(tree))
}

/// The places on the way of a stack, as the tree has them from its root on; `None`: it is not asked
/// for.
///
/// A function that calls itself is told from its outermost frame downwards, and from its innermost
/// one upwards: so each sample counts once, and recursion shows.
fn way(view: &View<'_>, row: &StackRow, direction: Direction) -> Option<Vec<PathNode>> {
    let pcs: Vec<usize> = view.profile.frames(row).map(|frame| frame.pc).collect();
    let place = |pc: &usize| match view.symbols.function_of(*pc) {
        Some(function) => PathNode::Function(function),
        None => PathNode::Elsewhere(*pc),
    };
    let cut = (!row.end.is_whole()).then_some(PathNode::Cut(row.end));
    let is_all = view.selected().is_none();
    let wanted = |pc: &usize| view.wants(*pc);
    match direction {
        Direction::Down => {
            let outermost = match is_all {
                true => pcs.iter().any(wanted).then_some(pcs.len() - 1)?,
                false => pcs.iter().rposition(wanted)?,
            };
            let frames = pcs.get(..=outermost)?.iter().rev().map(place);
            Some(cut.filter(|_| is_all).into_iter().chain(frames).collect())
        }
        Direction::Up => {
            let innermost = match is_all {
                true => pcs.iter().any(wanted).then_some(0)?,
                false => pcs.iter().position(wanted)?,
            };
            Some(pcs.get(innermost..)?.iter().map(place).chain(cut).collect())
        }
    }
}

fn nodes(view: &View<'_>, sums: BTreeMap<PathNode, PathSum>, all: f64) -> Vec<ToldNode> {
    let mut sums: Vec<(PathNode, PathSum)> = sums.into_iter().collect();
    sums.sort_by(|a, b| {
        let by_heat = b.1.heat.cycles.total_cmp(&a.1.heat.cycles);
        by_heat.then(a.0.cmp(&b.0))
    });
    sums.retain(|(_, sum)| view.is_enough(sum.heat.samples));
    let node = |(place, sum): (PathNode, PathSum)| {
        let image_of = |image: usize| view.image_path(image).to_owned();
        let (function, image, cut) = match place {
            PathNode::Function(id) => match view.symbols.function(id) {
                Some(function) => (
                    Some(function.name.clone()),
                    Some(image_of(function.image)),
                    None,
                ),
                None => (None, None, None),
            },
            PathNode::Elsewhere(pc) => {
                let image = view.profile.pcs.get(pc).map(|pc| image_of(pc.image));
                (Some(view.symbols.name_of(pc)), image, None)
            }
            PathNode::Cut(end) => (None, None, Some(end.name())),
        };
        let told = ToldPlace {
            function,
            image,
            cut,
            samples: sum.heat.samples,
            percent: rounded(percent(sum.heat.cycles, all), 1),
            own_percent: rounded(percent(sum.own.cycles, all), 1),
        };
        ToldNode {
            told,
            nodes: nodes(view, sum.next, all),
        }
    };
    sums.into_iter().map(node).collect()
}

/// The tree as lines. A chain of calls with one way alone stays in its column.
fn lines(nodes: &[ToldNode], column: usize, names: Names, lines_of: &mut Vec<String>) {
    for node in nodes.iter().filter(|node| node.told.percent >= LEAST) {
        let told = &node.told;
        let name = match (&told.function, told.cut) {
            (Some(function), _) => names.shown(function),
            (None, cut) => format!("unknown callers ({})", cut.unwrap_or("unknown")),
        };
        let own = match told.own_percent > 0.0 && !node.nodes.is_empty() {
            true => format!("  ({:.1}% itself)", told.own_percent),
            false => String::new(),
        };
        let indent = " ".repeat(2 * column);
        lines_of.push(format!("{:>5.1}%  {indent}{name}{own}", told.percent));
        let is_chain = node.nodes.len() == 1 && told.own_percent == 0.0 && column > 0;
        let next = if is_chain { column } else { column + 1 };
        lines(&node.nodes, next, names, lines_of);
    }
}

impl Model for Tree {
    fn page(&self, names: Names) -> Page {
        let direction = match self.direction {
            "up" => "Who calls, from each function outwards",
            _ => "What is called, from the outermost function inwards",
        };
        let whole = percent(as_float(self.whole), as_float(self.samples));
        let mut page = Page::default();
        let stacks = counted(self.samples, "call stack");
        page.about(
            &format!("{direction}, in percent of the time of {stacks}."),
            &format!(
                "{whole:.1}% of the call stacks have all their frames.\n\
                 Nodes below {LEAST}% are left out."
            ),
        );
        page.gap();
        let mut shown = Vec::new();
        lines(&self.nodes.roots, 0, names, &mut shown);
        let most = self.most.unwrap_or(usize::MAX);
        let more = shown.len().saturating_sub(most);
        for line in shown.into_iter().take(most) {
            page.item(0, line);
        }
        if more > 0 {
            page.item(
                0,
                format!(
                    "({} left out by --lines)",
                    counted(more as u64, "more line")
                ),
            );
        }
        page
    }
}
