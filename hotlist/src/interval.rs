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
    share_interval(estimate, thinning, samples, windows, reached)
}

/// As [`interval`], from the variance that thinning has put into the estimate.
pub(crate) fn share_interval(
    estimate: f64,
    thinning: f64,
    samples: u64,
    windows: u64,
    reached: u64,
) -> (f64, f64) {
    let told = estimate.is_finite() && thinning.is_finite();
    if !told || samples == 0 || windows == 0 {
        return (0.0, 100.0);
    }
    let all = samples as f64;
    let share = (estimate / all).clamp(0.0, 1.0);
    let draws = windows.min(samples) as f64;
    let spread = Z * thinning.max(0.0).sqrt() / all;
    let (low, high) = wilson(share, draws);
    let low = share - (share - low).hypot(spread);
    let high = share + (high - share).hypot(spread);
    let known = all / reached.max(samples) as f64;
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
