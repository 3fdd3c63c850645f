//! Between numbers of 80 bits and those of 32 and 64, integers, and decimal digits.

use super::{
    ArithmeticMode, BIAS, Class, DENORMAL, Extended, Format, INEXACT, INTEGER_BIT, INVALID,
    MAX_EXPONENT, Raising, Rounding, cut, round_to, shifted_down,
};

/// A binary format of 32 or 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct Narrow {
    /// Bits of the number.
    bits: u32,
    /// Bits of the significand that are stored.
    fraction: u32,
}

pub(crate) const SINGLE: Narrow = Narrow {
    bits: 32,
    fraction: 23,
};
pub(crate) const DOUBLE: Narrow = Narrow {
    bits: 64,
    fraction: 52,
};

impl Narrow {
    fn max_exponent(self) -> u64 {
        (1 << (self.bits - 1 - self.fraction)) - 1
    }

    fn bias(self) -> i32 {
        (self.max_exponent() >> 1) as i32
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.bits - 1)
    }

    /// The NaN that stands for the result of an invalid operation.
    pub(crate) fn indefinite(self) -> u64 {
        self.sign(true) | self.max_exponent() << self.fraction | 1 << (self.fraction - 1)
    }
}

/// A number of 80 bits from a narrower one: always exact. A signaling NaN stays one. The exception
/// is that of a denormal operand.
pub(crate) fn widen(bits: u64, format: Narrow) -> (Extended, u16) {
    let negative = bits >> (format.bits - 1) & 1 != 0;
    let exponent = bits >> format.fraction & format.max_exponent();
    let fraction = bits & ((1 << format.fraction) - 1);
    let left = fraction << (63 - format.fraction);
    let number = |exponent: u16, significand: u64| Extended {
        negative,
        exponent,
        significand,
    };
    match exponent {
        0 if fraction == 0 => (Extended::zero(negative), 0),
        0 => {
            let shift = left.leading_zeros();
            let exponent = 1 - format.bias() + BIAS - shift as i32;
            (number(exponent as u16, left << shift), DENORMAL)
        }
        _ if exponent == format.max_exponent() => (number(MAX_EXPONENT, INTEGER_BIT | left), 0),
        _ => {
            let exponent = exponent as i32 - format.bias() + BIAS;
            (number(exponent as u16, INTEGER_BIT | left), 0)
        }
    }
}

/// A number rounded to a narrower format.
pub(crate) fn narrow(value: Extended, format: Narrow, mode: ArithmeticMode) -> Raising<u64> {
    let sign = format.sign(value.negative);
    let infinity = format.max_exponent() << format.fraction;
    match value.class() {
        Class::Unsupported => Raising::new(format.indefinite(), INVALID),
        Class::Zero => Raising::new(sign, 0),
        Class::Infinity => Raising::new(sign | infinity, 0),
        Class::QuietNan | Class::SignalingNan => {
            let fraction = value.quieted().significand & !INTEGER_BIT;
            let exceptions = match value.class() {
                Class::SignalingNan => INVALID,
                _ => 0,
            };
            let fraction = fraction >> (63 - format.fraction);
            Raising::new(sign | infinity | fraction, exceptions)
        }
        Class::Denormal | Class::Normal => {
            let (exponent, significand) = value.normalized();
            let limits = Format {
                precision: format.fraction + 1,
                max_exponent: format.max_exponent() as i32,
            };
            let result = round_to(
                value.negative,
                exponent - BIAS + format.bias(),
                u128::from(significand) << 64,
                limits,
                mode,
            );
            let fraction = (result.value.significand & !INTEGER_BIT) >> (63 - format.fraction);
            Raising {
                value: sign | (result.value.exponent as u64) << format.fraction | fraction,
                exceptions: result.exceptions,
                rounded_up: result.rounded_up,
            }
        }
    }
}

/// The bits of the double that is exactly this number, if there is one.
pub(crate) fn exact_double(value: Extended) -> Option<u64> {
    let mode = ArithmeticMode {
        rounding: Rounding::Zero,
        precision: 64,
        masks_underflow: true,
    };
    let bits = match value.class() {
        Class::Unsupported => return None,
        Class::QuietNan | Class::SignalingNan => {
            let top = DOUBLE.sign(value.negative) | 0x7ff << 52;
            top | (value.significand & !INTEGER_BIT) >> 11
        }
        _ => narrow(value, DOUBLE, mode).value,
    };
    let (again, _) = widen(bits, DOUBLE);
    // A denormal number of 80 bits is no double: all doubles become normal ones.
    (again == value).then_some(bits)
}

/// An integer, exactly.
pub(crate) fn from_integer(value: i64) -> Extended {
    if value == 0 {
        return Extended::ZERO;
    }
    let magnitude = value.unsigned_abs();
    let shift = magnitude.leading_zeros();
    Extended {
        negative: value < 0,
        exponent: (BIAS + 63 - shift as i32) as u16,
        significand: magnitude << shift,
    }
}

/// The magnitude of a finite number, rounded to an integer. `None` if it has more than 64 bits.
fn integral(value: Extended, rounding: Rounding) -> Option<Raising<u64>> {
    if value.is_zero() {
        return Some(Raising::new(0, 0));
    }
    let (exponent, significand) = value.normalized();
    let bits = BIAS + 63 - exponent;
    if bits < 0 {
        return None;
    }
    // The point lies above bit 63.
    let fixed = shifted_down(u128::from(significand) << 63, bits as u32);
    let (rounded, inexact, up) = cut(value.negative, fixed, 63, rounding);
    Some(Raising {
        value: u64::try_from(rounded >> 63).ok()?,
        exceptions: if inexact { INEXACT } else { 0 },
        rounded_up: up,
    })
}

/// A number rounded to a signed integer of so many bits.
pub(crate) fn to_integer(value: Extended, bits: u32, rounding: Rounding) -> Raising<u64> {
    let mask = u64::MAX >> (64 - bits);
    let limit = 1 << (bits - 1);
    let indefinite = Raising::new(limit, INVALID);
    if !matches!(value.class(), Class::Zero | Class::Normal | Class::Denormal) {
        return indefinite;
    }
    match integral(value, rounding) {
        Some(result) if result.value < limit || value.negative && result.value == limit => {
            let magnitude = result.value;
            Raising {
                value: mask
                    & if value.negative {
                        magnitude.wrapping_neg()
                    } else {
                        magnitude
                    },
                exceptions: result.exceptions,
                rounded_up: result.rounded_up,
            }
        }
        _ => indefinite,
    }
}

/// A number rounded to an integer of its own format.
pub(crate) fn to_integral(value: Extended, rounding: Rounding) -> Raising<Extended> {
    match value.class() {
        Class::Unsupported => Raising::new(Extended::INDEFINITE, INVALID),
        Class::SignalingNan => Raising::new(value.quieted(), INVALID),
        Class::QuietNan | Class::Infinity | Class::Zero => Raising::new(value, 0),
        Class::Denormal | Class::Normal => {
            let denormal = match value.class() {
                Class::Denormal => DENORMAL,
                _ => 0,
            };
            let whole = (BIAS + 63) as u16;
            if value.exponent >= whole {
                return Raising::new(value, 0);
            }
            let Some(result) = integral(value, rounding) else {
                return Raising::new(value, denormal);
            };
            let shift = result.value.leading_zeros();
            let number = Extended {
                negative: value.negative,
                exponent: (BIAS + 63 - shift as i32) as u16,
                significand: result.value << (shift & 63),
            };
            Raising {
                value: if result.value == 0 {
                    Extended::zero(value.negative)
                } else {
                    number
                },
                exceptions: result.exceptions | denormal,
                rounded_up: result.rounded_up,
            }
        }
    }
}

/// The ten bytes of an integer of 18 decimal digits, as the processor packs them: the low 64 bits
/// and the high 16.
pub(crate) fn to_decimal(value: Extended, rounding: Rounding) -> Raising<(u64, u16)> {
    const LIMIT: u64 = 999_999_999_999_999_999;
    let indefinite = Raising::new((0xc000_0000_0000_0000, 0xffff), INVALID);
    if !matches!(value.class(), Class::Zero | Class::Normal | Class::Denormal) {
        return indefinite;
    }
    let result = match integral(value, rounding) {
        Some(result) if result.value <= LIMIT => result,
        _ => return indefinite,
    };
    let mut left = result.value;
    let mut digits = 0u128;
    for place in 0..18 {
        digits |= u128::from(left % 10) << (4 * place);
        left /= 10;
    }
    let top = (digits >> 64) as u16 | u16::from(value.negative) << 15;
    Raising {
        value: (digits as u64, top),
        exceptions: result.exceptions,
        rounded_up: result.rounded_up,
    }
}

/// The number that ten bytes of decimal digits are; `None` if one is no digit.
pub(crate) fn from_decimal(low: u64, top: u16) -> Option<Extended> {
    let digits = u128::from(top & 0xff) << 64 | u128::from(low);
    let mut value = 0;
    for place in (0..18).rev() {
        let digit = (digits >> (4 * place) & 15) as i64;
        if digit > 9 {
            return None;
        }
        value = value * 10 + digit;
    }
    Some(Extended {
        negative: top >> 15 != 0,
        ..from_integer(value)
    })
}
