//! Names of parameters, as debug information has them.

use std::collections::{BTreeMap, BTreeSet};

use crate::dwarf::{Kind, attribute, entry_address, kind, search};
use crate::elf::Elf;

/// Longer names are none that a person gave.
const LONGEST: usize = 64;

/// The names of the parameters that are passed in integer registers, in their order, by the entries
/// of functions. The names end before the first parameter of which that is not plain.
pub(crate) fn parameters(image: &Elf, entries: &BTreeSet<u64>) -> BTreeMap<u64, Vec<String>> {
    let mut found = BTreeMap::new();
    let _ = search(image, entries, |dwarf, unit| {
        let mut functions = Vec::new();
        let mut cursor = unit.entries();
        while let Some(entry) = cursor.next_dfs()? {
            if entry.tag() == gimli::DW_TAG_subprogram
                && let Some(address) = entry_address(dwarf, unit, entry)?
                && entries.contains(&address)
            {
                functions.push((address, entry.offset()));
            }
        }
        for (address, function) in functions {
            let mut tree = unit.entries_tree(Some(function))?;
            let mut children = tree.root()?.children();
            let mut names = Vec::new();
            while let Some(child) = children.next()? {
                let entry = child.entry();
                if entry.tag() != gimli::DW_TAG_formal_parameter {
                    continue;
                }
                let of = attribute(unit, entry, gimli::DW_AT_type);
                match of.and_then(|of| kind(unit, of)) {
                    Some(Kind::Integer(_)) => {}
                    Some(Kind::Vector | Kind::Elsewhere) => continue,
                    None => break,
                }
                let name = attribute(unit, entry, gimli::DW_AT_name);
                let name = name.and_then(|name| dwarf.attr_string(unit, name).ok());
                let name = name.map(|name| name.to_string_lossy().into_owned());
                let is_name = |name: &String| {
                    let mut characters = name.chars();
                    name.len() <= LONGEST && characters.all(|c| c.is_alphanumeric() || c == '_')
                };
                match name.filter(is_name) {
                    Some(name) if !name.is_empty() => names.push(name),
                    _ => break,
                }
            }
            found.insert(address, names);
        }
        Ok(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{fixture, opened};

    /// Parameters go by the names that they have in the source.
    #[test]
    fn names() {
        let elf = opened(&fixture());
        let found = parameters(&elf, &BTreeSet::from([0x1020, 0x1090, 0x9999]));
        let all: Vec<(&u64, String)> = found
            .iter()
            .map(|(address, names)| (address, names.join(" ")))
            .collect();
        let expected = [(&0x1020, "a b".to_owned()), (&0x1090, "a b".to_owned())];
        assert_eq!(all, expected);
    }
}
