//! A vector register of which some bytes may be unknown.

use crate::word::Word;

/// Bytes of a vector register (`zmm`).
pub(crate) const BYTES: usize = 64;
/// Bytes of the lanes that most wider instructions treat one by one.
pub(crate) const HALF: usize = 16;

/// A 512-bit vector register (`zmm`) known at byte grain.
///
/// Bytes that are not known read as zero inside, so that equal knowledge compares equal.
///
/// An operand narrower than 512 bits is held zero-extended, its extension known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector {
    bytes: [u8; BYTES],
    /// Bit `i` says that byte `i` is known.
    known: u64,
}

const _: () = assert!(BYTES == u64::BITS as usize);

impl Vector {
    /// A vector of which nothing is known.
    pub const UNKNOWN: Self = Self {
        bytes: [0; BYTES],
        known: 0,
    };
    pub(crate) const ZERO: Self = Self {
        bytes: [0; BYTES],
        known: u64::MAX,
    };

    /// A vector of which the bytes set in `known` (bit `i` is byte `i`) are those of `bytes`.
    pub fn partial(bytes: [u8; BYTES], known: u64) -> Self {
        let mut vector = Self { bytes, known };
        for (word, known) in vector
            .bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip(known.to_le_bytes())
        {
            *word = Word::partial(u64::from_le_bytes(*word), known)
                .known_bits()
                .to_le_bytes();
        }
        vector
    }

    /// The known bytes in their places, zero elsewhere.
    pub const fn known_bits(&self) -> &[u8; BYTES] {
        &self.bytes
    }

    /// Which bytes are known: bit `i` is byte `i`.
    pub const fn known_bytes(&self) -> u64 {
        self.known
    }

    /// Byte `i`, if there is one and it is known.
    pub fn byte(&self, i: usize) -> Option<u8> {
        let byte = self.bytes.get(i)?;
        (self.known >> i & 1 != 0).then_some(*byte)
    }

    /// Lane `i` of its type, if there is one and all of it is known.
    pub(crate) fn lane<L: Lane>(&self, i: usize) -> Option<L> {
        let first = i * L::BYTES;
        let lane = self.bytes.get(first..first + L::BYTES)?;
        let set = byte_set(L::BYTES) << first;
        (self.known & set == set).then(|| L::from_bytes(lane))
    }

    /// Sets lane `i`; `None` makes it unknown. There is nothing to set past the last lane.
    pub(crate) fn set_lane<L: Lane>(&mut self, i: usize, value: Option<L>) {
        let first = i * L::BYTES;
        let Some(lane) = self.bytes.get_mut(first..first + L::BYTES) else {
            return;
        };
        let set = byte_set(L::BYTES) << first;
        match value {
            Some(value) => {
                value.to_bytes(lane);
                self.known |= set;
            }
            None => {
                lane.fill(0);
                self.known &= !set;
            }
        }
    }

    /// Sets byte `i`; `None` makes it unknown.
    pub(crate) fn set_byte(&mut self, i: usize, value: Option<u8>) {
        self.set_lane(i, value);
    }

    /// 64 bits, the lowest first.
    pub(crate) fn word(&self, i: usize) -> Word {
        let mut word = [0; 8];
        match self.bytes.get(8 * i..8 * i + 8) {
            Some(bytes) => word.copy_from_slice(bytes),
            None => return Word::ZERO,
        }
        Word::partial(u64::from_le_bytes(word), (self.known >> (8 * i)) as u8)
    }

    /// Sets 64 bits. There is nothing to set past the last.
    pub(crate) fn set_word(&mut self, i: usize, word: Word) {
        if let Some(bytes) = self.bytes.get_mut(8 * i..8 * i + 8) {
            bytes.copy_from_slice(&word.known_bits().to_le_bytes());
            self.known = self.known & !(0xff << (8 * i)) | u64::from(word.known_bytes()) << (8 * i);
        }
    }

    /// A word as the lowest 64 bits, the rest zero.
    pub(crate) fn from_word(word: Word) -> Self {
        let mut vector = Self::ZERO;
        vector.set_word(0, word);
        vector
    }

    /// The low `bytes` bytes, zero-extended.
    pub(crate) fn truncate(mut self, bytes: usize) -> Self {
        if bytes < BYTES {
            self.bytes[bytes..].fill(0);
            self.known |= !byte_set(bytes);
        }
        self
    }

    /// This vector with its low `bytes` replaced by those of `low`.
    pub(crate) fn with_low(mut self, bytes: usize, low: &Self) -> Self {
        let bytes = bytes.min(BYTES);
        self.bytes[..bytes].copy_from_slice(&low.bytes[..bytes]);
        let set = byte_set(bytes);
        self.known = self.known & !set | low.known & set;
        self
    }

    /// Both vectors' words combined.
    pub(crate) fn zip_words(&self, other: &Self, apply: impl Fn(Word, Word) -> Word) -> Self {
        let mut result = Self::ZERO;
        for i in 0..BYTES / 8 {
            result.set_word(i, apply(self.word(i), other.word(i)));
        }
        result
    }

    /// The bytes that `pick` chooses for each place of the low `bytes`; zero above.
    pub(crate) fn arrange(bytes: usize, pick: impl Fn(usize) -> Option<u8>) -> Self {
        let mut result = Self::ZERO;
        for i in 0..bytes.min(BYTES) {
            result.set_byte(i, pick(i));
        }
        result
    }
}

/// One bit per byte: the low `bytes` bytes.
const fn byte_set(bytes: usize) -> u64 {
    if bytes >= BYTES {
        u64::MAX
    } else {
        (1 << bytes) - 1
    }
}

/// What a vector is made of.
pub(crate) trait Lane: Copy {
    const BYTES: usize;
    /// The lane is a floating-point number.
    const IS_FLOAT: bool;

    /// A lane from as many bytes as it has; zero from any other number.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Into as many bytes as it has.
    fn to_bytes(self, bytes: &mut [u8]);
}

macro_rules! lanes {
    ($is_float:literal: $($lane:ty)*) => {$(
        impl Lane for $lane {
            const BYTES: usize = size_of::<$lane>();
            const IS_FLOAT: bool = $is_float;

            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(<$lane>::default(), <$lane>::from_le_bytes)
            }

            fn to_bytes(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

lanes!(false: u8 i8 u16 i16 u32 i32 u64 i64);
lanes!(true: f32 f64);

#[cfg(test)]
mod tests {
    use super::Vector;
    use crate::word::Word;

    /// Lanes are known when all their bytes are, and unknown bytes leave no trace.
    #[test]
    fn knowledge_is_kept_by_byte() {
        let mut vector = Vector::UNKNOWN;
        vector.set_lane(1, Some(0x1122_3344u32));
        assert_eq!(vector.known_bytes(), 0xf0);
        assert_eq!(vector.lane::<u16>(3), Some(0x1122));
        assert_eq!(vector.lane::<u64>(0), None);
        assert_eq!(vector.word(0), Word::partial(0x1122_3344 << 32, 0xf0));
        vector.set_byte(5, None);
        assert_eq!(vector.lane::<u32>(1), None);
        assert_eq!(vector.byte(4), Some(0x44));
        assert_eq!(vector, Vector::partial(*vector.known_bits(), 0xd0));
        assert_eq!(vector.lane::<u64>(8), None);
        assert_eq!(vector.byte(64), None);
    }

    /// Extensions are zero, and known to be.
    #[test]
    fn extensions() {
        let vector = Vector::UNKNOWN.truncate(16);
        assert_eq!(vector.known_bytes(), !0xffff);
        assert_eq!(Vector::ZERO.with_low(4, &vector).known_bytes(), !0xf);
    }
}
