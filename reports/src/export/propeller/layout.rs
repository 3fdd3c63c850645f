//! Orders of blocks and of functions, from how often control goes from one to another.
//!
//! Blocks are put into chains, the most frequent ways first (the bottom-up algorithm of Pettis and
//! Hansen, "Profile guided code positioning", PLDI 1990). Functions go behind those that call them
//! most, the hottest ones first (the call-chain clustering of Ottoni and Maher, "Optimizing
//! function placement for large-scale data-center applications", CGO 2017).

use std::cmp::Ordering;

/// Bytes of functions that are put together at most: a page.
const MOST_TOGETHER: u64 = 4096;

/// What the only way out of a block counts more than others: without it the block ends in a jump,
/// where others turn a branch around (as LLVM's layout has it). So a loop ends with its branch.
pub(super) const ONLY_WAY: f64 = 1.05;

/// What is put in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Bytes.
    pub(super) size: u64,
    /// How much time is in it, in any unit.
    pub(super) weight: f64,
}

/// A way from one to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    /// From which node.
    pub(super) from: usize,
    /// To which one.
    pub(super) to: usize,
    /// How often.
    pub(super) weight: f64,
}

/// A size as a float; exact below 2^53.
pub(super) fn as_float(size: u64) -> f64 {
    crate::view::as_float(size)
}

/// Nodes one behind the other.
#[derive(Clone, Debug, Default)]
struct Chain {
    nodes: Vec<usize>,
    size: u64,
    weight: f64,
}

impl Chain {
    fn density(&self) -> f64 {
        self.weight / as_float(self.size.max(1))
    }
}

/// The chains, and of each node the one that it is in.
struct Chains {
    all: Vec<Chain>,
    of: Vec<usize>,
}

impl Chains {
    /// A chain for each node.
    fn new(nodes: &[Node]) -> Chains {
        let chain = |(index, node): (usize, &Node)| Chain {
            nodes: vec![index],
            size: node.size,
            weight: node.weight,
        };
        Chains {
            all: nodes.iter().enumerate().map(chain).collect(),
            of: (0..nodes.len()).collect(),
        }
    }

    /// The chain of a node, and its index.
    fn around(&self, node: usize) -> Option<(usize, &Chain)> {
        let index = *self.of.get(node)?;
        Some((index, self.all.get(index)?))
    }

    /// Puts a chain behind another one.
    fn join(&mut self, first: usize, second: usize) {
        let Some(behind) = self.all.get_mut(second).map(std::mem::take) else {
            return;
        };
        for node in &behind.nodes {
            if let Some(of) = self.of.get_mut(*node) {
                *of = first;
            }
        }
        if let Some(chain) = self.all.get_mut(first) {
            chain.nodes.extend(behind.nodes);
            chain.size = chain.size.saturating_add(behind.size);
            chain.weight += behind.weight;
        }
    }

    /// All nodes, the densest chain first, and before all the chain of the node `entry`.
    fn flattened(self, entry: Option<usize>) -> Vec<usize> {
        let head = entry.and_then(|entry| self.of.get(entry).copied());
        let mut all: Vec<(usize, Chain)> = self.all.into_iter().enumerate().collect();
        all.sort_by(|(a, one), (b, other)| {
            let leads = |index: &usize| Some(*index) != head;
            let density = descending(one.density(), other.density());
            leads(a).cmp(&leads(b)).then(density).then(a.cmp(b))
        });
        all.into_iter().flat_map(|(_, chain)| chain.nodes).collect()
    }
}

fn descending(one: f64, other: f64) -> Ordering {
    other.total_cmp(&one)
}

/// The order of a function's blocks, of which the first one is the entry.
pub(super) fn blocks(nodes: &[Node], mut arcs: Vec<Arc>) -> Vec<usize> {
    let mut chains = Chains::new(nodes);
    arcs.sort_by(|one, other| {
        let place = (one.from, one.to).cmp(&(other.from, other.to));
        descending(one.weight, other.weight).then(place)
    });
    for arc in arcs {
        let (Some((first, before)), Some((second, behind))) =
            (chains.around(arc.from), chains.around(arc.to))
        else {
            continue;
        };
        let ends = before.nodes.last() == Some(&arc.from);
        let begins = behind.nodes.first() == Some(&arc.to);
        if first != second && ends && begins && arc.to != 0 && arc.weight > 0.0 {
            chains.join(first, second);
        }
    }
    chains.flattened(Some(0))
}

/// The order of functions.
pub(super) fn functions(nodes: &[Node], arcs: Vec<Arc>) -> Vec<usize> {
    let mut most: Vec<Option<Arc>> = vec![None; nodes.len()];
    for arc in arcs {
        if let Some(known) = most.get_mut(arc.to)
            && known.is_none_or(|known| arc.weight > known.weight)
        {
            *known = Some(arc);
        }
    }
    let mut chains = Chains::new(nodes);
    let density = |node: usize| {
        let node = nodes.get(node);
        node.map_or(0.0, |node| node.weight / as_float(node.size.max(1)))
    };
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|one, other| descending(density(*one), density(*other)).then(one.cmp(other)));
    for node in order {
        let Some(arc) = most.get(node).copied().flatten() else {
            continue;
        };
        let (Some((first, before)), Some((second, behind))) =
            (chains.around(arc.from), chains.around(node))
        else {
            continue;
        };
        if first != second && before.size.saturating_add(behind.size) <= MOST_TOGETHER {
            chains.join(first, second);
        }
    }
    chains.flattened(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(size: u64, weight: f64) -> Node {
        Node { size, weight }
    }

    fn arc(from: usize, to: usize, weight: f64) -> Arc {
        Arc { from, to, weight }
    }

    /// The entry leads; the way that is taken most runs on without a jump.
    #[test]
    fn hot_way_runs_on() {
        // 0 branches to 1, rarely to 2; both lead to 3, which goes back to 1 or on to 4.
        let nodes = [1.0, 90.0, 1.0, 100.0, 1.0].map(|weight| node(8, weight));
        let arcs = vec![
            arc(0, 1, 1.0),
            arc(0, 2, 0.5),
            arc(1, 3, 90.0),
            arc(2, 3, 0.5),
            arc(3, 1, 89.0),
            arc(3, 4, 1.0),
        ];
        assert_eq!(blocks(&nodes, arcs), [0, 1, 3, 4, 2]);
    }

    /// A way back to the entry moves nothing in front of it, and no block is lost or doubled.
    #[test]
    fn entry_stays_first() {
        let nodes = [node(4, 1.0), node(4, 1e9), node(4, 5.0)];
        let arcs = vec![
            arc(1, 0, 1e9),
            arc(0, 1, f64::NAN),
            arc(2, 2, 1.0),
            arc(7, 9, 1.0),
        ];
        assert_eq!(blocks(&nodes, arcs), [0, 1, 2]);
        assert_eq!(blocks(&[], Vec::new()), [0_usize; 0]);
    }

    /// What is called goes behind the one that calls it most, unless both together are too long.
    #[test]
    fn callers_and_callees() {
        let nodes = [
            node(100, 1.0),
            node(100, 500.0),
            node(100, 100.0),
            node(9000, 1e6),
        ];
        let arcs = vec![arc(0, 1, 10.0), arc(2, 1, 20.0), arc(0, 3, 1e6)];
        assert_eq!(functions(&nodes, arcs), [3, 2, 1, 0]);
    }
}
