//! What flushes may write, and which lists they write where that is too little for all.
//!
//! A list is kept with the probability q = min(1, reached / tau), whatever else is kept. Whoever
//! reads it takes it for 1/q lists, so sums stay unbiased
//! ([`Estimates::weigh`](hotlist::Estimates::weigh)). Lists that were reached often are never at
//! stake. Lists of one instruction, process and call site share one draw: they are kept together.
//! Tau is the least whole number at which the flush is expected to keep to the budget.

use std::collections::BTreeMap;

/// Seconds whose bytes may be saved up, and overdrawn.
const SAVED: f64 = 600.0;

/// Seconds whose bytes are there at the begin: what is new to look at is looked at soon.
const AT_BEGIN: f64 = 60.0;

/// The least part of what a flush may write that is left to lists.
const LEAST_PART: f64 = 0.25;

/// The largest tau: lists that were reached more often are always kept.
const MOST_TAU: u64 = 1 << 32;

/// Bytes that a row of a table takes beside its blob.
pub(crate) const ROW: usize = 36;

/// The budget of a writer.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    bytes_per_second: f64,
    seed: u64,
    /// Bytes that may be written beyond what the next flush's time brings.
    saved: f64,
    /// Bytes that a list takes for each unit of its [`size`].
    ratio: f64,
}

impl Budget {
    pub(crate) fn new(bytes_per_hour: u64, seed: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_hour as f64 / 3600.0,
            seed,
            saved: bytes_per_hour as f64 / 3600.0 * AT_BEGIN,
            ratio: 1.0,
        }
    }

    /// The tau for lists of these sizes by how often they were reached, in a flush of so many
    /// seconds that writes so many bytes besides; 0: all are kept.
    pub(crate) fn tau(&self, seconds: f64, besides: usize, sizes: &BTreeMap<u64, u64>) -> u64 {
        let whole = self.bytes_per_second * seconds;
        let room = (whole + self.saved - besides as f64).max(whole * LEAST_PART);
        let units = room / self.ratio;
        let expected = |tau: u64| -> f64 {
            let kept = sizes.iter().map(|(&reached, &size)| {
                let q = (reached.max(1) as f64 / tau as f64).min(1.0);
                size as f64 * q
            });
            kept.sum()
        };
        if expected(1) <= units {
            return 0;
        }
        let (mut below, mut enough) = (1, MOST_TAU);
        while enough - below > 1 {
            let tau = below + (enough - below) / 2;
            match expected(tau) <= units {
                true => enough = tau,
                false => below = tau,
            }
        }
        enough
    }

    /// How many bytes lists of this size together took.
    pub(crate) fn wrote(&mut self, lists: usize, size: u64) {
        // Of a few lists nothing is to be learnt.
        if size > 1_000 {
            self.ratio = lists as f64 / size as f64;
        }
    }

    /// By how many bytes a flush of so many seconds made the database grow.
    pub(crate) fn spent(&mut self, seconds: f64, grown: u64) {
        let whole = self.bytes_per_second * seconds;
        let most = self.bytes_per_second * SAVED;
        self.saved = (self.saved + whole - grown as f64).clamp(-most, most);
    }

    /// The draw of the lists of an instruction: a number from 0 to 1.
    pub(crate) fn draw(&self, flush: i64, of: [u64; 4]) -> f64 {
        let start = mixed(self.seed ^ mixed(flush.cast_unsigned()));
        let bits = of.into_iter().fold(start, |bits, word| mixed(bits ^ word));
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// About how much a list of so many values takes, in a unit of its own.
pub(crate) fn size(values: usize) -> u64 {
    2 + 3 * values as u64
}

/// A word whose bits all depend on all of these (the finalizer of `SplitMix64`: G. L. Steele,
/// D. Lea, C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tau found is the least that keeps to the budget, and without need nothing is drawn.
    #[test]
    fn least_tau() {
        let sizes: BTreeMap<u64, u64> = (1..100).map(|reached| (reached, 1000 / reached)).collect();
        let all: u64 = sizes.values().sum();
        let budget = |bytes: f64| Budget {
            bytes_per_second: bytes,
            ..Budget::new(0, 1)
        };
        assert_eq!(budget(all as f64 + 1.0).tau(1.0, 0, &sizes), 0);
        for part in [0.9, 0.5, 0.1] {
            let budget = budget(all as f64 * part);
            let tau = budget.tau(1.0, 0, &sizes);
            let kept = |tau: u64| -> f64 {
                let q = |reached: u64| (reached as f64 / tau as f64).min(1.0);
                sizes
                    .iter()
                    .map(|(&reached, &size)| size as f64 * q(reached))
                    .sum()
            };
            assert!(
                kept(tau) <= all as f64 * part && kept(tau - 1) > all as f64 * part,
                "{tau}"
            );
        }
    }

    /// Draws are even, and those of neighbours do not depend on each other.
    #[test]
    fn draws() {
        let budget = Budget::new(0, 5);
        let all: Vec<f64> = (0..40_000).map(|n| budget.draw(7, [1, 2, n, 0])).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 0.5).abs() < 0.006, "{mean}");
        let products = all.windows(2).map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5));
        let covariance = products.sum::<f64>() / all.len() as f64;
        assert!(covariance.abs() < 0.002, "{covariance}");
        assert_ne!(budget.draw(7, [1, 2, 3, 0]), budget.draw(8, [1, 2, 3, 0]));
    }
}
