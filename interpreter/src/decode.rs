//! Decoding, and what is worth working out once per instruction.

use std::mem::offset_of;

use iced_x86::{
    ConditionCode, Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic, OpKind, Register,
};

use crate::effects::Effects;
use crate::exec::{dispatch, system, vector};
use crate::machine::{Flow, Machine};
use crate::operand::{Operands, Part};
use crate::processor::Processor;
use crate::stop::StopReason;
use crate::trace::Kind;
use crate::treatment::{self, Treatment};

/// Bytes of the longest instruction.
pub const MAX_BYTES: usize = 15;

/// What executes an instruction.
pub(crate) type Handler = fn(&mut Machine<'_>, &Decoded) -> Result<Flow, StopReason>;

/// What to do with an instruction that is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Run,
    /// Only its effects are known: what it writes becomes unknown.
    Skip(Effects),
    Stop(StopReason),
}

/// How far the interpreter understands an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// The instruction is interpreted.
    Interpreted,
    /// What the instruction writes becomes unknown, and the window goes on.
    Skipped,
    /// The window ends before it.
    Stops(StopReason),
}

// Caches hold tens of thousands of them.
const _: () = assert!(size_of::<Decoded>() <= 136);

/// Bytes at its beginning that most instructions need no more than.
pub(crate) const HOT_BYTES: usize = offset_of!(Decoded, instruction);

/// A decoded instruction with what its interpretation needs, the most needed first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Decoded {
    /// Executes it, whatever is to be done with it.
    pub(crate) handler: Handler,
    len: u8,
    /// Bytes of the operands that it does nothing with but compare; 0: it is no comparison.
    pub(crate) compared: u8,
    /// The instruction accesses an explicit memory operand.
    pub(crate) accesses_memory: bool,
    /// The effective address is one, and made from a register: a value worth an event.
    pub(crate) variable_address: bool,
    /// The values that the instruction writes are constants of its encoding, which are no events.
    pub(crate) constant: bool,
    /// The first two operands are one register.
    pub(crate) same_register: bool,
    /// The instruction lets others see what was stored before it.
    pub(crate) fences: bool,
    /// What a conditional branch, move or set depends on.
    pub(crate) condition: ConditionCode,
    pub(crate) operands: Operands,
    instruction: Instruction,
    /// Number of the base register whose value is one.
    pub(crate) base: Option<u8>,
    /// How traces have the instruction prepared.
    pub(crate) prepared: Kind,
    pub(crate) action: Action,
}

impl Decoded {
    /// Decodes the instruction that starts `bytes`, as if it lay at `image_address`.
    ///
    /// # Errors
    /// [`StopReason::Undecodable`] if the bytes are no instruction, [`StopReason::TruncatedCode`]
    /// if it needs more of them.
    pub fn new(bytes: &[u8], image_address: u64) -> Result<Self, StopReason> {
        let mut decoder = Decoder::with_ip(64, bytes, image_address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        match decoder.last_error() {
            DecoderError::None => {
                let mut decoded = Self::from_instruction(instruction);
                let stops = matches!(decoded.action, Action::Stop(_));
                if !stops && treatment::depends_on_processor(&instruction, bytes) {
                    (decoded.handler, decoded.action) = stop(StopReason::Unsupported);
                    decoded.prepared = Kind::General;
                }
                Ok(decoded)
            }
            DecoderError::NoMoreBytes => Err(StopReason::TruncatedCode),
            _ => Err(StopReason::Undecodable),
        }
    }

    /// The instruction on a processor that may not have it.
    #[must_use]
    pub fn on(mut self, processor: &Processor) -> Self {
        let stops = matches!(self.action, Action::Stop(_));
        if !stops && processor.lacks(&self.instruction).is_some() {
            (self.handler, self.action) = stop(StopReason::NoSuchInstruction);
        }
        self
    }

    /// No instruction at all.
    pub(crate) fn filler() -> Self {
        Self::from_instruction(Instruction::default())
    }

    fn from_instruction(instruction: Instruction) -> Self {
        let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let operands = Operands::new(&instruction);
        let (handler, action) = action(&instruction, &operands);
        let parts = [operands.address.base, operands.address.index];
        let from_register = parts.iter().any(|part| matches!(part, Part::Register(_)));
        let prepared = match action {
            Action::Run => Kind::of(&instruction, &operands),
            _ => Kind::General,
        };
        Self {
            prepared,
            instruction,
            operands,
            handler,
            action,
            constant: is_constant(&instruction),
            // The addresses of a vector of indices are worked out one by one.
            accesses_memory: has_memory
                && !instruction.is_vsib()
                && !only_computes_address(instruction.mnemonic()),
            variable_address: has_memory && from_register && !instruction.is_vsib(),
            base: base(&instruction, &operands),
            condition: instruction.condition_code(),
            same_register: is_same_register(&instruction, 0, 1),
            compared: compared(&instruction),
            fences: fences(&instruction),
            len: instruction.len() as u8,
        }
    }

    /// Length in bytes, 1 to 15.
    #[expect(clippy::len_without_is_empty, reason = "no instruction is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// How far the interpreter understands it.
    pub fn support(&self) -> Support {
        match self.action {
            Action::Run => Support::Interpreted,
            Action::Skip(_) => Support::Skipped,
            Action::Stop(reason) => Support::Stops(reason),
        }
    }

    /// The instruction; its addresses are image addresses.
    pub fn instruction(&self) -> &Instruction {
        &self.instruction
    }
}

/// Whether the processor waits for its stores: at a lock, which an exchange with memory has without
/// a prefix, at a fence, and where it serializes.
fn fences(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Xchg => instruction.op_kinds().any(|kind| kind == OpKind::Memory),
        M::Mfence | M::Cpuid | M::Serialize => true,
        _ => instruction.has_lock_prefix(),
    }
}

/// The base register of the memory operand. A `pop` that addresses by rsp has moved it before.
fn base(instruction: &Instruction, operands: &Operands) -> Option<u8> {
    match operands.address.base {
        Part::Register(4) if instruction.mnemonic() == Mnemonic::Pop => None,
        Part::Register(number) => Some(number),
        _ => None,
    }
}

fn is_same_register(instruction: &Instruction, a: u32, b: u32) -> bool {
    instruction.op_count() > a.max(b)
        && instruction.op_kind(a) == OpKind::Register
        && instruction.op_kind(b) == OpKind::Register
        && instruction.op_register(a) == instruction.op_register(b)
}

/// Bytes of the operands that count, of an instruction that does nothing with them but compare.
fn compared(instruction: &Instruction) -> u8 {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Cmp | M::Test => 8,
        M::Ucomisd | M::Vucomisd | M::Comisd | M::Vcomisd => 8,
        M::Ucomiss | M::Vucomiss | M::Comiss | M::Vcomiss => 4,
        _ => 0,
    }
}

/// Memory operands of these are addresses only.
fn only_computes_address(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Lea
            | M::Nop
            | M::Prefetch
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Cldemote
            | M::Reservednop
    )
}

/// Whether the values that an instruction writes follow from its encoding alone.
fn is_constant(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let immediate = |operand: u32| instruction.try_immediate(operand).ok();
    let same = is_same_register(instruction, 0, 1);
    let same_sources = is_same_register(instruction, 1, 2) && !instruction.has_op_mask();
    match instruction.mnemonic() {
        M::Mov => immediate(1).is_some(),
        M::Lea => {
            matches!(
                instruction.memory_base(),
                Register::None | Register::RIP | Register::EIP
            ) && instruction.memory_index() == Register::None
        }
        M::Xor | M::Sub => same,
        M::Pxor | M::Xorps | M::Xorpd => same,
        M::Psubb | M::Psubw | M::Psubd | M::Psubq => same,
        M::Pcmpeqb | M::Pcmpeqw | M::Pcmpeqd | M::Pcmpeqq => same,
        M::Vpxor | M::Vpxord | M::Vpxorq | M::Vxorps | M::Vxorpd => same_sources,
        M::Vpsubb | M::Vpsubw | M::Vpsubd | M::Vpsubq => same_sources,
        M::Vpcmpeqb | M::Vpcmpeqw | M::Vpcmpeqd | M::Vpcmpeqq => same_sources,
        M::And => immediate(1) == Some(0),
        M::Or => immediate(1) == Some(u64::MAX),
        M::Imul => instruction.op_count() == 3 && immediate(2) == Some(0),
        _ => false,
    }
}

/// What executes an instruction, and why that.
fn action(instruction: &Instruction, operands: &Operands) -> (Handler, Action) {
    match treatment::named(instruction) {
        Some(Treatment::Stops(reason)) => return stop(reason),
        Some(Treatment::Unknown) => return skip(instruction),
        None => {}
    }
    if let Some(handler) = dispatch::handler(instruction, operands)
        && has_integer_operands(instruction)
    {
        return (handler, Action::Run);
    }
    if let Some(handler) = system::handler(instruction) {
        return (handler, Action::Run);
    }
    if let Some(handler) = vector::dispatch::handler(instruction) {
        return (handler, Action::Run);
    }
    match treatment::of_the_rest(instruction) {
        Treatment::Stops(reason) => stop(reason),
        Treatment::Unknown => skip(instruction),
    }
}

fn stop(reason: StopReason) -> (Handler, Action) {
    let handler: Handler = |_, decoded| match decoded.action {
        Action::Stop(reason) => Err(reason),
        _ => Err(StopReason::Unsupported),
    };
    (handler, Action::Stop(reason))
}

fn skip(instruction: &Instruction) -> (Handler, Action) {
    let handler: Handler = |machine, decoded| match &decoded.action {
        Action::Skip(effects) => machine.skip(decoded, effects),
        _ => Err(StopReason::Unsupported),
    };
    (handler, Action::Skip(Effects::of(instruction)))
}

/// Whether every operand is a general register, memory, an immediate or a near branch.
fn has_integer_operands(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).all(|i| match instruction.op_kind(i) {
        OpKind::Register => instruction.op_register(i).is_gpr(),
        _ => true,
    })
}
