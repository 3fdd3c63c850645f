//! Instructions that are not interpreted: where they store, and when they raise an exception.

use iced_x86::{EncodingKind, Mnemonic, OpKind};

use super::vector;
use crate::decode::Decoded;
use crate::effects::{Effects, Place, pointer};
use crate::machine::{Machine, RCX, check_canonical};
use crate::operand::number;
use crate::stop::StopReason;
use crate::vector::HALF;
use crate::window::Access;
use crate::word::Width;

/// An error if the instruction raises an exception whatever it computes.
pub(crate) fn check(m: &Machine<'_>, d: &Decoded) -> Result<(), StopReason> {
    let instruction = d.instruction();
    // Both read a register of the system by its number.
    let greatest = match instruction.mnemonic() {
        Mnemonic::Rdpkru => 0,
        Mnemonic::Xgetbv => 1,
        _ => u64::MAX,
    };
    let selected = m.part(RCX, Width::B32).all();
    if selected.is_some_and(|selected| selected > greatest) {
        return Err(StopReason::FaultingInstruction);
    }
    let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
    let bytes = instruction.memory_size().size();
    if in_memory && bytes == HALF && instruction.encoding() == EncodingKind::Legacy {
        vector::check_alignment(m, d, bytes)?;
    }
    Ok(())
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
