//! Moves, addresses, conditional moves, exchanges.

use super::shape::moving;
use crate::decode::Decoded;
use crate::machine::{Flow, Machine, RAX, check_canonical};
use crate::operand::Form;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

#[inline(always)]
pub(super) fn mov(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    moving(m, d, form, form.width, |value| value)
}

/// Operands are read zero-extended already.
#[inline(always)]
pub(super) fn movzx(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    let from = m.width(d, 1)?;
    moving(m, d, form, from, |value| value)
}

/// `movsx` and `movsxd`.
#[inline(always)]
pub(super) fn movsx(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    let (to, from) = (form.width, m.width(d, 1)?);
    moving(m, d, form, from, |value| value.sign_extend(from, to))
}

#[inline(always)]
pub(super) fn lea(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    let value = m.effective_address(d).truncate(form.width);
    m.write_in(d, form.first(), value)?;
    Ok(Flow::Next)
}

/// The destination is written in any case: 32 bits clear the upper half, moved or not.
#[inline(always)]
pub(super) fn cmov(m: &mut Machine<'_>, d: &Decoded, form: Form) -> Done {
    let old = m.read_in(d, form.first())?;
    let new = m.read_in(d, form.second(form.width))?;
    let value = match m.registers.rflags.condition(d.condition) {
        Some(true) => new,
        Some(false) => old,
        None => old.either(new),
    };
    m.write_in(d, form.first(), value)?;
    Ok(Flow::Next)
}

/// With one prefix more it may be `rep xchg r8, rax`, which processors take for an exchange.
pub(super) fn pause(_: &mut Machine<'_>, d: &Decoded) -> Done {
    match d.instruction().len() {
        ..=2 => Ok(Flow::Next),
        _ => Err(StopReason::Unsupported),
    }
}

pub(super) fn setcc(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let holds = m.registers.rflags.condition(d.condition);
    let value = Word::of(Width::B8, holds.map(u64::from));
    m.write_in(d, d.operands.place(0, Width::B8), value)?;
    Ok(Flow::Next)
}

pub(super) fn xchg(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let a = m.read(d, 0)?;
    let b = m.read(d, 1)?;
    if !Machine::same_register(d) {
        m.write(d, 1, a)?;
    }
    m.write(d, 0, b)?;
    Ok(Flow::Next)
}

pub(super) fn movbe(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let value = m.read(d, 1)?;
    m.write(d, 0, value.swap_bytes(width))?;
    Ok(Flow::Next)
}

pub(super) fn bswap(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = m.width(d, 0)?;
    let value = m.read(d, 0)?;
    // Of 16 bits it is undefined.
    let swapped = if width == Width::B16 {
        Word::unknown(width)
    } else {
        value.swap_bytes(width)
    };
    m.write(d, 0, swapped)?;
    Ok(Flow::Next)
}

/// `xlatb`: al from the table at rbx.
pub(super) fn xlat(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let value = m.load(m.address(), Width::B8)?;
    m.write_part(d, RAX, Width::B8, value);
    Ok(Flow::Next)
}

/// Nothing that is kept changes, but the line has to be one that can be loaded from.
pub(super) fn flush_line(m: &mut Machine<'_>, _: &Decoded) -> Done {
    m.address().map_or(Ok(()), check_canonical)?;
    m.check_loads(m.address(), 1)?;
    Ok(Flow::Next)
}

/// Nothing that is kept changes.
pub(super) fn nop(_: &mut Machine<'_>, _: &Decoded) -> Done {
    Ok(Flow::Next)
}
