//! A machine word of which some bytes may be unknown.

/// Width of an integer operand, by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Width {
    /// 8 bits.
    B8 = 1,
    /// 16 bits.
    B16 = 2,
    /// 32 bits.
    B32 = 4,
    /// 64 bits.
    B64 = 8,
}

impl Width {
    /// The width of that many bytes, if an integer operand can have it.
    pub(crate) const fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            1 => Some(Self::B8),
            2 => Some(Self::B16),
            4 => Some(Self::B32),
            8 => Some(Self::B64),
            _ => None,
        }
    }

    #[inline]
    pub(crate) const fn bytes(self) -> u32 {
        self as u32
    }

    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// All bits of an operand of this width.
    #[inline]
    pub(crate) const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// The most significant bit of an operand of this width.
    #[inline]
    pub(crate) const fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// One bit per byte of an operand of this width.
    #[inline]
    const fn byte_set(self) -> u8 {
        u8::MAX >> (8 - self.bytes())
    }
}

/// A 64-bit word known at byte grain.
///
/// Bytes that are not known read as zero inside, so that equal knowledge compares equal.
///
/// An operand narrower than 64 bits is held zero-extended, its extension known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    bits: u64,
    /// Bit `i` says that byte `i` is known.
    known: u8,
}

/// Spreads one bit per byte to eight: bit `i` becomes byte `i` of all ones.
const fn expand(bytes: u8) -> u64 {
    // The product puts bit i of `bytes` at bit i of every byte; the mask keeps it in byte i alone;
    // the addition carries it to bit 7 of its byte unless it is bit 7 already.
    let spread = (bytes as u64).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
    let high = (((spread & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f) | spread)
        & 0x8080_8080_8080_8080;
    (high >> 7).wrapping_mul(0xff)
}

/// The bytes of `mask` that are all ones, one bit each.
const fn collapse(mask: u64) -> u8 {
    if mask == u64::MAX {
        return u8::MAX;
    }
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let lacking = !mask;
    // Bit 7 of a byte: something is lacking in it.
    let some = (((lacking & LOW) + LOW) | lacking) & !LOW;
    // The product gathers these bits, one apart, in the highest byte.
    !(((some >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8)
}

impl Word {
    /// A word of which nothing is known.
    pub const UNKNOWN: Self = Self { bits: 0, known: 0 };
    pub(crate) const ZERO: Self = Self::known(0);

    /// A word known in full.
    #[inline]
    pub const fn known(bits: u64) -> Self {
        Self {
            bits,
            known: u8::MAX,
        }
    }

    /// A word of which the bytes set in `known` (bit `i` is byte `i`) hold what `bits` says.
    #[inline]
    pub const fn partial(bits: u64, known: u8) -> Self {
        if known == u8::MAX {
            return Self::known(bits);
        }
        Self {
            bits: bits & expand(known),
            known,
        }
    }

    /// The low `bytes` bytes, zero-extended, if all of them are known (`bytes` is at most 8).
    #[inline]
    pub fn get(self, bytes: u32) -> Option<u64> {
        match bytes {
            0 => Some(0),
            1..=7 => {
                let set = u8::MAX >> (8 - bytes);
                (self.known & set == set).then_some(self.bits & u64::MAX >> (64 - 8 * bytes))
            }
            _ => self.all(),
        }
    }

    /// Which bytes are known: bit `i` is byte `i`.
    #[inline]
    pub const fn known_bytes(self) -> u8 {
        self.known
    }

    /// The known bytes in their places, zero elsewhere.
    #[inline]
    pub const fn known_bits(self) -> u64 {
        self.bits
    }

    /// The whole word, if known.
    #[inline]
    pub(crate) fn all(self) -> Option<u64> {
        (self.known == u8::MAX).then_some(self.bits)
    }

    /// All ones in every known byte.
    pub(crate) const fn mask(self) -> u64 {
        if self.known == u8::MAX {
            return u64::MAX;
        }
        expand(self.known)
    }

    /// A word of `bits` where all ones in `mask` say what is known; a byte of which one bit is
    /// unknown is unknown.
    #[inline]
    pub(crate) const fn masked(bits: u64, mask: u64) -> Self {
        Self::partial(bits, collapse(mask))
    }

    /// `Some` is a known operand of that width, `None` an unknown one.
    pub(crate) fn of(width: Width, value: Option<u64>) -> Self {
        match value {
            Some(bits) => Self::known(bits & width.mask()),
            None => Self::unknown(width),
        }
    }

    /// An unknown operand: its extension is known to be zero.
    #[inline]
    pub(crate) const fn unknown(width: Width) -> Self {
        Self {
            bits: 0,
            known: !width.byte_set(),
        }
    }

    /// The low part as an operand of that width.
    #[inline]
    pub(crate) const fn truncate(self, width: Width) -> Self {
        Self {
            bits: self.bits & width.mask(),
            known: self.known | !width.byte_set(),
        }
    }

    /// An operand of width `from`, sign-extended to width `to`.
    pub(crate) fn sign_extend(self, from: Width, to: Width) -> Self {
        let low = from.byte_set();
        let top_known = self.known & low & !(low >> 1) != 0;
        let extension = if self.bits & from.sign() != 0 {
            !from.mask()
        } else {
            0
        };
        let known = if top_known {
            self.known | !low
        } else {
            self.known & low
        };
        Self {
            bits: self.bits & from.mask() | if top_known { extension } else { 0 },
            known,
        }
        .truncate(to)
    }

    /// This word with its low `width` replaced by those of `low`.
    #[inline]
    pub(crate) const fn with_low(self, width: Width, low: Self) -> Self {
        let set = width.byte_set();
        Self {
            bits: self.bits & !width.mask() | low.bits & width.mask(),
            known: self.known & !set | low.known & set,
        }
    }

    /// Byte 1 (`ah` of `rax`) as an 8-bit operand.
    pub(crate) const fn high_byte(self) -> Self {
        Self {
            bits: self.bits >> 8,
            known: self.known >> 1,
        }
        .truncate(Width::B8)
    }

    /// This word with byte 1 replaced by the low byte of `byte`.
    pub(crate) const fn with_high_byte(self, byte: Self) -> Self {
        Self {
            bits: self.bits & !0xff00 | (byte.bits & 0xff) << 8,
            known: self.known & !2 | (byte.known & 1) << 1,
        }
    }

    /// This word moved up by that many bytes (fewer than 8), as the bytes of memory lie.
    pub(crate) const fn shifted_up(self, bytes: u32) -> Self {
        Self {
            bits: self.bits << (8 * bytes),
            known: self.known << bytes,
        }
    }

    /// This word moved down by that many bytes; nothing is known of the bytes that come in.
    pub(crate) const fn shifted_down(self, bytes: u32) -> Self {
        if bytes >= 8 {
            return Self::UNKNOWN;
        }
        Self {
            bits: self.bits >> (8 * bytes),
            known: self.known >> bytes,
        }
    }

    /// This word with the bytes of `set` replaced by those of `other`.
    pub(crate) const fn with_bytes(self, set: u8, other: Self) -> Self {
        if set == u8::MAX {
            return other;
        }
        self.with_masked(set, expand(set), other)
    }

    /// This word with the bytes of `set` replaced by those of `other`; `mask` is all ones in these
    /// bytes.
    #[inline]
    pub(crate) const fn with_masked(self, set: u8, mask: u64, other: Self) -> Self {
        Self {
            bits: self.bits & !mask | other.bits & mask,
            known: self.known & !set | other.known & set,
        }
    }

    /// What is known when the word may be either: the bytes in which both agree.
    pub(crate) const fn either(self, other: Self) -> Self {
        let same = collapse(!(self.bits ^ other.bits));
        Self::partial(self.bits, self.known & other.known & same)
    }

    /// This word, but its upper half may also be that of `other`.
    pub(crate) const fn either_upper(self, other: Self) -> Self {
        self.either(other).with_low(Width::B32, self)
    }

    /// An operand's bytes in the opposite order.
    pub(crate) const fn swap_bytes(self, width: Width) -> Self {
        let unused = 64 - width.bits();
        let bits = self.bits.swap_bytes() >> unused;
        let known = (self.known.reverse_bits() as u32) >> (unused / 8);
        Self {
            bits,
            known: known as u8,
        }
        .truncate(width)
    }

    /// The sign of an operand in every bit.
    pub(crate) fn fill_sign(self, width: Width) -> Self {
        Self::of(
            width,
            self.bit(width.bits() - 1)
                .map(|sign| if sign { u64::MAX } else { 0 }),
        )
    }

    /// How many low bytes are known without a gap.
    pub(crate) const fn prefix(self) -> u32 {
        self.known.trailing_ones()
    }

    /// A word of which the low `bytes` bytes are known.
    #[inline]
    pub(crate) fn low_known(bits: u64, bytes: u32) -> Self {
        if bytes >= 8 {
            return Self::known(bits);
        }
        Self {
            bits: bits & ((1 << (8 * bytes)) - 1),
            known: (1 << bytes) - 1,
        }
    }

    /// This word moved up by `scale` bits (at most 3), as an index is: a prefix of known bytes
    /// stays known.
    pub(crate) fn scaled_up(self, scale: u8) -> Self {
        Self::low_known(self.known_bits() << (scale & 3), self.prefix())
    }

    /// Bit `index` (below 64), if its byte is known.
    #[inline]
    pub(crate) fn bit(self, index: u32) -> Option<bool> {
        (self.known >> (index / 8) & 1 != 0).then_some(self.bits >> index & 1 != 0)
    }

    /// The sum modulo 2^64: the low bytes below the first unknown one are known.
    #[inline]
    pub(crate) fn wrapping_add(self, other: Self) -> Self {
        Self::low_known(
            self.bits.wrapping_add(other.bits),
            self.prefix().min(other.prefix()),
        )
    }

    /// Whether the word is zero: a known byte that is not zero settles it.
    #[inline]
    pub(crate) fn is_zero(self) -> Option<bool> {
        if self.bits != 0 {
            Some(false)
        } else {
            self.all().map(|bits| bits == 0)
        }
    }

    /// Whether both words are equal: a byte known in both that differs settles it.
    pub(crate) fn equals(self, other: Self) -> Option<bool> {
        if (self.bits ^ other.bits) & self.mask() & other.mask() != 0 {
            return Some(false);
        }
        self.all().zip(other.all()).map(|(a, b)| a == b)
    }

    /// Whether this word is the smaller one, unsigned: bytes are compared from the top down while
    /// both are known.
    pub(crate) fn below(self, other: Self) -> Option<bool> {
        if let Some((a, b)) = self.all().zip(other.all()) {
            return Some(a < b);
        }
        for shift in (0..8).rev() {
            if self.known & other.known & 1 << shift == 0 {
                return None;
            }
            let (a, b) = (
                (self.bits >> (8 * shift)) as u8,
                (other.bits >> (8 * shift)) as u8,
            );
            if a != b {
                return Some(a < b);
            }
        }
        Some(false)
    }
}

impl std::ops::BitAnd for Word {
    type Output = Self;

    /// A known zero bit decides, whatever the other operand.
    #[inline]
    fn bitand(self, other: Self) -> Self {
        if self.known & other.known == u8::MAX {
            return Self::known(self.bits & other.bits);
        }
        let (a, b) = (self.mask(), other.mask());
        Self::masked(
            self.bits & other.bits,
            a & b | a & !self.bits | b & !other.bits,
        )
    }
}

impl std::ops::BitOr for Word {
    type Output = Self;

    /// A known one bit decides, whatever the other operand.
    #[inline]
    fn bitor(self, other: Self) -> Self {
        if self.known & other.known == u8::MAX {
            return Self::known(self.bits | other.bits);
        }
        let (a, b) = (self.mask(), other.mask());
        Self::masked(self.bits | other.bits, a & b | self.bits | other.bits)
    }
}

impl std::ops::BitXor for Word {
    type Output = Self;

    #[inline]
    fn bitxor(self, other: Self) -> Self {
        Self::partial(self.bits ^ other.bits, self.known & other.known)
    }
}

impl std::ops::Not for Word {
    type Output = Self;

    fn not(self) -> Self {
        Self::partial(!self.bits, self.known)
    }
}
