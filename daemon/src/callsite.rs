//! The call site of an interrupted function: where its return address lies, and what calls there.

use interpreter::Memory;

use crate::tables::Pc;
use crate::unwind::Slot;
use crate::view::View;
use crate::window::SampleMemory;

/// The longest call instruction: prefixes, opcode, ModRM, SIB, displacement.
const MAX_CALL: usize = 9;

/// The call site of the interrupted function: where its return address lies by the unwind
/// rules (without any, by the frame pointer), if a call instruction stands before it. The flag
/// says that the return address lies above what was copied of the stack.
pub(crate) fn call_site(
    view: &View<'_>,
    memory: &mut SampleMemory<'_, '_>,
    registers: &sampler::Registers,
    pc: Pc,
    bias: u64,
) -> (Option<Pc>, bool) {
    let Some(slot) = return_slot(view, registers, pc, bias) else {
        return (None, false);
    };
    let copied = memory.stack_start.saturating_add(memory.stack.len() as u64);
    if slot >= memory.stack_start && slot.saturating_add(8) > copied {
        return (None, true);
    }
    // Only from the stack copy: a return address is nowhere else.
    let mut bytes = [0; 8];
    if slot < memory.stack_start || !memory.read(slot, &mut bytes) {
        return (None, false);
    }
    (call_before(view, u64::from_le_bytes(bytes)), false)
}

/// Address of the return address.
fn return_slot(view: &View<'_>, registers: &sampler::Registers, pc: Pc, bias: u64) -> Option<u64> {
    let slot = {
        let mut images = view.images.borrow_mut();
        // Rules may name the PC, which they know as an ELF address.
        let process_address = pc.address.wrapping_add(bias);
        let found = images
            .unwind(pc.image)
            .map(|rules| rules.return_slot(pc.address, process_address, &registers.gpr));
        match found {
            Some(slot) => slot,
            // Where there may be rules, the frame pointer would be a guess.
            None if images.lacks_rules(pc.image) => Slot::NoCaller,
            None => Slot::NoRules,
        }
    };
    match slot {
        Slot::At(slot) => Some(slot),
        Slot::NoRules => Some(registers.gpr[5].wrapping_add(8)),
        Slot::NoCaller => None,
    }
}

/// The call instruction before a return address, if there is one.
pub(crate) fn call_before(view: &View<'_>, return_address: u64) -> Option<Pc> {
    let located = view.locate(return_address.wrapping_sub(1))?;
    if !located.mapping.executable || located.mapping.is_anon() {
        return None;
    }
    let (image, bias) = (located.pc.image, located.bias);
    let behind = return_address.wrapping_sub(bias);
    let mut images = view.images.borrow_mut();
    let length = match images.calls.get(image, behind) {
        Some(known) => known?,
        None => {
            let start = behind.wrapping_sub(MAX_CALL as u64);
            let mut code = [0; MAX_CALL];
            if images.read(image, start, &mut code) != MAX_CALL {
                return None;
            }
            let length = call_length(&code, start);
            images.calls.put(image, behind, length);
            length?
        }
    };
    Some(Pc {
        image,
        address: behind.wrapping_sub(length.into()),
    })
}

/// Length of the call instruction that ends where `code` ends.
fn call_length(code: &[u8; MAX_CALL], start: u64) -> Option<u8> {
    use iced_x86::{Decoder, DecoderOptions, FlowControl};

    // The near relative call first: by far the most frequent.
    const NEAR: usize = 5;
    if code[MAX_CALL - NEAR] == 0xe8 {
        return Some(NEAR as u8);
    }
    // Of the indirect ones the longest that fits: a shorter one is often the longer without its
    // prefix.
    let length = (2..=MAX_CALL).rev().find(|&length| {
        let at = MAX_CALL - length;
        let mut decoder = Decoder::with_ip(
            64,
            &code[at..],
            start.wrapping_add(at as u64),
            DecoderOptions::NONE,
        );
        let instruction = decoder.decode();
        instruction.len() == length
            && matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            )
    });
    // At most nine.
    length.map(|length| length as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(call: &[u8]) -> Option<u8> {
        let mut code = [0x90; MAX_CALL];
        code[MAX_CALL - call.len()..].copy_from_slice(call);
        call_length(&code, 0x1000)
    }

    /// The call before a return address is found whatever its form; what is no call is none.
    #[test]
    fn calls_before_a_return_address() {
        assert_eq!(length_of(&[0xe8, 1, 2, 3, 4]), Some(5));
        assert_eq!(length_of(&[0xff, 0xd0]), Some(2)); // call rax
        assert_eq!(length_of(&[0x41, 0xff, 0xd4]), Some(3)); // call r12
        assert_eq!(length_of(&[0xff, 0x15, 1, 2, 3, 4]), Some(6)); // call [rip+x]
        assert_eq!(length_of(&[0xff, 0x54, 0x24, 0x08]), Some(4)); // call [rsp+8]
        assert_eq!(length_of(&[0x48, 0x89, 0xc3]), None);
        assert_eq!(length_of(&[]), None);
    }
}
