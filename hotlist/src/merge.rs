//! Two lists of the same key become one.

use crate::coins::Coins;
use crate::list::{Hotlist, LEAST_P, Mode};
use crate::store::{Counts, Store};
use crate::words::Words;

impl<V: Words> Hotlist<V> {
    /// A list for both streams together: of two CPUs, two epochs, two machines.
    ///
    /// Both lists are thinned to the smaller p, the counts of each value are added, and p falls
    /// on until N tuples are left; see the [crate's page](crate#merging) for why every estimate
    /// stays unbiased and for what is lost. N, f and the ends are those of `self`. A tuple's S is
    /// the earlier of the two.
    #[must_use]
    pub fn merge(&self, other: &Self, coins: &mut impl Coins) -> Self {
        let p = self.p.min(other.p);
        let mut tuples = thinned_tuples(self, p, coins);
        for (value, counts) in thinned_tuples(other, p, coins) {
            match tuples.iter_mut().find(|(own, _)| same(*own, value)) {
                Some((_, own)) => {
                    // Each count is below 2^32.
                    own.counted += counts.counted;
                    own.certain += counts.certain;
                    own.first = own.first.min(counts.first);
                }
                None => tuples.push((value, counts)),
            }
        }
        let last = self.store.last().max(other.store.last());
        let mut merged = self.clone();
        merged.events = self.events.saturating_add(other.events);
        merged.p = self.evict(&mut tuples, p, last, coins);
        merged.store = Store::new(self.store.capacity, self.store.eviction);
        for (value, counts) in tuples {
            merged.store.push(value, counts);
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
            (Mode::Counting | Mode::Concise, true)
                if self.is_concise() && merged.sat_count > self.min_end =>
            {
                Mode::Concise
            }
            (Mode::Counting | Mode::Concise, _) => {
                merged.sat_count = merged.sat_count.min(self.max_end - 1);
                Mode::Counting
            }
            (always, _) => always,
        };
        merged
    }

    /// Lowers p until the tuples fit into a list, and returns it.
    fn evict(
        &self,
        tuples: &mut Vec<(V, Counts)>,
        mut p: f64,
        now: u64,
        coins: &mut impl Coins,
    ) -> f64 {
        while tuples.len() > usize::from(self.store.capacity)
            || tuples.iter().any(|(_, c)| c.is_at_end())
        {
            for (_, counts) in tuples.iter_mut().filter(|(_, counts)| counts.is_at_end()) {
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
            for (_, counts) in tuples.iter_mut() {
                *counts = self
                    .store
                    .eviction
                    .thin(*counts, 1.0 - 1.0 / self.factor, p, now, coins);
            }
            tuples.retain(|(_, counts)| counts.counted > 0);
        }
        p
    }
}

/// The tuples of a copy that was thinned to `p`.
fn thinned_tuples<V: Words>(list: &Hotlist<V>, p: f64, coins: &mut impl Coins) -> Vec<(V, Counts)> {
    let mut list = list.clone();
    let last = list.store.last();
    list.thin_to(p, last, coins);
    (0..list.len())
        .map(|index| (list.store.value(index), list.store.counts(index)))
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
