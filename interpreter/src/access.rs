//! Registers and operands, in and out: read, written, reported.

use iced_x86::Register;

use crate::decode::Decoded;
use crate::machine::Machine;
use crate::operand::{OperandKind, OperandPlace, number};
use crate::stop::StopReason;
use crate::word::{Width, Word};
use parameters::{Parameter, ValueKinds};

impl Machine<'_> {
    /// A general register as a zero-extended operand.
    pub(crate) fn register(&self, register: Register) -> Word {
        let word = self.registers.gpr[usize::from(number(register))];
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
        let slot = &mut self.registers.gpr[usize::from(number(register))];
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
            self.event_of(Parameter::Dest(register), value, register.size() as u32);
        }
        self.set_register(register, value);
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

    /// Width of an operand: of its register or memory; of the first operand for an immediate.
    #[inline]
    pub(crate) fn width(&self, decoded: &Decoded, operand: u32) -> Result<Width, StopReason> {
        let operand = decoded.operands.get(operand);
        operand.width.ok_or(StopReason::Unsupported)
    }

    /// Reads an operand, zero-extended from its width (immediates: sign-extended to 64 bits).
    pub(crate) fn read(&mut self, decoded: &Decoded, operand: u32) -> Result<Word, StopReason> {
        let form = decoded.operands.get(operand);
        match (form.kind, form.width) {
            (OperandKind::Immediate, _) => Ok(Word::known(decoded.operands.immediate)),
            (kind, Some(width)) => {
                let place = OperandPlace {
                    operand,
                    kind,
                    width,
                };
                self.read_in(decoded, place)
            }
            _ => self.read_other(decoded, operand),
        }
    }

    /// The value of an operand that is a register or an immediate, if it is known in full and
    /// nobody is to be told that it was read.
    #[inline(always)]
    pub(crate) fn known(&self, decoded: &Decoded, place: OperandPlace) -> Option<u64> {
        let number = decoded.operands.get(place.operand).number;
        match place.kind {
            OperandKind::Register if !self.events.wants(ValueKinds::OPERANDS) => {
                self.part(usize::from(number), place.width).all()
            }
            OperandKind::Immediate => Some(decoded.operands.immediate & place.width.mask()),
            _ => None,
        }
    }

    /// Reads an operand in the width of its place (an immediate is cut to it).
    #[inline(always)]
    pub(crate) fn read_in(
        &mut self,
        decoded: &Decoded,
        place: OperandPlace,
    ) -> Result<Word, StopReason> {
        let OperandPlace {
            operand,
            kind,
            width,
        } = place;
        let number = decoded.operands.get(operand).number;
        let value = match kind {
            OperandKind::Register => self.part(usize::from(number), width),
            OperandKind::Immediate => {
                return Ok(Word::known(decoded.operands.immediate & width.mask()));
            }
            OperandKind::Memory => {
                let value = self.load(self.address, width)?;
                self.event_of(Parameter::Load, value, width.bytes());
                value
            }
            _ => return self.read_other(decoded, operand),
        };
        self.report_operand(operand, width, value);
        Ok(value)
    }

    /// Reads an operand that is not just a register, memory or an immediate.
    #[inline(never)]
    fn read_other(&mut self, decoded: &Decoded, operand: u32) -> Result<Word, StopReason> {
        let form = decoded.operands.get(operand);
        let (value, width) = match (form.kind, form.width) {
            (OperandKind::HighByte, _) => {
                let word = self.registers.gpr[usize::from(form.number & 15)];
                (word.high_byte(), Width::B8)
            }
            // The second of two immediates.
            _ => {
                return decoded
                    .instruction()
                    .try_immediate(operand)
                    .map(Word::known)
                    .map_err(|_| StopReason::Unsupported);
            }
        };
        self.report_operand(operand, width, value);
        Ok(value)
    }

    #[inline]
    fn report_operand(&mut self, operand: u32, width: Width, value: Word) {
        self.event_of(Parameter::Operand(operand as u8), value, width.bytes());
    }

    /// Reads an operand and cuts it to the width of the operation.
    #[inline]
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
        let width = self.width(decoded, operand)?;
        let place = decoded.operands.place(operand, width);
        self.write_in(decoded, place, value)
    }

    /// Writes an operand in the width of its place and reports it.
    #[inline(always)]
    pub(crate) fn write_in(
        &mut self,
        decoded: &Decoded,
        place: OperandPlace,
        value: Word,
    ) -> Result<(), StopReason> {
        let width = place.width;
        let operand = decoded.operands.get(place.operand);
        let slot = &mut self.registers.gpr[usize::from(operand.number & 15)];
        *slot = match (place.kind, width) {
            (OperandKind::Register, Width::B64) => value,
            (OperandKind::Register, Width::B32) => value.truncate(Width::B32),
            (OperandKind::Register, narrow) => slot.with_low(narrow, value),
            (OperandKind::Memory, _) => return self.write_memory(decoded, width, value),
            (OperandKind::HighByte, _) => slot.with_high_byte(value),
            _ => return Err(StopReason::Unsupported),
        };
        if self.events.wants(ValueKinds::DEST) && !decoded.constant {
            let dest = Parameter::Dest(operand.register);
            self.events.hold(dest, value.truncate(width).all());
        }
        Ok(())
    }

    /// Writes the explicit memory operand, and reports that and what it overwrites.
    #[inline]
    fn write_memory(
        &mut self,
        decoded: &Decoded,
        width: Width,
        value: Word,
    ) -> Result<(), StopReason> {
        if self.events.wants(ValueKinds::MEM.with(ValueKinds::OLD)) {
            self.report_store(decoded, width, value);
        }
        self.store(self.address, width, value)
    }

    #[cold]
    #[inline(never)]
    fn report_store(&mut self, decoded: &Decoded, width: Width, value: Word) {
        if !decoded.constant {
            self.event_of(Parameter::Mem, value, width.bytes());
        }
        if self.events.wants(ValueKinds::OLD) {
            let old = self.overwritten(self.address, width);
            self.event(Parameter::Old, old);
        }
    }
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
