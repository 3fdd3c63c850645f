//! Where functions find their parameters when they are entered, as debug information says.

use gimli::{AttributeValue, Expression, Operation, UnitOffset};

use super::{Entry, PassingClass, Unit, attribute, kind};
use crate::sections::Slice;

type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// What the places of a function's parameters tell of its convention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// Nothing speaks against the platform's.
    Platform,
    /// They are those of Windows' convention, and not the platform's.
    Windows,
    /// They are neither's.
    Other,
}

/// DWARF's numbers of the registers of integer arguments, by the platform's convention and by
/// Windows' (System V ABI for x86-64, figure 3.36), and of the first vector register.
const PLATFORM: [u16; 6] = [5, 4, 1, 2, 8, 9];
const WINDOWS: [u16; 4] = [2, 1, 8, 9];
const VECTOR: u16 = 17;
/// Vector registers that the two pass arguments in.
const VECTORS: u16 = 8;
const WINDOWS_VECTORS: u16 = 4;

/// Where a parameter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In an argument register, by DWARF's number.
    Register(u16),
    /// So far behind the return address: in the frame of the caller.
    Caller(u64),
}

/// What the places of the parameters of the function with this entry tell. GCC does not write that
/// a function is declared to have another convention, and no compiler that it passes something else
/// in place of a parameter.
pub(crate) fn places<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    function: UnitOffset,
    entry: u64,
) -> gimli::Result<Places> {
    let declaration = unit.entry(function)?;
    // A result in memory takes the first register.
    let result = attribute(unit, &declaration, gimli::DW_AT_type);
    if result.is_some_and(|result| kind(unit, result).is_none()) {
        return Ok(Places::Platform);
    }
    if is_reordered(unit, &declaration)? {
        return Ok(Places::Other);
    }
    let by_frame = has_plain_frame(unit, &declaration)?;
    let mut tree = unit.entries_tree(Some(function))?;
    let mut children = tree.root()?.children();
    let (mut position, mut integers, mut vectors) = (0_u16, 0_u16, 0_u16);
    let (mut is_platform, mut is_windows) = (true, true);
    while let Some(child) = children.next()? {
        let parameter = child.entry();
        if parameter.tag() != gimli::DW_TAG_formal_parameter {
            continue;
        }
        let of = attribute(unit, parameter, gimli::DW_AT_type);
        // How it is passed is not plain, nor where those behind it are.
        let Some(kind) = of.and_then(|of| kind(unit, of)) else {
            break;
        };
        let (platform, windows) = match kind {
            PassingClass::Integer(_) => (
                PLATFORM.get(usize::from(integers)).copied(),
                WINDOWS.get(usize::from(position)).copied(),
            ),
            PassingClass::Vector(_) => (
                (vectors < VECTORS).then_some(VECTOR + vectors),
                (position < WINDOWS_VECTORS).then_some(VECTOR + position),
            ),
            PassingClass::Elsewhere => (None, None),
        };
        if let Some(platform) = platform
            && let Some(place) = place(dwarf, unit, parameter, (entry, by_frame))?
        {
            is_platform &= place == Place::Register(platform);
            // Windows' callers leave room for what is in registers.
            let in_room = place == Place::Caller(8 * u64::from(position));
            is_windows &= in_room || windows.map(Place::Register) == Some(place);
        }
        match kind {
            PassingClass::Integer(_) => integers = integers.saturating_add(1),
            PassingClass::Vector(_) => vectors = vectors.saturating_add(1),
            PassingClass::Elsewhere => {}
        }
        position = position.saturating_add(1);
    }
    Ok(match (is_platform, is_windows) {
        (true, _) => Places::Platform,
        (false, true) => Places::Windows,
        (false, false) => Places::Other,
    })
}

/// Whether a function has its parameters in another order than what it is an instance of: GCC puts
/// those that a copy is no longer passed behind all others.
fn is_reordered<'a>(unit: &Unit<'_, 'a>, function: &Entry<'a>) -> gimli::Result<bool> {
    let Some(origin) = function.attr_value(gimli::DW_AT_abstract_origin) else {
        return Ok(false);
    };
    // Where it is not known, nothing is known of the parameters.
    let Some((within, origin)) = unit.follow(origin) else {
        return Ok(false);
    };
    let order = parameters(&within, origin.offset(), |parameter| {
        within.place(AttributeValue::UnitRef(parameter.offset()))
    })?;
    let own = parameters(unit, function.offset(), |parameter| {
        let of = unit.place(parameter.attr_value(gimli::DW_AT_abstract_origin)?)?;
        order.iter().position(|one| *one == of)
    })?;
    Ok(!own.is_sorted())
}

/// What `take` makes of the parameters of a function, in their order.
fn parameters<'a, T>(
    unit: &Unit<'_, 'a>,
    function: UnitOffset,
    take: impl Fn(&Entry<'a>) -> Option<T>,
) -> gimli::Result<Vec<T>> {
    let mut tree = unit.entries_tree(Some(function))?;
    let mut children = tree.root()?.children();
    let mut found = Vec::new();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() == gimli::DW_TAG_formal_parameter {
            found.extend(take(entry));
        }
    }
    Ok(found)
}

/// Whether a parameter may be passed nowhere: when its function is entered it is in no place, or is
/// a constant, or is computed from no register. LLVM passes others in its place then, and GCC
/// leaves it out of the copies that it makes of functions. Of GCC's other functions that says
/// nothing: without `-fvar-tracking` it loses sight of what is not read.
pub(crate) fn is_absent<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    function: &Entry<'a>,
    parameter: &Entry<'a>,
    (entry, is_gcc): (u64, bool),
) -> gimli::Result<bool> {
    if is_gcc && function.attr_value(gimli::DW_AT_abstract_origin).is_none() {
        return Ok(false);
    }
    match parameter.attr_value(gimli::DW_AT_location) {
        None => Ok(true),
        Some(AttributeValue::Exprloc(all)) => Ok(what_is(unit, all)? == Kept::Computed),
        Some(list) => {
            let Some(mut list) = dwarf.attr_locations(unit, list)? else {
                return Ok(false);
            };
            let mut is_in_memory = false;
            let mut is_first = true;
            while let Some(location) = list.next()? {
                let kept = what_is(unit, location.data)?;
                if (location.range.begin..location.range.end).contains(&entry) {
                    return Ok(kept == Kept::Computed);
                }
                is_in_memory |= is_first && kept == Kept::Memory;
                is_first = false;
            }
            // Code that is not optimised may tell of one first where it has written it to memory.
            Ok(!is_gcc && !is_in_memory)
        }
    }
}

/// Where an expression says that something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// In registers, wholly or in part.
    Register,
    /// In memory.
    Memory,
    /// Nowhere: its value is told.
    Computed,
}

fn what_is<'a>(unit: &Unit<'_, 'a>, expression: Expression<Slice<'a>>) -> gimli::Result<Kept> {
    let mut operations = expression.operations(unit.encoding());
    let (mut kept, mut has_register) = (Kept::Computed, false);
    while let Some(operation) = operations.next()? {
        match operation {
            Operation::Register { .. } => kept = Kept::Register,
            Operation::FrameOffset { .. } => kept = Kept::Memory,
            Operation::RegisterOffset { .. } | Operation::EntryValue { .. } => {
                (kept, has_register) = (Kept::Memory, true);
            }
            // LLVM takes a truth value from the low bit of its register.
            Operation::StackValue if has_register => return Ok(Kept::Register),
            Operation::StackValue
            | Operation::ImplicitValue { .. }
            | Operation::ImplicitPointer { .. }
            | Operation::ParameterRef { .. } => return Ok(Kept::Computed),
            _ => {}
        }
    }
    Ok(kept)
}

/// Whether places in a function's frame count from what is behind the return address.
fn has_plain_frame<'a>(unit: &Unit<'_, 'a>, function: &Entry<'a>) -> gimli::Result<bool> {
    match function.attr_value(gimli::DW_AT_frame_base) {
        Some(AttributeValue::Exprloc(expression)) => {
            Ok(only(unit, expression)? == Some(Operation::CallFrameCFA))
        }
        _ => Ok(false),
    }
}

/// The only operation of an expression.
fn only<'a>(
    unit: &Unit<'_, 'a>,
    expression: Expression<Slice<'a>>,
) -> gimli::Result<Option<Operation<Slice<'a>>>> {
    let mut operations = expression.operations(unit.encoding());
    let first = operations.next()?;
    let is_all = operations.next()?.is_none();
    Ok(first.filter(|_| is_all))
}

/// Where a parameter is at the entry of its function, as far as that tells how it is passed.
fn place<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    parameter: &Entry<'a>,
    (entry, by_frame): (u64, bool),
) -> gimli::Result<Option<Place>> {
    let mut expression = None;
    match parameter.attr_value(gimli::DW_AT_location) {
        Some(AttributeValue::Exprloc(all)) => expression = Some(all),
        Some(list) => {
            let Some(mut list) = dwarf.attr_locations(unit, list)? else {
                return Ok(None);
            };
            while let Some(location) = list.next()? {
                if (location.range.begin..location.range.end).contains(&entry) {
                    expression = Some(location.data);
                    break;
                }
            }
        }
        None => {}
    }
    let Some(expression) = expression else {
        return Ok(None);
    };
    Ok(match only(unit, expression)? {
        Some(Operation::Register { register }) => {
            let is_vector = (VECTOR..VECTOR + VECTORS).contains(&register.0);
            let is_argument = is_vector || PLATFORM.contains(&register.0);
            is_argument.then_some(Place::Register(register.0))
        }
        // What a function saves itself is in front of the return address.
        Some(Operation::FrameOffset { offset }) if by_frame => {
            u64::try_from(offset).ok().map(Place::Caller)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dwarf::{entry_address, search};
    use crate::elf::tests::{entry_of, parameters};

    /// Windows' convention shows in where parameters are, also where they are kept in the frame.
    #[test]
    fn conventions() {
        let elf = parameters();
        let of = |name: &str| {
            let entry = entry_of(&elf, name);
            let mut found = None;
            search(&elf, &BTreeSet::from([entry]), |dwarf, unit| {
                let mut functions = unit.entries();
                while let Some(function) = functions.next_dfs()? {
                    if function.tag() == gimli::DW_TAG_subprogram
                        && entry_address(dwarf, unit, function)? == Some(entry)
                    {
                        found = Some(places(dwarf, unit, function.offset(), entry)?);
                    }
                }
                Ok(())
            });
            found.unwrap_or_else(|| panic!("no {name}"))
        };
        for name in ["gcc_windows", "plain_windows"] {
            assert_eq!(of(name), Places::Windows, "{name}");
        }
        for name in ["two", "none", "unread", "quad", "extended", "old"] {
            for compiled in ["gcc", "plain"] {
                let name = format!("{compiled}_{name}");
                assert_eq!(of(&name), Places::Platform, "{name}");
            }
        }
    }
}
