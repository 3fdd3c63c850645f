//! Whether a value comes more or less often than it did.

use crate::config::Eviction;
use crate::list::Tuple;

/// What S and the counts of a tuple say about the value's rate over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trend {
    /// The value comes more often since S than before, with this confidence, above 1/2.
    Rising(f64),
    /// The value comes less often since S than before, with this confidence, above 1/2.
    Falling(f64),
    /// The tuple cannot tell.
    Unknown,
}

impl<V> Tuple<V> {
    /// Whether the value has been rising or falling between `start`, when the list's stream began,
    /// and `now`, both in the unit of the times offered.
    ///
    /// If the value always came at one rate r, then its first counted event came after a time
    /// S - start that is exponential with rate pr, thinning included, and its k = B - 1 + D further
    /// events followed at a known multiple of r. The chance of k or more of them in now - S is then
    /// (A / (A + c (S - start)))^k, with A = now - S and c the rate of entering over that of being
    /// counted afterwards: p if all were counted surely, 1 if none was. A small chance means
    /// rising: many events since, after a long wait. The chance of k or fewer is one less the
    /// same with k + 1; a small one means falling: entered soon, and hardly seen again. The
    /// confidence is one less the chance. A value that is in the list did enter, which makes early
    /// entries likelier than that: the chance of k or fewer is over that of having entered by now
    /// at the rate seen since S.
    ///
    /// What lies between S and now is one number, so a value that came and went in that time is
    /// not told. [`Eviction::ByWeight`] leaves S where it was when p was higher, earlier than the
    /// rule expects, so with it a rise is told with care and a fall not at all.
    pub fn trend(&self, start: u64, now: u64) -> Trend {
        if now <= self.first || self.first < start {
            return Trend::Unknown;
        }
        let before = (self.first - start) as f64;
        let since = (now - self.first) as f64;
        let further = (self.counted - self.counted.min(1)) as f64;
        let k = further + self.certain as f64;
        let c = if k > 0.0 {
            (further + self.p() * self.certain as f64) / k
        } else {
            1.0
        };
        let base = (since / (since + c * before)).ln();
        let entered = -(-c * (k + 1.0) * (before + since) / since).exp_m1();
        let (as_many, as_few) = ((k * base).exp(), -((k + 1.0) * base).exp_m1() / entered);
        // A chance that is hardly below 1/2 may round to a confidence of 1/2.
        let (rising, falling) = (1.0 - as_many, 1.0 - as_few);
        if rising > 0.5 && as_many <= as_few {
            Trend::Rising(rising)
        } else if falling > 0.5 && self.eviction() == Eviction::ByEvent {
            Trend::Falling(falling)
        } else {
            Trend::Unknown
        }
    }
}
