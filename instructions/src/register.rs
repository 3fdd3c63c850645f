//! Registers: their names, and operands that are one register.

use iced_x86::{Instruction, OpKind, Register};

/// The name of a register as disassemblers, the database and the reports write it.
pub fn register_name(register: Register) -> String {
    let name = format!("{register:?}").to_ascii_lowercase();
    // The decoder calls the low bytes of r8 to r15 r8l to r15l.
    match name.strip_suffix('l') {
        Some(stem) if stem.starts_with('r') => format!("{stem}b"),
        _ => name,
    }
}

/// Whether two operands of an instruction are the same register.
pub fn is_same_register(instruction: &Instruction, a: u32, b: u32) -> bool {
    instruction.op_count() > a.max(b)
        && instruction.op_kind(a) == OpKind::Register
        && instruction.op_kind(b) == OpKind::Register
        && instruction.op_register(a) == instruction.op_register(b)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Names are those of disassemblers, and no two general registers share one.
    #[test]
    fn names() {
        assert_eq!(register_name(Register::R8L), "r8b");
        assert_eq!(register_name(Register::AL), "al");
        assert_eq!(register_name(Register::R15D), "r15d");
        assert_eq!(register_name(Register::XMM0), "xmm0");
        let mut seen = HashSet::new();
        for register in Register::values().filter(|register| register.is_gpr()) {
            assert!(seen.insert(register_name(register)), "{register:?}");
        }
    }
}
