//! The machine state of a window: what instructions work on.

use iced_x86::Register;

use crate::event::Events;
use crate::host::{Memory, Sink};
use crate::overlay::Overlay;
use crate::registers::Registers;
use crate::rflags::Flags;
use crate::state::WindowState;
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

/// Numbers of the registers that instructions use implicitly.
pub(crate) const RAX: usize = 0;
pub(crate) const RCX: usize = 1;
pub(crate) const RDX: usize = 2;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RBP: usize = 5;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;

/// Where the window goes on after an instruction. Addresses are process addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// The window goes on with the next instruction.
    Next,
    /// There, known from the encoding.
    Jump(u64),
    /// A conditional branch; `None`: its direction is unknown.
    Branch { taken: Option<bool>, target: u64 },
    /// An indirect jump.
    JumpIndirect(Option<u64>),
    /// A call.
    Call { target: Option<u64>, indirect: bool },
    /// A return.
    Return(Option<u64>),
}

/// What instructions work on. Handlers know nothing of the types of memory and sink; what is
/// compiled for these calls them directly.
pub(crate) struct Machine<'a, M: ?Sized = dyn Memory + 'a, S: ?Sized = dyn Sink + 'a> {
    pub(crate) registers: &'a mut Registers,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) memory: &'a mut M,
    pub(crate) sink: &'a mut S,
    pub(crate) events: &'a mut Events,
    pub(crate) capture: ValueKinds,
    /// The kinds captured at an instruction, and at one that compares.
    pub(crate) captures: [ValueKinds; 2],
    /// Process address less image address of the current instruction.
    pub(crate) bias: u64,
    /// Process address of the current instruction.
    pub(crate) pc: u64,
    /// Effective address of its explicit memory operand.
    pub(crate) address: Option<u64>,
    /// Addresses that a window may load from and store to.
    pub(crate) readable: Allowed,
    pub(crate) writable: Allowed,
}

/// Addresses of which accesses of one kind are known to go through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) first: u64,
    /// How many there are.
    pub(crate) reach: u64,
}

impl Allowed {
    /// None.
    const NOTHING: Self = Self { first: 0, reach: 0 };

    /// Whether so many bytes (1 to 8) from an address on are among them.
    #[inline(always)]
    pub(crate) fn has(self, address: u64, bytes: u32) -> bool {
        let last = address
            .wrapping_sub(self.first)
            .saturating_add(u64::from(bytes) - 1);
        last < self.reach
    }
}

impl<'a, M: Memory + ?Sized, S: Sink + ?Sized> Machine<'a, M, S> {
    pub(crate) fn new(
        state: &'a mut WindowState,
        memory: &'a mut M,
        sink: &'a mut S,
        capture: ValueKinds,
    ) -> Self {
        let WindowState {
            registers,
            overlay,
            events,
        } = state;
        overlay.clear();
        let comparing = if capture.meets(ValueKinds::COMPARE) {
            capture.with(ValueKinds::OPERANDS)
        } else {
            capture
        };
        Self {
            pc: registers.rip,
            registers,
            overlay,
            memory,
            sink,
            events,
            capture,
            captures: [capture, comparing],
            bias: 0,
            address: None,
            readable: Allowed::NOTHING,
            writable: Allowed::NOTHING,
        }
    }

    /// Whether the window may have stored to any of these bytes of code.
    #[inline]
    pub(crate) fn has_written(&mut self, pc: u64, bytes: usize) -> bool {
        self.overlay.touches(pc, bytes, self.memory)
    }

    pub(crate) fn flags(&mut self) -> &mut Flags {
        &mut self.registers.rflags
    }

    /// Part of an implicit register, by its number.
    #[inline]
    pub(crate) fn part(&self, number: usize, width: Width) -> Word {
        self.registers.gpr[number & 15].truncate(width)
    }
}

impl<M: Memory, S: Sink> Machine<'_, M, S> {
    /// Lets a handler, or what else knows nothing of the types, work on the machine.
    #[inline]
    pub(crate) fn lend<R>(&mut self, work: impl FnOnce(&mut Machine<'_>) -> R) -> R {
        let mut lent = Machine {
            registers: &mut *self.registers,
            overlay: &mut *self.overlay,
            memory: &mut *self.memory as &mut dyn Memory,
            sink: &mut *self.sink as &mut dyn Sink,
            events: &mut *self.events,
            capture: self.capture,
            captures: self.captures,
            bias: self.bias,
            pc: self.pc,
            address: self.address,
            readable: self.readable,
            writable: self.writable,
        };
        let result = work(&mut lent);
        let Machine {
            readable, writable, ..
        } = lent;
        (self.readable, self.writable) = (readable, writable);
        result
    }
}

impl Machine<'_> {
    pub(crate) fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    /// Holds a value event back until the instruction is done, if its kind is captured.
    #[inline]
    pub(crate) fn event(&mut self, parameter: Parameter, value: Option<u64>) {
        self.events.add(parameter, value);
    }

    /// Reports the low `bytes` of a word as an event.
    #[inline]
    pub(crate) fn event_of(&mut self, parameter: Parameter, word: Word, bytes: u32) {
        self.events.add_word(parameter, word, bytes);
    }

    /// Base address of a segment, if known.
    pub(crate) fn segment_base(&self, segment: Register) -> Option<u64> {
        match segment {
            Register::FS => self.registers.fs_base,
            Register::GS => self.registers.gs_base,
            _ => Some(0),
        }
    }

    /// The linear address of the memory operand as worked out before the instruction.
    pub(crate) fn address(&self) -> Option<u64> {
        self.address
    }

    /// Moves the memory operand (bit strings; `pop` to an address made from `rsp`).
    pub(crate) fn set_address(&mut self, address: Option<u64>) {
        self.address = address;
        self.events.move_address(address);
    }
}

/// An access to a non-canonical address raises an exception. With 57-bit addresses fewer are
/// non-canonical, and those that are, are so with 48 bits too.
#[inline]
pub(crate) fn check_canonical(address: u64) -> Result<(), StopReason> {
    let top = address as i64 >> 56;
    if top == 0 || top == -1 {
        Ok(())
    } else {
        Err(StopReason::FaultingInstruction)
    }
}
