//! The stack.

use iced_x86::Code;

use crate::decode::Decoded;
use crate::host::{Memory, Sink};
use crate::machine::{Flow, Machine, RBP, RSP};
use crate::rflags::Flag;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<Flow, StopReason>;

/// The deepest nesting of frames; of a level the bits above are ignored.
const MAX_LEVEL: u8 = 31;

impl<M: Memory + ?Sized, S: Sink + ?Sized> Machine<'_, M, S> {
    /// Pushes the low `width` of a word.
    #[inline]
    pub(crate) fn push(&mut self, width: Width, value: Word) -> Result<(), StopReason> {
        let down = Word::known(u64::from(width.bytes()).wrapping_neg());
        let rsp = self.registers.gpr[RSP].wrapping_add(down);
        self.store(rsp.all(), width, value)?;
        self.registers.gpr[RSP] = rsp;
        Ok(())
    }

    /// Pops an operand of that width.
    #[inline]
    pub(crate) fn pop(&mut self, width: Width) -> Result<Word, StopReason> {
        let rsp = self.registers.gpr[RSP];
        let value = self.load(rsp.all(), width)?;
        self.registers.gpr[RSP] = rsp.wrapping_add(Word::known(u64::from(width.bytes())));
        Ok(value)
    }
}

/// The width that an instruction moves rsp by.
pub(super) fn moved(d: &Decoded) -> Result<Width, StopReason> {
    let bytes = d.instruction().stack_pointer_increment().unsigned_abs() as usize;
    match Width::from_bytes(bytes) {
        Some(width @ (Width::B16 | Width::B64)) => Ok(width),
        _ => Err(StopReason::Unsupported),
    }
}

/// The value is read before rsp moves: `push rsp` stores the old one.
#[inline(always)]
pub(super) fn push(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let value = m.read_in(d, d.operands.place(0, width))?;
    m.push(width, value)?;
    Ok(Flow::Next)
}

/// The value is written after rsp moved: `pop rsp` keeps what was popped, and an address made
/// from rsp uses the new one.
#[inline(always)]
pub(super) fn pop(m: &mut Machine<'_>, d: &Decoded, width: Width) -> Done {
    let value = m.pop(width)?;
    if d.accesses_memory {
        let address = m.linear_address(d);
        m.set_address(address);
    }
    m.write_in(d, d.operands.place(0, width), value)?;
    Ok(Flow::Next)
}

/// The flags of the system in the upper bytes are not kept.
pub(super) fn pushf(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = moved(d)?;
    let flags = m.registers.rflags.low_byte();
    m.push(width, Word::UNKNOWN.with_low(Width::B8, flags))?;
    Ok(Flow::Next)
}

pub(super) fn popf(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = moved(d)?;
    let value = m.pop(width)?;
    // The trap flag interrupts after the next instruction. That alignment is checked means
    // something in programs only, and so do flags that are not known: the kernel sets neither.
    let checked = if width == Width::B64 && m.pc >> 63 == 0 {
        value.bit(18)
    } else {
        Some(false)
    };
    match (value.bit(8), checked) {
        (Some(true), _) | (_, Some(true)) => return Err(StopReason::Unsupported),
        (Some(false), Some(false)) => {}
        _ if m.pc >> 63 != 0 => {}
        _ => return Err(StopReason::MayFault),
    }
    m.flags().set_low_byte(value);
    m.flags().set(Flag::Df, value.bit(10));
    m.flags().set(Flag::Of, value.bit(11));
    Ok(Flow::Next)
}

pub(super) fn leave(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = frame_width(d)?;
    m.registers.gpr[RSP] = m.registers.gpr[RBP];
    let value = m.pop(width)?;
    m.registers.gpr[RBP] = m.registers.gpr[RBP].with_low(width, value);
    Ok(Flow::Next)
}

/// The width in which frames are linked.
fn frame_width(d: &Decoded) -> Result<Width, StopReason> {
    match d.instruction().code() {
        Code::Enterq_imm16_imm8 | Code::Leaveq => Ok(Width::B64),
        Code::Enterw_imm16_imm8 | Code::Leavew => Ok(Width::B16),
        _ => Err(StopReason::Unsupported),
    }
}

/// `enter`: of nested frames the bases of those around, which lie below that of the outer one, are
/// copied one by one, and the frame's own is added.
pub(super) fn enter(m: &mut Machine<'_>, d: &Decoded) -> Done {
    let width = frame_width(d)?;
    let levels = d.instruction().immediate8_2nd() & MAX_LEVEL;
    let outer = m.registers.gpr[RBP];
    m.push(width, outer)?;
    let frame = m.registers.gpr[RSP];
    let mut enclosing = outer;
    for _ in 1..levels {
        let down = Word::known(u64::from(width.bytes()).wrapping_neg());
        enclosing = enclosing.wrapping_add(down);
        let base = m.load(enclosing.all(), width)?;
        m.push(width, base)?;
    }
    if levels > 0 {
        m.push(width, frame)?;
    }
    // Of 16 bits, manuals have all of rbp written, and processors only bp.
    m.registers.gpr[RBP] = outer.with_low(width, frame).either(frame);
    let size = u64::from(d.instruction().immediate16());
    m.registers.gpr[RSP] = m.registers.gpr[RSP].wrapping_add(Word::known(size.wrapping_neg()));
    Ok(Flow::Next)
}
