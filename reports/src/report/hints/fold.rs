//! What of a function becomes constant if one of its values is known.
//!
//! Constants are carried over the instructions of the function, along those ways only that are
//! possible with them (M. Wegman, K. Zadeck, Constant propagation with conditional branches, 1991).
//! Once without the value and once with it: the difference is what the value decides. Memory is not
//! followed, so what goes through it stays unknown.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use instructions::is_same_register;

use super::machine::{Computed, KnownState, bits_of, mask, sign_extended, width};
use crate::code::direct_target;
use crate::listing::FunctionInstruction;

mod implied;
mod loads;
mod origins;
mod quotients;
mod results;

pub(super) use results::Results;

/// Instructions of a function at most: larger ones are left out.
const MOST: usize = 50_000;
/// Looks at each instruction, on the average, before a function is given up.
const ROUNDS: usize = 64;

/// Where a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KnownPlace {
    /// In a register when the function is entered.
    AtEntry(Register, u32),
    /// In a register that the instruction at an address has written.
    After(u64, Register),
    /// In the memory that the instruction at an address reads.
    InMemory(u64),
    /// In a register that the instruction at an address reads, and so where that was written.
    Read(u64, Register),
    /// In the low bits of a register, behind the instruction at an address.
    Low(u64, Register),
}

/// What becomes of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folding {
    /// It is not reached.
    Unreached,
    /// It stays.
    Stays,
    /// It divides by this number.
    DividesBy(u64),
    /// All that it does is known.
    Constant,
}

/// What a known value removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Folded {
    /// Instructions whose results are constant.
    pub(super) constant: BTreeSet<u64>,
    /// Divisions by what is a number then, and that number.
    pub(super) divisions: BTreeMap<u64, u64>,
}

/// The code of a function.
#[derive(Debug)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
    index: BTreeMap<u64, usize>,
    /// Where its indirect jumps were seen to lead.
    entered: Vec<usize>,
    /// For each instruction those that control may come from.
    predecessors: Vec<Vec<usize>>,
    without: Vec<Folding>,
}

impl Code {
    /// The code of a function in 64-bit mode, of which `entered` are places that indirect jumps
    /// were seen to lead to. `None` if it is too long.
    pub(super) fn new(lines: &[FunctionInstruction], entered: &BTreeSet<u64>) -> Option<Code> {
        let instructions: Vec<Instruction> =
            lines.iter().filter_map(|line| line.instruction).collect();
        if instructions.is_empty() || instructions.len() > MOST {
            return None;
        }
        let places = instructions.iter().map(Instruction::ip);
        let index: BTreeMap<u64, usize> = places.zip(0..).collect();
        let entered = entered.iter().filter_map(|at| index.get(at).copied());
        let mut code = Code {
            entered: entered.collect(),
            index,
            instructions,
            predecessors: Vec::new(),
            without: Vec::new(),
        };
        code.find_predecessors();
        code.without = code.verdicts(&[], 0)?;
        Some(code)
    }

    /// The instruction at an address.
    pub(super) fn at(&self, address: u64) -> Option<&Instruction> {
        self.instructions.get(*self.index.get(&address)?)
    }

    /// The address of the instruction that runs behind the one at an address.
    pub(super) fn behind(&self, address: u64) -> Option<u64> {
        let next = self.at(address)?.next_ip();
        self.index.contains_key(&next).then_some(next)
    }

    /// Whether the function divides by what a register holds, or by memory.
    pub(super) fn divides_by(&self, register: Register) -> bool {
        self.instructions.iter().any(|one| {
            is_division(one)
                && one.op0_kind() == OpKind::Register
                && one.op0_register().full_register() == register.full_register()
        })
    }

    /// Whether any of these instructions multiplies, or compares with a number that is no mark in
    /// place of an address, as 0, 1, and errors below 0 are.
    pub(super) fn calculates(&self, addresses: &BTreeSet<u64>) -> bool {
        let mut all = addresses.iter().filter_map(|address| self.at(*address));
        all.any(|one| match one.mnemonic() {
            Mnemonic::Imul => true,
            Mnemonic::Cmp => one.try_immediate(1).is_ok_and(|by| by.cast_signed() > 1),
            _ => false,
        })
    }

    /// Whether the instruction at an address reads what the thread has for itself.
    pub(super) fn reads_of_thread(&self, address: u64) -> bool {
        let segment = self.at(address).map(Instruction::memory_segment);
        matches!(segment, Some(Register::FS | Register::GS))
    }

    /// Where a value must be known for it to be known there.
    pub(super) fn places(&self, known: KnownPlace) -> Option<Vec<KnownPlace>> {
        match known {
            KnownPlace::Read(at, register) => self.origins(at, register),
            _ => Some(vec![known]),
        }
    }

    /// What this value removes if it is known at these places; `None` if that cannot be told.
    pub(super) fn folded(&self, known: &[KnownPlace], value: u64) -> Option<Folded> {
        let with = self.verdicts(known, value)?;
        let own: BTreeSet<u64> = known.iter().filter_map(|known| known.address()).collect();
        let mut folded = Folded::default();
        let all = self.instructions.iter().zip(&self.without).zip(with);
        for ((one, before), after) in all {
            match (before, after) {
                (Folding::Constant, _) => {}
                // Who is looked at to know the value stays.
                (_, Folding::Constant) if !own.contains(&one.ip()) => {
                    folded.constant.insert(one.ip());
                }
                (Folding::Stays, Folding::DividesBy(number)) => {
                    folded.divisions.insert(one.ip(), number);
                }
                _ => {}
            }
        }
        Some(folded)
    }

    fn verdicts(&self, known: &[KnownPlace], value: u64) -> Option<Vec<Folding>> {
        let mut states: Vec<Option<KnownState>> = vec![None; self.instructions.len()];
        let mut first = KnownState::default();
        let mut inside = BTreeMap::new();
        for &one in known {
            match (one, one.address()) {
                (KnownPlace::AtEntry(register, bits), _) => first.know(register, value, bits),
                (_, Some(address)) => {
                    inside.insert(address, one);
                }
                (_, None) => {}
            }
        }
        if let Some(state) = states.first_mut() {
            *state = Some(first);
        }
        let mut step = Simulator {
            factory: InstructionInfoFactory::new(),
            known: inside,
            value,
        };
        let mut work = BTreeSet::from([0]);
        let mut left = self.instructions.len().saturating_mul(ROUNDS);
        while let Some(at) = work.pop_first() {
            left = left.checked_sub(1)?;
            let Some((state, one)) = states.get(at).cloned().flatten().zip(self.get(at)) else {
                continue;
            };
            let mut state = state;
            let (_, taken) = step.run(one, &mut state);
            for next in self.behind_of(one, taken) {
                let changed = match states.get_mut(next) {
                    Some(Some(there)) => there.meet(&state),
                    Some(nothing) => {
                        *nothing = Some(state.clone());
                        true
                    }
                    None => false,
                };
                if changed {
                    work.insert(next);
                }
            }
        }
        let verdict = |(one, state): (&Instruction, Option<KnownState>)| match state {
            None => Folding::Unreached,
            Some(mut state) => step.run(one, &mut state).0,
        };
        Some(self.instructions.iter().zip(states).map(verdict).collect())
    }

    fn get(&self, at: usize) -> Option<&Instruction> {
        self.instructions.get(at)
    }

    /// Where control may go from an instruction, of which a branch's direction may be known.
    fn behind_of(&self, one: &Instruction, taken: Option<bool>) -> Vec<usize> {
        let next = || self.index.get(&one.next_ip()).copied();
        let target = || direct_target(one).and_then(|to| self.index.get(&to).copied());
        match one.flow_control() {
            FlowControl::Next
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::XbeginXabortXend => next().into_iter().collect(),
            FlowControl::UnconditionalBranch => target().into_iter().collect(),
            FlowControl::ConditionalBranch => match taken {
                Some(true) => target().into_iter().collect(),
                Some(false) => next().into_iter().collect(),
                None => next().into_iter().chain(target()).collect(),
            },
            FlowControl::IndirectBranch => self.entered.clone(),
            FlowControl::Return | FlowControl::Interrupt | FlowControl::Exception => Vec::new(),
        }
    }
}

/// Instructions behind a load among which a jump on what it brings is looked for.
const NEAR: usize = 8;

/// Whether an instruction divides integers.
fn is_division(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
}

impl KnownPlace {
    /// The instruction at which it is known; none at the entry.
    pub(super) fn address(self) -> Option<u64> {
        match self {
            KnownPlace::AtEntry(..) => None,
            KnownPlace::After(at, _)
            | KnownPlace::InMemory(at)
            | KnownPlace::Read(at, _)
            | KnownPlace::Low(at, _) => Some(at),
        }
    }
}

/// Runs instructions on what is known.
struct Simulator {
    factory: InstructionInfoFactory,
    /// Where the value is known, by the instructions.
    known: BTreeMap<u64, KnownPlace>,
    value: u64,
}

impl Simulator {
    /// Runs an instruction: what becomes of it, and a branch's direction.
    fn run(&mut self, one: &Instruction, state: &mut KnownState) -> (Folding, Option<bool>) {
        let done = self.compute(one, state);
        match self.known.get(&one.ip()) {
            Some(KnownPlace::After(_, register)) => state.write(*register, Some(self.value)),
            // One that writes another constant is not the one that wrote the value.
            Some(KnownPlace::Low(_, register)) => {
                state.know(*register, self.value, bits_of(*register));
            }
            _ => {}
        }
        done
    }

    fn operand(&self, one: &Instruction, operand: u32, state: &KnownState) -> Option<u64> {
        if operand >= one.op_count() {
            return None;
        }
        match one.op_kind(operand) {
            OpKind::Register => state.read(one.op_register(operand)),
            OpKind::Memory => match self.known.get(&one.ip()) {
                Some(KnownPlace::InMemory(_)) => Some(self.value),
                _ => None,
            },
            _ => one.try_immediate(operand).ok(),
        }
    }

    fn compute(&mut self, one: &Instruction, state: &mut KnownState) -> (Folding, Option<bool>) {
        use Mnemonic as M;
        let folds = |is_known: bool| match is_known {
            true => Folding::Constant,
            false => Folding::Stays,
        };
        match one.flow_control() {
            FlowControl::ConditionalBranch => {
                let taken = state.holds(one.condition_code());
                return (folds(taken.is_some()), taken);
            }
            FlowControl::IndirectBranch => {
                let is_known = match one.op0_kind() {
                    OpKind::Register => state.read(one.op0_register()).is_some(),
                    OpKind::Memory => state.knows_address(one),
                    _ => false,
                };
                return (folds(is_known), None);
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                state.call();
                return (Folding::Stays, None);
            }
            _ => {}
        }
        if is_division(one) {
            return (self.divide(one, state), None);
        }
        let bits = match one.op_count() {
            0 => 0,
            _ => width(one, 0),
        };
        let computed = match one.mnemonic() {
            M::Mov | M::Movzx if one.op_count() == 2 => {
                Computed::plain(self.operand(one, 1, state).map(|value| value & mask(bits)))
            }
            M::Movsx | M::Movsxd => {
                let from = width(one, 1);
                let value = self.operand(one, 1, state);
                Computed::plain(value.map(|value| sign_extended(value, from) & mask(bits)))
            }
            M::Lea => Computed::plain(state.address(one, bits)),
            M::Add | M::Sub | M::And | M::Or | M::Xor | M::Cmp | M::Test => {
                self.two(one, state, bits)
            }
            M::Shl | M::Sal | M::Shr | M::Sar if one.op_count() == 2 => self.two(one, state, bits),
            M::Inc | M::Dec | M::Neg | M::Not => self.one(one, state, bits),
            M::Imul if one.op_count() >= 2 => {
                let first = one.op_count() - 2;
                let [a, b] = [first, first + 1].map(|of| self.operand(one, of, state));
                let product = match (a, b) {
                    (Some(0), _) | (_, Some(0)) => Some(0),
                    (a, b) => a.zip(b).map(|(a, b)| a.wrapping_mul(b)),
                };
                Computed::plain(product.map(|value| value & mask(bits)))
            }
            M::Cdqe | M::Cwde | M::Cdq | M::Cqo => return (extend(one, state), None),
            _ if is_set(one) => Computed::plain(state.holds(one.condition_code()).map(u64::from)),
            _ if is_conditional_move(one) => {
                let holds = state.holds(one.condition_code());
                let [old, new] = [0, 1].map(|of| self.operand(one, of, state));
                let value = match holds {
                    Some(true) => new,
                    Some(false) => old,
                    None => old.filter(|_| old == new),
                };
                state.write(one.op0_register(), value);
                return (folds(holds.is_some() || value.is_some()), None);
            }
            _ => {
                self.forget(one, state);
                return (Folding::Stays, None);
            }
        };
        // A shift by nothing leaves the flags.
        let is_shift = matches!(one.mnemonic(), M::Shl | M::Sal | M::Shr | M::Sar);
        let by = self.operand(one, 1, state).filter(|_| is_shift);
        let shifts_nothing = by.is_some_and(|by| by & if bits == 64 { 63 } else { 31 } == 0);
        if one.rflags_modified() != 0 && !shifts_nothing {
            let keeps_carry = matches!(one.mnemonic(), M::Inc | M::Dec | M::Not);
            match one.mnemonic() {
                M::Imul => state.forget_flags(),
                _ => state.set_flags(computed, bits, keeps_carry),
            }
        }
        let is_known = computed.value().is_some();
        if matches!(one.mnemonic(), M::Cmp | M::Test) {
            return (folds(is_known), None);
        }
        match one.op0_kind() {
            OpKind::Register => {
                state.write(one.op0_register(), computed.value());
                (folds(is_known && one.op0_register().is_gpr()), None)
            }
            // What is stored is stored.
            _ => (Folding::Stays, None),
        }
    }

    fn two(&self, one: &Instruction, state: &KnownState, bits: u32) -> Computed {
        let operands = [0, 1].map(|of| self.operand(one, of, state));
        let is_same = is_same_register(one, 0, 1);
        Computed::of_two(one.mnemonic(), operands, bits, is_same)
    }

    fn one(&self, one: &Instruction, state: &KnownState, bits: u32) -> Computed {
        let value = self.operand(one, 0, state);
        let (mnemonic, operands) = match one.mnemonic() {
            Mnemonic::Inc => (Mnemonic::Add, [value, Some(1)]),
            Mnemonic::Dec => (Mnemonic::Sub, [value, Some(1)]),
            Mnemonic::Neg => (Mnemonic::Sub, [Some(0), value]),
            _ => (Mnemonic::Xor, [value, Some(mask(bits))]),
        };
        Computed::of_two(mnemonic, operands, bits, false)
    }

    /// A division: by a number, by chance of one, or neither.
    fn divide(&mut self, one: &Instruction, state: &mut KnownState) -> Folding {
        let divisor = self.operand(one, 0, state);
        self.forget(one, state);
        match divisor.map(|divisor| divisor & mask(width(one, 0))) {
            Some(0) | None => Folding::Stays,
            Some(divisor) => Folding::DividesBy(divisor),
        }
    }

    fn is_write(access: OpAccess) -> bool {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    }

    /// Forgets all that an instruction writes.
    fn forget(&mut self, one: &Instruction, state: &mut KnownState) {
        for used in self.factory.info(one).used_registers() {
            if Simulator::is_write(used.access()) {
                state.write(used.register().full_register(), None);
            }
        }
        if one.rflags_modified() != 0 {
            state.forget_flags();
        }
    }
}

/// Extensions of rax, in itself or into rdx.
fn extend(one: &Instruction, state: &mut KnownState) -> Folding {
    let (from, to, bits) = match one.mnemonic() {
        Mnemonic::Cdqe => (Register::EAX, Register::RAX, 32),
        Mnemonic::Cwde => (Register::AX, Register::EAX, 16),
        Mnemonic::Cdq => (Register::EAX, Register::EDX, 32),
        _ => (Register::RAX, Register::RDX, 64),
    };
    let value = state.read(from).map(|value| sign_extended(value, bits));
    let value = match one.mnemonic() {
        Mnemonic::Cdqe | Mnemonic::Cwde => value,
        _ => value.map(|value| sign_extended(value >> 63, 1)),
    };
    state.write(to, value);
    match value {
        Some(_) => Folding::Constant,
        None => Folding::Stays,
    }
}

fn is_set(one: &Instruction) -> bool {
    is_conditional(one) && one.op_count() == 1
}

fn is_conditional_move(one: &Instruction) -> bool {
    is_conditional(one) && one.op_count() == 2 && one.op0_kind() == OpKind::Register
}

/// Whether a condition decides what an instruction writes to a general register.
fn is_conditional(one: &Instruction) -> bool {
    one.condition_code() != iced_x86::ConditionCode::None
        && one.flow_control() == FlowControl::Next
        && (one.op0_kind() == OpKind::Memory || one.op0_register().is_gpr())
}

#[cfg(test)]
mod tests;
