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
pub(crate) struct Frame {
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

/// Lines of declarations that were looked up, by unit and entry. Units that lie in files of their
/// own all begin at 0, and differ in their ids.
type Declared = HashMap<(Option<DebugInfoOffset>, Option<DwoId>, UnitOffset), u32>;

/// Looks up the functions that addresses are in, the innermost first: the last one is not inlined.
/// Nothing of an address that debug information does not know.
pub(crate) type LookUp<'l> = dyn FnMut(&[u64]) -> Vec<Vec<Frame>> + 'l;

/// What `work` makes of the positions that it looks up. `None`: there are none to read, or the
/// debug information is broken.
pub(crate) fn positions<T>(elf: &Elf, work: impl FnOnce(&mut LookUp<'_>) -> T) -> Option<T> {
    let read = || {
        let store = Store::default();
        let split = Split::new(&store, elf.path());
        let sections = Sections::of(elf);
        let context = addr2line::Context::from_dwarf(sections.dwarf()).ok()?;
        let mut declared = Declared::new();
        let mut names: HashMap<String, Rc<str>> = HashMap::new();
        let mut look_up = |addresses: &[u64]| {
            let mut of =
                |address: &u64| chain(&context, &split, *address, &mut declared, &mut names);
            addresses
                .iter()
                .map(|address| of(address).unwrap_or_default())
                .collect()
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
) -> Option<Vec<Frame>> {
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
        chain.push(Frame {
            name,
            declared,
            line: location.and_then(|at| at.line).unwrap_or(0),
            column: location.and_then(|at| at.column).unwrap_or(0),
        });
    }
    Some(chain)
}
