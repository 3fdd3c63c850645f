//! One ELF image as the reports need it: its build id, code bytes by virtual
//! address, function ranges of the unwind table, and names of PLT stubs.
//!
//! Files are hostile until shown otherwise: every range is checked, and what does
//! not parse is simply not known.

mod languages;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gimli::UnwindSection as _;
use iced_x86::{Code, Decoder, DecoderOptions, Mnemonic, OpKind, Register};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};

use crate::guard::fenced;

#[cfg(test)]
pub(crate) use self::languages::GoText;
pub(crate) use self::languages::Languages;

/// Files larger than this are not read.
const MAX_FILE: u64 = 1 << 30;

/// A loaded and parsed image.
#[derive(Debug)]
pub(crate) struct Elf {
    data: Vec<u8>,
    build_id: Option<String>,
    segments: Vec<Segment>,
    /// Function ranges from `.eh_frame`: start to end, not overlapping.
    frames: OnceCell<BTreeMap<u64, u64>>,
    /// Name of the symbol that the dynamic linker writes into a slot.
    slots: OnceCell<BTreeMap<u64, String>>,
}

#[derive(Debug)]
struct Segment {
    address: u64,
    start: usize,
    size: usize,
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    /// It is no longer there, or may not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A device, a directory, or the like.
    #[error("not a regular file")]
    NotAFile,
    /// Larger than [`MAX_FILE`], or than there is room for.
    #[error("too large to be read beside the others")]
    TooLarge,
    /// Not ELF, or broken.
    #[error("not a readable ELF file: {0}")]
    Malformed(#[from] object::Error),
    /// Code of another machine.
    #[error("not x86-64 code")]
    Foreign,
}

impl Elf {
    /// Reads and parses a file of no more than `room` bytes.
    pub(crate) fn open(path: &Path, room: u64) -> Result<Elf, ElfError> {
        // Before opening: a name in a profile may be that of a pipe or a terminal.
        let metadata = std::fs::metadata(path)?;
        // Files of the kernel's own file systems have no length, and some never end.
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(ElfError::NotAFile);
        }
        if metadata.len() > MAX_FILE.min(room) {
            return Err(ElfError::TooLarge);
        }
        let mut data = Vec::new();
        File::open(path)?
            .take(metadata.len())
            .read_to_end(&mut data)?;
        Elf::parse(data)
    }

    /// Parses the bytes of an image.
    pub(crate) fn parse(data: Vec<u8>) -> Result<Elf, ElfError> {
        let file = object::File::parse(data.as_slice())?;
        if file.format() != object::BinaryFormat::Elf
            || file.architecture() != object::Architecture::X86_64
        {
            return Err(ElfError::Foreign);
        }
        let build_id = file.build_id().ok().flatten().map(hex);
        let segments = file
            .segments()
            .filter_map(|segment| {
                let (offset, size) = segment.file_range();
                let start = usize::try_from(offset).ok()?;
                let size = usize::try_from(size).ok()?;
                data.get(start..start.checked_add(size)?)?;
                Some(Segment {
                    address: segment.address(),
                    start,
                    size,
                })
            })
            .collect();
        Ok(Elf {
            build_id,
            segments,
            frames: OnceCell::new(),
            slots: OnceCell::new(),
            data,
        })
    }

    /// The build id in lower-case hex.
    pub(crate) fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The file's bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bytes from a virtual address to the end of its segment's file part.
    pub(crate) fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            let within = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            let left = segment.size.checked_sub(within).filter(|left| *left > 0)?;
            let start = segment.start.checked_add(within)?;
            self.data.get(start..start.checked_add(left)?)
        })
    }

    fn frames(&self) -> &BTreeMap<u64, u64> {
        self.frames.get_or_init(|| self.parsed(frames))
    }

    fn slots(&self) -> &BTreeMap<u64, String> {
        self.slots.get_or_init(|| self.parsed(slots))
    }

    /// What `read` finds in the file, nothing if it fails at it.
    fn parsed<T: Default>(&self, read: impl Fn(&object::File<'_>) -> T) -> T {
        let parse = || Some(read(&object::File::parse(self.data.as_slice()).ok()?));
        fenced(parse).flatten().unwrap_or_default()
    }

    /// The function range around an address by the unwind table.
    pub(crate) fn frame(&self, address: u64) -> Option<(u64, u64)> {
        let (start, end) = self.frames().range(..=address).next_back()?;
        (address < *end).then_some((*start, *end))
    }

    /// The PLT stub around an address: its start, end, and the symbol it leads to, mangled.
    pub(crate) fn plt(&self, address: u64) -> Option<(u64, u64, &str)> {
        // Stubs are 16 bytes long or 8; of two short ones side by side, each stands for itself.
        let long = address & !15;
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
        let bytes = self.bytes(start)?;
        let bytes = bytes.get(..bytes.len().min(usize::try_from(size).ok()?))?;
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut jump = decoder.decode();
        if jump.code() == Code::Endbr64 {
            jump = decoder.decode();
        }
        let through_slot = jump.mnemonic() == Mnemonic::Jmp
            && jump.op0_kind() == OpKind::Memory
            && jump.memory_base() == Register::RIP;
        if !through_slot {
            return None;
        }
        // What follows must be what linkers put there, so that an 8-byte stub is
        // not taken for the second half of the one before it.
        if decoder.can_decode() {
            let next = decoder.decode();
            let filler = matches!(
                next.mnemonic(),
                Mnemonic::Push | Mnemonic::Nop | Mnemonic::INVALID
            );
            if !filler {
                return None;
            }
        }
        Some(jump.memory_displacement64())
    }

    /// The functions that the image offers to others under their mangled names, with their
    /// addresses. An indirect one, whose implementation is chosen when it is
    /// bound, has none.
    pub(crate) fn exported(&self) -> Vec<(String, Option<u64>)> {
        let Ok(file) = object::File::parse(self.data.as_slice()) else {
            return Vec::new();
        };
        file.dynamic_symbols()
            .filter(|symbol| symbol.is_definition() && symbol.is_global())
            .filter_map(|symbol| {
                let name = symbol.name().ok()?;
                let object::SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
                    return None;
                };
                match st_info.st_type() {
                    object::elf::STT_FUNC => Some((name.to_owned(), Some(symbol.address()))),
                    object::elf::STT_GNU_IFUNC => Some((name.to_owned(), None)),
                    _ => None,
                }
            })
            .collect()
    }

    /// Functions of the symbol tables: start, size (0 where not known), mangled name.
    pub(crate) fn symbols(&self) -> Vec<(u64, u64, String)> {
        let Ok(file) = object::File::parse(self.data.as_slice()) else {
            return Vec::new();
        };
        let mut symbols: Vec<_> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.is_definition() && symbol.kind() == object::SymbolKind::Text)
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                Some((symbol.address(), symbol.size(), name.to_owned()))
            })
            .collect();
        symbols.sort();
        symbols.dedup_by_key(|symbol| symbol.0);
        symbols
    }
}

/// Where a distribution's debug package puts the debug information of a build id.
pub(crate) fn debug_file(build_id: &str) -> Option<PathBuf> {
    if !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (head, tail) = build_id.split_at_checked(2)?;
    Some(PathBuf::from(format!(
        "/usr/lib/debug/.build-id/{head}/{tail}.debug"
    )))
    .filter(|path| !tail.is_empty() && path.is_file())
}

/// The running kernel's vdso.
pub(crate) fn own_vdso() -> Option<Elf> {
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
    Elf::parse(data).ok()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn frames(file: &object::File<'_>) -> BTreeMap<u64, u64> {
    let mut frames = BTreeMap::new();
    let Some(section) = file.section_by_name(".eh_frame") else {
        return frames;
    };
    let Ok(data) = section.data() else {
        return frames;
    };
    let address_of = |name| file.section_by_name(name).map(|section| section.address());
    let mut bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = address_of(".text") {
        bases = bases.set_text(text);
    }
    if let Some(got) = address_of(".got") {
        bases = bases.set_got(got);
    }
    let mut unwind = gimli::EhFrame::new(data, gimli::LittleEndian);
    unwind.set_address_size(8);
    let mut entries = unwind.entries(&bases);
    // Every entry consumes bytes of the section, so this ends.
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(frame) = partial.parse(gimli::EhFrame::cie_from_offset) else {
            continue;
        };
        let start = frame.initial_address();
        if let Some(end) = start.checked_add(frame.len()).filter(|end| *end > start) {
            frames.insert(start, end);
        }
    }
    frames
}

fn slots(file: &object::File<'_>) -> BTreeMap<u64, String> {
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
