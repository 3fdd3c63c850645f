//! Numbers taken apart, put together, and sorted into classes: what AVX-512 adds to floating point
//! for libraries of functions.

use iced_x86::Mnemonic;

use super::float::{convert, in_mode, packed, scalar, scalar_unary};
use super::float_mode::{FloatMode, Rounding};
use super::float_ops::Float;
use super::{Done, immediate, read, read_low, size, write, write_lowest};
use crate::decode::{Decoded, Handler};
use crate::machine::Machine;
use crate::vector::Vector;

/// A floating-point number as its bits.
pub(super) trait Bits: Float {
    /// Bits of the fraction.
    const FRACTION: u32;
    /// The exponent of 1, which is also the greatest of a number, less this.
    const BIAS: u64;

    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
}

impl Bits for f32 {
    const FRACTION: u32 = 23;
    const BIAS: u64 = 127;

    fn bits(self) -> u64 {
        self.to_bits().into()
    }

    fn of_bits(bits: u64) -> Self {
        // A single has no more of them.
        f32::from_bits(bits as u32)
    }
}

impl Bits for f64 {
    const FRACTION: u32 = 52;
    const BIAS: u64 = 1023;

    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn of_bits(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

/// What a number is, but for its sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Zero,
    Subnormal,
    Normal,
    Infinite,
    Quiet,
    Signaling,
}

/// A number in its parts.
#[derive(Clone, Copy)]
struct Parts {
    kind: Kind,
    negative: bool,
    /// Of a number that is not zero: the exponent of its highest bit.
    exponent: i64,
    /// Of a number that is not zero: its bits from the highest on, that one at [`Bits::FRACTION`].
    significand: u64,
}

const fn sign<F: Bits>() -> u64 {
    1 << (8 * F::BYTES - 1)
}

/// The bits of infinity.
const fn infinity<F: Bits>() -> u64 {
    (2 * F::BIAS + 1) << F::FRACTION
}

/// The bit by which a NaN is a quiet one.
const fn quiet_bit<F: Bits>() -> u64 {
    1 << (F::FRACTION - 1)
}

/// The NaN of an invalid operation.
fn indefinite<F: Bits>() -> F {
    F::of_bits(sign::<F>() | infinity::<F>() | quiet_bit::<F>())
}

/// A number of this magnitude.
fn signed<F: Bits>(magnitude: u64, negative: bool) -> F {
    F::of_bits(magnitude | if negative { sign::<F>() } else { 0 })
}

fn quiet<F: Bits>(nan: F) -> F {
    F::of_bits(nan.bits() | quiet_bit::<F>())
}

fn parts<F: Bits>(value: F) -> Parts {
    let magnitude = value.bits() & !sign::<F>();
    let hidden = 1 << F::FRACTION;
    let (fraction, exponent) = (magnitude & (hidden - 1), magnitude >> F::FRACTION);
    let kind = match (exponent, fraction) {
        (0, 0) => Kind::Zero,
        (0, _) => Kind::Subnormal,
        _ if magnitude < infinity::<F>() => Kind::Normal,
        (_, 0) => Kind::Infinite,
        _ if fraction & quiet_bit::<F>() != 0 => Kind::Quiet,
        _ => Kind::Signaling,
    };
    let (exponent, significand) = match kind {
        Kind::Subnormal => {
            let shift = fraction.leading_zeros() - (63 - F::FRACTION);
            (1 - i64::from(shift), fraction << shift)
        }
        _ => (exponent as i64, fraction | hidden),
    };
    Parts {
        kind,
        negative: value.bits() & sign::<F>() != 0,
        exponent: exponent - F::BIAS as i64,
        significand,
    }
}

impl Parts {
    fn is_nan(self) -> bool {
        matches!(self.kind, Kind::Quiet | Kind::Signaling)
    }

    /// Whether it may count as zero.
    fn may_be_flushed(self, mode: FloatMode<'_>) -> bool {
        self.kind == Kind::Subnormal && !mode.is_gradual()
    }
}

/// `vfpclass*`: whether a number is of one of the classes that have a bit. No mode but that of
/// subnormal numbers has a say, and no exception is raised.
pub(super) fn is_of_class<F: Bits>(value: F, classes: u8, gradual: bool) -> Option<bool> {
    let Parts { kind, negative, .. } = parts(value);
    let of = |kind| match (kind, negative) {
        (Kind::Quiet, _) => 1,
        (Kind::Zero, false) => 1 << 1,
        (Kind::Zero, true) => 1 << 2,
        (Kind::Infinite, false) => 1 << 3,
        (Kind::Infinite, true) => 1 << 4,
        (Kind::Subnormal, false) => 1 << 5,
        (Kind::Subnormal, true) => 1 << 5 | 1 << 6,
        (Kind::Normal, false) => 0,
        (Kind::Normal, true) => 1 << 6,
        (Kind::Signaling, _) => 1 << 7,
    };
    let holds = classes & of(kind) != 0;
    let flushed = if kind == Kind::Subnormal {
        Kind::Zero
    } else {
        kind
    };
    (gradual || (classes & of(flushed) != 0) == holds).then_some(holds)
}

/// `vgetexp*`: the exponent as a number.
fn exponent<F: Bits>(value: F, mode: FloatMode<'_>) -> Option<F> {
    let parts = parts(value);
    mode.raise(matches!(parts.kind, Kind::Signaling | Kind::Subnormal));
    match parts.kind {
        Kind::Quiet | Kind::Signaling => Some(quiet(value)),
        Kind::Infinite => Some(F::of_bits(infinity::<F>())),
        Kind::Zero => Some(signed(infinity::<F>(), true)),
        _ if parts.may_be_flushed(mode) => None,
        // It is exact.
        Kind::Normal | Kind::Subnormal => F::from_integer(parts.exponent.into(), mode),
    }
}

/// `vgetmant*`: the significand, in the interval and with the sign that `control` names.
fn significand<F: Bits>(value: F, control: u8, mode: FloatMode<'_>) -> Option<F> {
    let parts = parts(value);
    let (positive, refuses) = (control & 4 != 0, control & 8 != 0);
    let invalid = refuses && parts.negative && !parts.is_nan() && parts.kind != Kind::Zero;
    mode.raise(invalid || matches!(parts.kind, Kind::Signaling | Kind::Subnormal));
    if parts.is_nan() {
        return Some(quiet(value));
    }
    if parts.may_be_flushed(mode) {
        return None;
    }
    if invalid {
        return Some(indefinite());
    }
    let negative = parts.negative && !positive;
    if matches!(parts.kind, Kind::Zero | Kind::Infinite) {
        return Some(signed(F::BIAS << F::FRACTION, negative));
    }
    let lower = match control & 3 {
        0 => false,
        1 => parts.exponent % 2 != 0,
        2 => true,
        _ => parts.significand & quiet_bit::<F>() != 0,
    };
    let exponent = F::BIAS - u64::from(lower);
    let fraction = parts.significand & ((1 << F::FRACTION) - 1);
    Some(signed(exponent << F::FRACTION | fraction, negative))
}

/// `vscalef*`: a number times two to the power of another one's floor.
fn scale<F: Bits>(value: F, power: F, mode: FloatMode<'_>) -> Option<F> {
    let (a, b) = (parts(value), parts(power));
    let infinite = b.kind == Kind::Infinite;
    let invalid = match a.kind {
        Kind::Zero => infinite && !b.negative,
        Kind::Infinite => infinite && b.negative,
        kind => kind == Kind::Signaling,
    };
    mode.raise(invalid || b.kind == Kind::Signaling || a.kind == Kind::Subnormal);
    match a.kind {
        Kind::Quiet if infinite && b.negative => return Some(F::of_bits(0)),
        Kind::Quiet if infinite => return Some(power),
        Kind::Quiet | Kind::Signaling => return Some(quiet(value)),
        _ if b.is_nan() => return Some(quiet(power)),
        _ if invalid => return Some(indefinite()),
        _ if a.may_be_flushed(mode) => return None,
        Kind::Zero | Kind::Infinite => return Some(value),
        Kind::Normal | Kind::Subnormal => {}
    }
    match b.kind {
        Kind::Infinite if b.negative => return Some(signed(0, a.negative)),
        Kind::Infinite => return Some(signed(infinity::<F>(), a.negative)),
        // Its floor is -1, or that of zero.
        Kind::Subnormal if b.negative && !mode.is_gradual() => {
            let _: Option<F> = assemble(a, -1, mode);
            return None;
        }
        _ => {}
    }
    assemble(a, floor::<F>(b), mode)
}

/// The greatest integer that is not greater; of one that is beyond all exponents, another such.
fn floor<F: Bits>(parts: Parts) -> i64 {
    const FAR: i64 = 1 << 16;
    let magnitude = match parts.exponent {
        _ if parts.kind == Kind::Zero => 0,
        16.. => i128::from(FAR) << F::FRACTION,
        // Less than one: all that counts is that it is not zero.
        ..0 => 1,
        exponent => i128::from(parts.significand) << exponent,
    };
    let signed = if parts.negative {
        -magnitude
    } else {
        magnitude
    };
    // It is no more than that one.
    (signed >> F::FRACTION) as i64
}

/// The number with so much more as its exponent, rounded if it becomes subnormal or infinite.
fn assemble<F: Bits>(parts: Parts, more: i64, mode: FloatMode<'_>) -> Option<F> {
    let Parts {
        negative,
        significand,
        ..
    } = parts;
    let rounds_away = |rounding, nearest| match rounding {
        Rounding::Nearest => nearest,
        Rounding::Down => negative,
        Rounding::Up => !negative,
        Rounding::Zero => false,
    };
    let biased = parts.exponent + more + F::BIAS as i64;
    let fraction = significand & ((1 << F::FRACTION) - 1);
    if biased > 2 * F::BIAS as i64 {
        mode.raise(true);
        let away = rounds_away(mode.rounding()?, true);
        // The greatest number is just below.
        return Some(signed(infinity::<F>() - u64::from(!away), negative));
    }
    if biased > 0 {
        return Some(signed((biased as u64) << F::FRACTION | fraction, negative));
    }
    mode.raise(true);
    let dropped = (1 - biased).min(63) as u32;
    let (kept, rest) = (significand >> dropped, significand & ((1 << dropped) - 1));
    let middle = 1 << (dropped - 1);
    let nearest = rest > middle || rest == middle && kept & 1 != 0;
    let up = rest != 0 && rounds_away(mode.rounding()?, nearest);
    mode.is_gradual()
        .then(|| signed(kept + u64::from(up), negative))
}

/// `vrange*`: the lesser or the greater of two, or of their magnitudes, with a sign that `control`
/// names. A quiet NaN gives way to the other one.
fn range<F: Bits>(first: F, second: F, control: u8, mode: FloatMode<'_>) -> Option<F> {
    let (a, b) = (parts(first), parts(second));
    let signals = |parts: Parts| parts.kind == Kind::Signaling;
    let subnormal = a.kind == Kind::Subnormal && b.kind != Kind::Quiet
        || b.kind == Kind::Subnormal && a.kind != Kind::Quiet;
    mode.raise(signals(a) || signals(b) || subnormal);
    if signals(a) || signals(b) {
        return Some(quiet(if signals(a) { first } else { second }));
    }
    if a.may_be_flushed(mode) || b.may_be_flushed(mode) {
        return None;
    }
    let magnitude = |value: F| value.bits() & !sign::<F>();
    let by_magnitude = magnitude(first).cmp(&magnitude(second));
    let chosen = if b.is_nan() {
        first
    } else if a.is_nan() {
        second
    } else {
        // Between equal magnitudes, the signs decide.
        let by_sign = b.negative.cmp(&a.negative);
        let signed = if a.negative && b.negative {
            by_magnitude.reverse()
        } else {
            by_magnitude
        };
        let order = if control & 2 != 0 {
            by_magnitude.then(by_sign)
        } else {
            by_sign.then(signed)
        };
        if order.is_lt() == (control & 1 == 0) {
            first
        } else {
            second
        }
    };
    let negative = match control >> 2 & 3 {
        0 => a.negative,
        1 => parts(chosen).negative,
        2 => false,
        _ => true,
    };
    Some(signed(magnitude(chosen), negative))
}

/// `vfixupimm*`: what the table has for the class of the source.
fn fixup<F: Bits>(
    old: Option<F>,
    source: F,
    table: u32,
    control: u8,
    mode: FloatMode<'_>,
) -> Option<F> {
    let parts = parts(source);
    if parts.may_be_flushed(mode) {
        mode.raise(true);
        return None;
    }
    let one = F::BIAS << F::FRACTION;
    // The class, and which bits of the control raise an exception for it.
    let (class, raised) = match (parts.kind, parts.negative) {
        (Kind::Quiet, _) => (0, 0),
        (Kind::Signaling, _) => (1, 1 << 4),
        (Kind::Zero, _) => (2, 3),
        (Kind::Infinite, true) => (4, 1 << 5),
        (Kind::Infinite, false) => (5, 1 << 7),
        _ if source.bits() == one => (3, 3 << 2),
        (_, true) => (6, 1 << 6),
        (_, false) => (7, 0),
    };
    mode.raise(control & raised != 0);
    let number = |magnitude, negative| Some(signed(magnitude, negative));
    match table >> (4 * class) & 15 {
        0 => old,
        1 => Some(source),
        2 => Some(F::of_bits(
            source.bits() | infinity::<F>() | quiet_bit::<F>(),
        )),
        3 => Some(indefinite()),
        4 => number(infinity::<F>(), true),
        5 => number(infinity::<F>(), false),
        6 => number(infinity::<F>(), parts.negative),
        7 => number(0, true),
        8 => number(0, false),
        9 => number(one, true),
        10 => number(one, false),
        11 => number(one - (1 << F::FRACTION), false),
        // 90 is 1.40625 times 2^6.
        12 => number(one + (6 << F::FRACTION) + (13 << (F::FRACTION - 5)), false),
        13 => number(half_pi::<F>(), false),
        14 => number(infinity::<F>() - 1, false),
        _ => number(infinity::<F>() - 1, true),
    }
}

/// The bits of pi/2, to the nearest.
fn half_pi<F: Bits>() -> u64 {
    if F::BYTES == 4 {
        std::f32::consts::FRAC_PI_2.bits()
    } else {
        std::f64::consts::FRAC_PI_2.bits()
    }
}

fn fixup_lanes<F: Bits>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let control = immediate(d);
    let bytes = if is_scalar { F::BYTES } else { size(d, 0) };
    in_mode(m, d, |m, mode| {
        let (old, source) = (read(m, d, 0)?, read(m, d, 1)?);
        let table = if is_scalar {
            read_low(m, d, 2, bytes)?
        } else {
            read(m, d, 2)?
        };
        let mut result = if is_scalar { source } else { Vector::ZERO };
        for i in 0..bytes / F::BYTES {
            // The lower half of a lane is as much as the table takes.
            let table = table.lane(i * F::BYTES / 4);
            let value = source
                .lane::<F>(i)
                .zip(table)
                .and_then(|(source, table)| fixup(old.lane(i), source, table, control, mode));
            result.set_lane(i, value);
        }
        if is_scalar {
            write_lowest::<F>(m, d, result)
        } else {
            write(m, d, 0, &result)
        }
    })
}

fn significands<F: Bits>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let control = immediate(d);
    of_one(m, d, is_scalar, |value: F, mode| {
        significand(value, control, mode)
    })
}

fn ranges<F: Bits>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let control = immediate(d);
    let apply = |a: F, b: F, mode: FloatMode<'_>| range(a, b, control, mode);
    if is_scalar {
        scalar(m, d, apply)
    } else {
        packed(m, d, apply)
    }
}

fn reduce<F: Float>(m: &mut Machine<'_>, d: &Decoded, is_scalar: bool) -> Done {
    let control = immediate(d);
    of_one(m, d, is_scalar, |value: F, mode| {
        value.reduce(control, mode)
    })
}

/// The lowest lane, or all lanes, of what is made of one source.
fn of_one<F: Float>(
    m: &mut Machine<'_>,
    d: &Decoded,
    is_scalar: bool,
    apply: impl Fn(F, FloatMode<'_>) -> Option<F>,
) -> Done {
    if is_scalar {
        scalar_unary(m, d, apply)
    } else {
        convert(m, d, apply)
    }
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vscalefps => |m, d| packed(m, d, scale::<f32>),
        M::Vscalefpd => |m, d| packed(m, d, scale::<f64>),
        M::Vscalefss => |m, d| scalar(m, d, scale::<f32>),
        M::Vscalefsd => |m, d| scalar(m, d, scale::<f64>),
        M::Vgetexpps => |m, d| convert(m, d, exponent::<f32>),
        M::Vgetexppd => |m, d| convert(m, d, exponent::<f64>),
        M::Vgetexpss => |m, d| scalar_unary(m, d, exponent::<f32>),
        M::Vgetexpsd => |m, d| scalar_unary(m, d, exponent::<f64>),
        M::Vgetmantps => |m, d| significands::<f32>(m, d, false),
        M::Vgetmantpd => |m, d| significands::<f64>(m, d, false),
        M::Vgetmantss => |m, d| significands::<f32>(m, d, true),
        M::Vgetmantsd => |m, d| significands::<f64>(m, d, true),
        M::Vrangeps => |m, d| ranges::<f32>(m, d, false),
        M::Vrangepd => |m, d| ranges::<f64>(m, d, false),
        M::Vrangess => |m, d| ranges::<f32>(m, d, true),
        M::Vrangesd => |m, d| ranges::<f64>(m, d, true),
        M::Vreduceps => |m, d| reduce::<f32>(m, d, false),
        M::Vreducepd => |m, d| reduce::<f64>(m, d, false),
        M::Vreducess => |m, d| reduce::<f32>(m, d, true),
        M::Vreducesd => |m, d| reduce::<f64>(m, d, true),
        M::Vfixupimmps => |m, d| fixup_lanes::<f32>(m, d, false),
        M::Vfixupimmpd => |m, d| fixup_lanes::<f64>(m, d, false),
        M::Vfixupimmss => |m, d| fixup_lanes::<f32>(m, d, true),
        M::Vfixupimmsd => |m, d| fixup_lanes::<f64>(m, d, true),
        _ => return None,
    };
    Some(handler)
}

#[cfg(test)]
mod tests;
