//! Addresses of instructions that are only noted.

/// Addresses that are met again and again.
#[derive(Default)]
pub(super) struct Addresses {
    /// Some of them are there more than once.
    pub(super) all: Vec<u64>,
    /// How many there were when each was there once.
    distinct: usize,
}

impl Addresses {
    /// As many are left as they came.
    const FEW: usize = 16 << 10;

    pub(super) fn add(&mut self, address: u64) {
        self.all.push(address);
        if self.all.len() > 2 * self.distinct.max(Self::FEW) {
            self.settle();
        }
    }

    /// Has each of them once, in order.
    pub(super) fn settle(&mut self) {
        self.all.sort_unstable();
        self.all.dedup();
        self.distinct = self.all.len();
    }
}
