//! The symbols of code in one or more symbol tables, in order of their addresses.

use std::rc::Rc;

use object::ReadRef as _;
use object::elf;
use object::read::elf::{ElfFile, FileHeader, SectionHeader as _, Sym as _, SymbolTable};

use crate::binary::{Apart, Binary};
use crate::pieces::{Pieces, Source};

/// What a symbol without a size may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    /// Without type, known in its file alone: mostly a label.
    Local = 0,
    /// Without type, known to other files.
    Global,
    /// A function, or data among code, which ends one.
    Typed,
}

/// One symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    /// First address behind it; its start if it has no size.
    pub(crate) end: u64,
    pub(crate) strength: Strength,
    /// Data among code.
    pub(crate) is_data: bool,
    /// How well it names its address, among others there.
    rank: u8,
    table: u8,
    name: u32,
    /// The symbol's place among all that were read.
    number: u32,
}

impl Symbol {
    pub(crate) fn has_size(&self) -> bool {
        self.end > self.start
    }

    /// Whether the symbol is a function that says how long it is.
    pub(crate) fn is_sized_function(&self) -> bool {
        self.has_size() && self.strength == Strength::Typed && !self.is_data
    }
}

/// The names of a table: a part of its file.
#[derive(Debug)]
struct Strings {
    source: Rc<Source>,
    offset: u64,
    size: u64,
}

impl Strings {
    /// The name at an offset, for which no other names are read but those near it.
    fn name(&self, offset: u32) -> Option<&[u8]> {
        let pieces = Pieces(&self.source);
        let left = self.size.checked_sub(offset.into())?.min(MAX_NAME as u64);
        let start = self.offset.checked_add(offset.into())?;
        let end = start.checked_add(left)?;
        let whole = pieces.read_bytes_at_until(start..end, 0);
        whole.or_else(|()| pieces.read_bytes_at(start, left)).ok()
    }
}

/// Symbols of code.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// Symbols by start; of those with the same start the best name comes last.
    pub(crate) list: Vec<Symbol>,
    strings: Vec<Strings>,
    /// Whether a table was among them that names local functions, too.
    pub(crate) is_whole: bool,
}

impl Symbols {
    /// The symbols of an image's files that lie in these ranges of code. Whole tables are read
    /// apart: few of the names are asked for later.
    pub(crate) fn new(files: &[&Binary], code: &[(u64, u64)]) -> Symbols {
        let mut symbols = Symbols::default();
        let apart: Vec<Apart> = files.iter().map(|file| file.apart()).collect();
        let mut names = Vec::new();
        for (file, apart) in files.iter().zip(&apart) {
            let read = match apart.parsed() {
                Some(object::File::Elf32(read)) => symbols.add_file(&read, code, file.source()),
                Some(object::File::Elf64(read)) => symbols.add_file(&read, code, file.source()),
                _ => continue,
            };
            names.extend(read);
        }
        symbols.sort(&names);
        symbols
    }

    /// Adds the symbols of a file, and returns the names of its tables.
    fn add_file<'a, Header: FileHeader>(
        &mut self,
        file: &ElfFile<'a, Header, Pieces<'a>>,
        code: &[(u64, u64)],
        source: &Rc<Source>,
    ) -> Vec<&'a [u8]> {
        let whole = file.elf_symbol_table();
        self.is_whole |= !whole.is_empty();
        let tables = [whole, file.elf_dynamic_symbol_table()];
        // Broken tables name nothing.
        let names = tables.map(|table| self.add_table(file, table, code, source));
        names.into_iter().flatten().collect()
    }

    fn add_table<'a, Header: FileHeader>(
        &mut self,
        file: &ElfFile<'a, Header, Pieces<'a>>,
        table: &SymbolTable<'a, Header, Pieces<'a>>,
        code: &[(u64, u64)],
        source: &Rc<Source>,
    ) -> Option<&'a [u8]> {
        let endian = file.endian();
        let sections = file.elf_section_table();
        let section = sections.section(table.string_section()).ok()?;
        let strings = section.data(endian, file.data()).ok()?;
        let (offset, size) = section.file_range(endian)?;
        let of = u8::try_from(self.strings.len()).ok()?;
        for symbol in table.symbols() {
            let kind = symbol.st_type();
            let known = [
                elf::STT_NOTYPE,
                elf::STT_OBJECT,
                elf::STT_FUNC,
                elf::STT_GNU_IFUNC,
            ];
            let name = symbol.st_name(endian);
            if symbol.st_shndx(endian) == elf::SHN_UNDEF || name == 0 || !known.contains(&kind) {
                continue;
            }
            let start: u64 = symbol.st_value(endian).into();
            let Some(end) = start.checked_add(symbol.st_size(endian).into()) else {
                continue;
            };
            let before = code.partition_point(|(first, _)| *first <= start);
            let inside = before.checked_sub(1).and_then(|index| code.get(index));
            if inside.is_none_or(|(_, last)| start >= *last) {
                continue;
            }
            let is_local = symbol.st_bind() == elf::STB_LOCAL;
            let strength = match is_local {
                _ if kind != elf::STT_NOTYPE => Strength::Typed,
                true => Strength::Local,
                false => Strength::Global,
            };
            // What an assembler kept of its own labels.
            if strength == Strength::Local && raw(strings, name).starts_with(b".L") {
                continue;
            }
            let binding = match symbol.st_bind() {
                elf::STB_LOCAL => 0,
                elf::STB_WEAK => 1,
                _ => 2,
            };
            let is_data = kind == elf::STT_OBJECT;
            let has_size = u8::from(end > start);
            self.list.push(Symbol {
                start,
                end,
                strength,
                is_data,
                rank: u8::from(!is_data) << 5 | (strength as u8) << 3 | has_size << 2 | binding,
                table: of,
                name,
                number: u32::try_from(self.list.len()).ok()?,
            });
        }
        self.strings.push(Strings {
            source: Rc::clone(source),
            offset,
            size,
        });
        Some(strings)
    }

    /// Puts the symbols into their order; `strings` are the names of the tables.
    fn sort(&mut self, strings: &[&[u8]]) {
        let mut list = std::mem::take(&mut self.list);
        list.sort_unstable_by_key(|symbol| (symbol.start, symbol.rank, symbol.number));
        let name = |symbol: &Symbol| {
            let strings = strings.get(usize::from(symbol.table)).copied();
            raw(strings.unwrap_or_default(), symbol.name)
        };
        let underscores = |name: &[u8]| name.iter().take_while(|byte| **byte == b'_').count();
        let key = |name: &[u8]| (name.starts_with(b"__GI_"), underscores(name), name.len());
        for equal in list.chunk_by_mut(|a, b| (a.start, a.rank) == (b.start, b.rank)) {
            if equal.len() == 1 {
                continue;
            }
            // Not a library's name for its own use; then the name that fewer underscores hide, then
            // the shorter one.
            equal.sort_by(|a, b| {
                let (a, b) = (name(a), name(b));
                key(b).cmp(&key(a)).then_with(|| b.cmp(a))
            });
        }
        self.list = list;
    }

    /// A symbol's name as it stands in its table.
    pub(crate) fn name(&self, symbol: &Symbol) -> String {
        let strings = self.strings.get(usize::from(symbol.table));
        let name = strings.and_then(|strings| strings.name(symbol.name));
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }
}

/// The longest name that is taken whole.
const MAX_NAME: usize = 1 << 16;

pub(crate) fn text(strings: &[u8], offset: u32) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(raw(strings, offset))
}

/// The bytes of a name.
fn raw(strings: &[u8], offset: u32) -> &[u8] {
    let from = usize::try_from(offset).ok();
    let rest = from
        .and_then(|from| strings.get(from..))
        .unwrap_or_default();
    let rest = rest.get(..rest.len().min(MAX_NAME)).unwrap_or_default();
    let end = memchr::memchr(0, rest);
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}
