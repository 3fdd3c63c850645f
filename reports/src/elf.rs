//! One ELF image as the reports need it: its build id, code bytes by virtual
//! address, function ranges of the unwind table, and names of PLT stubs.
//!
//! Files are hostile until shown otherwise: every range is checked, and what does
//! not parse is simply not known.

mod languages;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::read::elf::{ElfFile, FileHeader, SectionHeader as _, Sym as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use symbols::{Binary, Error, Pieces, Room};

use crate::guard::fenced;

#[cfg(test)]
pub(crate) use self::languages::GoText;
pub(crate) use self::languages::Languages;

/// The longest name of an image that is shown in place of its file's.
const MAX_SONAME: usize = 100;

/// An image whose pieces are read when they are asked for.
#[derive(Debug)]
pub(crate) struct Elf {
    binary: Binary,
    /// Where it is, if it is a file.
    path: Option<PathBuf>,
    /// Name of the symbol that the dynamic linker writes into a slot.
    slots: OnceCell<BTreeMap<u64, String>>,
    /// The file that has what this one shares with others, looked for when it is asked for.
    supplement: OnceCell<Option<Box<Elf>>>,
}

impl Elf {
    /// Opens a file whose pieces take no more than the room that is left.
    pub(crate) fn open(path: &Path, room: &Room) -> Result<Elf, Error> {
        fenced(|| Binary::open(path, room))
            .unwrap_or(Err(Error::Malformed))
            .map(|binary| Elf::at(path.to_owned(), binary))
    }

    /// Parses the bytes of an image.
    pub(crate) fn parse(data: Vec<u8>) -> Result<Elf, Error> {
        Binary::of_bytes(data).map(Elf::of)
    }

    /// An image that is read already.
    pub(crate) fn of(binary: Binary) -> Elf {
        Elf {
            binary,
            path: None,
            slots: OnceCell::new(),
            supplement: OnceCell::new(),
        }
    }

    /// An image that was read from this file.
    pub(crate) fn at(path: PathBuf, binary: Binary) -> Elf {
        Elf {
            path: Some(path),
            ..Elf::of(binary)
        }
    }

    /// Where it is, if it is a file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The file that has debug information which this one shares with others: `find` looks for it
    /// the first time.
    pub(crate) fn supplement(&self, find: impl FnOnce() -> Option<Elf>) -> Option<&Elf> {
        let found = self.supplement.get_or_init(|| find().map(Box::new));
        found.as_deref()
    }

    /// The image, for those who look for functions.
    pub(crate) fn binary(&self) -> &Binary {
        &self.binary
    }

    /// The build id in lower-case hex.
    pub(crate) fn build_id(&self) -> Option<&str> {
        self.binary.build_id()
    }

    /// Bytes from a virtual address on: at least 4096, if its segment has as many in the file.
    pub(crate) fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.binary.bytes(address)
    }

    /// As [`Elf::bytes`], but enough for an instruction alone.
    pub(crate) fn few_bytes(&self, address: u64) -> Option<&[u8]> {
        self.binary.few_bytes(address)
    }

    /// A section's bytes, unpacked.
    pub(crate) fn section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.binary.section(name)
    }

    /// Whether there is a section of that name.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        self.parsed(|file| file.section_by_name(name).is_some())
    }

    /// The addresses of all PLT stubs, and maybe more.
    pub(crate) fn stub_sections(&self) -> Vec<(u64, u64)> {
        self.parsed(|file| {
            let named = |section: &object::Section<'_, '_, _>| {
                let name = section.name().unwrap_or_default();
                name.contains("plt")
            };
            let stubs = file.sections().filter(named);
            let range = |section: object::Section<'_, '_, _>| {
                let start = section.address();
                (start, start.saturating_add(section.size()))
            };
            stubs.map(range).collect()
        })
    }

    /// The function range around an address by the unwind table.
    pub(crate) fn frame(&self, address: u64) -> Option<(u64, u64)> {
        fenced(|| self.binary.frame(address)).flatten()
    }

    /// The name by which other images ask for this one (`DT_SONAME`), if it is one that a report
    /// can show: short, of one word and without a folder.
    pub(crate) fn soname(&self) -> Option<String> {
        let name = self.parsed(|file| match file {
            object::File::Elf32(file) => soname(file),
            object::File::Elf64(file) => soname(file),
            _ => None,
        })?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'!';
        let fits = (1..=MAX_SONAME).contains(&name.len()) && name.bytes().all(is_plain);
        fits.then_some(name)
    }

    fn slots(&self) -> &BTreeMap<u64, String> {
        self.slots.get_or_init(|| self.parsed(slots))
    }

    /// What `read` finds in the file, nothing if it fails at it.
    fn parsed<'a, T: Default>(&'a self, read: impl Fn(&object::File<'a, Pieces<'a>>) -> T) -> T {
        let parse = || Some(read(&self.binary.parsed()?));
        fenced(parse).flatten().unwrap_or_default()
    }

    /// The PLT stub around an address: its start, end, and the symbol it leads to, mangled.
    pub(crate) fn plt(&self, address: u64) -> Option<(u64, u64, &str)> {
        if !self.binary.is_64() {
            return None;
        }
        // Stubs are 16 bytes long or 8; of two short ones side by side, each stands for itself.
        let long = address & !15;
        if self.few_bytes(long).is_some_and(has_no_jump) {
            return None;
        }
        let second = self.plt_of_size(long + 8, 8);
        if address >= long + 8 && second.is_some() {
            return second;
        }
        let size = if second.is_some() { 8 } else { 16 };
        self.plt_of_size(long, size)
            .or_else(|| self.plt_of_size(address & !7, 8))
    }

    /// The stub of this size that begins at `start`, as [`Elf::plt`] has it.
    fn plt_of_size(&self, start: u64, size: u64) -> Option<(u64, u64, &str)> {
        let slot = self.stub_slot(start, size)?;
        let name = self.slots().get(&slot)?;
        Some((start, start.checked_add(size)?, name.as_str()))
    }

    /// The slot that `[endbr64] jmp [rip+slot]` at `start` jumps through.
    fn stub_slot(&self, start: u64, size: u64) -> Option<u64> {
        let bytes = self.few_bytes(start)?;
        let bytes = bytes.get(..bytes.len().min(usize::try_from(size).ok()?))?;
        instructions::slot_of_stub(bytes, start)
    }

    /// The functions that the image offers to others under their mangled names, with their
    /// addresses. An indirect one, whose implementation is chosen when it is
    /// bound, has none.
    pub(crate) fn exported(&self) -> Vec<(String, Option<u64>)> {
        self.parsed(|file| match file {
            object::File::Elf32(file) => exported(file),
            object::File::Elf64(file) => exported(file),
            _ => None,
        })
        .unwrap_or_default()
    }
}

/// Whether no stub can be within 16 bytes from here on: no jump through a word is. Most code is
/// told from stubs by that.
fn has_no_jump(bytes: &[u8]) -> bool {
    const LONG: usize = 16;
    let bytes = bytes.get(..LONG).unwrap_or(bytes);
    let is_jump = |pair: &[u8]| matches!(pair, [0xff, 0x25 | 0x2d]);
    !bytes.windows(2).any(is_jump)
}

fn soname<'a, Header: FileHeader>(file: &ElfFile<'a, Header, Pieces<'a>>) -> Option<String> {
    let table = file.elf_dynamic_table().ok()?;
    let entry = table
        .iter()
        .find(|entry| entry.tag == object::elf::DT_SONAME)?;
    String::from_utf8(table.string(entry).ok()?.to_vec()).ok()
}

/// See [`Elf::exported`]. Names are cut out of their section, which is read once.
fn exported<'a, Header: FileHeader>(
    file: &ElfFile<'a, Header, Pieces<'a>>,
) -> Option<Vec<(String, Option<u64>)>> {
    let endian = file.endian();
    let table = file.elf_dynamic_symbol_table();
    let strings = file
        .elf_section_table()
        .section(table.string_section())
        .ok()?;
    let strings = strings.data(endian, file.data()).ok()?;
    let name = |symbol: &Header::Sym| {
        let from = usize::try_from(symbol.st_name(endian)).ok()?;
        let bytes = strings.get(from..)?.split(|byte| *byte == 0).next()?;
        String::from_utf8(bytes.to_vec()).ok()
    };
    let offered = |symbol: &Header::Sym| {
        let address = match symbol.st_type() {
            object::elf::STT_FUNC => Some(symbol.st_value(endian).into()),
            object::elf::STT_GNU_IFUNC => None,
            _ => return None,
        };
        let is_offered = !symbol.is_local() && symbol.is_definition(endian, table.strings());
        is_offered.then(|| Some((name(symbol)?, address)))?
    };
    Some(table.symbols().iter().filter_map(offered).collect())
}

/// The running kernel's vdso.
pub(crate) fn own_vdso() -> Option<Elf> {
    Elf::parse(vdso_bytes()?).ok()
}

fn vdso_bytes() -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;

    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let size = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    let mut data = vec![0; usize::try_from(size.min(1 << 20)).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut data, start)
        .ok()?;
    Some(data)
}

fn slots<'a>(file: &object::File<'a, Pieces<'a>>) -> BTreeMap<u64, String> {
    let mut slots = BTreeMap::new();
    let (Some(relocations), Some(table)) =
        (file.dynamic_relocations(), file.dynamic_symbol_table())
    else {
        return slots;
    };
    for (slot, relocation) in relocations {
        let object::RelocationTarget::Symbol(index) = relocation.target() else {
            continue;
        };
        let Ok(symbol) = object::ObjectSymbolTable::symbol_by_index(&table, index) else {
            continue;
        };
        if let Ok(name) = symbol.name()
            && !name.is_empty()
        {
            slots.insert(slot, name.to_owned());
        }
    }
    slots
}

/// A name as its programmer wrote it.
pub(crate) fn demangle(name: &str) -> String {
    // Very long manglings expand without bound; nobody reads them either.
    if name.len() > 4096 {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    name.to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
