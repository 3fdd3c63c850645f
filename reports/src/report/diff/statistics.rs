//! What of a difference chance alone explains.

/// Two-sided 95 % of the normal distribution, which intervals of shares are made for.
const Z: f64 = 1.959_963_984_540_054;
/// Of what is said to have changed, this part may be chance.
const FALSE_DISCOVERIES: f64 = 0.05;

/// How often chance alone would make counts differ as much as these: `a` of `all_a` and `b` of
/// `all_b` draws.
///
/// The test is R. A. Fisher's exact one: with both sums given, the count on one side is
/// hypergeometric if neither side favours it. The smaller tail is doubled.
pub(super) fn by_counts((a, all_a): (u64, u64), (b, all_b): (u64, u64)) -> f64 {
    let (a, all_a) = (a.min(all_a), all_a);
    let (b, all_b) = (b.min(all_b), all_b);
    let (drawn, all) = (a + b, all_a + all_b);
    if drawn == 0 || drawn == all || all_a == 0 || all_b == 0 {
        return 1.0;
    }
    let ways = |n: u64, k: u64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let most = drawn.min(all_a);
    let least = drawn.saturating_sub(all_b);
    let here = (ways(all_a, a) + ways(all_b, b) - ways(all, drawn)).exp();
    let expected = float(drawn) * float(all_a) / float(all);
    // From the count away from what is expected, each term is less than the one before.
    let mut tail = here;
    let mut term = here;
    let mut x = a;
    let upwards = float(a) >= expected;
    while term > tail * 1e-16 && (if upwards { x < most } else { x > least }) {
        // The ratio of neighbouring probabilities.
        if upwards {
            term *= float(all_a - x) / float(x + 1);
            term *= float(drawn - x) / float(all_b + x + 1 - drawn);
            x += 1;
        } else {
            term *= float(x) / float(all_a - x + 1);
            term *= float(all_b + x - drawn) / float(drawn - x + 1);
            x -= 1;
        }
        tail += term;
    }
    (2.0 * tail).min(1.0)
}

/// A share in percent with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShareInterval {
    /// The share.
    pub(super) percent: f64,
    /// Lower end.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
}

/// How often chance alone would make shares differ as much as these.
///
/// The distances from the shares to the ends of their intervals that face each other are taken for
/// those of the difference's interval (R. G. Newcombe, Interval estimation for the difference
/// between independent proportions, 1998, method 10). So whatever the intervals hold counts:
/// windows, draws of the lists, and what is unknown.
pub(super) fn by_intervals(a: ShareInterval, b: ShareInterval) -> f64 {
    let (less, more) = if a.percent <= b.percent {
        (a, b)
    } else {
        (b, a)
    };
    let difference = more.percent - less.percent;
    let reach = (more.percent - more.low).hypot(less.high - less.percent);
    if difference <= 0.0 || reach <= 0.0 {
        return if difference > 0.0 { 0.0 } else { 1.0 };
    }
    two_sided(Z * difference / reach)
}

/// The probability beyond `z` on both sides of the normal distribution: within 1.5e-7 (M.
/// Abramowitz, I. Stegun, Handbook of Mathematical Functions, 7.1.26), and never 0.
fn two_sided(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let sum = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (sum * (-x * x).exp()).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The greatest of these probabilities that is small enough for a change, with so many of them
/// (Y. Benjamini, Y. Hochberg, Controlling the false discovery rate, 1995); negative if none is.
pub(super) fn limit(mut probabilities: Vec<f64>) -> f64 {
    probabilities.sort_by(f64::total_cmp);
    let all = float(probabilities.len() as u64);
    let passing = probabilities
        .iter()
        .zip(1..)
        .filter(|(p, rank)| **p <= FALSE_DISCOVERIES * float(*rank) / all);
    passing.map(|(p, _)| *p).last().unwrap_or(-1.0)
}

fn float(count: u64) -> f64 {
    crate::view::as_float(count)
}

/// The logarithm of a factorial: a sum for small numbers, else J. Stirling's series.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|k| float(k).ln()).sum();
    }
    let x = float(n);
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-6 * b.max(1e-9), "{a} is not {b}");
    }

    /// Fisher's tea: of 4 cups 3 or more are told apart by chance in 17 of 70 cases.
    #[test]
    fn counts() {
        close(by_counts((3, 4), (1, 4)), 2.0 * 17.0 / 70.0);
        close(by_counts((1, 4), (3, 4)), 2.0 * 17.0 / 70.0);
        close(by_counts((4, 4), (0, 4)), 2.0 / 70.0);
        for nothing in [((0, 10), (0, 10)), ((10, 10), (10, 10)), ((3, 3), (0, 0))] {
            close(by_counts(nothing.0, nothing.1), 1.0);
        }
        // The same shares are what is expected, however many there are.
        assert!(by_counts((300_000, 1_000_000), (300_000, 1_000_000)) > 0.9);
        let p = by_counts((300_000, 1_000_000), (302_000, 1_000_000));
        assert!((0.001..0.003).contains(&p), "{p}");
        assert!(by_counts((300_000, 1_000_000), (400_000, 1_000_000)) < 1e-100);
    }

    /// Of random pairs of counts with one share, no more pass a level than it says.
    #[test]
    fn counts_of_one_share() {
        let mut state = 7_u64;
        let mut draw = |of: u64| -> u64 {
            let mut hits = 0;
            for _ in 0..of {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                hits += u64::from(state >> 33 & 0xff < 40);
            }
            hits
        };
        let passing = (0..1000)
            .filter(|_| by_counts((draw(300), 300), (draw(200), 200)) <= 0.05)
            .count();
        assert!(passing < 70, "{passing}");
    }

    /// Intervals that keep well apart are a change; the same shares, and unknown ones, are none.
    #[test]
    fn intervals() {
        let known = |percent, low, high| ShareInterval { percent, low, high };
        assert!(by_intervals(known(10.0, 8.0, 12.0), known(50.0, 45.0, 55.0)) < 1e-9);
        close(
            by_intervals(known(10.0, 8.0, 12.0), known(10.0, 9.0, 11.0)),
            1.0,
        );
        assert!(by_intervals(known(10.0, 0.0, 90.0), known(50.0, 45.0, 55.0)) > 0.3);
        // As far apart as the interval of the difference reaches.
        let p = by_intervals(known(10.0, 7.0, 13.0), known(15.0, 11.0, 19.0));
        assert!((p - 0.05).abs() < 1e-6, "{p}");
    }

    /// More tests ask for smaller probabilities; none passes of what chance makes.
    #[test]
    fn several_tests() {
        close(limit(vec![0.04]), 0.04);
        assert!(limit(vec![0.04, 0.5, 0.6]) < 0.0);
        close(limit(vec![0.001, 0.03, 0.9, 0.02]), 0.03);
        assert!(limit(Vec::new()) < 0.0);
    }
}
