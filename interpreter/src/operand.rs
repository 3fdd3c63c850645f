//! Operands in the form that interpretation wants them, worked out once per instruction.

use iced_x86::{Instruction, OpKind, Register};

use crate::word::Width;

/// No instruction has more operands than five; a power of two needs no check.
const PLACES: usize = 8;

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperandKind {
    /// A general register, its lowest part.
    Register,
    /// One of ah, ch, dh, bh.
    HighByte,
    /// The explicit memory operand.
    Memory,
    /// [`Operands::immediate`].
    Immediate,
    /// [`Operands::immediate`], an image address to branch to.
    NearBranch,
    /// Something else, or there is none.
    Other,
}

/// One operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) kind: OperandKind,
    /// Number of the general register, below 16.
    pub(crate) number: u8,
    /// The register as the instruction names it.
    pub(crate) register: Register,
    /// Of its register or memory, of the first operand for an immediate; `None` if no integer is
    /// so wide.
    pub(crate) width: Option<Width>,
}

impl Operand {
    const NONE: Self = Self {
        kind: OperandKind::Other,
        number: 0,
        register: Register::None,
        width: None,
    };
}

/// An operand to read or to write: what may be known of it where a handler is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandPlace {
    /// The operand's number.
    pub(crate) operand: u32,
    pub(crate) kind: OperandKind,
    pub(crate) width: Width,
}

/// What the handler of a common instruction is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    /// The width of the first operand.
    pub(crate) width: Width,
    pub(crate) first: OperandKind,
    pub(crate) second: OperandKind,
}

impl Form {
    /// The first operand.
    #[inline(always)]
    pub(crate) const fn first(self) -> OperandPlace {
        OperandPlace {
            operand: 0,
            kind: self.first,
            width: self.width,
        }
    }

    /// The second operand, of that width.
    #[inline(always)]
    pub(crate) const fn second(self, width: Width) -> OperandPlace {
        OperandPlace {
            operand: 1,
            kind: self.second,
            width,
        }
    }

    /// Neither operand is in memory or a high byte.
    #[inline(always)]
    pub(crate) fn is_in_registers(self) -> bool {
        use OperandKind as K;
        self.first == K::Register && matches!(self.second, K::Register | K::Immediate)
    }
}

/// What a part of an address comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddressPart {
    Nothing,
    /// A general register by number, below 16.
    Register(u8),
    /// al: the index of `xlatb`.
    Al,
    /// The address of the next instruction, which the displacement has in it already.
    Rip,
    /// A vector register.
    Unknown,
}

/// How the address of the explicit memory operand is made: displacement aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: AddressPart,
    pub(crate) index: AddressPart,
    /// Bits that the index is shifted up by.
    pub(crate) scale: u8,
    /// The address has 32 bits.
    pub(crate) is_narrow: bool,
    pub(crate) segment: Register,
    /// It is a sum of 64 bits of general registers, or the address of the next instruction, and the
    /// displacement: no segment's base belongs to it.
    pub(crate) is_sum: bool,
}

impl Address {
    /// The address [is a sum](Self::is_sum), but a segment's base may belong to it.
    pub(crate) fn is_sum_in_segment(&self) -> bool {
        !self.is_narrow
            && !matches!(self.base, AddressPart::Al | AddressPart::Unknown)
            && matches!(self.index, AddressPart::Nothing | AddressPart::Register(_))
    }
}

/// All operands of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    /// The first immediate, sign-extended.
    pub(crate) immediate: u64,
    /// The displacement of the explicit memory operand.
    pub(crate) displacement: u64,
    pub(crate) address: Address,
    all: [Operand; PLACES],
}

impl Operands {
    pub(crate) fn new(instruction: &Instruction) -> Self {
        let mut operands = Self {
            immediate: 0,
            displacement: instruction.memory_displacement64(),
            address: address(instruction),
            all: [Operand::NONE; PLACES],
        };
        let mut has_immediate = false;
        for i in 0..instruction.op_count() {
            let immediate = instruction.try_immediate(i).ok();
            let operand = match instruction.op_kind(i) {
                OpKind::Register => of_register(instruction.op_register(i)),
                OpKind::Memory => Operand {
                    kind: OperandKind::Memory,
                    width: Width::from_bytes(instruction.memory_size().size()),
                    ..Operand::NONE
                },
                OpKind::NearBranch64 if !has_immediate => Operand {
                    kind: OperandKind::NearBranch,
                    ..Operand::NONE
                },
                _ => Operand {
                    kind: match immediate {
                        Some(_) if !has_immediate => OperandKind::Immediate,
                        _ => OperandKind::Other,
                    },
                    width: operands.all[0].width.filter(|_| i > 0),
                    ..Operand::NONE
                },
            };
            match operand.kind {
                OperandKind::Immediate => operands.immediate = immediate.unwrap_or_default(),
                OperandKind::NearBranch => operands.immediate = instruction.near_branch64(),
                _ => {}
            }
            has_immediate |= matches!(
                operand.kind,
                OperandKind::Immediate | OperandKind::NearBranch
            );
            if let Some(place) = operands.all.get_mut(i as usize) {
                *place = operand;
            }
        }
        operands
    }

    /// What a handler of the instruction is compiled for.
    pub(crate) fn form(&self) -> Option<Form> {
        let [first, second, ..] = self.all;
        Some(Form {
            width: first.width?,
            first: first.kind,
            second: second.kind,
        })
    }

    /// An operand by its number, to be read or written in that width.
    #[inline]
    pub(crate) fn place(&self, operand: u32, width: Width) -> OperandPlace {
        OperandPlace {
            operand,
            kind: self.get(operand).kind,
            width,
        }
    }

    /// An operand by its number.
    #[inline]
    pub(crate) fn get(&self, operand: u32) -> Operand {
        self.all[operand as usize % PLACES]
    }
}

fn of_register(register: Register) -> Operand {
    let high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    Operand {
        kind: match register.is_gpr() {
            true if high => OperandKind::HighByte,
            true => OperandKind::Register,
            false => OperandKind::Other,
        },
        number: number(register),
        register,
        width: Width::from_bytes(register.size()),
    }
}

/// Number of the general register that a register is part of.
pub(crate) fn number(register: Register) -> u8 {
    (register.full_register().number() & 15) as u8
}

fn address(instruction: &Instruction) -> Address {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let part = |register: Register| match register {
        Register::None => AddressPart::Nothing,
        Register::RIP | Register::EIP => AddressPart::Rip,
        Register::AL => AddressPart::Al,
        _ if register.is_gpr() => AddressPart::Register(number(register)),
        _ => AddressPart::Unknown,
    };
    let segment = instruction.memory_segment();
    let is_narrow = if base == Register::None && index == Register::None {
        instruction.memory_displ_size() == 4
    } else {
        base == Register::EIP || base.is_gpr32() || index.is_gpr32()
    };
    let (base, index) = (part(base), part(index));
    let mut address = Address {
        base,
        index,
        scale: instruction.memory_index_scale().trailing_zeros() as u8,
        is_narrow,
        segment,
        is_sum: false,
    };
    address.is_sum = !matches!(segment, Register::FS | Register::GS) && address.is_sum_in_segment();
    address
}
