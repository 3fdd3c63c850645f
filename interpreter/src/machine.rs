//! The machine state of a window and the driver of its instructions: operands in, operands out.

use iced_x86::{OpKind, Register};

use crate::decode::{Action, Decoded, Effects, flags_of};
use crate::overlay::Overlay;
use crate::parameter::{Capture, Parameter};
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::vector::Vector;
use crate::window::{Memory, Registers, Sink};
use crate::word::{Width, Word};

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
    /// With the next instruction.
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

/// Value events of one instruction, held back until it is known not to fault.
struct Events {
    held: [(Parameter, Option<u64>); Self::MAX],
    len: usize,
}

impl Events {
    /// No instruction has more: 3 operands read, an address, a store and 4 registers written.
    const MAX: usize = 12;
}

/// What instructions work on.
pub(crate) struct Machine<'a> {
    pub(crate) registers: Registers,
    overlay: Overlay,
    memory: &'a mut dyn Memory,
    sink: &'a mut dyn Sink,
    capture: Capture,
    events: Events,
    /// Process address less image address of the current instruction.
    bias: u64,
    /// Process address of the current instruction.
    pub(crate) pc: u64,
    /// Effective address of its explicit memory operand.
    address: Option<u64>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        registers: &Registers,
        memory: &'a mut dyn Memory,
        sink: &'a mut dyn Sink,
        capture: Capture,
    ) -> Self {
        Self {
            registers: registers.clone(),
            overlay: Overlay::new(),
            memory,
            sink,
            capture,
            events: Events {
                held: [(Parameter::Taken, None); Events::MAX],
                len: 0,
            },
            bias: 0,
            pc: registers.rip,
            address: None,
        }
    }

    /// Interprets one instruction and hands out its value events.
    pub(crate) fn execute(&mut self, decoded: &Decoded, bias: u64) -> Result<Flow, StopReason> {
        self.bias = bias;
        self.pc = self.registers.rip;
        self.sink.reached(self.pc);
        self.events.len = 0;
        if self.overlay.touches(self.pc, decoded.len() as u64) {
            return Err(StopReason::PageWritten);
        }
        self.address = None;
        if decoded.accesses_memory {
            self.address = self.linear_address(decoded);
            if decoded.variable_address {
                self.event(Parameter::Ea, self.address);
            }
        }
        let flow = match decoded.action {
            Action::Run(handler) => handler(self, decoded)?,
            Action::Skip(effects) => self.skip(decoded, effects)?,
            Action::Stop(reason) => return Err(reason),
        };
        for &(parameter, value) in &self.events.held[..self.events.len] {
            self.sink.value(self.pc, parameter, value);
        }
        Ok(flow)
    }

    pub(crate) fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    pub(crate) fn flags(&mut self) -> &mut Flags {
        &mut self.registers.rflags
    }

    /// Holds a value event back until the instruction is done, if its kind is captured.
    pub(crate) fn event(&mut self, parameter: Parameter, value: Option<u64>) {
        let kind = match parameter {
            Parameter::Dest(_) | Parameter::Single(_) | Parameter::Double(_) => Capture::DEST,
            Parameter::Taken => Capture::BRANCH,
            Parameter::Ea => Capture::EA,
            Parameter::Mem => Capture::MEM,
            Parameter::Target => Capture::TARGET,
            Parameter::Ret => Capture::RET,
            Parameter::Operand(_) => Capture::OPERANDS,
            Parameter::Arg(_) => Capture::ARGS,
        };
        if !self.capture.contains(kind) {
            return;
        }
        let held = self.events.held.get_mut(self.events.len);
        debug_assert!(
            held.is_some(),
            "an instruction has more events than were thought of"
        );
        if let Some(held) = held {
            *held = (parameter, value);
            self.events.len += 1;
        }
    }

    // Addresses.

    /// Process address of the instruction that follows.
    pub(crate) fn next_pc(&self, decoded: &Decoded) -> u64 {
        self.pc.wrapping_add(decoded.len() as u64)
    }

    /// Process address of a near branch's target.
    pub(crate) fn branch_target(&self, decoded: &Decoded) -> Result<u64, StopReason> {
        match decoded.instruction().op0_kind() {
            OpKind::NearBranch64 => Ok(decoded
                .instruction()
                .near_branch64()
                .wrapping_add(self.bias)),
            // Branches with an operand-size prefix: processors differ.
            _ => Err(StopReason::Unsupported),
        }
    }

    /// The offset that a memory operand's registers and displacement make (what `lea` yields).
    pub(crate) fn effective_address(&self, decoded: &Decoded) -> Word {
        let instruction = decoded.instruction();
        let displacement = instruction.memory_displacement64();
        let base = instruction.memory_base();
        let index = instruction.memory_index();
        let mut address = match base {
            Register::RIP | Register::EIP => {
                let address = Word::known(displacement.wrapping_add(self.bias));
                return if base == Register::EIP {
                    address.truncate(Width::B32)
                } else {
                    address
                };
            }
            Register::None => Word::known(displacement),
            _ => self.register(base).wrapping_add(Word::known(displacement)),
        };
        if index != Register::None {
            let value = self.register(index);
            let scale = instruction.memory_index_scale().trailing_zeros();
            // A scaled prefix of known bytes stays known: the shift goes up.
            let scaled = Word::low_known(value.known_bits() << scale, value.prefix());
            address = address.wrapping_add(scaled);
        }
        // The decoder extends a displacement that stands alone as its address size asks.
        let narrow = [base, index].iter().any(|r| r.is_gpr32());
        if narrow {
            address.truncate(Width::B32)
        } else {
            address
        }
    }

    /// The linear address of the explicit memory operand, if known.
    pub(crate) fn linear_address(&self, decoded: &Decoded) -> Option<u64> {
        let base = self.segment_base(decoded.instruction().memory_segment())?;
        Some(self.effective_address(decoded).all()?.wrapping_add(base))
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
        for held in &mut self.events.held[..self.events.len] {
            if held.0 == Parameter::Ea {
                held.1 = address;
            }
        }
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

    // Registers.

    /// A general register as a zero-extended operand.
    pub(crate) fn register(&self, register: Register) -> Word {
        let word = self.registers.gpr[number(register)];
        if is_high_byte(register) {
            return word.high_byte();
        }
        match Width::from_bytes(register.size()) {
            Some(width) => word.truncate(width),
            None => Word::UNKNOWN,
        }
    }

    /// Writes a general register as the processor does: 32 bits clear the upper half, 8 and 16
    /// bits leave the rest.
    pub(crate) fn set_register(&mut self, register: Register, value: Word) {
        let slot = &mut self.registers.gpr[number(register)];
        *slot = match register.size() {
            _ if is_high_byte(register) => slot.with_high_byte(value),
            1 => slot.with_low(Width::B8, value),
            2 => slot.with_low(Width::B16, value),
            4 => value.truncate(Width::B32),
            _ => value,
        };
    }

    /// Writes a register and reports it.
    pub(crate) fn write_register(&mut self, decoded: &Decoded, register: Register, value: Word) {
        if !decoded.constant {
            self.event(Parameter::Dest(register), value.get(register.size() as u32));
        }
        self.set_register(register, value);
    }

    /// Part of an implicit register, by its number.
    pub(crate) fn part(&self, number: usize, width: Width) -> Word {
        self.registers.gpr[number].truncate(width)
    }

    /// Writes part of an implicit register and reports it.
    pub(crate) fn write_part(
        &mut self,
        decoded: &Decoded,
        number: usize,
        width: Width,
        value: Word,
    ) {
        self.write_register(decoded, part_name(number, width), value);
    }

    // Operands.

    /// Width of an operand: of its register or memory; of the first operand for an immediate.
    pub(crate) fn width(&self, decoded: &Decoded, operand: u32) -> Result<Width, StopReason> {
        let instruction = decoded.instruction();
        let bytes = match instruction.op_kind(operand) {
            OpKind::Register => instruction.op_register(operand).size(),
            OpKind::Memory => instruction.memory_size().size(),
            _ if operand > 0 => return self.width(decoded, 0),
            _ => 0,
        };
        Width::from_bytes(bytes).ok_or(StopReason::Unsupported)
    }

    /// Reads an operand, zero-extended from its width (immediates: sign-extended to 64 bits).
    pub(crate) fn read(&mut self, decoded: &Decoded, operand: u32) -> Result<Word, StopReason> {
        let instruction = decoded.instruction();
        let (value, width) = match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                (self.register(register), self.width(decoded, operand)?)
            }
            OpKind::Memory => {
                let width = self.width(decoded, operand)?;
                (self.load(self.address, width)?, width)
            }
            _ => {
                return instruction
                    .try_immediate(operand)
                    .map(Word::known)
                    .map_err(|_| StopReason::Unsupported);
            }
        };
        self.event(Parameter::Operand(operand as u8), value.get(width.bytes()));
        Ok(value)
    }

    /// Reads an operand and cuts it to the width of the operation.
    pub(crate) fn read_as(
        &mut self,
        decoded: &Decoded,
        operand: u32,
        width: Width,
    ) -> Result<Word, StopReason> {
        Ok(self.read(decoded, operand)?.truncate(width))
    }

    /// Writes an operand (register or memory) and reports it.
    pub(crate) fn write(
        &mut self,
        decoded: &Decoded,
        operand: u32,
        value: Word,
    ) -> Result<(), StopReason> {
        let instruction = decoded.instruction();
        match instruction.op_kind(operand) {
            OpKind::Register => {
                self.write_register(decoded, instruction.op_register(operand), value);
                Ok(())
            }
            OpKind::Memory => {
                let width = self.width(decoded, operand)?;
                if !decoded.constant {
                    self.event(Parameter::Mem, value.get(width.bytes()));
                }
                self.store(self.address, width, value)
            }
            _ => Err(StopReason::Unsupported),
        }
    }

    /// Whether the first two operands are the same register.
    pub(crate) fn same_register(decoded: &Decoded) -> bool {
        let instruction = decoded.instruction();
        instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register()
    }

    // Memory.

    /// Loads from a linear address; what cannot be read is unknown.
    pub(crate) fn load(&mut self, address: Option<u64>, width: Width) -> Result<Word, StopReason> {
        let value = match address {
            Some(address) => {
                check_canonical(address)?;
                self.load_known(address, width)
            }
            None => Word::unknown(width),
        };
        let known = value.get(width.bytes()).is_some();
        self.sink.load(self.pc, address, width.bytes(), known);
        Ok(value)
    }

    fn load_known(&mut self, address: u64, width: Width) -> Word {
        let (covered, stored) = self.overlay.load(address, width);
        let bytes = width.bytes();
        let mut value = stored;
        // Read each run of bytes that the window has not stored to.
        let mut at = 0;
        while at < bytes {
            if covered >> at & 1 != 0 {
                at += 1;
                continue;
            }
            let run = (covered >> at).trailing_zeros().min(bytes - at);
            let mut buffer = [0; 8];
            let from = address.wrapping_add(u64::from(at));
            if let Some(buffer) = buffer.get_mut(..run as usize)
                && self.memory.read(from, buffer)
            {
                let mut word = [0; 8];
                word[..buffer.len()].copy_from_slice(buffer);
                let read = Word::known(u64::from_le_bytes(word)).shifted_up(at);
                value = value.with_bytes(byte_set(at, run), read);
            }
            at += run;
        }
        value.truncate(width)
    }

    /// Stores to a linear address; if it is unknown, all memory becomes unknown.
    pub(crate) fn store(
        &mut self,
        address: Option<u64>,
        width: Width,
        value: Word,
    ) -> Result<(), StopReason> {
        if let Some(address) = address {
            check_canonical(address)?;
        }
        self.sink
            .store(self.pc, address, width.bytes(), value.get(width.bytes()));
        match address {
            Some(address) => self.overlay.store(address, width, value),
            None => self.overlay.store_anywhere(),
        }
        Ok(())
    }

    /// Unknown bytes are stored to a range.
    pub(crate) fn store_unknown(
        &mut self,
        address: Option<u64>,
        bytes: u64,
    ) -> Result<(), StopReason> {
        match address {
            Some(address) => {
                check_canonical(address)?;
                self.overlay.store_unknown(address, bytes);
            }
            None => self.overlay.store_anywhere(),
        }
        Ok(())
    }

    /// An instruction of which only the effects are known.
    fn skip(&mut self, decoded: &Decoded, effects: Effects) -> Result<Flow, StopReason> {
        let instruction = decoded.instruction();
        if effects.stored > 0 {
            self.event(Parameter::Mem, None);
        }
        if effects.stored == Effects::ANYWHERE {
            self.overlay.store_anywhere();
        } else if effects.stored > 0 {
            self.store_unknown(self.address, u64::from(effects.stored))?;
        } else if let Some(address) = self.address {
            check_canonical(address)?;
        }
        for number in 0..16 {
            if effects.registers >> number & 1 != 0 {
                self.registers.gpr[number] = Word::UNKNOWN;
            }
        }
        for (number, vector) in self.registers.vectors.iter_mut().enumerate() {
            if effects.vectors >> number & 1 != 0 {
                *vector = Vector::UNKNOWN;
            }
        }
        for (number, mask) in self.registers.masks.iter_mut().enumerate() {
            if effects.masks >> number & 1 != 0 {
                *mask = Word::UNKNOWN;
            }
        }
        for operand in 0..instruction.op_count() {
            let register = instruction.op_register(operand);
            if instruction.op_kind(operand) == OpKind::Register
                && register.is_gpr()
                && effects.registers >> number(register) & 1 != 0
            {
                self.event(Parameter::Dest(register), None);
            }
        }
        for flag in flags_of(effects.flags_changed) {
            self.flags().set(flag, None);
        }
        for flag in flags_of(effects.flags_cleared) {
            self.flags().set(flag, Some(false));
        }
        for flag in flags_of(effects.flags_set) {
            self.flags().set(flag, Some(true));
        }
        Ok(Flow::Next)
    }
}

/// One bit per byte: `count` bytes (1 to 8) from `first` on.
fn byte_set(first: u32, count: u32) -> u8 {
    (u8::MAX >> (8 - count)) << first
}

/// Number of the general register that a register is part of.
fn number(register: Register) -> usize {
    register.full_register().number() & 15
}

fn is_high_byte(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

/// The name of the low `width` of a register.
pub(crate) fn part_name(number: usize, width: Width) -> Register {
    use Register as R;
    const LOW: [Register; 16] = [
        R::AL,
        R::CL,
        R::DL,
        R::BL,
        R::SPL,
        R::BPL,
        R::SIL,
        R::DIL,
        R::R8L,
        R::R9L,
        R::R10L,
        R::R11L,
        R::R12L,
        R::R13L,
        R::R14L,
        R::R15L,
    ];
    let number = number & 15;
    match width {
        Width::B8 => LOW[number],
        Width::B16 => Register::AX + number as u32,
        Width::B32 => Register::EAX + number as u32,
        Width::B64 => Register::RAX + number as u32,
    }
}

/// An access to a non-canonical address raises an exception. With 57-bit addresses fewer are
/// non-canonical, and those that are, are so with 48 bits too.
pub(crate) fn check_canonical(address: u64) -> Result<(), StopReason> {
    let top = address as i64 >> 56;
    if top == 0 || top == -1 {
        Ok(())
    } else {
        Err(StopReason::FaultingInstruction)
    }
}
