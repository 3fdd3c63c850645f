//! Operands, of every kind that the decoder's tables name.

use iced_x86::{EncodingKind, Instruction, OpCodeInfo, OpCodeOperandKind, OpKind, Register};
use rand::RngExt as _;

use crate::address::AddressForm;
use crate::generate::Maker;
use crate::values;

impl Maker<'_> {
    /// A register of `count` from `first` on.
    pub(crate) fn register(&mut self, first: Register, count: u32) -> Register {
        first + self.rng.random_range(0..count)
    }

    /// Draws an operand of the kind that the instruction has there.
    pub(crate) fn operand(
        &mut self,
        instruction: &mut Instruction,
        info: &OpCodeInfo,
        operand: u32,
    ) {
        use OpCodeOperandKind as K;
        let kind = info.op_kind(operand);
        let or_memory = matches!(
            kind,
            K::r8_or_mem
                | K::r16_or_mem
                | K::r32_or_mem
                | K::r32_or_mem_mpx
                | K::r64_or_mem
                | K::r64_or_mem_mpx
                | K::mm_or_mem
                | K::xmm_or_mem
                | K::ymm_or_mem
                | K::zmm_or_mem
                | K::k_or_mem
        );
        if or_memory && (instruction.is_broadcast() || self.one_in(2)) {
            return self.memory(instruction, operand, AddressForm::Plain);
        }
        let high = if info.encoding() == EncodingKind::EVEX {
            32
        } else {
            16
        };
        let register = match kind {
            K::mem | K::mem_mpx | K::mem_mib | K::sibmem => {
                return self.memory(instruction, operand, AddressForm::Plain);
            }
            K::mem_offs => return self.memory(instruction, operand, AddressForm::Offset),
            K::mem_vsib32x | K::mem_vsib32y | K::mem_vsib32z => {
                let index = self.vector_index(kind, high);
                return self.memory(instruction, operand, AddressForm::Lanes(index, 4));
            }
            K::mem_vsib64x | K::mem_vsib64y | K::mem_vsib64z => {
                let index = self.vector_index(kind, high);
                return self.memory(instruction, operand, AddressForm::Lanes(index, 8));
            }
            K::r8_or_mem | K::r8_reg | K::r8_opcode => self.register(Register::AL, 20),
            K::r16_or_mem | K::r16_reg | K::r16_reg_mem | K::r16_rm | K::r16_opcode => {
                self.register(Register::AX, 16)
            }
            K::r32_or_mem
            | K::r32_or_mem_mpx
            | K::r32_reg
            | K::r32_reg_mem
            | K::r32_rm
            | K::r32_opcode
            | K::r32_vvvv => self.register(Register::EAX, 16),
            K::r64_or_mem
            | K::r64_or_mem_mpx
            | K::r64_reg
            | K::r64_reg_mem
            | K::r64_rm
            | K::r64_opcode
            | K::r64_vvvv => self.register(Register::RAX, 16),
            K::seg_reg => self.register(Register::ES, 6),
            K::k_or_mem | K::k_reg | K::k_rm | K::k_vvvv => self.register(Register::K0, 8),
            K::kp1_reg => Register::K0 + 2 * self.rng.random_range(0..4),
            K::mm_or_mem | K::mm_reg | K::mm_rm => self.register(Register::MM0, 8),
            K::xmm_or_mem | K::xmm_reg | K::xmm_rm | K::xmm_vvvv => {
                self.register(Register::XMM0, high)
            }
            K::xmm_is4 | K::xmm_is5 => self.register(Register::XMM0, 16),
            K::xmmp3_vvvv => Register::XMM0 + 4 * self.rng.random_range(0..8),
            K::ymm_or_mem | K::ymm_reg | K::ymm_rm | K::ymm_vvvv => {
                self.register(Register::YMM0, high)
            }
            K::ymm_is4 | K::ymm_is5 => self.register(Register::YMM0, 16),
            K::zmm_or_mem | K::zmm_reg | K::zmm_rm | K::zmm_vvvv => {
                self.register(Register::ZMM0, 32)
            }
            K::zmmp3_vvvv => Register::ZMM0 + 4 * self.rng.random_range(0..8),
            K::es => Register::ES,
            K::cs => Register::CS,
            K::ss => Register::SS,
            K::ds => Register::DS,
            K::fs => Register::FS,
            K::gs => Register::GS,
            K::al => Register::AL,
            K::cl => Register::CL,
            K::ax => Register::AX,
            K::dx => Register::DX,
            K::eax => Register::EAX,
            K::rax => Register::RAX,
            K::st0 => Register::ST0,
            K::sti_opcode => self.register(Register::ST0, 8),
            _ => return self.other(instruction, operand, kind),
        };
        instruction.set_op_kind(operand, OpKind::Register);
        instruction.set_op_register(operand, register);
    }

    /// The index of a gather or scatter.
    fn vector_index(&mut self, kind: OpCodeOperandKind, high: u32) -> Register {
        use OpCodeOperandKind as K;
        let first = match kind {
            K::mem_vsib32x | K::mem_vsib64x => Register::XMM0,
            K::mem_vsib32y | K::mem_vsib64y => Register::YMM0,
            _ => Register::ZMM0,
        };
        self.register(first, high)
    }

    /// Immediates, branch targets, and memory that an encoding implies.
    fn other(&mut self, instruction: &mut Instruction, operand: u32, kind: OpCodeOperandKind) {
        use OpCodeOperandKind as K;
        let narrow = self.one_in(5);
        let string = |wide, narrowed| if narrow { narrowed } else { wide };
        let target = self.stubs[self.rng.random_range(0..2)];
        let kind = match kind {
            K::imm8
            | K::imm4_m2z
            | K::imm8_const_1
            | K::imm8sex16
            | K::imm8sex32
            | K::imm8sex64 => {
                return self.immediate_byte(instruction, operand, kind);
            }
            K::imm16 => {
                instruction.set_immediate16(values::integer(self.rng) as u16);
                OpKind::Immediate16
            }
            K::imm32 => {
                instruction.set_immediate32(values::integer(self.rng) as u32);
                OpKind::Immediate32
            }
            K::imm32sex64 => {
                instruction.set_immediate32to64(i64::from(values::integer(self.rng) as i32));
                OpKind::Immediate32to64
            }
            K::imm64 => {
                instruction.set_immediate64(values::integer(self.rng));
                OpKind::Immediate64
            }
            K::seg_rSI => string(OpKind::MemorySegRSI, OpKind::MemorySegESI),
            K::es_rDI => string(OpKind::MemoryESRDI, OpKind::MemoryESEDI),
            K::seg_rDI => string(OpKind::MemorySegRDI, OpKind::MemorySegEDI),
            K::seg_rBX_al => {
                instruction.set_memory_base(if narrow { Register::EBX } else { Register::RBX });
                instruction.set_memory_index(Register::AL);
                OpKind::Memory
            }
            K::br64_1 | K::br64_4 => {
                instruction.set_near_branch64(target);
                OpKind::NearBranch64
            }
            K::br16_1 | K::br16_2 => {
                instruction.set_near_branch16(target as u16);
                OpKind::NearBranch16
            }
            // The encoder refuses the rest.
            _ => return,
        };
        // Both operands of a string instruction have one address size.
        let first = instruction.op0_kind();
        let kind = match (operand, first, kind) {
            (1, OpKind::MemoryESRDI, OpKind::MemorySegESI) => OpKind::MemorySegRSI,
            (1, OpKind::MemoryESEDI, OpKind::MemorySegRSI) => OpKind::MemorySegESI,
            (1, OpKind::MemorySegRSI, OpKind::MemoryESEDI) => OpKind::MemoryESRDI,
            (1, OpKind::MemorySegESI, OpKind::MemoryESRDI) => OpKind::MemoryESEDI,
            _ => kind,
        };
        instruction.set_op_kind(operand, kind);
    }

    fn immediate_byte(
        &mut self,
        instruction: &mut Instruction,
        operand: u32,
        kind: OpCodeOperandKind,
    ) {
        use OpCodeOperandKind as K;
        let byte = if self.one_in(2) {
            self.rng.random()
        } else {
            values::integer(self.rng) as u8
        };
        let second = (0..operand).any(|i| {
            matches!(
                instruction.op_kind(i),
                OpKind::Immediate8 | OpKind::Immediate16
            )
        });
        let kind = match kind {
            K::imm8sex16 => {
                instruction.set_immediate8to16(i16::from(byte as i8));
                OpKind::Immediate8to16
            }
            K::imm8sex32 => {
                instruction.set_immediate8to32(i32::from(byte as i8));
                OpKind::Immediate8to32
            }
            K::imm8sex64 => {
                instruction.set_immediate8to64(i64::from(byte as i8));
                OpKind::Immediate8to64
            }
            K::imm8 if second => {
                instruction.set_immediate8_2nd(byte);
                OpKind::Immediate8_2nd
            }
            K::imm8_const_1 => {
                instruction.set_immediate8(1);
                OpKind::Immediate8
            }
            K::imm4_m2z => {
                instruction.set_immediate8(byte & 15);
                OpKind::Immediate8
            }
            _ => {
                instruction.set_immediate8(byte);
                OpKind::Immediate8
            }
        };
        instruction.set_op_kind(operand, kind);
    }
}
