//! What waits for a division because it is computed from what that gives.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Register};

use super::loads::reads;
use super::{Code, KnownPlace, Simulator, is_division};

/// Instructions in front of one among which the division is looked for, and behind the division
/// among which what waits for it is.
const AHEAD: usize = 32;

impl Code {
    /// The instructions in a row behind a division that wait for it, where a place tells of what is
    /// computed from its quotient or rest, as a comparison of it.
    ///
    /// A special case for such a value divides as well, and tests what comes of it. Of the branch
    /// that ends the row that is the test; what it leads to counts.
    pub(super) fn waits_for_division(&self, known: KnownPlace) -> BTreeSet<u64> {
        let (KnownPlace::After(at, _) | KnownPlace::Low(at, _)) = known else {
            return BTreeSet::new();
        };
        let division = self.division_in_front(at);
        let row = division.map(|division| self.computed_from(division));
        let row = row.filter(|row| row.contains(&at)).unwrap_or_default();
        row.into_iter().filter(|waiting| *waiting > at).collect()
    }

    /// The last division in front of the instruction at an address, in the same row.
    fn division_in_front(&self, address: u64) -> Option<usize> {
        let end = *self.index.get(&address)?;
        let row = self.instructions.get(..end)?.iter().enumerate().rev();
        let mut row = row
            .take(AHEAD)
            .take_while(|(_, one)| one.flow_control() == FlowControl::Next);
        row.find(|(_, one)| is_division(one)).map(|(at, _)| at)
    }

    /// What is computed from the results of a division up to the next branch, and that branch if it
    /// is on one of them.
    fn computed_from(&self, division: usize) -> BTreeSet<u64> {
        let mut carried = Carried {
            factory: InstructionInfoFactory::new(),
            registers: BTreeSet::from([Register::RAX, Register::RDX]),
            flags: 0,
        };
        let mut computed = BTreeSet::new();
        for one in self.instructions.iter().skip(division + 1).take(AHEAD) {
            if carried.takes(one) {
                computed.insert(one.ip());
            }
            if one.flow_control() != FlowControl::Next {
                break;
            }
        }
        computed
    }
}

/// What comes of a division at a place behind it.
struct Carried {
    factory: InstructionInfoFactory,
    registers: BTreeSet<Register>,
    flags: u32,
}

impl Carried {
    /// Whether an instruction takes any of it. What it writes comes of the division then, and does
    /// not otherwise.
    fn takes(&mut self, one: &Instruction) -> bool {
        let used = self.factory.info(one).used_registers().to_vec();
        let of_registers = used.iter().any(|used| {
            reads(used.access()) && self.registers.contains(&used.register().full_register())
        });
        let takes = of_registers || one.rflags_read() & self.flags != 0;
        for used in used
            .iter()
            .filter(|used| Simulator::is_write(used.access()))
        {
            let register = used.register().full_register();
            match takes {
                true => self.registers.insert(register),
                false => self.registers.remove(&register),
            };
        }
        match takes {
            true => self.flags |= one.rflags_modified(),
            false => self.flags &= !one.rflags_modified(),
        }
        takes
    }
}
