//! Instructions that are not interpreted: where they store, and when they raise an exception.

use iced_x86::{CpuidFeature, EncodingKind, Instruction, Mnemonic, OpKind, Register};

use super::state::is_masked;
use super::{vector, x87};
use crate::decode::Decoded;
use crate::effects::{Effects, StoresTo, flags_of, pointer};
use crate::host::Access;
use crate::machine::{Flow, Machine, RCX, check_canonical};
use crate::operand::number;
use crate::stop::StopReason;
use crate::vector::{HALF, Vector};
use crate::word::{Width, Word};
use crate::x87::X87;
use parameters::Parameter;

/// An instruction of which only the effects are known.
#[inline(never)]
pub(crate) fn skip(m: &mut Machine<'_>, decoded: &Decoded) -> Result<Flow, StopReason> {
    let effects = &decoded.effects;
    let instruction = decoded.instruction();
    check(m, decoded)?;
    if effects.loaded {
        m.accesses_more();
        m.event(Parameter::Load, None);
    }
    if effects.place != StoresTo::Nothing {
        m.event(Parameter::Mem, None);
        m.event(Parameter::Old, None);
    }
    store(m, decoded, effects)?;
    for number in 0..16 {
        if effects.registers >> number & 1 != 0 {
            m.registers.gpr[number] = Word::UNKNOWN;
        }
    }
    for (number, vector) in m.registers.vectors.iter_mut().enumerate() {
        if effects.vectors >> number & 1 != 0 {
            *vector = Vector::UNKNOWN;
        }
    }
    for (number, mask) in m.registers.masks.iter_mut().enumerate() {
        if effects.masks >> number & 1 != 0 {
            *mask = Word::UNKNOWN;
        }
    }
    if is_of_x87(instruction) {
        m.registers.x87 = X87::UNKNOWN;
    }
    for operand in 0..instruction.op_count() {
        if instruction.op_kind(operand) == OpKind::Register {
            report_skipped(m, instruction.op_register(operand), effects);
        }
    }
    for flag in flags_of(effects.flags_changed) {
        m.flags().set(flag, None);
    }
    for flag in flags_of(effects.flags_cleared) {
        m.flags().set(flag, Some(false));
    }
    for flag in flags_of(effects.flags_set) {
        m.flags().set(flag, Some(true));
    }
    Ok(Flow::Next)
}

/// Reports a register as unknown if an instruction that is skipped writes it.
fn report_skipped(m: &mut Machine<'_>, register: Register, effects: &Effects) {
    let written = |set: u32| set >> (register.full_register().number() & 31) & 1 != 0;
    if register.is_gpr() && written(effects.registers.into()) {
        m.event(Parameter::Dest(register), None);
    } else if register.is_vector_register() && written(effects.vectors) {
        for i in 0..register.size() / 8 {
            m.event(Parameter::DestWord(register, i as u8), None);
        }
    }
}

/// An error if the instruction raises an exception whatever it computes, or may raise one that the
/// program has a handler for.
fn check(m: &Machine<'_>, d: &Decoded) -> Result<(), StopReason> {
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
    if is_of_x87(instruction) {
        x87::wait(m)?;
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
    let has_vectors = registers(instruction).any(Register::is_vector_register);
    is_of_x87(instruction) || has_vectors && !m.registers.mxcsr.is_some_and(is_masked)
}

/// Whether the instruction works with the registers of x87, which MMX instructions have in common
/// with it.
fn is_of_x87(instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    let by_feature = instruction.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            F::FPU | F::FPU287 | F::FPU387 | F::MMX | F::D3NOW | F::D3NOWEXT
        )
    });
    by_feature || registers(instruction).any(Register::is_mm)
}

fn registers(instruction: &Instruction) -> impl Iterator<Item = Register> {
    (0..instruction.op_count())
        .filter(|i| instruction.op_kind(*i) == OpKind::Register)
        .map(|i| instruction.op_register(i))
}

/// Makes the memory unknown that the instruction stores to.
fn store(m: &mut Machine<'_>, d: &Decoded, effects: &Effects) -> Result<(), StopReason> {
    if let Some(address) = m.address() {
        check_canonical(address)?;
    }
    let bytes = u64::from(effects.stored);
    match effects.place {
        StoresTo::Nothing => load(m, effects),
        StoresTo::Operand => m.store_unknown(m.address(), bytes),
        StoresTo::Pointer => {
            let address = pointed(m, d)?;
            m.store_unknown(address, bytes)
        }
        StoresTo::Anywhere => m.store_unknown(None, 0),
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
