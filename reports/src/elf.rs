//! One ELF image as the reports need it: its build id, code bytes by virtual
//! address, function ranges of the unwind table, and names of PLT stubs.
//!
//! Files are hostile until shown otherwise: every range is checked, and what does
//! not parse is simply not known.

mod languages;
pub(crate) mod special;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use object::SymbolIndex;
use object::read::elf::{FileHeader, Rel as _, Rela as _, SectionHeader as _, Sym as _};
use symbols::{AnyHeaders, Binary, Error, Headers, Room};

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
    /// The sections of PLT stubs.
    stubs: OnceCell<Vec<(u64, u64)>>,
    /// The file that has what this one shares with others, looked for when it is asked for.
    supplement: OnceCell<Option<Box<Elf>>>,
}

/// A PLT stub.
#[derive(Debug, Clone, Copy)]
struct Stub {
    /// First address.
    start: u64,
    /// First address behind it.
    end: u64,
    /// The word that it jumps through.
    slot: u64,
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
            stubs: OnceCell::new(),
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
        fenced(|| self.binary.has_section(name)).unwrap_or(false)
    }

    /// The addresses of all PLT stubs, and maybe more.
    pub(crate) fn stub_sections(&self) -> Vec<(u64, u64)> {
        let ranges = || self.binary.ranges(|name, _| name.contains("plt"));
        fenced(ranges).unwrap_or_default()
    }

    /// The tables of addresses that the linker fills.
    pub(crate) fn linkage_tables(&self) -> Vec<(u64, u64)> {
        let ranges = || self.binary.ranges(|name, _| name.starts_with(".got"));
        fenced(ranges).unwrap_or_default()
    }

    /// The function range around an address by the unwind table.
    pub(crate) fn frame(&self, address: u64) -> Option<(u64, u64)> {
        fenced(|| self.binary.frame(address)).flatten()
    }

    /// The name by which other images ask for this one (`DT_SONAME`), if it is one that a report
    /// can show: short, of one word and without a folder.
    pub(crate) fn soname(&self) -> Option<String> {
        let name = self.asked(|headers| match headers {
            AnyHeaders::Elf32(file) => soname(file),
            AnyHeaders::Elf64(file) => soname(file),
        })?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b'!';
        let fits = (1..=MAX_SONAME).contains(&name.len()) && name.bytes().all(is_plain);
        fits.then_some(name)
    }

    fn slots(&self) -> &BTreeMap<u64, String> {
        let read = |headers: &AnyHeaders<'_>| match headers {
            AnyHeaders::Elf32(file) => slots(file),
            AnyHeaders::Elf64(file) => slots(file),
        };
        self.slots
            .get_or_init(|| self.asked(read).unwrap_or_default())
    }

    /// What `ask` finds by the file's headers, nothing if it fails at it.
    fn asked<T>(&self, ask: impl Fn(&AnyHeaders<'_>) -> Option<T>) -> Option<T> {
        fenced(|| ask(&self.binary.headers()?)).flatten()
    }

    /// The PLT stub around an address: its start, end, and the symbol it leads to, mangled.
    pub(crate) fn plt(&self, address: u64) -> Option<(u64, u64, &str)> {
        let is_named = |stub: &Stub| self.slots().contains_key(&stub.slot);
        let stub = self.stub_that(address, &is_named)?;
        let name = self.slots().get(&stub.slot)?;
        Some((stub.start, stub.end, name.as_str()))
    }

    /// The bounds of the PLT stub around an address, also of one that leads to no symbol: a section
    /// of stubs says that it is one. Implementations that are chosen at the start of a program
    /// (`IRELATIVE`) are called so.
    pub(crate) fn stub(&self, address: u64) -> Option<(u64, u64)> {
        let is_in_section = |stub: &Stub| self.has_stubs_at(stub.start);
        let named = self.plt(address).map(|(start, end, _)| (start, end));
        let by_section = || self.stub_that(address, &is_in_section);
        named.or_else(|| by_section().map(|stub| (stub.start, stub.end)))
    }

    /// Whether an address is among PLT stubs: in one, or in what binds them.
    pub(crate) fn has_stubs_at(&self, address: u64) -> bool {
        let sections = self.stubs.get_or_init(|| {
            let is_of_stubs = |name: &str| name.starts_with(".plt") || name == ".iplt";
            fenced(|| self.binary.ranges(|name, _| is_of_stubs(name))).unwrap_or_default()
        });
        let mut sections = sections.iter();
        sections.any(|(start, end)| (*start..*end).contains(&address))
    }

    /// The stub around an address that passes a test.
    fn stub_that(&self, address: u64, test: &dyn Fn(&Stub) -> bool) -> Option<Stub> {
        if !self.binary.is_64() {
            return None;
        }
        // Stubs are 16 bytes long or 8; of two short ones side by side, each stands for itself.
        let long = address & !15;
        if self.few_bytes(long).is_some_and(has_no_jump) {
            return None;
        }
        let of_size = |start, size| self.stub_of_size(start, size).filter(test);
        let second = of_size(long + 8, 8);
        if address >= long + 8 && second.is_some() {
            return second;
        }
        let size = if second.is_some() { 8 } else { 16 };
        of_size(long, size).or_else(|| of_size(address & !7, 8))
    }

    /// The stub of this size that begins at `start`.
    fn stub_of_size(&self, start: u64, size: u64) -> Option<Stub> {
        let slot = self.stub_slot(start, size)?;
        let end = start.checked_add(size)?;
        Some(Stub { start, end, slot })
    }

    /// The slot that `[endbr64] jmp [rip+slot]` at `start` jumps through.
    fn stub_slot(&self, start: u64, size: u64) -> Option<u64> {
        let bytes = self.few_bytes(start)?;
        let bytes = bytes.get(..bytes.len().min(usize::try_from(size).ok()?))?;
        instructions::slot_of_stub(bytes, start)
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

fn soname<Header: FileHeader>(file: &Headers<'_, Header>) -> Option<String> {
    let table = file.sections.dynamic_table(file.endian, file.data).ok()?;
    let entry = table
        .iter()
        .find(|entry| entry.tag == object::elf::DT_SONAME)?;
    String::from_utf8(table.string(entry).ok()?.to_vec()).ok()
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

/// See [`Elf::slots`].
fn slots<Header: FileHeader>(file: &Headers<'_, Header>) -> Option<BTreeMap<u64, String>> {
    let (endian, data) = (file.endian, file.data);
    let dynamic = object::elf::SHT_DYNSYM;
    let symbols = file.sections.symbols(endian, data, dynamic).ok()?;
    let mut relocated: Vec<(u64, SymbolIndex)> = Vec::new();
    let of_symbols = |section: &&Header::SectionHeader| section.link(endian) == symbols.section();
    for section in file.sections.iter().filter(of_symbols) {
        if let Ok(Some((relocations, _))) = section.rela(endian, data) {
            let places = relocations.iter().filter_map(|one| {
                let symbol = one.symbol(endian, false)?;
                Some((one.r_offset(endian).into(), symbol))
            });
            relocated.extend(places);
        }
        if let Ok(Some((relocations, _))) = section.rel(endian, data) {
            let places = relocations.iter().filter_map(|one| {
                let symbol = one.symbol(endian)?;
                Some((one.r_offset(endian).into(), symbol))
            });
            relocated.extend(places);
        }
    }
    let named = relocated.into_iter().filter_map(|(slot, symbol)| {
        let name = symbols.symbol(symbol).ok()?;
        let name = name.name(endian, symbols.strings()).ok()?;
        let name = std::str::from_utf8(name).ok()?;
        (!name.is_empty()).then(|| (slot, name.to_owned()))
    });
    Some(named.collect())
}

/// A name as its programmer wrote it.
pub(crate) fn demangle(name: &str) -> String {
    // Very long manglings expand without bound; nobody reads them either.
    if name.len() > 4096 {
        return name.to_owned();
    }
    let name = &*without_unique(name);
    // Manglings have no `@`: what follows is the version of a symbol of a library.
    if let Some((own, version)) = name.split_once('@') {
        return match demangle(own) {
            text if text == own => name.to_owned(),
            text => format!("{text}@{version}"),
        };
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if let Some((words, function)) = special::thunk(name) {
        return match demangle(&function) {
            text if text == function => name.to_owned(),
            text => format!("{words}{text}"),
        };
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return special::reworded(text);
    }
    name.to_owned()
}

/// A name without what clang's `-funique-internal-linkage-names` adds to it: no copy of a function,
/// but a number of the file that it is declared in.
fn without_unique(name: &str) -> Cow<'_, str> {
    let Some((own, rest)) = name.split_once(".__uniq.") else {
        return Cow::Borrowed(name);
    };
    let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match behind.len() < rest.len() {
        true => Cow::Owned(format!("{own}{behind}")),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
pub(crate) mod tests;
