//! The registers of x87 and MMX instructions, each part of them known or unknown.

use crate::extended::Extended;
use crate::word::Word;

/// The bits of the status word, but for the number of the stack's top.
pub(crate) const EXCEPTIONS: u16 = 0x3f;
pub(crate) const STACK_FAULT: u16 = 1 << 6;
/// An exception that is not masked waits for the next instruction.
pub(crate) const SUMMARY: u16 = 1 << 7;
pub(crate) const C0: u16 = 1 << 8;
pub(crate) const C1: u16 = 1 << 9;
pub(crate) const C2: u16 = 1 << 10;
pub(crate) const C3: u16 = 1 << 14;
pub(crate) const BUSY: u16 = 1 << 15;
const TOP: u16 = 7 << 11;

/// A register of 80 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct X87Register {
    /// The low 64 bits, which are those of an MMX register.
    pub significand: Word,
    /// Sign and exponent, if known.
    pub top: Option<u16>,
}

impl X87Register {
    /// A register of which nothing is known.
    pub const UNKNOWN: Self = Self {
        significand: Word::UNKNOWN,
        top: None,
    };

    pub(crate) fn of(value: Option<Extended>) -> Self {
        value.map_or(Self::UNKNOWN, |value| Self {
            significand: Word::known(value.significand),
            top: Some(value.top()),
        })
    }

    fn value(self) -> Option<Extended> {
        let top = self.top?;
        let significand = self.significand.all()?;
        Some(Extended::from_bits(significand, top))
    }
}

/// What x87 and MMX instructions work with.
///
/// The registers have numbers, 0 to 7. The stack begins at one of them, the top, and goes on with
/// those above it. Where the top is not known, no place of the stack is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct X87 {
    /// The control word: which exceptions are masked, precision, rounding.
    pub control: Option<u16>,
    /// The status word, but for the top. Bits that are not known are zero.
    pub status: u16,
    /// The bits of the status word that are known.
    pub status_known: u16,
    /// The number of the register at the stack's top.
    pub top: Option<u8>,
    /// The registers that are not empty, a bit each by their numbers. Bits that are not known are
    /// zero.
    pub used: u8,
    /// The registers of which it is known whether they are empty.
    pub used_known: u8,
    /// The registers by their numbers.
    pub registers: [X87Register; 8],
}

impl X87 {
    /// The state of which nothing is known.
    pub const UNKNOWN: Self = Self {
        control: None,
        status: 0,
        status_known: 0,
        top: None,
        used: 0,
        used_known: 0,
        registers: [X87Register::UNKNOWN; 8],
    };

    /// The state that the processor saves: control word, status word, a bit for each register that
    /// is not empty, and the registers from the stack's top on.
    pub fn saved(control: u16, status: u16, used: u8, stack: &[[u8; 10]; 8]) -> Self {
        let top = (status >> 11 & 7) as u8;
        let mut registers = [X87Register::UNKNOWN; 8];
        for (i, bytes) in (0..).zip(stack) {
            let [s0, s1, s2, s3, s4, s5, s6, s7, low, high] = *bytes;
            registers[usize::from(top.wrapping_add(i) & 7)] = X87Register {
                significand: Word::known(u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
                top: Some(u16::from_le_bytes([low, high])),
            };
        }
        Self {
            control: Some(control),
            status: status & !TOP,
            status_known: !TOP,
            top: Some(top),
            used,
            used_known: u8::MAX,
            registers,
        }
    }

    /// Bits of the status word, if all of them are known.
    pub(crate) fn flags(&self, bits: u16) -> Option<u16> {
        (self.status_known & bits == bits).then_some(self.status & bits)
    }

    /// Sets bits of the status word, or clears them; `None` makes them unknown.
    pub(crate) fn set_flags(&mut self, bits: u16, value: Option<bool>) {
        self.status &= !bits;
        self.status_known &= !bits;
        if let Some(value) = value {
            self.status_known |= bits;
            self.status |= if value { bits } else { 0 };
        }
    }

    /// Bits that may have been set, and stay set.
    pub(crate) fn set_perhaps(&mut self, bits: u16) {
        self.status_known &= !(bits & !self.status);
    }

    /// The status word as it is stored, byte by byte known.
    pub(crate) fn status_word(&self) -> Word {
        let low = u8::from(self.flags(0xff).is_some());
        let high = u8::from(self.flags(0xff00 & !TOP).is_some() && self.top.is_some());
        let top = u16::from(self.top.unwrap_or(0)) << 11;
        Word::partial(u64::from(self.status | top), low | high << 1 | 0xfc)
    }

    /// Says whether an exception waits, by the masks.
    pub(crate) fn summarize(&mut self) {
        let waits = match self.control {
            Some(control) => {
                let counts = EXCEPTIONS & !control;
                match (self.status & counts, self.status_known & counts == counts) {
                    (0, true) => Some(false),
                    (0, false) => None,
                    _ => Some(true),
                }
            }
            None if self.flags(EXCEPTIONS) == Some(0) => Some(false),
            None => None,
        };
        self.set_flags(SUMMARY | BUSY, waits);
    }

    /// The number of a register of the stack.
    fn number(&self, place: u8) -> Option<u8> {
        self.top.map(|top| top.wrapping_add(place) & 7)
    }

    /// Whether a register of the stack is not empty.
    pub(crate) fn is_used(&self, place: u8) -> Option<bool> {
        let number = self.number(place)?;
        let is_known = self.used_known >> number & 1 != 0;
        is_known.then_some(self.used >> number & 1 != 0)
    }

    /// What a register of the stack holds, empty or not.
    pub(crate) fn value(&self, place: u8) -> Option<Extended> {
        let number = self.number(place)?;
        self.registers[usize::from(number)].value()
    }

    /// Sign and exponent of a register of the stack.
    pub(crate) fn top_of(&self, place: u8) -> Option<u16> {
        let number = self.number(place)?;
        self.registers[usize::from(number)].top
    }

    /// Writes a register of the stack, which then is not empty.
    pub(crate) fn set(&mut self, place: u8, value: Option<Extended>) {
        match self.number(place) {
            Some(number) => {
                self.registers[usize::from(number)] = X87Register::of(value);
                self.mark(number, true);
            }
            None => self.forget_stack(),
        }
    }

    fn mark(&mut self, number: u8, is_used: bool) {
        let bit = 1 << number;
        self.used_known |= bit;
        self.used = self.used & !bit | if is_used { bit } else { 0 };
    }

    /// Makes a register of the stack empty.
    pub(crate) fn free(&mut self, place: u8) {
        match self.number(place) {
            Some(number) => self.mark(number, false),
            None => (self.used, self.used_known) = (0, 0),
        }
    }

    /// Moves the stack's top.
    pub(crate) fn turn(&mut self, by: i8) {
        self.top = self.top.map(|top| top.wrapping_add_signed(by) & 7);
    }

    /// Makes the registers unknown, and which are empty.
    fn forget_stack(&mut self) {
        self.registers = [X87Register::UNKNOWN; 8];
        (self.used, self.used_known) = (0, 0);
    }

    /// Makes the stack unknown, and where it begins.
    pub(crate) fn lose_top(&mut self) {
        self.top = None;
        self.forget_stack();
    }

    /// Sets the control and the status to those of a new program. The registers become empty, and
    /// keep what they hold.
    pub(crate) fn initialize(&mut self) {
        self.control = Some(FIRST_CONTROL);
        self.status = 0;
        self.status_known = !TOP;
        self.top = Some(0);
        (self.used, self.used_known) = (0, u8::MAX);
    }

    /// What every MMX instruction does beside its work.
    pub(crate) fn enter_mmx(&mut self) {
        self.top = Some(0);
        (self.used, self.used_known) = (u8::MAX, u8::MAX);
    }

    /// What an MMX instruction does that leaves x87 alone on some processors.
    pub(crate) fn perhaps_enter_mmx(&mut self) {
        let has_entered = self.used & self.used_known == u8::MAX;
        if self.top == Some(0) && has_entered {
            return;
        }
        self.lose_top();
    }
}

/// The control word of a new program: all exceptions masked, 64 bits, to the nearest.
const FIRST_CONTROL: u16 = 0x37f;

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers are saved from the top on, and have their numbers here.
    #[test]
    fn saved_registers_have_numbers() {
        let mut stack = [[0; 10]; 8];
        stack[1] = [1, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f];
        let x87 = X87::saved(0x37f, 7 << 11, 1, &stack);
        assert_eq!(x87.top, Some(7));
        assert_eq!(x87.registers[0].top, Some(0x3fff));
        assert_eq!((x87.is_used(1), x87.is_used(0)), (Some(true), Some(false)));
        assert_eq!(x87.status_word().all(), Some(7 << 11));
    }

    /// An exception waits if it is not masked, and may if that is not known.
    #[test]
    fn summaries() {
        let mut x87 = X87::UNKNOWN;
        x87.initialize();
        x87.set_flags(4, Some(true));
        x87.summarize();
        assert_eq!(x87.flags(SUMMARY), Some(0));
        x87.control = Some(0x37b);
        x87.summarize();
        assert_eq!(x87.flags(SUMMARY), Some(SUMMARY));
        x87.control = None;
        x87.summarize();
        assert_eq!(x87.flags(SUMMARY), None);
    }
}
