//! Types of integers, and how the source writes numbers of them.

use gimli::AttributeValue;

use super::{Language, whole_name};
use crate::dwarf::{Unit, unqualified};
use crate::sections::Slice;

/// A type of integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NumberType {
    /// What its language calls it, if it has a name.
    pub(crate) name: Option<String>,
    /// How many bits it has.
    pub(crate) bits: u32,
    /// Whether it has negative numbers.
    pub(crate) is_signed: bool,
    /// Whether it has two values, which languages may call `false` and `true`.
    pub(crate) is_truth: bool,
}

/// A number in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Literal {
    /// As a variable is compared with it.
    pub(crate) compared: String,
    /// As it stands in place of the variable, with its type.
    pub(crate) typed: String,
}

impl NumberType {
    /// What debug information says of a type; `None`: it is something else.
    pub(super) fn of<'a>(unit: &Unit<'_, 'a>, of: AttributeValue<Slice<'a>>) -> Option<NumberType> {
        let (unit, entry, size) = unqualified(unit, of)?;
        let AttributeValue::Encoding(encoding) = entry.attr_value(gimli::DW_AT_encoding)? else {
            return None;
        };
        let is_signed = match encoding {
            gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => true,
            gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_boolean => false,
            _ => return None,
        };
        let bytes = size.filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))?;
        Some(NumberType {
            name: whole_name(&unit, &entry),
            bits: u32::try_from(8 * bytes).ok()?,
            is_signed,
            is_truth: encoding == gimli::DW_ATE_boolean,
        })
    }

    /// The number that the low bits of a word are, of which so many are known, as a language writes
    /// it. What may be a negative number without its upper bits is none.
    pub(crate) fn text(&self, value: u64, known: u32, language: Language) -> Option<String> {
        /// To how many bits compilers narrow what they divide by.
        const NARROW: u32 = 32;
        let may_lack_sign =
            self.is_signed && self.bits > NARROW && u64::BITS - value.leading_zeros() == NARROW;
        match may_lack_sign {
            true => None,
            false => self.exactly(value, known, language),
        }
    }

    /// A number of this type, as it is compared and calculated with.
    pub(crate) fn literal(&self, value: u64, language: Language) -> Option<Literal> {
        let text = self.exactly(value, u64::BITS, language)?;
        let is_c = matches!(language, Language::C | Language::Cpp);
        let suffix = self.suffix(language);
        // In C a minus is no part of a number, and the number behind it would be too large.
        let least = 1_u64 << (self.bits - 1);
        let low = value & (u64::MAX >> (u64::BITS - self.bits));
        if is_c && self.is_signed && self.bits >= 32 && low == least {
            let text = format!("(-{}{suffix} - 1)", least - 1);
            return Some(Literal {
                compared: text.clone(),
                typed: text,
            });
        }
        let typed = match self.name.as_deref() {
            // Functions and operators are chosen by types that are not those of plain numbers.
            Some(name) if language == Language::Cpp && self.bits < 32 => format!("({name}){text}"),
            None if language == Language::Cpp && self.bits < 32 => return None,
            _ => format!("{text}{suffix}"),
        };
        Some(Literal {
            compared: text,
            typed,
        })
    }

    fn exactly(&self, value: u64, known: u32, language: Language) -> Option<String> {
        /// Larger ones are told in hex.
        const SMALL: u64 = 1 << 16;
        let unused = 64_u32
            .checked_sub(self.bits)
            .filter(|_| known >= self.bits)?;
        if self.is_truth && matches!(language, Language::Rust | Language::Go) {
            return Some((value & 1 == 1).to_string());
        }
        let value = value << unused;
        Some(match self.is_signed {
            true => (value.cast_signed() >> unused).to_string(),
            false if value >> unused < SMALL => (value >> unused).to_string(),
            false => format!("0x{:x}", value >> unused),
        })
    }

    /// What stands behind a number of this type, so that it is one of this type in an expression,
    /// too. C calculates with smaller ones as with `int`.
    pub(crate) fn suffix(&self, language: Language) -> &str {
        /// The types of Rust whose names may stand behind a number.
        const RUST: [&str; 10] = [
            "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize",
        ];
        match (language, self.bits, self.is_signed) {
            (Language::C | Language::Cpp, 32, false) => "u",
            (Language::C | Language::Cpp, 64, is_signed) => {
                let is_long_long = self
                    .name
                    .as_ref()
                    .is_some_and(|name| name.contains("long long"));
                match (is_long_long, is_signed) {
                    (true, true) => "ll",
                    (true, false) => "ull",
                    (false, true) => "l",
                    (false, false) => "ul",
                }
            }
            (Language::Rust, ..) => match self.name.as_deref() {
                Some(name) if RUST.contains(&name) => name,
                _ => "",
            },
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bits: u32, is_signed: bool) -> NumberType {
        NumberType {
            name: Some(format!("{}{bits}", if is_signed { "i" } else { "u" })),
            bits,
            is_signed,
            is_truth: false,
        }
    }

    /// A number is what its type makes of the bits, where all of them are known.
    #[test]
    fn numbers() {
        let text =
            |bits, is_signed, value, known| of(bits, is_signed).text(value, known, Language::C);
        assert_eq!(text(16, true, 0xfed4, 16).as_deref(), Some("-300"));
        assert_eq!(text(16, true, 0xffff_fed4, 32).as_deref(), Some("-300"));
        assert_eq!(text(8, true, 0xfb, 8).as_deref(), Some("-5"));
        assert_eq!(text(32, true, 0xffff_fff9, 64).as_deref(), Some("-7"));
        assert_eq!(text(32, true, u64::MAX, 64).as_deref(), Some("-1"));
        assert_eq!(text(32, true, 7, 32).as_deref(), Some("7"));
        assert_eq!(text(64, true, u64::MAX, 64).as_deref(), Some("-1"));
        assert_eq!(text(32, true, 0xfb, 8), None);
        let large = text(32, false, 0xffff_fff9, 32);
        assert_eq!(large.as_deref(), Some("0xfffffff9"));
        assert_eq!(text(32, false, 1009, 64).as_deref(), Some("1009"));
        let truth = NumberType {
            is_truth: true,
            ..of(8, false)
        };
        let text = |language| truth.text(1, 32, language);
        assert_eq!(text(Language::C).as_deref(), Some("1"));
        assert_eq!(text(Language::Rust).as_deref(), Some("true"));
    }

    /// What may be a negative number that a compiler narrowed is no other number.
    #[test]
    fn narrowed_numbers() {
        let text = |bits, is_signed| of(bits, is_signed).text(0xffff_fff9, 64, Language::Rust);
        assert_eq!(text(64, true), None);
        assert_eq!(text(32, true).as_deref(), Some("-7"));
        assert_eq!(text(64, false).as_deref(), Some("0xfffffff9"));
    }

    /// A number in place of a variable has its type, also where it is the least one.
    #[test]
    fn literals() {
        let typed = |bits, is_signed, value: i64, language| {
            let literal = of(bits, is_signed).literal(value.cast_unsigned(), language);
            literal.map(|literal| literal.typed)
        };
        for (bits, value, language, expected) in [
            (32, -7, Language::C, "-7"),
            (64, -7, Language::C, "-7l"),
            (64, -7, Language::Rust, "-7i64"),
            (32, i64::from(i32::MIN), Language::C, "(-2147483647 - 1)"),
            (32, i64::from(i32::MIN), Language::Rust, "-2147483648i32"),
            (64, i64::MIN, Language::C, "(-9223372036854775807l - 1)"),
            (16, -7, Language::C, "-7"),
            (16, -7, Language::Cpp, "(i16)-7"),
        ] {
            assert_eq!(
                typed(bits, true, value, language).as_deref(),
                Some(expected)
            );
        }
        let long_long = NumberType {
            name: Some("long long unsigned int".to_owned()),
            ..of(64, false)
        };
        assert_eq!(long_long.suffix(Language::C), "ull");
    }

    /// Numbers in expressions have the type of what they stand for.
    #[test]
    fn suffixes() {
        assert_eq!(of(32, false).suffix(Language::C), "u");
        assert_eq!(of(64, true).suffix(Language::Cpp), "l");
        assert_eq!(of(8, false).suffix(Language::C), "");
        assert_eq!(of(32, false).suffix(Language::Rust), "u32");
        assert_eq!(of(32, false).suffix(Language::Go), "");
    }
}
