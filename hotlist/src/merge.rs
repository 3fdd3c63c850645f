//! Two lists of the same key become one.

use crate::coins::Coins;
use crate::config::Eviction;
use crate::list::{CountingMode, Hotlist, LEAST_P};
use crate::pairs::Pairs;
use crate::reduce::{Weight, stake, threshold};
use crate::store::{Counts, Store};
use crate::words::Words;

impl<V: Words> Hotlist<V> {
    /// A list for both streams together: of two CPUs, two epochs, two machines.
    ///
    /// The estimates of each value are added, and p falls until N tuples are left; see the
    /// [crate's page](crate#merging) for why every estimate stays unbiased and for what is lost.
    /// A [`Sum`](crate::Sum) loses nothing. N, f and the ends are those of `self`. A tuple's S is
    /// the earlier of the two.
    #[must_use]
    pub fn merge(&self, other: &Self, coins: &mut impl Coins) -> Self {
        let (mut tuples, p) = match self.store.eviction() {
            Eviction::ByEvent => self.union_by_event(other, coins),
            Eviction::ByWeight => self.union_by_weight(other, coins),
        };
        let last = self.store.last().max(other.store.last());
        let mut merged = self.clone();
        merged.events = self.events.saturating_add(other.events);
        merged.p = self.evict(&mut tuples, p, last, coins);
        merged.store = Store::new(self.store.capacity, self.store.eviction());
        for &(value, counts, _) in &tuples {
            merged.store.push(value, counts);
        }
        let of_lists = self.pairs().zip(other.pairs());
        let told = of_lists.is_some_and(|(own, others)| {
            let of_tuples = tuples.iter().map(|&(_, _, pairs)| pairs);
            let mut places = (0..).zip([own + others].into_iter().chain(of_tuples));
            places.all(|(place, pairs)| merged.store.set_pairs(place, pairs))
        });
        if !told {
            merged.store.forget_pairs();
        }
        if !merged.is_empty() {
            merged.store.saw(last);
        }
        merged.store.sort(merged.p);
        merged.forget_run();
        merged.sat_count = self
            .sat_count
            .min(other.sat_count)
            .clamp(self.min_end, self.max_end);
        merged.mode = match (self.mode, other.is_concise()) {
            // Concise samples go on where both were, and SatCount is in between then.
            (CountingMode::Counting | CountingMode::Concise, true)
                if self.is_concise() && merged.sat_count > self.min_end =>
            {
                CountingMode::Concise
            }
            (CountingMode::Counting | CountingMode::Concise, _) => {
                merged.sat_count = merged.sat_count.min(self.max_end - 1);
                CountingMode::Counting
            }
            (always, _) => always,
        };
        merged
    }

    /// The tuples of both at the smaller p, thinned by event.
    fn union_by_event(&self, other: &Self, coins: &mut impl Coins) -> (Vec<Counted<V>>, f64) {
        let p = self.p.min(other.p);
        let mut tuples = thinned_tuples(self, p, coins);
        for (value, counts, pairs) in thinned_tuples(other, p, coins) {
            match tuples.iter_mut().find(|(own, ..)| same(*own, value)) {
                Some((_, own, own_pairs)) => {
                    // Each count is below 2^32.
                    own.counted += counts.counted;
                    own.certain += counts.certain;
                    own.first = own.first.min(counts.first);
                    *own_pairs = *own_pairs + pairs;
                }
                None => tuples.push((value, counts, pairs)),
            }
        }
        (tuples, p)
    }

    /// The estimates of both added up, and N of them left by weight; see [`crate::Sum`] for what
    /// needs no such end.
    fn union_by_weight(&self, other: &Self, coins: &mut impl Coins) -> (Vec<Counted<V>>, f64) {
        let mut tuples: Vec<Counted<V>> = Vec::new();
        let mut weights: Vec<Weight> = Vec::new();
        for list in [self, other] {
            for (at, tuple) in list.tuples().enumerate() {
                let counts = list.store.counts(at);
                let (estimate, variance) = (tuple.estimate(), tuple.variance());
                let known = tuples.iter().position(|(own, ..)| same(*own, tuple.value));
                if let Some(at) = known {
                    let (_, own, pairs) = &mut tuples[at];
                    own.first = own.first.min(counts.first);
                    *pairs = *pairs + tuple.pairs;
                    weights[at].estimate += estimate;
                    weights[at].variance += variance;
                } else {
                    tuples.push((tuple.value, counts, tuple.pairs));
                    weights.push(Weight { estimate, variance });
                }
            }
        }
        let least = self.threshold().max(other.threshold());
        let threshold = threshold(&weights, usize::from(self.store.capacity), least);
        stake(&mut weights, threshold, coins);
        let p = (1.0 / threshold).min(self.p).min(other.p);
        for ((_, counts, _), weight) in tuples.iter_mut().zip(&weights) {
            *counts = Counts {
                first: counts.first,
                ..Counts::of_weight(weight.estimate, weight.variance, p, coins)
            };
        }
        tuples.retain(|(_, counts, _)| counts.counted > 0);
        (tuples, p)
    }

    /// Lowers p until the tuples fit into a list, and returns it.
    fn evict(
        &self,
        tuples: &mut Vec<Counted<V>>,
        mut p: f64,
        now: u64,
        coins: &mut impl Coins,
    ) -> f64 {
        while tuples.len() > usize::from(self.store.capacity)
            || tuples.iter().any(|(_, c, _)| c.is_at_end())
        {
            for (_, counts, _) in tuples.iter_mut().filter(|(_, c, _)| c.is_at_end()) {
                if let Some(folded) = counts.folded(p, coins) {
                    *counts = folded;
                }
            }
            let next = p / self.factor;
            if next < LEAST_P {
                // Coins that keep everything for ever; fair ones never come here.
                tuples.truncate(usize::from(self.store.capacity));
                break;
            }
            p = next;
            for (_, counts, _) in tuples.iter_mut() {
                *counts =
                    self.store
                        .eviction()
                        .thin(*counts, 1.0 - 1.0 / self.factor, p, now, coins);
            }
            tuples.retain(|(_, counts, _)| counts.counted > 0);
        }
        p
    }
}

/// A tuple.
type Counted<V> = (V, Counts, Pairs);

/// The tuples of a copy that was thinned to `p`.
fn thinned_tuples<V: Words>(list: &Hotlist<V>, p: f64, coins: &mut impl Coins) -> Vec<Counted<V>> {
    let mut list = list.clone();
    let last = list.store.last();
    list.thin_to(p, last, coins);
    (0..list.len())
        .map(|index| {
            let (value, counts) = (list.store.value(index), list.store.counts(index));
            (value, counts, list.store.pairs(index + 1))
        })
        .collect()
}

/// Equality by bits, as in the search of a list.
fn same<V: Words>(a: V, b: V) -> bool {
    let mut words = [[0; crate::MAX_WORDS]; 2];
    let [of_a, of_b] = &mut words;
    if let (Some(of_a), Some(of_b)) = (of_a.get_mut(..V::WORDS), of_b.get_mut(..V::WORDS)) {
        a.write(of_a);
        b.write(of_b);
    }
    words[0] == words[1]
}
