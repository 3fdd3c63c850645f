//! How much of everything that can be lost was.

use counters::Loss;

/// Counts of all losses.
#[derive(Clone, Debug)]
pub struct Lost([u64; Loss::ALL.len()]);

impl Default for Lost {
    /// Nothing was lost.
    fn default() -> Self {
        Self([0; Loss::ALL.len()])
    }
}

impl Lost {
    /// Counts a loss.
    pub fn count(&mut self, loss: Loss, n: u64) {
        let counter = &mut self.0[loss as usize];
        *counter = counter.saturating_add(n);
    }

    /// Counts what others counted, too.
    pub fn add(&mut self, others: &Lost) {
        for (loss, n) in others.each() {
            self.count(loss, n);
        }
    }

    /// Takes off what others counted.
    pub fn take_off(&mut self, others: &Lost) {
        for (counter, n) in self.0.iter_mut().zip(others.0) {
            *counter = counter.saturating_sub(n);
        }
    }

    /// How much of one thing was lost.
    pub fn of(&self, loss: Loss) -> u64 {
        self.0[loss as usize]
    }

    /// How much of everything was, also where that is nothing.
    pub fn each(&self) -> impl Iterator<Item = (Loss, u64)> {
        Loss::ALL.into_iter().zip(self.0)
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.0.iter().copied().fold(0, u64::saturating_add)
    }
}
