//! Variables at a place: which one a register holds, and what type one has, as debug information
//! has it.

use std::collections::BTreeSet;

use gimli::{AttributeValue, Expression, Operation};
use iced_x86::Register;

use super::{Dwarf, Entry, NumberType, name_of};
use crate::dwarf::{Unit, attribute, covered, search};
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

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its name in the source.
    pub(crate) name: String,
    /// Which numbers it holds, if any.
    pub(crate) number: Option<NumberType>,
}

/// The variable that a register holds when the instruction at an address is reached: the innermost
/// one.
pub(crate) fn held(image: &Elf, address: u64, register: Register) -> Option<Variable> {
    innermost(image, address, |dwarf, unit, entry| {
        is_in(dwarf, unit, entry, address, register)
    })
}

/// The variable of this name that code at an address means: the innermost one.
pub(crate) fn named(image: &Elf, address: u64, name: &str) -> Option<Variable> {
    innermost(image, address, |_, unit, entry| {
        Ok(name_of(unit, entry).as_deref() == Some(name))
    })
}

/// The last variable that is meant of those that code at an address sees: inner ones come behind
/// outer ones.
fn innermost(
    image: &Elf,
    address: u64,
    is_meant: impl for<'a> Fn(&Dwarf<'a>, &Unit<'_, 'a>, &Entry<'a>) -> gimli::Result<bool>,
) -> Option<Variable> {
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
                    if is_meant(dwarf, unit, entry)? =>
                {
                    let variable = name_of(unit, entry).map(|name| {
                        let of = attribute(unit, entry, gimli::DW_AT_type);
                        let number = of.and_then(|of| NumberType::of(unit, of));
                        Variable { name, number }
                    });
                    found = variable.or(found.take());
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
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
    address: u64,
    register: Register,
) -> gimli::Result<bool> {
    let home = register_at(dwarf, unit, entry, address)?;
    Ok(home == Some(register.full_register()))
}

/// The register that all of a variable is in when the instruction at an address is reached.
pub(super) fn register_at<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
    address: u64,
) -> gimli::Result<Option<Register>> {
    let Some(location) = entry.attr_value(gimli::DW_AT_location) else {
        return Ok(None);
    };
    if let AttributeValue::Exprloc(expression) = location {
        return register_of(unit, expression);
    }
    let Some(mut locations) = dwarf.attr_locations(unit, location)? else {
        return Ok(None);
    };
    while let Some(location) = locations.next()? {
        if (location.range.begin..location.range.end).contains(&address) {
            return register_of(unit, location.data);
        }
    }
    Ok(None)
}

/// The register that an expression says all of a variable is in.
fn register_of<'a>(
    unit: &Unit<'_, 'a>,
    expression: Expression<Slice<'a>>,
) -> gimli::Result<Option<Register>> {
    let mut operations = expression.operations(unit.encoding());
    let first = operations.next()?;
    let is_all = operations.next()?.is_none();
    let Some(Operation::Register { register }) = first.filter(|_| is_all) else {
        return Ok(None);
    };
    Ok(NUMBERS.get(usize::from(register.0)).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{fixture, opened};

    /// Arguments are in their registers where a function begins, and other registers hold none.
    #[test]
    fn arguments() {
        let elf = opened(&fixture());
        let at_entry = |register| held(&elf, 0x1090, register).map(|variable| variable.name);
        assert_eq!(at_entry(Register::EDI).as_deref(), Some("a"));
        assert_eq!(at_entry(Register::RSI).as_deref(), Some("b"));
        assert_eq!(at_entry(Register::R12), None);
        assert_eq!(held(&elf, 0x9999, Register::RDI), None);
    }

    /// A variable has the type that is declared where the code is, and none elsewhere.
    #[test]
    fn types() {
        let elf = opened(&fixture());
        let number = |at, name| named(&elf, at, name).and_then(|variable| variable.number);
        let number = |at, name| number(at, name).map(|of| (of.bits, of.is_signed));
        assert_eq!(number(0x1090, "a"), Some((32, true)));
        assert_eq!(number(0x1090, "b"), Some((64, true)));
        assert_eq!(number(0x1040, "b"), Some((8, false)));
        assert_eq!(number(0x1040, "n"), None);
        assert_eq!(number(0x9999, "a"), None);
    }
}
