//! Bitwise logic.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

#[inline(always)]
fn binary(
    m: &mut Machine<'_>,
    d: &Decoded,
    width: Width,
    writes: bool,
    apply: impl FnOnce(Word, Word) -> Word,
) -> Done {
    let a = m.read_in(d, 0, width)?;
    let b = m.read_in(d, 1, width)?;
    let result = apply(a, b);
    m.flags().logic(width, result);
    if writes {
        m.write_in(d, 0, width, result)?;
    }
    Ok(Flow::Next)
}

#[inline(always)]
pub(super) fn and(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    binary(m, d, width, true, |a, b| a & b)
}

#[inline(always)]
pub(super) fn or(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    binary(m, d, width, true, |a, b| a | b)
}

/// A register combined with itself is zero, known or not.
#[inline(always)]
pub(super) fn xor(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let same = Machine::same_register(d);
    binary(
        m,
        d,
        width,
        true,
        |a, b| if same { Word::ZERO } else { a ^ b },
    )
}

#[inline(always)]
pub(super) fn test(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    binary(m, d, width, false, |a, b| a & b)
}

/// Changes no flags.
pub(super) fn not(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let a = m.read(d, 0)?;
    m.write(d, 0, (!a).truncate(width))?;
    Ok(Flow::Next)
}

/// `andn`: the complement of the first source and the second.
pub(super) fn andn(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let a = m.read(d, 1)?;
    let b = m.read(d, 2)?;
    let result = (!a & b).truncate(width);
    m.flags().bit_result(width, result, Some(false));
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}
