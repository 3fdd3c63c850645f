//! From mnemonic to what executes a vector instruction.

mod by_lane;
mod floating;
mod integer;
mod moving;

use iced_x86::{EncodingKind, Instruction, Mnemonic, OpKind, Register};

use super::{apart, bfloat, fused, lanes, masked, masks, of_mmx, sparse, text};
use crate::decode::Handler;
use by_lane::is_by_lane;
use floating::floating;
use integer::{cipher, integer};
use moving::moving;

/// The handler of a vector instruction, if its encoding and operands are such as are handled.
pub(crate) fn handler(instruction: &Instruction) -> Option<Handler> {
    let mnemonic = instruction.mnemonic();
    if let Some(handler) = of_mmx::handler(mnemonic) {
        return Some(handler);
    }
    if !has_vector_operands(instruction) {
        return None;
    }
    // Of one name are comparisons into vector registers and into masks.
    if registers(instruction).any(Register::is_k) {
        return masks::handler(mnemonic);
    }
    // Of one name are permutations by an immediate and by a vector.
    if matches!(mnemonic, Mnemonic::Vpermq | Mnemonic::Vpermpd)
        && instruction.try_immediate(2).is_err()
    {
        return Some(|m, d| lanes::permute::<u64>(m, d, 1, &[2]));
    }
    if instruction.encoding() == EncodingKind::EVEX
        && let Some(handler) = sparse::handler(mnemonic).or_else(|| bfloat::handler(mnemonic))
    {
        return Some(handler);
    }
    moving(mnemonic)
        .or_else(|| integer(mnemonic))
        .or_else(|| floating(mnemonic))
        .or_else(|| apart::handler(mnemonic))
        .or_else(|| fused::handler(mnemonic))
        .or_else(|| lanes::handler(mnemonic))
        .or_else(|| masked::handler(mnemonic))
        .or_else(|| text::handler(mnemonic))
        .or_else(|| cipher(mnemonic))
}

fn registers(instruction: &Instruction) -> impl Iterator<Item = Register> {
    (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
}

/// Whether every register is a general one, a mask or a vector register, in an encoding that is
/// handled.
fn has_vector_operands(instruction: &Instruction) -> bool {
    let encoded = match instruction.encoding() {
        EncodingKind::Legacy => !instruction.is_string_instruction(),
        EncodingKind::VEX => true,
        EncodingKind::EVEX => {
            let by_lane = instruction.has_op_mask() || instruction.is_broadcast();
            !by_lane || is_by_lane(instruction) || sparse::handler(instruction.mnemonic()).is_some()
        }
        _ => false,
    };
    let special = |register: Register| register.is_vector_register() || register.is_k();
    encoded
        && (needs_no_vector(instruction.mnemonic()) || registers(instruction).any(special))
        && registers(instruction).all(|r| r.is_gpr() || special(r))
}

/// Some have no vector register, or none if their operand lies in memory.
fn needs_no_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Ldmxcsr
            | M::Vldmxcsr
            | M::Stmxcsr
            | M::Vstmxcsr
            | M::Vzeroupper
            | M::Vzeroall
            | M::Cvtss2si
            | M::Cvttss2si
            | M::Cvtsd2si
            | M::Cvttsd2si
            | M::Vcvtss2usi
            | M::Vcvttss2usi
            | M::Vcvtsd2usi
            | M::Vcvttsd2usi
            | M::Vcvtss2si
            | M::Vcvttss2si
            | M::Vcvtsd2si
            | M::Vcvttsd2si
    )
}
