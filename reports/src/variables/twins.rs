//! Functions that share their code with others: compilers and linkers fold those with one body.

use std::collections::BTreeMap;

use gimli::{AttributeValue, UnitOffset};

use super::{Declaration, Dwarf, Entry, declared_as};
use crate::dwarf::{Unit, attribute, entry_address};
use crate::elf::{Elf, demangle};
use crate::sections::Slice;

/// What is between a symbol and the number of its version, and before what a compiler adds to it.
const VERSION: char = '@';
const ADDED: char = '.';

/// Bytes of debug information that are searched for what another file's function was folded with.
const MOST_SEARCHED: usize = 64 << 20;

/// The functions of a unit that have no code of their own.
pub(super) struct Twins<'u, 'a> {
    unit: Unit<'u, 'a>,
    bare: Vec<UnitOffset>,
}

impl<'u, 'a> Twins<'u, 'a> {
    pub(super) fn new(unit: Unit<'u, 'a>, bare: Vec<UnitOffset>) -> Twins<'u, 'a> {
        Twins { unit, bare }
    }

    /// Whether a function is one of those with these names, which its address has; yes where there
    /// is none.
    pub(super) fn goes_by(&self, function: &Entry<'a>, names: &[String]) -> bool {
        let Some(own) = self.name_of(function) else {
            return true;
        };
        // Not all functions of C++ have their mangled names.
        let may_be = |name: &String| !self.is_linked(function) && name.starts_with("_Z");
        let is_own = |name: &String| is_of(name, &own) || may_be(name);
        names.is_empty() || names.iter().any(is_own)
    }

    /// Those of the names of a function's address that are not its own. Constructors have several.
    pub(super) fn others(&self, function: &Entry<'a>, names: &[String]) -> Vec<String> {
        let Some(own) = self.name_of(function) else {
            return Vec::new();
        };
        let is_other = |name: &&String| !is_of(name, &own) && demangle(name) != demangle(&own);
        names.iter().filter(is_other).cloned().collect()
    }

    /// The functions without code whose names are among these of a function's address. What it is
    /// itself an instance of is none of them.
    pub(super) fn of(&self, function: &Entry<'a>, names: &[String]) -> Vec<UnitOffset> {
        let others = self.others(function, names);
        if others.is_empty() {
            return Vec::new();
        }
        let origin = function.attr_value(gimli::DW_AT_abstract_origin);
        let is_twin = |at: &&UnitOffset| {
            let Ok(entry) = self.unit.entry(**at) else {
                return false;
            };
            let name = self.name_of(&entry);
            origin != Some(AttributeValue::UnitRef(**at))
                && name.is_some_and(|name| others.iter().any(|one| is_of(one, &name)))
        };
        self.bare.iter().filter(is_twin).copied().collect()
    }

    fn name_of(&self, function: &Entry<'a>) -> Option<String> {
        name_of(&self.unit, function)
    }

    fn is_linked(&self, function: &Entry<'a>) -> bool {
        linked(&self.unit, function).is_some()
    }
}

/// Whether a function with this entry has no code of its own, which linkers write as an address
/// where there is none.
pub(super) fn is_bare(function: &Entry<'_>, entry: Option<u64>) -> bool {
    let is_none = matches!(entry, None | Some(0 | u64::MAX));
    is_none && function.attr_value(gimli::DW_AT_declaration).is_none()
}

/// Whether an image has so little debug information that all of it is searched for functions that
/// a linker folded with those of other files.
pub(super) fn is_searched(image: &Elf) -> bool {
    let size = image.section(".debug_info").map(|all| all.len());
    size.is_some_and(|size| size <= MOST_SEARCHED)
}

/// Forgets what is declared at those entries with one of whose other names a unit has a function
/// that a linker dropped, and that declares something else.
pub(super) fn elsewhere<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    others: &BTreeMap<u64, Vec<String>>,
    found: &mut BTreeMap<u64, Option<Declaration>>,
) -> gimli::Result<()> {
    let mut cursor = unit.entries();
    while let Some(entry) = cursor.next_dfs()? {
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let address = entry_address(dwarf, unit, entry)?;
        if address.is_none() || !is_bare(entry, address) {
            continue;
        }
        let Some(name) = name_of(unit, entry) else {
            continue;
        };
        let named = |names: &Vec<String>| names.iter().any(|one| is_of(one, &name));
        for (address, _) in others.iter().filter(|(_, names)| named(names)) {
            let declared = declared_as(dwarf, unit, entry.offset(), (*address, false), false)?;
            if let Some(known) = found.get_mut(address)
                && known
                    .as_ref()
                    .is_some_and(|known| !known.is_alike(&declared))
            {
                *known = None;
            }
        }
    }
    Ok(())
}

/// The name that a function has for the linker, as far as debug information tells.
fn name_of<'a>(unit: &Unit<'_, 'a>, function: &Entry<'a>) -> Option<String> {
    let name = linked(unit, function).or_else(|| attribute(unit, function, gimli::DW_AT_name))?;
    let name = unit.string(name)?;
    Some(name.to_string_lossy().into_owned())
}

/// A function's mangled name.
fn linked<'a>(unit: &Unit<'_, 'a>, function: &Entry<'a>) -> Option<AttributeValue<Slice<'a>>> {
    let name = |of| attribute(unit, function, of);
    name(gimli::DW_AT_linkage_name).or_else(|| name(gimli::DW_AT_MIPS_linkage_name))
}

/// Whether a symbol is that of a function with this name, as it is or as it was made.
fn is_of(symbol: &str, name: &str) -> bool {
    let plain = symbol.split(VERSION).next().unwrap_or(symbol);
    // The first character may be a full stop, as of what has a name like a section's.
    let added = plain.char_indices().skip(1).find(|(_, c)| *c == ADDED);
    let without = added.and_then(|(at, _)| plain.get(..at));
    plain == name || without == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions and what a compiler adds are no part of a function's name.
    #[test]
    fn symbols_of_functions() {
        assert!(is_of("read", "read"));
        assert!(is_of("read@@LIB_1", "read"));
        assert!(is_of("read.lto_priv.0", "read"));
        assert!(is_of("main._omp_fn.0", "main._omp_fn.0"));
        assert!(!is_of("read", "write"));
        assert!(is_of("_Z4readl", "_Z4readl"));
        assert!(!is_of("_Z4readl", "_Z5writel"));
        assert!(!is_of("_Z4readl", "read"));
    }
}
