//! How much of its lists a roll-up keeps, so that it takes no more bytes than it may.
//!
//! A list is kept with probability min(1, reached / tau), and what is kept counts for those that
//! are not: so sums over lists stay unbiased, and frequent lists are never at stake. Tau follows
//! from the sizes of the lists seen so far. It is settled before a list's own coin is thrown, and
//! written down with it; so it may differ from chunk to chunk.

use super::rolled::Rolled;

/// What lists take of what they are reckoned to, before any were written.
const USUAL: f64 = 0.7;
/// Bytes of lists from which on it is seen what they take.
const LEAST: f64 = 50_000.0;

/// Classes for each doubling of how often a list was reached.
const CLASSES_OF_DOUBLING: usize = 4;
/// Doublings: more than any list is reached.
const DOUBLINGS: usize = 48;

/// Bytes of lists by how often they were reached.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    bytes: Vec<f64>,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            bytes: vec![0.0; CLASSES_OF_DOUBLING * DOUBLINGS],
        }
    }
}

impl Sizes {
    /// Takes note of a list that would take so many bytes.
    pub(crate) fn add(&mut self, reached: f64, bytes: f64) {
        let class = (reached.max(1.0).log2() * CLASSES_OF_DOUBLING as f64) as usize;
        let class = class.min(self.bytes.len() - 1);
        if let Some(sum) = self.bytes.get_mut(class) {
            *sum += bytes;
        }
    }

    /// Bytes of all lists.
    pub(crate) fn total(&self) -> f64 {
        self.bytes.iter().sum()
    }

    /// How often the lists of a class are reached.
    fn reached(class: usize) -> f64 {
        ((class as f64 + 0.5) / CLASSES_OF_DOUBLING as f64).exp2()
    }

    /// Bytes that are left on average of a threshold.
    fn kept(&self, tau: f64) -> f64 {
        let kept = |(class, bytes): (usize, &f64)| bytes * (Self::reached(class) / tau).min(1.0);
        self.bytes.iter().enumerate().map(kept).sum()
    }

    /// The least threshold that leaves this share of the bytes on average; 1: all is left.
    pub(crate) fn threshold(&self, share: f64) -> f64 {
        let wanted = self.total() * share.max(1e-9);
        if self.total() <= wanted || self.total() == 0.0 {
            return 1.0;
        }
        let (mut low, mut high) = (0.0, DOUBLINGS as f64 + 30.0);
        // To a thousandth of a doubling.
        for _ in 0..17 {
            let middle = f64::midpoint(low, high);
            match self.kept(middle.exp2()) > wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        high.exp2()
    }
}

/// What a roll-up has spent of the bytes that it may take.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    budget: f64,
    /// Bytes of all that is to be rolled up, and of what has been.
    input: f64,
    done: f64,
    written: f64,
    /// Bytes among those written that cannot be thinned, and those of lists.
    fixed: f64,
    lists: f64,
    /// What these lists were reckoned to take.
    estimate: f64,
    sizes: Sizes,
}

impl Spending {
    /// For so many bytes of input, all of which may become so many.
    pub(crate) fn new(budget: u64, input: u64) -> Self {
        Self {
            budget: budget as f64,
            input: input as f64,
            done: 0.0,
            written: 0.0,
            fixed: 0.0,
            lists: 0.0,
            estimate: 0.0,
            sizes: Sizes::default(),
        }
    }

    /// Takes note of a list as it would be if nothing were thinned.
    pub(crate) fn list(&mut self, reached: f64, bytes: usize) {
        self.sizes.add(reached, bytes as f64);
    }

    /// Takes note of what came of a part of the input.
    pub(crate) fn took(&mut self, input: u64, rolled: &Rolled) {
        self.done += input as f64;
        self.written += (rolled.lists + rolled.fixed) as f64;
        self.fixed += rolled.fixed as f64;
        self.lists += rolled.lists as f64;
        self.estimate += rolled.estimate.1 as f64;
    }

    /// The threshold for what comes next. `seen` is the input that the lists noted were of.
    pub(crate) fn threshold(&self, seen: u64) -> f64 {
        let seen = seen as f64;
        let left = (self.input - self.done).max(0.0);
        if seen <= 0.0 || left <= 0.0 {
            return 1.0;
        }
        // What is left is taken to be like what was seen.
        let fixed = self.fixed / self.done.max(1.0) * left;
        // A list takes less than was reckoned, or more, as those that were written did.
        let ratio = match self.estimate > LEAST {
            true => self.lists / self.estimate,
            false => USUAL,
        };
        let lists = self.sizes.total() * ratio / seen * left;
        let room = self.budget - self.written - fixed;
        // Where there is no room at all, a little of everything still tells the most.
        self.sizes.threshold((room / lists.max(1.0)).max(0.01))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The threshold leaves as many bytes as were asked for, where lists can give as many.
    #[test]
    fn leaves_the_share() {
        let mut sizes = Sizes::default();
        for k in 1..20_000_u32 {
            sizes.add(1e5 / f64::from(k), 10.0);
        }
        assert_eq!(sizes.threshold(1.0), 1.0);
        for share in [0.9, 0.5, 0.1, 0.01] {
            let tau = sizes.threshold(share);
            let kept: f64 = (1..20_000_u32)
                .map(|k| 10.0 * (1e5 / f64::from(k) / tau).min(1.0))
                .sum();
            let off = kept / (sizes.total() * share) - 1.0;
            assert!(off.abs() < 0.1, "{share}: {off}");
        }
    }

    /// Lists of so many bytes, which are as many as were reckoned.
    fn rolled(bytes: usize) -> Rolled {
        Rolled {
            chunks: Vec::new(),
            estimate: (bytes, bytes),
            lists: bytes,
            fixed: 0,
            all: (0, 0.0),
            left_out: (0, 0.0),
        }
    }

    /// A roll-up keeps to its bytes although its first parts are not like its last ones.
    #[test]
    fn keeps_to_the_budget() {
        let mut spending = Spending::new(100_000, 1_000_000);
        let mut seen = 0;
        for part in 0..100_u32 {
            // Parts grow smaller by half on the way.
            let lists = if part < 50 { 300 } else { 150 };
            for k in 1..=lists {
                spending.list(1_000.0 / f64::from(k), 10);
            }
            seen += 10_000;
            let tau = spending.threshold(seen);
            let kept: f64 = (1..=lists)
                .map(|k| 10.0 * (1_000.0 / f64::from(k) / tau).min(1.0))
                .sum();
            spending.took(10_000, &rolled(kept as usize));
        }
        assert!(
            (90_000.0..=101_000.0).contains(&spending.written),
            "{}",
            spending.written
        );
    }

    /// Nothing is thinned where there is room.
    #[test]
    fn keeps_all() {
        let mut spending = Spending::new(1 << 20, 1_000);
        spending.list(5.0, 100);
        assert_eq!(spending.threshold(100), 1.0);
        assert_eq!(Spending::new(0, 0).threshold(0), 1.0);
    }
}
