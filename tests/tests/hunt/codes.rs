//! Single instructions of the interpreter's coverage table, with operands that a block can have.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use iced_x86::{
    Code, CpuidFeature, Encoder, EncodingKind, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpCodeInfo, OpCodeOperandKind as Kind, OpKind, Register,
};
use rand::rngs::SmallRng;
use rand::{Rng as _, RngExt as _};

use crate::features::{Features, unfit};
use crate::layout::HALF;

/// General registers that blocks compute with; the others hold what they need.
pub(crate) const FREE: [Register; 10] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];
/// Registers that lead into regions.
pub(crate) const BASES: [Register; 4] =
    [Register::RBX, Register::R12, Register::R13, Register::R14];
/// Instructions are drawn anew this often when operands do not go together.
const ATTEMPTS: usize = 12;

/// A kind of instruction by what it works on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Family {
    Integer,
    Float,
    Sse,
    Vex,
    Evex,
    X87,
}

/// What can be drawn on this processor.
pub(crate) struct Codes(HashMap<Family, Vec<Code>>);

/// An instruction drawn.
pub(crate) struct Drawn {
    pub(crate) bytes: Vec<u8>,
    pub(crate) code: Code,
    /// What it adds to rsp.
    pub(crate) stack: i64,
}

impl Codes {
    pub(crate) fn of_this_processor(features: &Features) -> Result<Self> {
        let table = include_str!("../../../interpreter/coverage.tsv");
        let names: HashMap<String, Code> = Code::values()
            .map(|code| (format!("{code:?}"), code))
            .collect();
        let mut codes: HashMap<Family, Vec<Code>> = HashMap::new();
        for row in table.lines() {
            let (name, support) = row.split_once('\t').context("a row without a tab")?;
            let code = *names.get(name).with_context(|| format!("no code {name}"))?;
            let fits = !support.starts_with("stops")
                && features.missing(code).is_none()
                && is_repeatable(code);
            if let (true, Some(family)) = (fits, family(code)) {
                codes.entry(family).or_default().push(code);
            }
        }
        Ok(Self(codes))
    }

    /// Draws an instruction of a family.
    pub(crate) fn draw(&self, family: Family, rng: &mut SmallRng) -> Option<Drawn> {
        let codes = self.0.get(&family)?;
        (0..ATTEMPTS).find_map(|_| {
            let code = codes[rng.random_range(0..codes.len())];
            instruction(code, rng)
        })
    }
}

fn family(code: Code) -> Option<Family> {
    let info = code.op_code();
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    if code.cpuid_features().iter().any(|feature| {
        matches!(
            feature,
            CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387
        )
    }) {
        return Some(Family::X87);
    }
    let vectors = (0..info.op_count()).any(|i| {
        let name = format!("{:?}", info.op_kind(i));
        name.starts_with("xmm") || name.starts_with("mm_")
    });
    Some(match info.encoding() {
        EncodingKind::Legacy if vectors => {
            let name = format!("{:?}", code.mnemonic());
            let float = name.ends_with("ps")
                || name.ends_with("ss")
                || name.ends_with("pd")
                || name.starts_with("Cvt")
                || name.ends_with("sd") && name != "Movsd";
            if float { Family::Float } else { Family::Sse }
        }
        EncodingKind::Legacy => Family::Integer,
        EncodingKind::VEX => Family::Vex,
        EncodingKind::EVEX => Family::Evex,
        _ => return None,
    })
}

/// Whether it does the same each time, in a program like others, and nothing but to its operands.
fn is_repeatable(code: Code) -> bool {
    use Mnemonic as M;
    let mut sample = Instruction::default();
    sample.set_code(code);
    let name = format!("{code:?}");
    let excluded = matches!(
        code.mnemonic(),
        // Clocks, random numbers, and what only this processor says, or says to itself.
        M::Rdtsc | M::Rdtscp | M::Rdrand | M::Rdseed | M::Rdpmc | M::Rdpid | M::Rdpru | M::Rdpkru
            | M::Sgdt | M::Sidt | M::Sldt | M::Str | M::Smsw | M::Lsl | M::Lar | M::Verr | M::Verw
            | M::Cpuid | M::Xgetbv | M::Rdfsbase | M::Rdgsbase
            // What is seen under the trap flag alone, or changes what a program runs in.
            | M::Pushf | M::Pushfq | M::Popf | M::Popfq | M::Enter | M::Leave | M::Hlt
            | M::Monitor | M::Monitorx | M::Mwait | M::Mwaitx | M::Umonitor | M::Umwait | M::Tpause
            | M::Xsave | M::Xsave64 | M::Xsavec | M::Xsavec64 | M::Xsaveopt | M::Xsaveopt64
            | M::Xsaves | M::Xsaves64 | M::Xrstor | M::Xrstor64 | M::Xrstors | M::Xrstors64
            | M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64 | M::Fnsave | M::Frstor
            | M::Fnstenv | M::Fldenv | M::Ptwrite | M::Clzero | M::Xlatb | M::Std
            | M::Maskmovdqu | M::Maskmovq | M::Vmaskmovdqu | M::Xsetbv
            | M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz
            | M::Swapgs | M::Invlpgb | M::Tlbsync | M::Ldmxcsr | M::Vldmxcsr
    );
    // Control flow and strings come by templates.
    !excluded
        && !sample.is_string_instruction()
        && !sample.is_jcc_short_or_near()
        && sample.flow_control() == iced_x86::FlowControl::Next
        && unfit(&sample).is_none()
        && !sample.is_vsib()
        && !name.starts_with("Lock")
        && !["DeclareByte", "INVALID"]
            .iter()
            .any(|start| name.starts_with(start))
}

fn instruction(code: Code, rng: &mut SmallRng) -> Option<Drawn> {
    let info = code.op_code();
    if !info.mode64() {
        return None;
    }
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    let broadcast = info.can_broadcast() && rng.random_ratio(1, 4);
    instruction.set_is_broadcast(broadcast);
    for i in 0..info.op_count() {
        operand(&mut instruction, info, i, rng)?;
    }
    decorate(&mut instruction, info, rng);
    let stack = instruction.stack_pointer_increment();
    if !is_harmless(&instruction) {
        return None;
    }
    let mut encoder = Encoder::new(64);
    encoder.encode(&instruction, 0x1000).ok()?;
    let bytes = encoder.take_buffer();
    // Some combinations of registers the decoder alone refuses.
    interpreter::Decoded::new(&bytes, 0x1000).ok()?;
    Some(Drawn {
        bytes,
        code,
        stack: i64::from(stack),
    })
}

/// Whether it writes no register that a block rests on, and no memory but a cell or the stack.
fn is_harmless(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let pushes = matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop);
    let pops_pointer = instruction.mnemonic() == Mnemonic::Pop
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RSP;
    if pops_pointer || !pushes && instruction.stack_pointer_increment() != 0 {
        return false;
    }
    let kept = |register: Register| {
        let full = register.full_register();
        BASES.contains(&full) || full == Register::R15 || full == Register::RSP && !pushes
    };
    let writes_kept = info.used_registers().iter().any(|used| {
        let reads = matches!(
            used.access(),
            OpAccess::Read | OpAccess::CondRead | OpAccess::None
        );
        !reads && (kept(used.register()) || used.register().is_segment_register())
    });
    // A bit string reaches as far as its register says.
    let wanders = matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register;
    let elsewhere = info.used_memory().iter().any(|memory| {
        let base = memory.base().full_register();
        !(BASES.contains(&base) || pushes && base == Register::RSP)
    });
    !writes_kept && !wanders && (!elsewhere || instruction.mnemonic() == Mnemonic::Lea)
}

fn decorate(instruction: &mut Instruction, info: &OpCodeInfo, rng: &mut SmallRng) {
    let in_memory = instruction.op0_kind() == OpKind::Memory;
    if info.can_use_lock_prefix() && in_memory && rng.random_ratio(1, 3) {
        instruction.set_has_lock_prefix(true);
    }
    if info.can_use_op_mask_register() && (info.require_op_mask_register() || rng.random()) {
        instruction.set_op_mask(Register::K1 + rng.random_range(0..7u32));
        if info.can_use_zeroing_masking() && !in_memory && rng.random() {
            instruction.set_zeroing_masking(true);
        }
    }
    // An unaligned locked access takes the bus.
    if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg {
        let displacement = instruction.memory_displacement64() & !15;
        instruction.set_memory_displacement64(displacement);
    }
}

/// A displacement in a cell: mostly near its middle, where accesses meet each other.
pub(crate) fn displacement(rng: &mut SmallRng, size: usize) -> i64 {
    let size = size.max(1) as i64;
    if rng.random_ratio(3, 4) {
        let near = rng.random_range(-4..4i64) * 8;
        let near = if size >= 16 && rng.random_ratio(5, 6) {
            near & -size
        } else if rng.random_ratio(1, 6) {
            near + rng.random_range(-4..5i64)
        } else {
            near
        };
        return near.clamp(-HALF, HALF - size);
    }
    let any = rng.random_range(-HALF..=HALF - size);
    if rng.random() {
        any & -(size.min(8))
    } else {
        any
    }
}

fn operand(
    instruction: &mut Instruction,
    info: &OpCodeInfo,
    operand: u32,
    rng: &mut SmallRng,
) -> Option<()> {
    let kind = info.op_kind(operand);
    let name = format!("{kind:?}");
    let or_memory = name.ends_with("_or_mem") && (instruction.is_broadcast() || rng.random());
    if or_memory || kind == Kind::mem {
        instruction.set_op_kind(operand, OpKind::Memory);
        let size = instruction.memory_size().size();
        let reads_nothing = size == 0 && instruction.mnemonic() != Mnemonic::Lea;
        if reads_nothing && !format!("{:?}", instruction.mnemonic()).starts_with("Prefetch") {
            return None;
        }
        instruction.set_memory_base(BASES[rng.random_range(0..BASES.len())]);
        let displacement = displacement(rng, size);
        instruction.set_memory_displacement64(displacement.cast_unsigned());
        instruction.set_memory_displ_size(1);
        return Some(());
    }
    let high = if info.encoding() == EncodingKind::EVEX {
        32
    } else {
        16
    };
    let free = FREE[rng.random_range(0..FREE.len())];
    let number = free.number() as u32;
    let register = match kind {
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        Kind::st0 => Register::ST0,
        Kind::sti_opcode => Register::ST0 + rng.random_range(0..8u32),
        Kind::kp1_reg => Register::K0 + 2 * rng.random_range(0..4u32),
        Kind::xmm_is4 | Kind::xmm_is5 => Register::XMM0 + rng.random_range(0..16u32),
        Kind::ymm_is4 | Kind::ymm_is5 => Register::YMM0 + rng.random_range(0..16u32),
        _ if name.starts_with("r8_") => match rng.random_range(0..5) {
            0 => [Register::AH, Register::CH, Register::DH][rng.random_range(0..3)],
            _ => byte_register(free),
        },
        _ if name.starts_with("r16_") => Register::AX + number,
        _ if name.starts_with("r32_") => Register::EAX + number,
        _ if name.starts_with("r64_") => free,
        _ if name.starts_with("k_") => Register::K0 + rng.random_range(0..8u32),
        _ if name.starts_with("mm_") => Register::MM0 + rng.random_range(0..8u32),
        _ if name.starts_with("xmm_") => Register::XMM0 + rng.random_range(0..high),
        _ if name.starts_with("ymm_") => Register::YMM0 + rng.random_range(0..high),
        _ if name.starts_with("zmm_") => Register::ZMM0 + rng.random_range(0..32u32),
        _ => return immediate(instruction, operand, kind, rng),
    };
    instruction.set_op_kind(operand, OpKind::Register);
    instruction.set_op_register(operand, register);
    Some(())
}

fn immediate(
    instruction: &mut Instruction,
    operand: u32,
    kind: Kind,
    rng: &mut SmallRng,
) -> Option<()> {
    let byte = match rng.random_range(0..3) {
        0 => rng.random_range(0..64u8),
        _ => rng.random(),
    };
    let before = (0..operand).any(|i| instruction.op_kind(i) == OpKind::Immediate8);
    let kind = match kind {
        Kind::imm8 if before => {
            instruction.set_immediate8_2nd(byte);
            OpKind::Immediate8_2nd
        }
        Kind::imm8 => {
            instruction.set_immediate8(byte);
            OpKind::Immediate8
        }
        Kind::imm4_m2z => {
            instruction.set_immediate8(byte & 15);
            OpKind::Immediate8
        }
        Kind::imm8_const_1 => {
            instruction.set_immediate8(1);
            OpKind::Immediate8
        }
        Kind::imm8sex16 => {
            instruction.set_immediate8to16(i16::from(byte.cast_signed()));
            OpKind::Immediate8to16
        }
        Kind::imm8sex32 => {
            instruction.set_immediate8to32(i32::from(byte.cast_signed()));
            OpKind::Immediate8to32
        }
        Kind::imm8sex64 => {
            instruction.set_immediate8to64(i64::from(byte.cast_signed()));
            OpKind::Immediate8to64
        }
        Kind::imm16 => {
            instruction.set_immediate16(rng.random());
            OpKind::Immediate16
        }
        Kind::imm32 => {
            instruction.set_immediate32(rng.random());
            OpKind::Immediate32
        }
        Kind::imm32sex64 => {
            instruction.set_immediate32to64(i64::from(rng.random::<i32>()));
            OpKind::Immediate32to64
        }
        Kind::imm64 => {
            instruction.set_immediate64(rng.next_u64());
            OpKind::Immediate64
        }
        _ => return None,
    };
    instruction.set_op_kind(operand, kind);
    Some(())
}

/// The low byte of a general register, whichever has its number.
pub(crate) fn byte_register(register: Register) -> Register {
    match register.number() as u32 {
        number @ 0..4 => Register::AL + number,
        number => Register::SPL + (number - 4),
    }
}
