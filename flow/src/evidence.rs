//! What a profile says of the code of an image.

use std::collections::BTreeMap;

/// What was seen of an image's code, by addresses. The sums are over all processes and times.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Interrupts at instructions.
    pub samples: BTreeMap<u64, f64>,
    /// How often conditional branches were seen to be taken, and how often not.
    pub directions: BTreeMap<u64, [f64; 2]>,
    /// Where indirect calls and jumps were seen to lead within the image, and how often.
    pub targets: BTreeMap<u64, BTreeMap<u64, f64>>,
    /// How often they were seen to lead elsewhere.
    pub elsewhere: BTreeMap<u64, f64>,
}

impl Evidence {
    /// Interrupts from one address up to another.
    #[must_use]
    pub fn samples_in(&self, start: u64, end: u64) -> f64 {
        self.samples
            .range(start..end.max(start))
            .map(|(_, samples)| samples)
            .sum()
    }

    /// How many directions were seen of branches from one address up to another.
    #[must_use]
    pub fn directions_in(&self, start: u64, end: u64) -> f64 {
        let branches = self.directions.range(start..end.max(start));
        branches.map(|(_, [taken, not])| taken + not).sum()
    }

    /// The addresses that this is about.
    pub fn places(&self) -> impl Iterator<Item = u64> + '_ {
        let samples = self.samples.keys();
        let branches = self.directions.keys();
        samples.chain(branches).chain(self.targets.keys()).copied()
    }
}
