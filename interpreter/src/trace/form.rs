//! An instruction as it is prepared.

use std::cell::Cell;

use iced_x86::{ConditionCode, Register};

use crate::decode::Decoded;
use crate::operand::{AddressPart, OperandKind};
use crate::prepared_kind::{ALIGNED, PreparedKind};
use crate::word::Width;
use parameters::ValueKinds;

/// In place of a register's number: there is none.
pub(super) const NONE: u8 = 16;

/// Kinds of values that only handlers tell, at any instruction.
pub(super) const BY_HANDLERS: ValueKinds = ValueKinds::OPERANDS
    .with(ValueKinds::BASE)
    .with(ValueKinds::LOAD)
    .with(ValueKinds::OLD)
    .with(ValueKinds::MEM);

/// What addresses of a segment count from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Zero,
    Fs,
    Gs,
}

/// A prepared instruction of a process.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Op {
    /// The instruction's process address.
    pub(super) pc: u64,
    /// The immediate in the width of the operation, or the process address that is branched to.
    pub(super) immediate: u64,
    /// What the address of the memory operand is made from besides registers.
    pub(super) displacement: u64,
    /// The host's epoch that it holds in.
    pub(super) epoch: u64,
    /// The host's mark.
    pub(super) mark: u32,
    /// Where the op is that its branch led to last.
    pub(super) link: u32,
    pub(super) kind: PreparedKind,
    pub(super) len: u8,
    /// The width of the operation.
    pub(super) width: Width,
    /// The width of the second operand.
    pub(super) from: Width,
    /// The first operand's register.
    pub(super) a: u8,
    /// The second operand's register, or [`NONE`] for an immediate.
    pub(super) b: u8,
    /// The address's base register.
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) scale: u8,
    /// The next op in the row is the instruction behind it.
    pub(super) continues: bool,
    /// The first two operands are one register.
    pub(super) same_register: bool,
    /// The address is a value to tell.
    pub(super) tells_address: bool,
    /// What is written to the register of the first operand is a value to tell.
    pub(super) tells_written: bool,
    /// An address is to be worked out.
    pub(super) has_address: bool,
    pub(super) segment: Base,
    /// The address must be a multiple of 16, or an exception is raised.
    pub(super) aligned: bool,
    /// The instruction loads from the address, in the width of the second operand.
    pub(super) loads: bool,
    pub(super) condition: ConditionCode,
    /// The register that is written, as the instruction names it.
    pub(super) written: Register,
    /// The last window in which the host said that the code is this.
    pub(super) vouched: Cell<u32>,
}

const _: () = assert!(size_of::<Op>() == 64);

impl Op {
    /// Process address of the instruction behind it.
    #[inline(always)]
    pub(super) fn next(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.len))
    }

    /// Prepares an instruction at a process address for windows that capture these kinds.
    pub(super) fn new(
        decoded: &Decoded,
        (pc, bias, mark): (u64, u64, u32),
        capture: ValueKinds,
    ) -> Self {
        let operands = &decoded.operands;
        let [first, second] = [operands.get(0), operands.get(1)];
        let base = match operands.address.segment {
            Register::FS => Base::Fs,
            Register::GS => Base::Gs,
            _ => Base::Zero,
        };
        let tells_vectors = decoded.prepared >= PreparedKind::VectorRM
            && decoded.prepared <= PreparedKind::VectorZero
            && capture.meets(ValueKinds::VECTOR.with(ValueKinds::REDUNDANT));
        let compares = decoded.compared > 0 && capture.meets(ValueKinds::COMPARE);
        let asks = compares || tells_vectors || decoded.fences();
        let kind = if asks {
            PreparedKind::General
        } else {
            decoded.prepared
        };
        let width = match kind {
            PreparedKind::Push | PreparedKind::Pop => Width::B64,
            _ => first.width.unwrap_or(Width::B64),
        };
        let from = match kind {
            PreparedKind::MovzxRX
            | PreparedKind::MovzxRM
            | PreparedKind::MovsxRX
            | PreparedKind::MovsxRM => second.width.unwrap_or(width),
            PreparedKind::Shl | PreparedKind::Shr | PreparedKind::Sar => Width::B8,
            _ => width,
        };
        let immediate = match kind {
            PreparedKind::Jcc | PreparedKind::Jmp | PreparedKind::Call => {
                operands.immediate.wrapping_add(bias)
            }
            _ => operands.immediate & from.mask(),
        };
        let number = |part: AddressPart| match part {
            AddressPart::Register(number) => number & 15,
            _ => NONE,
        };
        let of_image = if operands.address.base == AddressPart::Rip {
            bias
        } else {
            0
        };
        // The only operand of a push is what is read.
        let (a, source) = match kind {
            PreparedKind::Push => (0, first),
            _ => (first.number & 15, second),
        };
        Self {
            pc,
            immediate,
            displacement: operands.displacement.wrapping_add(of_image),
            mark,
            link: 0,
            epoch: 0,
            continues: false,
            kind,
            len: decoded.len() as u8,
            width,
            from,
            a,
            b: match source.kind {
                OperandKind::Register => source.number & 15,
                _ if kind == PreparedKind::VectorRR || kind == PreparedKind::VectorMR => {
                    source.number & 15
                }
                _ => NONE,
            },
            base: number(operands.address.base),
            index: number(operands.address.index),
            scale: operands.address.scale,
            same_register: decoded.same_register,
            tells_address: decoded.accesses_memory
                && decoded.variable_address
                && capture.meets(ValueKinds::EA),
            tells_written: kind.writes_register()
                && !decoded.constant
                && capture.meets(ValueKinds::DEST),
            has_address: decoded.accesses_memory || kind == PreparedKind::Lea,
            segment: base,
            aligned: ALIGNED.contains(&decoded.instruction().mnemonic()),
            loads: kind.loads(),
            condition: decoded.condition,
            written: first.register,
            vouched: Cell::new(0),
        }
    }
}
