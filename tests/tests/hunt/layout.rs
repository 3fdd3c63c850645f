//! Where the runtime of generated programs keeps what blocks use: `fixtures/hunt/hunt.h` in
//! numbers.

/// Memory that a block sees, in the order of the runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    Heap,
    Spare,
    ViewA,
    ViewB,
    PrivateView,
    RingLow,
    RingHigh,
    ReadOnly,
    Nothing,
    Retry,
    Stack,
    Bad,
}

impl Region {
    /// Where the context holds its address.
    pub(crate) fn offset(self) -> usize {
        8 * self as usize
    }

    /// Its bit in what a block uses.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Offsets in the context.
pub(crate) const SAVED: usize = 96;
pub(crate) const OTHER_BASE: usize = 104;
pub(crate) const CODE: usize = 112;
pub(crate) const OUT: usize = 128;
pub(crate) const INDICES: usize = 256;

/// Offsets in an input.
pub(crate) const VECTORS: usize = 128;
pub(crate) const MASKS: usize = 2176;
pub(crate) const MXCSR: usize = 2240;
pub(crate) const OVERFLOW: usize = 2244;

/// Bytes on each side of a region's pointer.
pub(crate) const HALF: i64 = 128;
