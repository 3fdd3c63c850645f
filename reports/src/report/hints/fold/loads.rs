//! What of a function's time is that of a load, and what a load's value is for.

use std::collections::BTreeSet;

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M, OpAccess, OpKind, Register,
};
use instructions::only_computes_address;

use super::{Code, KnownPlace, NEAR, Simulator, is_division};

/// What is looked through for the first reader of a register.
const AHEAD: usize = 32;

impl Code {
    /// The instructions that wait for what a value at a place comes of: a load, or a division.
    pub(in super::super) fn waits(&self, known: KnownPlace) -> BTreeSet<u64> {
        let mut waiting = self.waits_for_load(known);
        waiting.append(&mut self.waits_for_division(known));
        waiting
    }

    /// The instructions that wait for a load which tells a value, where that is what the place is.
    ///
    /// A processor that waits for memory is interrupted behind the load, or where what it brings is
    /// used first. A special case begins with that load as well, and with a test for the value.
    fn waits_for_load(&self, known: KnownPlace) -> BTreeSet<u64> {
        let (at, register) = match known {
            KnownPlace::After(at, register) | KnownPlace::Low(at, register) => (at, Some(register)),
            KnownPlace::InMemory(at) => (at, None),
            KnownPlace::AtEntry(..) | KnownPlace::Read(..) => return BTreeSet::new(),
        };
        let Some(one) = self.at(at).filter(|one| loads(one)) else {
            return BTreeSet::new();
        };
        let is_written = |one: &Instruction| {
            one.op0_kind() == OpKind::Register && !matches!(one.mnemonic(), M::Cmp | M::Test)
        };
        let register = register.or_else(|| is_written(one).then(|| one.op0_register()));
        let consumer = register.and_then(|register| self.first_reader(at, register));
        let mut waiting: Vec<u64> = self.behind(at).into_iter().chain(consumer).collect();
        waiting.extend(self.test_behind(at));
        waiting.extend(consumer.and_then(|consumer| self.test_behind(consumer)));
        // A loop that loads once waits once.
        waiting.retain(|waiting| !self.repeats_without(*waiting, at));
        waiting.into_iter().collect()
    }

    /// Those of some instructions whose time is that of one in front of them which is not among
    /// them, and stays: a processor that waits for what an instruction does is interrupted behind
    /// it.
    pub(in super::super) fn behind_others(&self, removed: &BTreeSet<u64>) -> BTreeSet<u64> {
        let is_behind = |at: &&u64| {
            let index = self.index.get(at);
            let before = index.and_then(|index| self.predecessors.get(*index));
            let mut before = before.into_iter().flatten();
            before.any(|index| {
                let one = self.get(*index);
                one.is_some_and(|one| !removed.contains(&one.ip()) && takes_long(one))
            })
        };
        removed.iter().filter(is_behind).copied().collect()
    }

    /// The branch on what the instruction at an address compares.
    fn test_behind(&self, address: u64) -> Option<u64> {
        let compares = matches!(self.at(address)?.mnemonic(), M::Cmp | M::Test);
        let behind = self.behind(address)?;
        let branches = self.at(behind)?.flow_control() == FlowControl::ConditionalBranch;
        (compares && branches).then_some(behind)
    }

    /// The first instruction behind one, in the order of the addresses, that reads a register.
    fn first_reader(&self, address: u64, register: Register) -> Option<u64> {
        let full = register.full_register();
        let mut factory = InstructionInfoFactory::new();
        let start = self.index.get(&address)? + 1;
        for one in self.instructions.iter().skip(start).take(AHEAD) {
            let used = factory.info(one).used_registers().iter();
            let of_it = used.filter(|used| used.register().full_register() == full);
            let access: Vec<OpAccess> = of_it.map(iced_x86::UsedRegister::access).collect();
            if access.iter().any(|access| reads(*access)) {
                return Some(one.ip());
            }
            let ends = matches!(
                one.flow_control(),
                FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
            if ends || !access.is_empty() {
                return None;
            }
        }
        None
    }

    /// Whether what the instruction at an address loads is where a jump or call leads, or how far
    /// that is from a table: no number of the source.
    pub(in super::super) fn leads_a_jump(&self, address: u64) -> bool {
        let Some(one) = self.at(address).filter(|one| loads(one)) else {
            return false;
        };
        if one.flow_control() != FlowControl::Next {
            return true;
        }
        if one.op0_kind() != OpKind::Register {
            return false;
        }
        let mut carried = BTreeSet::from([one.op0_register().full_register()]);
        let mut factory = InstructionInfoFactory::new();
        let start = self.index.get(&address).map_or(usize::MAX, |at| at + 1);
        for one in self.instructions.iter().skip(start).take(NEAR) {
            let is_indirect = matches!(
                one.flow_control(),
                FlowControl::IndirectBranch | FlowControl::IndirectCall
            );
            if is_indirect {
                return one.op0_kind() == OpKind::Register
                    && carried.contains(&one.op0_register().full_register());
            }
            if one.flow_control() != FlowControl::Next {
                return false;
            }
            let passes = matches!(
                one.mnemonic(),
                M::Add | M::Sub | M::Lea | M::Mov | M::Movsxd
            ) && one.op0_kind() == OpKind::Register
                && (only_computes_address(one)
                    || !one.op_kinds().any(|kind| kind == OpKind::Memory));
            let info = factory.info(one);
            let used = || info.used_registers().iter();
            let takes = used().any(|used| {
                reads(used.access()) && carried.contains(&used.register().full_register())
            });
            for used in used().filter(|used| Simulator::is_write(used.access())) {
                carried.remove(&used.register().full_register());
            }
            if passes && takes {
                carried.insert(one.op0_register().full_register());
            }
        }
        false
    }
}

/// Whether an instruction may take longer than those around it: it uses memory, divides, calls, or
/// calculates with floating-point numbers.
fn takes_long(one: &Instruction) -> bool {
    let is_vector =
        |register: Register| register.is_vector_register() || register.is_mm() || register.is_st();
    let uses_memory = one.op_kinds().any(|kind| kind == OpKind::Memory);
    let calls = matches!(
        one.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    calls
        || is_division(one)
        || uses_memory && !only_computes_address(one)
        || one.op0_kind() == OpKind::Register && is_vector(one.op0_register())
}

pub(super) fn reads(access: OpAccess) -> bool {
    !matches!(
        access,
        OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess
    )
}

/// Whether an instruction reads memory at an address that it names.
fn loads(one: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let memory = factory.info(one).used_memory();
    let is_read = memory.iter().any(|used| {
        matches!(
            used.access(),
            OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead
        )
    });
    is_read && one.op_kinds().any(|kind| kind == OpKind::Memory) && !only_computes_address(one)
}
