//! Saving and restoring vector registers and other state in bulk.
//!
//! What is saved is not followed: the area becomes unknown memory. What is restored is unknown.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, RDX};
use crate::stop::StopReason;
use crate::vector::Vector;
use crate::word::{Width, Word};
use crate::x87::X87;

type Done = Result<Flow, StopReason>;

/// Bytes of `fxsave`.
const LEGACY_BYTES: u64 = 512;
/// Where MXCSR lies in the saved state.
const MXCSR: u64 = 24;

/// Where the state components end in the standard layout, by their bits: the last places that any
/// processor uses. Of those that are not listed nothing is known.
const ENDS: [(u32, u64); 12] = [
    (0, 576),
    (1, 576),
    (2, 832),
    (3, 1024),
    (4, 1088),
    (5, 1152),
    (6, 1664),
    (7, 2688),
    (9, 2696),
    (17, 2816),
    (18, 11008),
    (19, 1088),
];

/// Bytes that `xsave` and its like store at most for the components of a set. The compacted layout
/// leaves out what is not asked for and keeps the order, but that component 19 comes last in it.
fn area(components: u64) -> Option<u64> {
    let mut bytes = 576;
    let mut left = components;
    for (bit, end) in ENDS {
        if components >> bit & 1 != 0 {
            bytes = bytes.max(end);
            left &= !(1 << bit);
        }
    }
    if components >> 19 & 1 != 0 {
        bytes = bytes.next_multiple_of(64) + 128;
    }
    (left == 0).then_some(bytes)
}

/// An area that is not aligned raises an exception.
fn check_alignment(m: &Machine<'_>, bytes: u64) -> Result<(), StopReason> {
    if m.address().is_none_or(|address| address % bytes == 0) {
        Ok(())
    } else {
        Err(StopReason::FaultingInstruction)
    }
}

pub(super) fn fxsave(m: &mut Machine<'_>, _: &Decoded) -> Done {
    check_alignment(m, 16)?;
    m.store_unknown(m.address(), LEGACY_BYTES)?;
    Ok(Flow::Next)
}

/// `xsave`, `xsavec`, `xsaveopt`.
pub(super) fn xsave(m: &mut Machine<'_>, _: &Decoded) -> Done {
    check_alignment(m, 64)?;
    let low = m.part(RAX, Width::B32).all();
    let high = m.part(RDX, Width::B32).all();
    let bytes = low.zip(high).and_then(|(low, high)| area(high << 32 | low));
    match bytes {
        Some(bytes) => m.store_unknown(m.address(), bytes)?,
        None => m.store_unknown(None, 0)?,
    }
    Ok(Flow::Next)
}

/// Bit 17 of MXCSR: AMD's processors may allow it (misaligned operands then are no fault), Intel's
/// do not.
const MISALIGNED: u64 = 1 << 17;

/// Whether a value of MXCSR masks all exceptions.
pub(super) fn is_masked(mxcsr: u32) -> bool {
    const MASKS: u32 = 0x1f80;
    mxcsr & MASKS == MASKS
}

/// A value of MXCSR with bits that mean nothing raises an exception.
pub(super) fn check_mxcsr(known_bits: u64) -> Result<(), StopReason> {
    match known_bits & !0xffff {
        0 => Ok(()),
        MISALIGNED => Err(StopReason::Unsupported),
        _ => Err(StopReason::FaultingInstruction),
    }
}

pub(super) fn fxrstor(m: &mut Machine<'_>, _: &Decoded) -> Done {
    check_alignment(m, 16)?;
    let at = m.address().map(|address| address.wrapping_add(MXCSR));
    let mxcsr = m.load(at, Width::B32)?;
    check_mxcsr(mxcsr.known_bits())?;
    if mxcsr.all().is_none() {
        m.check_unknown()?;
    }
    forget(m)
}

/// `xrstor`: what it restores is not looked at, and may be nothing that can be restored.
pub(super) fn restore(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.check_unknown()?;
    forget(m)
}

fn forget(m: &mut Machine<'_>) -> Done {
    m.accesses_more();
    m.registers.vectors = [Vector::UNKNOWN; 32];
    m.registers.masks = [Word::UNKNOWN; 8];
    m.registers.mxcsr = None;
    m.registers.x87 = X87::UNKNOWN;
    Ok(Flow::Next)
}

#[cfg(test)]
mod tests {
    use super::area;

    /// The area covers what is asked for, and is unknown for components that are.
    #[test]
    fn areas() {
        assert_eq!(area(0), Some(576));
        assert_eq!(area(0b111), Some(832));
        // What the dynamic linker saves around a lazy binding.
        assert_eq!(area(0xee), Some(2688));
        assert_eq!(area(1 << 19 | 0b111), Some(1088 + 128));
        assert_eq!(area(1 << 19 | 0xee), Some(2688 + 128));
        assert_eq!(area(1 << 40), None);
        assert_eq!(area(u64::MAX), None);
    }
}
