//! The shapes that common instructions have: which operands are read, and what is written.
//!
//! An instruction in registers whose operands are known calls nothing from its handler, so that the
//! handler need not save registers of its own. Where that fails, nothing was changed or reported
//! yet, and the instruction is interpreted as those in memory are.

use crate::decode::Decoded;
use crate::machine::{Flow, Machine};
use crate::operand::Form;
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

/// What an instruction of two operands does with them. These are constants wherever a handler is
/// compiled.
#[derive(Clone, Copy)]
pub(crate) struct Binary {
    /// An operand combined with itself is as zero with zero, whatever it is.
    pub(crate) self_cancels: bool,
    /// The first operand is written; else only flags are wanted.
    pub(crate) writes: bool,
}

impl Binary {
    /// Computes as `add` does.
    pub(crate) const PLAIN: Self = Self {
        self_cancels: false,
        writes: true,
    };
    /// Computes as `sub` does.
    pub(crate) const SELF_CANCELS: Self = Self {
        self_cancels: true,
        writes: true,
    };
    /// Compares as `cmp` does.
    pub(crate) const COMPARES: Self = Self {
        self_cancels: true,
        writes: false,
    };
    /// Compares as `test` does.
    pub(crate) const TESTS: Self = Self {
        self_cancels: false,
        writes: false,
    };
}

/// Reads the second operand, applies, and writes the first, in registers or anywhere.
#[inline(always)]
pub(super) fn moving(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    from: Width,
    apply: impl FnOnce(Word) -> Word,
) -> Done {
    if !form.is_in_registers() {
        return moving_of_any(m, d, form, from, apply);
    }
    let Some(value) = m.known(d, form.second(from)) else {
        return moving_out_of_line(m, d, form, from, apply);
    };
    m.write_in(d, form.first(), apply(Word::known(value)))?;
    Ok(Flow::Next)
}

/// Moves from a register that is not known, or to be reported.
#[inline(never)]
fn moving_out_of_line(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    from: Width,
    apply: impl FnOnce(Word) -> Word,
) -> Done {
    moving_of_any(m, d, form, from, apply)
}

#[inline(always)]
fn moving_of_any(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    from: Width,
    apply: impl FnOnce(Word) -> Word,
) -> Done {
    let value = m.read_in(d, form.second(from))?;
    m.write_in(d, form.first(), apply(value))?;
    Ok(Flow::Next)
}

/// Reads two operands, applies, and writes the first unless only flags are wanted.
#[inline(always)]
pub(super) fn binary(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    kind: Binary,
    apply: impl FnOnce(&mut Flags, Width, Word, Word) -> Word,
) -> Done {
    let width = form.width;
    if !form.is_in_registers() {
        return binary_of_any(m, d, form, kind, apply);
    }
    let first = m.known(d, form.first());
    let second = m.known(d, form.second(width));
    let (Some(a), Some(b)) = (first, second) else {
        return binary_out_of_line(m, d, form, kind, apply);
    };
    let result = apply(m.flags(), width, Word::known(a), Word::known(b));
    if kind.writes {
        m.write_in(d, form.first(), result)?;
    }
    Ok(Flow::Next)
}

/// Combines operands in registers that are not all known, or to be reported.
#[inline(never)]
fn binary_out_of_line(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    kind: Binary,
    apply: impl FnOnce(&mut Flags, Width, Word, Word) -> Word,
) -> Done {
    binary_of_any(m, d, form, kind, apply)
}

/// Combines two operands, wherever they are and whatever is known of them.
#[inline(always)]
pub(super) fn binary_of_any(
    m: &mut Machine<'_>,
    d: &Decoded,
    form: Form,
    kind: Binary,
    apply: impl FnOnce(&mut Flags, Width, Word, Word) -> Word,
) -> Done {
    let width = form.width;
    let mut a = m.read_in(d, form.first())?;
    let mut b = m.read_in(d, form.second(width))?;
    if kind.self_cancels && Machine::same_register(d) {
        (a, b) = (Word::ZERO, Word::ZERO);
    }
    let result = apply(m.flags(), width, a, b);
    if kind.writes {
        m.write_in(d, form.first(), result)?;
    }
    Ok(Flow::Next)
}

/// Reads one operand, applies, writes it.
#[inline(always)]
pub(super) fn unary(
    m: &mut Machine<'_>,
    d: &Decoded,
    width: Width,
    apply: impl FnOnce(&mut Flags, Width, Word) -> Word,
) -> Done {
    let place = d.operands.place(0, width);
    let a = m.read_in(d, place)?;
    let result = apply(m.flags(), width, a);
    m.write_in(d, place, result)?;
    Ok(Flow::Next)
}
