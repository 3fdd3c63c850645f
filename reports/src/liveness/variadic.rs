//! Functions of variable arguments, as their first instructions show them.

use iced_x86::Register;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

use super::{instruction_at, is_save};
use crate::convention::PLATFORM;
use crate::elf::Elf;

/// Instructions within which a function of variable arguments saves its registers.
const PROLOGUE: usize = 64;

/// Bytes of a saved register.
const SLOT: u64 = 8;

/// A place on the stack: a register and what is added to it.
type Slot = (Register, u64);

/// How many integer arguments of the function at `entry` have names, if it has variable ones.
/// Callers of such tell in `al` how many vector registers they use (System V ABI 3.5.7), and it
/// looks there before it saves them. One that takes integers alone does not look. It saves the
/// registers behind the named ones in a row up to `r9`, and has the address where the row of all
/// would begin, or how far into that the first one is.
pub(super) fn variadic(elf: &Elf, entry: u64, factory: &mut InstructionInfoFactory) -> Option<u8> {
    let mut seen = Prologue {
        asks: false,
        may_ask: true,
        written: [false; 6],
        saved: [None; 6],
        addresses: Vec::new(),
        numbers: Vec::new(),
    };
    let mut address = entry;
    for _ in 0..PROLOGUE {
        let Some(instruction) = instruction_at(elf, address) else {
            break;
        };
        let flow = instruction.flow_control();
        if !matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch) {
            break;
        }
        seen.take(&instruction, factory);
        address = instruction.next_ip();
    }
    seen.named()
}

/// What the first instructions of a function do.
struct Prologue {
    /// It asks whether vector registers are in use, which `al` tells until it is written.
    asks: bool,
    may_ask: bool,
    /// Integer argument registers that were overwritten.
    written: [bool; 6],
    /// Where the others were stored on the stack.
    saved: [Option<Slot>; 6],
    /// Addresses on the stack that were taken.
    addresses: Vec<Slot>,
    /// Numbers that were stored on the stack.
    numbers: Vec<u64>,
}

impl Prologue {
    fn take(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let register = |operand| match instruction.op_kind(operand) {
            OpKind::Register => instruction.op_register(operand),
            _ => Register::None,
        };
        let slot = (
            instruction.memory_base(),
            instruction.memory_displacement64(),
        );
        let is_on_stack = matches!(slot.0, Register::RSP | Register::RBP)
            && instruction.memory_index() == Register::None;
        match instruction.mnemonic() {
            Mnemonic::Test if self.may_ask => {
                self.asks |= register(0) == Register::AL && register(1) == Register::AL;
            }
            Mnemonic::Lea if is_on_stack => self.addresses.push(slot),
            Mnemonic::Mov if is_on_stack && instruction.op0_kind() == OpKind::Memory => {
                let stored = register(1);
                let number = PLATFORM.iter().position(|of| *of == stored);
                let number = number.filter(|_| is_save(instruction));
                if let Some(number) = number
                    && self.written.get(number) == Some(&false)
                    && let Some(saved) = self.saved.get_mut(number)
                {
                    saved.get_or_insert(slot);
                }
                self.numbers.extend(instruction.try_immediate(1).ok());
            }
            _ => {}
        }
        for used in factory.info(instruction).used_registers() {
            if used.access() == OpAccess::Read {
                continue;
            }
            let full = used.register().full_register();
            self.may_ask &= full != Register::RAX;
            for (written, of) in self.written.iter_mut().zip(PLATFORM) {
                *written |= full == of;
            }
        }
        self.may_ask &= instruction.flow_control() == FlowControl::Next;
    }

    fn named(&self) -> Option<u8> {
        let row = self.row();
        if self.asks {
            return Some(row.map_or(0, |(named, _)| named));
        }
        let (named, start) = row?;
        let says_start = self.addresses.contains(&start);
        let says_first = self.numbers.contains(&(u64::from(named) * SLOT));
        (says_start || says_first).then_some(named)
    }

    /// The row of registers that are saved one behind the other up to the last one: the number of
    /// those in front of it, and where it would begin with them.
    fn row(&self) -> Option<(u8, Slot)> {
        let (base, last) = (*self.saved.last()?)?;
        let start = last.wrapping_sub((6 - 1) * SLOT);
        let is_in_row = |(number, saved): (u8, &Option<Slot>)| {
            let here = start.wrapping_add(u64::from(number) * SLOT);
            *saved == Some((base, here))
        };
        let numbered = (0_u8..).zip(&self.saved);
        let in_front = numbered.filter(|one| !is_in_row(*one));
        let named = in_front.map(|(number, _)| number + 1).max();
        Some((named.unwrap_or(0), (base, start)))
    }
}
