//! Shifts and rotations.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::operand::Form;
use crate::rflags::{Flag, Flags, rotate};
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

/// Bits of the count that the processor looks at.
fn count_mask(width: Width) -> u64 {
    if width == Width::B64 { 63 } else { 31 }
}

pub(crate) const SHIFT: [Flag; 6] = [Flag::Cf, Flag::Pf, Flag::Af, Flag::Zf, Flag::Sf, Flag::Of];
const ROTATE: [Flag; 2] = [Flag::Cf, Flag::Of];

/// Reads the operand and the count, applies, writes.
#[inline(always)]
fn shift(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
) -> Done {
    let width = form.width;
    if form.is_in_registers()
        && let Some(a) = m.known(d, form.first())
        && let Some(count) = m.known(d, form.second(Width::B8))
    {
        let count = (count & count_mask(width)) as u32;
        let result = apply(m.flags(), width, Word::known(a), count);
        m.write_in(d, form.first(), result)?;
        return Ok(Flow::Next);
    }
    shift_of_any(m, d, width, &SHIFT, apply)
}

/// The same, wherever the operands are and whatever is known of them. An unknown count leaves the
/// result and `flags` unknown.
#[inline(never)]
fn shift_of_any(
    m: &mut Machine<'_>,
    d: &Decoded,
    width: Width,
    flags: &[Flag],
    apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
) -> Done {
    let place = d.operands.place(0, width);
    let a = m.read_in(d, place)?;
    let count = m.read_in(d, d.operands.place(1, Width::B8))?.all();
    let result = shifted(m.flags(), width, flags, a, count, apply);
    m.write_in(d, place, result)?;
    Ok(Flow::Next)
}

/// What an operand becomes. An unknown count leaves the result and the flags of `changed` unknown.
#[inline(always)]
pub(crate) fn shifted(
    flags: &mut Flags,
    width: Width,
    changed: &[Flag],
    a: Word,
    count: Option<u64>,
    apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
) -> Word {
    match count {
        Some(count) => apply(flags, width, a, (count & count_mask(width)) as u32),
        None => {
            flags.forget(changed);
            // However far it is moved, zero is zero; with a carry shifted in it may not be.
            let zero = changed.len() > ROTATE.len() && a.is_zero() == Some(true);
            if zero {
                Word::ZERO
            } else {
                Word::unknown(width)
            }
        }
    }
}

fn rotation(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
) -> Done {
    let width = m.width(d, 0)?;
    shift_of_any(m, d, width, &ROTATE, apply)
}

#[inline(always)]
pub(super) fn shl(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    shift(m, d, form, Flags::shl)
}

#[inline(always)]
pub(super) fn shr(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    shift(m, d, form, Flags::shr)
}

#[inline(always)]
pub(super) fn sar(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    shift(m, d, form, Flags::sar)
}

pub(super) fn rol(m: &mut Machine<'_>, d: &Decoded) -> Done {
    rotation(m, d, Flags::rol)
}

pub(super) fn ror(m: &mut Machine<'_>, d: &Decoded) -> Done {
    rotation(m, d, Flags::ror)
}

pub(super) fn rcl(m: &mut Machine<'_>, d: &Decoded) -> Done {
    rotation(m, d, Flags::rcl)
}

pub(super) fn rcr(m: &mut Machine<'_>, d: &Decoded) -> Done {
    rotation(m, d, Flags::rcr)
}

fn double(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl FnOnce(&mut Flags, Width, Word, Word, u32) -> Word,
) -> Done {
    let width = m.width(d, 0)?;
    let a = m.read(d, 0)?;
    let fill = m.read(d, 1)?;
    let count = m.read_as(d, 2, Width::B8)?.all();
    let result = match count {
        Some(count) => apply(
            m.flags(),
            width,
            a,
            fill,
            (count & count_mask(width)) as u32,
        ),
        None => {
            m.flags().forget_arithmetic();
            Word::unknown(width)
        }
    };
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}

pub(super) fn shld(m: &mut Machine<'_>, d: &Decoded) -> Done {
    double(m, d, Flags::shld)
}

pub(super) fn shrd(m: &mut Machine<'_>, d: &Decoded) -> Done {
    double(m, d, Flags::shrd)
}

/// The BMI2 forms: a separate destination and no flags.
fn without_flags(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl FnOnce(Width, Word, u32) -> Word,
) -> Done {
    let width = m.width(d, 0)?;
    let a = m.read(d, 1)?;
    let count = m.read(d, 2)?.get(1);
    let result = match count {
        Some(count) => apply(width, a, (count & count_mask(width)) as u32),
        None if a.is_zero() == Some(true) => Word::ZERO,
        None => Word::unknown(width),
    };
    m.write(d, 0, result)?;
    Ok(Flow::Next)
}

pub(super) fn shlx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    without_flags(m, d, |width, a, count| {
        let mut none = Flags::UNKNOWN;
        none.shl(width, a, count)
    })
}

pub(super) fn shrx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    without_flags(m, d, |width, a, count| {
        let mut none = Flags::UNKNOWN;
        none.shr(width, a, count)
    })
}

pub(super) fn sarx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    without_flags(m, d, |width, a, count| {
        let mut none = Flags::UNKNOWN;
        none.sar(width, a, count)
    })
}

pub(super) fn rorx(m: &mut Machine<'_>, d: &Decoded) -> Done {
    without_flags(m, d, |width, a, count| {
        rotate(width, a, (width.bits() - count) % width.bits())
    })
}
