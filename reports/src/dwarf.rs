//! Integer arguments of functions as the debug information declares them, and which have no
//! result where one is looked for ([`results`]).
//!
//! A declaration is believed only where the calling convention leaves no choice:
//! functions of C and C++ that other files may call (a compiler may change what
//! it alone calls), whose parameters are integers, pointers, and floating-point
//! numbers. A structure among them ends the belief, since how it is passed
//! depends on what is in it.

mod places;
mod results;
mod unit;

use std::collections::{BTreeMap, BTreeSet};

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use crate::convention::{Convention, PLATFORM};
use crate::elf::Elf;
use crate::liveness::Argument;
use crate::sections::{Sections, Slice};

pub(crate) use self::places::{Places, is_absent, places};
pub(crate) use self::results::{ResultRegister, without_result};
pub(crate) use self::unit::Unit;
use self::unit::Units;

type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// The number of Windows' calling convention on x86-64, as LLVM writes it.
const WINDOWS: u8 = 0xc1;
/// Typedefs, qualifiers and origins followed before giving up.
const MAX_CHAIN: usize = 32;

/// What is declared of functions, by their entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The integer arguments, of functions that are declared beyond doubt.
    pub(crate) arguments: BTreeMap<u64, Vec<Argument>>,
    /// Those of these functions whose callers may leave out what the function does not read.
    pub(crate) left_out: BTreeSet<u64>,
    /// The calling convention of the language, where that is told.
    pub(crate) conventions: BTreeMap<u64, Convention>,
    /// Functions with parameters where Windows' convention has them.
    pub(crate) windows: BTreeSet<u64>,
}

impl Declared {
    pub(crate) fn is_empty(&self) -> bool {
        // What else there is stands beside a convention.
        self.arguments.is_empty() && self.conventions.is_empty()
    }
}

/// What is declared of the functions at `entries`. Broken debug information declares nothing.
pub(crate) fn declared(image: &Elf, entries: &BTreeSet<u64>) -> Declared {
    let mut found = Declared::default();
    // What was found before a broken unit stays found.
    let mut differing = BTreeSet::new();
    let _ = search(image, entries, |dwarf, unit| {
        search_unit(dwarf, unit, entries, (&mut found, &mut differing))
    });
    let Declared { arguments, .. } = &mut found;
    arguments.retain(|entry, _| !differing.contains(entry));
    found
}

/// Which of these addresses an entry's code covers.
///
/// # Errors
/// What the reader says of the entry's ranges.
pub(crate) fn covered<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
    addresses: &BTreeSet<u64>,
) -> gimli::Result<BTreeSet<u64>> {
    let mut covered = BTreeSet::new();
    let mut ranges = dwarf.die_ranges(unit, entry)?;
    while let Some(range) = ranges.next()? {
        if range.begin < range.end {
            covered.extend(addresses.range(range.begin..range.end));
        }
    }
    Ok(covered)
}

/// Calls `take` for each unit that has code at one of the addresses.
pub(crate) fn search(
    image: &Elf,
    addresses: &BTreeSet<u64>,
    mut take: impl for<'a> FnMut(&gimli::Dwarf<Slice<'a>>, &Unit<'_, 'a>) -> gimli::Result<()>,
) -> Option<()> {
    units(image, |dwarf, unit| {
        if covers_any(dwarf, unit, addresses) {
            let _ = take(dwarf, unit);
        }
    })
}

/// Calls `take` for each unit.
pub(crate) fn units(
    image: &Elf,
    mut take: impl for<'a> FnMut(&gimli::Dwarf<Slice<'a>>, &Unit<'_, 'a>),
) -> Option<()> {
    let sections = Sections::of(image);
    let dwarf = sections.dwarf();
    let units = Units::new(&dwarf);
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        take(&dwarf, &Unit::of(&units, &unit));
    }
    Some(())
}

/// Whether a unit has code at one of the entries; yes where it does not say.
fn covers_any(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<'_, '_>,
    entries: &BTreeSet<u64>,
) -> bool {
    let Ok(mut ranges) = dwarf.unit_ranges(unit) else {
        return true;
    };
    while let Ok(Some(range)) = ranges.next() {
        if range.begin < range.end && entries.range(range.begin..range.end).next().is_some() {
            return true;
        }
    }
    false
}

/// Adds what a unit declares, and the entries that functions with different arguments share, as
/// linkers fold them.
fn search_unit<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'_, 'a>,
    entries: &BTreeSet<u64>,
    (found, differing): (&mut Declared, &mut BTreeSet<u64>),
) -> gimli::Result<()> {
    let mut cursor = unit.entries();
    let (mut convention, mut believed, mut has_types) = (None, false, false);
    let mut is_gcc = false;
    let mut functions = Vec::new();
    while let Some(entry) = cursor.next_dfs()? {
        if entry.depth() == 0 {
            convention = convention_of_unit(dwarf, unit, entry);
            believed = is_c(entry);
            is_gcc = is_of_gcc(dwarf, unit, entry);
            if convention.is_none() {
                return Ok(());
            }
        }
        has_types |= entry.attr_value(gimli::DW_AT_type).is_some();
        if entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let Some(address) = entry_address(dwarf, unit, entry)? else {
            continue;
        };
        if !entries.contains(&address) {
            continue;
        }
        // Assembly within a file of another language has no entry of its own, and is not meant.
        found
            .conventions
            .extend(convention.map(|convention| (address, convention)));
        // A function can be declared to have another convention than its language.
        match attribute(unit, entry, gimli::DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(gimli::DW_CC_normal)) | None => {
                functions.push((address, entry.offset()));
            }
            Some(AttributeValue::CallingConvention(gimli::DwCc(WINDOWS))) => {
                found.conventions.insert(address, Convention::Windows);
            }
            Some(_) => {
                found.conventions.insert(address, Convention::Unknown);
            }
        }
    }
    for (address, function) in functions {
        let places = match believed {
            true => places(dwarf, unit, function, address)?,
            false => Places::Platform,
        };
        // LLVM tells conventions, and passes other things where it sees all callers.
        found
            .windows
            .extend((is_gcc && places == Places::Windows).then_some(address));
        if believed
            && places == Places::Platform
            && tells_parameters(unit, &unit.entry(function)?, has_types)
            && let Some(arguments) = arguments(dwarf, unit, function, (address, is_gcc))
        {
            let known = found.arguments.insert(address, arguments.clone());
            differing.extend(
                known
                    .is_some_and(|known| known != arguments)
                    .then_some(address),
            );
            // LLVM passes anything for what it sees unread, also to functions that other files may
            // call.
            found.left_out.extend((!is_gcc).then_some(address));
        }
    }
    Ok(())
}

/// Whether a function's declaration tells its parameters, also that there are none. With the least
/// debug information (`-g1`) nothing in a unit has a type, and no function any parameter.
pub(crate) fn tells_parameters<'a>(
    unit: &Unit<'_, 'a>,
    function: &Entry<'a>,
    has_types: bool,
) -> bool {
    // A unit of C may have nothing but functions without parameters and results.
    has_types || attribute(unit, function, gimli::DW_AT_prototyped).is_some()
}

/// Where a function is entered. One that was split into a hot and a cold part has ranges in
/// place of a low PC; the entry is in the first, unless it is named.
pub(crate) fn entry_address<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
) -> gimli::Result<Option<u64>> {
    if let Some(low) = entry.attr_value(gimli::DW_AT_low_pc) {
        return dwarf.attr_address(unit, low);
    }
    if entry.attr_value(gimli::DW_AT_ranges).is_none() {
        return Ok(None);
    }
    let mut ranges = dwarf.die_ranges(unit, entry)?;
    Ok(ranges.next()?.map(|range| range.begin))
}

/// The calling convention of a unit's language, if the unit names one.
fn convention_of_unit(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<'_, '_>,
    root: &Entry<'_>,
) -> Option<Convention> {
    let Some(AttributeValue::Language(language)) = root.attr_value(gimli::DW_AT_language) else {
        return None;
    };
    match language {
        gimli::DW_LANG_Go => {
            let producer = producer(dwarf, unit, root)?;
            Some(match () {
                // Its functions are as those of the other languages of that compiler.
                () if producer.starts_with("GNU") => Convention::Platform,
                () if producer.contains("regabi") => Convention::Go,
                () => Convention::GoStack,
            })
        }
        gimli::DW_LANG_OCaml => Some(Convention::OCaml),
        gimli::DW_LANG_Haskell => Some(Convention::Haskell),
        gimli::DW_LANG_Swift => Some(Convention::Swift),
        // Its compilers differ in the order.
        gimli::DW_LANG_D => Some(Convention::Unknown),
        // Assembly follows whatever its author had in mind; compilers write it, too.
        gimli::DW_LANG_Mips_Assembler => None,
        _ => Some(Convention::Platform),
    }
}

/// The compiler that made a unit.
fn producer(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<'_, '_>,
    root: &Entry<'_>,
) -> Option<String> {
    let producer = root.attr_value(gimli::DW_AT_producer)?;
    let producer = dwarf.attr_string(unit, producer).ok()?;
    Some(producer.to_string_lossy().into_owned())
}

/// Whether GCC made a unit.
pub(crate) fn is_of_gcc(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<'_, '_>,
    root: &Entry<'_>,
) -> bool {
    producer(dwarf, unit, root).is_some_and(|producer| producer.starts_with("GNU "))
}

/// Whether a unit is of C, not of C++.
pub(crate) fn is_c_alone(root: &Entry<'_>) -> bool {
    matches!(
        root.attr_value(gimli::DW_AT_language),
        Some(AttributeValue::Language(
            gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17,
        ))
    )
}

/// Whether a unit is of C or C++.
pub(crate) fn is_c(root: &Entry<'_>) -> bool {
    let language = match root.attr_value(gimli::DW_AT_language) {
        Some(AttributeValue::Language(language)) => language,
        _ => return false,
    };
    let is_cpp = matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
    );
    is_cpp || is_c_alone(root)
}

/// What kind of value a parameter or a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassingClass {
    /// In an integer register, so many bits.
    Integer(u32),
    /// In a vector register, so many bits.
    Vector(u32),
    /// In memory, or on the floating-point stack.
    Elsewhere,
}

fn arguments<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<'_, 'a>,
    function: UnitOffset,
    (entry, is_gcc): (u64, bool),
) -> Option<Vec<Argument>> {
    let declaration = unit.entry(function).ok()?;
    attribute(unit, &declaration, gimli::DW_AT_external)?;
    // A result in memory takes the first register.
    if let Some(result) = attribute(unit, &declaration, gimli::DW_AT_type) {
        kind(unit, result)?;
    }
    let mut tree = unit.entries_tree(Some(function)).ok()?;
    let mut children = tree.root().ok()?.children();
    let mut arguments = Vec::new();
    let mut next = 0_u8;
    while let Ok(Some(child)) = children.next() {
        let parameter = child.entry();
        if parameter.tag() != gimli::DW_TAG_formal_parameter {
            continue;
        }
        let of = (entry, is_gcc);
        let is_absent = is_absent(dwarf, unit, &declaration, parameter, of).ok()?;
        // What GCC passes to a copy in place of what it leaves out is not declared at all.
        if is_absent && is_gcc {
            return None;
        }
        match kind(unit, attribute(unit, parameter, gimli::DW_AT_type)?)? {
            PassingClass::Integer(bits) if next < 6 => {
                let register = PLATFORM[usize::from(next)];
                arguments.extend((!is_absent).then_some(Argument {
                    index: next,
                    bits,
                    register,
                }));
                next += 1;
            }
            PassingClass::Integer(_) | PassingClass::Vector(_) | PassingClass::Elsewhere => {}
        }
    }
    Some(arguments)
}

/// An attribute of an entry, of its declaration, or of what it is an instance of.
pub(crate) fn attribute<'a>(
    unit: &Unit<'_, 'a>,
    entry: &Entry<'a>,
    name: gimli::DwAt,
) -> Option<AttributeValue<Slice<'a>>> {
    let (mut within, mut entry) = (*unit, entry.clone());
    for _ in 0..MAX_CHAIN {
        if let Some(value) = entry.attr_value(name) {
            return within.tell(value, unit);
        }
        (within, entry) = within.follow(origin(&entry)?)?;
    }
    None
}

/// What an entry is an instance of, or completes.
pub(crate) fn origin<'a>(entry: &Entry<'a>) -> Option<AttributeValue<Slice<'a>>> {
    entry
        .attr_value(gimli::DW_AT_abstract_origin)
        .or_else(|| entry.attr_value(gimli::DW_AT_specification))
}

/// A type without its names and qualifiers, the unit that it is in, and how many bytes it has,
/// where that is said; `None`: it is void.
pub(crate) fn unqualified<'u, 'a>(
    unit: &Unit<'u, 'a>,
    mut reference: AttributeValue<Slice<'a>>,
) -> Option<(Unit<'u, 'a>, Entry<'a>, Option<u64>)> {
    let mut unit = *unit;
    for _ in 0..MAX_CHAIN {
        let entry;
        (unit, entry) = unit.follow(reference)?;
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => reference = entry.attr_value(gimli::DW_AT_type)?,
            _ => {
                let size = entry.attr_value(gimli::DW_AT_byte_size);
                let size = size.and_then(|size| size.udata_value());
                return Some((unit, entry, size));
            }
        }
    }
    None
}

/// The kind of a type; `None` where how it is passed is not plain.
pub(crate) fn kind<'a>(
    unit: &Unit<'_, 'a>,
    reference: AttributeValue<Slice<'a>>,
) -> Option<PassingClass> {
    let (unit, entry, size) = unqualified(unit, reference)?;
    match entry.tag() {
        gimli::DW_TAG_pointer_type
        | gimli::DW_TAG_reference_type
        | gimli::DW_TAG_rvalue_reference_type => Some(PassingClass::Integer(64)),
        gimli::DW_TAG_enumeration_type => integer(size?),
        gimli::DW_TAG_base_type => {
            let AttributeValue::Encoding(encoding) = entry.attr_value(gimli::DW_AT_encoding)?
            else {
                return None;
            };
            match encoding {
                gimli::DW_ATE_float => Some(match size? {
                    bytes @ (2 | 4 | 8) => PassingClass::Vector(u32::try_from(bytes * 8).ok()?),
                    // As long as a number of the floating-point stack, which nothing else tells.
                    16 if is_quad(&unit, &entry) => PassingClass::Vector(128),
                    _ => PassingClass::Elsewhere,
                }),
                gimli::DW_ATE_boolean
                | gimli::DW_ATE_signed
                | gimli::DW_ATE_signed_char
                | gimli::DW_ATE_unsigned
                | gimli::DW_ATE_unsigned_char
                | gimli::DW_ATE_UTF
                | gimli::DW_ATE_address => integer(size?),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether a type of 16 bytes has a number in all of them, which vector registers pass.
fn is_quad<'a>(unit: &Unit<'_, 'a>, of: &Entry<'a>) -> bool {
    let name = of.attr_value(gimli::DW_AT_name);
    let name = name.and_then(|name| unit.string(name));
    name.is_some_and(|name| matches!(&*name.to_string_lossy(), "_Float128" | "__float128"))
}

fn integer(bytes: u64) -> Option<PassingClass> {
    match bytes {
        1 | 2 | 4 | 8 => Some(PassingClass::Integer(u32::try_from(bytes * 8).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{
        entry_of, fixture, image_of, opened, own, parameters, passed, symbols_of,
    };

    /// Declarations of another language, as this program's own, are not believed.
    #[test]
    // It looks for its own symbol.
    #[inline(never)]
    fn foreign_convention_is_not_believed() {
        let elf = own();
        let (address, _) = *symbols_of(&elf, "foreign_conv").first().expect("self");
        let found = declared(&elf, &BTreeSet::from([address]));
        assert_eq!(found.arguments, BTreeMap::new());
        // It promises none, and uses the platform's.
        let conventions = found.conventions.into_values();
        assert!(conventions.eq([Convention::Platform]));
    }

    /// An image without sections declares nothing.
    #[test]
    fn bare_images_declare_nothing() {
        let bare = Elf::parse(image_of(&[0xc3], 0x1000)).expect("parses");
        let entries = BTreeSet::from([0x1000]);
        assert!(declared(&bare, &entries).is_empty());
        assert!(without_result(&bare, &entries, ResultRegister::Integer).is_empty());
    }

    /// Integer arguments have their declared widths, a double takes no integer register, a
    /// structure ends the belief, and what the compiler alone calls is not believed at all.
    #[test]
    fn declarations() {
        let elf = opened(&fixture());
        let entries = [0x1020, 0x1040, 0x1080, 0x1090, 0x9999];
        let found = declared(&elf, &BTreeSet::from(entries));
        let widths: Vec<(u64, Vec<(u8, u32)>)> = found
            .arguments
            .iter()
            .map(|(entry, arguments)| {
                (
                    *entry,
                    arguments.iter().map(|one| (one.index, one.bits)).collect(),
                )
            })
            .collect();
        let all = vec![(0, 32), (1, 64), (2, 8), (3, 32), (4, 8), (5, 16)];
        assert_eq!(widths, [(0x1040, all), (0x1090, vec![(0, 32), (1, 64)])]);
    }

    /// Positions and widths of what is declared of a function that is compiled in several ways.
    fn declared_of(name: &str) -> Option<Vec<(u8, u32)>> {
        let elf = parameters();
        let entry = entry_of(&elf, name);
        let found = declared(&elf, &BTreeSet::from([entry]));
        let arguments = found.arguments.get(&entry)?.iter();
        Some(arguments.map(|one| (one.index, one.bits)).collect())
    }

    /// A function with its parameters in other places than the platform's declares no arguments.
    #[test]
    fn other_places() {
        let elf = parameters();
        for name in ["gcc_windows", "plain_windows"] {
            let entry = entry_of(&elf, name);
            let found = declared(&elf, &BTreeSet::from([entry]));
            assert_eq!(found.windows, BTreeSet::from([entry]), "{name}");
            assert_eq!(found.arguments, BTreeMap::new(), "{name}");
        }
    }

    /// What is not passed as it is declared is no argument. Functions that share their code have
    /// those on which they agree.
    #[test]
    fn passed_otherwise() {
        let elf = passed();
        let arguments = |name: &str| {
            let entry = entry_of(&elf, name);
            let found = declared(&elf, &BTreeSet::from([entry])).arguments;
            let arguments = found.get(&entry)?.iter();
            Some(
                arguments
                    .map(|one| (one.index, one.bits))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(arguments("passed_kept"), Some(vec![(0, 64), (1, 64)]));
        assert_eq!(arguments("promoted"), Some(vec![(1, 64)]));
        assert_eq!(arguments("linked_user"), Some(vec![(0, 64), (1, 64)]));
        assert_eq!(arguments("named_own"), Some(vec![(0, 64), (1, 64)]));
    }

    /// LLVM leaves out what it sees unread, also in calls of what other files may call.
    #[test]
    fn left_out() {
        let elf = parameters();
        let entry = |name| entry_of(&elf, name);
        let entries = [entry("gcc_unread"), entry("clang_unread")];
        let found = declared(&elf, &BTreeSet::from(entries));
        assert_eq!(found.left_out, BTreeSet::from([entry("clang_unread")]));
        assert_eq!(declared_of("gcc_unread"), declared_of("clang_unread"));
    }

    /// Where debug information has no parameters at all, it does not say that a function has none.
    #[test]
    fn least_information() {
        assert_eq!(declared_of("gcc_two"), Some(vec![(0, 64), (1, 64)]));
        assert_eq!(declared_of("gcc_none"), Some(vec![]));
        assert_eq!(declared_of("alone"), Some(vec![]));
        for name in ["least_two", "least_none", "leastcpp_two", "mlt_two"] {
            assert_eq!(declared_of(name), None, "{name}");
        }
    }

    /// What returns nothing is told from what returns something, local or not.
    #[test]
    fn results() {
        let elf = opened(&fixture());
        let returns = BTreeSet::from([0x1035, 0x1077, 0x108a, 0x10af, 0x10c1, 0x9999]);
        assert_eq!(
            without_result(&elf, &returns, ResultRegister::Integer),
            BTreeSet::from([0x10c1])
        );
        // What one of them leaves in xmm0 is no result.
        let in_functions = BTreeSet::from([0x1035, 0x1077, 0x108a, 0x10af, 0x10c1]);
        assert_eq!(
            without_result(&elf, &returns, ResultRegister::Vector),
            in_functions
        );
    }

    /// Damaged debug information declares less, and ends.
    #[test]
    fn damaged_information_is_harmless() {
        let good = std::fs::read(fixture()).expect("fixture is there");
        let mut state = 3_u64;
        for _ in 0..300 {
            let mut bad = good.clone();
            for _ in 0..16 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = usize::try_from(state >> 33).expect("fits") % bad.len();
                bad[at] = u8::try_from(state >> 25 & 0xff).expect("a byte");
            }
            let addresses = BTreeSet::from([0x1020, 0x1040, 0x1080, 0x1090, 0x10c1]);
            let Ok(bad) = Elf::parse(bad) else {
                continue;
            };
            let _ = declared(&bad, &addresses);
            let _ = without_result(&bad, &addresses, ResultRegister::Vector);
        }
    }
}
