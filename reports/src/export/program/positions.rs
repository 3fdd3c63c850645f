//! Where the source has the code of addresses, as compilers count: by names as the linker knows
//! them, and lines from where functions are declared.

use std::collections::HashMap;
use std::rc::Rc;

use addr2line::{LookupContinuation, LookupResult};
use gimli::{DebugInfoOffset, DwoId, UnitOffset};

use crate::dwarf::attribute;
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
    /// How often the loop around it was unrolled, as far as LLVM says so: each execution stands for
    /// so many.
    pub(crate) copies: u32,
}

/// Lines of declarations that were looked up, by unit and entry. Units that lie in files of their
/// own all begin at 0, and differ in their ids.
type Declared = HashMap<(Option<DebugInfoOffset>, Option<DwoId>, UnitOffset), u32>;

/// Looks up the positions of addresses.
pub(crate) type LookUp<'l> = dyn FnMut(&[u64]) -> Vec<Position> + 'l;

/// What `work` makes of the positions that it looks up. `None`: there are none to read, or the
/// debug information is broken.
pub(crate) fn positions<T>(elf: &Elf, work: impl FnOnce(&mut LookUp<'_>) -> T) -> Option<T> {
    let read = || {
        let store = Store::default();
        let split = Split::new(&store, elf.path());
        let sections = Sections::of(elf);
        let unrolled = unrolled(&sections.dwarf());
        let context = addr2line::Context::from_dwarf(sections.dwarf()).ok()?;
        let mut declared = Declared::new();
        let mut names: HashMap<String, Rc<str>> = HashMap::new();
        let mut look_up = |addresses: &[u64]| {
            let of = |address: &u64| Position {
                frames: chain(&context, &split, *address, &mut declared, &mut names)
                    .unwrap_or_default(),
                copies: copies(&unrolled, *address),
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

fn chain<'a>(
    context: &addr2line::Context<Slice<'a>>,
    split: &Split<'a>,
    address: u64,
    declared: &mut Declared,
    names: &mut HashMap<String, Rc<str>>,
) -> Option<Vec<PositionFrame>> {
    let unit = looked_up(context.find_dwarf_and_unit(address), split)?;
    let mut frames = looked_up(context.find_frames(address), split).ok()?;
    let mut chain = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function?;
        let name = name.raw_name().ok()?;
        let entry = frame.dw_die_offset?;
        let place = (unit.header.debug_info_offset(), unit.dwo_id, entry);
        let declared = *declared.entry(place).or_insert_with(|| {
            let line = || {
                let entry = unit.entry(entry).ok()?;
                let line = attribute(unit.unit, &entry, gimli::DW_AT_decl_line)?;
                u32::try_from(line.udata_value()?).ok()
            };
            line().unwrap_or(0)
        });
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
            declared,
            line: location.and_then(|at| at.line).unwrap_or(0),
            column: location.and_then(|at| at.column).unwrap_or(0),
        });
    }
    Some(chain)
}

/// Code of loops that were unrolled: first address, first address behind it, how often.
type Unrolled = Vec<(u64, u64, u32)>;

/// The code of loops that were unrolled, by address. LLVM says so in the second part of a row's
/// discriminator.
fn unrolled(dwarf: &gimli::Dwarf<Slice<'_>>) -> Unrolled {
    let mut found = Unrolled::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        let Some(program) = unit.line_program else {
            continue;
        };
        let mut rows = program.rows();
        let mut open: Option<(u64, u32)> = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if let Some((start, copies)) = open.take().filter(|(start, _)| *start < row.address()) {
                found.push((start, row.address(), copies));
            }
            let copies = factor(row.discriminator());
            if copies > 1 && !row.end_sequence() {
                open = Some((row.address(), copies));
            }
        }
    }
    found.sort_unstable();
    found
}

fn copies(unrolled: &Unrolled, address: u64) -> u32 {
    let behind = unrolled.partition_point(|(start, ..)| *start <= address);
    let last = behind.checked_sub(1).and_then(|last| unrolled.get(last));
    last.map_or(
        1,
        |(_, end, copies)| if address < *end { *copies } else { 1 },
    )
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
    let bits = behind >> 1;
    let factor = match bits & 0x20 {
        0 => bits & 0x1f,
        _ => bits >> 1 & 0xfe0 | bits & 0x1f,
    };
    u32::try_from(factor).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

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
