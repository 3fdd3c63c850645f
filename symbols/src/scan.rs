//! Symbol tables that are looked through without being held: those of large programs take longer to
//! get room for.

use std::ops::Range;

use object::elf::{self, SectionType};
use object::pod;
use object::read::elf::{FileHeader, SectionHeader as _, Sym as _};

use crate::binary::Binary;
use crate::headers::{Headers, of_either};
use crate::pieces::Source;

/// The kinds of tables that name functions.
pub(crate) const KINDS: [SectionType; 2] = [elf::SHT_SYMTAB, elf::SHT_DYNSYM];

/// What a file says of a symbol that it defines, but for its name.
pub(crate) struct Defined {
    pub(crate) start: u64,
    /// 0: it is not known.
    pub(crate) size: u64,
    pub(crate) is_function: bool,
}

/// Gives all symbols that a file defines to `take`. What cannot be read tells nothing.
pub(crate) fn each_defined(binary: &Binary, take: &mut dyn FnMut(&Defined)) {
    fn of<Header: FileHeader>(
        source: &Source,
        file: &Headers<'_, Header>,
        take: &mut dyn FnMut(&Defined),
    ) {
        let endian = file.endian;
        for table in KINDS.iter().filter_map(|kind| Table::of(file, *kind)) {
            let _ = table.each_symbol::<Header>(source, |symbol| {
                if symbol.st_shndx(endian) != elf::SHN_UNDEF {
                    take(&Defined {
                        start: symbol.st_value(endian).into(),
                        size: symbol.st_size(endian).into(),
                        is_function: [elf::STT_FUNC, elf::STT_GNU_IFUNC]
                            .contains(&symbol.st_type()),
                    });
                }
            });
        }
    }
    if let Some(headers) = binary.headers() {
        of_either!(&headers, file => of(binary.source(), file, take));
    }
}

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
