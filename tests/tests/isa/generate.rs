//! Instructions from the decoder's tables, with a state to run them in.

use iced_x86::{
    Code, Encoder, Instruction, Mnemonic, OpCodeInfo, OpCodeOperandKind, OpKind, Register,
    RoundingControl,
};
use interpreter::{Decoded, Support};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use crate::address::{self, Place};
use crate::native::{CODE, CODE_STRIDE, DATA, DATA_BYTES, Slot};
use crate::trampoline::{STUB_BYTES, stub};
use crate::tune;
use crate::values::{self, BLOCK, Class, Pool};

/// Instructions are tried anew this often when operands do not go together.
const ATTEMPTS: usize = 16;

/// An instruction in its slot.
pub(crate) struct Case {
    pub(crate) decoded: Decoded,
    pub(crate) bytes: Vec<u8>,
    /// Its address.
    pub(crate) entry: u64,
    /// Process address less image address.
    pub(crate) bias: u64,
}

/// Makes instructions. What it draws depends on `rng` alone.
pub(crate) struct Maker<'a> {
    pub(crate) rng: &'a mut SmallRng,
    pub(crate) pool: &'a Pool,
    pub(crate) slot: &'a mut Slot,
    /// Stubs before and behind the instruction.
    pub(crate) stubs: [u64; 2],
    pub(crate) entry: u64,
    /// Linear address of the explicit memory operand.
    pub(crate) address: Option<u64>,
}

/// Why there is no case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCase {
    /// The encoder did not take the operands.
    NotEncoded,
    /// It is not to be run: the interpreter stops there whatever the state.
    Stops,
}

/// Fills slot number `number` with an instruction of `code` and a state.
pub(crate) fn make(
    code: Code,
    number: usize,
    rng: &mut SmallRng,
    pool: &Pool,
    slot: &mut Slot,
    room: &mut [u8],
) -> Result<Case, NoCase> {
    let start = CODE + number as u64 * CODE_STRIDE;
    // Not at an even place always, and with room for both stubs within reach of a byte.
    let entry = start + 64 + rng.random_range(0..16u64);
    let stubs = [start + rng.random_range(0..16u64), start + 160];
    let mut maker = Maker {
        rng,
        pool,
        slot,
        stubs,
        entry,
        address: None,
    };
    let bytes = (0..ATTEMPTS)
        .find_map(|_| maker.instruction(code))
        .ok_or(NoCase::NotEncoded)?;
    let bias = match rng.random_range(0..3) {
        0 => 0,
        1 => 0x7f00_0000_0000,
        _ => rng.random(),
    };
    let decoded = Decoded::new(&bytes, entry.wrapping_sub(bias)).map_err(|_| NoCase::NotEncoded)?;
    if matches!(decoded.support(), Support::Stops(_)) {
        return Err(NoCase::Stops);
    }
    let bytes = bytes[..decoded.len()].to_vec();
    room.fill(0xcc);
    let at = (entry - start) as usize;
    room[at..at + bytes.len()].copy_from_slice(&bytes);
    let next = entry + bytes.len() as u64;
    for address in [stubs[0], next, stubs[1]] {
        let at = (address - start) as usize;
        room[at..at + STUB_BYTES].copy_from_slice(&stub(address));
    }
    slot.entry = entry;
    Ok(Case {
        decoded,
        bytes,
        entry,
        bias,
    })
}

impl Maker<'_> {
    /// The bytes of an instruction, its state prepared.
    fn instruction(&mut self, code: Code) -> Option<Vec<u8>> {
        self.state(code);
        self.address = None;
        let info = code.op_code();
        let mut instruction = Instruction::default();
        instruction.set_code(code);
        if info.can_broadcast() && self.one_in(3) {
            instruction.set_is_broadcast(true);
        }
        for operand in 0..info.op_count() {
            self.operand(&mut instruction, info, operand);
        }
        self.decorations(&mut instruction, info);
        tune::tune(self, &instruction);
        self.encode(&instruction)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_ratio(1, n)
    }

    /// Registers, flags and data, of classes that suit the instruction.
    fn state(&mut self, code: Code) {
        let class = class_of(code);
        for i in 0..self.slot.before.vectors.len() {
            let suits = class.is_some() && !self.one_in(4);
            let block = match class {
                Some(class) if suits => self.pool.of(class, self.rng),
                _ => self.pool.any(self.rng),
            };
            self.slot.before.vectors[i] = *block;
        }
        for i in 0..DATA_BYTES / BLOCK {
            let block = match class {
                Some(class) if i % 2 == 0 => self.pool.of(class, self.rng),
                _ => self.pool.any(self.rng),
            };
            self.slot.data_before[i * BLOCK..(i + 1) * BLOCK].copy_from_slice(block);
        }
        let before = &mut self.slot.before;
        before.gpr.fill_with(|| values::integer(self.rng));
        before.masks.fill_with(|| values::integer(self.rng));
        // CF PF AF ZF SF OF; the direction flag is rarely set.
        before.rflags = self.rng.random::<u64>() & 0x8d5 | 2;
        before.rflags |= u64::from(self.rng.random_ratio(1, 4)) << 10;
        // All exceptions masked; any rounding, sometimes flush to zero and denormals are zeros.
        before.mxcsr = 0x1f80 | self.rng.random_range(0..4u32) << 13;
        if self.rng.random_ratio(1, 6) {
            before.mxcsr |= u32::from(self.rng.random::<bool>()) << 15;
            before.mxcsr |= u32::from(self.rng.random::<bool>()) << 6;
        }
        let stack = self.rng.random_range(1024..3072u64) & !7;
        let odd = u64::from(self.one_in(8));
        self.set(Register::RSP, DATA + stack + odd);
    }

    /// Sets a general register (all of it).
    pub(crate) fn set(&mut self, register: Register, value: u64) {
        self.slot.before.gpr[register.full_register().number() & 15] = value;
    }

    /// A general register (all of it).
    pub(crate) fn get(&self, register: Register) -> u64 {
        self.slot.before.gpr[register.full_register().number() & 15]
    }

    /// Writes to the data page, as far as it reaches.
    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = address.wrapping_sub(DATA).wrapping_add(i as u64) as usize;
            if let Some(place) = self.slot.data_before.get_mut(at) {
                *place = *byte;
            }
        }
    }

    /// Reads from the data page; zero beyond it.
    pub(crate) fn peek(&self, address: u64) -> u64 {
        let at = address.wrapping_sub(DATA) as usize;
        let bytes = self.slot.data_before.get(at..).unwrap_or_default();
        bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// A register of `count` from `first` on.
    fn register(&mut self, first: Register, count: u32) -> Register {
        first + self.rng.random_range(0..count)
    }

    fn operand(&mut self, instruction: &mut Instruction, info: &OpCodeInfo, operand: u32) {
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
            return self.memory(instruction, operand, Place::Plain);
        }
        let high = if info.encoding() == iced_x86::EncodingKind::EVEX {
            32
        } else {
            16
        };
        let register = match kind {
            K::mem | K::mem_mpx | K::mem_mib | K::sibmem => {
                return self.memory(instruction, operand, Place::Plain);
            }
            K::mem_offs => return self.memory(instruction, operand, Place::Offset),
            K::mem_vsib32x | K::mem_vsib32y | K::mem_vsib32z => {
                let index = self.vector_index(kind, high);
                return self.memory(instruction, operand, Place::Lanes(index, 4));
            }
            K::mem_vsib64x | K::mem_vsib64y | K::mem_vsib64z => {
                let index = self.vector_index(kind, high);
                return self.memory(instruction, operand, Place::Lanes(index, 8));
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

    /// Prefixes, masks, rounding.
    fn decorations(&mut self, instruction: &mut Instruction, info: &OpCodeInfo) {
        let in_memory = instruction.op0_kind() == OpKind::Memory;
        let within = self
            .address
            .is_some_and(|at| address::within_a_line(instruction.mnemonic(), at));
        if info.can_use_lock_prefix() && in_memory && within && self.one_in(3) {
            instruction.set_has_lock_prefix(true);
        }
        let string = instruction.is_string_instruction();
        if string && self.one_in(8) {
            // With 32-bit addresses an offset cannot be negative.
            instruction.set_segment_prefix(Register::FS);
        }
        if info.can_use_rep_prefix() && (string && self.one_in(2) || self.one_in(16)) {
            instruction.set_has_rep_prefix(true);
        } else if info.can_use_repne_prefix() && (string && self.one_in(2) || self.one_in(16)) {
            instruction.set_has_repne_prefix(true);
        }
        let needs_mask = info.require_op_mask_register();
        if info.can_use_op_mask_register() && (needs_mask || self.one_in(2)) {
            instruction.set_op_mask(self.register(Register::K1, 7));
            if info.can_use_zeroing_masking() && !in_memory && self.one_in(2) {
                instruction.set_zeroing_masking(true);
            }
        }
        let no_memory = instruction.op_kinds().all(|kind| kind != OpKind::Memory);
        if no_memory && info.can_use_rounding_control() && self.one_in(3) {
            instruction.set_rounding_control(match self.rng.random_range(0..4) {
                0 => RoundingControl::RoundToNearest,
                1 => RoundingControl::RoundDown,
                2 => RoundingControl::RoundUp,
                _ => RoundingControl::RoundTowardZero,
            });
        } else if no_memory && info.can_suppress_all_exceptions() && self.one_in(3) {
            instruction.set_suppress_all_exceptions(true);
        }
    }

    /// Encodes it, with bits that mean nothing set at random and now and then a prefix that means
    /// nothing, or another thing.
    fn encode(&mut self, instruction: &Instruction) -> Option<Vec<u8>> {
        const PREFIXES: [u8; 11] = [
            0x66, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x40, 0x48, 0x4f, 0x41,
        ];
        let mut encoder = Encoder::new(64);
        let bits: u32 = self.rng.next_u32();
        encoder.set_prevent_vex2(bits & 1 != 0);
        encoder.set_vex_wig(bits >> 1 & 1);
        encoder.set_vex_lig(bits >> 2 & 1);
        encoder.set_evex_wig(bits >> 3 & 1);
        encoder.set_evex_lig((bits >> 4 & 3) % 3);
        // It may mean another address: not for what locks a cache line, see `within_a_line`.
        let locks = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        let prefixed = !locks && (bits >> 8).is_multiple_of(12);
        let before = prefixed.then(|| PREFIXES[self.rng.random_range(0..PREFIXES.len())]);
        // A prefix moves the end of the instruction, from which addresses and targets count.
        let start = self.entry + u64::from(prefixed);
        encoder.encode(instruction, start).ok()?;
        let mut bytes: Vec<u8> = before.into_iter().collect();
        bytes.extend(encoder.take_buffer());
        // Some combinations of registers the decoder alone refuses.
        Decoded::new(&bytes, self.entry).is_ok().then_some(bytes)
    }
}

/// The class of values that an instruction works on, if it has one.
fn class_of(code: Code) -> Option<Class> {
    use Mnemonic as M;
    use iced_x86::MemorySize as S;
    let mut sample = Instruction::default();
    sample.set_code(code);
    let mnemonic = code.mnemonic();
    if matches!(
        mnemonic,
        M::Pcmpestri
            | M::Pcmpestrm
            | M::Pcmpistri
            | M::Pcmpistrm
            | M::Vpcmpestri
            | M::Vpcmpestrm
            | M::Vpcmpistri
            | M::Vpcmpistrm
    ) {
        return Some(Class::Text);
    }
    match sample.memory_size().element_type() {
        S::Float32 => Some(Class::Single),
        S::Float64 => Some(Class::Double),
        S::Float16 => Some(Class::Half),
        _ => None,
    }
}
