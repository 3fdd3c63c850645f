//! Where the source has the code of addresses, as compilers count: by names as the linker knows
//! them, and lines from where functions are declared.

use std::collections::HashMap;
use std::rc::Rc;

use addr2line::{LookupContinuation, LookupResult};
use gimli::{AttributeValue, DebugInfoOffset, DwoId, UnitOffset, UnitRef};

use crate::dwarf::{Unit, attribute};
use crate::elf::Elf;
use crate::guard::fenced;
use crate::sections::{Sections, Slice};
use crate::split::{Split, Store};

/// A function that an address is in, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PositionFrame {
    /// The function's name as the linker knows it, without what compilers put behind the names of
    /// copies.
    pub(crate) name: Rc<str>,
    /// The line where it is declared; 0: not known.
    pub(crate) declared: u32,
    /// The line of the address, or of the call that was inlined there; 0: not known.
    pub(crate) line: u32,
    /// The column in that line; 0: not known.
    pub(crate) column: u32,
}

/// Where the source has the code of an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// The functions that it is in, the innermost first: the last one is not inlined. Nothing where
    /// debug information does not know it.
    pub(crate) frames: Vec<PositionFrame>,
    /// What tells apart the code of one line, for each frame: LLVM's base discriminator.
    pub(crate) discriminators: Vec<u32>,
    /// What debug information says of the functions, for each frame.
    pub(crate) entries: Vec<FunctionEntry>,
    /// How often the loop around it was unrolled, as far as LLVM says so: each execution stands for
    /// so many.
    pub(crate) copies: u32,
}

/// Tells functions apart that have the same name: the place of the entry that all copies of one go
/// back to.
pub(crate) type FunctionId = (Option<DebugInfoOffset>, Option<DwoId>, UnitOffset);

/// What an entry of a function, or of one that was inlined, says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionEntry {
    /// The line where it is declared; 0: not known.
    declared: u32,
    /// Which code of its line calls it, as LLVM tells apart what was inlined.
    call: u64,
    /// The address where its code is entered; `None`: not known.
    pub(crate) entered: Option<u64>,
    /// Which function's copy it is.
    pub(crate) function: FunctionId,
}

impl FunctionEntry {
    fn of(unit: UnitRef<'_, Slice<'_>>, place: FunctionId) -> FunctionEntry {
        let Ok(entry) = unit.entry(place.2) else {
            return FunctionEntry {
                declared: 0,
                call: 0,
                entered: None,
                function: place,
            };
        };
        let line = attribute(
            &Unit::alone(unit.dwarf, unit.unit),
            &entry,
            gimli::DW_AT_decl_line,
        );
        let line = line.and_then(|line| u32::try_from(line.udata_value()?).ok());
        let call = entry.attr_value(gimli::DW_AT_GNU_discriminator);
        let address = |name| unit.attr_address(entry.attr_value(name)?).ok().flatten();
        let entered = address(gimli::DW_AT_entry_pc);
        FunctionEntry {
            declared: line.unwrap_or(0),
            call: call.and_then(|call| call.udata_value()).unwrap_or(0),
            entered: entered.or_else(|| address(gimli::DW_AT_low_pc)),
            function: match entry.attr_value(gimli::DW_AT_abstract_origin) {
                Some(AttributeValue::UnitRef(origin)) => (place.0, place.1, origin),
                _ => place,
            },
        }
    }
}

/// Entries that were looked up, by unit and place in it. Units that lie in files of their own all
/// begin at 0, and differ in their ids.
type Entries = HashMap<FunctionId, FunctionEntry>;

/// Looks up the positions of addresses.
pub(crate) type LookUp<'l> = dyn FnMut(&[u64]) -> Vec<Position> + 'l;

/// What `work` makes of the positions that it looks up. `None`: there are none to read, or the
/// debug information is broken.
pub(crate) fn positions<T>(elf: &Elf, work: impl FnOnce(&mut LookUp<'_>) -> T) -> Option<T> {
    let read = || {
        let store = Store::default();
        let split = Split::new(&store, elf.path());
        let sections = Sections::of(elf);
        let discriminators = discriminators(&sections.dwarf());
        let context = addr2line::Context::from_dwarf(sections.dwarf()).ok()?;
        let mut entries = Entries::new();
        let mut names: HashMap<String, Rc<str>> = HashMap::new();
        let mut look_up = |addresses: &[u64]| {
            let of = |address: &u64| {
                let own = discriminator(&discriminators, *address);
                let chain = chain(&context, &split, *address, &mut entries, &mut names);
                let (frames, said) = chain.unwrap_or_default();
                // The innermost frame's is that of the address, others are of the calls in them.
                let calls = said.iter().map(|entry| entry.call);
                let all = std::iter::once(own).chain(calls).map(base);
                Position {
                    discriminators: all.take(frames.len()).collect(),
                    entries: said,
                    frames,
                    copies: factor(own),
                }
            };
            addresses.iter().map(of).collect()
        };
        Some(work(&mut look_up))
    };
    fenced(read)?
}

/// What a lookup comes to when all that it asks for was loaded.
fn looked_up<'s, L>(mut looked: LookupResult<L>, split: &Split<'s>) -> L::Output
where
    L: LookupContinuation<Buf = Slice<'s>>,
{
    loop {
        match looked {
            LookupResult::Output(output) => return output,
            LookupResult::Load { load, continuation } => {
                looked = continuation.resume(split.load(&load));
            }
        }
    }
}

/// The functions that an address is in, the innermost first, and what their entries say.
fn chain<'a>(
    context: &addr2line::Context<Slice<'a>>,
    split: &Split<'a>,
    address: u64,
    entries: &mut Entries,
    names: &mut HashMap<String, Rc<str>>,
) -> Option<(Vec<PositionFrame>, Vec<FunctionEntry>)> {
    let unit = looked_up(context.find_dwarf_and_unit(address), split)?;
    let mut frames = looked_up(context.find_frames(address), split).ok()?;
    let mut chain = Vec::new();
    let mut said = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function?;
        let name = name.raw_name().ok()?;
        let entry = frame.dw_die_offset?;
        let place = (unit.header.debug_info_offset(), unit.dwo_id, entry);
        let entry = entries.entry(place);
        let entry = *entry.or_insert_with(|| FunctionEntry::of(unit, place));
        said.push(entry);
        let location = frame.location.as_ref();
        let name = match names.get(name.as_ref()) {
            Some(known) => known.clone(),
            None => {
                let new: Rc<str> = Rc::from(name.as_ref());
                names.insert(name.into_owned(), new.clone());
                new
            }
        };
        chain.push(PositionFrame {
            name,
            declared: entry.declared,
            line: location.and_then(|at| at.line).unwrap_or(0),
            column: location.and_then(|at| at.column).unwrap_or(0),
        });
    }
    Some((chain, said))
}

/// Code with discriminators: first address, first address behind it, and the discriminator.
type Discriminators = Vec<(u64, u64, u64)>;

/// The discriminators of code that has one, by address.
fn discriminators(dwarf: &gimli::Dwarf<Slice<'_>>) -> Discriminators {
    let mut found = Discriminators::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let Some(program) = unit.line_program else {
            continue;
        };
        let mut rows = program.rows();
        let mut open: Option<(u64, u64)> = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if let Some((start, of)) = open.take().filter(|(start, _)| *start < row.address()) {
                found.push((start, row.address(), of));
            }
            if row.discriminator() != 0 && !row.end_sequence() {
                open = Some((row.address(), row.discriminator()));
            }
        }
    }
    found.sort_unstable();
    found
}

/// The discriminator of an address; 0: none.
fn discriminator(discriminators: &Discriminators, address: u64) -> u64 {
    let behind = discriminators.partition_point(|(start, ..)| *start <= address);
    let last = behind
        .checked_sub(1)
        .and_then(|last| discriminators.get(last));
    last.map_or(0, |(_, end, of)| if address < *end { *of } else { 0 })
}

/// The first part of a discriminator ([`factor`]), by which profiles tell apart code of one line.
fn base(discriminator: u64) -> u32 {
    if discriminator & 1 != 0 {
        return 0;
    }
    part(discriminator >> 1)
}

/// The number of 5 or 12 bits that a part's bits begin with.
fn part(bits: u64) -> u32 {
    let number = match bits & 0x20 {
        0 => bits & 0x1f,
        _ => bits >> 1 & 0xfe0 | bits & 0x1f,
    };
    u32::try_from(number).unwrap_or(0)
}

/// How many copies of a row's code LLVM made, by its discriminator: three parts, each of which is a
/// bit that is set for 0, or 7 or 14 bits (the documentation of `DILocation`).
fn factor(discriminator: u64) -> u32 {
    let behind = match discriminator {
        none if none & 1 != 0 => none >> 1,
        long if long & 0x40 != 0 => long >> 14,
        short => short >> 7,
    };
    if behind & 1 != 0 {
        return 1;
    }
    part(behind >> 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first part of a discriminator tells code of a line apart.
    #[test]
    fn bases() {
        assert_eq!(base(0), 0);
        assert_eq!(base(2 << 1), 2);
        assert_eq!(base(4 << 2 | 1), 0);
        assert_eq!(base(2 << 1 | 4 << 8), 2);
        assert_eq!(base(0x40 | 3 << 8 | 2 << 1 | 8 << 15), 194);
    }

    /// The second part of a discriminator is told, whatever is in the first one.
    #[test]
    fn factors() {
        // No discriminator; a base alone; bases of 0, one and two bytes with a factor behind.
        assert_eq!(factor(0), 1);
        assert_eq!(factor(2 << 1), 1);
        assert_eq!(factor(4 << 2 | 1), 4);
        assert_eq!(factor(2 << 1 | 4 << 8), 4);
        assert_eq!(factor(0x40 | 3 << 8 | 2 << 1 | 8 << 15), 8);
        assert_eq!(factor(1 | 1 << 1), 1);
        // A factor of two bytes.
        assert_eq!(factor(0x61 << 2 | 1), 33);
    }
}
