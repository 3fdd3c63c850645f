//! States in which an instruction does more than fault: divisors, targets, pointers, counts.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};
use rand::RngExt as _;

use crate::generate::Maker;
use crate::native::{DATA, SEGMENT_BASES};
use crate::values;
use crate::x87;

/// Prepares the state of an instruction that needs it.
pub(crate) fn tune(maker: &mut Maker<'_>, instruction: &Instruction) {
    use Mnemonic as M;
    match instruction.mnemonic() {
        _ if instruction.is_string_instruction() => string(maker, instruction),
        M::Ret => {
            let target = target(maker);
            maker.put(maker.get(Register::RSP), &target.to_le_bytes());
        }
        M::Jmp | M::Call => indirect(maker, instruction),
        M::Cmpxchg if maker.one_in(2) => {
            let value = match maker.address {
                Some(address) => maker.peek(address),
                None => maker.get(instruction.op0_register()),
            };
            maker.set(Register::RAX, value);
        }
        M::Cmpxchg8b | M::Cmpxchg16b if maker.one_in(2) => {
            let Some(address) = maker.address else { return };
            let half = instruction.memory_size().size() as u64 / 2;
            maker.set(Register::RAX, maker.peek(address));
            maker.set(Register::RDX, maker.peek(address + half));
        }
        M::Div | M::Idiv => dividend(maker, instruction),
        M::Popf | M::Popfq => {
            // Sometimes with the flags of the system: trap, alignment check and others.
            let keep = if maker.one_in(8) { 0x0024_4fd5 } else { 0xcd5 };
            let flags = maker.rng.random::<u64>() & keep;
            maker.put(maker.get(Register::RSP), &flags.to_le_bytes());
        }
        M::Ldmxcsr | M::Vldmxcsr if !maker.one_in(8) => {
            let modes = maker.rng.random::<u32>() & 0xffff | 0x1f80;
            if let Some(address) = maker.address {
                maker.put(address, &modes.to_le_bytes());
            }
        }
        M::Bt | M::Bts | M::Btr | M::Btc => bit_string(maker, instruction),
        M::Loop | M::Loope | M::Loopne | M::Jrcxz | M::Jecxz if maker.one_in(2) => {
            let count = maker.rng.random_range(0..3);
            maker.set(Register::RCX, count);
        }
        M::Xlatb => pointer(maker, Register::RBX),
        M::Maskmovdqu | M::Maskmovq | M::Vmaskmovdqu => pointer(maker, Register::RDI),
        M::Clzero => clear(maker, instruction),
        M::Movdir64b => line(maker, instruction.op0_register()),
        M::Leave | M::Enter => pointer(maker, Register::RBP),
        M::Fld | M::Fbld | M::Fldcw => memory_of_x87(maker, instruction),
        _ => {}
    }
}

/// A stub, seldom anything else.
fn target(maker: &mut Maker<'_>) -> u64 {
    if maker.one_in(16) {
        values::integer(maker.rng)
    } else {
        maker.stubs[maker.rng.random_range(0..2)]
    }
}

fn indirect(maker: &mut Maker<'_>, instruction: &Instruction) {
    let target = target(maker);
    match (instruction.op0_kind(), maker.address) {
        (OpKind::Register, _) => maker.set(instruction.op0_register(), target),
        (OpKind::Memory, Some(address)) => maker.put(address, &target.to_le_bytes()),
        _ => {}
    }
}

/// The bit mostly lies in the data page.
fn bit_string(maker: &mut Maker<'_>, instruction: &Instruction) {
    let reaches = instruction.op1_kind() == OpKind::Register && maker.address.is_some();
    if reaches && !maker.one_in(8) {
        let bit = maker.rng.random_range(-6000..6000i64).cast_unsigned();
        maker.set(instruction.op1_register(), bit);
    }
}

/// Quotients mostly fit.
fn dividend(maker: &mut Maker<'_>, instruction: &Instruction) {
    if maker.one_in(3) {
        return;
    }
    let bytes = match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().size(),
        _ => instruction.memory_size().size(),
    };
    let signed = instruction.mnemonic() == Mnemonic::Idiv;
    let low = maker.get(Register::RAX);
    let few = maker.rng.random_range(0..3);
    if bytes == 1 {
        let high = if signed && low & 0x80 != 0 { !few } else { few } << 8 & 0xff00;
        maker.set(Register::RAX, low & !0xff00 | high);
    } else {
        let sign = low >> (8 * bytes - 1) & 1 != 0;
        maker.set(Register::RDX, if signed && sign { !few } else { few });
    }
}

/// Points a register into the data page, with room on both sides.
fn pointer(maker: &mut Maker<'_>, register: Register) {
    let offset = maker.rng.random_range(700..3000);
    maker.set(register, DATA + offset);
}

/// Points a register to a line of the page, seldom into one.
fn line(maker: &mut Maker<'_>, register: Register) {
    pointer(maker, register);
    if !maker.one_in(8) {
        maker.set(register, maker.get(register) & !63);
    }
}

/// Points rax into the page, through a segment now and then. The upper half means nothing to an
/// address of 32 bits.
fn clear(maker: &mut Maker<'_>, instruction: &Instruction) {
    pointer(maker, Register::RAX);
    let base = match instruction.segment_prefix() {
        Register::FS => SEGMENT_BASES[0],
        Register::GS => SEGMENT_BASES[1],
        _ => 0,
    };
    let mut offset = maker.get(Register::RAX).wrapping_sub(base);
    if instruction.code() == Code::Clzerod {
        offset = offset & u64::from(u32::MAX) | values::integer(maker.rng) << 32;
    }
    maker.set(Register::RAX, offset);
}

/// Pointers into the page, a small count, and strings that agree for a while.
fn string(maker: &mut Maker<'_>, instruction: &Instruction) {
    use Mnemonic as M;
    pointer(maker, Register::RSI);
    pointer(maker, Register::RDI);
    if !maker.one_in(16) {
        let count = match maker.rng.random_range(0..8) {
            0 => 0,
            _ => maker.rng.random_range(0..70),
        };
        maker.set(Register::RCX, count);
    }
    let segment = match instruction.segment_prefix() {
        Register::FS => SEGMENT_BASES[0],
        Register::GS => SEGMENT_BASES[1],
        _ => 0,
    };
    maker.set(
        Register::RSI,
        maker.get(Register::RSI).wrapping_sub(segment),
    );
    let compares = matches!(
        instruction.mnemonic(),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq
    );
    let scans = matches!(
        instruction.mnemonic(),
        M::Scasb | M::Scasw | M::Scasd | M::Scasq
    );
    let from = maker.get(Register::RSI).wrapping_add(segment);
    let to = maker.get(Register::RDI);
    let narrow = instruction
        .op_kinds()
        .any(|kind| matches!(kind, OpKind::MemorySegESI | OpKind::MemoryESEDI));
    if narrow {
        // The upper halves mean nothing.
        for register in [Register::RSI, Register::RDI, Register::RCX] {
            let upper = values::integer(maker.rng) << 32;
            maker.set(register, maker.get(register) | upper);
        }
    }
    if !compares && !scans || maker.one_in(3) {
        return;
    }
    let odd = maker.rng.random_range(0..64);
    for i in 0..64 {
        let same = if compares {
            maker.peek(from + 8 * i)
        } else {
            // The accumulator over and over, in the width that is looked for.
            let value = maker.get(Register::RAX);
            match instruction.mnemonic() {
                M::Scasb => u64::from(value as u8) * 0x0101_0101_0101_0101,
                M::Scasw => u64::from(value as u16) * 0x0001_0001_0001_0001,
                M::Scasd => u64::from(value as u32) * 0x0000_0001_0000_0001,
                _ => value,
            }
        };
        let value = if i == odd { !same } else { same };
        maker.put(to + 8 * i, &value.to_le_bytes());
    }
}

/// Numbers of 80 bits, decimal digits, and control words that mask all exceptions, mostly.
fn memory_of_x87(maker: &mut Maker<'_>, instruction: &Instruction) {
    let Some(address) = maker.address else { return };
    match instruction.code() {
        Code::Fld_m80fp => {
            let number = x87::number(maker.rng);
            maker.put(address, &number);
        }
        Code::Fbld_m80bcd if !maker.one_in(8) => {
            let mut digits = [0u8; 10];
            digits.fill_with(|| maker.rng.random_range(0..10) | maker.rng.random_range(0..10) << 4);
            digits[9] = u8::from(maker.rng.random::<bool>()) << 7;
            maker.put(address, &digits);
        }
        Code::Fldcw_m2byte if !maker.one_in(4) => {
            let control = maker.rng.random::<u16>() | 0x3f;
            maker.put(address, &control.to_le_bytes());
        }
        _ => {}
    }
}
