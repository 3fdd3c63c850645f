//! What a prepared instruction does with its operands: the arithmetic is that of the handlers.

use super::form::{Base, NONE, Op};
use crate::exec::muldiv::multiplied;
use crate::exec::shape::Binary;
use crate::exec::shift_rotate::{SHIFT, shifted};
use crate::machine::{Machine, check_canonical};
use crate::rflags::Flags;
use crate::stop::StopReason;
use crate::window::{Memory, Sink};
use crate::word::{Width, Word};

type Done = Result<(), StopReason>;

/// Where the operands of an instruction of two are, as [`Kind`](super::Kind) has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    RX,
    RM,
    MX,
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
    pub(super) fn put(&mut self, op: &Op, value: Word) {
        let slot = &mut self.registers.gpr[usize::from(op.a & 15)];
        *slot = match op.width {
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

    /// The same sum, byte by byte.
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
    pub(super) fn moving(
        &mut self,
        op: &Op,
        (places, loaded): (Places, Word),
        apply: impl FnOnce(Word) -> Word,
    ) -> Done {
        let value = match places {
            Places::RM => loaded,
            Places::RX | Places::MX => self.source(op, op.from),
        };
        self.put_in(op, places, apply(value))
    }

    /// Reads two operands, applies, and writes the first unless only flags are wanted.
    #[inline(always)]
    pub(super) fn binary(
        &mut self,
        op: &Op,
        (places, loaded): (Places, Word),
        kind: Binary,
        apply: impl FnOnce(&mut Flags, Width, Word, Word) -> Word,
    ) -> Done {
        let width = op.width;
        let mut a = match places {
            Places::MX => loaded,
            Places::RX | Places::RM => self.part(usize::from(op.a), width),
        };
        let mut b = match places {
            Places::RM => loaded,
            Places::RX | Places::MX => self.source(op, width),
        };
        if places == Places::RX && kind.self_cancels && op.same_register {
            (a, b) = (Word::ZERO, Word::ZERO);
        }
        let result = apply(self.flags(), width, a, b);
        match kind.writes {
            true => self.put_in(op, places, result),
            false => Ok(()),
        }
    }

    /// Multiplies the second operand by an immediate into the first.
    #[inline(always)]
    pub(super) fn multiply(&mut self, op: &Op, (places, loaded): (Places, Word)) -> Done {
        let a = match places {
            Places::RM => loaded,
            Places::RX | Places::MX => self.part(usize::from(op.b), op.width),
        };
        let result = multiplied(self.flags(), op.width, a, Word::known(op.immediate));
        self.put(op, result);
        Ok(())
    }

    /// The same of a result that is the operands' bits combined.
    #[inline(always)]
    pub(super) fn logic(
        &mut self,
        op: &Op,
        places: (Places, Word),
        kind: Binary,
        apply: impl FnOnce(Word, Word) -> Word,
    ) -> Done {
        self.binary(op, places, kind, |flags, width, a, b| {
            let result = apply(a, b);
            flags.logic(width, result);
            result
        })
    }

    /// Reads a register, applies, writes it.
    #[inline(always)]
    pub(super) fn unary(
        &mut self,
        op: &Op,
        apply: impl FnOnce(&mut Flags, Width, Word) -> Word,
    ) -> Done {
        let value = self.part(usize::from(op.a), op.width);
        let result = apply(self.flags(), op.width, value);
        self.put(op, result);
        Ok(())
    }

    /// Reads a register and a count, applies, writes the register.
    #[inline(always)]
    pub(super) fn shift(
        &mut self,
        op: &Op,
        apply: impl FnOnce(&mut Flags, Width, Word, u32) -> Word,
    ) -> Done {
        let (width, value) = (op.width, self.part(usize::from(op.a), op.width));
        let count = self.source(op, Width::B8).all();
        let result = shifted(self.flags(), width, &SHIFT, value, count, apply);
        self.put(op, result);
        Ok(())
    }

    /// Writes a register if the condition holds, what may be if that is not known.
    #[inline(always)]
    pub(super) fn moving_if(&mut self, op: &Op, (places, loaded): (Places, Word)) -> Done {
        let old = self.part(usize::from(op.a), op.width);
        let new = match places {
            Places::RM => loaded,
            Places::RX | Places::MX => self.source(op, op.width),
        };
        let value = match self.registers.rflags.condition(op.condition) {
            Some(true) => new,
            Some(false) => old,
            None => old.either(new),
        };
        self.put(op, value);
        Ok(())
    }

    #[inline(always)]
    fn put_in(&mut self, op: &Op, places: Places, value: Word) -> Done {
        match places {
            Places::MX => self.store(self.address, op.width, value),
            Places::RX | Places::RM => {
                self.put(op, value);
                Ok(())
            }
        }
    }

    /// Loads what is at the address of the memory operand.
    #[inline(always)]
    pub(super) fn fetch_operand(&mut self, op: &Op) -> Result<Word, StopReason> {
        if let Some(address) = self.address
            && check_canonical(address).is_ok()
            && self.overlay.is_clear(address, op.from)
        {
            let value = match op.from {
                Width::B64 => self.read_bytes::<8>(address),
                Width::B32 => self.read_bytes::<4>(address),
                Width::B16 => self.read_bytes::<2>(address),
                Width::B8 => self.read_bytes::<1>(address),
            };
            return match value {
                Some(value) => {
                    self.sink
                        .load(self.pc, Some(address), op.from.bytes(), true);
                    Ok(Word::known(value))
                }
                None => self.unread(address, op.from),
            };
        }
        self.load_rarely(op.from)
    }

    #[inline(always)]
    fn read_bytes<const BYTES: usize>(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; BYTES];
        let is_known = self.memory.read(address, &mut bytes);
        let mut word = [0; 8];
        word[..BYTES].copy_from_slice(&bytes);
        is_known.then(|| u64::from_le_bytes(word))
    }

    #[inline(never)]
    fn load_rarely(&mut self, width: Width) -> Result<Word, StopReason> {
        self.load(self.address, width)
    }
}
