//! How sure a share is.

/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// From this part of known events on, a share is given without regard to the unknown.
const KNOWN_ENOUGH: f64 = 0.9;

/// A 95 % interval, in percent, of the share of a value among all events that were `reached`.
///
/// `estimate` is of the value's events among the `samples` known ones, which came from `windows`
/// windows: events of one window are not independent, so the windows count as the draws
/// (Wilson's interval). `p` is the list's; the thinning it stands for widens the interval by
/// the largest variance that a tuple of this estimate can have. [`Tuple::interval`] knows the
/// tuple and is tighter. Where less than 90 % of the events reached are known, the unknown may
/// all have had this value or none of them, and the interval holds both.
///
/// [`Tuple::interval`]: crate::Tuple::interval
///
/// Never fails: what cannot be told gives (0, 100).
pub fn interval(estimate: f64, samples: u64, windows: u64, reached: u64, p: f64) -> (f64, f64) {
    let thinning = if p > 0.0 && p < 1.0 {
        // B/p is all of the estimate at the most, and one event's worth at the least.
        let counted_part = estimate.max(1.0 / p);
        counted_part * (1.0 - p) / p
    } else {
        0.0
    };
    let effect = by_windows(samples, windows);
    share_interval(estimate, thinning, samples, effect, reached)
}

/// A 95 % interval, in percent, of the share that weighs `part` of `all` known events, where
/// windows have weights and all events reached weigh `reached`.
///
/// `squares` is the sum over windows of the square of what the known events of a window weigh
/// together. The square of `all` over it is a number of draws that the share is worth at least: it
/// takes the events of a window for one draw, and knows that unequal weights tell less (L. Kish,
/// Survey Sampling, 1965, chapter 11). The interval is Wilson's for so many draws, and holds what
/// the unknown may be as [`interval`] does.
///
/// Never fails: what cannot be told gives (0, 100).
pub fn weighted_interval(part: f64, all: f64, squares: f64, reached: f64) -> (f64, f64) {
    let draws = all * all / squares;
    let told = part.is_finite() && all > 0.0 && draws.is_finite() && draws > 0.0;
    if !told {
        return (0.0, 100.0);
    }
    let (low, high) = wilson((part / all).clamp(0.0, 1.0), draws);
    with_unknown((low, high), all / reached.max(all))
}

/// What the events were drawn by, for the interval of a share.
///
/// Events are not independent: those of one window are neighbours in a program's execution, and
/// windows at even distances of time meet the phases of a program more evenly than chance would.
/// The variance of a share s = X/n is taken from sums over windows: a window of m events, y of
/// them of the value, is off by e = y - s m, and
///
/// > n^2 Var(s) = (1 - q) sum of e^2 + q sum of (e - e')^2 / 2,
///
/// with e' of the window before. The first sum is the variance of windows drawn at random, each a
/// cluster of events (L. Kish, Survey Sampling, 1965, chapters 5 and 6). The second is that of
/// successive differences (J. von Neumann, R. H. Kent, H. R. Bellinson, B. I. Hart: The mean
/// square successive difference, Ann. Math. Stat. 12, 1941; K. M. Wolter, Introduction to Variance
/// Estimation, chapter 8), which is right for windows at even distances: what changes slowly
/// adds little to it. Of windows that come evenly, but of which only every 1/q-th is accepted
/// by a draw, 1 - q of the variance is that of the draws.
///
/// Both sums follow from the [`Pairs`](crate::Pairs) of the value and of the list if a value's
/// share does not hang on m: sum of e^2 = X + within - s^2 (n + within of all), and the products
/// e e' alike. For one event a window this is X (1 - s), the binomial variance, and q = 1 makes
/// it the number of times that the value came when another had been the last.
///
/// Where the runs of equal values are some three to three hundred windows long and q is near
/// one, successive differences are larger than the variance, by a factor of up to six for
/// windows at exactly even distances; the interval is too wide then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draws {
    /// The known events.
    pub samples: u64,
    /// The windows that these came from.
    pub windows: u64,
    /// All events, known or not.
    pub reached: u64,
    /// q: how far windows come at even distances; 0: at random, which is safe to say where it is
    /// not known. Intervals between windows that vary by a coefficient of variation v on their
    /// own make it 1 - v^2, acceptance with a probability makes it that probability; both
    /// together, their product.
    pub even: f64,
}

impl Draws {
    /// A 95 % interval, in percent, of the share of a value with this estimate, of this variance
    /// from thinning, if each window is one draw. A [`Sum`](crate::Sum) knows more.
    pub fn interval(&self, estimate: f64, variance: f64) -> (f64, f64) {
        let effect = self.by_windows();
        share_interval(estimate, variance, self.samples, effect, self.reached)
    }

    /// Events of a value and of all, in how many pairs: what one event is worth is this part of
    /// an independent draw.
    pub(crate) fn design_effect(
        &self,
        estimate: f64,
        (within, across): (f64, f64),
        (all_within, all_across): (f64, f64),
    ) -> f64 {
        let n = self.samples as f64;
        let share = (estimate / n).clamp(0.0, 1.0);
        let even = if self.even.is_finite() {
            self.even.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let square = share * share;
        let at_random = estimate + within - square * (n + all_within);
        let evenly = across - square * all_across;
        let binomial = n * share * (1.0 - share);
        // As if one more event had been seen that is worth as much as one is if windows repeat
        // their values: few events tell little of how they depend on each other.
        let repeated = 1.0 + all_within / n;
        let found = (at_random - even * evenly).max(0.0);
        (found + repeated) / (binomial + 1.0)
    }

    /// The number of draws if all that is known is the number of windows.
    pub(crate) fn by_windows(&self) -> f64 {
        by_windows(self.samples, self.windows)
    }
}

/// How many events make a draw if each window is one.
pub(crate) fn by_windows(samples: u64, windows: u64) -> f64 {
    samples as f64 / windows.min(samples) as f64
}

/// As [`interval`], from the variance that thinning has put into the estimate, and how many
/// events are worth one independent draw.
pub(crate) fn share_interval(
    estimate: f64,
    thinning: f64,
    samples: u64,
    effect: f64,
    reached: u64,
) -> (f64, f64) {
    let told = estimate.is_finite() && thinning.is_finite() && effect.is_finite() && effect > 0.0;
    if !told || samples == 0 {
        return (0.0, 100.0);
    }
    let all = samples as f64;
    let share = (estimate / all).clamp(0.0, 1.0);
    let draws = all / effect;
    let thinning = thinning.max(0.0);
    let spread = Z * thinning.sqrt() / all;
    // A value that was lucky to be counted tells its variance; of one that was not, a larger part
    // is missing than its variance says. So the upper end is where the estimate would be as
    // unlikely if the variance grew with the share, as with counts of few draws.
    let of_event = if estimate > 0.0 {
        thinning / estimate
    } else {
        0.0
    };
    let centre = Z * Z * of_event / (2.0 * all);
    let (low, high) = wilson(share, draws);
    let low = share - root_of_squares(share - low, spread);
    let high = share + root_of_squares(high - share, centre + root_of_squares(spread, centre));
    with_unknown((low, high), all / reached.max(samples) as f64)
}

/// [`f64::hypot`] takes its time over numbers whose squares have no room: these are of shares.
fn root_of_squares(one: f64, other: f64) -> f64 {
    (one * one + other * other).sqrt()
}

/// An interval in percent: where a part of the events is unknown, it holds what these may be.
fn with_unknown((low, high): (f64, f64), known: f64) -> (f64, f64) {
    let (low, high) = if known < KNOWN_ENOUGH {
        (low * known, high * known + (1.0 - known))
    } else {
        (low, high)
    };
    (100.0 * low.clamp(0.0, 1.0), 100.0 * high.clamp(0.0, 1.0))
}

/// Wilson's score interval of a share seen in so many draws.
fn wilson(share: f64, draws: f64) -> (f64, f64) {
    let z2 = Z * Z;
    let centre = share + z2 / (2.0 * draws);
    let half = Z * (share * (1.0 - share) / draws + z2 / (4.0 * draws * draws)).sqrt();
    let scale = 1.0 + z2 / draws;
    // Rounding must not push an end past the share itself.
    (
        ((centre - half) / scale).min(share),
        ((centre + half) / scale).max(share),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: (f64, f64), wanted: (f64, f64)) {
        let near = |a: f64, b: f64| (a - b).abs() < 0.05;
        assert!(
            near(found.0, wanted.0) && near(found.1, wanted.1),
            "{found:?} for {wanted:?}"
        );
    }

    /// Without thinning and unknowns the interval is Wilson's, of the windows.
    #[test]
    fn wilson_of_windows() {
        close(interval(50.0, 100, 100, 100, 1.0), (40.4, 59.6));
        close(interval(500.0, 1000, 100, 1000, 1.0), (40.4, 59.6));
        close(interval(0.0, 10, 10, 10, 1.0), (0.0, 27.8));
        close(interval(10.0, 10, 10, 10, 1.0), (72.2, 100.0));
    }

    /// Thinning widens it, and the unknown count as anything below 90 % known.
    #[test]
    fn widened() {
        let plain = interval(500.0, 1000, 1000, 1000, 1.0);
        let thinned = interval(500.0, 1000, 1000, 1000, 0.1);
        assert!(thinned.0 < plain.0 - 3.0 && thinned.1 > plain.1 + 3.0);
        assert_eq!(interval(500.0, 1000, 1000, 1100, 1.0), plain);
        let (low, high) = interval(500.0, 1000, 1000, 2000, 1.0);
        close((low, high), (plain.0 / 2.0, plain.1 / 2.0 + 50.0));
    }

    /// Whatever the numbers, the ends are percentages in order.
    #[test]
    fn any_numbers() {
        let floats = [
            0.0,
            -1.0,
            0.3,
            1.0,
            1e300,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE,
        ];
        let counts = [0, 1, 7, u64::MAX];
        for (estimate, p) in floats
            .iter()
            .flat_map(|e| floats.iter().map(move |p| (*e, *p)))
        {
            for samples in counts {
                for (windows, reached) in [(0, 0), (1, 1), (7, u64::MAX), (u64::MAX, 7)] {
                    let (low, high) = interval(estimate, samples, windows, reached, p);
                    assert!(0.0 <= low && low <= high && high <= 100.0);
                }
            }
        }
    }
}
