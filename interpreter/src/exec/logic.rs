//! Bitwise logic.

use super::shape::{Binary, binary};
use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::operand::Form;
use crate::stop::StopReason;
use crate::word::Word;

type Done = Result<Flow, StopReason>;

#[inline(always)]
fn logic(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    kind: Binary,
    apply: impl FnOnce(Word, Word) -> Word,
) -> Done {
    binary(m, d, form, kind, |flags, width, a, b| {
        let result = apply(a, b);
        flags.logic(width, result);
        result
    })
}

#[inline(always)]
pub(super) fn and(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    logic(m, d, form, Binary::PLAIN, |a, b| a & b)
}

#[inline(always)]
pub(super) fn or(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    logic(m, d, form, Binary::PLAIN, |a, b| a | b)
}

/// A register combined with itself is zero, known or not.
#[inline(always)]
pub(super) fn xor(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    logic(m, d, form, Binary::SELF_CANCELS, |a, b| a ^ b)
}

#[inline(always)]
pub(super) fn test(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    logic(m, d, form, Binary::TESTS, |a, b| a & b)
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
