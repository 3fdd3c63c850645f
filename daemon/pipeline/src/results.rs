//! What an instruction has written, by the registers behind it.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use interpreter::Parameter;
use sampler::{Registers, VectorState};

/// The registers that an instruction wrote, with what they hold behind it: general ones in the
/// width written, others by words, of which registers of x87 have two. What it left on the stack of
/// x87 has the name that it has there.
pub(crate) fn results(
    instruction: &Instruction,
    registers: &Registers,
    others: Option<&VectorState>,
) -> Vec<(Parameter, u64)> {
    if instruction.mnemonic() == Mnemonic::Syscall {
        // Of the others the kernel makes what it needs itself.
        return vec![(Parameter::Pair(Register::RAX), registers.gpr[0])];
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let used = info.used_registers().iter();
    let mut results: Vec<(Parameter, u64)> = used
        .filter(|used| writes(used.access()))
        .map(|used| used.register())
        .filter(|of| of.is_gpr() && of.full_register() != Register::RSP)
        .map(|of| (Parameter::Pair(of), held(of, &registers.gpr)))
        .collect();
    let Some(others) = others else {
        return results;
    };
    for operand in 0..instruction.op_count() {
        if !writes(info.op_access(operand)) {
            continue;
        }
        let register = instruction.op_register(operand);
        if register.is_k() {
            let value = others.masks[register.number() & 7];
            results.push((Parameter::Pair(register), value));
        } else if register.is_vector_register() {
            let vector = &others.vectors[register.number() & 31];
            for (word, bytes) in (0..).zip(vector.as_chunks().0).take(register.size() / 8) {
                let value = u64::from_le_bytes(*bytes);
                results.push((Parameter::PairWord(register, word), value));
            }
        }
    }
    let writes_x87 = |of: Register| {
        let used = info.used_registers();
        used.iter()
            .any(|used| used.register() == of && writes(used.access()))
    };
    if let Some(place) = left_on_stack(instruction, writes_x87)
        && let Some(number) = others.x87.stack.get(place)
    {
        let [s0, s1, s2, s3, s4, s5, s6, s7, low, high] = *number;
        let name = Register::ST0 + place as u32;
        let significand = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let end = u16::from_le_bytes([low, high]);
        results.push((Parameter::PairWord(name, 0), significand));
        results.push((Parameter::PairWord(name, 1), end.into()));
    }
    results
}

/// What a general register, or a part of one, holds.
pub(crate) fn held(register: Register, gpr: &[u64; 16]) -> u64 {
    let full = gpr[register.full_register().number() & 15];
    let value = match register {
        Register::AH | Register::BH | Register::CH | Register::DH => full >> 8,
        _ => full,
    };
    match register.size() {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

/// Whether an operand with this access is written, perhaps.
pub(crate) fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
    )
}

/// The place on the stack of x87, from its top on, of what an instruction left there, if it is
/// certain that it left something.
fn left_on_stack(instruction: &Instruction, writes: impl Fn(Register) -> bool) -> Option<usize> {
    let stack = instruction.fpu_stack_increment_info();
    let first = instruction.op0_register();
    let place = match first.is_st() && writes(first) {
        true => Some(first.number()),
        false => None,
    };
    match stack.increment() {
        _ if stack.conditional() => None,
        0 => place.or_else(|| writes(Register::ST0).then_some(0)),
        pushed if pushed < 0 => Some(0),
        // Without an operand it is the second, which is the first behind it.
        1 => place
            .unwrap_or(usize::from(writes(Register::ST1)))
            .checked_sub(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};
    use sampler::X87;

    use super::*;

    fn of(code: &[u8]) -> Vec<(String, u64)> {
        let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
        let registers = Registers {
            gpr: std::array::from_fn(|number| 0x0101_0101_0101_0101 * number as u64),
            ..Registers::default()
        };
        let others = VectorState {
            vectors: std::array::from_fn(|number| [number as u8; 64]),
            masks: std::array::from_fn(|number| 10 + number as u64),
            mxcsr: 0x1f80,
            x87: X87 {
                control: 0x37f,
                status: 0,
                used: 0xff,
                stack: std::array::from_fn(|place| [place as u8; 10]),
            },
        };
        let results = results(&instruction, &registers, Some(&others));
        let named = results
            .iter()
            .map(|(name, value)| (name.to_string(), *value));
        named.collect()
    }

    fn named(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter()
            .map(|&(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// General registers have one value, in the width written (that of rdtsc is all of them); of a
    /// system call rax alone.
    #[test]
    fn general_registers() {
        let rdtsc = named(&[("pair.rax", 0), ("pair.rdx", 0x0202_0202_0202_0202)]);
        assert_eq!(of(&[0x0f, 0x31]), rdtsc);
        assert_eq!(of(&[0x0f, 0x05]), named(&[("pair.rax", 0)]));
        // push rbp
        assert_eq!(of(&[0x55]), []);
    }

    /// Vector registers have a value for each word that the instruction names.
    #[test]
    fn vectors() {
        let word = 0x0303_0303_0303_0303;
        // rcpps xmm3, xmm4
        let two = named(&[("pair.xmm3.u64[0]", word), ("pair.xmm3.u64[1]", word)]);
        assert_eq!(of(&[0x0f, 0x53, 0xdc]), two);
        // vpaddd zmm3, zmm4, zmm5
        assert_eq!(of(&[0x62, 0xf1, 0x5d, 0x48, 0xfe, 0xdd]).len(), 8);
        // kmovw k3, eax
        assert_eq!(of(&[0xc5, 0xf8, 0x92, 0xd8]), named(&[("pair.k3", 13)]));
    }

    /// Numbers of x87 are named by where they lie on the stack behind the instruction.
    #[test]
    fn the_stack() {
        let place = |place: u64| {
            let name = |word| format!("pair.st{place}.u64[{word}]");
            let words = (0x0101_0101_0101_0101 * place, 0x0101 * place);
            vec![(name(0), words.0), (name(1), words.1)]
        };
        // fld1; fsqrt; fadd st(3), st; faddp st(3), st
        assert_eq!(of(&[0xd9, 0xe8]), place(0));
        assert_eq!(of(&[0xd9, 0xfa]), place(0));
        assert_eq!(of(&[0xdc, 0xc3]), place(3));
        assert_eq!(of(&[0xde, 0xc3]), place(2));
        // fyl2x
        assert_eq!(of(&[0xd9, 0xf1]), place(0));
        // fstp qword ptr [rax]; fstp st(0); fcompp
        assert_eq!(of(&[0xdd, 0x18]), []);
        assert_eq!(of(&[0xdd, 0xd8]), []);
        assert_eq!(of(&[0xde, 0xd9]), []);
    }

    /// A part of a register is what it holds there.
    #[test]
    fn parts() {
        let mut gpr = [0; 16];
        gpr[0] = 0x1122_3344_5566_7788;
        gpr[9] = u64::MAX;
        for (register, value) in [
            (Register::RAX, 0x1122_3344_5566_7788),
            (Register::EAX, 0x5566_7788),
            (Register::AX, 0x7788),
            (Register::AL, 0x88),
            (Register::AH, 0x77),
            (Register::R9D, 0xffff_ffff),
        ] {
            assert_eq!(held(register, &gpr), value, "{register:?}");
        }
    }
}
