//! Numbers of 80 bits, and their arithmetic as x87 instructions do it.
//!
//! Integers of 128 bits hold exact results, or all bits of them that rounding looks at. [`round`]
//! then rounds to 24, 53 or 64 bits with exponents of 15 bits, as the control word asks. No common
//! library of floating-point numbers has the first two with such exponents.

pub(crate) mod arith;
pub(crate) mod convert;
pub(crate) mod scale;

/// The exponent of 1.
pub(crate) const BIAS: i32 = 0x3fff;
/// The exponent of infinities and of what is no number.
pub(crate) const MAX_EXPONENT: u16 = 0x7fff;
/// The highest bit of a significand, which is explicit.
pub(crate) const INTEGER_BIT: u64 = 1 << 63;
/// Set in a quiet NaN.
const QUIET_BIT: u64 = 1 << 62;

/// The exceptions, by their bits in the status word.
pub(crate) const INVALID: u16 = 1;
pub(crate) const DENORMAL: u16 = 1 << 1;
pub(crate) const ZERO_DIVIDE: u16 = 1 << 2;
pub(crate) const OVERFLOW: u16 = 1 << 3;
pub(crate) const UNDERFLOW: u16 = 1 << 4;
pub(crate) const INEXACT: u16 = 1 << 5;

/// A number of 80 bits, or what else its bits mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extended {
    pub(crate) negative: bool,
    /// 15 bits.
    pub(crate) exponent: u16,
    pub(crate) significand: u64,
}

/// What the bits of a number mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Zero,
    /// Also with the integer bit set.
    Denormal,
    Normal,
    Infinity,
    QuietNan,
    SignalingNan,
    /// No arithmetic takes it.
    Unsupported,
}

/// How results are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    Nearest,
    Down,
    Up,
    Zero,
}

/// What a control word says of arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArithmeticMode {
    pub(crate) rounding: Rounding,
    /// Bits of a rounded significand.
    pub(crate) precision: u32,
    /// A tiny result raises nothing as long as it is exact.
    pub(crate) masks_underflow: bool,
}

impl ArithmeticMode {
    /// What a control word says; `None` if it says something reserved.
    pub(crate) fn of(control: u16) -> Option<Self> {
        let precision = match control >> 8 & 3 {
            0 => 24,
            2 => 53,
            3 => 64,
            _ => return None,
        };
        Some(Self {
            rounding: rounding(control),
            precision,
            masks_underflow: control & UNDERFLOW != 0,
        })
    }

    /// The same with all 64 bits: the precision counts for some operations only.
    pub(crate) fn in_full(self) -> Self {
        Self {
            precision: 64,
            ..self
        }
    }
}

/// The rounding that a control word asks for.
pub(crate) fn rounding(control: u16) -> Rounding {
    match control >> 10 & 3 {
        0 => Rounding::Nearest,
        1 => Rounding::Down,
        2 => Rounding::Up,
        _ => Rounding::Zero,
    }
}

/// A result with the exceptions that it raises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Raising<T> {
    pub(crate) value: T,
    pub(crate) exceptions: u16,
    /// Rounding has made its magnitude greater.
    pub(crate) rounded_up: bool,
}

impl<T> Raising<T> {
    /// A result that raises these exceptions and is not rounded.
    pub(crate) fn new(value: T, exceptions: u16) -> Self {
        Self {
            value,
            exceptions,
            rounded_up: false,
        }
    }

    /// The condition code C1 behind it. Of numbers too great or too small no manual says it.
    pub(crate) fn c1(&self) -> Option<bool> {
        let is_said = self.exceptions & (OVERFLOW | UNDERFLOW) == 0;
        is_said.then_some(self.rounded_up)
    }

    /// The result, with more exceptions.
    pub(crate) fn with(mut self, exceptions: u16) -> Self {
        self.exceptions |= exceptions;
        self
    }
}

impl Extended {
    pub(crate) const ZERO: Self = Self::positive(0, 0);
    pub(crate) const ONE: Self = Self::positive(BIAS as u16, INTEGER_BIT);
    /// The NaN that stands for the result of an invalid operation.
    pub(crate) const INDEFINITE: Self = Self {
        negative: true,
        exponent: MAX_EXPONENT,
        significand: INTEGER_BIT | QUIET_BIT,
    };

    pub(crate) const fn positive(exponent: u16, significand: u64) -> Self {
        Self {
            negative: false,
            exponent,
            significand,
        }
    }

    pub(crate) const fn zero(negative: bool) -> Self {
        Self {
            negative,
            ..Self::ZERO
        }
    }

    pub(crate) const fn infinity(negative: bool) -> Self {
        Self {
            negative,
            exponent: MAX_EXPONENT,
            significand: INTEGER_BIT,
        }
    }

    /// From the bits of the significand, and those of sign and exponent.
    pub(crate) const fn from_bits(significand: u64, top: u16) -> Self {
        Self {
            negative: top >> 15 != 0,
            exponent: top & MAX_EXPONENT,
            significand,
        }
    }

    /// The bits of sign and exponent.
    pub(crate) const fn top(self) -> u16 {
        self.exponent | (self.negative as u16) << 15
    }

    pub(crate) fn class(self) -> Class {
        let has_integer_bit = self.significand & INTEGER_BIT != 0;
        match self.exponent {
            0 if self.significand == 0 => Class::Zero,
            0 => Class::Denormal,
            _ if !has_integer_bit => Class::Unsupported,
            MAX_EXPONENT if self.significand == INTEGER_BIT => Class::Infinity,
            MAX_EXPONENT if self.significand & QUIET_BIT != 0 => Class::QuietNan,
            MAX_EXPONENT => Class::SignalingNan,
            _ => Class::Normal,
        }
    }

    pub(crate) fn is_nan(self) -> bool {
        matches!(self.class(), Class::QuietNan | Class::SignalingNan)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.class() == Class::Zero
    }

    /// A NaN that is quiet.
    pub(crate) fn quieted(self) -> Self {
        Self {
            significand: self.significand | QUIET_BIT,
            ..self
        }
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            negative: !self.negative,
            ..self
        }
    }

    /// Exponent and significand of a finite number that is not zero, with the highest bit set.
    pub(crate) fn normalized(self) -> (i32, u64) {
        let shift = self.significand.leading_zeros();
        let exponent = i32::from(self.exponent.max(1));
        (exponent - shift as i32, self.significand << shift)
    }
}

/// A number shifted down, its lowest bit set if any bit that is shifted out is.
pub(crate) fn shifted_down(value: u128, bits: u32) -> u128 {
    match bits {
        0 => value,
        1..128 => value >> bits | u128::from(value << (128 - bits) != 0),
        _ => u128::from(value != 0),
    }
}

/// Cuts off so many low bits (1 to 127), rounding. Returns what is left, in its place; whether
/// anything was cut off; and whether the magnitude has become greater. The sum may overflow to 0.
fn cut(negative: bool, value: u128, bits: u32, rounding: Rounding) -> (u128, bool, bool) {
    let unit = 1u128 << bits;
    let rest = value & (unit - 1);
    let kept = value - rest;
    let half = unit >> 1;
    let up = match rounding {
        Rounding::Nearest => rest > half || rest == half && kept & unit != 0,
        Rounding::Down => negative && rest != 0,
        Rounding::Up => !negative && rest != 0,
        Rounding::Zero => false,
    };
    let result = if up { kept.wrapping_add(unit) } else { kept };
    (result, rest != 0, up)
}

/// The limits of a format.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// Bits of the significand.
    pub(crate) precision: u32,
    /// The exponent of infinities; 1 is that of the smallest normal number.
    pub(crate) max_exponent: i32,
}

/// A rounded number: its exponent (0 of a denormal one), and its significand with the integer bit
/// in the highest place.
pub(crate) struct Rounded {
    pub(crate) exponent: i32,
    pub(crate) significand: u64,
}

/// Rounds a number to a format. Bit 127 of `value` is set, and has that exponent; bit 0 stands for
/// all that is below.
pub(crate) fn round_to(
    negative: bool,
    exponent: i32,
    value: u128,
    format: Format,
    mode: ArithmeticMode,
) -> Raising<Rounded> {
    let bits = 128 - format.precision;
    let (rounded, inexact, up) = cut(negative, value, bits, mode.rounding);
    let carries = up && rounded == 0;
    let (top, place) = if carries {
        (1 << 127, exponent + 1)
    } else {
        (rounded, exponent)
    };
    if place < 1 {
        return tiny(negative, exponent, value, bits, mode);
    }
    if place >= format.max_exponent {
        return overflow(negative, bits, format, mode);
    }
    Raising {
        value: Rounded {
            exponent: place,
            significand: (top >> 64) as u64,
        },
        exceptions: if inexact { INEXACT } else { 0 },
        rounded_up: up,
    }
}

/// A number too small for a normal one is rounded in the place of the smallest.
fn tiny(
    negative: bool,
    exponent: i32,
    value: u128,
    bits: u32,
    mode: ArithmeticMode,
) -> Raising<Rounded> {
    let shift = u32::try_from(1 - exponent).unwrap_or(0);
    let value = shifted_down(value, shift);
    let (rounded, inexact, up) = cut(negative, value, bits, mode.rounding);
    let exceptions = match (inexact, mode.masks_underflow) {
        (true, _) => UNDERFLOW | INEXACT,
        (false, true) => 0,
        (false, false) => UNDERFLOW,
    };
    Raising {
        value: Rounded {
            exponent: i32::from(rounded >> 127 != 0),
            significand: (rounded >> 64) as u64,
        },
        exceptions,
        rounded_up: up,
    }
}

/// A number too great becomes an infinity, or the greatest.
fn overflow(negative: bool, bits: u32, format: Format, mode: ArithmeticMode) -> Raising<Rounded> {
    let is_infinite = match mode.rounding {
        Rounding::Nearest => true,
        Rounding::Down => negative,
        Rounding::Up => !negative,
        Rounding::Zero => false,
    };
    let greatest = u128::MAX << bits;
    Raising {
        value: if is_infinite {
            Rounded {
                exponent: format.max_exponent,
                significand: INTEGER_BIT,
            }
        } else {
            Rounded {
                exponent: format.max_exponent - 1,
                significand: (greatest >> 64) as u64,
            }
        },
        exceptions: OVERFLOW | INEXACT,
        rounded_up: is_infinite,
    }
}

/// Rounds to a number of 80 bits, in the precision of the mode.
pub(crate) fn round(
    negative: bool,
    exponent: i32,
    value: u128,
    mode: ArithmeticMode,
) -> Raising<Extended> {
    let format = Format {
        precision: mode.precision,
        max_exponent: i32::from(MAX_EXPONENT),
    };
    let Raising {
        value,
        exceptions,
        rounded_up,
    } = round_to(negative, exponent, value, format, mode);
    Raising {
        value: Extended {
            negative,
            exponent: value.exponent as u16,
            significand: value.significand,
        },
        exceptions,
        rounded_up,
    }
}
