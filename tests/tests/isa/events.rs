//! What a value event should have said, by what the processor did.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use interpreter::Parameter;

use crate::generate::Case;
use crate::native::{DATA, DATA_BYTES, NativeState, SEGMENT_BASES, Slot};
use crate::registers::general;
use crate::x87;

/// Whether a branch was taken.
pub(crate) fn is_taken(case: &Case, slot: &Slot) -> bool {
    slot.arrived != case.entry + case.bytes.len() as u64
}

/// The value of a parameter, where it can be told.
pub(crate) fn real_value(case: &Case, slot: &Slot, parameter: Parameter) -> Option<u64> {
    let instruction = case.decoded.instruction();
    let (before, after) = (&slot.before, &slot.after);
    let memory = |data: &[u8; DATA_BYTES], i: u8| {
        let address = address(case, before, after)?;
        // A memory operand narrower than a word, one of several words, or a lane repeated.
        let bytes = instruction.memory_size().size();
        let bytes = bytes.saturating_sub(8 * usize::from(i)).min(8);
        load(data, address.wrapping_add(8 * u64::from(i)), bytes)
    };
    match parameter {
        Parameter::Dest(register) => general(&after.gpr, register),
        Parameter::Double(register) if register.is_st() => {
            x87::double(&before.x87, &after.x87, register)
        }
        Parameter::DestWord(register, i) if register.is_st() => {
            x87::word(&before.x87, &after.x87, register, i)
        }
        Parameter::DestWord(register, _) if register.is_mm() => x87::mmx(&after.x87, register),
        Parameter::Single(register) => Some(word(after, register, 0)? & u64::from(u32::MAX)),
        Parameter::Double(register) => word(after, register, 0),
        Parameter::DestWord(register, i) => word(after, register, i),
        Parameter::Taken => Some(is_taken(case, slot).into()),
        Parameter::Ea => address(case, before, after),
        Parameter::Base => general(&before.gpr, instruction.memory_base()),
        Parameter::Mem => memory(&slot.data_after, 0),
        Parameter::MemWord(i) => memory(&slot.data_after, i),
        Parameter::Load | Parameter::Old => memory(&slot.data_before, 0),
        Parameter::LoadWord(i) | Parameter::OldWord(i) => memory(&slot.data_before, i),
        Parameter::Target => Some(slot.arrived),
        Parameter::Ret => Some(before.gpr[0]),
        Parameter::VectorRet => word(before, Register::XMM0, 0),
        Parameter::Operand(i) => match instruction.op_kind(u32::from(i)) {
            OpKind::Register => general(&before.gpr, instruction.op_register(u32::from(i))),
            _ => None,
        },
        // Calls are reported by themselves, and pairs are no window's.
        Parameter::Arg(_)
        | Parameter::ArgIn(_)
        | Parameter::VectorArg(_)
        | Parameter::Pair(_)
        | Parameter::PairWord(..)
        | Parameter::PairMem
        | Parameter::Result
        | Parameter::VectorResult => None,
        // So are system calls; the rest are of several instructions.
        Parameter::Stride
        | Parameter::Line
        | Parameter::Reload
        | Parameter::Silent
        | Parameter::Syscall(_)
        | Parameter::Sched
        | Parameter::Text(_) => None,
    }
}

/// Bytes of the data page, zero-extended.
fn load(data: &[u8; DATA_BYTES], address: u64, bytes: usize) -> Option<u64> {
    let at = address.wrapping_sub(DATA) as usize;
    let mut word = [0; 8];
    let from = data.get(at..at.checked_add(bytes)?)?;
    word.get_mut(..bytes)?.copy_from_slice(from);
    Some(u64::from_le_bytes(word))
}

/// 64 bits of a vector register.
fn word(state: &NativeState, register: Register, i: u8) -> Option<u64> {
    let bytes = state.vectors.get(register.number())?;
    let words = bytes.as_chunks().0;
    words
        .get(usize::from(i))
        .map(|word| u64::from_le_bytes(*word))
}

/// The linear address of the explicit memory operand, by the decoder's own rules.
fn address(case: &Case, before: &NativeState, after: &NativeState) -> Option<u64> {
    let instruction = case.decoded.instruction();
    let operand =
        (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory)?;
    // An address made from rsp uses the popped one.
    let from = if instruction.mnemonic() == Mnemonic::Pop {
        after
    } else {
        before
    };
    // Of the segment's base only at the end: an offset may wrap before.
    let offset = instruction.virtual_address(operand, 0, |register, _, _| match register {
        _ if register.is_segment_register() => Some(0),
        _ => general(&from.gpr, register),
    })?;
    let bias = match instruction.memory_base() {
        Register::RIP | Register::EIP => case.bias,
        _ => 0,
    };
    let offset = offset
        .wrapping_add(bias)
        .wrapping_add(bit_string(instruction, before));
    let narrow = match (instruction.memory_base(), instruction.memory_index()) {
        (Register::None, Register::None) => instruction.memory_displ_size() == 4,
        (base, index) => base == Register::EIP || base.is_gpr32() || index.is_gpr32(),
    };
    let offset = if narrow {
        offset & u64::from(u32::MAX)
    } else {
        offset
    };
    let base = match instruction.memory_segment() {
        Register::FS => SEGMENT_BASES[0],
        Register::GS => SEGMENT_BASES[1],
        _ => 0,
    };
    Some(offset.wrapping_add(base))
}

/// How far a bit string's operand lies beyond its address.
fn bit_string(instruction: &Instruction, before: &NativeState) -> u64 {
    use Mnemonic as M;
    let moves = matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
    if !moves || instruction.op1_kind() != OpKind::Register {
        return 0;
    }
    let bits = 8 * instruction.memory_size().size();
    let Some(offset) = general(&before.gpr, instruction.op1_register()) else {
        return 0;
    };
    let signed = (offset << (64 - bits)).cast_signed() >> (64 - bits);
    let units = signed.div_euclid(bits as i64);
    units.wrapping_mul(bits as i64 / 8).cast_unsigned()
}
