//! Instructions as text, and what of them the reports need to know.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction, InstructionInfoFactory,
    IntelFormatter, Mnemonic, OpAccess, OpKind, Register,
};
use instructions::{Constant, MAX_BYTES};

/// The mode of the processor that code runs in: the same bytes are other instructions in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessorMode {
    /// 64-bit mode.
    Long,
    /// 32-bit mode, of a process of its own or of a part of one.
    Compatibility,
}

/// Decodes the instruction of 64-bit mode at `address`; `None` if the bytes are none.
pub(crate) fn decode(bytes: &[u8], address: u64) -> Option<Instruction> {
    decode_in(ProcessorMode::Long, bytes, address)
}

/// Decodes the instruction of a mode at `address`; `None` if the bytes are none.
pub(crate) fn decode_in(mode: ProcessorMode, bytes: &[u8], address: u64) -> Option<Instruction> {
    let bits = match mode {
        ProcessorMode::Long => 64,
        ProcessorMode::Compatibility => 32,
    };
    let bytes = bytes.get(..bytes.len().min(MAX_BYTES))?;
    let instruction = Decoder::with_ip(bits, bytes, address, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Writes instructions in Intel syntax, lower case, numbers in hex.
pub(crate) struct Disassembler {
    formatter: IntelFormatter,
}

/// How tight operands stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// `mov rax, [rdi+8]`.
    Text,
    /// `mov rax,[rdi+8]`.
    Json,
}

impl Disassembler {
    /// A disassembler for one of the output forms.
    pub(crate) fn new(spacing: Spacing) -> Disassembler {
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(spacing == Spacing::Text);
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_add_leading_zero_to_hex_numbers(false);
        options.set_branch_leading_zeros(false);
        options.set_show_branch_size(false);
        Disassembler { formatter }
    }

    /// The instruction, a direct branch's target with `name` of it behind.
    pub(crate) fn text(
        &mut self,
        instruction: &Instruction,
        name: impl FnOnce(u64) -> Option<String>,
    ) -> String {
        let mut text = String::new();
        let options = self.formatter.options_mut();
        options.set_signed_immediate_operands(!counts(instruction));
        self.formatter.format(instruction, &mut text);
        if let Some(name) = direct_target(instruction).and_then(name) {
            text.push_str(" <");
            text.push_str(&name);
            text.push('>');
        }
        text
    }
}

/// Whether an instruction's immediate is a number of something, or a size, which has no sign.
fn counts(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Enter
            | Mnemonic::In
            | Mnemonic::Int
            | Mnemonic::Out
            | Mnemonic::Ret
            | Mnemonic::Retf
    )
}

/// Where a direct branch or call goes.
pub(crate) fn direct_target(instruction: &Instruction) -> Option<u64> {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
    .then(|| instruction.near_branch_target())
}

/// Whether control may go elsewhere than to the next instruction.
pub(crate) fn transfers_control(instruction: &Instruction) -> bool {
    instruction.flow_control() != FlowControl::Next
}

/// Whether a transfer's target is only known when it runs.
pub(crate) fn is_indirect(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::IndirectBranch | FlowControl::IndirectCall
    )
}

/// The registers an instruction computes, as full registers: not the
/// instruction pointer, and the stack pointer only where it is named.
pub(crate) fn destinations(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
) -> Vec<Register> {
    let named_stack = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RSP;
    let info = factory.info(instruction);
    let mut registers: Vec<Register> = info
        .used_registers()
        .iter()
        .filter(|used| writes(used.access()))
        .map(|used| used.register().full_register())
        .filter(|register| register.is_gpr() || register.is_vector_register())
        .filter(|register| *register != Register::RSP || named_stack)
        .collect();
    registers.sort_unstable();
    registers.dedup();
    registers
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// The value an instruction puts into its one general register whatever the machine's state:
/// `mov eax,5`, `xor eax,eax`, `lea rax,[rip+8]`.
pub(crate) fn constant(instruction: &Instruction) -> Option<u64> {
    if instruction.op0_kind() != OpKind::Register || !instruction.op0_register().is_gpr() {
        return None;
    }
    match instructions::constant(instruction)? {
        // A position-independent image gives another address in every process,
        // but within the image it is the same place.
        Constant::Number(value) | Constant::Place(value) => Some(value),
        Constant::Zeros | Constant::Ones => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: &[u8]) -> Instruction {
        decode(bytes, 0x1000).expect("is an instruction")
    }

    fn text(spacing: Spacing, bytes: &[u8]) -> String {
        Disassembler::new(spacing).text(&at(bytes), |_| None)
    }

    /// The spelling of both output forms.
    #[test]
    fn spelling() {
        assert_eq!(
            text(Spacing::Text, &[0x48, 0x8b, 0x47, 0x08]),
            "mov rax, [rdi+8]"
        );
        assert_eq!(
            text(Spacing::Json, &[0x48, 0x8b, 0x47, 0x08]),
            "mov rax,[rdi+8]"
        );
        assert_eq!(text(Spacing::Json, &[0x83, 0xe8, 0x7f]), "sub eax,0x7f");
        assert_eq!(
            text(Spacing::Json, &[0x83, 0x7f, 0x04, 0xff]),
            "cmp dword ptr [rdi+4],-1"
        );
        assert_eq!(text(Spacing::Json, &[0xeb, 0x0e]), "jmp 0x1010");
        assert_eq!(text(Spacing::Text, &[0xcd, 0x80]), "int 0x80");
        assert_eq!(text(Spacing::Text, &[0xe4, 0x80]), "in al, 0x80");
        assert_eq!(text(Spacing::Text, &[0xb0, 0x80]), "mov al, -0x80");
    }

    /// A direct call names its target; undecodable bytes are no instruction.
    #[test]
    fn targets() {
        let call = at(&[0xe8, 0x0b, 0, 0, 0]);
        let text =
            Disassembler::new(Spacing::Json).text(&call, |address| Some(format!("f@{address:x}")));
        assert_eq!(text, "call 0x1010 <f@1010>");
        assert!(decode(&[0x06], 0).is_none());
        assert!(decode(&[], 0).is_none());
        assert!(decode(&[0xe8, 0], u64::MAX).is_none());
    }

    /// The byte that is a prefix in 64-bit mode is an instruction in 32-bit mode.
    #[test]
    fn modes() {
        let text = |mode, bytes: &[u8]| {
            let instruction = decode_in(mode, bytes, 0x1000).expect("is an instruction");
            Disassembler::new(Spacing::Text).text(&instruction, |_| None)
        };
        let bytes = [0x40, 0x89, 0xc6];
        assert_eq!(text(ProcessorMode::Compatibility, &bytes), "inc eax");
        assert_eq!(text(ProcessorMode::Long, &bytes), "mov esi, eax");
    }

    /// Stores and compares compute no register, loads and pops do.
    #[test]
    fn destination_registers() {
        let mut factory = InstructionInfoFactory::new();
        assert_eq!(destinations(&at(&[0x48, 0x89, 0x07]), &mut factory), []);
        assert_eq!(destinations(&at(&[0x39, 0xd8]), &mut factory), []);
        assert_eq!(destinations(&at(&[0x58]), &mut factory), [Register::RAX]);
        assert_eq!(
            destinations(&at(&[0x48, 0x83, 0xec, 8]), &mut factory),
            [Register::RSP]
        );
        assert_eq!(
            destinations(&at(&[0x66, 0x0f, 0xef, 0xc0]), &mut factory),
            [Register::ZMM0]
        );
    }

    /// Values that the encoding alone fixes.
    #[test]
    fn constants() {
        assert_eq!(constant(&at(&[0xb8, 5, 0, 0, 0])), Some(5));
        assert_eq!(constant(&at(&[0x31, 0xc0])), Some(0));
        assert_eq!(
            constant(&at(&[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff])),
            Some(u64::MAX)
        );
        assert_eq!(constant(&at(&[0x48, 0x8d, 0x05, 1, 0, 0, 0])), Some(0x1008));
        assert_eq!(constant(&at(&[0x83, 0xe0, 0])), Some(0));
        assert_eq!(constant(&at(&[0x83, 0xc8, 0xff])), Some(0xffff_ffff));
        assert_eq!(constant(&at(&[0x01, 0xd8])), None);
        assert_eq!(constant(&at(&[0xc6, 0x07, 1])), None);
    }
}
