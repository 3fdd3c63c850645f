//! Which results are certain, and what they are.

use super::{Float, FloatMode, Rounding};

const UNKNOWN: FloatMode<'_> = FloatMode::unknown();
const DEFAULT: FloatMode<'_> = FloatMode::unknown().assumed();

/// Without the rounding mode only exact results are certain.
#[test]
fn inexact_results_need_the_mode() {
    assert_eq!(Float::add(0.5, 0.25, UNKNOWN), Some(0.75));
    assert_eq!(Float::add(0.1, 0.2, UNKNOWN), None::<f64>);
    assert_eq!(Float::add(0.1, 0.2, DEFAULT), Some(0.1f64 + 0.2));
    assert_eq!(Float::multiply(3.0f32, 7.0, UNKNOWN), Some(21.0));
    assert_eq!(Float::multiply(0.1f64, 0.1, UNKNOWN), None);
    assert_eq!(Float::divide(21.0f64, 4.0, UNKNOWN), Some(5.25));
    assert_eq!(Float::divide(1.0f64, 3.0, UNKNOWN), None);
    assert_eq!(Float::divide(1.0f64, 0.0, UNKNOWN), None);
    assert_eq!(Float::square_root(6.25f32, UNKNOWN), Some(2.5));
    assert_eq!(Float::square_root(2.0f64, UNKNOWN), None);
    assert_eq!(Float::square_root(-4.0f64, UNKNOWN), None);
    assert_eq!(Float::multiply_add(2.0, 3.0, 0.5, UNKNOWN), Some(6.5f64));
}

/// Known roundings settle inexact results, even if small numbers may count as zero.
#[test]
fn directed_rounding() {
    let mode = |rounding| UNKNOWN.rounded(rounding);
    let third = 1.0f64 / 3.0;
    for (rounding, [down, up]) in [
        (Rounding::Nearest, [third, -third]),
        (Rounding::Down, [third, (-third).next_down()]),
        (Rounding::Up, [third.next_up(), -third]),
        (Rounding::Zero, [third, -third]),
    ] {
        assert_eq!(
            Float::divide(1.0, 3.0, mode(rounding)),
            Some(down),
            "{rounding:?}"
        );
        assert_eq!(
            Float::divide(1.0, -3.0, mode(rounding)),
            Some(up),
            "{rounding:?}"
        );
    }
    let (up, zero) = (mode(Rounding::Up), mode(Rounding::Zero));
    assert_eq!(Float::add(1.0f64, 1e-30, up), Some(1.0f64.next_up()));
    assert_eq!(Float::add(1.0f64, -1e-30, zero), Some(1.0f64.next_down()));
    assert_eq!(f32::from_integer(0x100_0001, up), Some(16_777_218.0));
    assert_eq!(f32::from_integer(-0x100_0003, zero), Some(-16_777_218.0));
    assert_eq!(
        (-2.5f64).to_integer(32, false, mode(Rounding::Down)),
        Some(-3)
    );
    assert_eq!(Float::round(2.5f32, 4, zero), Some(2.0));
    assert_eq!(<f32 as Float>::narrow(0.1, zero), Some(0.1f32.next_down()));
    // What may count as zero is not rounded away from it.
    assert_eq!(f64::from_bits(1).to_integer(32, false, up), None);
    assert_eq!(f64::from_bits(1).to_integer(32, false, zero), Some(0));
    assert_eq!(<f32 as Float>::narrow(1e-300, up), None);
    let gradual = DEFAULT.rounded(Rounding::Up);
    assert_eq!(
        <f32 as Float>::narrow(1e-300, gradual),
        Some(f32::from_bits(1))
    );
    let negative = Float::add(1.5f64, -1.5, mode(Rounding::Down)).map(f64::to_bits);
    assert_eq!(negative, Some(1 << 63));
}

/// The sign of a sum that is zero depends on the rounding, that of a product does not.
#[test]
fn zeros_have_their_signs() {
    assert_eq!(Float::add(1.5f64, -1.5, UNKNOWN), None);
    assert_eq!(Float::add(0.0f64, -0.0, UNKNOWN), None);
    let bits = |value: Option<f64>| value.map(f64::to_bits);
    assert_eq!(bits(Float::add(-0.0, -0.0, UNKNOWN)), Some(1 << 63));
    assert_eq!(bits(Float::multiply(-0.0, 3.0, UNKNOWN)), Some(1 << 63));
    assert_eq!(bits(Float::round(-0.25, 0, UNKNOWN)), Some(1 << 63));
}

/// Nothing is certain of subnormal numbers that may count as zero.
#[test]
fn subnormal_numbers_need_the_mode() {
    let tiny = f64::from_bits(1);
    assert_eq!(tiny.compare(0.0, false, UNKNOWN), None);
    assert_eq!(
        tiny.compare(0.0, false, DEFAULT)
            .flatten()
            .map(|o| o.is_gt()),
        Some(true)
    );
    assert_eq!(
        tiny.compare(1.0, false, UNKNOWN)
            .flatten()
            .map(|o| o.is_lt()),
        Some(true)
    );
    assert_eq!(tiny.lesser(1.0, UNKNOWN), None);
    assert_eq!(Float::add(tiny, tiny, UNKNOWN), None);
    assert_eq!(Float::multiply(1e-60, 1e-60, UNKNOWN), None::<f64>);
    assert_eq!(<f32 as Float>::narrow(1e-40, UNKNOWN), None);
    assert_eq!(f32::from_bits(1).widen(UNKNOWN), None);
}

/// Conversions to integers cut off, and yield the least integer for what does not fit.
#[test]
fn integers() {
    assert_eq!((-2.75f64).to_integer(32, true, UNKNOWN), Some(-2));
    assert_eq!((-2.75f64).to_integer(32, false, UNKNOWN), None);
    assert_eq!((2.5f64).to_integer(32, false, DEFAULT), Some(2));
    assert_eq!(
        (2147483648.0f64).to_integer(32, true, UNKNOWN),
        Some(-2147483648)
    );
    assert_eq!(f32::NAN.to_integer(64, false, UNKNOWN), Some(i64::MIN));
    assert_eq!(
        (1u64 << 62) as i64,
        2f64.powi(62).to_integer(64, true, UNKNOWN).unwrap()
    );
    assert_eq!(f32::from_integer(0x100_0001, UNKNOWN), None);
    assert_eq!(f64::from_integer(0x100_0001, UNKNOWN), Some(16777217.0));
    assert_eq!(f64::from_integer(i64::MAX.into(), UNKNOWN), None);
}
