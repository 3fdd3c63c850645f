//! Properties of counts, on control-flow graphs of all shapes.

use std::collections::{BTreeMap, BTreeSet};

use flow::{BasicBlock, Chain, Counts, Evidence, Exit, FunctionCode, Options, Way};
use proptest::prelude::*;

/// A graph: for each block up to three ways, and how often each is taken in turn.
type Graph = Vec<Vec<(usize, f64)>>;

fn graph() -> impl Strategy<Value = Graph> {
    (1..24_usize).prop_flat_map(|blocks| {
        // Some ways lead behind the last block: out of the function.
        let way = (0..blocks + 2, 0.0..1.0_f64);
        let ways = prop::collection::vec(way, 0..4);
        prop::collection::vec(ways, blocks).prop_map(move |mut graph| {
            for ways in &mut graph {
                let sum: f64 = ways.iter().map(|(_, p)| p).sum();
                ways.iter_mut().for_each(|(_, p)| *p /= sum.max(1e-3));
                ways.retain(|(to, _)| *to < blocks);
            }
            graph
        })
    })
}

/// What comes into each block, with what leaves added to the entry.
fn inflow(graph: &Graph, counts: &[f64]) -> Vec<f64> {
    let mut inflow = vec![0.0; graph.len()];
    for (ways, count) in graph.iter().zip(counts) {
        let mut stays = 0.0;
        for (to, p) in ways {
            inflow[*to] += count * p;
            stays += p;
        }
        inflow[0] += count * (1.0 - stays);
    }
    inflow
}

/// Which blocks can be reached from the entry.
fn reached(graph: &Graph) -> BTreeSet<usize> {
    let mut found = BTreeSet::from([0]);
    let mut next = vec![0];
    while let Some(block) = next.pop() {
        for (to, p) in &graph[block] {
            if *p > 0.0 && found.insert(*to) {
                next.push(*to);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Counts are finite and not negative, and their sum is one, whatever the graph.
    #[test]
    fn counts_are_counts(
        graph in graph(),
        drawn in prop::collection::vec(-1.0..5.0_f64, 0..24),
        pull in -0.5..1.5_f64,
    ) {
        let found = Chain { to: graph, drawn, pull }.stationary();
        prop_assert!(found.iter().all(|one| one.is_finite() && *one >= 0.0), "{found:?}");
        prop_assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    /// Without a pull, as much comes into each block as leaves it, and only what can be reached
    /// from the entry has a count.
    #[test]
    fn flow_is_conserved(graph in graph()) {
        let chain = Chain { to: graph.clone(), drawn: vec![1.0], pull: 0.0 };
        let found = chain.stationary();
        for (count, comes) in found.iter().zip(inflow(&graph, &found)) {
            prop_assert!((count - comes).abs() <= 1e-7, "{count} {comes}");
        }
        let reached = reached(&graph);
        for (block, count) in found.iter().enumerate() {
            prop_assert!(reached.contains(&block) || *count == 0.0);
        }
    }

    /// With a pull, what comes in differs from what leaves by no more than the pull moves.
    #[test]
    fn the_pull_moves_no_more_than_its_share(graph in graph(), pull in 0.0..0.2_f64) {
        let drawn = vec![1.0; graph.len()];
        let found = Chain { to: graph.clone(), drawn, pull }.stationary();
        let off: f64 = found
            .iter()
            .zip(inflow(&graph, &found))
            .map(|(count, comes)| (count - comes).abs())
            .sum();
        prop_assert!(off <= 2.0 * pull + 1e-7, "{off}");
    }

    /// Where interrupts fall as executions do, the pull changes nothing.
    #[test]
    fn right_samples_pull_nowhere(graph in graph(), pull in 0.0..0.5_f64) {
        let free = Chain { to: graph.clone(), drawn: vec![1.0], pull: 0.0 }.stationary();
        let bound = Chain { to: graph, drawn: free.clone(), pull }.stationary();
        for (one, other) in free.iter().zip(&bound) {
            prop_assert!((one - other).abs() < 1e-6, "{one} {other}");
        }
    }

    /// Any bytes make blocks that lie one behind the other, and whose counts are counts.
    #[test]
    fn any_code(code in prop::collection::vec(any::<u8>(), 0..400), start in any::<u64>()) {
        let function = FunctionCode::decode(&code, start, &BTreeSet::new());
        for pair in function.blocks.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        let evidence = Evidence {
            samples: BTreeMap::from([(start, 10.0)]),
            ..Evidence::default()
        };
        let counts = Counts::of(&function, &evidence, Options::default());
        prop_assert_eq!(counts.blocks.len(), function.blocks.len());
        prop_assert!(counts.blocks.iter().all(|one| one.is_finite() && *one >= 0.0));
        prop_assert!(counts.edges.iter().all(|one| one.count.is_finite() && one.count > 0.0));
    }
}

/// A function of blocks of two instructions, 16 bytes apart, with these exits.
fn function(exits: &[Exit]) -> FunctionCode {
    let block = |(start, exit): (u64, &Exit)| BasicBlock {
        start,
        last: start + 8,
        end: start + 16,
        instructions: 2,
        exit: *exit,
    };
    let starts = (0..).step_by(16);
    FunctionCode {
        blocks: starts.zip(exits).map(block).collect(),
        calls: Vec::new(),
    }
}

fn exact() -> Options {
    Options { pull: 0.0 }
}

/// With exact directions, counts are exact: a loop of 100 turns in a loop of 10, with a branch that
/// is taken in a quarter of the turns.
#[test]
fn nested_loops() {
    // 0: entry, 1: outer, 2: inner with its branch, 3: what it skips, 4: the inner one's end,
    // 5: the outer one's end, 6: return.
    let code = function(&[
        Exit::Falls,
        Exit::Falls,
        Exit::Branch(64),
        Exit::Falls,
        Exit::Branch(32),
        Exit::Branch(16),
        Exit::Ends,
    ]);
    let evidence = Evidence {
        samples: BTreeMap::from([(0, 1.0)]),
        directions: BTreeMap::from([(40, [250.0, 750.0]), (72, [990.0, 10.0]), (88, [9.0, 1.0])]),
        ..Evidence::default()
    };
    let counts = Counts::of(&code, &evidence, exact());
    let turns: Vec<f64> = counts
        .blocks
        .iter()
        .map(|count| count / counts.blocks[0])
        .collect();
    let truth = [1.0, 10.0, 1000.0, 750.0, 1000.0, 10.0, 1.0];
    for (found, truth) in turns.iter().zip(truth) {
        assert!((found - truth).abs() < 1e-3 * truth, "{turns:?}");
    }
    let taken = counts
        .edges
        .iter()
        .find(|edge| edge.from == 72 && edge.to == 32);
    let taken = taken.expect("the loop's edge");
    assert!((taken.count / counts.blocks[0] - 990.0).abs() < 1.0 && taken.way == Way::Jumps);
}

/// A loop that is entered at two places has the counts of its ways.
#[test]
fn irreducible() {
    // 0 goes to 1 or 2; 1 and 2 go to each other, and out from 2 in a tenth.
    let code = function(&[Exit::Branch(32), Exit::Falls, Exit::Branch(16), Exit::Ends]);
    let evidence = Evidence {
        samples: BTreeMap::from([(0, 1.0)]),
        directions: BTreeMap::from([(8, [1.0, 1.0]), (40, [9.0, 1.0])]),
        ..Evidence::default()
    };
    let counts = Counts::of(&code, &evidence, exact()).blocks;
    assert!((counts[2] / counts[0] - 10.0).abs() < 1e-5, "{counts:?}");
    assert!((counts[1] / counts[0] - 9.5).abs() < 1e-5, "{counts:?}");
}

/// A function without an exit, and one of which nothing was seen, have counts.
#[test]
fn no_exit_and_no_samples() {
    let endless = function(&[Exit::Falls, Exit::Jump(16)]);
    let evidence = Evidence {
        samples: BTreeMap::from([(16, 8.0)]),
        ..Evidence::default()
    };
    let counts = Counts::of(&endless, &evidence, Options::default()).blocks;
    assert!(counts[1] > 3.9 && counts[0] < 0.1, "{counts:?}");
    let nothing = Counts::of(&endless, &Evidence::default(), Options::default());
    assert_eq!(nothing.blocks, [0.0, 0.0]);
    assert!(nothing.edges.is_empty());
    assert_eq!(
        Counts::of(&FunctionCode::default(), &evidence, exact()),
        Counts::default()
    );
}

/// Without directions, a branch goes as the interrupts behind it say.
#[test]
fn unseen_branches() {
    let code = function(&[Exit::Branch(32), Exit::Ends, Exit::Ends]);
    let evidence = Evidence {
        samples: BTreeMap::from([(16, 3.0), (32, 1.0)]),
        ..Evidence::default()
    };
    let counts = Counts::of(&code, &evidence, exact()).blocks;
    assert!((counts[1] / counts[0] - 0.75).abs() < 1e-6, "{counts:?}");
}

/// An indirect jump's shares are those of what was seen, also of what leaves the function.
#[test]
fn indirect_jumps() {
    let code = function(&[Exit::Indirect, Exit::Ends, Exit::Ends]);
    let evidence = Evidence {
        samples: BTreeMap::from([(0, 1.0)]),
        targets: BTreeMap::from([(8, BTreeMap::from([(16, 3.0), (32, 1.0), (4096, 2.0)]))]),
        elsewhere: BTreeMap::from([(8, 2.0)]),
        ..Evidence::default()
    };
    let counts = Counts::of(&code, &evidence, exact());
    assert!((counts.blocks[1] / counts.blocks[0] - 0.375).abs() < 1e-6);
    assert!((counts.blocks[2] / counts.blocks[0] - 0.125).abs() < 1e-6);
    assert_eq!(counts.edges.len(), 3);
}

/// A huge function with a dense graph is done in bounded time.
#[test]
fn huge_function() {
    let blocks = 60_000;
    // A long multiplication by a large prime spreads the ways over all blocks.
    let far = |block: usize, by: usize| (block * by + 7) % blocks;
    let to: Vec<Vec<(usize, f64)>> = (0..blocks)
        .map(|block| {
            let next = (block + 1) % blocks;
            vec![
                (next, 0.5),
                (far(block, 7919), 0.25),
                (far(block, 104_729), 0.25),
            ]
        })
        .collect();
    let drawn = vec![1.0; blocks];
    let found = Chain {
        to,
        drawn,
        pull: 0.03,
    }
    .stationary();
    assert!(found.iter().all(|one| one.is_finite() && *one >= 0.0));
    assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-6);
}
