//! Vector and mask registers.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

/// Whether what an instruction does depends on a vector or mask register. One whose result does not
/// depend on what is in its operands reads none.
pub fn reads_vectors(instruction: &Instruction) -> bool {
    let is_one = |register: Register| register.is_vector_register() || register.is_k();
    let names_one = (0..instruction.op_count())
        .any(|i| instruction.op_kind(i) == OpKind::Register && is_one(instruction.op_register(i)));
    if !names_one && !instruction.has_op_mask() && !instruction.is_vsib() {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers().iter();
    let mut read = used.filter(|used| {
        !matches!(
            used.access(),
            OpAccess::None | OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess
        )
    });
    read.any(|used| is_one(used.register()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded;

    /// Loads and zeroing idioms read no vector register; moves from one, arithmetic, and what a
    /// mask picks do.
    #[test]
    fn reads() {
        let reads = |bytes: &[u8]| reads_vectors(&decoded(bytes));
        // mov eax, ecx
        assert!(!reads(&[0x89, 0xc8]));
        // movdqu xmm0, [rax]
        assert!(!reads(&[0xf3, 0x0f, 0x6f, 0x00]));
        // pxor xmm0, xmm0; pxor xmm0, xmm1
        assert!(!reads(&[0x66, 0x0f, 0xef, 0xc0]));
        assert!(reads(&[0x66, 0x0f, 0xef, 0xc1]));
        // movdqu [rax], xmm0; movq rax, xmm0
        assert!(reads(&[0xf3, 0x0f, 0x7f, 0x00]));
        assert!(reads(&[0x66, 0x48, 0x0f, 0x7e, 0xc0]));
        // vmovdqu32 zmm0{k1}{z}, [rax]
        assert!(reads(&[0x62, 0xf1, 0x7e, 0xc9, 0x6f, 0x00]));
    }
}
