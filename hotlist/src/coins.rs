//! Unfair coins, asked for how long a run lasts rather than once per event.
//!
//! A list that takes one event in a thousand would flip nine hundred and ninety-nine coins for
//! nothing. The number of refusals before the next acceptance is geometrically distributed and
//! costs one draw; because that distribution has no memory, a run may be cut short whenever p
//! changes and drawn anew. Everything random in this crate goes through [`Coins`], so that the
//! code which runs in production is the code that scripted coins check step by step.

/// A source of unfair coins.
///
/// Flips must be independent of each other and of the values offered: the estimates are unbiased
/// because the coins do not know what they decide about.
pub trait Coins {
    /// Flips coins that come up good with probability `good`, until the first good one but
    /// `limit` at most, and returns how many came up bad. `limit` means: no good one among
    /// `limit` flips.
    fn gap(&mut self, good: f64, limit: u64) -> u64;

    /// Flips a coin that comes up good with probability `good`; whether it did.
    #[inline]
    fn flip(&mut self, good: f64) -> bool {
        self.gap(good, 1) == 0
    }

    /// How many of `trials` flips come up bad, each with probability `bad`.
    fn losses(&mut self, trials: u64, bad: f64) -> u64 {
        let mut left = trials;
        let mut lost = 0;
        while left > 0 {
            // Waiting for a bad flip: losses are the rare ones.
            let kept = self.gap(bad, left).min(left);
            if kept == left {
                break;
            }
            left -= kept + 1;
            lost += 1;
        }
        lost
    }
}

impl<C: Coins + ?Sized> Coins for &mut C {
    fn gap(&mut self, good: f64, limit: u64) -> u64 {
        (**self).gap(good, limit)
    }

    #[inline]
    fn flip(&mut self, good: f64) -> bool {
        (**self).flip(good)
    }

    fn losses(&mut self, trials: u64, bad: f64) -> u64 {
        (**self).losses(trials, bad)
    }
}

/// The production generator: a 64-bit counter through a mixing function (splitmix64), one
/// multiplication deep enough for coins and eight bytes of state. Not for secrets.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// The sequence of this seed; equal seeds give equal sequences.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1], in steps of 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A standard normal deviate.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Below this probability a run is drawn by its logarithm, above it flip by flip, which takes
/// less than the two logarithms.
const BY_FLIPS: f64 = 0.2;

/// From so many expected losses on, and as many expected survivors, the number lost is drawn from
/// the normal distribution of the same mean and variance: its distribution function is then off by
/// less than a thousandth, its mean not at all, and no list takes long to thin.
const NORMAL: f64 = 65_536.0;

impl Coins for Generator {
    /// Not where lists are updated: few events need coins.
    #[inline(never)]
    fn gap(&mut self, good: f64, limit: u64) -> u64 {
        if good >= 1.0 {
            return 0;
        }
        if good >= BY_FLIPS {
            let mut bad = 0;
            while bad < limit && self.uniform() > good {
                bad += 1;
            }
            return bad;
        }
        // A probability of zero gives an infinite run, one that is none NaN: both end at limit.
        let run = self.uniform().ln() / (-good.max(0.0)).ln_1p();
        if run < limit as f64 {
            (run as u64).min(limit)
        } else {
            limit
        }
    }

    #[inline]
    fn flip(&mut self, good: f64) -> bool {
        good >= 1.0 || self.uniform() <= good
    }

    fn losses(&mut self, trials: u64, bad: f64) -> u64 {
        let mean = trials as f64 * bad;
        if mean.min(trials as f64 - mean) >= NORMAL {
            let deviation = (mean * (1.0 - bad)).sqrt();
            // The cast saturates at zero; the mean is 256 deviations away from both ends.
            return ((mean + deviation * self.normal()).round() as u64).min(trials);
        }
        // Waiting for whichever side is the rarer.
        let rare = bad.min(1.0 - bad);
        let mut left = trials;
        let mut count = 0;
        while left > 0 {
            let run = self.gap(rare, left);
            if run >= left {
                break;
            }
            left -= run + 1;
            count += 1;
        }
        if bad <= 0.5 { count } else { trials - count }
    }
}

/// Coins that fall as written: `+` is good (the event enters, or stays), `-` is bad (it is
/// refused, or evicted), anything else is space to read by. For tests and examples.
#[derive(Clone, Debug)]
pub struct Scripted<'a> {
    flips: std::str::Chars<'a>,
    overdrawn: bool,
}

impl<'a> Scripted<'a> {
    /// Coins that fall in this order.
    pub fn new(script: &'a str) -> Self {
        Self {
            flips: script.chars(),
            overdrawn: false,
        }
    }

    /// Whether every flip was used, and none beyond the script was asked for.
    pub fn used_up(&self) -> bool {
        !self.overdrawn && !self.flips.clone().any(|c| c == '+' || c == '-')
    }

    fn next(&mut self) -> Option<bool> {
        self.flips.find_map(|c| match c {
            '+' => Some(true),
            '-' => Some(false),
            _ => None,
        })
    }
}

impl Coins for Scripted<'_> {
    fn gap(&mut self, _good: f64, limit: u64) -> u64 {
        let mut bad = 0;
        while bad < limit {
            match self.next() {
                Some(false) => bad += 1,
                Some(true) => return bad,
                // Refusals for ever; the events that are still to come may all be refused.
                None => {
                    self.overdrawn = bad == 0;
                    return limit;
                }
            }
        }
        bad
    }

    fn losses(&mut self, trials: u64, _bad: f64) -> u64 {
        let mut lost = 0;
        for _ in 0..trials {
            match self.next() {
                Some(good) => lost += u64::from(!good),
                None => {
                    self.overdrawn = true;
                    break;
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs have the mean and the variance of the geometric distribution, on both ways of drawing.
    #[test]
    fn runs_are_geometric() {
        let mut coins = Generator::new(1);
        for good in [0.9, 0.5, 0.25, 0.19, 0.01, 1e-6] {
            let n = 200_000_u32;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let run = coins.gap(good, u64::MAX) as f64;
                sum += run;
                squares += run * run;
            }
            let mean = (1.0 - good) / good;
            let variance = mean / good;
            let found = sum / f64::from(n);
            let error = 5.0 * (variance / f64::from(n)).sqrt();
            assert!((found - mean).abs() < error, "{good}: {found} for {mean}");
            let spread = squares / f64::from(n) - found * found;
            assert!(
                (spread / variance - 1.0).abs() < 0.1,
                "{good}: {spread} for {variance}"
            );
        }
    }

    /// The number lost has the binomial mean and variance, counted or drawn from the normal.
    #[test]
    fn losses_are_binomial() {
        let mut coins = Generator::new(2);
        for (trials, bad, rounds) in [
            (10, 0.0625, 100_000),
            (100, 0.5, 40_000),
            (50, 0.9, 40_000),
            (1 << 32, 0.0625, 10_000),
        ] {
            let (mut sum, mut squares) = (0.0, 0.0);
            let mean = f64::from(rounds) * 0.0 + trials as f64 * bad;
            for _ in 0..rounds {
                let off = coins.losses(trials, bad) as f64 - mean;
                sum += off;
                squares += off * off;
            }
            let variance = mean * (1.0 - bad);
            let error = 5.0 * (variance / f64::from(rounds)).sqrt();
            assert!((sum / f64::from(rounds)).abs() < error, "{trials} {bad}");
            let spread = squares / f64::from(rounds);
            assert!(
                (spread / variance - 1.0).abs() < 0.1,
                "{trials} {bad}: {spread}"
            );
        }
    }

    /// Probabilities at and beyond the ends end the run at once or at the limit, never in a panic.
    #[test]
    fn ends_of_the_range() {
        let mut coins = Generator::new(3);
        assert_eq!(coins.gap(1.0, 9), 0);
        assert_eq!(coins.gap(2.0, 9), 0);
        assert_eq!(coins.gap(0.0, 9), 9);
        assert_eq!(coins.gap(-1.0, 9), 9);
        assert_eq!(coins.gap(f64::NAN, 9), 9);
        assert_eq!(coins.gap(0.5, 0), 0);
        assert_eq!(coins.gap(1e-300, u64::MAX), u64::MAX);
        assert_eq!(coins.losses(5, 0.0), 0);
        assert_eq!(coins.losses(5, 1.0), 5);
        assert_eq!(coins.losses(0, 0.5), 0);
        assert_eq!(coins.losses(u64::MAX, 0.0), 0);
        assert_eq!(coins.losses(u64::MAX, 1.0), u64::MAX);
    }

    /// A script is spent flip by flip, and says when it was too short.
    #[test]
    fn scripts() {
        let mut coins = Scripted::new("--+ -+");
        assert_eq!(coins.gap(0.1, 10), 2);
        assert!(!coins.used_up());
        assert_eq!(coins.losses(2, 0.1), 1);
        assert!(coins.used_up());
        assert_eq!(coins.losses(1, 0.1), 0);
        assert!(!coins.used_up());
    }
}
