//! Stubs of a procedure linkage table (PLT): a jump through a word that the dynamic linker fills.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

/// How a jump names its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jump {
    /// By its address.
    Direct,
    /// Through memory, as a stub does.
    Memory,
    /// Through a register.
    Register,
}

impl Jump {
    /// How an unconditional jump names its target; `None` of another instruction.
    pub fn of(instruction: &Instruction) -> Option<Jump> {
        if instruction.mnemonic() != Mnemonic::Jmp {
            return None;
        }
        match instruction.op0_kind() {
            OpKind::Memory => Some(Jump::Memory),
            OpKind::Register => Some(Jump::Register),
            _ => Some(Jump::Direct),
        }
    }
}

/// Whether an indirect branch may land there under control-flow enforcement: a stub may begin so.
pub fn is_landing_pad(instruction: &Instruction) -> bool {
    instruction.code() == Code::Endbr64
}

/// Whether the instruction jumps through a word whose address the code names.
pub fn jumps_through_slot(instruction: &Instruction) -> bool {
    Jump::of(instruction) == Some(Jump::Memory) && instruction.is_ip_rel_memory_operand()
}

/// Whether an entry that is bound when it is first called goes on with the instruction: it pushes
/// the number that the binder knows the entry by.
pub fn binds_lazily(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Push && instruction.try_immediate(0).is_ok()
}

/// The address of the word that the stub `[endbr64] jmp [rip+slot]` jumps through, if `bytes` at
/// `address` are a stub and nothing else.
///
/// What follows the jump must be what linkers put there, so that a stub of 8 bytes is not taken for
/// the second half of the one before it.
pub fn slot_of_stub(bytes: &[u8], address: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut jump = decoder.decode();
    if is_landing_pad(&jump) {
        jump = decoder.decode();
    }
    if !jumps_through_slot(&jump) {
        return None;
    }
    if decoder.can_decode() {
        let filler = decoder.decode().mnemonic();
        if !matches!(filler, Mnemonic::Push | Mnemonic::Nop | Mnemonic::INVALID) {
            return None;
        }
    }
    Some(jump.memory_displacement64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded;

    /// Stubs with and without a landing pad are found, with the word that they jump through.
    #[test]
    fn stubs() {
        let short = [0xff, 0x25, 0x0a, 0, 0, 0, 0x66, 0x90];
        assert_eq!(slot_of_stub(&short, 0x1000), Some(0x1010));
        let lazy = [0xff, 0x25, 0x0a, 0, 0, 0, 0x68, 1, 0, 0, 0];
        assert_eq!(slot_of_stub(&lazy, 0x1000), Some(0x1010));
        let pad = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 6, 0, 0, 0];
        assert_eq!(slot_of_stub(&pad, 0x1000), Some(0x1010));
    }

    /// Code that goes on behind the jump, and jumps that name no word, are no stubs.
    #[test]
    fn no_stubs() {
        let code = [0xff, 0x25, 0x0a, 0, 0, 0, 0x31, 0xc0];
        assert_eq!(slot_of_stub(&code, 0x1000), None);
        assert_eq!(slot_of_stub(&[0xff, 0x20], 0x1000), None);
        assert_eq!(slot_of_stub(&[0xeb, 0], 0x1000), None);
        assert_eq!(slot_of_stub(&[], 0x1000), None);
    }

    /// What a lazily bound entry pushes is a number, and no register.
    #[test]
    fn lazy_entries() {
        assert!(binds_lazily(&decoded(&[0x68, 1, 0, 0, 0])));
        assert!(!binds_lazily(&decoded(&[0x50])));
    }
}
