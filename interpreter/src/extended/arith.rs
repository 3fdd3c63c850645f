//! Sums, products, quotients, roots, remainders and comparisons.

use std::cmp::Ordering;

use super::{
    ArithmeticMode, BIAS, Class, DENORMAL, Extended, INVALID, Raising, Rounding, ZERO_DIVIDE,
    round, shifted_down,
};

/// What an operation on these comes to whatever it computes: invalid with an unsupported number or
/// a signaling NaN, else the NaN of the operands.
fn special(a: Extended, b: Extended) -> Option<Raising<Extended>> {
    let (of_a, of_b) = (a.class(), b.class());
    if of_a == Class::Unsupported || of_b == Class::Unsupported {
        return Some(invalid());
    }
    if !a.is_nan() && !b.is_nan() {
        return None;
    }
    let signals = of_a == Class::SignalingNan || of_b == Class::SignalingNan;
    let value = match (of_a, of_b) {
        (Class::SignalingNan, Class::QuietNan) => b,
        (Class::QuietNan, Class::SignalingNan) => a,
        _ if !b.is_nan() => a,
        _ if !a.is_nan() => b,
        _ => greater(a.quieted(), b.quieted()),
    };
    let exceptions = if signals { INVALID } else { 0 };
    Some(Raising::new(value.quieted(), exceptions))
}

/// The NaN with the greater significand, else the positive one.
fn greater(a: Extended, b: Extended) -> Extended {
    match a.significand.cmp(&b.significand) {
        Ordering::Less => b,
        Ordering::Greater => a,
        Ordering::Equal if a.negative => b,
        Ordering::Equal => a,
    }
}

fn invalid() -> Raising<Extended> {
    Raising::new(Extended::INDEFINITE, INVALID)
}

/// The exception of a denormal operand.
fn denormals(operands: &[Extended]) -> u16 {
    let some = operands.iter().any(|x| x.class() == Class::Denormal);
    if some { DENORMAL } else { 0 }
}

pub(crate) fn add(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    if let Some(result) = special(a, b) {
        return result;
    }
    let denormal = denormals(&[a, b]);
    match (a.class(), b.class()) {
        (Class::Infinity, Class::Infinity) if a.negative != b.negative => invalid(),
        (Class::Infinity, _) => Raising::new(a, denormal),
        (_, Class::Infinity) => Raising::new(b, denormal),
        (Class::Zero, Class::Zero) => {
            let negative = if a.negative == b.negative {
                a.negative
            } else {
                mode.rounding == Rounding::Down
            };
            Raising::new(Extended::zero(negative), 0)
        }
        _ => sum(a, b, mode).with(denormal),
    }
}

/// The sum of finite numbers, at most one of them zero.
fn sum(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    // With room for a carry above, and 63 bits below.
    let wide = |x: Extended| {
        let (exponent, significand) = x.normalized();
        (x, exponent, u128::from(significand) << 63)
    };
    if a.is_zero() || b.is_zero() {
        let (x, exponent, value) = wide(if a.is_zero() { b } else { a });
        return round(x.negative, exponent, value << 1, mode);
    }
    let (mut big, mut small) = (wide(a), wide(b));
    if (big.1, big.2) < (small.1, small.2) {
        (big, small) = (small, big);
    }
    let low = shifted_down(small.2, (big.1 - small.1) as u32);
    let value = if big.0.negative == small.0.negative {
        big.2 + low
    } else {
        big.2 - low
    };
    if value == 0 {
        let negative = mode.rounding == Rounding::Down;
        return Raising::new(Extended::zero(negative), 0);
    }
    let shift = value.leading_zeros();
    round(
        big.0.negative,
        big.1 + 1 - shift as i32,
        value << shift,
        mode,
    )
}

/// `a - b`.
pub(crate) fn subtract(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    match b.is_nan() {
        // The NaN of the operands keeps its sign.
        true => add(a, b, mode),
        false => add(a, b.negated(), mode),
    }
}

pub(crate) fn multiply(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    if let Some(result) = special(a, b) {
        return result;
    }
    let denormal = denormals(&[a, b]);
    let negative = a.negative != b.negative;
    match (a.class(), b.class()) {
        (Class::Infinity, Class::Zero) | (Class::Zero, Class::Infinity) => invalid(),
        (Class::Infinity, _) | (_, Class::Infinity) => {
            Raising::new(Extended::infinity(negative), denormal)
        }
        (Class::Zero, _) | (_, Class::Zero) => Raising::new(Extended::zero(negative), denormal),
        _ => {
            let ((of_a, x), (of_b, y)) = (a.normalized(), b.normalized());
            let product = u128::from(x) * u128::from(y);
            let shift = product.leading_zeros();
            let exponent = of_a + of_b - BIAS + 1 - shift as i32;
            round(negative, exponent, product << shift, mode).with(denormal)
        }
    }
}

/// `a / b`.
pub(crate) fn divide(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    if let Some(result) = special(a, b) {
        return result;
    }
    let denormal = denormals(&[a, b]);
    let negative = a.negative != b.negative;
    match (a.class(), b.class()) {
        (Class::Infinity, Class::Infinity) | (Class::Zero, Class::Zero) => invalid(),
        (Class::Infinity, _) => Raising::new(Extended::infinity(negative), denormal),
        (_, Class::Infinity) | (Class::Zero, _) => Raising::new(Extended::zero(negative), denormal),
        (_, Class::Zero) => Raising::new(Extended::infinity(negative), ZERO_DIVIDE),
        _ => {
            let ((of_a, x), (of_b, y)) = (a.normalized(), b.normalized());
            // The first quotient has 64 bits.
            let below = u32::from(x < y);
            let exponent = of_a - of_b + BIAS - below as i32;
            let (x, y) = (u128::from(x) << (63 + below), u128::from(y));
            let (first, rest) = (x / y, x % y);
            let (second, rest) = ((rest << 64) / y, (rest << 64) % y);
            let value = first << 64 | second | u128::from(rest != 0);
            round(negative, exponent, value, mode).with(denormal)
        }
    }
}

pub(crate) fn root(a: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    match a.class() {
        Class::Unsupported => invalid(),
        Class::SignalingNan => Raising::new(a.quieted(), INVALID),
        Class::QuietNan | Class::Zero => Raising::new(a, 0),
        _ if a.negative => invalid(),
        Class::Infinity => Raising::new(a, 0),
        Class::Denormal | Class::Normal => {
            let (exponent, significand) = a.normalized();
            let power = exponent - BIAS;
            let radicand = u128::from(significand) << (63 + (power & 1));
            let root = radicand.isqrt();
            let rest = radicand - root * root;
            // No root lies half way between two numbers of 64 bits.
            let below = match rest {
                0 => 0,
                _ if rest > root => 3 << 62,
                _ => 1,
            };
            let value = root << 64 | below;
            round(false, (power >> 1) + BIAS, value, mode).with(denormals(&[a]))
        }
    }
}

/// How two numbers compare, `None` if they do not, and what that raises. A quiet NaN is invalid for
/// some comparisons only.
pub(crate) fn compare(a: Extended, b: Extended, takes_nans: bool) -> (Option<Ordering>, u16) {
    let classes = [a.class(), b.class()];
    if classes.contains(&Class::Unsupported) || classes.contains(&Class::SignalingNan) {
        return (None, INVALID);
    }
    if classes.contains(&Class::QuietNan) {
        return (None, if takes_nans { 0 } else { INVALID });
    }
    let key = |x: Extended| match x.class() {
        Class::Zero => (0, 0, 0),
        Class::Infinity => (1, i32::MAX, 0),
        _ => {
            let (exponent, significand) = x.normalized();
            (1, exponent, significand)
        }
    };
    let is_negative = |x: Extended| x.negative && !x.is_zero();
    let order = match (is_negative(a), is_negative(b)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => key(a).cmp(&key(b)),
        (true, true) => key(b).cmp(&key(a)),
    };
    (Some(order), denormals(&[a, b]))
}

/// A remainder, and the lowest three bits of the quotient.
pub(crate) struct Remainder {
    pub(crate) value: Extended,
    pub(crate) quotient: u8,
}

/// The remainder of a division whose quotient is cut off, or rounded to the nearest. `None` where
/// the processor is free to stop half way.
pub(crate) fn remainder(
    a: Extended,
    b: Extended,
    to_nearest: bool,
    mode: ArithmeticMode,
) -> Option<Raising<Remainder>> {
    let of = |result: Raising<Extended>| Raising {
        value: Remainder {
            value: result.value,
            quotient: 0,
        },
        exceptions: result.exceptions,
        rounded_up: false,
    };
    if let Some(result) = special(a, b) {
        return Some(of(result));
    }
    let denormal = denormals(&[a, b]);
    match (a.class(), b.class()) {
        (Class::Infinity, _) | (_, Class::Zero) => return Some(of(invalid())),
        (Class::Zero, _) => return Some(of(Raising::new(a, denormal))),
        _ => {}
    }
    let ((of_a, x), (of_b, y)) = (a.normalized(), b.normalized());
    // An infinite divisor has the greatest exponent.
    let distance = match b.class() {
        Class::Infinity => i32::MIN,
        _ => of_a - of_b,
    };
    if distance >= 64 {
        return None;
    }
    if distance < -1 || distance < 0 && !to_nearest {
        let (exponent, value) = (of_a, u128::from(x) << 64);
        return Some(of(
            round(a.negative, exponent, value, mode.in_full()).with(denormal)
        ));
    }
    // In units of half the divisor's lowest bit: the dividend may lie one bit lower.
    let (dividend, divisor) = (u128::from(x) << (distance + 1), u128::from(y) << 1);
    let (mut quotient, mut rest) = (dividend / divisor, dividend % divisor);
    let mut negative = a.negative;
    let twice = rest << 1;
    if to_nearest && (twice > divisor || twice == divisor && quotient & 1 != 0) {
        quotient += 1;
        rest = divisor - rest;
        negative = !negative;
    }
    let result = if rest == 0 {
        Raising::new(Extended::zero(a.negative), denormal)
    } else {
        let shift = rest.leading_zeros();
        // Bit 64 of the rest has the divisor's exponent.
        let exponent = of_b + 63 - shift as i32;
        round(negative, exponent, rest << shift, mode.in_full()).with(denormal)
    };
    Some(Raising {
        value: Remainder {
            value: result.value,
            quotient: (quotient & 7) as u8,
        },
        exceptions: result.exceptions,
        rounded_up: false,
    })
}
