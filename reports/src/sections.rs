//! The debug information of a file, with that which it shares with others (dwz).

use std::borrow::Cow;

use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use symbols::Room;

use crate::debugfiles;
use crate::elf::Elf;

/// What the parsers read.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes that are read of a file that others share.
const MAX_SHARED: u64 = 1 << 30;

/// The sections of a file, unpacked, and those of the file that it refers to.
pub(crate) struct Sections<'e> {
    own: DwarfSections<Cow<'e, [u8]>>,
    shared: Option<DwarfSections<Cow<'e, [u8]>>>,
}

impl<'e> Sections<'e> {
    /// What is read of a file; a section that is not there is empty.
    pub(crate) fn of(elf: &'e Elf) -> Sections<'e> {
        let find = || {
            let room = Room::new(MAX_SHARED);
            let shared = debugfiles::supplement(elf.binary(), elf.path()?, &room)?;
            Some(Elf::of(shared))
        };
        Sections {
            own: sections(elf),
            shared: elf.supplement(find).map(sections),
        }
    }

    /// The parsers' view.
    pub(crate) fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        self.own
            .borrow_with_sup(self.shared.as_ref(), |section| slice(section))
    }
}

/// Bytes as the parsers want them.
pub(crate) fn slice(bytes: &[u8]) -> Slice<'_> {
    EndianSlice::new(bytes, LittleEndian)
}

fn sections(elf: &Elf) -> DwarfSections<Cow<'_, [u8]>> {
    let load = |id: SectionId| -> Result<Cow<'_, [u8]>, std::convert::Infallible> {
        Ok(elf.section(id.name()).unwrap_or_default())
    };
    match DwarfSections::load(load) {
        Ok(sections) => sections,
        Err(never) => match never {},
    }
}
