//! Where an image may have a function of some name, without looking at its other functions.

use memchr::memmem::Finder;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, SectionHeader as _, Sym as _, SymbolTable};

use crate::binary::Binary;
use crate::pieces::Pieces;
use crate::table::text;

/// What an image says of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Ranges of addresses that hold all functions of the name, and maybe more.
    pub ranges: Vec<(u64, u64)>,
    /// Whether the image may have a PLT stub that leads to a function of the name: to another
    /// image's, or to its own that others may replace.
    pub has_stubs: bool,
    /// Whether the file's tables name also the functions that no other file knows.
    pub is_whole: bool,
}

/// Where `image` may have functions whose names, as they stand in its tables and in those of its
/// debug file, contain `part` and pass the test `is_meant`.
#[must_use]
pub fn named(
    image: &Binary,
    debug: Option<&Binary>,
    part: &str,
    is_meant: &dyn Fn(&str) -> bool,
) -> Named {
    let mut search = Search {
        part: Finder::new(part),
        is_meant,
        starts: Vec::new(),
        named: Named::default(),
    };
    let mini = image.mini();
    for binary in [Some(image), mini.as_ref(), debug].into_iter().flatten() {
        search.look(binary);
    }
    let Search {
        mut named,
        mut starts,
        ..
    } = search;
    if starts.is_empty() {
        return named;
    }
    starts.sort_unstable();
    starts.dedup();
    let files = [Some(image), mini.as_ref(), debug];
    let mut sized: Vec<u64> = files.into_iter().flatten().flat_map(sized_starts).collect();
    sized.sort_unstable();
    let sections = image.code_sections();
    // What says no size reaches to a symbol that does, or as far as its unwind row.
    for start in starts {
        let mut around = sections.iter();
        let section = around.find(|(first, last)| (*first..*last).contains(&start));
        let Some((_, last)) = section else { continue };
        let next = sized.get(sized.partition_point(|other| *other <= start));
        let end = next.unwrap_or(last).min(last);
        let frame = image.frame(start).map_or(0, |(_, end)| end);
        named.ranges.push((start, frame.max(*end)));
    }
    named
}

/// A name that is looked for.
struct Search<'a> {
    part: Finder<'a>,
    is_meant: &'a dyn Fn(&str) -> bool,
    /// Where symbols without a size begin.
    starts: Vec<u64>,
    named: Named,
}

impl Search<'_> {
    fn look(&mut self, binary: &Binary) {
        match binary.apart().parsed() {
            Some(object::File::Elf32(file)) => self.look_at(&file),
            Some(object::File::Elf64(file)) => self.look_at(&file),
            _ => {}
        }
    }

    fn look_at<'a, Header: FileHeader>(&mut self, file: &ElfFile<'a, Header, Pieces<'a>>) {
        let whole = file.elf_symbol_table();
        self.named.is_whole |= !whole.is_empty();
        let dynamic = file.elf_dynamic_symbol_table();
        for (table, is_dynamic) in [(whole, false), (dynamic, true)] {
            // Broken tables name nothing.
            let _ = self.look_at_table(file, table, is_dynamic);
        }
    }

    fn look_at_table<'a, Header: FileHeader>(
        &mut self,
        file: &ElfFile<'a, Header, Pieces<'a>>,
        table: &SymbolTable<'a, Header, Pieces<'a>>,
        is_dynamic: bool,
    ) -> Option<()> {
        let endian = file.endian();
        let sections = file.elf_section_table();
        let strings = sections.section(table.string_section()).ok()?;
        let strings = strings.data(endian, file.data()).ok()?;
        let places = self.places(strings);
        if places.is_empty() {
            return Some(());
        }
        for symbol in table.symbols() {
            let name = symbol.st_name(endian);
            let behind = places.partition_point(|(first, _)| *first <= name);
            let nearest = behind.checked_sub(1).and_then(|index| places.get(index));
            if name == 0
                || nearest.is_none_or(|(_, last)| name > *last)
                || !(self.is_meant)(&text(strings, name))
            {
                continue;
            }
            self.named.has_stubs |= is_dynamic;
            if symbol.st_shndx(endian) == elf::SHN_UNDEF {
                continue;
            }
            let (start, size): (u64, u64) = (
                symbol.st_value(endian).into(),
                symbol.st_size(endian).into(),
            );
            match start.checked_add(size) {
                Some(end) if size > 0 => self.named.ranges.push((start, end)),
                Some(_) => self.starts.push(start),
                None => {}
            }
        }
        Some(())
    }

    /// Where names begin that contain the part: first and last offset.
    fn places(&self, strings: &[u8]) -> Vec<(u32, u32)> {
        let mut places: Vec<(u32, u32)> = Vec::new();
        for found in self.part.find_iter(strings) {
            let before = strings.get(..found).unwrap_or_default();
            let first = memchr::memrchr(0, before).map_or(0, |zero| zero + 1);
            let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(found)) else {
                break;
            };
            match places.last_mut() {
                Some(known) if known.0 == first => known.1 = last,
                _ => places.push((first, last)),
            }
        }
        places
    }
}

/// Where functions with a size begin.
fn sized_starts(binary: &Binary) -> Vec<u64> {
    fn of<'a, Header: FileHeader>(file: &ElfFile<'a, Header, Pieces<'a>>) -> Vec<u64> {
        let endian = file.endian();
        let tables = [file.elf_symbol_table(), file.elf_dynamic_symbol_table()];
        let symbols = tables.into_iter().flat_map(|table| table.symbols());
        let sized = symbols.filter(|symbol| {
            symbol.st_size(endian).into() > 0
                && symbol.st_shndx(endian) != elf::SHN_UNDEF
                && [elf::STT_FUNC, elf::STT_GNU_IFUNC].contains(&symbol.st_type())
        });
        sized.map(|symbol| symbol.st_value(endian).into()).collect()
    }
    match binary.apart().parsed() {
        Some(object::File::Elf32(file)) => of(&file),
        Some(object::File::Elf64(file)) => of(&file),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
