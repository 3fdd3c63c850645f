//! What is left of a tuple when p falls.

use crate::coins::Coins;
use crate::config::Eviction;
use crate::store::Counts;

impl Eviction {
    /// What is left of a tuple when p falls to `p`; nothing counted means that it goes.
    ///
    /// `lose` is one less the new p over the old one. Both rules leave the expected estimate as
    /// it was; they are derived on the crate's page.
    pub(crate) fn thin(
        self,
        counts: Counts,
        lose: f64,
        p: f64,
        now: u64,
        coins: &mut impl Coins,
    ) -> Counts {
        match self {
            Self::ByEvent => counts.thinned(lose, p, now, coins),
            Self::ByWeight => counts.lightened(lose, p, now, coins),
        }
    }
}

impl Counts {
    /// By event: the events of B are kept or lost one by one; if none is kept, the events of D
    /// are offered with the new p one by one until one is accepted, which begins B anew.
    ///
    /// S moves on past the events that were lost from the front, as if the events were spread
    /// evenly from S to now: S = now - (now - S) * (what is left behind the front) / (what there
    /// was). Losses behind the first survivor do not move it: they leave the first event where it
    /// was. Where all losses are from the front, as always with counting samples, this is
    /// S = now - (now - S) * new/old. (The method's published text has three formulas for S. They
    /// differ in which way round the counts stand, and only this way S stays in the past; it
    /// also applies them to losses that leave the first event in place, which would make a steady
    /// value look younger with every thinning.)
    fn thinned(self, lose: f64, p: f64, now: u64, coins: &mut impl Coins) -> Self {
        let (b, d) = (self.counted, self.certain);
        // Losses before the first survivor, then the others.
        let front = coins.gap(1.0 - lose, b).min(b);
        if front < b {
            let behind = b - front - 1;
            let counted = 1 + behind - coins.losses(behind, lose).min(behind);
            return Self {
                counted,
                certain: d,
                first: later(self.first, now, b - front, b),
                variance: entry_variance(p),
            };
        }
        let refused = coins.gap(p, d).min(d);
        if refused == d {
            return Self {
                counted: 0,
                certain: 0,
                first: self.first,
                variance: 0.0,
            };
        }
        let certain = d - refused - 1;
        let first = later(self.first, now, certain + 1, b.saturating_add(d));
        Self {
            counted: 1,
            certain,
            first,
            variance: entry_variance(p),
        }
    }

    /// By weight: an estimate of at least 1/p stays, one event standing for 1/p of it and sure
    /// events for the rest; the fraction left over becomes an event with its own probability.
    /// S stays too, as no event is lost.
    ///
    /// The variance is estimated without bias as well. A tuple that stays with probability Xq
    /// brings X (1/q - X) to it, and stands for those that go, whose variance is taken for 0: so
    /// V becomes (V + X (1/q - X)) / (Xq). A rounding adds its own.
    ///
    /// Only a tuple with one event counted with probability p can be kept so. Each of several,
    /// which come from concise samples and from merging, brings a spread of its own, and B is what
    /// tells of it ([`Tuple::variance`](crate::Tuple::variance)): they are thinned by event.
    fn lightened(self, lose: f64, p: f64, now: u64, coins: &mut impl Coins) -> Self {
        let threshold = 1.0 / p;
        let estimate = threshold * (1.0 - lose) + self.certain as f64;
        let rest = estimate - threshold;
        // Too large a number of sure events must not arise; so many need no better rule.
        if self.counted > 1 || rest > Self::MAX as f64 / 2.0 {
            return self.thinned(lose, p, now, coins);
        }
        if rest < 0.0 {
            let gone = !coins.flip(estimate * p);
            let variance = staked(f64::from(self.variance), estimate, threshold);
            return Self {
                counted: u64::from(!gone),
                certain: 0,
                first: self.first,
                variance: variance as f32,
            };
        }
        Self {
            first: self.first,
            ..Self::of_weight(estimate, f64::from(self.variance), p, coins)
        }
    }

    /// The tuple of an estimate that is 0 or at least 1/p: one event stands for 1/p of it, sure
    /// events for the rest.
    pub(crate) fn of_weight(estimate: f64, variance: f64, p: f64, coins: &mut impl Coins) -> Self {
        if estimate <= 0.0 {
            return Self::default();
        }
        let rest = (estimate - 1.0 / p).max(0.0);
        let fraction = rest - rest.floor();
        Self {
            counted: 1,
            // A weight that no list can hold comes of unfair coins alone.
            certain: (rest as u64).saturating_add(u64::from(coins.flip(fraction))),
            first: 0,
            variance: (variance + fraction * (1.0 - fraction)) as f32,
        }
    }

    /// The same tuple with its sure events counted with probability p like the others, which
    /// leaves its expected estimate as it is; `None` where that would not fit either.
    pub(crate) fn folded(self, p: f64, coins: &mut impl Coins) -> Option<Self> {
        let expected = self.counted as f64 + p * self.certain as f64;
        if expected > Self::MAX as f64 / 2.0 {
            return None;
        }
        let accepted = self.certain - coins.losses(self.certain, 1.0 - p).min(self.certain);
        let counted = self.counted.saturating_add(accepted).min(Self::MAX);
        Some(Self {
            counted,
            certain: 0,
            ..self
        })
    }
}

/// Estimated variance of a value that entered a list at this p: the number of events until one
/// of them enters is geometric.
pub(crate) fn entry_variance(p: f64) -> f32 {
    ((1.0 - p) / (p * p)).min(MOST_VARIANCE) as f32
}

/// Estimated variance of an estimate that was put at stake and became `threshold`.
pub(crate) fn staked(variance: f64, estimate: f64, threshold: f64) -> f64 {
    let staked = threshold * (variance / estimate + threshold - estimate);
    // A list that comes to it has seen more events than can be.
    staked.min(MOST_VARIANCE)
}

/// The largest variance that a tuple keeps: it has to fit into 32 bits.
pub(crate) const MOST_VARIANCE: f64 = 1e36;

/// now - (now - first) * new/old, in whole units.
fn later(first: u64, now: u64, new: u64, old: u64) -> u64 {
    let span = u128::from(now.saturating_sub(first));
    let left = span * u128::from(new) / u128::from(old.max(1));
    // At most the span, as new <= old.
    now.saturating_sub(u64::try_from(left).unwrap_or(u64::MAX))
        .max(first)
}
