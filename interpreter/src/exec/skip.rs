//! Instructions that are not interpreted: where they store, and when they raise an exception.

use iced_x86::{CpuidFeature, EncodingKind, Instruction, Mnemonic, OpKind};

use super::state::is_masked;
use super::vector;
use crate::decode::Decoded;
use crate::effects::{Effects, Place, pointer};
use crate::machine::{Machine, RCX, check_canonical};
use crate::operand::number;
use crate::stop::StopReason;
use crate::vector::HALF;
use crate::window::Access;
use crate::word::Width;

/// An error if the instruction raises an exception whatever it computes, or may raise one that the
/// program has a handler for.
pub(crate) fn check(m: &Machine<'_>, d: &Decoded) -> Result<(), StopReason> {
    let instruction = d.instruction();
    // Both read a register of the system by its number.
    let greatest = match instruction.mnemonic() {
        Mnemonic::Rdpkru => Some(0),
        Mnemonic::Xgetbv => Some(1),
        _ => None,
    };
    match greatest.zip(m.part(RCX, Width::B32).all()) {
        Some((greatest, selected)) if selected > greatest => {
            return Err(StopReason::FaultingInstruction);
        }
        None if greatest.is_some() => m.check_unknown()?,
        _ => {}
    }
    if may_be_refused(instruction) {
        m.check_unknown()?;
    }
    if m.registers.handlers.float && may_raise(m, instruction) {
        return Err(StopReason::FloatException);
    }
    let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    let bytes = instruction.memory_size().size();
    if in_memory && bytes == HALF && instruction.encoding() == EncodingKind::Legacy {
        vector::check_alignment(m, d, bytes)?;
    }
    Ok(())
}

/// Whether programs can have the kernel keep this from them (or have to ask for it).
fn may_be_refused(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Cpuid | M::Rdtsc | M::Rdtscp | M::Rdpmc | M::Rdpru
    )
}

/// Whether a floating-point exception may come of it: one that waits since an earlier instruction
/// of x87, or its own. All vector instructions that are not interpreted are taken for arithmetic.
fn may_raise(m: &Machine<'_>, instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    let of_x87 = instruction.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            F::FPU | F::FPU287 | F::FPU387 | F::MMX | F::D3NOW | F::D3NOWEXT
        )
    });
    let registers = (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i));
    let (mut has_mmx, mut has_vectors) = (false, false);
    for register in registers {
        has_mmx |= register.is_mm();
        has_vectors |= register.is_vector_register();
    }
    of_x87 || has_mmx || has_vectors && !m.registers.mxcsr.is_some_and(is_masked)
}

/// Makes the memory unknown that the instruction stores to.
pub(crate) fn store(m: &mut Machine<'_>, d: &Decoded, effects: &Effects) -> Result<(), StopReason> {
    if let Some(address) = m.address() {
        check_canonical(address)?;
    }
    let bytes = u64::from(effects.stored);
    match effects.place {
        Place::Nothing => load(m, effects),
        Place::Operand => m.store_unknown(m.address(), bytes),
        Place::Pointer => {
            let address = pointed(m, d)?;
            m.store_unknown(address, bytes)
        }
        Place::Anywhere => m.store_unknown(None, 0),
    }
}

/// Checks what is only loaded: what does not go through raises an exception.
fn load(m: &mut Machine<'_>, effects: &Effects) -> Result<(), StopReason> {
    match m.address() {
        Some(address) if effects.loaded => m.check(address, 1, Access::Load).map(|_| ()),
        None if effects.loaded => m.check_unknown(),
        _ => Ok(()),
    }
}

/// The linear address that a register points to.
fn pointed(m: &Machine<'_>, d: &Decoded) -> Result<Option<u64>, StopReason> {
    let (register, segment, aligned) = pointer(d.instruction()).ok_or(StopReason::Unsupported)?;
    let width = Width::from_bytes(register.size()).ok_or(StopReason::Unsupported)?;
    let offset = m.part(number(register).into(), width).all();
    let address = offset
        .zip(m.segment_base(segment))
        .map(|(offset, base)| offset.wrapping_add(base));
    match address {
        Some(address) if address % u64::from(aligned) != 0 => Err(StopReason::FaultingInstruction),
        _ => Ok(address),
    }
}
