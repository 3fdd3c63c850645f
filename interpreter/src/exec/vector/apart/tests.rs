//! What numbers are taken apart into, and what is certain of it.

use std::cell::Cell;

use super::{exponent, fixup, is_of_class, range, scale, significand};
use crate::exec::vector::float_mode::{FloatMode, Rounding};
use crate::exec::vector::float_ops::Float;

/// A value of MXCSR: to the nearest, all exceptions masked.
const USUAL: u32 = 0x1f80;
/// Subnormal numbers count as zero.
const FLUSHED: u32 = USUAL | 1 << 6;

/// The result, and whether an exception is raised that may not be masked.
fn with<T>(mxcsr: Option<u32>, work: impl Fn(FloatMode<'_>) -> T) -> (T, bool) {
    let raised = Cell::new(false);
    let result = work(FloatMode::of(mxcsr, &raised));
    (result, raised.get())
}

/// The result where MXCSR is the usual one.
fn usual<T>(work: impl Fn(FloatMode<'_>) -> T) -> T {
    with(Some(USUAL), work).0
}

/// Each class has its bit. A subnormal number may be of the class of zeros.
#[test]
fn classes() {
    let cases: [(f64, u8); 10] = [
        (f64::from_bits(0x7ff8 << 48), 1),
        (0.0, 2),
        (-0.0, 4),
        (f64::INFINITY, 8),
        (f64::NEG_INFINITY, 16),
        (f64::from_bits(1), 32),
        (-f64::from_bits(1), 32 | 64),
        (1.5, 0),
        (-1.5, 64),
        (f64::from_bits(0x7ff0 << 48 | 1), 128),
    ];
    for (value, classes) in cases {
        for class in 0..8 {
            let holds = classes >> class & 1 != 0;
            assert_eq!(
                is_of_class(value, 1 << class, true),
                Some(holds),
                "{value} {class}"
            );
        }
    }
    assert_eq!(is_of_class(f32::from_bits(1), 2, false), None);
    assert_eq!(is_of_class(f32::from_bits(1), 32, false), None);
    assert_eq!(is_of_class(f32::from_bits(1), 2 | 32, false), Some(true));
    assert_eq!(is_of_class(f32::from_bits(1), 8, false), Some(false));
}

/// Exponents are exact, those of subnormal numbers as well unless these may count as zero.
#[test]
fn exponents() {
    let of = |value: f32| usual(|mode| exponent(value, mode));
    assert_eq!(of(1.0), Some(0.0));
    assert_eq!(of(-0.75), Some(-1.0));
    assert_eq!(of(f32::MAX), Some(127.0));
    assert_eq!(of(f32::from_bits(1)), Some(-149.0));
    assert_eq!(of(-0.0), Some(f32::NEG_INFINITY));
    assert_eq!(of(f32::NEG_INFINITY), Some(f32::INFINITY));
    let tiny = f64::from_bits(1);
    assert_eq!(with(Some(FLUSHED), |mode| exponent(tiny, mode)).0, None);
    assert_eq!(with(None, |mode| exponent(tiny, mode)), (None, true));
    assert_eq!(with(None, |mode| exponent(6.0, mode)), (Some(2.0), false));
}

/// Significands lie in the interval that is asked for, with the sign that is asked for.
#[test]
fn significands() {
    let of = |value: f64, control| usual(|mode| significand(value, control, mode));
    assert_eq!(of(-12.0, 0), Some(-1.5));
    assert_eq!(of(12.0, 1), Some(0.75));
    assert_eq!(of(6.0, 1), Some(1.5));
    assert_eq!(of(12.0, 2), Some(0.75));
    assert_eq!(of(12.0, 3), Some(0.75));
    assert_eq!(of(10.0, 3), Some(1.25));
    assert_eq!(of(-12.0, 4), Some(1.5));
    assert_eq!(of(f64::from_bits(3), 0), Some(1.5));
    assert_eq!(of(f64::INFINITY, 2), Some(1.0));
    assert_eq!(of(-0.0, 0), Some(-1.0));
    let refused = with(None, |mode| significand(-12.0f32, 8, mode));
    assert_eq!(refused.0.map(f32::to_bits), Some(0xffc0_0000));
    assert!(refused.1);
}

/// A number is scaled by the floor of the power; where it becomes subnormal or infinite the
/// rounding decides, and has to be known.
#[test]
fn scaling() {
    let of = |value: f32, power| usual(|mode| scale(value, power, mode));
    assert_eq!(of(1.5, 3.75), Some(12.0));
    assert_eq!(of(1.5, -0.25), Some(0.75));
    assert_eq!(of(-1.5, f32::MIN), Some(-0.0));
    assert_eq!(of(1.5, 128.0), Some(f32::INFINITY));
    assert_eq!(of(1.5, -149.0), Some(f32::from_bits(2)));
    assert_eq!(of(f32::from_bits(1), 149.0), Some(1.0));
    assert_eq!(of(1.5, -f32::from_bits(1)), Some(0.75));
    assert_eq!(of(f32::NAN, f32::NEG_INFINITY), Some(0.0));
    let invalid = of(0.0, f32::INFINITY).map(f32::to_bits);
    assert_eq!(invalid, Some(0xffc0_0000));
    assert_eq!(
        with(None, |mode| scale(1.5, 1e9, mode)),
        (None::<f64>, true)
    );
    assert_eq!(
        with(None, |mode| scale(1.5, 4.0, mode)),
        (Some(24.0f64), false)
    );
    let tiny = |rounding: Rounding| usual(|mode| scale(1.0, -1e9, mode.rounded(rounding)));
    assert_eq!(tiny(Rounding::Up), Some(f64::from_bits(1)));
    assert_eq!(tiny(Rounding::Down), Some(0.0));
}

/// What remains has no more than what was asked for been taken from it.
#[test]
fn remainders() {
    let of = |value: f64, control| usual(|mode| value.reduce(control, mode));
    assert_eq!(of(2.75, 0), Some(-0.25));
    assert_eq!(of(2.75, 1), Some(0.75));
    assert_eq!(of(2.75, 0x13), Some(0.25));
    assert_eq!(of(f64::INFINITY, 0), Some(0.0));
    assert_eq!(of(3.0, 1).map(f64::to_bits), Some(1 << 63));
    assert_eq!(of(1e-300, 2), Some((-1.0f64).next_up()));
    assert_eq!(with(None, |mode| 2.75.reduce(4, mode)).0, None::<f64>);
}

/// The lesser and the greater, also of magnitudes. A quiet NaN gives way.
#[test]
fn ranges() {
    let of = |a: f32, b: f32, control| usual(|mode| range(a, b, control, mode));
    assert_eq!(of(1.0, -2.0, 4), Some(-2.0));
    assert_eq!(of(1.0, -2.0, 5), Some(1.0));
    assert_eq!(of(1.0, -2.0, 6), Some(1.0));
    assert_eq!(of(1.0, -2.0, 7), Some(-2.0));
    assert_eq!(of(1.0, -2.0, 3), Some(2.0));
    assert_eq!(of(1.0, -2.0, 15), Some(-2.0));
    assert_eq!(of(2.0, -2.0, 6), Some(-2.0));
    assert_eq!(of(-2.0, 2.0, 7), Some(2.0));
    let zero = of(0.0, -0.0, 4).map(f32::to_bits);
    assert_eq!(zero, Some(1 << 31));
    assert_eq!(of(f32::NAN, 3.0, 4), Some(3.0));
    assert_eq!(of(3.0, f32::NAN, 4), Some(3.0));
}

/// The table's entry for the class of the source is what comes, and exceptions where asked for.
#[test]
fn fixes() {
    let of = |source: f32, table| usual(|mode| fixup(Some(7.0), source, table, 0, mode));
    assert_eq!(of(1.0, 0xffff_0fff), Some(7.0));
    assert_eq!(of(0.0, 0xffff_f1ff), Some(0.0));
    assert_eq!(of(-3.0, 0xfcff_ffff), Some(90.0));
    assert_eq!(of(3.0, 0xdfff_ffff), Some(std::f32::consts::FRAC_PI_2));
    assert_eq!(of(f32::INFINITY, 0xffbf_ffff), Some(0.5));
    assert_eq!(of(f32::NAN, 0xffff_fffe), Some(f32::MAX));
    let raised = with(None, |mode| fixup(None, 0.0f64, 0x800, 1, mode));
    assert_eq!(raised, (Some(0.0), true));
}
