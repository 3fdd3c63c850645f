//! Instructions that read a register by their form alone.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::width;

/// The register that an instruction reads though its result is the same whatever that held: ways
/// to set a register to 0 or to all ones, and `sbb` of a register by itself, which tells the carry
/// flag. The reader of instructions knows those by `xor` and `sub`.
pub(super) fn unread(instruction: &Instruction) -> Option<Register> {
    let register = |operand: u32| {
        let is_there = operand < instruction.op_count();
        let is_register = is_there && instruction.op_kind(operand) == OpKind::Register;
        is_register.then(|| instruction.op_register(operand))
    };
    let number = |operand: u32| instruction.try_immediate(operand).ok();
    let first = register(0)?;
    let last = instruction.op_count().checked_sub(1)?;
    let (unread, is_unread) = match instruction.mnemonic() {
        Mnemonic::And => (first, number(1)? == 0),
        // A number that is shorter than the register is extended by its sign.
        Mnemonic::Or => {
            let ones = u64::MAX >> 64_u32.saturating_sub(width(first));
            (first, number(1)? & ones == ones)
        }
        Mnemonic::Sbb => (first, register(1)? == first),
        Mnemonic::Imul => (register(1)?, number(2)? == 0),
        Mnemonic::Pcmpeqb
        | Mnemonic::Pcmpeqw
        | Mnemonic::Pcmpeqd
        | Mnemonic::Pcmpeqq
        | Mnemonic::Vpcmpeqb
        | Mnemonic::Vpcmpeqw
        | Mnemonic::Vpcmpeqd
        | Mnemonic::Vpcmpeqq => {
            let of = register(last.checked_sub(1)?)?;
            (of, of.is_vector_register() && register(last)? == of)
        }
        _ => return None,
    };
    is_unread.then_some(unread)
}
