//! The machine state of a window and the driver of its instructions: operands in, operands out.

use iced_x86::{OpKind, Register};

use crate::decode::Decoded;
use crate::event::Events;
use crate::host::{Memory, Sink};
use crate::operand::{OperandKind, Part};
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
    captures: [ValueKinds; 2],
    /// Process address less image address of the current instruction.
    bias: u64,
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
    /// Begins the instruction at a process address.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        decoded: &Decoded,
        pc: u64,
        bias: u64,
        mark: u32,
    ) -> Result<(), StopReason> {
        self.bias = bias;
        self.pc = pc;
        self.sink.reached(pc, mark);
        if decoded.reads_vectors() {
            self.sink.reads_vectors();
        }
        let compares = usize::from(decoded.compared > 0);
        self.events.begin(self.captures[compares]);
        if self.has_written(pc, decoded.len()) {
            return Err(StopReason::PageWritten);
        }
        self.address = None;
        if decoded.accesses_memory {
            self.find_address(decoded);
        }
        Ok(())
    }

    /// Works out where the explicit memory operand lies.
    #[inline]
    fn find_address(&mut self, decoded: &Decoded) {
        self.address = self.linear_address(decoded);
        if decoded.variable_address {
            self.events.add(Parameter::Ea, self.address);
            if self.events.wants(ValueKinds::BASE) {
                self.report_base(decoded);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn report_base(&mut self, decoded: &Decoded) {
        if let Some(base) = decoded.base {
            let base = self.registers.gpr[usize::from(base & 15)];
            let narrow = decoded.operands.address.is_narrow;
            self.event_of(Parameter::Base, base, if narrow { 4 } else { 8 });
        }
    }

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

    // Addresses.

    /// Process address of the instruction that follows.
    pub(crate) fn next_pc(&self, decoded: &Decoded) -> u64 {
        self.pc.wrapping_add(decoded.len() as u64)
    }

    /// Process address of a near branch's target.
    pub(crate) fn branch_target(&self, decoded: &Decoded) -> Result<u64, StopReason> {
        match decoded.operands.get(0).kind {
            OperandKind::NearBranch => Ok(decoded.operands.immediate.wrapping_add(self.bias)),
            // What goes elsewhere is no near branch of 64 bits.
            _ => Err(StopReason::Unsupported),
        }
    }

    /// An address [that is a sum](crate::operand::Address::is_sum), if all of it is known.
    #[inline]
    fn known_sum(&self, decoded: &Decoded) -> Option<u64> {
        let form = &decoded.operands.address;
        let mut sum = decoded.operands.displacement;
        let mut known = u8::MAX;
        match form.base {
            Part::Register(number) => {
                let base = self.registers.gpr[usize::from(number & 15)];
                sum = sum.wrapping_add(base.known_bits());
                known &= base.known_bytes();
            }
            Part::Rip => sum = sum.wrapping_add(self.bias),
            _ => {}
        }
        if let Part::Register(number) = form.index {
            let index = self.registers.gpr[usize::from(number & 15)];
            sum = sum.wrapping_add(index.known_bits() << form.scale);
            known &= index.known_bytes();
        }
        (known == u8::MAX).then_some(sum)
    }

    /// The offset that a memory operand's registers and displacement make (what `lea` yields).
    #[inline]
    pub(crate) fn effective_address(&self, decoded: &Decoded) -> Word {
        if decoded.operands.address.is_sum
            && let Some(sum) = self.known_sum(decoded)
        {
            return Word::known(sum);
        }
        self.partial_address(decoded)
    }

    /// An address of any form, worked out byte by byte.
    #[inline(never)]
    fn partial_address(&self, decoded: &Decoded) -> Word {
        let form = decoded.operands.address;
        let mut displacement = decoded.operands.displacement;
        let base = match form.base {
            Part::Register(number) => self.registers.gpr[usize::from(number & 15)],
            Part::Nothing => Word::ZERO,
            Part::Rip => {
                displacement = displacement.wrapping_add(self.bias);
                Word::ZERO
            }
            Part::Al | Part::Unknown => Word::UNKNOWN,
        };
        let mut address = base.wrapping_add(Word::known(displacement));
        match form.index {
            Part::Register(number) => {
                let value = self.registers.gpr[usize::from(number & 15)];
                address = address.wrapping_add(value.scaled_up(form.scale));
            }
            Part::Nothing => {}
            Part::Al => address = address.wrapping_add(self.part(RAX, Width::B8)),
            Part::Rip | Part::Unknown => address = Word::UNKNOWN,
        }
        if form.is_narrow {
            address.truncate(Width::B32)
        } else {
            address
        }
    }

    /// The linear address of the explicit memory operand, if known.
    #[inline]
    pub(crate) fn linear_address(&self, decoded: &Decoded) -> Option<u64> {
        if decoded.operands.address.is_sum {
            return self.known_sum(decoded);
        }
        self.linear_address_beyond(decoded, 0)
    }

    /// The linear address so many bytes beyond the explicit memory operand, if known.
    #[inline(never)]
    pub(crate) fn linear_address_beyond(&self, decoded: &Decoded, bytes: u64) -> Option<u64> {
        let form = decoded.operands.address;
        let base = self.segment_base(form.segment)?;
        let mut offset = self.effective_address(decoded).all()?.wrapping_add(bytes);
        if form.is_narrow {
            offset &= Width::B32.mask();
        }
        Some(offset.wrapping_add(base))
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

    /// Where a jump that is not interpreted would lead, if known.
    pub(crate) fn peek_jump(&mut self, decoded: &Decoded, bias: u64) -> Option<u64> {
        self.bias = bias;
        let instruction = decoded.instruction();
        match instruction.op0_kind() {
            OpKind::NearBranch64 => self.branch_target(decoded).ok(),
            OpKind::Register => self.register(instruction.op0_register()).all(),
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                let address = self.linear_address(decoded)?;
                self.load_known(address, Width::B64).all()
            }
            _ => None,
        }
    }

    /// Whether the first two operands are the same register.
    #[inline]
    pub(crate) fn same_register(decoded: &Decoded) -> bool {
        decoded.same_register
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
