//! Which results of a division are used.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, InstructionInfoFactory, OpAccess, Register};

use super::Code;

/// What of a division is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Results {
    /// The quotient.
    Quotient,
    /// The rest.
    Rest,
    /// One division gives both: it stays as long as one of them is asked of it.
    Both,
}

impl Code {
    /// What is used of the division at an address. What is returned is read by the caller.
    pub(in super::super) fn results(&self, address: u64) -> Results {
        let quotient = self.is_read_behind(address, Register::RAX);
        let rest = self.is_read_behind(address, Register::RDX);
        match (quotient, rest) {
            (true, true) => Results::Both,
            (false, true) => Results::Rest,
            (_, false) => Results::Quotient,
        }
    }

    /// Whether a register is read behind an instruction before it is written.
    fn is_read_behind(&self, address: u64, register: Register) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let mut seen = BTreeSet::new();
        let start = self.at(address).map(|one| self.behind_of(one, None));
        let mut work = start.unwrap_or_default();
        while let Some(at) = work.pop() {
            let Some(one) = self.get(at).filter(|_| seen.insert(at)) else {
                continue;
            };
            let used = factory.info(one).used_registers().iter();
            let access = used.filter(|used| used.register().full_register() == register);
            let access: Vec<OpAccess> = access.map(iced_x86::UsedRegister::access).collect();
            let is_read = access.iter().any(|access| {
                matches!(
                    access,
                    OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead
                )
            });
            match one.flow_control() {
                _ if is_read => return true,
                FlowControl::Return if register == Register::RAX => return true,
                // Called functions may change both.
                FlowControl::Call | FlowControl::IndirectCall => {}
                _ if access.is_empty() => work.extend(self.behind_of(one, None)),
                _ => {}
            }
        }
        false
    }
}
