//! Vector and mask registers, and those of x87.

use iced_x86::{
    CpuidFeature, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Whether what an instruction does depends on a vector or mask register, or on one of x87, where a
/// push depends on what is on the stack. One whose result does not depend on what is in its
/// operands reads none.
pub fn reads_vectors(instruction: &Instruction) -> bool {
    if is_of_x87(instruction) {
        return true;
    }
    let is_one =
        |register: Register| register.is_vector_register() || register.is_k() || register.is_mm();
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

/// Whether the instruction is one of x87 that depends on its state. MMX instructions say by their
/// operands what they depend on.
fn is_of_x87(instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    let features = instruction.cpuid_features();
    let is_one = features
        .iter()
        .any(|feature| matches!(feature, F::FPU | F::FPU287 | F::FPU387));
    is_one
        && !matches!(
            instruction.mnemonic(),
            Mnemonic::Fninit | Mnemonic::Fnop | Mnemonic::Wait
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoded;

    /// Loads and zeroing idioms read no vector register; moves from one, arithmetic, what a mask
    /// picks, and x87 do.
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
        // movq mm0, [rax]; paddd mm0, mm1
        assert!(!reads(&[0x0f, 0x6f, 0x00]));
        assert!(reads(&[0x0f, 0xfe, 0xc1]));
        // fld qword ptr [rax]; fcomi st0, st1; fcmovb st0, st1; fninit; fwait
        assert!(reads(&[0xdd, 0x00]));
        assert!(reads(&[0xdb, 0xf1]));
        assert!(reads(&[0xda, 0xc1]));
        assert!(!reads(&[0xdb, 0xe3]));
        assert!(!reads(&[0x9b]));
        // vmovdqu32 zmm0{k1}{z}, [rax]
        assert!(reads(&[0x62, 0xf1, 0x7e, 0xc9, 0x6f, 0x00]));
    }
}
