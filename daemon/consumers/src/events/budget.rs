//! How much memory the tables of one flush interval may take.

/// Bytes that are in use, roughly, and those that may be.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: usize,
    most: usize,
}

impl Budget {
    pub(super) fn new(most: usize) -> Self {
        Self { used: 0, most }
    }

    /// Takes notice of an entry that was added.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Bytes in use, roughly.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes that may be in use.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether a flush is due for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.most
    }

    /// Whether there is no room at all: a quarter above the budget, which leaves time to flush.
    #[inline]
    pub(crate) fn is_over_full(&self) -> bool {
        self.used >= self.most + self.most / 4
    }
}
