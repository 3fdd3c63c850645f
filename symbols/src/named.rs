//! Where an image may have a function of some name, without looking at its other functions.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem::Finder;
use object::elf;
use object::read::elf::{FileHeader, Sym as _};

use crate::binary::Binary;
use crate::headers::{Headers, of_either};
use crate::pieces::Source;
use crate::scan::{KINDS, Table, each_defined};
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
    // Where functions with a size begin.
    let mut sized = Vec::new();
    for binary in files.into_iter().flatten() {
        each_defined(binary, &mut |symbol| {
            if symbol.size > 0 && symbol.is_function {
                sized.push(symbol.start);
            }
        });
    }
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

/// The names of a table that contain the part.
#[derive(Default)]
struct Found {
    /// Of each, in their order: where it begins in the table, where the part is found last in it,
    /// and where its text begins in `texts`.
    places: Vec<(u32, u32, usize)>,
    /// What they are, each with its zero byte.
    texts: Vec<u8>,
}

impl Found {
    /// The name at an offset of the table, if the part is in it.
    fn text(&self, name: u32) -> Option<Cow<'_, str>> {
        let behind = self.places.partition_point(|(first, ..)| *first <= name);
        let (first, last, at) = *self.places.get(behind.checked_sub(1)?)?;
        let is_in = name <= last && name != 0;
        let texts = self.texts.get(at..).filter(|_| is_in)?;
        Some(text(texts, name - first))
    }
}

impl Search<'_> {
    fn look(&mut self, binary: &Binary) {
        let Some(headers) = binary.headers() else {
            return;
        };
        of_either!(&headers, file => self.look_at(binary.source(), file));
    }

    fn look_at<Header: FileHeader>(&mut self, source: &Source, file: &Headers<'_, Header>) {
        for kind in KINDS {
            // Broken tables name nothing.
            let _ = self.look_at_table(source, file, kind);
        }
    }

    /// Looks through the first table of a kind.
    fn look_at_table<Header: FileHeader>(
        &mut self,
        source: &Source,
        file: &Headers<'_, Header>,
        kind: elf::SectionType,
    ) -> Option<()> {
        let endian = file.endian;
        let table = Table::of(file, kind)?;
        let is_dynamic = kind == elf::SHT_DYNSYM;
        self.named.is_whole |= !is_dynamic && !table.symbols.is_empty();
        let found = self.names(source, table.strings.clone())?;
        if found.places.is_empty() {
            return Some(());
        }
        let looked = table.each_symbol::<Header>(source, |symbol| {
            if let Some(name) = found.text(symbol.st_name(endian)) {
                self.look_at_symbol::<Header>(endian, symbol, &name, is_dynamic);
            }
        });
        looked.ok()
    }

    fn look_at_symbol<Header: FileHeader>(
        &mut self,
        endian: Header::Endian,
        symbol: &Header::Sym,
        name: &str,
        is_dynamic: bool,
    ) {
        if !(self.is_meant)(name) {
            return;
        }
        self.named.has_stubs |= is_dynamic;
        if symbol.st_shndx(endian) == elf::SHN_UNDEF {
            return;
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

    /// The names that contain the part.
    fn names(&self, source: &Source, strings: Range<u64>) -> Option<Found> {
        let mut found = Found::default();
        let take = |offset: u64, bytes: &[u8]| {
            // A name without an end is none, or is not all there yet.
            let whole = memchr::memrchr(0, bytes).map_or(0, |zero| zero + 1);
            let names = bytes.get(..whole).unwrap_or_default();
            let mut end = 0;
            for hit in self.part.find_iter(names) {
                let within = |at: usize| u32::try_from(offset + at as u64);
                let Ok(last) = within(hit) else { break };
                if hit < end {
                    if let Some((_, known, _)) = found.places.last_mut() {
                        *known = last;
                    }
                    continue;
                }
                let (before, behind) = names.split_at(hit);
                let start = memchr::memrchr(0, before).map_or(0, |zero| zero + 1);
                end = memchr::memchr(0, behind).map_or(names.len(), |zero| hit + zero + 1);
                let Ok(first) = within(start) else { break };
                found.places.push((first, last, found.texts.len()));
                found
                    .texts
                    .extend_from_slice(names.get(start..end).unwrap_or_default());
            }
            whole
        };
        source.scan(strings, take).ok()?;
        Some(found)
    }
}

#[cfg(test)]
mod tests;
