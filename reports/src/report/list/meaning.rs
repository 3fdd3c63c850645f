//! What values are beside their bits, as far as the instruction itself says so: nothing is guessed
//! from how a number looks.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use instructions::{FloatLanes, float_lanes, register_name};
use parameters::Parameter;

use crate::values::Class;
use crate::variables::{Words, character};

/// What the values of a parameter are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Numbers.
    Number,
    /// Bytes that are compared: characters, where they can be printed.
    Character,
    /// What the type of an argument calls its values.
    Typed(Words),
    /// Addresses relative to the stack pointer.
    Stack,
    /// The address of one place of the image, under its name.
    Place {
        /// As the file has it.
        address: u64,
        /// `image:symbol+0xoffset`.
        name: String,
    },
    /// Floating-point numbers in a word of a vector register.
    Lanes {
        /// The register, and which of its numbers these are.
        name: String,
        /// Of what size they are.
        class: Class,
        /// Whether these are two.
        are_two: bool,
    },
    /// Bits of a vector register that the instruction does not compute, or that another parameter
    /// shows as a number.
    Beside,
}

/// What the values of a parameter of an instruction are; `name` names addresses of the image that
/// the instruction is in.
pub(super) fn meaning(
    instruction: &Instruction,
    parameter: &str,
    name: impl FnOnce(u64) -> String,
) -> Meaning {
    let is_address = match parameter {
        "ea" => true,
        // What `lea` computes is an address; elsewhere a result is a number like any other.
        _ => instruction.mnemonic() == Mnemonic::Lea && is_own_result(instruction, parameter),
    };
    if is_address && instruction.is_ip_rel_memory_operand() {
        let address = instruction.ip_rel_memory_address();
        return Meaning::Place {
            address,
            name: name(address),
        };
    }
    let is_on_stack = instruction.memory_base() == Register::RSP
        && instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None;
    if is_address && is_on_stack {
        return Meaning::Stack;
    }
    if compares_bytes(instruction) && is_operand(parameter) {
        return Meaning::Character;
    }
    match (float_lanes(instruction), parameter.parse()) {
        (Some(lanes), Ok(Parameter::DestWord(register, word))) => lane(lanes, register, word),
        _ => Meaning::Number,
    }
}

/// What a word of a vector register is in which an instruction leaves floating-point numbers.
fn lane(lanes: FloatLanes, register: Register, word: u8) -> Meaning {
    let register = register_name(register);
    let (name, class, are_two) = match (lanes.is_double, lanes.is_scalar) {
        (_, true) if word > 0 => return Meaning::Beside,
        (true, _) => (format!("{register}.f64[{word}]"), Class::F64, false),
        (false, true) => (format!("{register}.f32[0]"), Class::F32, false),
        (false, false) => {
            let first = 2 * word;
            let name = format!("{register}.f32[{first},{}]", first + 1);
            (name, Class::F32, true)
        }
    };
    Meaning::Lanes {
        name,
        class,
        are_two,
    }
}

/// Whether a parameter is the whole register that an instruction writes.
fn is_own_result(instruction: &Instruction, parameter: &str) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().is_gpr64()
        && format!("{:?}", instruction.op0_register()).eq_ignore_ascii_case(parameter)
}

/// Whether a parameter is something that an instruction reads.
fn is_operand(parameter: &str) -> bool {
    matches!(
        parameter.parse(),
        Ok(Parameter::Operand(_) | Parameter::Load | Parameter::Old)
    )
}

/// Whether an instruction compares bytes.
fn compares_bytes(instruction: &Instruction) -> bool {
    let is_byte = match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().size() == 1,
        OpKind::Memory => instruction.memory_size().size() == 1,
        _ => false,
    };
    instruction.mnemonic() == Mnemonic::Cmp && is_byte
}

/// The character that an instruction compares with, to stand behind it.
pub(super) fn compared(instruction: &Instruction) -> Option<String> {
    let constant = match instruction.op1_kind() {
        OpKind::Immediate8 if compares_bytes(instruction) => instruction.immediate8(),
        _ => return None,
    };
    character(u64::from(constant))
}

/// The bits of an address within a page: mapping an image keeps them.
const IN_PAGE: u64 = 0xfff;

impl Meaning {
    /// A value in these words.
    pub(super) fn text(&self, class: Class, value: u64) -> String {
        let number = class.text(value);
        match self {
            Meaning::Character => match character(value) {
                Some(character) => format!("{number} {character}"),
                None => number,
            },
            Meaning::Typed(words) => match words.of(class.mask(value)) {
                Some(word) => format!("{number} {word}"),
                None => number,
            },
            Meaning::Stack => format!("stack {number}"),
            Meaning::Place { address, name } if (address ^ value) & IN_PAGE == 0 => name.clone(),
            Meaning::Lanes { class, are_two, .. } => match are_two {
                true => format!("{} {}", class.text(value), class.text(value >> 32)),
                false => class.text(value),
            },
            Meaning::Place { .. } | Meaning::Number | Meaning::Beside => number,
        }
    }

    /// What the parameter is called, if this is not the name that it was captured by.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Meaning::Lanes { name, .. } => Some(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    fn of(bytes: &[u8], parameter: &str) -> Meaning {
        let instruction = decode(bytes, 0x1000).expect("is an instruction");
        meaning(&instruction, parameter, |address| {
            format!("image+0x{address:x}")
        })
    }

    /// An address relative to the stack pointer is on the stack, one relative to the instruction is
    /// a place of the image; what is loaded from there is a number.
    #[test]
    fn addresses() {
        let text = |meaning: Meaning, value| meaning.text(Class::Integer(64), value);
        // mov rax,[rsp+8]
        let on_stack: &[u8] = &[0x48, 0x8b, 0x44, 0x24, 8];
        assert_eq!(text(of(on_stack, "ea"), 0x7ffc_0010), "stack 0x7ffc0010");
        assert_eq!(of(on_stack, "rax"), Meaning::Number);
        // mov rax,[rdi]
        assert_eq!(of(&[0x48, 0x8b, 7], "ea"), Meaning::Number);
        // lea rax,[rip+8]
        let place: &[u8] = &[0x48, 0x8d, 5, 8, 0, 0, 0];
        assert_eq!(text(of(place, "rax"), 0x5555_5555_500f), "image+0x100f");
        // What is at another place of its page is not that address.
        assert_eq!(text(of(place, "rax"), 0x5555_5555_5010), "0x555555555010");
        assert_eq!(of(place, "rbx"), Meaning::Number);
        // mov rax,fs:[rsp+8] is wherever fs points.
        let elsewhere: &[u8] = &[0x64, 0x48, 0x8b, 0x44, 0x24, 8];
        assert_eq!(of(elsewhere, "ea"), Meaning::Number);
    }

    /// Each number in a vector register is one, and what an instruction does not compute is none.
    #[test]
    fn lanes() {
        let text = |bytes, parameter, value| {
            let meaning = of(bytes, parameter);
            let text = meaning.text(Class::Integer(64), value);
            (meaning.name().map(str::to_owned), text)
        };
        let named = |name: &str, text: &str| (Some(name.to_owned()), text.to_owned());
        // addpd xmm0, xmm1
        let doubles: &[u8] = &[0x66, 0x0f, 0x58, 0xc1];
        let half = 0.5f64.to_bits();
        assert_eq!(
            text(doubles, "xmm0.u64[1]", half),
            named("xmm0.f64[1]", "0.5")
        );
        // addps xmm0, xmm1
        let singles: &[u8] = &[0x0f, 0x58, 0xc1];
        let both = u64::from(2.5f32.to_bits()) << 32 | u64::from((-1f32).to_bits());
        assert_eq!(
            text(singles, "xmm0.u64[1]", both),
            named("xmm0.f32[2,3]", "-1 2.5")
        );
        // addsd xmm0, xmm1
        let scalar: &[u8] = &[0xf2, 0x0f, 0x58, 0xc1];
        assert_eq!(of(scalar, "xmm0.u64[1]"), Meaning::Beside);
        assert_eq!(of(scalar, "xmm0.f64[0]"), Meaning::Number);
        // addss xmm0, xmm1
        let scalar: &[u8] = &[0xf3, 0x0f, 0x58, 0xc1];
        assert_eq!(
            text(scalar, "xmm0.u64[0]", both),
            named("xmm0.f32[0]", "-1")
        );
        // movaps xmm0, xmm1
        assert_eq!(of(&[0x0f, 0x28, 0xc1], "xmm0.u64[0]"), Meaning::Number);
    }

    /// Bytes that are compared are characters; wider numbers are not.
    #[test]
    fn characters() {
        let text = |bytes, value| of(bytes, "op0").text(Class::Integer(64), value);
        // cmp al,','
        let byte: &[u8] = &[0x3c, 0x2c];
        assert_eq!(text(byte, 0x2c), "0x2c ','");
        assert_eq!(text(byte, 0xa), "0xa '\\n'");
        assert_eq!(text(byte, 0x80), "0x80");
        // cmp eax,0x2c
        assert_eq!(text(&[0x83, 0xf8, 0x2c], 0x2c), "0x2c");
        let compared_with = |bytes| compared(&decode(bytes, 0).expect("is an instruction"));
        assert_eq!(compared_with(byte).as_deref(), Some("','"));
        assert_eq!(compared_with(&[0x83, 0xf8, 0x2c]), None);
    }
}
