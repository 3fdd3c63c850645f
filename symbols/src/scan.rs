//! Symbol tables that are looked through without being held: those of large programs take longer to
//! get room for.

use std::ops::Range;

use object::elf::SectionType;
use object::pod;
use object::read::elf::{FileHeader, SectionHeader as _};

use crate::headers::Headers;
use crate::pieces::Source;

/// Where a table lies in its file.
pub(crate) struct Table {
    /// The symbols.
    pub(crate) symbols: Range<u64>,
    /// Their names.
    pub(crate) strings: Range<u64>,
}

impl Table {
    /// The first table of a kind; `None`: there is none, or it is broken.
    pub(crate) fn of<Header: FileHeader>(
        file: &Headers<'_, Header>,
        kind: SectionType,
    ) -> Option<Table> {
        let endian = file.endian;
        let mut sections = file.sections.iter();
        let symbols = sections.find(|section| section.sh_type(endian) == kind)?;
        let strings = file.sections.section(symbols.link(endian)).ok()?;
        let range = |section: &Header::SectionHeader| {
            let (start, size) = section.file_range(endian)?;
            Some(start..start.checked_add(size)?)
        };
        Some(Table {
            symbols: range(symbols)?,
            strings: range(strings)?,
        })
    }

    /// Gives all symbols to `take`, in their order. Fails where they cannot be read.
    pub(crate) fn each_symbol<Header: FileHeader>(
        &self,
        source: &Source,
        mut take: impl FnMut(&Header::Sym),
    ) -> Result<(), ()> {
        source.scan(self.symbols.clone(), |_, bytes| {
            let count = bytes.len() / size_of::<Header::Sym>();
            let Ok((symbols, rest)) = pod::slice_from_bytes::<Header::Sym>(bytes, count) else {
                return bytes.len();
            };
            symbols.iter().for_each(&mut take);
            bytes.len() - rest.len()
        })
    }
}
