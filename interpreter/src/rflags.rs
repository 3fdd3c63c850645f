//! The flags, each known or unknown, and all arithmetic that yields flags.
//!
//! Operations that leave a flag undefined make it unknown: processors differ there.

mod shifts;

use iced_x86::ConditionCode;

use crate::condition::{CONDITIONS, Condition};
pub use crate::flag::Flag;
use crate::word::{Width, Word};

pub(crate) use self::shifts::rotate;

impl Flag {
    /// Every flag that is kept.
    pub const ALL: [Self; 7] = [
        Self::Cf,
        Self::Pf,
        Self::Af,
        Self::Zf,
        Self::Sf,
        Self::Df,
        Self::Of,
    ];
}

/// The flags that programs compute with (CF PF AF ZF SF DF OF), each known or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// Known flags at their places in RFLAGS; unknown ones are zero.
    bits: u64,
    known: u64,
}

impl Flags {
    /// All flags unknown.
    pub const UNKNOWN: Self = Self { bits: 0, known: 0 };

    /// All flags as in a value of RFLAGS.
    pub const fn from_rflags(rflags: u64) -> Self {
        let known = Flag::Cf as u64
            | Flag::Pf as u64
            | Flag::Af as u64
            | Flag::Zf as u64
            | Flag::Sf as u64
            | Flag::Df as u64
            | Flag::Of as u64;
        Self {
            bits: rflags & known,
            known,
        }
    }

    /// A flag, if known.
    #[inline]
    pub fn get(self, flag: Flag) -> Option<bool> {
        let bit = flag as u64;
        (self.known & bit != 0).then_some(self.bits & bit != 0)
    }

    /// Sets a flag; `None` makes it unknown.
    #[inline]
    pub fn set(&mut self, flag: Flag, value: Option<bool>) {
        let bit = flag as u64;
        self.bits = if value == Some(true) {
            self.bits | bit
        } else {
            self.bits & !bit
        };
        self.known = if value.is_some() {
            self.known | bit
        } else {
            self.known & !bit
        };
    }

    /// Makes flags unknown.
    #[inline]
    pub(crate) fn forget(&mut self, flags: &[Flag]) {
        let set = flags.iter().fold(0, |set, flag| set | *flag as u64);
        self.bits &= !set;
        self.known &= !set;
    }

    /// The low byte of RFLAGS as `lahf` and `pushf` see it: known if all its flags are.
    pub(crate) fn low_byte(self) -> Word {
        const STATUS: u64 = 0b1101_0101;
        let known = u8::from(self.known & STATUS == STATUS);
        Word::partial(self.bits & STATUS | 2, known).truncate(Width::B8)
    }

    /// Sets SF ZF AF PF CF from a byte (`sahf`, `popf`).
    pub(crate) fn set_low_byte(&mut self, byte: Word) {
        for flag in [Flag::Cf, Flag::Pf, Flag::Af, Flag::Zf, Flag::Sf] {
            self.set(flag, byte.bit((flag as u64).trailing_zeros()));
        }
    }

    /// Whether a condition holds; combinations use what decides them.
    #[inline]
    pub(crate) fn condition(self, condition: ConditionCode) -> Option<bool> {
        let Condition { needs, holds } = CONDITIONS[condition as usize];
        if self.known & needs != needs {
            return self.partial_condition(condition);
        }
        // CF, PF, ZF, SF and OF side by side.
        let state = self.bits & 1 | self.bits >> 1 & 2 | self.bits >> 4 & 12 | self.bits >> 7 & 16;
        Some(holds >> state & 1 != 0)
    }

    /// Whether a condition holds where not all of its flags are known.
    #[inline(never)]
    pub(crate) fn partial_condition(self, condition: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let flag = |flag| self.get(flag);
        let or = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let less = || flag(Flag::Sf).zip(flag(Flag::Of)).map(|(s, o)| s != o);
        let not = |value: Option<bool>| value.map(|v| !v);
        match condition {
            C::None => None,
            C::o => flag(Flag::Of),
            C::no => not(flag(Flag::Of)),
            C::b => flag(Flag::Cf),
            C::ae => not(flag(Flag::Cf)),
            C::e => flag(Flag::Zf),
            C::ne => not(flag(Flag::Zf)),
            C::be => or(flag(Flag::Cf), flag(Flag::Zf)),
            C::a => not(or(flag(Flag::Cf), flag(Flag::Zf))),
            C::s => flag(Flag::Sf),
            C::ns => not(flag(Flag::Sf)),
            C::p => flag(Flag::Pf),
            C::np => not(flag(Flag::Pf)),
            C::l => less(),
            C::ge => not(less()),
            C::le => or(flag(Flag::Zf), less()),
            C::g => not(or(flag(Flag::Zf), less())),
        }
    }

    /// Sets the flags of `which`, all known, as they are in `bits`.
    #[inline]
    fn set_known(&mut self, which: u64, bits: u64) {
        self.bits = self.bits & !which | bits & which;
        self.known |= which;
    }

    /// SF, ZF and PF of a result.
    #[inline]
    pub(crate) fn set_result(&mut self, width: Width, result: Word) {
        match result.all() {
            Some(result) => self.set_known(RESULT, result_bits(width, result)),
            None => self.set_partial_result(width, result),
        }
    }

    /// Sets the flags of a result that is not known in full.
    #[inline(never)]
    fn set_partial_result(&mut self, width: Width, result: Word) {
        self.set(Flag::Zf, result.is_zero());
        self.set(Flag::Sf, result.bit(width.bits() - 1));
        self.set(Flag::Pf, result.get(1).map(|low| low.count_ones() % 2 == 0));
    }

    /// `a + b + carry`.
    #[inline]
    pub(crate) fn add(&mut self, width: Width, a: Word, b: Word, carry: Option<bool>) -> Word {
        if let (Some(x), Some(y), Some(carry)) = (a.all(), b.all(), carry) {
            let (sum, first) = x.overflowing_add(y);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            let carry = first | second | (sum & !width.mask() != 0);
            let overflow = (x ^ sum) & (y ^ sum) & width.sign() != 0;
            return self.sum(width, x ^ y ^ sum, sum & width.mask(), carry, overflow);
        }
        self.add_partial(width, a, b, carry)
    }

    /// Adds operands that are not all known in full.
    #[inline(never)]
    fn add_partial(&mut self, width: Width, a: Word, b: Word, carry: Option<bool>) -> Word {
        let known = if carry.is_some() {
            a.prefix().min(b.prefix())
        } else {
            0
        };
        let wide = u128::from(a.known_bits())
            + u128::from(b.known_bits())
            + u128::from(carry == Some(true));
        // Truncation to 64 bits is what the processor does; the carry is taken from `wide`.
        let result = Word::low_known(wide as u64, known).truncate(width);
        let complete = known == 8;
        let (x, y, r) = (a.known_bits(), b.known_bits(), result.known_bits());
        self.set_result(width, result);
        self.set(Flag::Af, (known > 0).then_some((x ^ y ^ r) & 0x10 != 0));
        self.set(Flag::Cf, complete.then_some(wide >> width.bits() != 0));
        self.set(
            Flag::Of,
            complete.then_some((x ^ r) & (y ^ r) & width.sign() != 0),
        );
        result
    }

    /// All flags of a known sum or difference; `half` has in bit 4 the carry out of bit 3.
    #[inline]
    fn sum(&mut self, width: Width, half: u64, result: u64, carry: bool, overflow: bool) -> Word {
        let bits = result_bits(width, result)
            | half & Flag::Af as u64
            | if carry { Flag::Cf as u64 } else { 0 }
            | if overflow { Flag::Of as u64 } else { 0 };
        self.set_known(
            RESULT | Flag::Af as u64 | Flag::Cf as u64 | Flag::Of as u64,
            bits,
        );
        Word::known(result)
    }

    /// `a - b - borrow`.
    #[inline]
    pub(crate) fn sub(&mut self, width: Width, a: Word, b: Word, borrow: Option<bool>) -> Word {
        if let (Some(x), Some(y), Some(borrow)) = (a.all(), b.all(), borrow) {
            let (difference, first) = x.overflowing_sub(y);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            let result = difference & width.mask();
            let overflow = (x ^ y) & (x ^ result) & width.sign() != 0;
            return self.sum(width, x ^ y ^ result, result, first | second, overflow);
        }
        self.sub_partial(width, a, b, borrow)
    }

    /// Subtracts operands that are not all known in full.
    #[inline(never)]
    fn sub_partial(&mut self, width: Width, a: Word, b: Word, borrow: Option<bool>) -> Word {
        let known = if borrow.is_some() {
            a.prefix().min(b.prefix())
        } else {
            0
        };
        let (x, y) = (a.known_bits(), b.known_bits());
        let difference = x
            .wrapping_sub(y)
            .wrapping_sub(u64::from(borrow == Some(true)));
        let result = Word::low_known(difference, known).truncate(width);
        let complete = known == 8;
        let r = result.known_bits();
        self.set_result(width, result);
        self.set(Flag::Af, (known > 0).then_some((x ^ y ^ r) & 0x10 != 0));
        self.set(
            Flag::Of,
            complete.then_some((x ^ y) & (x ^ r) & width.sign() != 0),
        );
        if borrow == Some(false) {
            // A comparison may be decided by less than all bytes.
            self.set(Flag::Zf, a.equals(b));
            self.set(Flag::Cf, a.below(b));
        } else {
            let wide = u128::from(y) + u128::from(borrow == Some(true));
            self.set(Flag::Cf, complete.then_some(u128::from(x) < wide));
        }
        result
    }

    /// `a + 1`: the carry stays.
    pub(crate) fn inc(&mut self, width: Width, a: Word) -> Word {
        let carry = self.get(Flag::Cf);
        let result = self.add(width, a, Word::known(1), Some(false));
        self.set(Flag::Cf, carry);
        result
    }

    /// `a - 1`: the carry stays.
    pub(crate) fn dec(&mut self, width: Width, a: Word) -> Word {
        let carry = self.get(Flag::Cf);
        let result = self.sub(width, a, Word::known(1), Some(false));
        self.set(Flag::Cf, carry);
        result
    }

    /// `0 - a`.
    pub(crate) fn neg(&mut self, width: Width, a: Word) -> Word {
        let result = self.sub(width, Word::ZERO, a, Some(false));
        self.set(Flag::Cf, a.is_zero().map(|zero| !zero));
        result
    }

    /// Flags of `and`, `or`, `xor`, `test`.
    #[inline]
    pub(crate) fn logic(&mut self, width: Width, result: Word) {
        self.set_result(width, result);
        self.set_known(Flag::Cf as u64 | Flag::Of as u64, 0);
        self.forget(&[Flag::Af]);
    }

    /// Flags of the bit-manipulation instructions that define SF, ZF, CF and OF = 0 only.
    pub(crate) fn bit_result(&mut self, width: Width, result: Word, carry: Option<bool>) {
        self.set_result(width, result);
        self.set(Flag::Cf, carry);
        self.set(Flag::Of, Some(false));
        self.forget(&[Flag::Af, Flag::Pf]);
    }

    /// Flags of a multiplication: CF = OF = the result does not fit, the rest is undefined.
    pub(crate) fn multiply(&mut self, overflow: Option<bool>) {
        self.set(Flag::Cf, overflow);
        self.set(Flag::Of, overflow);
        self.forget(&[Flag::Sf, Flag::Zf, Flag::Af, Flag::Pf]);
    }

    /// Flags after an instruction that leaves all arithmetic flags undefined.
    pub(crate) fn forget_arithmetic(&mut self) {
        self.forget(&[Flag::Cf, Flag::Pf, Flag::Af, Flag::Zf, Flag::Sf, Flag::Of]);
    }
}

/// The flags that a result says.
const RESULT: u64 = Flag::Zf as u64 | Flag::Sf as u64 | Flag::Pf as u64;

/// SF, ZF and PF of a known result.
#[inline]
fn result_bits(width: Width, result: u64) -> u64 {
    let zero = if result == 0 { Flag::Zf as u64 } else { 0 };
    let sign = if result & width.sign() != 0 {
        Flag::Sf as u64
    } else {
        0
    };
    // Bit n of the constant: n has an even number of ones.
    let nibble = (result ^ result >> 4) & 15;
    zero | sign | (0x9669 >> nibble & 1) << 2
}
