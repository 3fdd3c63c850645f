//! Numbers that are the upper half of a single (bfloat16).
//!
//! No mode has a say: results are rounded to the nearest, subnormal numbers count as zero and
//! become it, and no exception is raised.

use iced_x86::{MemorySize, Mnemonic};

use super::{Done, binary, read, size, write};
use crate::decode::{Decoded, Handler};
use crate::machine::Machine;
use crate::vector::Vector;

/// The upper half of a single, rounded. A NaN becomes a quiet one.
fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let upper = (bits >> 16) as u16;
    if value.is_nan() {
        upper | 0x40
    } else if value.is_subnormal() {
        upper & 0x8000
    } else {
        // Half a unit, or just less if the unit is even; past the greatest number is infinity.
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }
}

/// `vcvtneps2bf16`.
fn narrow_one(m: &mut Machine<'_>, d: &Decoded) -> Done {
    use MemorySize as S;
    let source = read(m, d, 1)?;
    let lanes = match d.instruction().memory_size() {
        S::Packed128_Float32 | S::Broadcast128_Float32 => 4,
        S::Packed256_Float32 | S::Broadcast256_Float32 => 8,
        _ => size(d, 0) / 2,
    };
    let mut result = Vector::ZERO;
    for i in 0..lanes {
        result.set_lane(i, source.lane(i).map(narrow));
    }
    write(m, d, 0, &result)
}

/// `vcvtne2ps2bf16`: the second source below the first.
fn narrow_two(m: &mut Machine<'_>, d: &Decoded) -> Done {
    binary(m, d, |a, b, bytes| {
        let mut result = Vector::ZERO;
        let half = bytes / 4;
        for i in 0..half {
            result.set_lane(i, b.lane(i).map(narrow));
            result.set_lane(half + i, a.lane(i).map(narrow));
        }
        result
    })
}

pub(super) fn handler(mnemonic: Mnemonic) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match mnemonic {
        M::Vcvtneps2bf16 => narrow_one,
        M::Vcvtne2ps2bf16 => narrow_two,
        M::Vdpbf16ps => dot,
        _ => return None,
    };
    Some(handler)
}

/// `vdpbf16ps`: products of neighbours added to a single, the upper one first.
fn dot(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let (sums, a, b) = (read(m, d, 0)?, read(m, d, 1)?, read(m, d, 2)?);
    let mut result = Vector::ZERO;
    for i in 0..size(d, 0) / 4 {
        let product = |sum: f32, k: usize| {
            let (a, b) = a.lane(2 * i + k).zip(b.lane(2 * i + k))?;
            let (a, b, sum) = (widen(a), widen(b), flush(sum));
            // A product has no more bits than a single, but may be too small or too great for one.
            let fused = flush(a.mul_add(b, sum));
            let apart = flush(flush(a * b) + sum);
            let certain = fused == apart && fused.abs() != f32::MIN_POSITIVE;
            certain.then_some(fused)
        };
        let sum = sums.lane(i).and_then(|sum| product(product(sum, 1)?, 0));
        result.set_lane(i, sum);
    }
    write(m, d, 0, &result)
}

fn widen(upper: u16) -> f32 {
    flush(f32::from_bits(u32::from(upper) << 16))
}

/// Zero for a subnormal number.
fn flush(value: f32) -> f32 {
    if value.is_subnormal() {
        0f32.copysign(value)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::narrow;

    /// Singles are rounded to the nearest, ties to even; subnormal ones become zero.
    #[test]
    fn rounding() {
        let of = |bits| narrow(f32::from_bits(bits));
        assert_eq!(of(0x3f80_8000), 0x3f80);
        assert_eq!(of(0x3f81_8000), 0x3f82);
        assert_eq!(of(0x3f80_8001), 0x3f81);
        assert_eq!(of(0xff7f_ffff), 0xff80);
        assert_eq!(of(0x807f_ffff), 0x8000);
        assert_eq!(of(0x7f80_0001), 0x7fc0);
    }
}
