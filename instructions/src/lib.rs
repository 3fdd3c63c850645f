//! Facts about x86-64 instructions: what the interpreter, the collector and the reports must say
//! alike.
//!
//! The crate looks at decoded instructions alone. It knows no machine state, no memory and no
//! operating system. A fact has one function here, and nobody else decides it.

mod constant;
mod lanes;
mod plt;
mod register;
mod vectors;

pub use constant::{Constant, constant, loaded_place};
pub use lanes::{FloatLanes, float_lanes};
pub use plt::{Jump, binds_lazily, is_landing_pad, jumps_through_slot, slot_of_stub};
pub use register::{is_same_register, register_name};
pub use vectors::reads_vectors;

use iced_x86::{Instruction, Mnemonic, OpKind};

/// Bytes of the longest instruction.
pub const MAX_BYTES: usize = 15;

/// Whether the processor waits for its stores: at a lock, which an exchange with memory has without
/// a prefix, at a fence, and where it serializes.
pub fn fences(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Xchg => instruction.op_kinds().any(|kind| kind == OpKind::Memory),
        M::Mfence | M::Cpuid | M::Serialize => true,
        _ => instruction.has_lock_prefix(),
    }
}

/// Bytes of the operands that count, of an instruction that does nothing with them but compare;
/// 0 of any other one.
pub fn compared_bytes(instruction: &Instruction) -> u8 {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Cmp | M::Test => 8,
        M::Ucomisd | M::Vucomisd | M::Comisd | M::Vcomisd => 8,
        M::Ucomiss | M::Vucomiss | M::Comiss | M::Vcomiss => 4,
        _ => 0,
    }
}

/// Whether a memory operand of the instruction is an address only: nothing is loaded or stored.
pub fn only_computes_address(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Lea
            | M::Nop
            | M::Prefetch
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Cldemote
            | M::Reservednop
    )
}

#[cfg(test)]
fn decoded(bytes: &[u8]) -> Instruction {
    use iced_x86::{Decoder, DecoderOptions};

    let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "{bytes:x?}");
    instruction
}
