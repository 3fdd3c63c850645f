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

use super::machine::{Computed, State, mask, sign_extended, width};
use crate::code::direct_target;
use crate::listing::Line;

/// Instructions of a function at most: larger ones are left out.
const MOST: usize = 50_000;
/// Times that an instruction is looked at, on the average, before a function is given up.
const ROUNDS: usize = 64;

/// Where a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// In a register when the function is entered.
    AtEntry(Register, u32),
    /// In a register that the instruction at an address has written.
    After(u64, Register),
    /// In the memory that the instruction at an address reads.
    InMemory(u64),
}

/// What becomes of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is not reached.
    Unreached,
    /// It stays.
    Stays,
    /// It divides by a number that is known.
    DividesByNumber,
    /// All that it does is known.
    Constant,
}

/// What a known value removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Folded {
    /// Instructions whose results are constant.
    pub(super) constant: BTreeSet<u64>,
    /// Divisions by what is a number then.
    pub(super) divisions: BTreeSet<u64>,
}

/// The code of a function.
#[derive(Debug)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
    index: BTreeMap<u64, usize>,
    /// Where its indirect jumps were seen to lead.
    entered: Vec<usize>,
    without: Vec<Verdict>,
}

impl Code {
    /// The code of a function in 64-bit mode, of which `entered` are places that indirect jumps
    /// were seen to lead to. `None` if it is too long.
    pub(super) fn new(lines: &[Line], entered: &BTreeSet<u64>) -> Option<Code> {
        let instructions: Vec<Instruction> =
            lines.iter().filter_map(|line| line.instruction).collect();
        if instructions.is_empty() || instructions.len() > MOST {
            return None;
        }
        let places = instructions.iter().enumerate();
        let index: BTreeMap<u64, usize> = places.map(|(at, one)| (one.ip(), at)).collect();
        let entered = entered.iter().filter_map(|at| index.get(at).copied());
        let mut code = Code {
            entered: entered.collect(),
            index,
            instructions,
            without: Vec::new(),
        };
        code.without = code.verdicts(None)?;
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

    /// Whether of a division at an address the rest is used, and not the quotient.
    pub(super) fn takes_rest(&self, address: u64) -> bool {
        let Some(at) = self.index.get(&address) else {
            return false;
        };
        let mut factory = InstructionInfoFactory::new();
        let mut open = [Some(Register::RAX), Some(Register::RDX)];
        for one in self.instructions.iter().skip(at + 1).take(NEAR) {
            for used in factory.info(one).used_registers() {
                for (which, slot) in open.iter_mut().enumerate() {
                    if *slot != Some(used.register().full_register()) {
                        continue;
                    }
                    match used.access() {
                        OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead => {
                            return which == 1;
                        }
                        _ => *slot = None,
                    }
                }
            }
            if one.flow_control() == FlowControl::Return {
                // What is returned is read by the caller.
                return false;
            }
        }
        false
    }

    /// What this value removes; `None` if that cannot be told.
    pub(super) fn folded(&self, known: Known, value: u64) -> Option<Folded> {
        let with = self.verdicts(Some((known, value)))?;
        let own = match known {
            Known::AtEntry(..) => None,
            Known::After(at, _) | Known::InMemory(at) => Some(at),
        };
        let mut folded = Folded::default();
        let all = self.instructions.iter().zip(&self.without).zip(with);
        for ((one, before), after) in all {
            match (before, after) {
                (Verdict::Constant, _) => {}
                // Who is looked at to know the value stays.
                (_, Verdict::Constant) if own != Some(one.ip()) => {
                    folded.constant.insert(one.ip());
                }
                (Verdict::Stays, Verdict::DividesByNumber) => {
                    folded.divisions.insert(one.ip());
                }
                _ => {}
            }
        }
        Some(folded)
    }

    fn verdicts(&self, known: Option<(Known, u64)>) -> Option<Vec<Verdict>> {
        let mut states: Vec<Option<State>> = vec![None; self.instructions.len()];
        let mut first = State::default();
        if let Some((Known::AtEntry(register, bits), value)) = known {
            first.know(register, value, bits);
        }
        if let Some(state) = states.first_mut() {
            *state = Some(first);
        }
        let mut step = Step {
            factory: InstructionInfoFactory::new(),
            known,
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
        let verdict = |(one, state): (&Instruction, Option<State>)| match state {
            None => Verdict::Unreached,
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

/// Instructions behind a division among which its results are looked for.
const NEAR: usize = 8;

/// Whether an instruction divides integers.
fn is_division(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv)
}

/// Runs instructions on what is known.
struct Step {
    factory: InstructionInfoFactory,
    known: Option<(Known, u64)>,
}

impl Step {
    /// Runs an instruction: what becomes of it, and a branch's direction.
    fn run(&mut self, one: &Instruction, state: &mut State) -> (Verdict, Option<bool>) {
        let done = self.compute(one, state);
        if let Some((Known::After(at, register), value)) = self.known
            && at == one.ip()
        {
            state.write(register, Some(value));
        }
        done
    }

    fn operand(&self, one: &Instruction, operand: u32, state: &State) -> Option<u64> {
        if operand >= one.op_count() {
            return None;
        }
        match one.op_kind(operand) {
            OpKind::Register => state.read(one.op_register(operand)),
            OpKind::Memory => match self.known {
                Some((Known::InMemory(at), value)) if at == one.ip() => Some(value),
                _ => None,
            },
            _ => one.try_immediate(operand).ok(),
        }
    }

    fn compute(&mut self, one: &Instruction, state: &mut State) -> (Verdict, Option<bool>) {
        use Mnemonic as M;
        let folds = |is_known: bool| match is_known {
            true => Verdict::Constant,
            false => Verdict::Stays,
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
                return (Verdict::Stays, None);
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
                return (Verdict::Stays, None);
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
            _ => (Verdict::Stays, None),
        }
    }

    fn two(&self, one: &Instruction, state: &State, bits: u32) -> Computed {
        let operands = [0, 1].map(|of| self.operand(one, of, state));
        let is_same = is_same_register(one, 0, 1);
        Computed::of_two(one.mnemonic(), operands, bits, is_same)
    }

    fn one(&self, one: &Instruction, state: &State, bits: u32) -> Computed {
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
    fn divide(&mut self, one: &Instruction, state: &mut State) -> Verdict {
        let divisor = self.operand(one, 0, state);
        self.forget(one, state);
        match divisor {
            Some(divisor) if divisor & mask(width(one, 0)) != 0 => Verdict::DividesByNumber,
            _ => Verdict::Stays,
        }
    }

    /// Forgets all that an instruction writes.
    fn forget(&mut self, one: &Instruction, state: &mut State) {
        for used in self.factory.info(one).used_registers() {
            if !matches!(
                used.access(),
                OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            ) {
                state.write(used.register().full_register(), None);
            }
        }
        if one.rflags_modified() != 0 {
            state.forget_flags();
        }
    }
}

/// Extensions of rax, in itself or into rdx.
fn extend(one: &Instruction, state: &mut State) -> Verdict {
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
        Some(_) => Verdict::Constant,
        None => Verdict::Stays,
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
mod tests {
    use super::*;
    use crate::code::decode;

    /// The code of these bytes at 0x1000.
    fn code(bytes: &[u8]) -> Code {
        let mut lines = Vec::new();
        let mut at = 0;
        while let Some(instruction) = decode(&bytes[at..], 0x1000 + at as u64) {
            lines.push(Line {
                address: instruction.ip(),
                instruction: Some(instruction),
                pc: None,
            });
            at += instruction.len();
        }
        Code::new(&lines, &BTreeSet::new()).expect("it is short")
    }

    fn constant(bytes: &[u8], known: Known, value: u64) -> Vec<u64> {
        let folded = code(bytes).folded(known, value).expect("it is told");
        folded.constant.into_iter().collect()
    }

    const EDI: Known = Known::AtEntry(Register::RDI, 32);

    /// A comparison with a known argument and the branch on it are removed, and so is what is
    /// computed from it alone; what also needs another value stays.
    #[test]
    fn branches_fold() {
        // cmp edi,4; jne +6; lea eax,[rdi+rdi]; add eax,esi; ret; mov eax,edi; ret
        let bytes = [
            0x83, 0xff, 4, 0x75, 6, 0x8d, 0x04, 0x3f, 0x01, 0xf0, 0xc3, 0x89, 0xf8, 0xc3,
        ];
        assert_eq!(constant(&bytes, EDI, 4), [0x1000, 0x1003, 0x1005]);
        // With another value the other way is gone.
        assert_eq!(constant(&bytes, EDI, 5), [0x1000, 0x1003, 0x100b]);
    }

    /// A division by a known argument becomes one by a number. Its rest is told from its quotient.
    #[test]
    fn divisions() {
        // mov eax,edi; xor edx,edx; div esi; mov eax,edx; ret
        let bytes = [0x89, 0xf8, 0x31, 0xd2, 0xf7, 0xf6, 0x89, 0xd0, 0xc3];
        let code = code(&bytes);
        let folded = code.folded(Known::AtEntry(Register::RSI, 32), 7);
        let folded = folded.expect("it is told");
        assert_eq!(folded.divisions, BTreeSet::from([0x1004]));
        assert!(folded.constant.is_empty() && code.takes_rest(0x1004));
        assert!(code.divides_by(Register::RSI) && !code.divides_by(Register::RDI));
        let by_zero = code.folded(Known::AtEntry(Register::RSI, 32), 0);
        assert_eq!(by_zero, Some(Folded::default()));
    }

    /// What two ways know differently is not known where they meet, so that a loop's counter is
    /// not; what the encoding fixes is no merit of the value.
    #[test]
    fn loops() {
        // mov eax,8; add eax,edi; dec eax; jne -4; mov ecx,edi; ret
        let bytes = [
            0xb8, 8, 0, 0, 0, 0x01, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0x89, 0xf9, 0xc3,
        ];
        assert_eq!(constant(&bytes, EDI, 4), [0x1005, 0x100b]);
    }

    /// What a load brought is known behind it; the load stays. A call leaves some registers alone.
    #[test]
    fn loads_and_calls() {
        // mov ebx,[rdi]; mov ecx,[rdi]; call +0; test ebx,ebx; je +0; test ecx,ecx; ret
        let bytes = [
            0x8b, 0x1f, 0x8b, 0x0f, 0xe8, 0, 0, 0, 0, 0x85, 0xdb, 0x74, 0, 0x85, 0xc9, 0xc3,
        ];
        assert_eq!(
            constant(&bytes, Known::After(0x1000, Register::EBX), 1),
            [0x1009, 0x100b]
        );
        assert!(constant(&bytes, Known::After(0x1002, Register::ECX), 1).is_empty());
        // cmp dword ptr [rdi],1; jne +0; ret
        let compared = [0x83, 0x3f, 1, 0x75, 0, 0xc3];
        assert_eq!(constant(&compared, Known::InMemory(0x1000), 1), [0x1003]);
    }
}
