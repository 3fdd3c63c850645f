//! Comparisons of x87, and what depends on them.

use std::cmp::Ordering;

use iced_x86::{ConditionCode, Mnemonic, OpKind};

use super::{
    C0, C1, C2, C3, Done, FAULT, Source, begin, load, place, pop, raise, raise_perhaps, set_c1,
    stack, write,
};
use crate::decode::{Decoded, Handler};
use crate::extended::arith::compare;
use crate::extended::{Class, DENORMAL, Extended};
use crate::machine::{Flow, Machine};
use crate::rflags::Flag;
use crate::stop::StopReason;

/// How a comparison is done.
#[derive(Clone, Copy)]
struct CompareForm {
    /// A quiet NaN is no exception.
    takes_nans: bool,
    /// Memory holds an integer.
    integer: bool,
    pops: u8,
}

const ORDERED: CompareForm = CompareForm {
    takes_nans: false,
    integer: false,
    pops: 0,
};
const UNORDERED: CompareForm = CompareForm {
    takes_nans: true,
    ..ORDERED
};

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Fcom => |m, d| to_codes(m, d, ORDERED),
        M::Fcomp => |m, d| to_codes(m, d, CompareForm { pops: 1, ..ORDERED }),
        M::Fcompp => |m, d| to_codes(m, d, CompareForm { pops: 2, ..ORDERED }),
        M::Fucom => |m, d| to_codes(m, d, UNORDERED),
        M::Fucomp => |m, d| {
            to_codes(
                m,
                d,
                CompareForm {
                    pops: 1,
                    ..UNORDERED
                },
            )
        },
        M::Fucompp => |m, d| {
            to_codes(
                m,
                d,
                CompareForm {
                    pops: 2,
                    ..UNORDERED
                },
            )
        },
        M::Ficom => |m, d| {
            to_codes(
                m,
                d,
                CompareForm {
                    integer: true,
                    ..ORDERED
                },
            )
        },
        M::Ficomp => |m, d| {
            let kind = CompareForm {
                integer: true,
                pops: 1,
                ..ORDERED
            };
            to_codes(m, d, kind)
        },
        M::Fcomi => |m, d| to_flags(m, d, ORDERED),
        M::Fcomip => |m, d| to_flags(m, d, CompareForm { pops: 1, ..ORDERED }),
        M::Fucomi => |m, d| to_flags(m, d, UNORDERED),
        M::Fucomip => |m, d| {
            to_flags(
                m,
                d,
                CompareForm {
                    pops: 1,
                    ..UNORDERED
                },
            )
        },
        M::Ftst => |m, _| {
            begin(m)?;
            let sources = [stack(&m.registers.x87, 0), Source::of(Some(Extended::ZERO))];
            let result = compared(m, sources, ORDERED)?;
            set_codes(m, result);
            Ok(Flow::Next)
        },
        M::Fxam => examine,
        M::Fcmovb => |m, d| move_if(m, d, ConditionCode::b),
        M::Fcmove => |m, d| move_if(m, d, ConditionCode::e),
        M::Fcmovbe => |m, d| move_if(m, d, ConditionCode::be),
        M::Fcmovu => |m, d| move_if(m, d, ConditionCode::p),
        M::Fcmovnb => |m, d| move_if(m, d, ConditionCode::ae),
        M::Fcmovne => |m, d| move_if(m, d, ConditionCode::ne),
        M::Fcmovnbe => |m, d| move_if(m, d, ConditionCode::a),
        M::Fcmovnu => |m, d| move_if(m, d, ConditionCode::np),
        _ => return None,
    };
    Some(handler)
}

/// What a comparison says: unordered, less, equal.
type Answer = Option<(bool, bool, bool)>;

/// The operands: the top, and the last one that is named, else the next of the stack.
fn sources(m: &mut Machine<'_>, d: &Decoded, kind: CompareForm) -> Result<[Source; 2], StopReason> {
    let instruction = d.instruction();
    let second = match instruction.op_count().checked_sub(1) {
        None => stack(&m.registers.x87, 1),
        Some(last) if instruction.op_kind(last) == OpKind::Memory => load(m, d, kind.integer)?,
        Some(last) => stack(&m.registers.x87, place(d, last)),
    };
    Ok([stack(&m.registers.x87, 0), second])
}

fn compared(
    m: &mut Machine<'_>,
    sources: [Source; 2],
    kind: CompareForm,
) -> Result<Answer, StopReason> {
    let unordered = Some((true, false, false));
    if sources.contains(&Source::Empty) {
        raise(m, FAULT)?;
        return Ok(unordered);
    }
    let [Source::Known(a, of_a), Source::Known(b, of_b)] = sources else {
        raise_perhaps(m, FAULT | DENORMAL)?;
        return Ok(None);
    };
    let (order, exceptions) = compare(a, b, kind.takes_nans);
    let converted = if order.is_some() { of_a | of_b } else { 0 };
    raise(m, exceptions | converted)?;
    Ok(order.map_or(unordered, |order| {
        Some((false, order == Ordering::Less, order == Ordering::Equal))
    }))
}

fn set_codes(m: &mut Machine<'_>, answer: Answer) {
    let x87 = &mut m.registers.x87;
    x87.set_flags(C2, answer.map(|(unordered, ..)| unordered));
    x87.set_flags(C0, answer.map(|(unordered, less, _)| unordered || less));
    x87.set_flags(C3, answer.map(|(unordered, _, equal)| unordered || equal));
    x87.set_flags(C1, Some(false));
}

/// Comparisons that set condition codes.
fn to_codes(m: &mut Machine<'_>, d: &Decoded, kind: CompareForm) -> Done {
    begin(m)?;
    let sources = sources(m, d, kind)?;
    let answer = compared(m, sources, kind)?;
    set_codes(m, answer);
    for _ in 0..kind.pops {
        pop(m);
    }
    Ok(Flow::Next)
}

/// Comparisons that set flags.
fn to_flags(m: &mut Machine<'_>, d: &Decoded, kind: CompareForm) -> Done {
    begin(m)?;
    let sources = sources(m, d, kind)?;
    let answer = compared(m, sources, kind)?;
    // One manual has it cleared; some processors leave it.
    m.registers.x87.set_flags(C1, None);
    let flags = m.flags();
    flags.set(Flag::Pf, answer.map(|(unordered, ..)| unordered));
    flags.set(
        Flag::Cf,
        answer.map(|(unordered, less, _)| unordered || less),
    );
    flags.set(
        Flag::Zf,
        answer.map(|(unordered, _, equal)| unordered || equal),
    );
    for flag in [Flag::Of, Flag::Sf, Flag::Af] {
        flags.set(flag, Some(false));
    }
    for _ in 0..kind.pops {
        pop(m);
    }
    Ok(Flow::Next)
}

/// `fxam`: what the top holds, and its sign.
fn examine(m: &mut Machine<'_>, _: &Decoded) -> Done {
    begin(m)?;
    let x87 = &mut m.registers.x87;
    let codes = match stack(x87, 0) {
        Source::Empty => Some(C3 | C0),
        Source::Unknown => None,
        Source::Known(value, _) => Some(match value.class() {
            Class::Unsupported => 0,
            Class::QuietNan | Class::SignalingNan => C0,
            Class::Normal => C2,
            Class::Infinity => C2 | C0,
            Class::Zero => C3,
            Class::Denormal => C3 | C2,
        }),
    };
    let sign = x87.top_of(0).map(|top| top >> 15 != 0);
    for code in [C0, C2, C3] {
        x87.set_flags(code, codes.map(|codes| codes & code != 0));
    }
    x87.set_flags(C1, sign);
    Ok(Flow::Next)
}

/// `fcmov`: an operand that is empty is a fault, moved or not.
fn move_if(m: &mut Machine<'_>, d: &Decoded, condition: ConditionCode) -> Done {
    begin(m)?;
    let x87 = &m.registers.x87;
    let (old, new) = (stack(x87, 0), stack(x87, place(d, 1)));
    if old == Source::Empty || new == Source::Empty {
        raise(m, FAULT)?;
        set_c1(m, Some(false));
        write(m, 0, Some(Extended::INDEFINITE));
        return Ok(Flow::Next);
    }
    let are_used = x87.is_used(0).is_some() && x87.is_used(place(d, 1)).is_some();
    if !are_used {
        raise_perhaps(m, FAULT)?;
    }
    set_c1(m, None);
    let value = match m.flags().condition(condition) {
        Some(true) => new,
        Some(false) => old,
        None if old == new => old,
        None => Source::Unknown,
    };
    let value = match value {
        Source::Known(value, _) if are_used => Some(value),
        _ => None,
    };
    write(m, 0, value);
    Ok(Flow::Next)
}
