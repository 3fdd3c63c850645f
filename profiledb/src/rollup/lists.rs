//! Lists added up, and thinned to what a roll-up has room for.
//!
//! What is thinned stays unbiased, in two places. Of a list no more than so many values stay: one
//! with an estimate x below a threshold tau stays with probability x / tau, and counts tau
//! ([`Sum`]). Of all lists one that was reached r times stays with probability min(1, r / tau),
//! and readers weigh it by what it stands for ([`ListOf::weigh`]). Cutting off what is small would
//! take up to all of it from sums over many small ones.

use std::collections::HashMap;

use hotlist::{Coins, Estimates, Generator, Sum};

use crate::chunk::{ListOf, Packed};

/// What a list takes in a chunk, roughly, with each of its values besides.
const BYTES: usize = 7;
const BYTES_OF_VALUE: usize = 5;

/// Significant bits of variances and pairs, and of estimates that have a variance. What is known no
/// better takes room for nothing.
const BITS: i32 = 5;
const BITS_OF_ESTIMATE: i32 = 9;

/// Of so many events that were counted, no list is left out.
const KEPT: f64 = 200.0;

/// What tells lists apart: process, address, call site, parameter.
type Key = (i64, u64, Option<(i64, u64)>, i64);

/// Lists that are being added up.
pub(crate) struct Lists {
    most: usize,
    sums: HashMap<Key, Added>,
}

/// The lists of one key so far.
struct Added {
    first: ListOf,
    /// `None` while there was only one.
    sum: Option<Sum<u64>>,
    /// Evenness by known values.
    even: f64,
}

impl Lists {
    /// Nothing yet, to keep so many values of each list.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            sums: HashMap::new(),
        }
    }

    /// Adds a list, with what it stands for.
    pub(crate) fn add(&mut self, row: ListOf, coins: &mut Generator) {
        let even = row.even.unwrap_or(0.0) * row.list.events;
        let most = self.most;
        match self.sums.entry(row.key()) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Added {
                    first: row,
                    sum: None,
                    even,
                });
            }
            std::collections::hash_map::Entry::Occupied(mut place) => {
                let added = place.get_mut();
                let first = &mut added.first;
                let sum = added.sum.get_or_insert_with(|| {
                    let mut sum = Sum::new(most);
                    sum.add_estimates(&std::mem::take(&mut first.list), coins);
                    sum
                });
                sum.add_estimates(&row.list, coins);
                first.reached += row.reached;
                first.unknown += row.unknown;
                first.windows = first.windows.saturating_add(row.windows);
                first.even = match (first.even, row.even) {
                    (None, None) => None,
                    // It is settled in the end.
                    _ => Some(0.0),
                };
                added.even += even;
            }
        }
    }

    /// The sums in the order of a chunk, as whole numbers.
    pub(crate) fn finish(self, coins: &mut Generator) -> Vec<ListOf> {
        let mut rows: Vec<ListOf> = self
            .sums
            .into_values()
            .map(|added| {
                let mut row = added.first;
                if let Some(mut sum) = added.sum {
                    sum.shorten(coins);
                    row.list = sum.to_estimates();
                    let mean = added.even / row.list.events.max(1.0);
                    row.even = row.even.map(|_| mean.clamp(0.0, 1.0));
                }
                round(&mut row, coins);
                row
            })
            .collect();
        // Rows differ in their keys: the order of a hash table tells nothing in the end.
        rows.sort_unstable_by_key(ListOf::key);
        rows
    }
}

/// What a list will take, roughly.
pub(crate) fn bytes_of(row: &ListOf) -> usize {
    BYTES + BYTES_OF_VALUE * row.list.tuples.len()
}

/// Parts lists that are never thinned from the others: those of instructions, parameters and call
/// sites of which so much was counted, in all processes together, that their shares are asked for.
pub(crate) fn often_met(rows: Vec<ListOf>) -> [Vec<ListOf>; 2] {
    let of = |row: &ListOf| (row.address, row.caller, row.parameter);
    let mut counted: HashMap<_, f64> = HashMap::new();
    for row in &rows {
        let events: f64 = row.list.tuples().map(|tuple| tuple.least).sum();
        *counted.entry(of(row)).or_default() += events;
    }
    let is_kept = |row: &ListOf| counted.get(&of(row)).is_some_and(|events| *events >= KEPT);
    let (kept, others) = rows.into_iter().partition(is_kept);
    [kept, others]
}

/// Keeps each list with the probability that its weight says it was kept with. Lists of one
/// instruction, process and call site share one draw, so that they stay together.
pub(crate) fn thin(rows: &mut Vec<ListOf>, tau: f64, coins: &mut Generator) {
    let mut last = None;
    rows.retain(|row| {
        let of = (row.process, row.address, row.caller);
        let draw = match last {
            Some((same, draw)) if same == of => draw,
            _ => coins.uniform(),
        };
        last = Some((of, draw));
        draw * row.weight(tau) <= 1.0
    });
}

/// Makes the numbers whole, which take less room: up or down with the probability that keeps the
/// mean. What was counted is whole already.
fn round(row: &mut ListOf, coins: &mut Generator) {
    if !is_whole(row.reached) || !is_whole(row.unknown) || !is_whole(row.list.events) {
        row.list.events = whole(row.list.events, coins);
        row.unknown = whole(row.unknown, coins);
        row.reached = row.list.events + row.unknown;
    }
    let Estimates {
        events,
        threshold,
        pairs,
        tuples,
    } = &mut row.list;
    // It says below what a value may be missing.
    *threshold = threshold.ceil();
    if let Some((within, across)) = pairs {
        (*within, *across) = (coarse(*within, BITS), coarse(*across, BITS));
    }
    for tuple in tuples.iter_mut() {
        let step = match tuple.variance > 0.0 {
            true => step_of(tuple.estimate, BITS_OF_ESTIMATE),
            false => 1.0,
        };
        let rest = (tuple.estimate / step).fract();
        tuple.estimate = step * whole(tuple.estimate / step, coins);
        let variance = tuple.variance + step * step * rest * (1.0 - rest);
        tuple.variance = coarse(variance, BITS);
        tuple.least = tuple.least.floor();
        tuple.pairs = (coarse(tuple.pairs.0, BITS), coarse(tuple.pairs.1, BITS));
    }
    tuples.retain(|tuple| tuple.estimate > 0.0);
    tuples.sort_by(|a, b| {
        let by_estimate = b.estimate.total_cmp(&a.estimate);
        by_estimate.then(a.value.cmp(&b.value))
    });
    // Windows are those that were seen; of a list that stands for others these are fewer.
    let most = if *events >= 1.0 { *events as u64 } else { 0 };
    row.windows = row
        .windows
        .clamp(u64::from(most > 0), most.max(u64::from(most > 0)));
}

/// A whole number that has so many significant bits, and zeros behind them.
fn coarse(x: f64, bits: i32) -> f64 {
    let step = step_of(x, bits);
    (x / step).round() * step
}

/// The distance of numbers around x that have so many significant bits, 1 at least.
fn step_of(x: f64, bits: i32) -> f64 {
    let magnitude = x.max(1.0).log2().floor() as i32 + 1;
    2.0_f64.powi((magnitude - bits).max(0))
}

fn is_whole(x: f64) -> bool {
    x.fract() == 0.0
}

fn whole(x: f64, coins: &mut Generator) -> f64 {
    let rest = x.fract();
    match rest > 0.0 && coins.flip(rest) {
        true => x.floor() + 1.0,
        false => x.floor(),
    }
}

#[cfg(test)]
mod tests {
    use hotlist::Estimate;

    use super::*;

    fn list(address: u64, values: &[(u64, f64)]) -> ListOf {
        let tuples = values.iter().map(|&(value, estimate)| Estimate {
            value,
            estimate,
            variance: 0.0,
            least: estimate,
            first: 0,
            pairs: (0.0, 0.0),
        });
        let events: f64 = values.iter().map(|(_, estimate)| estimate).sum();
        ListOf {
            process: 1,
            address,
            caller: None,
            parameter: 1,
            reached: events,
            unknown: 0.0,
            windows: events as u64,
            even: Some(0.5),
            list: Estimates {
                events,
                threshold: 1.0,
                pairs: Some((0.0, 0.0)),
                tuples: tuples.collect(),
            },
        }
    }

    /// What was counted adds up exactly, whatever comes first.
    #[test]
    fn exact() {
        let mut coins = Generator::new(1);
        let mut lists = Lists::new(64);
        for _ in 0..10 {
            lists.add(list(8, &[(5, 3.0), (6, 1.0)]), &mut coins);
            lists.add(list(4, &[(6, 2.0)]), &mut coins);
        }
        let rows = lists.finish(&mut coins);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].address, rows[0].reached), (4, 20.0));
        let of_second = &rows[1].list;
        assert_eq!(rows[1].even, Some(0.5));
        assert_eq!(of_second.events, 40.0);
        let told: Vec<_> = of_second.tuples().map(|t| (t.value, t.estimate)).collect();
        assert_eq!(told, [(5, 30.0), (6, 10.0)]);
    }

    /// Thinning values, lists and fractions, three times one after the other as hours, days and
    /// weeks do, leaves every sum where it was: of values, of events, and their variances tell
    /// how far it is off.
    #[test]
    fn unbiased() {
        let runs = 3_000_u32;
        let of_hour = |hour: u64, at: u64| {
            let values = (0..=at).map(|n| (n * (1 + hour % 3), 1.0 + ((at + n) % 3) as f64));
            list(4 * at, &values.collect::<Vec<_>>())
        };
        let mut truth = [0.0; 3];
        for (hour, at) in (0..12).flat_map(|hour| (0..20).map(move |at| (hour, at))) {
            let list = of_hour(hour, at).list;
            for (value, sum) in (0..).zip(&mut truth) {
                *sum += list
                    .tuples()
                    .filter(|t| t.value == value)
                    .map(|t| t.estimate)
                    .sum::<f64>();
            }
        }
        let mut sums = [(0.0, 0.0, 0.0); 3];
        let mut coins = Generator::new(3);
        for _ in 0..runs {
            let mut days = Lists::new(6);
            for day in 0..3 {
                let mut hours = Lists::new(6);
                for hour in 4 * day..4 * day + 4 {
                    let mut one = Lists::new(6);
                    (0..20).for_each(|at| one.add(of_hour(hour, at), &mut coins));
                    add_thinned(one, 8.0, &mut hours, &mut coins);
                }
                add_thinned(hours, 20.0, &mut days, &mut coins);
            }
            let mut week = days.finish(&mut coins);
            thin(&mut week, 50.0, &mut coins);
            week.iter_mut().for_each(|row| row.weigh(50.0));
            for (value, sum) in (0..).zip(&mut sums) {
                let tuples = week.iter().flat_map(|row| row.list.tuples());
                let (mut x, mut variance) = (0.0, 0.0);
                for tuple in tuples.filter(|tuple| tuple.value == value) {
                    x += tuple.estimate;
                    variance += tuple.variance;
                }
                *sum = (sum.0 + x, sum.1 + x * x, sum.2 + variance);
            }
        }
        for (truth, (sum, squares, variances)) in truth.into_iter().zip(sums) {
            let runs = f64::from(runs);
            let mean = sum / runs;
            let spread = squares / runs - mean * mean;
            let off = (mean - truth) / (spread / runs).sqrt();
            assert!(off.abs() < 4.0, "{mean} for {truth}: {off} standard errors");
            let told = variances / runs / spread;
            assert!((0.85..1.15).contains(&told), "variance {told}");
        }
    }

    fn add_thinned(lists: Lists, tau: f64, into: &mut Lists, coins: &mut Generator) {
        let mut rows = lists.finish(coins);
        thin(&mut rows, tau, coins);
        for mut row in rows {
            row.weigh(tau);
            into.add(row, coins);
        }
    }
}
