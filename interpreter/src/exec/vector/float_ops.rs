//! Floating-point arithmetic as far as its results are certain.
//!
//! MXCSR says how results are rounded and whether subnormal numbers count as zero; a sample does
//! not carry it. So a result is certain if it is exact, with operands and result far from where
//! numbers become subnormal or infinite, or if the modes are known. Of NaNs only those are certain
//! that are moved or converted.

use std::cmp::Ordering;

use super::float_mode::{FloatMode, Rounding};
use crate::vector::Lane;

/// Arithmetic on one lane; `None`: the result is not certain.
pub(super) trait Float: Lane + PartialOrd {
    fn add(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn subtract(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn multiply(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn divide(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn square_root(self, mode: FloatMode<'_>) -> Option<Self>;
    /// `self * factor + addend`, rounded once.
    fn multiply_add(self, factor: Self, addend: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn negate(self) -> Self;
    /// The smaller; the second if either is a NaN or both are zero.
    fn lesser(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    fn greater(self, other: Self, mode: FloatMode<'_>) -> Option<Self>;
    /// How both compare; `Some(None)`: they do not.
    /// `signals`: a NaN of any kind raises an exception.
    fn compare(self, other: Self, signals: bool, mode: FloatMode<'_>) -> Option<Option<Ordering>>;
    /// Rounds to an integer in the way that bits 0 to 2 of `control` say.
    fn round(self, control: u8, mode: FloatMode<'_>) -> Option<Self>;
    /// What is left when the number is rounded to so many bits below one as bits 4 to 7 of
    /// `control` say, in the way that bits 0 to 2 say.
    fn reduce(self, control: u8, mode: FloatMode<'_>) -> Option<Self>;
    /// Widens to a double, which is always exact.
    fn widen(self, mode: FloatMode<'_>) -> Option<f64>;
    /// Narrows a double.
    fn narrow(value: f64, mode: FloatMode<'_>) -> Option<Self>;
    /// Converts an integer to this type.
    fn from_integer(value: i128, mode: FloatMode<'_>) -> Option<Self>;
    /// Converts to an integer of 32 or 64 bits, cut off or rounded. What does not fit is the least
    /// integer.
    fn to_integer(self, bits: u32, cut: bool, mode: FloatMode<'_>) -> Option<i64>;
    /// Converts to an unsigned integer. What does not fit is the greatest.
    fn to_unsigned(self, bits: u32, cut: bool, mode: FloatMode<'_>) -> Option<u64>;
}

macro_rules! float {
    ($float:ident, $bits:ident, $low:expr, $high:expr, $widen:path, $narrow:path) => {
        const _: () = {
            /// Zero, or so far from the ends of the range that no error of an operation is lost.
            fn is_plain(value: $float) -> bool {
                value == 0.0 || ($low..=$high).contains(&value.abs())
            }

            /// A NaN that raises an exception.
            fn is_signaling(value: $float) -> bool {
                value.is_nan() && value.to_bits() != quiet(value).to_bits()
            }

            /// Whether an operation on these raises an exception other than that of an inexact
            /// result: an invalid operand or result, a subnormal operand, an overflow (seen from
            /// the result to the nearest), a result so small that it may be subnormal. A zero that
            /// is no underflow is not `tiny`.
            fn raises(operands: &[$float], result: $float, tiny: bool) -> bool {
                let nan = operands.iter().any(|operand| operand.is_nan());
                let finite = operands.iter().all(|operand| operand.is_finite());
                operands
                    .iter()
                    .any(|o| is_signaling(*o) || o.is_subnormal())
                    || result.is_nan() && !nan
                    || finite && result.abs() >= $float::MAX
                    || tiny && result.abs() <= $float::MIN_POSITIVE
            }

            /// The result, given that to the nearest and by how much the true one is more. Known
            /// if it is exact, or if the rounding is known; `error` may be scaled.
            fn settle(
                operands: [$float; 2],
                nearest: $float,
                error: $float,
                mode: FloatMode<'_>,
            ) -> Option<$float> {
                if operands.into_iter().all(is_plain) {
                    if let Some(rounding) = mode.rounding() {
                        return Some(rounded(nearest, error, rounding));
                    }
                    if error == 0.0 {
                        return Some(nearest);
                    }
                }
                // With default modes a result is certain unless it is a NaN.
                (mode.is_default() && !nearest.is_nan()).then_some(nearest)
            }

            /// The number rounded as told, given that to the nearest and by how much the true one
            /// is more.
            fn rounded(nearest: $float, error: $float, rounding: Rounding) -> $float {
                let down = match rounding {
                    _ if error == 0.0 => return nearest,
                    Rounding::Nearest => return nearest,
                    Rounding::Down => true,
                    Rounding::Up => false,
                    Rounding::Zero => nearest > 0.0 || nearest == 0.0 && error > 0.0,
                };
                match (down, error > 0.0) {
                    (true, false) => nearest.next_down(),
                    (false, true) => nearest.next_up(),
                    _ => nearest,
                }
            }

            impl Float for $float {
                fn add(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    let sum = self + other;
                    mode.raise(raises(&[self, other], sum, sum != 0.0));
                    let part = sum - self;
                    let error = (self - (sum - part)) + (other - part);
                    if sum != 0.0 {
                        return settle([self, other], sum, error, mode);
                    }
                    // The sign of a zero sum depends on the rounding unless both operands have it.
                    if self == 0.0 && self.to_bits() == other.to_bits() {
                        return Some(self);
                    }
                    let rounding = mode
                        .rounding()
                        .filter(|_| is_plain(self) && is_plain(other))?;
                    Some(if rounding == Rounding::Down {
                        -0.0
                    } else {
                        0.0
                    })
                }

                fn subtract(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    Float::add(self, -other, mode)
                }

                fn multiply(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    let product = self * other;
                    let tiny = self != 0.0 && other != 0.0;
                    mode.raise(raises(&[self, other], product, tiny));
                    let error = self.mul_add(other, -product);
                    settle([self, other], product, error, mode)
                }

                fn divide(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    let quotient = self / other;
                    let tiny = self != 0.0 && other.is_finite();
                    mode.raise(raises(&[self, other], quotient, tiny));
                    let remainder = quotient.mul_add(-other, self);
                    let error = if other < 0.0 { -remainder } else { remainder };
                    if other == 0.0 {
                        return (mode.is_default() && !quotient.is_nan()).then_some(quotient);
                    }
                    settle([self, other], quotient, error, mode)
                }

                fn square_root(self, mode: FloatMode<'_>) -> Option<Self> {
                    let root = self.sqrt();
                    mode.raise(raises(&[self], root, false));
                    let error = root.mul_add(-root, self);
                    if self < 0.0 || root.is_nan() {
                        return None;
                    }
                    settle([self, self], root, error, mode)
                }

                fn multiply_add(
                    self,
                    factor: Self,
                    addend: Self,
                    mode: FloatMode<'_>,
                ) -> Option<Self> {
                    let unknown = FloatMode::unknown();
                    let result = self.mul_add(factor, addend);
                    mode.raise(raises(&[self, factor, addend], result, result != 0.0));
                    // Of a product that is beyond all numbers, and of one that vanishes.
                    let product = self * factor;
                    let whole = product.is_finite() || !self.is_finite() || !factor.is_finite();
                    let vanishes =
                        self != 0.0 && factor != 0.0 && product.abs() <= <$float>::MIN_POSITIVE;
                    mode.raise(!whole || vanishes);
                    let mode = mode.suppressed();
                    Float::multiply(self, factor, unknown)
                        .and_then(|product| Float::add(product, addend, mode))
                        .or_else(|| (mode.is_default() && !result.is_nan()).then_some(result))
                }

                fn negate(self) -> Self {
                    -self
                }

                fn lesser(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    mode.raise(self.is_nan() || other.is_nan());
                    mode.raise(self.is_subnormal() || other.is_subnormal());
                    let certain =
                        mode.is_gradual() || !self.is_subnormal() && !other.is_subnormal();
                    certain.then_some(if self < other { self } else { other })
                }

                fn greater(self, other: Self, mode: FloatMode<'_>) -> Option<Self> {
                    mode.raise(self.is_nan() || other.is_nan());
                    mode.raise(self.is_subnormal() || other.is_subnormal());
                    let certain =
                        mode.is_gradual() || !self.is_subnormal() && !other.is_subnormal();
                    certain.then_some(if self > other { self } else { other })
                }

                fn compare(
                    self,
                    other: Self,
                    signals: bool,
                    mode: FloatMode<'_>,
                ) -> Option<Option<Ordering>> {
                    let nan = self.is_nan() || other.is_nan();
                    let invalid = is_signaling(self) || is_signaling(other) || signals && nan;
                    mode.raise(invalid || self.is_subnormal() || other.is_subnormal());
                    let flush = |value: Self| if value.is_subnormal() { 0.0 } else { value };
                    let order = self.partial_cmp(&other);
                    let flushed = flush(self).partial_cmp(&flush(other));
                    (mode.is_gradual() || order == flushed).then_some(order)
                }

                fn round(self, control: u8, mode: FloatMode<'_>) -> Option<Self> {
                    mode.raise(is_signaling(self) || self.is_subnormal());
                    if self.is_nan() {
                        return Some(quiet(self));
                    }
                    if self.is_subnormal() && !mode.is_gradual() {
                        return None;
                    }
                    if self == self.trunc() {
                        return Some(self);
                    }
                    let rounding = match control & 4 {
                        0 => Some(Rounding::of(control.into())),
                        _ => mode.rounding(),
                    };
                    rounding.map(|rounding| whole(self, rounding))
                }

                fn reduce(self, control: u8, mode: FloatMode<'_>) -> Option<Self> {
                    const INTEGERS: $float = (1u64 << ($float::MANTISSA_DIGITS - 1)) as $float;
                    mode.raise(is_signaling(self) || self.is_subnormal());
                    if self.is_nan() {
                        return Some(quiet(self));
                    }
                    if self.is_infinite() {
                        return Some(0.0);
                    }
                    if self.is_subnormal() && !mode.is_gradual() {
                        return None;
                    }
                    let rounding = match control & 4 {
                        0 => Rounding::of(control.into()),
                        _ => mode.rounding()?,
                    };
                    let unit = $float::from(1u16 << (control >> 4));
                    // The greater ones are integers.
                    let parts = if self.abs() < INTEGERS {
                        whole(self * unit, rounding) / unit
                    } else {
                        self
                    };
                    let left = self - parts;
                    if left == 0.0 {
                        return Some(if rounding == Rounding::Down {
                            -0.0
                        } else {
                            0.0
                        });
                    }
                    let part = left - self;
                    let error = (self - (left - part)) + (-parts - part);
                    Some(rounded(left, error, rounding))
                }

                fn widen(self, mode: FloatMode<'_>) -> Option<f64> {
                    mode.raise(is_signaling(self) || self.is_subnormal());
                    if self.is_subnormal() && !mode.is_gradual() {
                        return None;
                    }
                    Some($widen(self))
                }

                fn narrow(value: f64, mode: FloatMode<'_>) -> Option<Self> {
                    let signaling = value.is_nan() && value.to_bits() >> 51 & 1 == 0;
                    let narrow = value as Self;
                    let finite = value.is_finite();
                    mode.raise(signaling || value.is_subnormal());
                    mode.raise(finite && narrow.abs() >= Self::MAX);
                    mode.raise(value != 0.0 && narrow.abs() <= Self::MIN_POSITIVE);
                    if value.is_nan() {
                        return Some($narrow(value));
                    }
                    let result = value as Self;
                    let subnormal = value.is_subnormal() || result.is_subnormal();
                    let exact = f64::from(result) == value && !subnormal;
                    if exact || mode.is_default() {
                        return Some(result);
                    }
                    // What becomes zero may become the least subnormal number, or be flushed.
                    let plain = result != 0.0 && is_plain(result) && !subnormal;
                    let rounding = mode.rounding().filter(|_| plain || mode.is_gradual())?;
                    let error = match value.partial_cmp(&f64::from(result)) {
                        Some(Ordering::Greater) => 1.0,
                        Some(Ordering::Less) => -1.0,
                        // A subnormal number without an error.
                        _ => 0.0,
                    };
                    Some(rounded(result, error, rounding))
                }

                fn from_integer(value: i128, mode: FloatMode<'_>) -> Option<Self> {
                    let result = value as Self;
                    let error = match value.cmp(&(result as i128)) {
                        Ordering::Equal => return Some(result),
                        Ordering::Greater => 1.0,
                        Ordering::Less => -1.0,
                    };
                    Some(rounded(result, error, mode.rounding()?))
                }

                fn to_integer(self, bits: u32, cut: bool, mode: FloatMode<'_>) -> Option<i64> {
                    let least = i64::MIN >> (64 - bits);
                    // Whatever it is rounded to.
                    let edge = -(least as f64);
                    let far = self.is_nan()
                        || f64::from(self) - 1.0 < -edge
                        || f64::from(self) + 1.0 >= edge;
                    mode.raise(far && !(f64::from(self) == -edge));
                    let whole = rounded_or_cut(self, cut, mode)?;
                    // Both bounds are powers of two.
                    let fits = whole >= least as f64 && whole < -(least as f64);
                    Some(if fits { whole as i64 } else { least })
                }

                fn to_unsigned(self, bits: u32, cut: bool, mode: FloatMode<'_>) -> Option<u64> {
                    let greatest = u64::MAX >> (64 - bits);
                    let edge = 2f64.powi(bits as i32);
                    let far =
                        self.is_nan() || f64::from(self) < 0.0 || f64::from(self) + 1.0 >= edge;
                    mode.raise(far);
                    let whole = rounded_or_cut(self, cut, mode)?;
                    let fits = whole >= 0.0 && whole < 2f64.powi(bits as i32);
                    Some(if fits { whole as u64 } else { greatest })
                }
            }

            /// The value as an integer, cut off or rounded.
            fn rounded_or_cut(value: $float, cut: bool, mode: FloatMode<'_>) -> Option<f64> {
                let result = if cut || value == value.trunc() || value.is_nan() {
                    value.trunc()
                } else {
                    whole(value, mode.rounding()?)
                };
                // A subnormal number may count as zero, which is not rounded away from it.
                let certain = mode.is_gradual() || !value.is_subnormal() || result == 0.0;
                certain.then_some(f64::from(result))
            }

            /// The value rounded to an integer.
            fn whole(value: $float, rounding: Rounding) -> $float {
                match rounding {
                    Rounding::Nearest => value.round_ties_even(),
                    Rounding::Down => value.floor(),
                    Rounding::Up => value.ceil(),
                    Rounding::Zero => value.trunc(),
                }
            }

            /// A NaN as arithmetic hands it on.
            fn quiet(value: $float) -> $float {
                const QUIET: $bits = 1 << ($float::MANTISSA_DIGITS - 2);
                $float::from_bits(value.to_bits() | QUIET)
            }
        };
    };
}

float!(f32, u32, 1e-9, 1e9, widen_single, narrow_nan);
float!(f64, u64, 1e-100, 1e100, std::convert::identity, quiet_nan);

/// A NaN keeps the top of its payload and becomes a quiet one.
fn widen_single(value: f32) -> f64 {
    if value.is_nan() {
        let bits = u64::from(value.to_bits());
        f64::from_bits(bits >> 31 << 63 | 0x7ff8 << 48 | (bits & 0x7f_ffff) << 29)
    } else {
        f64::from(value)
    }
}

/// The NaN of single precision that a double's becomes.
fn narrow_nan(value: f64) -> f32 {
    let bits = value.to_bits();
    // The payload's top 23 bits; the rest is lost.
    let payload = (bits >> 29) as u32 & 0x7f_ffff;
    f32::from_bits(((bits >> 63) as u32) << 31 | 0x7fc0_0000 | payload)
}

fn quiet_nan(value: f64) -> f64 {
    f64::from_bits(value.to_bits() | 1 << 51)
}

#[cfg(test)]
mod tests;
