//! Floating-point instructions.

use std::cell::Cell;
use std::cmp::Ordering;

use iced_x86::{Mnemonic, RoundingControl};

use super::float_mode::{FloatMode, Rounding};
use super::float_ops::Float;
use super::{
    Done, binary, first_source, immediate, is_legacy, read, read_low, size, write, write_lowest,
};
use crate::decode::Decoded;
use crate::exec::state::check_mxcsr;
use crate::machine::{Flow, Machine};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::vector::{HALF, Lane, Vector};
use crate::word::{Width, Word};

/// Lets an instruction work in the modes of the moment, or in a rounding that it names itself.
///
/// An error if it raises an exception that the program can have asked for: MXCSR, which says so, is
/// mostly not known. Where the program may have a handler, any operation may raise one then. Where
/// it has none, an inexact result does not count: every other one is, and the program is to go on.
pub(super) fn in_mode<T>(
    m: &mut Machine<'_>,
    d: &Decoded,
    work: impl FnOnce(&mut Machine<'_>, FloatMode<'_>) -> Result<T, StopReason>,
) -> Result<T, StopReason> {
    let raised = Cell::new(false);
    let instruction = d.instruction();
    let rounding = instruction.rounding_control();
    // Both suppress exceptions.
    let suppressed = rounding != RoundingControl::None || instruction.suppress_all_exceptions();
    let result = if suppressed {
        let mode = FloatMode::of(m.registers.mxcsr, &raised).suppressed();
        raised.set(false);
        work(
            m,
            match rounding {
                RoundingControl::None => mode,
                RoundingControl::RoundToNearest => mode.rounded(Rounding::Nearest),
                RoundingControl::RoundDown => mode.rounded(Rounding::Down),
                RoundingControl::RoundUp => mode.rounded(Rounding::Up),
                RoundingControl::RoundTowardZero => mode.rounded(Rounding::Zero),
            },
        )
    } else {
        if m.registers.handlers.float && m.registers.mxcsr.is_none() {
            return Err(StopReason::FloatException);
        }
        let mode = FloatMode::of(m.registers.mxcsr, &raised);
        work(m, mode)
    }?;
    if raised.get() {
        return Err(StopReason::FloatException);
    }
    Ok(result)
}

/// `ldmxcsr`.
pub(super) fn load_mode(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let value = m.read(d, 0)?.get(4).and_then(|v| u32::try_from(v).ok());
    match value {
        Some(value) => check_mxcsr(value.into())?,
        None => m.check_unknown()?,
    }
    m.registers.mxcsr = value;
    Ok(Flow::Next)
}

/// `stmxcsr`: the exception flags, in the lowest byte with one of the modes, are not kept.
pub(super) fn store_mode(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let value = match m.registers.mxcsr {
        Some(mxcsr) => Word::partial(mxcsr.into(), 0xfe),
        // AMD's processors may have a mode in the third byte.
        None => Word::partial(0, 0xf8),
    };
    m.write(d, 0, value)?;
    Ok(Flow::Next)
}

/// Each lane with its like.
pub(super) fn packed<F: Float>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(F, F, FloatMode<'_>) -> Option<F>,
) -> Done {
    in_mode(m, d, |m, mode| {
        binary(m, d, |a, b, bytes| {
            let mut result = Vector::ZERO;
            for i in 0..bytes / F::BYTES {
                let pair = a.lane(i).zip(b.lane(i));
                result.set_lane(i, pair.and_then(|(a, b)| apply(a, b, mode)));
            }
            result
        })
    })
}

/// The lowest lane; the others of the low half come from the first source.
fn scalar_of<L: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    bytes: usize,
    apply: impl Fn(&Vector, &Vector, FloatMode<'_>) -> Option<L>,
) -> Done {
    let first = first_source(d);
    let a = read(m, d, first)?;
    let b = read_low(m, d, first + 1, bytes)?;
    let mut result = a.truncate(HALF);
    let lane = in_mode(m, d, |_, mode| Ok(apply(&a, &b, mode)))?;
    result.set_lane(0, lane);
    write_lowest::<L>(m, d, result)
}

pub(super) fn scalar<F: Float>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(F, F, FloatMode<'_>) -> Option<F>,
) -> Done {
    scalar_of(m, d, F::BYTES, |a, b, mode| {
        a.lane(0)
            .zip(b.lane(0))
            .and_then(|(a, b)| apply(a, b, mode))
    })
}

/// The lowest lane of the second source converted.
pub(super) fn scalar_unary<From: Lane, To: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(From, FloatMode<'_>) -> Option<To>,
) -> Done {
    scalar_of(m, d, From::BYTES, |_, b, mode| {
        b.lane(0).and_then(|b| apply(b, mode))
    })
}

/// Lanes converted one by one, between widths too; what is left of the destination is zero.
pub(super) fn convert<From: Lane, To: Lane>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(From, FloatMode<'_>) -> Option<To>,
) -> Done {
    in_mode(m, d, |m, mode| {
        let source = read(m, d, 1)?;
        let mut count = size(d, 0) / To::BYTES;
        if !d.instruction().is_broadcast() {
            count = count.min(size(d, 1) / From::BYTES);
        }
        let mut result = Vector::ZERO;
        for i in 0..count {
            let lane = source.lane(i).and_then(|lane| apply(lane, mode));
            result.set_lane(i, lane);
        }
        write(m, d, 0, &result)
    })
}

/// `roundps`, `roundpd`.
pub(super) fn round<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    convert(m, d, |lane: F, mode| lane.round(control, mode))
}

/// `roundss`, `roundsd`.
pub(super) fn round_scalar<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    scalar_unary(m, d, |lane: F, mode| lane.round(control, mode))
}

/// `haddps` and the like.
pub(super) fn neighbours<F: Float>(
    m: &mut Machine<'_>,
    d: &Decoded,
    apply: impl Fn(F, F, FloatMode<'_>) -> Option<F>,
) -> Done {
    in_mode(m, d, |m, mode| {
        super::int::neighbours(m, d, |a, b| apply(a, b, mode))
    })
}

/// `addsubps`, `addsubpd`: even lanes subtracted, odd ones added.
pub(super) fn add_subtract<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    in_mode(m, d, |m, mode| {
        binary(m, d, |a, b, bytes| {
            let mut result = Vector::ZERO;
            for i in 0..bytes / F::BYTES {
                let value = a.lane::<F>(i).zip(b.lane(i)).and_then(|(a, b)| {
                    if i % 2 == 0 {
                        a.subtract(b, mode)
                    } else {
                        a.add(b, mode)
                    }
                });
                result.set_lane(i, value);
            }
            result
        })
    })
}

/// The products of chosen lanes of one half, added in pairs.
fn sum_of_products<F: Float>(
    [a, b]: [&Vector; 2],
    first: usize,
    control: u8,
    mode: FloatMode<'_>,
) -> Option<F> {
    let add = |a: Option<F>, b: Option<F>| a.zip(b).and_then(|(a, b)| a.add(b, mode));
    let product = |i: usize| {
        if control >> (4 + i) & 1 == 0 {
            return Some(F::from_bytes(&[0; 8][..F::BYTES]));
        }
        let (a, b) = a.lane::<F>(first + i).zip(b.lane(first + i))?;
        a.multiply(b, mode)
    };
    let sum = add(product(0), product(1));
    if HALF / F::BYTES == 4 {
        add(sum, add(product(2), product(3)))
    } else {
        sum
    }
}

/// `dpps`, `dppd`: of each half the products of chosen lanes added, in pairs, to chosen lanes.
pub(super) fn dot_product<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    in_mode(m, d, |m, mode| {
        let control = immediate(d);
        let count = HALF / F::BYTES;
        let zero = F::from_bytes(&[0; 8][..F::BYTES]);
        binary(m, d, |a, b, bytes| {
            let mut result = Vector::ZERO;
            for half in 0..bytes / HALF {
                let first = half * count;
                // What a step raises is seen though the one before is not certain.
                let _: Option<F> = sum_of_products([a, b], first, control, mode.assumed());
                let sum = sum_of_products([a, b], first, control, mode.suppressed());
                for i in 0..count {
                    let takes = control >> i & 1 != 0;
                    result.set_lane(first + i, if takes { sum } else { Some(zero) });
                }
            }
            result
        })
    })
}

/// Whether a comparison of that number raises an exception if there is a NaN of any kind.
pub(super) fn is_signaling(predicate: u8) -> bool {
    let orders = matches!(predicate & 3, 1 | 2);
    orders != (predicate & 16 != 0)
}

/// Whether a comparison of that number holds.
pub(super) fn holds(predicate: u8, order: Option<Ordering>) -> bool {
    use Ordering as O;
    match predicate & 15 {
        0 => order == Some(O::Equal),
        1 => order == Some(O::Less),
        2 => matches!(order, Some(O::Less | O::Equal)),
        3 => order.is_none(),
        4 => order != Some(O::Equal),
        5 => order != Some(O::Less),
        6 => !matches!(order, Some(O::Less | O::Equal)),
        7 => order.is_some(),
        8 => matches!(order, Some(O::Equal) | None),
        9 => !matches!(order, Some(O::Greater | O::Equal)),
        10 => order != Some(O::Greater),
        11 => false,
        12 => matches!(order, Some(O::Less | O::Greater)),
        13 => matches!(order, Some(O::Greater | O::Equal)),
        14 => order == Some(O::Greater),
        _ => true,
    }
}

/// The comparison that an instruction names. The legacy encoding has eight.
fn predicate(d: &Decoded) -> Result<u8, StopReason> {
    let predicate = immediate(d);
    let limit = if is_legacy(d) { 8 } else { 32 };
    if predicate < limit {
        Ok(predicate)
    } else {
        Err(StopReason::Unsupported)
    }
}

/// A lane of ones or of zeros, as bits of the lane's type.
fn mask<F: Float>(a: Option<F>, b: Option<F>, predicate: u8, mode: FloatMode<'_>) -> Option<F> {
    let order = a
        .zip(b)
        .and_then(|(a, b)| a.compare(b, is_signaling(predicate), mode))?;
    let byte = if holds(predicate, order) { u8::MAX } else { 0 };
    Some(F::from_bytes(&[byte; 8][..F::BYTES]))
}

/// `cmpps`, `cmppd`.
pub(super) fn compare<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let predicate = predicate(d)?;
    in_mode(m, d, |m, mode| {
        binary(m, d, |a, b, bytes| {
            let mut result = Vector::ZERO;
            for i in 0..bytes / F::BYTES {
                result.set_lane(i, mask(a.lane::<F>(i), b.lane(i), predicate, mode));
            }
            result
        })
    })
}

/// `cmpss`, `cmpsd`.
pub(super) fn compare_scalar<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let predicate = predicate(d)?;
    in_mode(m, d, |m, mode| {
        let first = first_source(d);
        let mut result = read(m, d, first)?;
        let b = read_low(m, d, first + 1, F::BYTES)?;
        // A mask, no number: it is not reported.
        let lane = mask(result.lane::<F>(0), b.lane(0), predicate, mode);
        result.set_lane(0, lane);
        write(m, d, 0, &result)
    })
}

/// `ucomiss`, `comisd` and the like: flags.
pub(super) fn compare_flags<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    use Mnemonic as M;
    let signals = matches!(
        d.instruction().mnemonic(),
        M::Comiss | M::Comisd | M::Vcomiss | M::Vcomisd
    );
    in_mode(m, d, |m, mode| {
        let a = read_low(m, d, 0, F::BYTES)?.lane::<F>(0);
        let b = read_low(m, d, 1, F::BYTES)?.lane::<F>(0);
        let order = a.zip(b).and_then(|(a, b)| a.compare(b, signals, mode));
        let flags = m.flags();
        flags.set(
            Flag::Zf,
            order.map(|o| matches!(o, None | Some(Ordering::Equal))),
        );
        flags.set(Flag::Pf, order.map(|o| o.is_none()));
        flags.set(
            Flag::Cf,
            order.map(|o| matches!(o, None | Some(Ordering::Less))),
        );
        for flag in [Flag::Of, Flag::Sf, Flag::Af] {
            flags.set(flag, Some(false));
        }
        Ok(Flow::Next)
    })
}

/// `cvtsi2ss`, `cvtsi2sd`.
pub(super) fn from_integer<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = size(d, first_source(d) + 1);
    scalar_of(m, d, bytes, |_, b, mode| {
        let value = if bytes == 4 {
            b.lane::<i32>(0)?.into()
        } else {
            b.lane::<i64>(0)?.into()
        };
        F::from_integer(value, mode)
    })
}

/// `vcvtusi2ss`, `vcvtusi2sd`.
pub(super) fn from_unsigned<F: Float>(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let bytes = size(d, first_source(d) + 1);
    scalar_of(m, d, bytes, |_, b, mode| {
        F::from_integer(b.truncate(bytes).lane::<u64>(0)?.into(), mode)
    })
}

/// `vcvttss2usi`, `vcvtsd2usi` and the like.
pub(super) fn to_unsigned<F: Float>(m: &mut Machine<'_>, d: &Decoded, cut: bool) -> Done {
    let width = Width::from_bytes(size(d, 0)).ok_or(StopReason::Unsupported)?;
    in_mode(m, d, |m, mode| {
        let source = read_low(m, d, 1, F::BYTES)?;
        let value = source
            .lane::<F>(0)
            .and_then(|lane| lane.to_unsigned(width.bits(), cut, mode));
        m.write(d, 0, Word::of(width, value))?;
        Ok(Flow::Next)
    })
}

/// `vrndscaleps` and the like, to integers alone: not to parts of one.
pub(super) fn round_scaled<F: Float>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let control = immediate(d);
    let round = |lane: F, mode: FloatMode<'_>| {
        let rounded = lane.round(control, mode);
        rounded.filter(|_| control >> 4 == 0)
    };
    if is_scalar {
        scalar_unary(m, d, round)
    } else {
        convert(m, d, round)
    }
}

/// `cvttss2si`, `cvtsd2si` and the like.
pub(super) fn to_integer<F: Float>(m: &mut Machine<'_>, d: &Decoded, cut: bool) -> Done {
    let width = Width::from_bytes(size(d, 0)).ok_or(StopReason::Unsupported)?;
    in_mode(m, d, |m, mode| {
        let source = read_low(m, d, 1, F::BYTES)?;
        let value = source
            .lane::<F>(0)
            .and_then(|lane| lane.to_integer(width.bits(), cut, mode));
        m.write(d, 0, Word::of(width, value.map(|v| v as u64)))?;
        Ok(Flow::Next)
    })
}

/// Converts a lane to a 32-bit integer.
pub(super) fn to_i32<F: Float>(lane: F, cut: bool, mode: FloatMode<'_>) -> Option<i32> {
    // 32 bits were asked for: nothing is cut off here.
    lane.to_integer(32, cut, mode).map(|value| value as i32)
}

/// Converts a lane to an unsigned 32-bit integer.
pub(super) fn to_u32<F: Float>(lane: F, cut: bool, mode: FloatMode<'_>) -> Option<u32> {
    lane.to_unsigned(32, cut, mode).map(|value| value as u32)
}
