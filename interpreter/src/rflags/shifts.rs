//! Shifts and rotations, and their flags.

use super::{Flag, Flags};
use crate::word::{Width, Word};

impl Flags {
    /// `a << count`, count already masked.
    #[inline]
    pub(crate) fn shl(&mut self, width: Width, a: Word, count: u32) -> Word {
        if count == 0 {
            return a;
        }
        let filled = (1u64 << count) - 1;
        let result =
            Word::masked(a.known_bits() << count, a.mask() << count | filled).truncate(width);
        let carry = if count < width.bits() {
            a.bit(width.bits() - count)
        } else {
            None
        };
        let sign = result.bit(width.bits() - 1);
        self.shifted(
            width,
            result,
            carry,
            if count == 1 {
                differ(sign, carry)
            } else {
                None
            },
        );
        result
    }

    /// `a >> count`, count already masked.
    #[inline]
    pub(crate) fn shr(&mut self, width: Width, a: Word, count: u32) -> Word {
        if count == 0 {
            return a;
        }
        let result = Word::masked(
            a.known_bits() >> count,
            a.mask() >> count | !(u64::MAX >> count),
        );
        let carry = if count < width.bits() {
            a.bit(count - 1)
        } else {
            None
        };
        let overflow = if count == 1 {
            a.bit(width.bits() - 1)
        } else {
            None
        };
        self.shifted(width, result, carry, overflow);
        result
    }

    /// `a >> count` with the sign shifted in, count already masked.
    #[inline]
    pub(crate) fn sar(&mut self, width: Width, a: Word, count: u32) -> Word {
        if count == 0 {
            return a;
        }
        let wide = a.sign_extend(width, Width::B64);
        // An unknown sign makes the bits that it fills unknown: shift the mask with its sign too.
        let mask = (wide.mask() as i64 >> count) as u64;
        let result = Word::masked((wide.known_bits() as i64 >> count) as u64, mask).truncate(width);
        let carry = wide.bit(count - 1);
        self.shifted(width, result, carry, (count == 1).then_some(false));
        result
    }

    /// Flags of a shift by at least one.
    #[inline]
    fn shifted(&mut self, width: Width, result: Word, carry: Option<bool>, over: Option<bool>) {
        self.set_result(width, result);
        self.set(Flag::Cf, carry);
        self.set(Flag::Of, over);
        self.set(Flag::Af, None);
    }

    /// `a` rotated left; `count` is masked but not yet reduced to the width.
    pub(crate) fn rol(&mut self, width: Width, a: Word, count: u32) -> Word {
        if count == 0 {
            return a;
        }
        let result = rotate(width, a, count % width.bits());
        let carry = result.bit(0);
        let sign = result.bit(width.bits() - 1);
        self.set(Flag::Cf, carry);
        self.set(
            Flag::Of,
            if count == 1 {
                differ(sign, carry)
            } else {
                None
            },
        );
        result
    }

    /// `a` rotated right; `count` is masked but not yet reduced to the width.
    pub(crate) fn ror(&mut self, width: Width, a: Word, count: u32) -> Word {
        if count == 0 {
            return a;
        }
        let bits = width.bits();
        let result = rotate(width, a, (bits - count % bits) % bits);
        let sign = result.bit(bits - 1);
        self.set(Flag::Cf, sign);
        let next = result.bit(bits - 2);
        self.set(Flag::Of, if count == 1 { differ(sign, next) } else { None });
        result
    }

    /// `a` rotated left through the carry; `count` is masked but not yet reduced.
    pub(crate) fn rcl(&mut self, width: Width, a: Word, count: u32) -> Word {
        self.rotate_carry(width, a, count, true)
    }

    /// `a` rotated right through the carry; `count` is masked but not yet reduced.
    pub(crate) fn rcr(&mut self, width: Width, a: Word, count: u32) -> Word {
        self.rotate_carry(width, a, count, false)
    }

    fn rotate_carry(&mut self, width: Width, a: Word, count: u32, left: bool) -> Word {
        if count == 0 {
            return a;
        }
        let bits = width.bits();
        let places = count % (bits + 1);
        if places == 0 {
            self.set(Flag::Of, None);
            return a;
        }
        let (Some(value), Some(carry)) = (a.all(), self.get(Flag::Cf)) else {
            self.forget(&[Flag::Cf, Flag::Of]);
            return Word::unknown(width);
        };
        let ring = u128::from(value) | u128::from(carry) << bits;
        let places = if left { places } else { bits + 1 - places };
        let turned = ring << places | ring >> (bits + 1 - places);
        let result = turned as u64 & width.mask();
        let carry_out = turned >> bits & 1 != 0;
        let sign = result & width.sign() != 0;
        let overflow = if left {
            sign != carry_out
        } else {
            (value & width.sign() != 0) != carry
        };
        self.set(Flag::Cf, Some(carry_out));
        self.set(Flag::Of, (count == 1).then_some(overflow));
        Word::known(result)
    }

    /// `a << count` filled from the top of `fill` (`shld`), count already masked.
    pub(crate) fn shld(&mut self, width: Width, a: Word, fill: Word, count: u32) -> Word {
        self.shift_double(width, a, fill, count, true)
    }

    /// `a >> count` filled from the bottom of `fill` (`shrd`), count already masked.
    pub(crate) fn shrd(&mut self, width: Width, a: Word, fill: Word, count: u32) -> Word {
        self.shift_double(width, a, fill, count, false)
    }

    fn shift_double(&mut self, width: Width, a: Word, fill: Word, count: u32, left: bool) -> Word {
        if count == 0 {
            return a;
        }
        let bits = width.bits();
        // Only 16-bit operands can be shifted further than they are wide: undefined.
        if count > bits {
            self.forget_arithmetic();
            return Word::unknown(width);
        }
        let shift = |x: u64, y: u64| {
            let joined = |low: u64, high: u64| u128::from(low) | u128::from(high) << bits;
            let out = if left {
                joined(y, x) >> (bits - count)
            } else {
                joined(x, y) >> count
            };
            out as u64 & width.mask()
        };
        let mask = shift(a.mask() & width.mask(), fill.mask() & width.mask());
        let result = Word::masked(
            shift(a.known_bits(), fill.known_bits()),
            mask | !width.mask(),
        );
        let carry = if left {
            a.bit(bits - count)
        } else {
            a.bit(count - 1)
        };
        let sign = bits - 1;
        let overflow = if count == 1 {
            differ(a.bit(sign), result.bit(sign))
        } else {
            None
        };
        self.shifted(width, result, carry, overflow);
        result
    }
}

/// Whether two flags differ, if both are known.
fn differ(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    a.zip(b).map(|(a, b)| a != b)
}

/// An operand rotated left by `places`, fewer than its width.
pub(crate) fn rotate(width: Width, a: Word, places: u32) -> Word {
    if places == 0 {
        return a;
    }
    let turn = |x: u64| {
        let x = x & width.mask();
        (x << places | x >> (width.bits() - places)) & width.mask()
    };
    Word::masked(turn(a.known_bits()), turn(a.mask()) | !width.mask())
}
