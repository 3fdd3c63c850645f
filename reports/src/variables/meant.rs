//! What a name means in code at an address, by the scopes that debug information has: what stands
//! in the same function of the source, which may be inlined, hides what stands around that.

use std::collections::BTreeSet;

use gimli::AttributeValue;
use iced_x86::Register;

use super::held::register_at;
use super::{Dwarf, Entry, MAX_CHAIN, NumberType, name_of, whole_name};
use crate::dwarf::{Unit, attribute, covered, entry_address, search};
use crate::elf::Elf;
use crate::sections::Slice;

/// A variable of numbers, as the code at an address means it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meant {
    /// Which numbers it holds.
    pub(crate) number: NumberType,
    /// Where it is declared.
    pub(crate) scope: Scope,
    /// The register that it is in when the instruction at the address is reached.
    pub(crate) register: Option<Register>,
}

/// Where a variable is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In the head of the function.
    Head,
    /// In its body.
    Body,
    /// Outside of functions.
    Outside,
}

/// The head of a function of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its name, without what is around it.
    pub(crate) name: String,
    /// The line that it stands on.
    pub(crate) line: u32,
    /// Where it is entered; `None`: it is inlined.
    pub(crate) entry: Option<u64>,
}

/// The function of the source that code at an address is of: the innermost one that is inlined
/// there, or the one itself.
pub(crate) fn head(image: &Elf, address: u64) -> Option<Head> {
    let mut found = None;
    search(image, &BTreeSet::from([address]), |dwarf, unit| {
        let mut head = None;
        walk(dwarf, unit, address, |seen| {
            if is_function(seen.entry) {
                head = head_of(dwarf, unit, seen.entry)?;
            }
            Ok(())
        })?;
        found = head.or(found.take());
        Ok(())
    })?;
    found
}

/// What a name means for code at an address; `None` where that is no variable of numbers, or is
/// not plain.
pub(crate) fn meant(image: &Elf, address: u64, name: &str) -> Option<Meant> {
    let mut found = None;
    search(image, &BTreeSet::from([address]), |dwarf, unit| {
        let (mut innermost, mut declared) = (0, Vec::new());
        walk(dwarf, unit, address, |seen| {
            innermost = innermost.max(seen.functions.len());
            if is_variable(seen.entry) && name_of(unit, seen.entry).as_deref() == Some(name) {
                declared.push(Declared {
                    entry: seen.entry.clone(),
                    functions: seen.functions.len(),
                    depth: seen.entry.depth(),
                    scope: seen.scope(),
                });
            }
            Ok(())
        })?;
        if let Some(declared) = inner(declared, innermost) {
            found = declared.read(dwarf, unit, address)?.or(found.take());
        }
        Ok(())
    })?;
    found
}

/// Of variables of one name the one that code means which is in so many functions, one inlined in
/// the other: a function does not see what is declared in the one that it is inlined in.
fn inner(declared: Vec<Declared<'_>>, functions: usize) -> Option<Declared<'_>> {
    let mut own: Vec<Declared<'_>> = Vec::new();
    let mut outside = None;
    for one in declared {
        match one.functions {
            0 => outside = Some(one),
            of if of == functions => own.push(one),
            _ => {}
        }
    }
    let Some(deepest) = own.iter().map(|one| one.depth).max() else {
        return outside;
    };
    own.retain(|one| one.depth == deepest);
    // Nothing tells two of one block apart.
    let one = own.pop();
    one.filter(|_| own.is_empty())
}

/// A variable of the name that is looked for.
struct Declared<'a> {
    entry: Entry<'a>,
    /// How many functions around it have the address.
    functions: usize,
    depth: isize,
    scope: Scope,
}

impl<'a> Declared<'a> {
    fn read(
        self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'_, 'a>,
        address: u64,
    ) -> gimli::Result<Option<Meant>> {
        let of = attribute(unit, &self.entry, gimli::DW_AT_type);
        let of = of.filter(|of| is_plain_number(unit, *of));
        let number = of.and_then(|of| NumberType::of(unit, of));
        let register = register_at(dwarf, unit, &self.entry, address)?;
        Ok(number.map(|number| Meant {
            number,
            scope: self.scope,
            register,
        }))
    }
}

/// An entry that code at an address may see.
struct Seen<'e, 'a> {
    entry: &'e Entry<'a>,
    /// How deep the functions are that it is in and that have the address.
    functions: &'e [isize],
}

impl Seen<'_, '_> {
    /// Where a variable is declared.
    fn scope(&self) -> Scope {
        let is_parameter = self.entry.tag() == gimli::DW_TAG_formal_parameter;
        match self.functions.last() {
            None => Scope::Outside,
            Some(function) if is_parameter && self.entry.depth() == function + 1 => Scope::Head,
            Some(_) => Scope::Body,
        }
    }
}

/// Calls `take` for the entries of a unit that code at an address may see.
fn walk<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    address: u64,
    mut take: impl FnMut(&Seen<'_, 'a>) -> gimli::Result<()>,
) -> gimli::Result<()> {
    let here = BTreeSet::from([address]);
    let mut cursor = unit.entries();
    let mut functions = Vec::new();
    let mut elsewhere: Option<isize> = None;
    while let Some(entry) = cursor.next_dfs()? {
        let depth = entry.depth();
        if elsewhere.is_some_and(|of| depth > of) {
            continue;
        }
        elsewhere = None;
        while functions.last().is_some_and(|function| depth <= *function) {
            functions.pop();
        }
        let has_code = is_function(entry) || entry.tag() == gimli::DW_TAG_lexical_block;
        if has_code && covered(dwarf, unit, entry, &here)?.is_empty() {
            elsewhere = Some(depth);
            continue;
        }
        if is_function(entry) {
            functions.push(depth);
        }
        take(&Seen {
            entry,
            functions: &functions,
        })?;
    }
    Ok(())
}

fn is_function(entry: &Entry<'_>) -> bool {
    matches!(
        entry.tag(),
        gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine
    )
}

fn is_variable(entry: &Entry<'_>) -> bool {
    matches!(
        entry.tag(),
        gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter
    )
}

fn head_of<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
) -> gimli::Result<Option<Head>> {
    let name = whole_name(unit, entry);
    let line = attribute(unit, entry, gimli::DW_AT_decl_line);
    let line = line.and_then(|line| u32::try_from(line.udata_value()?).ok());
    let entry = match entry.tag() {
        gimli::DW_TAG_subprogram => entry_address(dwarf, unit, entry)?,
        _ => None,
    };
    Ok(name
        .zip(line)
        .map(|(name, line)| Head { name, line, entry }))
}

/// Whether a type is one of numbers that only its own program changes, and no enumeration.
fn is_plain_number<'a>(unit: &Unit<'_, 'a>, mut of: AttributeValue<Slice<'a>>) -> bool {
    let mut unit = *unit;
    for _ in 0..MAX_CHAIN {
        let Some((within, entry)) = unit.follow(of) else {
            return false;
        };
        unit = within;
        match entry.tag() {
            gimli::DW_TAG_base_type => return true,
            gimli::DW_TAG_typedef | gimli::DW_TAG_const_type => {}
            _ => return false,
        }
        match entry.attr_value(gimli::DW_AT_type) {
            Some(inner) => of = inner,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{fixture, opened};

    /// A name means what is declared in the function of the source that the code is of, also where
    /// that is inlined.
    #[test]
    fn scopes() {
        let elf = opened(&fixture());
        let at = |address, name| meant(&elf, address, name).map(|of| (of.scope, of.number.bits));
        assert_eq!(at(0x1090, "a"), Some((Scope::Head, 32)));
        assert_eq!(at(0x1090, "n"), None);
        assert_eq!(at(0x9999, "a"), None);
        let head = head(&elf, 0x1090).expect("it has one");
        assert_eq!(
            (head.name.as_str(), head.entry),
            ("through_stub", Some(0x1090))
        );
    }
}
