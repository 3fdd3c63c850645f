//! Lists added up: what many flushes say together.

use std::cmp::Reverse;
use std::hash::Hash;

use foldhash::{HashMap, HashMapExt as _};

use crate::coins::Coins;
use crate::estimates::{Estimate, Estimates};
use crate::interval::{Draws, share_interval};
use crate::list::Hotlist;
use crate::reduce::{Weight, stake, threshold};
use crate::words::Words;

/// The sum of many lists, value by value: estimates add up, and so do their variances.
///
/// Where [`Hotlist::merge`] makes a list of N tuples, a sum keeps what each list knows: no
/// estimate is put at stake because another list is worse. It holds so many values as it is told
/// to; when there are twice as many, it keeps so many of them, unbiased, by the rule of merging
/// by weight. Values that come often stay as they are.
#[derive(Clone, Debug)]
pub struct Sum<V = u64> {
    values: HashMap<V, ValueSums>,
    most: usize,
    events: f64,
    threshold: f64,
    /// `None`: not known of one of the lists.
    pairs: Option<(f64, f64)>,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, Default)]
struct ValueSums {
    estimate: f64,
    variance: f64,
    least: f64,
    first: u64,
    within: f64,
    across: f64,
}

/// A value of a [`Sum`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summed<V = u64> {
    /// The value.
    pub value: V,
    /// How many of its events the lists counted at least.
    pub least: f64,
    /// The earliest S of the lists.
    pub first: u64,
    estimate: f64,
    variance: f64,
    /// Pairs within windows and across them, as if all its events had been counted.
    within: f64,
    across: f64,
}

impl<V> Summed<V> {
    /// Unbiased estimate of how many events had this value.
    pub fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Unbiased estimate of the variance that thinning has put into the estimate.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// Whether a value of the same sum has the same [interval](Sum::interval), since all that is
    /// known of both is the same.
    pub fn is_as_frequent_as(&self, other: &Summed<V>) -> bool {
        let known = |of: &Summed<V>| (of.estimate, of.variance, of.within, of.across);
        known(self) == known(other)
    }
}

/// A number that compares as [`f64::total_cmp`] does.
fn in_total_order(number: f64) -> i64 {
    let bits = number.to_bits().cast_signed();
    match bits < 0 {
        true => bits ^ i64::MAX,
        false => bits,
    }
}

impl<V: Words + Ord + Hash> Sum<V> {
    /// The values that reports keep of a sum.
    pub const MOST: usize = 4_096;

    /// An empty sum that keeps `most` values, and at times up to twice as many.
    pub fn new(most: usize) -> Self {
        Self {
            values: HashMap::new(),
            most: most.max(1),
            events: 0.0,
            threshold: 1.0,
            pairs: Some((0.0, 0.0)),
        }
    }

    /// Adds a list. Coins are thrown only where there are too many values.
    pub fn add(&mut self, list: &Hotlist<V>, coins: &mut impl Coins) {
        self.add_estimates(&Estimates::from(list), coins);
    }

    /// Adds what a list says, as [`Sum::add`] does.
    pub fn add_estimates(&mut self, list: &Estimates<V>, coins: &mut impl Coins) {
        self.events += list.events;
        if !list.is_empty() {
            self.threshold = self.threshold.max(list.threshold);
        }
        self.pairs = match (self.pairs, list.pairs) {
            (Some((within, across)), Some(more)) => Some((within + more.0, across + more.1)),
            // A list without events tells nothing and asks for nothing.
            (pairs, _) if list.events == 0.0 => pairs,
            _ => None,
        };
        for tuple in &list.tuples {
            self.add_tuple(tuple);
        }
        if self.values.len() > self.most.saturating_mul(2) {
            self.reduce(coins);
        }
    }

    fn add_tuple(&mut self, tuple: &Estimate<V>) {
        let fresh = ValueSums {
            first: u64::MAX,
            ..ValueSums::default()
        };
        let entry = self.values.entry(tuple.value).or_insert(fresh);
        entry.estimate += tuple.estimate;
        entry.variance += tuple.variance;
        entry.least += tuple.least;
        entry.first = entry.first.min(tuple.first);
        entry.within += tuple.pairs.0;
        entry.across += tuple.pairs.1;
    }

    /// The estimates of the sum, to be stored or added to another sum.
    pub fn to_estimates(&self) -> Estimates<V> {
        let estimate = |tuple: Summed<V>| Estimate {
            value: tuple.value,
            estimate: tuple.estimate,
            variance: tuple.variance,
            least: tuple.least,
            first: tuple.first,
            pairs: (tuple.within, tuple.across),
        };
        Estimates {
            events: self.events,
            threshold: self.threshold,
            pairs: self.pairs,
            tuples: self.tuples().map(estimate).collect(),
        }
    }

    /// Leaves no more values than it was told to keep.
    pub fn shorten(&mut self, coins: &mut impl Coins) {
        if self.values.len() > self.most {
            self.reduce(coins);
        }
    }

    fn reduce(&mut self, coins: &mut impl Coins) {
        let weight = |entry: &ValueSums| Weight {
            estimate: entry.estimate,
            variance: entry.variance,
        };
        // Coins are thrown in an order that does not depend on the table's.
        let mut entries: Vec<(&V, &mut ValueSums)> = self.values.iter_mut().collect();
        entries.sort_unstable_by_key(|(value, _)| **value);
        let mut weights: Vec<Weight> = entries.iter().map(|(_, entry)| weight(entry)).collect();
        let threshold = threshold(&weights, self.most, self.threshold);
        stake(&mut weights, threshold, coins);
        self.threshold = threshold;
        for ((_, entry), weight) in entries.into_iter().zip(&weights) {
            let scale = weight.estimate / entry.estimate;
            entry.within *= scale;
            entry.across *= scale;
            (entry.estimate, entry.variance) = (weight.estimate, weight.variance);
        }
        self.values.retain(|_, entry| entry.estimate > 0.0);
    }

    /// Events offered to the lists.
    pub fn events(&self) -> u64 {
        // A number that has no room becomes the largest that has.
        self.events.round() as u64
    }

    /// The largest 1/p of the lists: about the number of events of one list below which a value
    /// may be missing from it.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the sum has no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Has no values and no events any more; the room for them stays.
    pub fn clear(&mut self) {
        self.values.clear();
        self.events = 0.0;
        self.threshold = 1.0;
        self.pairs = Some((0.0, 0.0));
    }

    /// The values, highest estimate first; of equal ones the least first.
    pub fn tuples(&self) -> impl Iterator<Item = Summed<V>> + use<V> {
        let mut all = Vec::new();
        self.put_tuples(&mut all);
        all.into_iter()
    }

    /// Has `all` be the [values](Sum::tuples). What it had is forgotten, but for its room.
    pub fn put_tuples(&self, all: &mut Vec<Summed<V>>) {
        let summed = |(&value, entry): (&V, &ValueSums)| Summed {
            value,
            least: entry.least,
            first: entry.first,
            estimate: entry.estimate,
            variance: entry.variance,
            within: entry.within,
            across: entry.across,
        };
        all.clear();
        all.extend(self.values.iter().map(summed));
        // They are large: their keys are sorted first.
        all.sort_by_cached_key(|of| (Reverse(in_total_order(of.estimate)), of.value));
    }

    /// How alike the events of one window are: their intraclass correlation (W. G. Cochran,
    /// Sampling Techniques, 1977, chapter 8), 0 where they are independent and 1 where they are
    /// equal. `None` where there are fewer than `least` pairs of them, or those are not known.
    /// `tuples` are [its own](Sum::tuples).
    pub fn alike(&self, tuples: &[Summed<V>], least: f64) -> Option<f64> {
        let all = self.pairs.map(|(within, _)| within);
        let all = all.filter(|all| *all >= least.max(1.0))?;
        let events = self.events.max(1.0);
        let (same, expected) = tuples.iter().fold((0.0, 0.0), |(same, expected), of| {
            let share = (of.estimate / events).clamp(0.0, 1.0);
            (same + of.within / all, expected + share * share)
        });
        // Of a constant nothing can be unlike.
        let room = 1.0 - expected;
        Some(if room > 1e-3 {
            (same - expected) / room
        } else {
            0.0
        })
    }

    /// A 95 % interval, in percent, of a value's share. See [`Draws`] for the method.
    pub fn interval(&self, tuple: &Summed<V>, draws: &Draws) -> (f64, f64) {
        let effect = match self.pairs {
            Some((within, across)) => draws.design_effect(
                tuple.estimate,
                (tuple.within, tuple.across),
                (within, across),
            ),
            None => draws.by_windows(),
        };
        let Draws {
            samples, reached, ..
        } = *draws;
        share_interval(tuple.estimate, tuple.variance, samples, effect, reached)
    }
}
