//! Floating-point numbers in vector registers.

use iced_x86::{Instruction, OpKind};

/// The floating-point numbers that an instruction leaves in the vector register that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatLanes {
    /// Whether a number has 64 bits; else it has 32.
    pub is_double: bool,
    /// Whether the instruction computes the lowest number only.
    pub is_scalar: bool,
}

/// What an instruction computes, if its name says that these are floating-point numbers.
///
/// Names of shuffles do not say it, nor do those of moves and bitwise operations of single
/// precision: compilers move and combine integers by them, too.
pub fn float_lanes(instruction: &Instruction) -> Option<FloatLanes> {
    let writes_vector = instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_vector_register();
    if !writes_vector {
        return None;
    }
    let name = format!("{:?}", instruction.mnemonic()).to_ascii_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let is_double = name.ends_with('d');
    let is_scalar = match name.get(name.len().saturating_sub(2)..)? {
        "pd" | "ps" => false,
        "sd" | "ss" => true,
        _ => return None,
    };
    let is_among = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let is_copy = is_among(&["mov", "maskmov", "and", "or", "xor"]);
    let says_nothing = !is_double && !is_scalar && is_copy;
    (!says_nothing && !is_among(&OF_ANY_BITS)).then_some(FloatLanes {
        is_double,
        is_scalar,
    })
}

/// How instructions begin whose names end as if they were of floating-point numbers: those of
/// integers (`p`) and masks, and shuffles of any bits.
const OF_ANY_BITS: [&str; 11] = [
    "p",
    "4dp",
    "cmp",
    "unpck",
    "shuf",
    "blend",
    "insert",
    "broadcast",
    "expand",
    "compress",
    "gather",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded;

    fn lanes(bytes: &[u8]) -> Option<(bool, bool)> {
        let lanes = float_lanes(&decoded(bytes))?;
        Some((lanes.is_double, lanes.is_scalar))
    }

    /// Arithmetic, conversions, and moves of one number say what is in the register.
    #[test]
    fn numbers() {
        // addsd xmm0, [rax]; addss xmm0, xmm1; movsd xmm0, [rax]
        assert_eq!(lanes(&[0xf2, 0x0f, 0x58, 0x00]), Some((true, true)));
        assert_eq!(lanes(&[0xf3, 0x0f, 0x58, 0xc1]), Some((false, true)));
        assert_eq!(lanes(&[0xf2, 0x0f, 0x10, 0x00]), Some((true, true)));
        // addpd xmm0, xmm1; addps xmm0, xmm1; xorpd xmm0, xmm3
        assert_eq!(lanes(&[0x66, 0x0f, 0x58, 0xc1]), Some((true, false)));
        assert_eq!(lanes(&[0x0f, 0x58, 0xc1]), Some((false, false)));
        assert_eq!(lanes(&[0x66, 0x0f, 0x57, 0xc3]), Some((true, false)));
        // cvtdq2pd xmm0, xmm1; cvtpd2ps xmm0, xmm1; vfmadd213sd xmm0, xmm1, xmm2
        assert_eq!(lanes(&[0xf3, 0x0f, 0xe6, 0xc1]), Some((true, false)));
        assert_eq!(lanes(&[0x66, 0x0f, 0x5a, 0xc1]), Some((false, false)));
        let fma = &[0xc4, 0xe2, 0xf1, 0xa9, 0xc2];
        assert_eq!(lanes(fma), Some((true, true)));
    }

    /// What carries any bits says nothing, and neither does what writes no vector register.
    #[test]
    fn bits() {
        // movaps xmm0, [rax]; xorps xmm0, xmm1; shufpd xmm0, xmm1, 1; unpcklpd xmm0, xmm1
        assert_eq!(lanes(&[0x0f, 0x28, 0x00]), None);
        assert_eq!(lanes(&[0x0f, 0x57, 0xc1]), None);
        assert_eq!(lanes(&[0x66, 0x0f, 0xc6, 0xc1, 1]), None);
        assert_eq!(lanes(&[0x66, 0x0f, 0x14, 0xc1]), None);
        // cmppd xmm0, xmm1, 0; paddd xmm0, xmm1; vpdpwssd xmm0, xmm1, xmm2
        assert_eq!(lanes(&[0x66, 0x0f, 0xc2, 0xc1, 0]), None);
        assert_eq!(lanes(&[0x66, 0x0f, 0xfe, 0xc1]), None);
        assert_eq!(lanes(&[0x62, 0xf2, 0x75, 0x08, 0x52, 0xc2]), None);
        // movmskpd eax, xmm0; cvttsd2si eax, xmm0; movsd [rax], xmm0
        assert_eq!(lanes(&[0x66, 0x0f, 0x50, 0xc0]), None);
        assert_eq!(lanes(&[0xf2, 0x0f, 0x2c, 0xc0]), None);
        assert_eq!(lanes(&[0xf2, 0x0f, 0x11, 0x00]), None);
    }
}
