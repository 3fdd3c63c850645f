//! The flags that arithmetic sets and branches ask.

/// One flag of RFLAGS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Flag {
    /// Carry.
    Cf = 1 << 0,
    /// Parity of the low byte.
    Pf = 1 << 2,
    /// Carry out of bit 3.
    Af = 1 << 4,
    /// Zero.
    Zf = 1 << 6,
    /// Sign.
    Sf = 1 << 7,
    /// Direction of string instructions.
    Df = 1 << 10,
    /// Signed overflow.
    Of = 1 << 11,
}
