//! Loads, stores and moves of x87.

use iced_x86::{Instruction, Mnemonic};

use super::{
    ANY, C0, C1, C2, C3, Done, FAULT, Source, begin, is_memory, load, load_wide, place, pop, push,
    raise, raise_perhaps, set_c1, stack, store_wide, write,
};
use crate::decode::{Decoded, Handler};
use crate::extended::convert::{DOUBLE, SINGLE, from_decimal, narrow, to_decimal, to_integer};
use crate::extended::{ArithmeticMode, Class, Extended, INVALID, Raising, Rounding, rounding};
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;
use crate::word::{Width, Word};

pub(super) fn handler(instruction: &Instruction) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match instruction.mnemonic() {
        M::Fld => load_number,
        M::Fild => |m, d| {
            begin(m)?;
            let source = load(m, d, true)?;
            push(m, source, true)?;
            Ok(Flow::Next)
        },
        M::Fbld => load_decimal,
        M::Fld1 => |m, _| constant(m, |_| Extended::ONE),
        M::Fldz => |m, _| constant(m, |_| Extended::ZERO),
        M::Fldpi => |m, _| irrational(m, 0x4000, 0xc90f_daa2_2168_c234, true),
        M::Fldl2t => |m, _| irrational(m, 0x4000, 0xd49a_784b_cd1b_8afe, false),
        M::Fldl2e => |m, _| irrational(m, 0x3fff, 0xb8aa_3b29_5c17_f0bb, true),
        M::Fldlg2 => |m, _| irrational(m, 0x3ffd, 0x9a20_9a84_fbcf_f798, true),
        M::Fldln2 => |m, _| irrational(m, 0x3ffe, 0xb172_17f7_d1cf_79ab, true),
        M::Fst => |m, d| store_number(m, d, false),
        M::Fstp => |m, d| store_number(m, d, true),
        M::Fist => |m, d| store_integer(m, d, false, None),
        M::Fistp => |m, d| store_integer(m, d, true, None),
        M::Fisttp => |m, d| store_integer(m, d, true, Some(Rounding::Zero)),
        M::Fbstp => store_decimal,
        M::Fxch => exchange,
        M::Fincstp => |m, _| turn(m, 1),
        M::Fdecstp => |m, _| turn(m, -1),
        M::Ffree => |m, d| {
            begin(m)?;
            m.registers.x87.free(place(d, 0));
            m.registers.x87.set_flags(C0 | C1 | C2 | C3, None);
            Ok(Flow::Next)
        },
        _ => return None,
    };
    Some(handler)
}

/// `fld`. A signaling NaN that is converted becomes a quiet one.
fn load_number(m: &mut Machine<'_>, d: &Decoded) -> Done {
    begin(m)?;
    if !is_memory(d) {
        return copy(m, d);
    }
    let mut source = load(m, d, false)?;
    let is_converted = d.instruction().memory_size().size() < 10;
    if let Source::Known(value, _) = source
        && is_converted
        && value.class() == Class::SignalingNan
    {
        source = Source::Known(value.quieted(), INVALID);
    }
    push(m, source, true)?;
    Ok(Flow::Next)
}

/// `fld` of a register: an empty one is a fault.
fn copy(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let source = stack(&m.registers.x87, place(d, 0));
    if source == Source::Empty {
        // It counts before a register that there is no room for.
        raise(m, FAULT)?;
        push(m, Source::Known(Extended::INDEFINITE, 0), true)?;
        set_c1(m, Some(false));
        return Ok(Flow::Next);
    }
    if source == Source::Unknown {
        raise_perhaps(m, FAULT)?;
    }
    let is_certain = m.registers.x87.is_used(place(d, 0)).is_some();
    push(m, source, true)?;
    if !is_certain {
        set_c1(m, None);
    }
    Ok(Flow::Next)
}

fn constant(m: &mut Machine<'_>, value: fn(Rounding) -> Extended) -> Done {
    begin(m)?;
    let source = match m.registers.x87.control {
        Some(control) => Source::Known(value(rounding(control)), 0),
        None => Source::Unknown,
    };
    push(m, source, false)?;
    Ok(Flow::Next)
}

/// A constant that no number is: the one below it, or the next, as the rounding is.
fn irrational(m: &mut Machine<'_>, exponent: u16, below: u64, nearest_is_next: bool) -> Done {
    begin(m)?;
    let source = match m.registers.x87.control.map(rounding) {
        Some(rounding) => {
            let is_next = match rounding {
                Rounding::Nearest => nearest_is_next,
                Rounding::Up => true,
                Rounding::Down | Rounding::Zero => false,
            };
            let significand = below + u64::from(is_next);
            Source::Known(Extended::positive(exponent, significand), 0)
        }
        None => Source::Unknown,
    };
    push(m, source, false)?;
    Ok(Flow::Next)
}

fn load_decimal(m: &mut Machine<'_>, _: &Decoded) -> Done {
    begin(m)?;
    let [low, high] = load_wide(m)?;
    let number = low.all().zip(high.get(2));
    let number = number.and_then(|(low, high)| from_decimal(low, high as u16));
    push(m, Source::of(number), true)?;
    Ok(Flow::Next)
}

/// What a store of the top comes to: `convert` of a number, or `indefinite` of an empty register.
/// The exceptions are raised.
fn converted<T>(
    m: &mut Machine<'_>,
    indefinite: T,
    convert: impl FnOnce(Extended) -> Option<Raising<T>>,
) -> Result<Option<T>, StopReason> {
    let result = match stack(&m.registers.x87, 0) {
        Source::Empty => Some(Raising::new(indefinite, FAULT)),
        Source::Known(value, _) => convert(value),
        Source::Unknown => None,
    };
    match result {
        Some(result) => {
            raise(m, result.exceptions)?;
            set_c1(m, result.c1());
            Ok(Some(result.value))
        }
        None => {
            raise_perhaps(m, ANY)?;
            set_c1(m, None);
            Ok(None)
        }
    }
}

/// `fst` and `fstp`.
fn store_number(m: &mut Machine<'_>, d: &Decoded, pops: bool) -> Done {
    begin(m)?;
    let bytes = d.instruction().memory_size().size();
    if !is_memory(d) {
        move_number(m, place(d, 0))?;
    } else if bytes == 10 {
        store_whole(m)?;
    } else {
        let format = if bytes == 4 { SINGLE } else { DOUBLE };
        let width = if bytes == 4 { Width::B32 } else { Width::B64 };
        let mode = mode_of_stores(m);
        let value = converted(m, format.indefinite(), |value| {
            mode.map(|mode| narrow(value, format, mode))
        })?;
        m.write(d, 0, Word::of(width, value))?;
    }
    if pops {
        pop(m);
    }
    Ok(Flow::Next)
}

/// The modes, where the precision does not count.
fn mode_of_stores(m: &Machine<'_>) -> Option<ArithmeticMode> {
    let control = m.registers.x87.control?;
    let precise = control | 3 << 8;
    ArithmeticMode::of(precise)
}

/// The number at the top, for a store that converts nothing: where the top is empty, the indefinite
/// one. `None`: it is not known.
fn stored_top(m: &mut Machine<'_>) -> Result<Option<Extended>, StopReason> {
    let value = match stack(&m.registers.x87, 0) {
        Source::Empty => {
            raise(m, FAULT)?;
            Some(Extended::INDEFINITE)
        }
        Source::Known(value, _) => Some(value),
        Source::Unknown => {
            if m.registers.x87.is_used(0).is_none() {
                raise_perhaps(m, FAULT)?;
            }
            None
        }
    };
    set_c1(m, Some(false));
    Ok(value)
}

/// `fst` to a register: an empty one is written, too.
fn move_number(m: &mut Machine<'_>, to: u8) -> Result<(), StopReason> {
    let value = stored_top(m)?;
    write(m, to, value);
    Ok(())
}

/// `fstp` of all 80 bits: nothing is converted.
fn store_whole(m: &mut Machine<'_>) -> Result<(), StopReason> {
    let value = stored_top(m)?;
    let low = value.map_or(Word::UNKNOWN, |value| Word::known(value.significand));
    let high = Word::of(Width::B16, value.map(|value| value.top().into()));
    store_wide(m, [low, high])
}

fn store_integer(
    m: &mut Machine<'_>,
    d: &Decoded,
    pops: bool,
    rounding_of_it: Option<Rounding>,
) -> Done {
    begin(m)?;
    let width = m.width(d, 0)?;
    let rounding = rounding_of_it.or(m.registers.x87.control.map(rounding));
    let value = converted(m, width.sign(), |value| {
        rounding.map(|rounding| to_integer(value, width.bits(), rounding))
    })?;
    m.write(d, 0, Word::of(width, value))?;
    if pops {
        pop(m);
    }
    Ok(Flow::Next)
}

fn store_decimal(m: &mut Machine<'_>, _: &Decoded) -> Done {
    begin(m)?;
    let rounding = m.registers.x87.control.map(rounding);
    let indefinite = to_decimal(Extended::INDEFINITE, Rounding::Zero).value;
    let value = converted(m, indefinite, |value| {
        rounding.map(|rounding| to_decimal(value, rounding))
    })?;
    let low = value.map_or(Word::UNKNOWN, |(low, _)| Word::known(low));
    let high = Word::of(Width::B16, value.map(|(_, high)| high.into()));
    store_wide(m, [low, high])?;
    pop(m);
    Ok(Flow::Next)
}

fn exchange(m: &mut Machine<'_>, d: &Decoded) -> Done {
    begin(m)?;
    let with = place(d, 1);
    let both = {
        let x87 = &m.registers.x87;
        [stack(x87, 0), stack(x87, with)]
    };
    if both.contains(&Source::Empty) {
        raise(m, FAULT)?;
    } else if [0, with]
        .iter()
        .any(|i| m.registers.x87.is_used(*i).is_none())
    {
        raise_perhaps(m, FAULT)?;
    }
    let [old, new] = both.map(|source| match source {
        Source::Empty => Some(Extended::INDEFINITE),
        Source::Known(value, _) => Some(value),
        Source::Unknown => None,
    });
    set_c1(m, Some(false));
    write(m, 0, new);
    if with != 0 {
        write(m, with, old);
    }
    Ok(Flow::Next)
}

fn turn(m: &mut Machine<'_>, by: i8) -> Done {
    begin(m)?;
    m.registers.x87.turn(by);
    set_c1(m, Some(false));
    Ok(Flow::Next)
}
