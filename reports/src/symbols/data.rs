//! Names of an image's data, as its symbol tables have them.

use object::elf::{STT_COMMON, STT_OBJECT};
use object::read::elf::{ElfFile, FileHeader, SectionHeader as _, Sym as _};
use symbols::Pieces;

use super::Symbols;
use crate::elf::{Elf, demangle};
use crate::guard::fenced;

/// The data of an image in the order of their addresses. Their names stay in the files: an image
/// may have some hundred thousand, of which few are asked for.
#[derive(Debug)]
pub(crate) struct Data {
    image: usize,
    symbols: Vec<DataSymbol>,
}

/// Where the name of some data is.
#[derive(Debug, Clone, Copy)]
struct DataSymbol {
    start: u64,
    /// The first address behind it.
    end: u64,
    place: NamePlace,
}

/// A place in an image's own file or in its debug file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NamePlace {
    in_debug_file: bool,
    /// Bytes up to the end of the table of names.
    left: u32,
    offset: u64,
}

impl Data {
    /// What the image's own file and its debug file name.
    pub(crate) fn of(symbols: &Symbols<'_>, image: usize) -> Data {
        let mut all = Vec::new();
        if symbols.has_names() {
            for in_debug_file in [true, false] {
                if let Some(file) = file(symbols, image, in_debug_file) {
                    // What cannot be parsed names nothing.
                    let found = fenced(|| data_of(file, in_debug_file));
                    all.extend(found.unwrap_or_default());
                }
            }
        }
        Data::sorted(image, all)
    }

    /// Of several with one address the last counts.
    fn sorted(image: usize, mut symbols: Vec<DataSymbol>) -> Data {
        symbols.reverse();
        symbols.sort_by_key(|symbol| symbol.start);
        symbols.dedup_by_key(|symbol| symbol.start);
        Data { image, symbols }
    }

    /// The name at an address, with how far it is into what is named. `symbols` are those that this
    /// was made of.
    pub(crate) fn at(&self, symbols: &Symbols<'_>, address: u64) -> Option<String> {
        let (found, offset) = self.find(address)?;
        let file = file(symbols, self.image, found.in_debug_file)?;
        let name = fenced(|| name(file, found)).flatten()?;
        Some(match offset {
            0 => name,
            offset => format!("{name}+0x{offset:x}"),
        })
    }

    /// Where the name of an address is, and how far it is into what is named.
    fn find(&self, address: u64) -> Option<(NamePlace, u64)> {
        let symbols = &self.symbols;
        let behind = symbols.partition_point(|symbol| symbol.start <= address);
        let found = symbols.get(behind.checked_sub(1)?)?;
        (address < found.end).then(|| (found.place, address - found.start))
    }
}

fn file<'s>(symbols: &'s Symbols<'_>, image: usize, in_debug_file: bool) -> Option<&'s Elf> {
    match in_debug_file {
        true => symbols.debug(image),
        false => symbols.elf(image),
    }
}

fn data_of(file: &Elf, in_debug_file: bool) -> Vec<DataSymbol> {
    match file.binary().apart().parsed() {
        Some(object::File::Elf32(file)) => data_in(&file, in_debug_file),
        Some(object::File::Elf64(file)) => data_in(&file, in_debug_file),
        _ => Vec::new(),
    }
}

fn data_in<'a, Header: FileHeader>(
    file: &ElfFile<'a, Header, Pieces<'a>>,
    in_debug_file: bool,
) -> Vec<DataSymbol> {
    let endian = file.endian();
    let mut all = Vec::new();
    for table in [file.elf_dynamic_symbol_table(), file.elf_symbol_table()] {
        let sections = file.elf_section_table();
        let names = sections.section(table.string_section()).ok();
        let Some((names, size)) = names.and_then(|names| names.file_range(endian)) else {
            continue;
        };
        let data = table.symbols().iter().filter_map(|symbol| {
            if ![STT_OBJECT, STT_COMMON].contains(&symbol.st_type()) {
                return None;
            }
            let start: u64 = symbol.st_value(endian).into();
            let name = u64::from(symbol.st_name(endian));
            let left = size.checked_sub(name)?;
            Some(DataSymbol {
                start,
                end: start.checked_add(symbol.st_size(endian).into())?,
                place: NamePlace {
                    in_debug_file,
                    left: u32::try_from(left).unwrap_or(u32::MAX),
                    offset: names.checked_add(name)?,
                },
            })
        });
        all.extend(data);
    }
    all
}

fn name(file: &Elf, place: NamePlace) -> Option<String> {
    let end = place.offset.checked_add(place.left.into())?;
    let name = file.binary().text(place.offset..end)?;
    Some(demangle(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address within data goes by its name, of two names by the last; one behind it by none.
    #[test]
    fn names() {
        let symbol = |start, end, offset| DataSymbol {
            start,
            end,
            place: NamePlace {
                in_debug_file: false,
                left: 8,
                offset,
            },
        };
        let symbols = [
            symbol(0x30, 0x38, 1),
            symbol(0x10, 0x18, 2),
            symbol(0x10, 0x20, 3),
        ];
        let data = Data::sorted(0, symbols.to_vec());
        let found = |address| {
            let found = data.find(address);
            found.map(|(place, offset)| (place.offset, offset))
        };
        assert_eq!(found(0x10), Some((3, 0)));
        assert_eq!(found(0x18), Some((3, 8)));
        assert_eq!(found(0x20), None);
        assert_eq!(found(0xf), None);
        assert_eq!(found(0x37), Some((1, 7)));
    }
}
