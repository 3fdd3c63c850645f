//! Arithmetic of x87.

use iced_x86::{Instruction, Mnemonic};

use super::{
    ANY, C0, C1, C2, C3, Done, FAULT, Source, begin, is_memory, load, mode, place, pop, push,
    raise, raise_perhaps, set_c1, stack, write,
};
use crate::decode::{Decoded, Handler};
use crate::extended::arith::{add, divide, multiply, remainder, root, subtract};
use crate::extended::convert::to_integral;
use crate::extended::scale::{extract, scale};
use crate::extended::{
    ArithmeticMode, Class, Extended, INVALID, MAX_EXPONENT, Raising, ZERO_DIVIDE,
};
use crate::machine::{Flow, Machine};
use crate::stop::StopReason;

/// An operation on two numbers.
type Operation = fn(Extended, Extended, ArithmeticMode) -> Raising<Extended>;

fn subtract_from(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    subtract(b, a, mode)
}

fn divide_into(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    divide(b, a, mode)
}

pub(super) fn handler(instruction: &Instruction) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match instruction.mnemonic() {
        M::Fadd => |m, d| binary(m, d, add, false),
        M::Fsub => |m, d| binary(m, d, subtract, false),
        M::Fsubr => |m, d| binary(m, d, subtract_from, false),
        M::Fmul => |m, d| binary(m, d, multiply, false),
        M::Fdiv => |m, d| binary(m, d, divide, false),
        M::Fdivr => |m, d| binary(m, d, divide_into, false),
        M::Fiadd => |m, d| binary(m, d, add, true),
        M::Fisub => |m, d| binary(m, d, subtract, true),
        M::Fisubr => |m, d| binary(m, d, subtract_from, true),
        M::Fimul => |m, d| binary(m, d, multiply, true),
        M::Fidiv => |m, d| binary(m, d, divide, true),
        M::Fidivr => |m, d| binary(m, d, divide_into, true),
        M::Faddp => |m, d| binary_and_pop(m, d, add),
        M::Fsubp => |m, d| binary_and_pop(m, d, subtract),
        M::Fsubrp => |m, d| binary_and_pop(m, d, subtract_from),
        M::Fmulp => |m, d| binary_and_pop(m, d, multiply),
        M::Fdivp => |m, d| binary_and_pop(m, d, divide),
        M::Fdivrp => |m, d| binary_and_pop(m, d, divide_into),
        M::Fsqrt => |m, _| unary(m, root),
        M::Frndint => |m, _| unary(m, |a, mode| to_integral(a, mode.rounding)),
        M::Fscale => |m, _| {
            begin(m)?;
            let sources = [top(m), stack(&m.registers.x87, 1)];
            compute(m, sources, 0, scale)?;
            Ok(Flow::Next)
        },
        M::Fabs => |m, _| change_sign(m, |a| a.negative = false),
        M::Fchs => |m, _| change_sign(m, |a| a.negative = !a.negative),
        M::Fxtract => take_apart,
        M::Fprem => |m, _| partial_remainder(m, false),
        M::Fprem1 => |m, _| partial_remainder(m, true),
        M::F2xm1 => |m, _| approximate(m, 0, false),
        M::Fsin | M::Fcos => |m, _| approximate(m, 0, false),
        M::Fyl2x | M::Fyl2xp1 | M::Fpatan => |m, _| approximate(m, 1, true),
        M::Fptan | M::Fsincos => approximate_two,
        _ => return None,
    };
    Some(handler)
}

fn top(m: &Machine<'_>) -> Source {
    stack(&m.registers.x87, 0)
}

/// The first operand, combined with the second, or the top combined with memory.
fn binary(m: &mut Machine<'_>, d: &Decoded, apply: Operation, integer: bool) -> Done {
    begin(m)?;
    let (to, sources) = if is_memory(d) {
        (0, [top(m), load(m, d, integer)?])
    } else {
        let (to, from) = (place(d, 0), place(d, 1));
        let x87 = &m.registers.x87;
        (to, [stack(x87, to), stack(x87, from)])
    };
    compute(m, sources, to, apply)?;
    Ok(Flow::Next)
}

fn binary_and_pop(m: &mut Machine<'_>, d: &Decoded, apply: Operation) -> Done {
    binary(m, d, apply, false)?;
    pop(m);
    Ok(Flow::Next)
}

fn unary(m: &mut Machine<'_>, apply: fn(Extended, ArithmeticMode) -> Raising<Extended>) -> Done {
    begin(m)?;
    let source = top(m);
    compute(m, [source, source], 0, |a, _, mode| apply(a, mode))?;
    Ok(Flow::Next)
}

/// Writes what comes of two operands to a place of the stack.
fn compute(
    m: &mut Machine<'_>,
    sources: [Source; 2],
    to: u8,
    apply: impl FnOnce(Extended, Extended, ArithmeticMode) -> Raising<Extended>,
) -> Result<(), StopReason> {
    if sources.contains(&Source::Empty) {
        return underflow(m, to);
    }
    let [Source::Known(a, of_a), Source::Known(b, of_b)] = sources else {
        return unknown(m, to);
    };
    let Some(mode) = mode(m) else {
        return unknown(m, to);
    };
    let result = apply(a, b, mode);
    // A denormal operand is the last thing that counts of operands.
    let decided = result.exceptions & (INVALID | ZERO_DIVIDE) != 0 || a.is_nan() || b.is_nan();
    let converted = if decided { 0 } else { of_a | of_b };
    raise(m, result.exceptions | converted)?;
    set_c1(m, result.c1());
    write(m, to, Some(result.value));
    Ok(())
}

/// An operand is empty.
fn underflow(m: &mut Machine<'_>, to: u8) -> Result<(), StopReason> {
    raise(m, FAULT)?;
    set_c1(m, Some(false));
    write(m, to, Some(Extended::INDEFINITE));
    Ok(())
}

fn unknown(m: &mut Machine<'_>, to: u8) -> Result<(), StopReason> {
    raise_perhaps(m, ANY)?;
    set_c1(m, None);
    write(m, to, None);
    Ok(())
}

/// `fabs` and `fchs`, which take any number.
fn change_sign(m: &mut Machine<'_>, change: fn(&mut Extended)) -> Done {
    begin(m)?;
    match top(m) {
        Source::Empty => underflow(m, 0)?,
        Source::Known(mut value, _) => {
            change(&mut value);
            set_c1(m, Some(false));
            write(m, 0, Some(value));
        }
        Source::Unknown => {
            raise_perhaps(m, FAULT)?;
            set_c1(m, Some(false));
            write(m, 0, None);
        }
    }
    Ok(Flow::Next)
}

/// `fxtract`: the exponent replaces the top, and the significand is pushed.
fn take_apart(m: &mut Machine<'_>, _: &Decoded) -> Done {
    begin(m)?;
    let has_room = m.registers.x87.is_used(7).map(|is_used| !is_used);
    let (exponent, significand) = match (top(m), has_room) {
        (Source::Empty, Some(true)) => {
            raise(m, FAULT)?;
            set_c1(m, Some(false));
            (Some(Extended::INDEFINITE), Some(Extended::INDEFINITE))
        }
        (Source::Known(value, _), Some(true)) => {
            let (exponent, significand, exceptions) = extract(value);
            raise(m, exceptions)?;
            set_c1(m, Some(false));
            (Some(exponent), Some(significand))
        }
        _ => {
            raise_perhaps(m, ANY)?;
            set_c1(m, None);
            (None, None)
        }
    };
    m.registers.x87.set(0, exponent);
    m.registers.x87.turn(-1);
    m.registers.x87.set(0, significand);
    super::report(m, 1, exponent);
    super::report(m, 0, significand);
    Ok(Flow::Next)
}

/// `fprem` and `fprem1`. A processor may stop half way and say so.
fn partial_remainder(m: &mut Machine<'_>, to_nearest: bool) -> Done {
    begin(m)?;
    let sources = [top(m), stack(&m.registers.x87, 1)];
    if sources.contains(&Source::Empty) {
        underflow(m, 0)?;
        return Ok(Flow::Next);
    }
    let ([Source::Known(a, _), Source::Known(b, _)], Some(mode)) = (sources, mode(m)) else {
        unknown(m, 0)?;
        return Ok(Flow::Next);
    };
    let Some(result) = remainder(a, b, to_nearest, mode) else {
        unknown(m, 0)?;
        m.registers.x87.set_flags(C2, Some(true));
        return Ok(Flow::Next);
    };
    raise(m, result.exceptions)?;
    set_c1(m, None);
    let value = result.value.value;
    if result.exceptions & INVALID == 0 && value.exponent != MAX_EXPONENT {
        let bits = [(0, C1), (1, C3), (2, C0)];
        for (bit, flag) in bits {
            let is_set = result.value.quotient >> bit & 1 != 0;
            m.registers.x87.set_flags(flag, Some(is_set));
        }
        m.registers.x87.set_flags(C2, Some(false));
    }
    write(m, 0, Some(value));
    Ok(Flow::Next)
}

/// Functions whose last bits processors choose: only where the result goes is known.
fn approximate(m: &mut Machine<'_>, to: u8, pops: bool) -> Done {
    begin(m)?;
    let x87 = &m.registers.x87;
    if stack(x87, 0) == Source::Empty || stack(x87, to) == Source::Empty {
        underflow(m, to)?;
    } else {
        unknown(m, to)?;
    }
    if pops {
        pop(m);
    }
    Ok(Flow::Next)
}

/// `fptan` and `fsincos`, which push a second result unless the operand is too great.
fn approximate_two(m: &mut Machine<'_>, _: &Decoded) -> Done {
    /// The exponent of 2^63.
    const TOO_GREAT: u16 = 0x3fff + 63;
    begin(m)?;
    let pushes = match top(m) {
        Source::Known(value, _) => {
            matches!(value.class(), Class::Zero | Class::Denormal | Class::Normal)
                && value.exponent < TOO_GREAT
        }
        _ => false,
    };
    unknown(m, 0)?;
    if pushes {
        push(m, Source::Unknown, true)?;
        set_c1(m, None);
    } else {
        m.registers.x87.lose_top();
    }
    Ok(Flow::Next)
}
