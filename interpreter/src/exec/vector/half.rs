//! Numbers of half precision: conversions.

use super::float_mode::{FloatMode, Rounding};
use super::{Done, immediate, read, size, write};
use crate::decode::Decoded;
use crate::machine::Machine;
use crate::vector::Vector;

/// The single of the same value. A NaN becomes a quiet one. No mode has a say.
pub(super) fn to_single(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let fraction = u32::from(half & 0x3ff);
    let magnitude = match (exponent, fraction) {
        (0x1f, 0) => f32::INFINITY.to_bits(),
        (0x1f, _) => 0x7fc0_0000 | fraction << 13,
        // Subnormal: so many times 2^-24.
        (0, _) => (fraction as f32 * f32::from_bits(0x3380_0000)).to_bits(),
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The half that a single is rounded to.
fn from_single(value: f32, rounding: Rounding) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    if value.is_nan() {
        return sign | 0x7e00 | (magnitude >> 13) as u16 & 0x3ff;
    }
    if value.is_infinite() {
        return sign | 0x7c00;
    }
    // In units of the last place, below which `dropped` bits are lost.
    let exponent = magnitude >> 23;
    let (kept, dropped) = if exponent > 127 - 15 {
        (magnitude - ((127 - 15) << 23), 13)
    } else if exponent == 0 {
        (magnitude, 31)
    } else {
        (magnitude & 0x7f_ffff | 0x80_0000, (126 - exponent).min(31))
    };
    let units = kept >> dropped;
    let rest = kept & ((1 << dropped) - 1);
    let middle = 1 << (dropped - 1);
    let up = match rounding {
        Rounding::Nearest => rest > middle || rest == middle && units & 1 != 0,
        Rounding::Down => rest != 0 && sign != 0,
        Rounding::Up => rest != 0 && sign == 0,
        Rounding::Zero => false,
    };
    let rounded = units + u32::from(up);
    // Past the greatest number it is infinity, or the greatest number where that is not rounded to.
    let overflows = rounded >= 0x7c00;
    let to_infinity = match rounding {
        Rounding::Nearest => true,
        Rounding::Down => sign != 0,
        Rounding::Up => sign == 0,
        Rounding::Zero => false,
    };
    let result = match (overflows, to_infinity) {
        (false, _) => rounded as u16,
        (true, true) => 0x7c00,
        (true, false) => 0x7bff,
    };
    sign | result
}

/// `vcvtps2ph`: rounded as the immediate says, or as MXCSR does.
pub(super) fn from_singles(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let control = immediate(d);
    super::float::in_mode(m, d, |m, mode| {
        let rounding = if control & 4 != 0 {
            mode.rounding()
        } else {
            Some(Rounding::of(control.into()))
        };
        let convert = |value: f32| {
            mode.raise(value.is_nan() && value.to_bits() >> 22 & 1 == 0 || value.is_subnormal());
            // The greatest half is 65504, the least one that is not subnormal 2^-14.
            mode.raise(value.is_finite() && value.abs() >= 65504.0);
            mode.raise(value != 0.0 && value.abs() <= f32::from_bits(0x3880_0000));
            let ways: &[Rounding] = match &rounding {
                Some(rounding) => std::slice::from_ref(rounding),
                None => &Rounding::ALL,
            };
            let mut results = ways.iter().map(|way| from_single(value, *way));
            let first = results.next()?;
            let agreed = results.all(|other| other == first);
            // A subnormal single may count as zero.
            let zero = first & 0x7fff == 0 || !value.is_subnormal() || mode.is_gradual();
            (agreed && zero).then_some(first)
        };
        let source = read(m, d, 1)?;
        let mut result = Vector::ZERO;
        for i in 0..size(d, 1) / 4 {
            result.set_lane(i, source.lane(i).and_then(convert));
        }
        write(m, d, 0, &result)
    })
}

/// `vcvtph2ps`.
pub(super) fn widen(half: u16, mode: FloatMode<'_>) -> f32 {
    mode.raise(half & 0x7e00 == 0x7c00 && half & 0x1ff != 0);
    to_single(half)
}

#[cfg(test)]
mod tests {
    use super::{from_single, to_single};
    use crate::exec::vector::float_mode::Rounding;

    /// Every half comes back from the single that it was made.
    #[test]
    fn halves_come_back() {
        for half in 0..=u16::MAX {
            let single = to_single(half);
            for rounding in Rounding::ALL {
                let quiet = if single.is_nan() { 0x200 } else { 0 };
                assert_eq!(from_single(single, rounding), half | quiet, "{half:#x}");
            }
        }
    }

    /// Between two halves it is rounded as told; past the greatest there is infinity.
    #[test]
    fn rounding() {
        use Rounding::{Down, Nearest, Up, Zero};
        let cases: [(f32, [(Rounding, u16); 4]); 5] = [
            (
                1.0 + 1.0 / 2048.0,
                [
                    (Nearest, 0x3c00),
                    (Down, 0x3c00),
                    (Up, 0x3c01),
                    (Zero, 0x3c00),
                ],
            ),
            (
                -1.0 - 3.0 / 2048.0,
                [
                    (Nearest, 0xbc02),
                    (Down, 0xbc02),
                    (Up, 0xbc01),
                    (Zero, 0xbc01),
                ],
            ),
            (1e-10, [(Nearest, 0), (Down, 0), (Up, 1), (Zero, 0)]),
            (
                65520.0,
                [
                    (Nearest, 0x7c00),
                    (Down, 0x7bff),
                    (Up, 0x7c00),
                    (Zero, 0x7bff),
                ],
            ),
            (
                -1e30,
                [
                    (Nearest, 0xfc00),
                    (Down, 0xfc00),
                    (Up, 0xfbff),
                    (Zero, 0xfbff),
                ],
            ),
        ];
        for (value, results) in cases {
            for (rounding, result) in results {
                assert_eq!(from_single(value, rounding), result, "{value} {rounding:?}");
            }
        }
    }
}
