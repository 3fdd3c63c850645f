//! What a list says, whatever kept it: the form in which lists are stored, read and added up.

use crate::list::{Hotlist, Tuple};
use crate::words::Words;

/// The estimates of a list, or of a sum of lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates<V = u64> {
    /// Events offered. A list that stands for others has an estimate of it.
    pub events: f64,
    /// 1/p: about the number of events below which a value may be missing; 1 where none is.
    pub threshold: f64,
    /// Pairs of events within windows and across them ([`Pairs`](crate::Pairs)); `None` where they
    /// are not known.
    pub pairs: Option<(f64, f64)>,
    /// The values, highest estimate first.
    pub tuples: Vec<Estimate<V>>,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate<V = u64> {
    /// The value.
    pub value: V,
    /// Unbiased estimate of how many events had this value.
    pub estimate: f64,
    /// Unbiased estimate of the variance that thinning has put into the estimate.
    pub variance: f64,
    /// How many of its events were counted at least.
    pub least: f64,
    /// The time of its first event, as far as it is known.
    pub first: u64,
    /// Pairs within windows and across them, as if all its events had been counted.
    pub pairs: (f64, f64),
}

impl<V> Default for Estimates<V> {
    /// The estimates of a list without events.
    fn default() -> Self {
        Self {
            events: 0.0,
            threshold: 1.0,
            pairs: Some((0.0, 0.0)),
            tuples: Vec::new(),
        }
    }
}

impl<V: Words> Estimates<V> {
    /// Events offered.
    pub fn events(&self) -> f64 {
        self.events
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether there are no estimates.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// The values, highest estimate first.
    pub fn tuples(&self) -> impl Iterator<Item = Estimate<V>> + '_ {
        self.tuples.iter().copied()
    }

    /// Makes this what `list` says. What it had is forgotten, but for its room.
    pub fn take(&mut self, list: &Hotlist<V>) {
        self.events = list.events() as f64;
        self.threshold = list.threshold();
        let pairs = list.pairs();
        self.pairs = pairs.map(|pairs| (pairs.within as f64, pairs.across as f64));
        self.tuples.clear();
        self.tuples.extend(list.tuples().map(Estimate::from));
    }

    /// Lets a list stand for others: it was kept with the probability 1/`weight`, whatever else
    /// was. The estimates stay unbiased (D. G. Horvitz, D. J. Thompson: A generalization of
    /// sampling without replacement from a finite universe, JASA 47, 1952). So do the variances:
    /// with q = 1/`weight`, that of X/q is V/q + X^2 (1 - q)/q^2 in the mean over what is kept.
    pub fn weigh(&mut self, weight: f64) {
        self.events *= weight;
        self.threshold *= weight;
        if let Some((within, across)) = &mut self.pairs {
            *within *= weight;
            *across *= weight;
        }
        for tuple in &mut self.tuples {
            let chosen = tuple.estimate * tuple.estimate * weight * (weight - 1.0);
            tuple.variance = tuple.variance * weight + chosen;
            tuple.estimate *= weight;
            tuple.pairs.0 *= weight;
            tuple.pairs.1 *= weight;
        }
    }

    /// Makes up for events that were offered with the probability 1/`weight` each, whatever else
    /// was. The estimates stay unbiased, and so do the variances: of n events of a value n/`weight`
    /// were offered on average, and the variance of that is n/`weight` (1 - 1/`weight`). How events
    /// come together in windows is not known afterwards.
    pub fn undo_thinning(&mut self, weight: f64) {
        self.events *= weight;
        self.threshold *= weight;
        self.pairs = None;
        for tuple in &mut self.tuples {
            let thinned = tuple.estimate * weight * (weight - 1.0);
            tuple.variance = tuple.variance * weight * weight + thinned;
            tuple.estimate *= weight;
        }
    }
}

impl<V: Words> From<&Hotlist<V>> for Estimates<V> {
    fn from(list: &Hotlist<V>) -> Self {
        let mut estimates = Self::default();
        estimates.take(list);
        estimates
    }
}

impl<V: Words> From<Tuple<V>> for Estimate<V> {
    fn from(tuple: Tuple<V>) -> Self {
        let (estimate, variance) = (tuple.estimate(), tuple.variance());
        // Pairs are of the events since the value entered. It did so after about as many as a
        // geometric distribution of this variance says; those before are taken to be like them.
        let missed = (variance + 0.25).sqrt() - 0.5;
        let scale = estimate / (estimate - missed).max(1.0);
        Self {
            value: tuple.value,
            estimate,
            variance,
            least: tuple.counted as f64 + tuple.certain as f64,
            first: tuple.first,
            pairs: (
                tuple.pairs.within as f64 * scale,
                tuple.pairs.across as f64 * scale,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coins, Config, Generator, Sum};

    /// Lists that are kept by their size, and weighed by what they stand for, add up to what all
    /// lists say, and their variances to what the sums vary by.
    #[test]
    fn kept_lists_stand_for_all() {
        let mut coins = Generator::new(7);
        let lists: Vec<Estimates> = (0..40_u64)
            .map(|of| {
                let mut list = Hotlist::new(&Config::default().precise());
                for time in 0..=of % 8 {
                    list.update(1 + (of * time) % 3, time, &mut coins);
                }
                Estimates::from(&list)
            })
            .collect();
        let truth: f64 = lists
            .iter()
            .flat_map(Estimates::tuples)
            .filter(|tuple| tuple.value == 1)
            .map(|tuple| tuple.estimate)
            .sum();
        let (runs, tau) = (20_000, 6.0);
        let (mut sum, mut squares, mut variances, mut events) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..runs {
            let mut all = Sum::new(1_000);
            for list in &lists {
                let q = (list.events() / tau).min(1.0);
                if q < 1.0 && coins.gap(q, 1) > 0 {
                    continue;
                }
                let mut kept = list.clone();
                kept.weigh(1.0 / q);
                all.add_estimates(&kept, &mut coins);
            }
            let tuple = all.tuples().find(|tuple| tuple.value == 1);
            let (estimate, variance) = tuple.map_or((0.0, 0.0), |t| (t.estimate(), t.variance()));
            sum += estimate;
            squares += estimate * estimate;
            variances += variance;
            events += all.events() as f64;
        }
        let runs = f64::from(runs);
        let mean = sum / runs;
        let spread = squares / runs - mean * mean;
        assert!(
            (mean - truth).abs() < 4.0 * (spread / runs).sqrt(),
            "{mean} for {truth}"
        );
        let told = variances / runs;
        assert!(
            (0.95..1.05).contains(&(told / spread)),
            "{told} for {spread}"
        );
        let offered: f64 = lists.iter().map(Estimates::events).sum();
        assert!((events / runs / offered - 1.0).abs() < 0.01, "{events}");
    }
}
