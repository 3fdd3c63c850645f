//! Which variable a register holds at a place, as debug information has it.

use std::collections::BTreeSet;

use gimli::{AttributeValue, Expression, Operation, Unit};
use iced_x86::Register;

use super::{Dwarf, Entry, name_of};
use crate::dwarf::{covered, search};
use crate::elf::Elf;
use crate::sections::Slice;

/// Registers by DWARF's numbers (System V ABI for x86-64, figure 3.36).
const NUMBERS: [Register; 16] = [
    Register::RAX,
    Register::RDX,
    Register::RCX,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::RSP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The name of the variable that a register holds when the instruction at an address is reached:
/// the innermost one.
pub(crate) fn held(image: &Elf, address: u64, register: Register) -> Option<String> {
    let mut found = None;
    let here = BTreeSet::from([address]);
    search(image, &here, |dwarf, unit| {
        let mut cursor = unit.entries();
        // Entries below one that does not cover the address are none of this place.
        let mut outside: Option<isize> = None;
        while let Some(entry) = cursor.next_dfs()? {
            let depth = entry.depth();
            if outside.is_some_and(|of| depth > of) {
                continue;
            }
            outside = None;
            match entry.tag() {
                gimli::DW_TAG_subprogram
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_lexical_block
                    if covered(dwarf, unit, entry, &here)?.is_empty() =>
                {
                    outside = Some(depth);
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter
                    if is_in(dwarf, unit, entry, address, register)? =>
                {
                    found = name_of(dwarf, unit, entry).or(found.take());
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    found
}

fn is_in<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<Slice<'a>>,
    entry: &Entry<'a>,
    address: u64,
    register: Register,
) -> gimli::Result<bool> {
    let Some(location) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(false);
    };
    if let AttributeValue::Exprloc(expression) = location {
        return names(unit, expression, register);
    }
    let Some(mut locations) = dwarf.attr_locations(unit, location)? else {
        return Ok(false);
    };
    while let Some(location) = locations.next()? {
        if (location.range.begin..location.range.end).contains(&address) {
            return names(unit, location.data, register);
        }
    }
    Ok(false)
}

/// Whether an expression says that all of a variable is in the register.
fn names<'a>(
    unit: &Unit<Slice<'a>>,
    expression: Expression<Slice<'a>>,
    register: Register,
) -> gimli::Result<bool> {
    let mut operations = expression.operations(unit.encoding());
    let first = operations.next()?;
    let is_all = operations.next()?.is_none();
    let Some(Operation::Register { register: number }) = first else {
        return Ok(false);
    };
    let named = NUMBERS.get(usize::from(number.0));
    Ok(is_all && named == Some(&register.full_register()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{fixture, opened};

    /// Arguments are in their registers where a function begins, and other registers hold none.
    #[test]
    fn arguments() {
        let elf = opened(&fixture());
        let at_entry = |register| held(&elf, 0x1090, register);
        assert_eq!(at_entry(Register::EDI).as_deref(), Some("a"));
        assert_eq!(at_entry(Register::RSI).as_deref(), Some("b"));
        assert_eq!(at_entry(Register::R12), None);
        assert_eq!(held(&elf, 0x9999, Register::RDI), None);
    }
}
