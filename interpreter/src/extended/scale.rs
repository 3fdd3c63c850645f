//! Exponents taken apart and added.

use super::convert::{from_integer, to_integer};
use super::{
    ArithmeticMode, BIAS, Class, DENORMAL, Extended, INTEGER_BIT, INVALID, Raising, Rounding,
    ZERO_DIVIDE, arith, round,
};

/// `a` times two to the power of `b`, which is cut to an integer.
pub(crate) fn scale(a: Extended, b: Extended, mode: ArithmeticMode) -> Raising<Extended> {
    use Class::{Infinity, Unsupported, Zero};
    let mode = mode.in_full();
    let (of_a, of_b) = (a.class(), b.class());
    if of_a == Unsupported || of_b == Unsupported || a.is_nan() || b.is_nan() {
        // As the sum of the two is: invalid, or one of the NaNs.
        return arith::add(a, b, mode);
    }
    let is_denormal = of_a == Class::Denormal || of_b == Class::Denormal;
    let denormal = if is_denormal { DENORMAL } else { 0 };
    match (of_a, of_b) {
        (Zero, Infinity) if !b.negative => Raising::new(Extended::INDEFINITE, INVALID),
        (Infinity, Infinity) if b.negative => Raising::new(Extended::INDEFINITE, INVALID),
        (_, Infinity) if b.negative => Raising::new(Extended::zero(a.negative), denormal),
        (_, Infinity) => Raising::new(Extended::infinity(a.negative), denormal),
        (Zero | Infinity, _) => Raising::new(a, denormal),
        _ => {
            let power = to_integer(b, 32, Rounding::Zero);
            let power = match power.exceptions & INVALID {
                0 => power.value as u32 as i32,
                _ if b.negative => i32::MIN,
                _ => i32::MAX,
            };
            let (exponent, significand) = a.normalized();
            // Beyond that all results are alike.
            let exponent = exponent + power.clamp(-0x1_8000, 0x1_8000);
            round(a.negative, exponent, u128::from(significand) << 64, mode).with(denormal)
        }
    }
}

/// The exponent as a number, and the significand as one between 1 and 2.
pub(crate) fn extract(a: Extended) -> (Extended, Extended, u16) {
    match a.class() {
        Class::Unsupported => (Extended::INDEFINITE, Extended::INDEFINITE, INVALID),
        Class::SignalingNan => (a.quieted(), a.quieted(), INVALID),
        Class::QuietNan => (a, a, 0),
        Class::Infinity => (Extended::infinity(false), a, 0),
        Class::Zero => (Extended::infinity(true), a, ZERO_DIVIDE),
        Class::Normal | Class::Denormal => {
            let (exponent, significand) = a.normalized();
            let value = Extended {
                negative: a.negative,
                exponent: BIAS as u16,
                significand: significand | INTEGER_BIT,
            };
            let exceptions = match a.class() {
                Class::Denormal => DENORMAL,
                _ => 0,
            };
            (from_integer((exponent - BIAS).into()), value, exceptions)
        }
    }
}
