//! What a list can hold: values of a fixed number of 64-bit words, compared by bits.

/// The most words a value has.
pub const MAX_WORDS: usize = 9;

/// A value a hotlist can hold. Values are equal when their words are: a float is kept by its
/// bits, so that a NaN equals itself and 0.0 differs from -0.0.
///
/// `write` and `read` get exactly [`Words::WORDS`] words and must undo each other.
pub trait Words: Copy {
    /// How many words the value takes, 1 to [`MAX_WORDS`].
    const WORDS: usize;
    /// Writes the value to as many words.
    fn write(self, words: &mut [u64]);
    /// The value that was written.
    fn read(words: &[u64]) -> Self;
}

impl Words for u64 {
    const WORDS: usize = 1;

    #[inline]
    fn write(self, words: &mut [u64]) {
        if let [word] = words {
            *word = self;
        }
    }

    #[inline]
    fn read(words: &[u64]) -> Self {
        words.first().copied().unwrap_or_default()
    }
}

/// Vector registers (two or four words) and tuples of correlated values.
impl<const W: usize> Words for [u64; W] {
    const WORDS: usize = W;

    #[inline]
    fn write(self, words: &mut [u64]) {
        for (word, value) in words.iter_mut().zip(self) {
            *word = value;
        }
    }

    #[inline]
    fn read(words: &[u64]) -> Self {
        let mut value = [0; W];
        for (value, word) in value.iter_mut().zip(words) {
            *value = *word;
        }
        value
    }
}
