//! A decoded instruction, with what is worth working out once.

use std::mem::offset_of;

use iced_x86::{ConditionCode, Instruction};

use crate::effects::Effects;
use crate::machine::{Flow, Machine};
use crate::operand::Operands;
use crate::prepared_kind::PreparedKind;
use crate::stop::StopReason;
use crate::treatment::Support;

/// What executes an instruction.
pub(crate) type Handler = fn(&mut Machine<'_>, &Decoded) -> Result<Flow, StopReason>;

// Caches hold tens of thousands of them.
const _: () = assert!(size_of::<Decoded>() <= 136);

/// Bytes at its beginning that most instructions need no more than.
pub(crate) const HOT_BYTES: usize = offset_of!(Decoded, instruction);

/// Bits of [`Decoded::traits`].
const FENCES: u8 = 1;
const READS_VECTORS: u8 = 2;

/// A decoded instruction with what its interpretation needs, the most needed first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Decoded {
    /// Executes it, whatever is to be done with it.
    pub(crate) handler: Handler,
    pub(crate) len: u8,
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
    /// What else is to be known of the instruction, a bit each.
    pub(crate) traits: u8,
    /// What a conditional branch, move or set depends on.
    pub(crate) condition: ConditionCode,
    pub(crate) operands: Operands,
    pub(crate) instruction: Instruction,
    /// Number of the base register whose value is one.
    pub(crate) base: Option<u8>,
    /// How traces have the instruction prepared.
    pub(crate) prepared: PreparedKind,
    pub(crate) support: Support,
    /// What it leaves unknown, if it is skipped.
    pub(crate) effects: Effects,
}

/// The bits of an instruction.
pub(crate) fn traits(instruction: &Instruction) -> u8 {
    let bit = |has: bool, bit| if has { bit } else { 0 };
    bit(instructions::fences(instruction), FENCES)
        | bit(instructions::reads_vectors(instruction), READS_VECTORS)
}

impl Decoded {
    /// Whether the instruction lets others see what was stored before it.
    #[inline]
    pub(crate) fn fences(&self) -> bool {
        self.traits & FENCES != 0
    }

    /// Whether what the instruction does depends on vector or mask registers.
    #[inline]
    pub(crate) fn reads_vectors(&self) -> bool {
        self.traits & READS_VECTORS != 0
    }

    /// Length in bytes, 1 to 15.
    #[expect(clippy::len_without_is_empty, reason = "no instruction is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// How far the interpreter understands it.
    pub fn support(&self) -> Support {
        self.support
    }

    /// The instruction; its addresses are image addresses.
    pub fn instruction(&self) -> &Instruction {
        &self.instruction
    }
}
