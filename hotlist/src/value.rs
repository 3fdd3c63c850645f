//! Values of any shape in one type.

use std::fmt;

use crate::{Error, Words, limits};

/// What the words of a [`Value`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One 64-bit word.
    Word,
    /// A 128-bit vector register, low word first.
    Vector128,
    /// A 256-bit vector register, low word first.
    Vector256,
    /// The bits of a single-precision lane.
    F32,
    /// The bits of a double-precision lane.
    F64,
    /// Correlated words, as many as this says: 1 to [`Value::MAX_TUPLE`].
    Tuple(u8),
}

/// A value of any shape, for lists that hold more than one; copied as it stands and equal by
/// shape and bits. Where all values of a list have one shape, `u64` or `[u64; W]` takes less
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    shape: Shape,
    words: [u64; Value::MAX_TUPLE],
}

impl Value {
    /// The most words that a tuple of correlated values has.
    pub const MAX_TUPLE: usize = limits::MAX_TUPLE;

    /// One word.
    pub fn word(value: u64) -> Self {
        Self::of(Shape::Word, &[value])
    }

    /// A 128-bit vector, low word first.
    pub fn vector128(words: [u64; 2]) -> Self {
        Self::of(Shape::Vector128, &words)
    }

    /// A 256-bit vector, low word first.
    pub fn vector256(words: [u64; 4]) -> Self {
        Self::of(Shape::Vector256, &words)
    }

    /// A single-precision lane, by its bits: every NaN is a value of its own, and so is -0.0.
    pub fn f32(lane: f32) -> Self {
        Self::of(Shape::F32, &[u64::from(lane.to_bits())])
    }

    /// A double-precision lane, by its bits.
    pub fn f64(lane: f64) -> Self {
        Self::of(Shape::F64, &[lane.to_bits()])
    }

    /// Values seen together, as a call site and an argument.
    ///
    /// # Errors
    /// [`Error::TupleLength`] for none and for more than [`Value::MAX_TUPLE`].
    pub fn tuple(words: &[u64]) -> Result<Self, Error> {
        let length = u8::try_from(words.len()).unwrap_or(u8::MAX);
        if words.is_empty() || words.len() > Self::MAX_TUPLE {
            return Err(Error::TupleLength(words.len()));
        }
        Ok(Self::of(Shape::Tuple(length), words))
    }

    fn of(shape: Shape, from: &[u64]) -> Self {
        let mut words = [0; Self::MAX_TUPLE];
        for (word, value) in words.iter_mut().zip(from) {
            *word = *value;
        }
        Self { shape, words }
    }

    /// What the words are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The words that the shape has.
    pub fn words(&self) -> &[u64] {
        let length = match self.shape {
            Shape::Word | Shape::F32 | Shape::F64 => 1,
            Shape::Vector128 => 2,
            Shape::Vector256 => 4,
            Shape::Tuple(length) => usize::from(length),
        };
        self.words.get(..length).unwrap_or(&self.words)
    }

    /// The number that a lane is; `None` for anything else.
    pub fn as_float(&self) -> Option<f64> {
        match self.shape {
            // The cast keeps the 32 bits that were put in.
            Shape::F32 => Some(f64::from(f32::from_bits(self.words[0] as u32))),
            Shape::F64 => Some(f64::from_bits(self.words[0])),
            _ => None,
        }
    }
}

/// Hexadecimal for words and vectors, numbers for lanes, and tuples in parentheses.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::F32 => write!(f, "{:?}", f32::from_bits(self.words[0] as u32)),
            Shape::F64 => write!(f, "{:?}", f64::from_bits(self.words[0])),
            Shape::Word => write!(f, "{:#x}", self.words[0]),
            Shape::Vector128 | Shape::Vector256 => {
                f.write_str("0x")?;
                self.words()
                    .iter()
                    .rev()
                    .try_for_each(|word| write!(f, "{word:016x}"))
            }
            Shape::Tuple(_) => {
                f.write_str("(")?;
                for (at, word) in self.words().iter().enumerate() {
                    write!(f, "{}{word:#x}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl Words for Value {
    const WORDS: usize = 1 + Self::MAX_TUPLE;

    fn write(self, words: &mut [u64]) {
        let shape = match self.shape {
            Shape::Word => 0,
            Shape::Vector128 => 1,
            Shape::Vector256 => 2,
            Shape::F32 => 3,
            Shape::F64 => 4,
            Shape::Tuple(length) => 0x100 + u64::from(length),
        };
        for (word, value) in words.iter_mut().zip([shape].into_iter().chain(self.words)) {
            *word = value;
        }
    }

    fn read(words: &[u64]) -> Self {
        let (shape, words) = words.split_first().unwrap_or((&0, &[]));
        let shape = match shape {
            1 => Shape::Vector128,
            2 => Shape::Vector256,
            3 => Shape::F32,
            4 => Shape::F64,
            0x101..=0x108 => Shape::Tuple((shape - 0x100) as u8),
            _ => Shape::Word,
        };
        Self::of(shape, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Generator, Hotlist};

    /// Every shape comes back from a list as it went in, told apart from others of the same bits.
    #[test]
    fn in_a_list() {
        let values = [
            Value::word(1),
            Value::tuple(&[1]).unwrap(),
            Value::tuple(&[1, 0]).unwrap(),
            Value::tuple(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap(),
            Value::vector128([1, 0]),
            Value::vector256([1, 0, 0, u64::MAX]),
            Value::f64(f64::from_bits(1)),
            Value::f32(f32::from_bits(1)),
            Value::f64(f64::NAN),
            Value::f64(-f64::NAN),
            Value::f64(0.0),
            Value::f64(-0.0),
        ];
        let mut list = Hotlist::new(&Config::default());
        for (time, &value) in (0..).zip(values.iter().chain(&values)) {
            list.update(value, time, &mut Generator::new(0));
        }
        let found: Vec<_> = list.tuples().map(|t| (t.value, t.estimate())).collect();
        assert_eq!(found, values.map(|value| (value, 2.0)));
    }

    /// Arrays are values too, compared as a whole.
    #[test]
    fn arrays() {
        let mut list = Hotlist::<[u64; 4]>::new(&Config::default());
        for value in [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 4]] {
            list.update(value, 0, &mut Generator::new(0));
        }
        let found: Vec<_> = list.tuples().map(|t| (t.value, t.estimate())).collect();
        assert_eq!(found, [([1, 2, 3, 4], 2.0), ([1, 2, 3, 5], 1.0)]);
    }

    /// Tuples of no words or too many are refused.
    #[test]
    fn tuple_lengths() {
        assert_eq!(Value::tuple(&[]), Err(Error::TupleLength(0)));
        assert_eq!(Value::tuple(&[0; 9]), Err(Error::TupleLength(9)));
    }

    /// Values print as one knows them.
    #[test]
    fn printed() {
        assert_eq!(Value::word(16).to_string(), "0x10");
        assert_eq!(Value::f32(0.1).to_string(), "0.1");
        assert_eq!(Value::f64(1.0).to_string(), "1.0");
        assert_eq!(Value::tuple(&[1, 255]).unwrap().to_string(), "(0x1, 0xff)");
        assert_eq!(
            Value::vector128([1, 2]).to_string(),
            "0x00000000000000020000000000000001"
        );
        assert_eq!(Value::f32(0.5).as_float(), Some(0.5));
        assert_eq!(Value::word(5).as_float(), None);
    }
}
