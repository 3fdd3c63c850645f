//! The first bytes of a string as one value.

use std::fmt;

/// The first bytes of a string: up to seven, and whether it ends behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u64);

/// The byte of the value that says how many bytes there are.
const LENGTH: u32 = 56;
/// Set in there if the string ends.
const ENDS: u64 = 0x80;

impl Text {
    /// Bytes that are kept at most.
    pub const MOST: usize = 7;

    /// The text that begins with these bytes, up to the first that is zero; `None`: there is no
    /// byte.
    pub fn of(known: &[u8]) -> Option<Text> {
        let known = known.get(..Self::MOST).unwrap_or(known);
        if known.is_empty() {
            return None;
        }
        let end = known.iter().position(|byte| *byte == 0);
        let bytes = known.get(..end.unwrap_or(known.len()))?;
        let mut value = 0;
        for byte in bytes.iter().rev() {
            value = value << 8 | u64::from(*byte);
        }
        let length = bytes.len() as u64 | if end.is_some() { ENDS } else { 0 };
        Some(Text(value | length << LENGTH))
    }

    /// As a value of a profile.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The text that a value stands for. `None`: for none.
    pub fn of_value(value: u64) -> Option<Text> {
        let text = Text(value);
        let length = value >> LENGTH & !ENDS;
        let rest = value & ((1 << LENGTH) - 1);
        let fits = length <= Self::MOST as u64 && rest.checked_shr(8 * length as u32) == Some(0);
        let says_something = length > 0 || text.ends();
        (fits && says_something).then_some(text)
    }

    /// Whether the string ends behind these bytes.
    pub fn ends(self) -> bool {
        self.0 >> LENGTH & ENDS != 0
    }

    /// The bytes, without a zero at the end.
    pub fn bytes(self) -> impl Iterator<Item = u8> {
        let length = usize::try_from(self.0 >> LENGTH & !ENDS).unwrap_or(0);
        self.0
            .to_le_bytes()
            .into_iter()
            .take(length.min(Self::MOST))
    }

    /// Whether all bytes can be printed, or are white space or of UTF-8.
    pub fn is_printable(self) -> bool {
        self.bytes()
            .all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..))
    }
}

/// In quotes, with all that is no printable character of ASCII escaped; `...` where more may
/// follow.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.bytes() {
            write!(f, "{}", byte.escape_ascii())?;
        }
        f.write_str(if self.ends() { "\"" } else { "...\"" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts come back from their values; what is no text does not.
    #[test]
    fn values() {
        for (bytes, shown) in [
            (&b"abc\0def"[..], "\"abc\""),
            (b"abc", "\"abc...\""),
            (b"\0", "\"\""),
            (b"abcdefg", "\"abcdefg...\""),
            (b"abcdefgh", "\"abcdefg...\""),
            (b"a\"\\\n\x1b", "\"a\\\"\\\\\\n\\x1b...\""),
        ] {
            let text = Text::of(bytes).expect("some bytes");
            assert_eq!(text.to_string(), shown);
            assert_eq!(Text::of_value(text.value()), Some(text));
        }
        assert_eq!(Text::of(b""), None);
        for bad in [0, 1, 8 << LENGTH, 0x100 | 1 << LENGTH, u64::MAX] {
            assert_eq!(Text::of_value(bad), None, "{bad:x}");
        }
    }

    /// Letters of any language can be printed, control characters cannot.
    #[test]
    fn printable() {
        let is = |bytes: &[u8]| Text::of(bytes).is_some_and(Text::is_printable);
        assert!(is(b"a\tb\n") && is("\u{e9}t\u{e9}".as_bytes()) && is(b"\0"));
        assert!(!is(b"\x01\x02") && !is(b"a\x7f"));
    }
}
