//! Whether a symbol without type and size is a function, or a label inside the one before it.
//!
//! The code tells. Control never falls into a function from the code before it, and no jump leads
//! from the code on its one side to the code on its other side, but to the function's first
//! instruction. A label lacks one of the two.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};

/// Code behind the beginning of a function that is looked at, in bytes.
pub(crate) const MOST: usize = 1 << 14;

/// Whether the address `at` begins a function of its own, in `code` that begins with the function
/// before it and ends where the next one begins.
pub(crate) fn is_function(code: &[u8], start: u64, at: u64, is_64: bool) -> bool {
    let bits = if is_64 { 64 } else { 32 };
    let end = start.saturating_add(code.len() as u64);
    let mut decoder = Decoder::with_ip(bits, code, start, DecoderOptions::NONE);
    let mut falls = true;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let ip = instruction.ip();
        if ip == at && falls {
            return false;
        }
        if ip < at && instruction.next_ip() > at {
            // In the middle of an instruction: what is in front of it is no code.
            return false;
        }
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let near = matches!(
            instruction.op0_kind(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        );
        if jumps && near {
            let target = instruction.near_branch_target();
            let conditional = instruction.flow_control() == FlowControl::ConditionalBranch;
            let inside = (start..end).contains(&target);
            // To the beginning of the other one leads a call in tail position, too.
            let to_beginning = !conditional && (target == start || target == at);
            if inside && (ip < at) != (target < at) && !to_beginning {
                return false;
            }
        }
        if !is_padding(&instruction) {
            falls = !matches!(
                instruction.flow_control(),
                FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::Exception
            );
        }
    }
    true
}

fn is_padding(instruction: &iced_x86::Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Nop
        || matches!(instruction.code(), Code::Int3 | Code::INVALID)
        // Zeros, which some assemblers fill gaps with.
        || instruction.code() == Code::Add_rm8_r8 && instruction.len() == 2 && is_zeros(instruction)
        // Exchanges of a register with itself, and the like.
        || instruction.mnemonic() == Mnemonic::Xchg
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register()
}

fn is_zeros(instruction: &iced_x86::Instruction) -> bool {
    instruction.op1_register() == iced_x86::Register::AL
        && matches!(
            instruction.memory_base(),
            iced_x86::Register::RAX | iced_x86::Register::EAX
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What control falls into, or is jumped to from the other side, is a label; what stands
    /// behind a return and is reached by calls alone is a function.
    #[test]
    fn labels_and_functions() {
        // dec ecx; jnz back to the label at 0x1002: control falls in.
        let falls = [0x31, 0xc0, 0xff, 0xc9, 0x75, 0xfc, 0xc3];
        assert!(!is_function(&falls, 0x1000, 0x1002, true));
        // jz to the label behind the return.
        let jumped = [0x74, 0x01, 0xc3, 0x31, 0xc0, 0xc3];
        assert!(!is_function(&jumped, 0x1000, 0x1003, true));
        // A return, padding, and a function that ends with a jump to the first one's beginning.
        let apart = [0x31, 0xc0, 0xc3, 0x90, 0x66, 0x90, 0xff, 0xc9, 0xeb, 0xf6];
        assert!(is_function(&apart, 0x1000, 0x1006, true));
        // A way back into the middle of the function before: a label of an outlined part.
        let back = [0x31, 0xc0, 0xc3, 0xff, 0xc9, 0x75, 0xfb];
        assert!(!is_function(&back, 0x1000, 0x1003, true));
        // In the middle of an instruction.
        assert!(!is_function(
            &[0xb8, 1, 0, 0, 0, 0xc3],
            0x1000,
            0x1002,
            true
        ));
    }
}
