//! Fewer tuples for the same total: which of many weights stay, and as what.
//!
//! Of weights x a threshold is found below which they are at stake: those of at least the
//! threshold stay as they are, one below it becomes the threshold with probability x over the
//! threshold, and 0 else. So every expectation is kept, and of all unbiased reductions to that
//! many weights this one has the least total variance (E. Cohen, N. Duffield, H. Kaplan,
//! C. Lund, M. Thorup: Efficient stream sampling for variance-optimal estimation of subset sums,
//! SIAM J. Comput. 40(5), 2011). The weights at stake are not drawn independently but against
//! each other (J.-C. Deville, Y. Tillé: Unequal probability sampling without replacement through
//! a splitting method, Biometrika 85(1), 1998): as many stay as should, not only on average.

use crate::coins::Coins;
use crate::evict::staked;

/// A weight with its variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weight {
    /// The estimate; 0: it is gone.
    pub(crate) estimate: f64,
    /// The estimated variance of the estimate.
    pub(crate) variance: f64,
}

/// The threshold at which `most` of the weights stay, and not less than `least`.
pub(crate) fn threshold(weights: &[Weight], most: usize, least: f64) -> f64 {
    let mut sorted: Vec<f64> = weights.iter().map(|weight| weight.estimate).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut rest: f64 = sorted.iter().sum();
    let stays = |threshold: f64| -> f64 {
        let chances = sorted.iter().map(|x| (x / threshold).min(1.0));
        chances.sum()
    };
    if sorted.len() <= most || stays(least) <= most as f64 {
        return least;
    }
    for (above, weight) in sorted.iter().take(most).enumerate() {
        let threshold = rest / (most - above) as f64;
        if *weight < threshold {
            return threshold.max(least);
        }
        rest -= weight;
    }
    // All are alike but for rounding.
    sorted.get(most).copied().unwrap_or(least).max(least)
}

/// Puts the weights below the threshold at stake.
pub(crate) fn stake(weights: &mut [Weight], threshold: f64, coins: &mut impl Coins) {
    // The one whose lot is still open, and its chance.
    let mut open: Option<(usize, f64)> = None;
    for index in 0..weights.len() {
        let Some(chance) = weights.get(index).map(|weight| weight.estimate / threshold) else {
            continue;
        };
        if chance >= 1.0 {
            continue;
        }
        let Some((other, of_other)) = open else {
            open = Some((index, chance));
            continue;
        };
        let sum = chance + of_other;
        open = if sum < 1.0 {
            // One goes, the other has the chances of both.
            let stays = sum > 0.0 && coins.flip(of_other / sum);
            let (stays, goes) = if stays {
                (other, index)
            } else {
                (index, other)
            };
            settle(weights, goes, false, threshold);
            Some((stays, sum))
        } else {
            // One stays, the other has what is left of the chances.
            let first = coins.flip((1.0 - chance) / (2.0 - sum));
            let (stays, left) = if first {
                (other, index)
            } else {
                (index, other)
            };
            settle(weights, stays, true, threshold);
            Some((left, sum - 1.0))
        };
    }
    if let Some((index, chance)) = open {
        // Where all chances add up to a whole number, this is one but for rounding.
        let stays = chance > 1.0 - 1e-9;
        let stays = stays || chance > 1e-9 && coins.flip(chance);
        settle(weights, index, stays, threshold);
    }
}

fn settle(weights: &mut [Weight], index: usize, stays: bool, threshold: f64) {
    if let Some(weight) = weights.get_mut(index) {
        let Weight { estimate, variance } = *weight;
        *weight = match stays {
            true => Weight {
                estimate: threshold,
                variance: staked(variance, estimate, threshold),
            },
            false => Weight {
                estimate: 0.0,
                variance: 0.0,
            },
        };
    }
}
