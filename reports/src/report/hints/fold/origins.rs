//! Where what an instruction reads comes from.
//!
//! A loop keeps a number of the whole run in a register. No instruction of the loop writes it, so
//! no window sees it written; but windows see it read. What is read comes from the definitions that
//! reach the reader (A. Aho, M. Lam, R. Sethi, J. Ullman, Compilers, 2006, 9.2.4): supposing that
//! each of them writes the value, constants can be carried from there.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register};

use super::super::machine::{bits_of, is_clobbered};
use super::{Code, KnownPlace, Simulator};

impl Code {
    /// The places that write what the instruction at an address reads from a register: a few at
    /// most. `None` where one of them is not known, or computes the register from itself, as a
    /// counter does.
    pub(super) fn origins(&self, address: u64, register: Register) -> Option<Vec<KnownPlace>> {
        /// More places have no value in common that a source would name.
        const MOST_ORIGINS: usize = 16;
        let start = *self.index.get(&address)?;
        let mut origins = Vec::new();
        let mut seen = BTreeSet::new();
        let mut work = vec![start];
        let mut factory = InstructionInfoFactory::new();
        while let Some(at) = work.pop() {
            if at == 0 {
                origins.push(KnownPlace::AtEntry(register, bits_of(register)));
            }
            for &before in self.predecessors.get(at)? {
                if !seen.insert(before) {
                    continue;
                }
                let one = self.get(before)?;
                match Written::by(&mut factory, one, register) {
                    Written::Not => work.push(before),
                    Written::Anew => origins.push(KnownPlace::Low(one.ip(), register)),
                    Written::FromItself | Written::Lost => return None,
                }
            }
        }
        let told = (1..=MOST_ORIGINS).contains(&origins.len());
        told.then_some(origins)
    }

    /// For each instruction those that control may come from.
    pub(super) fn find_predecessors(&mut self) {
        let mut predecessors = vec![Vec::new(); self.instructions.len()];
        for (at, one) in self.instructions.iter().enumerate() {
            for next in self.behind_of(one, None) {
                if let Some(of) = predecessors.get_mut(next) {
                    of.push(at);
                }
            }
        }
        self.predecessors = predecessors;
    }
}

/// What an instruction does to a register.
enum Written {
    Not,
    Anew,
    FromItself,
    /// What it holds then cannot be told.
    Lost,
}

impl Written {
    fn by(factory: &mut InstructionInfoFactory, one: &Instruction, register: Register) -> Written {
        let full = register.full_register();
        let is_call = matches!(
            one.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        match is_call {
            true if full == Register::RAX => return Written::Anew,
            true if is_clobbered(full) => return Written::Lost,
            true => return Written::Not,
            false => {}
        }
        let used = factory.info(one).used_registers().iter();
        let (mut reads, mut writes) = (false, false);
        for used in used.filter(|used| used.register().full_register() == full) {
            reads |= !matches!(
                used.access(),
                OpAccess::Write | OpAccess::None | OpAccess::NoMemAccess
            );
            writes |= Simulator::is_write(used.access());
        }
        match (writes, reads) {
            (false, _) => Written::Not,
            (true, false) => Written::Anew,
            (true, true) => Written::FromItself,
        }
    }
}
