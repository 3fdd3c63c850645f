//! What an instruction that is not interpreted leaves unknown.
//!
//! The decoder's tables say which registers, flags and memory an instruction writes. Where they say
//! nothing, or no size, [`CORRECTIONS`] does.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits,
};

use crate::operand::number;
use crate::rflags::Flag;

/// What an instruction that is skipped leaves unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effects {
    /// Vector registers written, by number.
    pub(crate) vectors: u32,
    /// General registers written, by number.
    pub(crate) registers: u16,
    /// Bytes stored at [`Self::place`].
    pub(crate) stored: u16,
    /// Where bytes are stored.
    pub(crate) place: StoresTo,
    /// The explicit memory operand is read.
    pub(crate) loaded: bool,
    /// Mask registers written, by number.
    pub(crate) masks: u8,
    /// Flags changed, cleared and set, as bits of [`RflagsBits`].
    pub(crate) flags_changed: u8,
    pub(crate) flags_cleared: u8,
    pub(crate) flags_set: u8,
}

/// Where an instruction that is skipped stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoresTo {
    /// Nowhere.
    Nothing,
    /// At the explicit memory operand.
    Operand,
    /// Where a register points to that is not part of a memory operand: see [`pointer`].
    Pointer,
    /// At addresses, or so many bytes, that are not worked out.
    Anywhere,
}

/// What an instruction stores, where the decoder's tables are not enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Store {
    /// Bytes where a register points to, at a multiple of `aligned`.
    At {
        pointer: Pointer,
        bytes: u16,
        aligned: u16,
    },
    /// Somewhere.
    Anywhere,
    /// Nothing that a program can load.
    Nothing,
}

/// The register that points to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pointer {
    /// The first operand.
    First,
    /// rdi, or edi.
    Rdi,
}

/// Stores that the decoder's tables do not know, or know without a size.
///
/// Of what is skipped this is all: the test `stores` holds every instruction against the decoder's
/// tables, and against a list of its own of instructions that store what no operand names.
const CORRECTIONS: [(Mnemonic, Store); 6] = [
    // 64 bytes to the address in a register, which is no memory operand. Others raise an exception.
    (
        Mnemonic::Movdir64b,
        Store::At {
            pointer: Pointer::First,
            bytes: 64,
            aligned: 64,
        },
    ),
    // Chosen ones of eight bytes. Which, is in an MMX register, and these are not kept.
    (
        Mnemonic::Maskmovq,
        Store::At {
            pointer: Pointer::Rdi,
            bytes: 8,
            aligned: 1,
        },
    ),
    // Rows of a tile, as far apart as the index says: how many rows, and of how many bytes, the
    // configuration of the tiles says, which is not kept.
    (Mnemonic::Tilestored, Store::Anywhere),
    // A packet for the processor's trace, which goes to physical addresses.
    (Mnemonic::Ptwrite, Store::Nothing),
    // Both only watch an address.
    (Mnemonic::Umonitor, Store::Nothing),
    (Mnemonic::Umwait, Store::Nothing),
];

fn correction(instruction: &Instruction) -> Option<Store> {
    let mnemonic = instruction.mnemonic();
    let found = CORRECTIONS.iter().find(|(named, _)| *named == mnemonic);
    found.map(|(_, store)| *store)
}

/// The register that an instruction whose store is a [`StoresTo::Pointer`] goes by, the segment
/// that its address counts from, and what the address must be a multiple of.
pub(crate) fn pointer(instruction: &Instruction) -> Option<(Register, Register, u16)> {
    let Some(Store::At {
        pointer, aligned, ..
    }) = correction(instruction)
    else {
        return None;
    };
    match pointer {
        Pointer::First => Some((instruction.op0_register(), Register::ES, aligned)),
        Pointer::Rdi => {
            let register = match instruction.op0_kind() {
                OpKind::MemorySegRDI => Register::RDI,
                OpKind::MemorySegEDI => Register::EDI,
                _ => return None,
            };
            Some((register, instruction.memory_segment(), aligned))
        }
    }
}

fn writes(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
    )
}

impl Effects {
    /// Nothing is left unknown.
    pub(crate) const NONE: Self = Self {
        vectors: 0,
        registers: 0,
        stored: 0,
        place: StoresTo::Nothing,
        loaded: false,
        masks: 0,
        flags_changed: 0,
        flags_cleared: 0,
        flags_set: 0,
    };

    /// What the decoder's tables and the corrections say of an instruction.
    pub(crate) fn of(instruction: &Instruction) -> Self {
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info_options(instruction, InstructionInfoOptions::NONE);
        let mut effects = Self {
            registers: 0,
            vectors: 0,
            stored: 0,
            place: StoresTo::Nothing,
            loaded: false,
            masks: 0,
            // The flags that are kept have the lowest bits.
            flags_changed: instruction.rflags_modified() as u8,
            flags_cleared: instruction.rflags_cleared() as u8,
            flags_set: instruction.rflags_set() as u8,
        };
        for used in info.used_registers().iter().filter(|u| writes(u.access())) {
            effects.add_register(used.register());
        }
        effects.loaded = (0..instruction.op_count()).any(|i| {
            instruction.op_kind(i) == OpKind::Memory
                && matches!(
                    info.op_access(i),
                    OpAccess::Read | OpAccess::ReadWrite | OpAccess::ReadCondWrite
                )
        });
        let explicit = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        for used in info.used_memory().iter().filter(|u| writes(u.access())) {
            let is_operand = explicit
                && !instruction.is_vsib()
                && used.segment() == instruction.memory_segment()
                && used.base() == instruction.memory_base()
                && used.index() == instruction.memory_index()
                && used.displacement() == instruction.memory_displacement64();
            let size = used.memory_size().size();
            let bytes = size.max(instruction.memory_size().size());
            effects.add_store(is_operand && size > 0, bytes);
        }
        match correction(instruction) {
            None => {}
            Some(Store::Nothing) => (effects.place, effects.stored) = (StoresTo::Nothing, 0),
            Some(Store::Anywhere) => effects.place = StoresTo::Anywhere,
            Some(Store::At { bytes, .. }) => {
                (effects.place, effects.stored) = (StoresTo::Pointer, bytes);
            }
        }
        effects
    }

    fn add_register(&mut self, register: Register) {
        if register.is_gpr() {
            self.registers |= 1 << number(register);
        } else if register.is_vector_register() {
            self.vectors |= 1 << (register.number() & 31);
        } else if register.is_k() {
            self.masks |= 1 << (register.number() & 7);
        }
    }

    fn add_store(&mut self, is_operand: bool, bytes: usize) {
        match u16::try_from(bytes) {
            Ok(bytes) if is_operand && self.place != StoresTo::Anywhere => {
                self.place = StoresTo::Operand;
                self.stored = self.stored.max(bytes);
            }
            _ => self.place = StoresTo::Anywhere,
        }
    }
}

/// The flags that a set of [`RflagsBits`] names.
pub(crate) fn flags_of(bits: u8) -> impl Iterator<Item = Flag> {
    let bits = u32::from(bits);
    [
        (RflagsBits::CF, Flag::Cf),
        (RflagsBits::PF, Flag::Pf),
        (RflagsBits::AF, Flag::Af),
        (RflagsBits::ZF, Flag::Zf),
        (RflagsBits::SF, Flag::Sf),
        (RflagsBits::DF, Flag::Df),
        (RflagsBits::OF, Flag::Of),
    ]
    .into_iter()
    .filter(move |(bit, _)| bits & bit != 0)
    .map(|(_, flag)| flag)
}
