//! The stationary distribution of a chain.
//!
//! States are eliminated one after the other, those with the fewest ways first; then the
//! probabilities are put in, in the opposite order. It only adds, multiplies and divides numbers
//! that are not negative, so nothing cancels out: long loops are as exact as short ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Ways from each state to others, with their probabilities.
pub(crate) type Links = Vec<Vec<(usize, f64)>>;

/// Ways that elimination may add up before it is given up: a second or so.
pub(crate) const PATIENCE: usize = 3_000_000;
/// Rounds of the approximate solution.
const ROUNDS: usize = 150;

/// The distribution up to a factor, with 1 for the last state; `None` if that takes more than
/// `patience` steps. From every state there must be a path to the last one.
pub(crate) fn eliminate(links: Links, mut patience: usize) -> Option<Vec<f64>> {
    let states = links.len();
    let last = states.checked_sub(1)?;
    let mut to: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); states];
    let mut from: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); states];
    for (state, ways) in links.into_iter().enumerate() {
        for (next, p) in ways {
            // A way back to itself changes how long the chain stays, which the others' sum tells.
            if next != state && p > 0.0 {
                *to[state].entry(next).or_default() += p;
                from[next].insert(state);
            }
        }
    }
    let ways = |to: &[BTreeMap<usize, f64>], from: &[BTreeSet<usize>], state: usize| {
        to[state].len() * from[state].len()
    };
    let mut queue: BinaryHeap<Reverse<(usize, usize)>> = (0..last)
        .map(|state| Reverse((ways(&to, &from, state), state)))
        .collect();
    let mut gone = vec![false; states];
    let mut order = Vec::with_capacity(last);
    while let Some(Reverse((expected, state))) = queue.pop() {
        if gone[state] {
            continue;
        }
        let now = ways(&to, &from, state);
        if now > expected {
            queue.push(Reverse((now, state)));
            continue;
        }
        gone[state] = true;
        let out = std::mem::take(&mut to[state]);
        let before = std::mem::take(&mut from[state]);
        patience = patience.checked_sub(out.len() * before.len() + 1)?;
        let leaves: f64 = out.values().sum();
        for next in out.keys() {
            from[*next].remove(&state);
        }
        let mut came = Vec::with_capacity(before.len());
        for other in before {
            let p = to[other].remove(&state).unwrap_or(0.0);
            came.push((other, p));
            for (next, q) in &out {
                if *next != other {
                    *to[other].entry(*next).or_default() += p * (q / leaves);
                    from[*next].insert(other);
                }
            }
        }
        order.push((state, came, leaves));
    }
    let mut found = vec![0.0; states];
    found[last] = 1.0;
    for (state, came, leaves) in order.into_iter().rev() {
        let flow: f64 = came.iter().map(|(other, p)| found[*other] * p).sum();
        found[state] = flow / leaves;
    }
    found
        .iter()
        .all(|one: &f64| one.is_finite())
        .then_some(found)
}

/// The distribution, nearly: the flow is passed on a fixed number of times.
pub(crate) fn sweep(links: &[Vec<(usize, f64)>]) -> Vec<f64> {
    let states = links.len();
    let mut into: Vec<Vec<(usize, f64)>> = vec![Vec::new(); states];
    for (state, ways) in links.iter().enumerate() {
        for (next, p) in ways {
            into[*next].push((state, *p));
        }
    }
    let mut found = vec![1.0 / states.max(1) as f64; states];
    for _ in 0..ROUNDS {
        for state in 0..states {
            let (mut stays, mut comes) = (0.0, 0.0);
            for (other, p) in &into[state] {
                match *other == state {
                    true => stays += p,
                    false => comes += found[*other] * p,
                }
            }
            found[state] = comes / f64::max(1.0 - stays, 1e-12);
        }
        let sum: f64 = found.iter().sum();
        if sum > 0.0 {
            found.iter_mut().for_each(|one| *one /= sum);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elimination and sweeps agree, also on a loop that turns a thousand times.
    #[test]
    fn both_solutions() {
        let links = vec![vec![(1, 1.0)], vec![(1, 0.999), (2, 0.001)], vec![(0, 1.0)]];
        let exact = eliminate(links.clone(), PATIENCE).expect("few states");
        assert!((exact[0] - 1.0).abs() < 1e-12 && (exact[1] - 1000.0).abs() < 1e-9);
        let near = sweep(&links);
        assert!((near[1] / near[0] - 1000.0).abs() < 1.0, "{near:?}");
    }

    /// Elimination that would take too long is given up.
    #[test]
    fn patience() {
        let all = |_| (0..40).map(|next| (next, 1.0 / 40.0)).collect();
        let links: Links = (0..40).map(all).collect();
        assert!(eliminate(links.clone(), 1000).is_none());
        assert!(eliminate(links, PATIENCE).is_some());
    }
}
