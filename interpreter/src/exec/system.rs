//! Instructions of the system: segment bases, cache lines, and what the kernel does on its way.
//!
//! Privileged ones raise an exception in a program; kernel code lies in the upper half of the
//! address space.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::decode::{Decoded, Handler};
use crate::machine::{Flow, Machine, RAX, RCX, RDI, RDX, RSI, check_canonical};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

type Done = Result<Flow, StopReason>;

/// The handler of an instruction of the system.
pub(crate) fn handler(instruction: &Instruction) -> Option<Handler> {
    use Mnemonic as M;
    let handler: Handler = match instruction.mnemonic() {
        M::Cli | M::Sti | M::Clac | M::Stac | M::Clts | M::Wbinvd | M::Wbnoinvd => nop,
        M::Swapgs => swap_gs,
        M::Clzero => clear_line,
        M::Rdmsr => read_model_register,
        M::Wrmsr | M::Wrmsrns => write_model_register,
        M::Rdfsbase => |m, d| read_base(m, d, Register::FS),
        M::Rdgsbase => |m, d| read_base(m, d, Register::GS),
        M::Wrfsbase => |m, d| write_base(m, d, Register::FS),
        M::Wrgsbase => |m, d| write_base(m, d, Register::GS),
        M::Mov => match instruction.code() {
            Code::Mov_r64_cr | Code::Mov_r64_dr => read_control_register,
            _ if is_segment(instruction) => load_segment,
            _ => return None,
        },
        M::Push if is_segment(instruction) => push_segment,
        M::Pop if is_segment(instruction) => pop_segment,
        _ => return None,
    };
    Some(handler)
}

fn is_segment(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_segment_register()
}

/// Tells of a system call, if that is why the window ends.
pub(crate) fn tell_call(m: &mut Machine<'_>, reason: StopReason) {
    if reason != StopReason::SystemCall || !m.capture.meets(ValueKinds::SYSCALL) {
        return;
    }
    // There are seven.
    let held = |i: usize| m.part(LINUX_CALL[i], Width::B64).all();
    let values = std::array::from_fn(|i| (Parameter::Syscall(i as u8), held(i)));
    let pc = m.pc;
    m.sink().system_call(pc, &values);
}

/// Registers of the number of a system call and of its arguments.
const LINUX_CALL: [usize; 7] = [RAX, RDI, RSI, RDX, 10, 8, 9];

/// An error in a program.
fn only_in_kernel(m: &Machine<'_>) -> Result<(), StopReason> {
    if m.pc >> 63 != 0 {
        Ok(())
    } else {
        Err(StopReason::Privileged)
    }
}

/// Interrupts, access checks, caches: nothing that is kept changes.
fn nop(m: &mut Machine<'_>, _: &Decoded) -> Done {
    only_in_kernel(m)?;
    Ok(Flow::Next)
}

/// Bytes that `clzero` clears: on every processor that has it so many are a cache line.
const LINE: u64 = 64;

/// `clzero`: zeros to all of the cache line that rax, or eax, points into. The pointer is no
/// operand; the segment of a prefix counts.
fn clear_line(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = match d.instruction().code() {
        Code::Clzeroq => Width::B64,
        Code::Clzerod => Width::B32,
        _ => return Err(StopReason::Unsupported),
    };
    let offset = m.part(RAX, width).all();
    let base = m.segment_base(d.instruction().segment_prefix());
    let Some((offset, base)) = offset.zip(base) else {
        m.store(None, Width::B64, Word::UNKNOWN)?;
        return Ok(Flow::Next);
    };
    let line = offset.wrapping_add(base) & !(LINE - 1);
    for word in 0..LINE / 8 {
        m.store(Some(line.wrapping_add(8 * word)), Width::B64, Word::ZERO)?;
    }
    Ok(Flow::Next)
}

/// The other base of GS is not kept.
fn swap_gs(m: &mut Machine<'_>, _: &Decoded) -> Done {
    only_in_kernel(m)?;
    m.registers.gs_base = None;
    Ok(Flow::Next)
}

/// `rdmsr`: edx:eax, zero-extended.
fn read_model_register(m: &mut Machine<'_>, d: &Decoded) -> Done {
    only_in_kernel(m)?;
    for number in [RAX, RDX] {
        m.write_part(d, number, Width::B32, Word::unknown(Width::B32));
    }
    Ok(Flow::Next)
}

/// `wrmsr`: of the model-specific registers two are kept.
fn write_model_register(m: &mut Machine<'_>, _: &Decoded) -> Done {
    const FS_BASE: u64 = 0xc000_0100;
    const GS_BASE: u64 = 0xc000_0101;
    only_in_kernel(m)?;
    let low = m.part(RAX, Width::B32);
    let value = m
        .part(RDX, Width::B32)
        .shifted_up(4)
        .with_low(Width::B32, low);
    match m.part(RCX, Width::B32).all() {
        Some(FS_BASE) => m.registers.fs_base = value.all(),
        Some(GS_BASE) => m.registers.gs_base = value.all(),
        Some(_) => {}
        None => {
            m.registers.fs_base = None;
            m.registers.gs_base = None;
        }
    }
    Ok(Flow::Next)
}

fn read_control_register(m: &mut Machine<'_>, d: &Decoded) -> Done {
    only_in_kernel(m)?;
    m.write(d, 0, Word::UNKNOWN)?;
    Ok(Flow::Next)
}

fn base<'a>(m: &'a mut Machine<'_>, segment: Register) -> Option<&'a mut Option<u64>> {
    match segment {
        Register::FS => Some(&mut m.registers.fs_base),
        Register::GS => Some(&mut m.registers.gs_base),
        _ => None,
    }
}

fn read_base(m: &mut Machine<'_>, d: &Decoded, segment: Register) -> Done {
    let width = m.width(d, 0)?;
    let value = Word::of(width, m.segment_base(segment));
    m.write(d, 0, value)?;
    Ok(Flow::Next)
}

fn write_base(m: &mut Machine<'_>, d: &Decoded, segment: Register) -> Done {
    let value = m.read(d, 0)?.all();
    match value {
        Some(value) => check_canonical(value)?,
        None => m.check_unknown()?,
    }
    if let Some(base) = base(m, segment) {
        *base = value;
    }
    Ok(Flow::Next)
}

/// A selector goes to a segment register. Only FS and GS have a base other than zero; what it
/// becomes, and whether there is such a segment, the descriptor says. A program that asks for none
/// gets none.
fn set_selector(m: &mut Machine<'_>, d: &Decoded, selector: Word) -> Done {
    let register = d.instruction().op0_register();
    let is_null = selector.get(2).is_some_and(|selector| selector <= 3);
    let in_program = only_in_kernel(m).is_err();
    if register == Register::CS {
        return Err(StopReason::FaultingInstruction);
    }
    if in_program && (!is_null || register == Register::SS) {
        return Err(StopReason::FarTransfer);
    }
    if let Some(base) = base(m, register) {
        *base = None;
    }
    Ok(Flow::Next)
}

fn load_segment(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let selector = m.read(d, 1)?;
    set_selector(m, d, selector)
}

/// Processors differ in how many bytes they write.
fn push_segment(m: &mut Machine<'_>, d: &Decoded) -> Done {
    m.push(super::stack::moved(d)?, Word::UNKNOWN)?;
    Ok(Flow::Next)
}

fn pop_segment(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let selector = m.pop(super::stack::moved(d)?)?;
    set_selector(m, d, selector)
}
