//! How a captured value is written: its width, number class, hex or decimal.

use parameters::{Number, Parameter};
use profiledb::Text;
use serde::Serialize;

/// What the bits of a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// An integer or an address of so many bits.
    Integer(u32),
    /// An integer of so many bits that is declared to have no negative numbers.
    Unsigned(u32),
    /// A double.
    F64,
    /// A float, in the low half.
    F32,
    /// The first bytes of a string ([`profiledb::Text`]).
    Text,
}

/// A value as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JsonValue {
    /// The bits, in hex.
    pub(crate) value: String,
    /// The number, where the bits are a floating-point one that JSON can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) float: Option<f64>,
    /// The first bytes of a string, in quotes, as text has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

impl Class {
    /// The class of what a parameter captures, told by its name.
    pub(crate) fn of_parameter(parameter: &str) -> Class {
        match parameter.parse().map(Parameter::number) {
            Ok(Number::Integer(bits)) => Class::Integer(bits),
            Ok(Number::F32) => Class::F32,
            Ok(Number::F64) => Class::F64,
            Ok(Number::Text) => Class::Text,
            // What a later version of the collector may have.
            Err(_) => Class::Integer(64),
        }
    }

    /// How many bits a value has.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Class::Integer(bits) | Class::Unsigned(bits) => bits.min(64),
            Class::F32 => 32,
            Class::F64 | Class::Text => 64,
        }
    }

    /// How many bits a value has, if it is an integer.
    pub(crate) fn integer(self) -> Option<u32> {
        match self {
            Class::Integer(bits) | Class::Unsigned(bits) => Some(bits),
            Class::F32 | Class::F64 | Class::Text => None,
        }
    }

    /// The value cut to the class's width.
    pub(crate) fn mask(self, value: u64) -> u64 {
        match self {
            Class::Integer(bits) | Class::Unsigned(bits) => mask(value, bits),
            Class::F64 | Class::Text => value,
            Class::F32 => mask(value, 32),
        }
    }

    /// The value as a person reads it.
    pub(crate) fn text(self, value: u64) -> String {
        let value = self.mask(value);
        match self {
            Class::F64 => number(f64::from_bits(value)),
            Class::F32 => number(f64::from(f32::from_bits(low32(value)))),
            Class::Text => match Text::of_value(value) {
                Some(text) => text.to_string(),
                None => format!("0x{value:x}"),
            },
            Class::Unsigned(_) => format!("0x{value:x}"),
            Class::Integer(bits) => match small_negative(value, bits) {
                Some(distance) => format!("-{distance}"),
                None => format!("0x{value:x}"),
            },
        }
    }

    /// The value as a program reads it.
    pub(crate) fn json(self, value: u64) -> JsonValue {
        let value = self.mask(value);
        let float = match self {
            Class::F64 => Some(f64::from_bits(value)),
            Class::F32 => Some(f64::from(f32::from_bits(low32(value)))),
            Class::Integer(_) | Class::Unsigned(_) | Class::Text => None,
        };
        let text = match self {
            Class::Text => Text::of_value(value),
            _ => None,
        };
        JsonValue {
            value: format!("0x{value:x}"),
            float: float.filter(|float| float.is_finite()),
            text: text.map(|text| text.to_string()),
        }
    }
}

fn low32(value: u64) -> u32 {
    // The mask makes the narrowing exact.
    u32::try_from(value & 0xffff_ffff).unwrap_or(u32::MAX)
}

fn mask(value: u64, bits: u32) -> u64 {
    match bits {
        0 => 0,
        1..64 => value & ((1 << bits) - 1),
        _ => value,
    }
}

/// Distance below zero of a value that is a small negative number in its width.
/// How far "small" goes depends on the width, since half of all bytes would be.
fn small_negative(value: u64, bits: u32) -> Option<u64> {
    let distance = mask(value.wrapping_neg(), bits);
    let limit = match bits {
        32.. => 4096,
        16..32 => 1024,
        8..16 => 16,
        _ => 0,
    };
    (distance != 0 && distance <= limit).then_some(distance)
}

/// Plain where that is short, else with an exponent.
fn number(float: f64) -> String {
    let magnitude = float.abs();
    if float == 0.0 || (1e-4..1e15).contains(&magnitude) {
        format!("{float}")
    } else if float.is_finite() {
        format!("{float:e}")
    } else {
        format!("{float}").to_lowercase()
    }
}

/// Whether a parameter is a register that an instruction computes: not an address, a value in
/// memory, a place of the calling convention, or an operand.
pub(crate) fn is_destination(parameter: &str) -> bool {
    let parameter = parameter.parse::<Parameter>();
    parameter.is_ok_and(Parameter::is_destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parameter: &str, value: u64) -> String {
        Class::of_parameter(parameter).text(value)
    }

    /// Zero and ordinary integers are hex, small negative ones decimal in their own width.
    #[test]
    fn integers() {
        assert_eq!(text("rax", 0), "0x0");
        assert_eq!(text("rax", 0x1_1fff_d040), "0x11fffd040");
        assert_eq!(text("eax", 0xffff_ffff), "-1");
        assert_eq!(text("rax", 0xffff_ffff), "0xffffffff");
        assert_eq!(text("rax", u64::MAX - 7), "-8");
        assert_eq!(text("r10b", 0xff), "-1");
        assert_eq!(text("al", 0x80), "0x80");
        assert_eq!(text("taken", 1), "0x1");
        assert_eq!(text("r9d", 0x8000_0000), "0x80000000");
    }

    /// Of a type without negative numbers none is written as one.
    #[test]
    fn unsigned() {
        assert_eq!(Class::Unsigned(16).text(0xa_fff0), "0xfff0");
        assert_eq!(Class::Unsigned(64).text(u64::MAX), "0xffffffffffffffff");
        assert_eq!(Class::Integer(16).text(0xfff0), "-16");
        assert_eq!(Class::Unsigned(8).json(0x1ff).value, "0xff");
    }

    /// Floating-point parameters are numbers in text, and bits with the number in JSON.
    #[test]
    fn floats() {
        assert_eq!(text("xmm0.f64[0]", 4.0_f64.to_bits()), "4");
        assert_eq!(text("xmm0.f64[0]", 4), "2e-323");
        assert_eq!(text("xmm3.f32[0]", u64::from((-6.5_f32).to_bits())), "-6.5");
        assert_eq!(text("xmm0.f64[0]", f64::NAN.to_bits()), "nan");
        let json = Class::F64.json(1.0_f64.to_bits());
        assert_eq!(json.value, "0x3ff0000000000000");
        assert_eq!(json.float, Some(1.0));
        assert_eq!(Class::F64.json(f64::INFINITY.to_bits()).float, None);
    }

    /// What a later collector may record is a machine word, and no destination.
    #[test]
    fn unknown_names() {
        for name in ["", "r", "xmm0.é", "soon"] {
            assert_eq!(Class::of_parameter(name), Class::Integer(64));
            assert!(!is_destination(name), "{name}");
        }
    }
}
