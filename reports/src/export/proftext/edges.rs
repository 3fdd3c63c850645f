//! How often blocks ran, where that is known of some of them.
//!
//! What is known may contradict itself: code was moved, or merged with other code. The counts that
//! are looked for fit together, and differ from what is known at as little cost as can be had. That
//! is a flow of minimum cost (He, Mestre, Pupyrev, Wang, Yu: "Profile inference revisited",
//! POPL 2022; the costs are those of LLVM's inference for samples). Blocks of which nothing is
//! known cost nothing; where a way out of them is not told, they are taken evenly.

use std::collections::VecDeque;

/// Parts of a count that are told apart.
const UNIT: f64 = 1000.0;
/// More than any count.
const ENDLESS: i64 = 1 << 52;
/// The cost of each count more or fewer than is known of a block; of one that did not run; and of
/// the entry, whose count is seldom too small.
const MORE: i64 = 10;
const FEWER: i64 = 20;
const MORE_THAN_NONE: i64 = 11;
const MORE_AT_ENTRY: i64 = 40;
const FEWER_AT_ENTRY: i64 = 10;
/// The cost of a way that takes more than its even part.
const UNEVEN: i64 = 1;
/// Steps that are taken for a function at most: some seconds.
const PATIENCE: usize = 400_000_000;

/// The counts of blocks: `next` tells where each of them leads, and `known` what is known of it.
/// The first one is the entry; what leads nowhere leaves. No count is negative, and a block runs as
/// often as others lead to it. `None`: that would take too long, or a block leads outside.
pub(super) fn counts(next: &[Vec<usize>], known: &[Option<f64>]) -> Option<Vec<f64>> {
    let known: Vec<Option<i64>> = known.iter().map(|one| one.map(units)).collect();
    if next.iter().flatten().any(|to| *to >= next.len()) || known.len() != next.len() {
        return None;
    }
    let mut patience = PATIENCE;
    let first = flow(next, &known, None, &mut patience)?;
    // Each way out of a block has its even part without cost, now that the block is known.
    let even = flow(next, &known, Some(&first), &mut patience)?;
    Some(even.into_iter().map(count).collect())
}

fn units(count: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bounds are far smaller"
    )]
    let units = (count * UNIT).round().clamp(0.0, 1e15) as i64;
    units.min(ENDLESS >> 2)
}

fn count(units: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    let units = units as f64;
    units / UNIT
}

/// A network: arcs in pairs, there and back.
#[derive(Default)]
struct Network {
    /// Arcs out of each node.
    out: Vec<Vec<usize>>,
    to: Vec<usize>,
    room: Vec<i64>,
    cost: Vec<i64>,
}

impl Network {
    fn add(&mut self, from: usize, to: usize, room: i64, cost: i64) -> usize {
        let arc = self.to.len();
        for (from, to, room, cost) in [(from, to, room, cost), (to, from, 0, -cost)] {
            self.out[from].push(self.to.len());
            self.to.push(to);
            self.room.push(room);
            self.cost.push(cost);
        }
        arc
    }

    /// How much flows through an arc.
    fn through(&self, arc: usize) -> i64 {
        self.room[arc + 1]
    }

    /// Lets as much flow from one node to another as goes, at the least cost; `None`: that takes
    /// too long.
    fn fill(&mut self, source: usize, sink: usize, patience: &mut usize) -> Option<()> {
        loop {
            let mut best: Vec<Option<(i64, usize)>> = vec![None; self.out.len()];
            let mut waits = vec![false; self.out.len()];
            let mut queue = VecDeque::from([source]);
            best[source] = Some((0, usize::MAX));
            while let Some(node) = queue.pop_front() {
                waits[node] = false;
                let Some((so_far, _)) = best[node] else {
                    continue;
                };
                *patience = patience.checked_sub(self.out[node].len() + 1)?;
                for arc in &self.out[node] {
                    let to = self.to[*arc];
                    let cost = so_far + self.cost[*arc];
                    if self.room[*arc] > 0 && best[to].is_none_or(|(known, _)| cost < known) {
                        best[to] = Some((cost, *arc));
                        if !waits[to] {
                            waits[to] = true;
                            queue.push_back(to);
                        }
                    }
                }
            }
            let path = || {
                let mut node = sink;
                std::iter::from_fn(|| {
                    let (_, arc) = best[node].filter(|_| node != source)?;
                    node = self.to[arc ^ 1];
                    Some(arc)
                })
                .collect::<Vec<usize>>()
            };
            let path = path();
            let Some(room) = path.iter().map(|arc| self.room[*arc]).min() else {
                return Some(());
            };
            for arc in path {
                self.room[arc] -= room;
                self.room[arc ^ 1] += room;
            }
        }
    }
}

/// Counts at the least cost. `even`: how often blocks ran, of which each way out of them has an
/// even part for nothing.
fn flow(
    next: &[Vec<usize>],
    known: &[Option<i64>],
    even: Option<&[i64]>,
    patience: &mut usize,
) -> Option<Vec<i64>> {
    let blocks = next.len();
    let (source, sink) = (2 * blocks, 2 * blocks + 1);
    let mut network = Network {
        out: vec![Vec::new(); 2 * blocks + 2],
        ..Network::default()
    };
    // A block is an arc from where control comes in to where it goes out. What is known flows
    // outside of that arc: it has to leave the block, and has to come to it.
    let mut arcs = Vec::with_capacity(blocks);
    for (block, known) in known.iter().enumerate() {
        let (comes, goes) = (2 * block, 2 * block + 1);
        let is_entry = block == 0;
        let fewer = known.filter(|known| *known > 0).map(|known| {
            network.add(source, goes, known, 0);
            network.add(comes, sink, known, 0);
            let cost = if is_entry { FEWER_AT_ENTRY } else { FEWER };
            network.add(goes, comes, known, cost)
        });
        let cost = match known {
            None => 0,
            Some(_) if is_entry => MORE_AT_ENTRY,
            Some(0) => MORE_THAN_NONE,
            Some(_) => MORE,
        };
        let more = network.add(comes, goes, ENDLESS, cost);
        arcs.push((more, fewer));
    }
    for (block, next) in next.iter().enumerate() {
        let goes = 2 * block + 1;
        let ways = i64::try_from(next.len().max(1)).ok()?;
        // What leaves the function comes back at its entry.
        let entry = [0];
        let next = if next.is_empty() { &entry[..] } else { next };
        for to in next {
            // Where there is one way alone, nothing is to be shared.
            if ways == 1 {
                network.add(goes, 2 * to, ENDLESS, 0);
                continue;
            }
            if let Some(ran) = even.and_then(|even| even.get(block)) {
                network.add(goes, 2 * to, ran / ways, 0);
            }
            network.add(goes, 2 * to, ENDLESS, UNEVEN);
        }
    }
    network.fill(source, sink, patience)?;
    let of = |(known, (more, fewer)): (&Option<i64>, (usize, Option<usize>))| {
        let fewer = fewer.map_or(0, |fewer| network.through(fewer));
        known.unwrap_or(0) + network.through(more) - fewer
    };
    Some(known.iter().zip(arcs).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(next: &[Vec<usize>], known: &[Option<f64>]) -> Vec<f64> {
        counts(next, known).expect("a small function")
    }

    /// A branch around a block takes what the block does not.
    #[test]
    fn around_a_block() {
        let next = [vec![1, 2], vec![2], vec![]];
        let found = found(&next, &[Some(100.0), Some(30.0), None]);
        assert_eq!(found, [100.0, 30.0, 100.0]);
    }

    /// A loop's head runs as often as it is entered and turned.
    #[test]
    fn loops() {
        let next = [vec![1], vec![2, 3], vec![1], vec![]];
        let found = found(&next, &[Some(10.0), None, Some(990.0), None]);
        assert_eq!(found, [10.0, 1000.0, 990.0, 10.0]);
    }

    /// Of counts that contradict each other those are changed that the others speak against.
    #[test]
    fn contradictions() {
        let next = [vec![1, 2], vec![3], vec![3], vec![]];
        let known = [100.0, 80.0, 80.0, 100.0].map(Some);
        let found = found(&next, &known);
        assert_eq!([found[0], found[1] + found[2], found[3]], [100.0; 3]);
        // A loop whose head lost its first turn to the code in front of it.
        let next = [vec![1], vec![2, 3], vec![1], vec![0, 4], vec![]];
        let known = [40.0, 60.0, 60.0, 40.0, 1.0].map(Some);
        assert_eq!(super::counts(&next, &known).expect("small")[1], 100.0);
    }

    /// Of ways of which nothing is known each is taken as often as the others.
    #[test]
    fn even_ways() {
        let next = [vec![1, 2], vec![3], vec![3], vec![]];
        let found = found(&next, &[Some(100.0), None, None, Some(100.0)]);
        assert_eq!(found, [100.0, 50.0, 50.0, 100.0]);
    }

    /// What did not run, or of which nothing is known, has no counts; no graph takes it down.
    #[test]
    fn nothing_known() {
        assert_eq!(found(&[vec![1], vec![]], &[None, None]), [0.0, 0.0]);
        assert_eq!(found(&[vec![1], vec![]], &[Some(0.0), None]), [0.0, 0.0]);
        assert_eq!(found(&[], &[]), [0.0_f64; 0]);
        assert_eq!(counts(&[vec![1], vec![7]], &[None, None]), None);
        let odd = found(&[vec![0], vec![1]], &[Some(f64::NAN), Some(f64::INFINITY)]);
        assert!(
            odd.iter().all(|count| count.is_finite() && *count >= 0.0),
            "{odd:?}"
        );
    }
}
