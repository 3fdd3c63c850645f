//! In which registers functions leave their results, as they are declared.

use std::collections::BTreeSet;

use gimli::AttributeValue;

use super::{
    Entry, MAX_CHAIN, PassingClass, Unit, covered, is_c, is_c_alone, kind, origin, search,
    unqualified,
};
use crate::elf::Elf;
use crate::sections::Slice;

/// Where a function leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultRegister {
    /// In rax.
    Integer,
    /// In xmm0.
    Vector,
}

/// Bytes of a structure that registers have room for.
const MOST_BYTES: u64 = 16;
/// Members of a structure that are looked at, those of members included.
const MAX_MEMBERS: usize = 256;

/// Those of the addresses that are in functions which are declared to leave no result there. Code
/// that several functions share leaves none if none of them does. Broken debug information
/// declares nothing.
pub(crate) fn without_result(
    image: &Elf,
    addresses: &BTreeSet<u64>,
    place: ResultRegister,
) -> BTreeSet<u64> {
    let (mut without, mut with) = (BTreeSet::new(), BTreeSet::new());
    let _ = search(image, addresses, |dwarf, unit| {
        let mut rules = None;
        let mut has_types = false;
        let (mut here_without, mut here_with) = (BTreeSet::new(), BTreeSet::new());
        let mut cursor = unit.entries();
        while let Some(entry) = cursor.next_dfs()? {
            if entry.depth() == 0 {
                rules = Rules::of(entry);
            }
            let Some(rules) = rules else { return Ok(()) };
            has_types |= entry.attr_value(gimli::DW_AT_type).is_some();
            if entry.tag() == gimli::DW_TAG_subprogram {
                let mut here = covered(dwarf, unit, entry, addresses)?;
                // Of other functions types need not be looked for in other units.
                if here.is_empty() {
                    continue;
                }
                match has_result(unit, entry, place, rules) {
                    true => here_with.append(&mut here),
                    false => here_without.append(&mut here),
                }
            }
        }
        // With the least debug information (`-g1`) nothing has a type: that a function returns
        // nothing is not said.
        if has_types {
            without.append(&mut here_without);
            with.append(&mut here_with);
        }
        Ok(())
    });
    &without - &with
}

/// How a language returns structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// As the platform says.
    Platform,
    /// As the platform says, if nothing of their own copies or destroys them.
    Copied,
    /// Nobody says.
    Own,
}

impl Rules {
    /// Those of the language of a unit; `None`: even its numbers may be anywhere.
    fn of(root: &Entry<'_>) -> Option<Rules> {
        match root.attr_value(gimli::DW_AT_language) {
            Some(AttributeValue::Language(gimli::DW_LANG_Rust)) => Some(Rules::Own),
            _ if is_c_alone(root) => Some(Rules::Platform),
            _ => is_c(root).then_some(Rules::Copied),
        }
    }
}

/// Whether a function's declaration, which may lie elsewhere, may leave a result there:
/// not of a type that goes elsewhere.
fn has_result<'a>(
    unit: &Unit<'_, 'a>,
    function: &Entry<'a>,
    place: ResultRegister,
    rules: Rules,
) -> bool {
    let (mut unit, mut entry) = (*unit, function.clone());
    for _ in 0..MAX_CHAIN {
        if let Some(result) = entry.attr_value(gimli::DW_AT_type) {
            return match kind(&unit, result) {
                Some(PassingClass::Integer(_)) => place == ResultRegister::Integer,
                Some(PassingClass::Vector(_)) => place == ResultRegister::Vector,
                Some(PassingClass::Elsewhere) => false,
                None => {
                    let structure = structure(&unit, result, rules);
                    structure.is_none_or(|structure| structure.is_in(place))
                }
            };
        }
        let Some(origin) = origin(&entry) else {
            return false;
        };
        match unit.follow(origin) {
            Some(declared) => (unit, entry) = declared,
            None => return true,
        }
    }
    true
}

/// What a structure is made of: for each eight bytes whether they are floating-point numbers alone.
#[derive(Debug, Default)]
struct Structure {
    /// Whether some of these eight bytes are something else.
    has_integers: [bool; 2],
    /// Whether some of these eight bytes are floating-point numbers.
    has_numbers: [bool; 2],
    /// Whether it, or one in it, has functions of its own, which may copy or destroy it.
    has_functions: bool,
    members: usize,
}

/// How a structure, or a number of two parts, is returned; `None` where that is not plain.
fn structure<'a>(
    unit: &Unit<'_, 'a>,
    reference: AttributeValue<Slice<'a>>,
    rules: Rules,
) -> Option<Structure> {
    let (unit, entry, size) = unqualified(unit, reference)?;
    let in_memory = Structure {
        // Of what is returned in memory rax has the address.
        has_integers: [true, false],
        ..Structure::default()
    };
    let passed = match entry.attr_value(gimli::DW_AT_calling_convention) {
        Some(AttributeValue::CallingConvention(passed)) => Some(passed),
        _ => None,
    };
    let mut structure = Structure::default();
    if rules == Rules::Own {
        return None;
    }
    if passed == Some(gimli::DW_CC_pass_by_reference) {
        return Some(in_memory);
    }
    match entry.tag() {
        gimli::DW_TAG_base_type => return pair(&unit, &entry, size?),
        gimli::DW_TAG_unspecified_type => return null(&unit, &entry),
        _ => structure.add(&unit, &entry, 0, 0)?,
    }
    // LLVM marks classes that are copied like the structures of C, GCC does not.
    let is_marked = passed == Some(gimli::DW_CC_pass_by_value);
    if rules == Rules::Copied && structure.has_functions && !is_marked {
        return None;
    }
    match size? {
        0 => None,
        1..=MOST_BYTES => Some(structure),
        _ => Some(in_memory),
    }
}

/// How a number of two parts is returned: a complex one, or an integer of two registers.
fn pair<'a>(unit: &Unit<'_, 'a>, entry: &Entry<'a>, size: u64) -> Option<Structure> {
    let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(gimli::DW_AT_encoding) else {
        return None;
    };
    let nowhere = Structure::default();
    match (encoding, size) {
        (gimli::DW_ATE_complex_float, 1..=MOST_BYTES) => Some(Structure {
            has_numbers: [true, size > MOST_BYTES / 2],
            ..nowhere
        }),
        // On the floating-point stack; what as many bytes are all used of is in memory, and rax has
        // its address.
        (gimli::DW_ATE_complex_float, 32) => Some(Structure {
            has_integers: [name_of(unit, entry)?.contains("128"), false],
            ..nowhere
        }),
        (gimli::DW_ATE_signed | gimli::DW_ATE_unsigned, MOST_BYTES) => Some(Structure {
            has_integers: [true, true],
            ..nowhere
        }),
        _ => None,
    }
}

/// How the type of `nullptr` is returned: as a pointer.
fn null<'a>(unit: &Unit<'_, 'a>, entry: &Entry<'a>) -> Option<Structure> {
    (name_of(unit, entry)? == "decltype(nullptr)").then(|| Structure {
        has_integers: [true, false],
        ..Structure::default()
    })
}

/// The name of a type.
fn name_of<'a>(unit: &Unit<'_, 'a>, of: &Entry<'a>) -> Option<String> {
    let name = unit.string(of.attr_value(gimli::DW_AT_name)?)?;
    Some(name.to_string_lossy().into_owned())
}

impl Structure {
    fn is_in(&self, place: ResultRegister) -> bool {
        let has_integer = self.has_integers.contains(&true);
        let is_number = |at: usize| self.has_numbers[at] && !self.has_integers[at];
        match place {
            ResultRegister::Integer => has_integer,
            ResultRegister::Vector => is_number(0) || is_number(1),
        }
    }

    /// Adds a structure that begins so many bytes behind the start; `None`: it has something of
    /// which it is not plain where it goes.
    fn add<'a>(
        &mut self,
        unit: &Unit<'_, 'a>,
        entry: &Entry<'a>,
        start: u64,
        depth: usize,
    ) -> Option<()> {
        let is_known = matches!(
            entry.tag(),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type
        );
        if !is_known || depth > MAX_CHAIN {
            return None;
        }
        let mut tree = unit.entries_tree(Some(entry.offset())).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let member = child.entry();
            let is_static = member.attr_value(gimli::DW_AT_external).is_some();
            match member.tag() {
                gimli::DW_TAG_member if !is_static => {}
                gimli::DW_TAG_inheritance => {}
                gimli::DW_TAG_subprogram => {
                    self.has_functions = true;
                    continue;
                }
                _ => continue,
            }
            self.members += 1;
            if self.members > MAX_MEMBERS {
                return None;
            }
            let of = member.attr_value(gimli::DW_AT_type)?;
            let number = |name| member.attr_value(name)?.udata_value();
            let offset = match member.attr_value(gimli::DW_AT_data_member_location) {
                Some(offset) => offset.udata_value()?,
                None => number(gimli::DW_AT_data_bit_offset).map_or(0, |bits| bits / 8),
            };
            let at = start.checked_add(offset)?;
            match kind(unit, of) {
                Some(PassingClass::Elsewhere) => return None,
                Some(of) => self.mark(at, of)?,
                None => {
                    let (unit, inner, _) = unqualified(unit, of)?;
                    match inner.tag() {
                        gimli::DW_TAG_array_type => self.add_array(&unit, &inner, at)?,
                        _ => self.add(&unit, &inner, at, depth + 1)?,
                    }
                }
            }
        }
        Some(())
    }

    /// Adds an array of numbers, as [`Structure::add`] adds a structure.
    fn add_array<'a>(&mut self, unit: &Unit<'_, 'a>, array: &Entry<'a>, start: u64) -> Option<()> {
        let of = kind(unit, array.attr_value(gimli::DW_AT_type)?)?;
        let (PassingClass::Integer(bits) | PassingClass::Vector(bits)) = of else {
            return None;
        };
        let mut tree = unit.entries_tree(Some(array.offset())).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut length = 1_u64;
        while let Some(child) = children.next().ok()? {
            let range = child.entry();
            let number = |name| range.attr_value(name)?.udata_value();
            let count = number(gimli::DW_AT_count);
            let last = number(gimli::DW_AT_upper_bound);
            let count = count.or_else(|| last?.checked_add(1))?;
            length = length.checked_mul(count)?;
        }
        // Registers have room for no more.
        for index in 0..length.min(MOST_BYTES) {
            self.mark(start.checked_add(index * u64::from(bits / 8))?, of)?;
        }
        Some(())
    }

    /// Marks what a number is in. What is not aligned is in memory, which is not plain here.
    fn mark(&mut self, at: u64, of: PassingClass) -> Option<()> {
        let (bits, marks) = match of {
            PassingClass::Integer(bits) => (bits, &mut self.has_integers),
            PassingClass::Vector(bits) => (bits, &mut self.has_numbers),
            PassingClass::Elsewhere => return None,
        };
        if !at.is_multiple_of(u64::from(bits / 8).max(1)) {
            return None;
        }
        if at < MOST_BYTES
            && let Some(mark) = marks.get_mut(usize::from(at >= MOST_BYTES / 2))
        {
            *mark = true;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::elf::tests::{opened, passed, symbols_of};

    /// Functions with the registers that they leave a result in: rax, xmm0.
    const RETURNED: [(&str, [bool; 2]); 25] = [
        ("c_integer", [true, false]),
        ("c_pointer", [true, false]),
        ("c_number", [false, true]),
        ("c_extended", [false, false]),
        ("c_nothing", [false, false]),
        ("c_longs", [true, false]),
        ("c_doubles", [false, true]),
        ("c_mixed", [true, true]),
        ("c_shared", [true, false]),
        ("c_array", [false, true]),
        ("c_either", [true, false]),
        // Its address.
        ("c_large", [true, false]),
        ("cpp_number", [false, true]),
        ("cpp_plain", [false, true]),
        ("clang_plain", [false, true]),
        ("clang_owner", [true, false]),
        ("rust_integer", [true, false]),
        ("rust_number", [false, true]),
        ("rust_nothing", [false, false]),
        // Where it is not plain, nothing is left out.
        ("c_loose", [true, true]),
        ("cpp_owner", [true, true]),
        ("rust_mixed", [true, true]),
        ("least_integer", [true, true]),
        ("least_nothing", [true, true]),
        ("clang_number", [false, true]),
    ];

    /// The same of numbers of two parts, and of `nullptr`.
    const PAIRS: [(&str, [bool; 2]); 6] = [
        ("two_doubles", [false, true]),
        ("two_floats", [false, true]),
        // On the floating-point stack.
        ("two_extended", [false, false]),
        // Its address.
        ("two_quads", [true, false]),
        ("two_integers", [true, false]),
        ("null_result", [true, false]),
    ];

    /// A result is where the type that a function is declared to return has it.
    #[test]
    fn registers() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/results/results.so");
        are_returned(&opened(&path), &RETURNED);
        are_returned(&passed(), &PAIRS);
    }

    fn are_returned(elf: &Elf, functions: &[(&str, [bool; 2])]) {
        for (name, expected) in functions {
            let symbols = symbols_of(elf, name);
            let (address, _) = *symbols.first().unwrap_or_else(|| panic!("no {name}"));
            let here = BTreeSet::from([address]);
            let is_in = [ResultRegister::Integer, ResultRegister::Vector]
                .map(|place| without_result(elf, &here, place).is_empty());
            assert_eq!(is_in, *expected, "{name}");
        }
    }
}
