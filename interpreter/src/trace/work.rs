//! What a prepared instruction does with its operands: the arithmetic is that of the handlers.

use super::form::{Base, NONE, Op};
use crate::exec::muldiv::multiplied;
use crate::exec::shape::Binary;
use crate::exec::shift_rotate::{SHIFT, shifted};
use crate::host::{Memory, Sink};
use crate::machine::{Machine, check_canonical};
use crate::prepared_kind::OperandPlaces;
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::word::{Width, Word};

type Done = Result<(), StopReason>;

/// The width of an operation that is compiled for one of so many bytes; of 0, for any.
#[inline(always)]
pub(super) fn width<const W: usize>(op: &Op) -> Width {
    Width::from_bytes(W).unwrap_or(op.width)
}

impl<M: Memory, S: Sink> Machine<'_, M, S> {
    /// The second operand: a register, or an immediate.
    #[inline(always)]
    pub(super) fn source(&self, op: &Op, width: Width) -> Word {
        if op.b == NONE {
            Word::known(op.immediate)
        } else {
            self.part(usize::from(op.b), width)
        }
    }

    /// Writes the register of the first operand.
    #[inline(always)]
    pub(super) fn put<const W: usize>(&mut self, op: &Op, value: Word) {
        let slot = &mut self.registers.gpr[usize::from(op.a & 15)];
        *slot = match width::<W>(op) {
            Width::B64 => value,
            Width::B32 => value.truncate(Width::B32),
            narrow => slot.with_low(narrow, value),
        };
    }

    /// The address of the memory operand, if all of it is known.
    #[inline(always)]
    pub(super) fn sum(&self, op: &Op) -> Option<u64> {
        let mut sum = op.displacement;
        let mut known = u8::MAX;
        if op.base != NONE {
            let base = self.registers.gpr[usize::from(op.base & 15)];
            sum = sum.wrapping_add(base.known_bits());
            known &= base.known_bytes();
        }
        if op.index != NONE {
            let index = self.registers.gpr[usize::from(op.index & 15)];
            sum = sum.wrapping_add(index.known_bits() << (op.scale & 3));
            known &= index.known_bytes();
        }
        if op.segment != Base::Zero {
            let base = match op.segment {
                Base::Fs => self.registers.fs_base,
                _ => self.registers.gs_base,
            };
            sum = sum.wrapping_add(base?);
        }
        (known == u8::MAX).then_some(sum)
    }

    /// The sum of an op's address, worked out byte by byte.
    #[inline(never)]
    pub(super) fn partial_sum(&self, op: &Op) -> Word {
        let part = |number: u8| match number {
            NONE => Word::ZERO,
            number => self.registers.gpr[usize::from(number & 15)],
        };
        let (base, index) = (part(op.base), part(op.index));
        base.wrapping_add(Word::known(op.displacement))
            .wrapping_add(index.scaled_up(op.scale))
    }

    /// Reads one operand, applies, writes the other.
    #[inline(always)]
    pub(super) fn moving<const W: usize>(
        &mut self,
        op: &Op,
        (places, loaded): (OperandPlaces, Word),
        apply: impl FnOnce(Word) -> Word,
    ) -> Done {
        let value = match places {
            OperandPlaces::RM => loaded,
            OperandPlaces::RX | OperandPlaces::MX => self.source(op, op.from),
        };
        self.put_in::<W>(op, places, apply(value))
    }

    /// Reads two operands, applies, and writes the first unless only flags are wanted.
    #[inline(always)]
    pub(super) fn binary<const W: usize>(
        &mut self,
        op: &Op,
        (places, loaded): (OperandPlaces, Word),
        kind: Binary,
        apply: impl FnOnce(&mut Flags, Width, Word, Word) -> Word,
    ) -> Done {
        let width = width::<W>(op);
        let mut a = match places {
            OperandPlaces::MX => loaded,
            OperandPlaces::RX | OperandPlaces::RM => self.part(usize::from(op.a), width),
        };
        let mut b = match places {
            OperandPlaces::RM => loaded,
            OperandPlaces::RX | OperandPlaces::MX => self.source(op, width),
        };
        if places == OperandPlaces::RX && kind.self_cancels && op.same_register {
            (a, b) = (Word::ZERO, Word::ZERO);
        }
        let result = apply(self.flags(), width, a, b);
        match kind.writes {
            true => self.put_in::<W>(op, places, result),
            false => Ok(()),
        }
    }

    /// Multiplies the second operand by an immediate into the first.
    #[inline(always)]
    pub(super) fn multiply<const W: usize>(
        &mut self,
        op: &Op,
        (places, loaded): (OperandPlaces, Word),
    ) -> Done {
        let a = match places {
            OperandPlaces::RM => loaded,
            OperandPlaces::RX | OperandPlaces::MX => self.part(usize::from(op.b), width::<W>(op)),
        };
        let result = multiplied(self.flags(), width::<W>(op), a, Word::known(op.immediate));
        self.put::<W>(op, result);
        Ok(())
    }

    /// Sets flags and result of an operation that combines the operands' bits.
    #[inline(always)]
    pub(super) fn logic<const W: usize>(
        &mut self,
        op: &Op,
        places: (OperandPlaces, Word),
        kind: Binary,
        apply: impl FnOnce(Word, Word) -> Word,
    ) -> Done {
        self.binary::<W>(op, places, kind, |flags, width, a, b| {
            let result = apply(a, b);
            flags.logic(width, result);
            result
        })
    }

    /// Reads a register, applies, writes it.
    #[inline(always)]
    pub(super) fn unary<const W: usize>(
        &mut self,
        op: &Op,
        apply: impl FnOnce(&mut Flags, Width, Word) -> Word,
    ) -> Done {
        let value = self.part(usize::from(op.a), width::<W>(op));
        let result = apply(self.flags(), width::<W>(op), value);
        self.put::<W>(op, result);
        Ok(())
    }

    /// Reads a register and a count, applies, writes the register.
    #[inline(always)]
    pub(super) fn shift<const W: usize>(
        &mut self,
        op: &Op,
        apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
    ) -> Done {
        let width = width::<W>(op);
        let value = self.part(usize::from(op.a), width);
        let count = self.source(op, Width::B8).all();
        let result = shifted(self.flags(), width, &SHIFT, value, count, apply);
        self.put::<W>(op, result);
        Ok(())
    }

    /// Writes a register if the condition holds, what may be if that is not known.
    #[inline(always)]
    pub(super) fn moving_if<const W: usize>(
        &mut self,
        op: &Op,
        (places, loaded): (OperandPlaces, Word),
    ) -> Done {
        let old = self.part(usize::from(op.a), width::<W>(op));
        let new = match places {
            OperandPlaces::RM => loaded,
            OperandPlaces::RX | OperandPlaces::MX => self.source(op, width::<W>(op)),
        };
        let value = match self.registers.rflags.condition(op.condition) {
            Some(true) => new,
            Some(false) => old,
            None => old.either(new),
        };
        self.put::<W>(op, value);
        Ok(())
    }

    #[inline(always)]
    fn put_in<const W: usize>(&mut self, op: &Op, places: OperandPlaces, value: Word) -> Done {
        match places {
            OperandPlaces::MX => self.store(self.address, width::<W>(op), value),
            OperandPlaces::RX | OperandPlaces::RM => {
                self.put::<W>(op, value);
                Ok(())
            }
        }
    }

    /// Loads what is at the address of the memory operand.
    #[inline(always)]
    pub(super) fn fetch_operand<const W: usize>(&mut self, op: &Op) -> Result<Word, StopReason> {
        let from = op.from;
        let Some(address) = self
            .address
            .filter(|address| check_canonical(*address).is_ok())
        else {
            return self.load_rarely(from);
        };
        if !self.overlay.is_clear(address, from) {
            return self.load_rarely(from);
        }
        let value = if W == 8 && from == Width::B64 {
            self.read_bytes::<8>(address)
        } else if W == 4 && from == Width::B32 {
            self.read_bytes::<4>(address)
        } else {
            self.read_any(address, from)
        };
        let Some(value) = value else {
            return self.unread(address, from);
        };
        self.sink
            .load(self.pc, Some(address), from.bytes(), Some(value));
        Ok(Word::known(value))
    }

    #[inline(never)]
    fn read_any(&mut self, address: u64, width: Width) -> Option<u64> {
        match width {
            Width::B64 => self.read_bytes::<8>(address),
            Width::B32 => self.read_bytes::<4>(address),
            Width::B16 => self.read_bytes::<2>(address),
            Width::B8 => self.read_bytes::<1>(address),
        }
    }

    #[inline(always)]
    fn read_bytes<const BYTES: usize>(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; BYTES];
        let is_known = self.memory.read(address, &mut bytes);
        let mut word = [0; 8];
        word[..BYTES].copy_from_slice(&bytes);
        is_known.then(|| u64::from_le_bytes(word))
    }

    /// Writes the low 16 bytes of a vector register.
    #[inline(always)]
    pub(super) fn put_vector(&mut self, op: &Op, halves: [Word; 2]) {
        let vector = &mut self.registers.vectors[usize::from(op.a & 15)];
        vector.set_word(0, halves[0]);
        vector.set_word(1, halves[1]);
    }

    /// Loads 16 bytes into a vector register.
    #[inline(never)]
    pub(super) fn load_vector(&mut self, op: &Op) -> Done {
        self.check_vector(op)?;
        let low = self.load(self.address, Width::B64)?;
        let high = self.load(self.upper_half(), Width::B64)?;
        self.put_vector(op, [low, high]);
        Ok(())
    }

    /// Stores the low 16 bytes of a vector register.
    #[inline(never)]
    pub(super) fn store_vector(&mut self, op: &Op) -> Done {
        self.check_vector(op)?;
        let vector = &self.registers.vectors[usize::from(op.b & 15)];
        let [low, high] = [vector.word(0), vector.word(1)];
        self.store(self.address, Width::B64, low)?;
        self.store(self.upper_half(), Width::B64, high)
    }

    fn upper_half(&self) -> Option<u64> {
        self.address.map(|address| address.wrapping_add(8))
    }

    fn check_vector(&self, op: &Op) -> Done {
        match self.address {
            Some(address) if op.aligned && address % 16 != 0 => {
                Err(StopReason::FaultingInstruction)
            }
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn load_rarely(&mut self, width: Width) -> Result<Word, StopReason> {
        self.load(self.address, width)
    }
}
