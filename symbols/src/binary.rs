//! One ELF image: its build id, its code by virtual address, and its sections.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use lzma_rust2::XzReader;
use object::{
    Architecture, Object, ObjectSection, ObjectSegment, ReadRef as _, SectionFlags, SegmentFlags,
};

use crate::frames::frames;
use crate::pieces::{Pieces, Room, Source};

/// Code is read in pieces of so many bytes, each so much longer that no instruction is cut.
const PIECE: u64 = 1 << 16;
const OVERLAP: u64 = 1 << 12;
/// A few bytes are read in pieces of so many, each so much longer that no instruction is cut.
const LEAF: u64 = 1 << 12;
const LEAF_OVERLAP: u64 = 1 << 5;
/// A section larger than this, unpacked, is not read.
const MAX_SECTION: u64 = 1 << 30;
/// Symbols in `.gnu_debugdata` take no more than this, unpacked.
const MAX_MINI: u64 = 128 << 20;
/// Memory for unpacking them, in KiB.
const MAX_MINI_KIB: u32 = 80 << 10;

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Virtual address.
    pub address: u64,
    /// Where the segment is in the file.
    pub offset: u64,
    /// Bytes of the segment in the file.
    pub file_size: u64,
    /// Bytes of the segment in memory.
    pub memory_size: u64,
    /// The segment may be written.
    pub writable: bool,
    /// The segment may be executed.
    pub executable: bool,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub enum Error {
    /// The file is no longer there, or may not be read.
    Io(std::io::Error),
    /// A device, a directory, or the like.
    NotAFile,
    /// The file is no ELF file, or broken.
    Malformed,
    /// Code of another machine.
    Foreign,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::NotAFile => f.write_str("not a regular file"),
            Error::Malformed => f.write_str("not a readable ELF file"),
            Error::Foreign => f.write_str("not code of this kind of machine"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// An image whose pieces are read when they are asked for.
#[derive(Debug)]
pub struct Binary {
    /// Shared with what names functions from it.
    source: Rc<Source>,
    is_64: bool,
    build_id: Option<String>,
    segments: Vec<Segment>,
    /// Function ranges from `.eh_frame`, start to end.
    frames: OnceCell<BTreeMap<u64, u64>>,
}

impl Binary {
    /// Opens a file by its path.
    ///
    /// # Errors
    /// If it is no regular file, or no ELF file of an x86 processor.
    pub fn open(path: &Path, room: &Room) -> Result<Binary, Error> {
        // Before opening: the name may be that of a pipe or a terminal.
        let metadata = std::fs::metadata(path).map_err(Error::Io)?;
        // Files of the kernel's own file systems have no length, and some never end.
        if !metadata.is_file() || metadata.len() == 0 {
            return Err(Error::NotAFile);
        }
        let file = File::open(path).map_err(Error::Io)?;
        if !file.metadata().is_ok_and(|opened| opened.is_file()) {
            return Err(Error::NotAFile);
        }
        Binary::of_file(file, room)
    }

    /// Reads an open file, whose position stays.
    ///
    /// # Errors
    /// If it is no ELF file of an x86 processor.
    pub fn of_file(file: File, room: &Room) -> Result<Binary, Error> {
        Binary::new(Source::of_file(file, room))
    }

    /// The image in these bytes.
    ///
    /// # Errors
    /// If it is no ELF file of an x86 processor.
    pub fn of_bytes(bytes: Vec<u8>) -> Result<Binary, Error> {
        Binary::new(Source::Bytes(bytes))
    }

    fn new(source: Source) -> Result<Binary, Error> {
        let (is_64, build_id, segments) = {
            let file = object::File::parse(Pieces(&source)).map_err(|_| Error::Malformed)?;
            let known = matches!(
                file.architecture(),
                Architecture::X86_64 | Architecture::I386 | Architecture::X86_64_X32
            );
            if file.format() != object::BinaryFormat::Elf || !known || !file.is_little_endian() {
                return Err(Error::Foreign);
            }
            let build_id = file.build_id().ok().flatten().map(hex);
            let is_64 = file.architecture() != Architecture::I386;
            (is_64, build_id, segments(&file, Pieces(&source)))
        };
        Ok(Binary {
            source: Rc::new(source),
            is_64,
            build_id,
            segments,
            frames: OnceCell::new(),
        })
    }

    /// Whether the file's code is that of the 64-bit mode.
    #[must_use]
    pub fn is_64(&self) -> bool {
        self.is_64
    }

    /// The build id in lower-case hex.
    #[must_use]
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The loadable segments that lie in the file.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The file as the parsers of `object` see it.
    #[must_use]
    pub fn parsed(&self) -> Option<object::File<'_, Pieces<'_>>> {
        object::File::parse(Pieces(&self.source)).ok()
    }

    /// The file, for those who keep a part of it.
    pub(crate) fn source(&self) -> &Rc<Source> {
        &self.source
    }

    /// Bytes from a virtual address on: at least 4096, if its segment has as many in the file.
    #[must_use]
    pub fn bytes(&self, address: u64) -> Option<&[u8]> {
        self.piece(address, PIECE, OVERLAP)
    }

    /// As [`Binary::bytes`], but 32 of them or more: who looks at single instructions all over a
    /// large file does not read most of it.
    #[must_use]
    pub fn few_bytes(&self, address: u64) -> Option<&[u8]> {
        self.piece(address, LEAF, LEAF_OVERLAP)
    }

    fn piece(&self, address: u64, size: u64, overlap: u64) -> Option<&[u8]> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address)?;
            let left = segment.file_size.checked_sub(within)?;
            if left == 0 {
                return None;
            }
            let first = within / size * size;
            let size = (segment.file_size - first).min(size + overlap);
            let offset = segment.offset.checked_add(first)?;
            let piece = Pieces(&self.source).read_bytes_at(offset, size).ok()?;
            piece.get(usize::try_from(within - first).ok()?..)
        })
    }

    /// A section's bytes, unpacked if they are compressed.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let file = self.parsed()?;
        let section = file.section_by_name(name)?;
        let packed = section.compressed_file_range().ok()?;
        // What unpacks to a thousand times its size was made to do so.
        let most = packed.compressed_size.saturating_mul(1024);
        if packed.uncompressed_size > MAX_SECTION.min(most) {
            return None;
        }
        section.uncompressed_data().ok()
    }

    /// The function range around an address by the unwind table.
    #[must_use]
    pub fn frame(&self, address: u64) -> Option<(u64, u64)> {
        let (start, end) = self.frames().range(..=address).next_back()?;
        (address < *end).then_some((*start, *end))
    }

    /// Function ranges by the unwind table, start to end.
    pub(crate) fn frames(&self) -> &BTreeMap<u64, u64> {
        let read = || self.parsed().map(|file| frames(&file)).unwrap_or_default();
        self.frames.get_or_init(read)
    }

    /// The sections that hold code, as ranges of addresses in their order.
    pub(crate) fn code_sections(&self) -> Vec<(u64, u64)> {
        let Some(file) = self.parsed() else {
            return Vec::new();
        };
        let mut ranges: Vec<(u64, u64)> = file
            .sections()
            .filter(|section| match section.flags() {
                SectionFlags::Elf { sh_flags, .. } => {
                    let wanted = object::elf::SHF_EXECINSTR | object::elf::SHF_ALLOC;
                    sh_flags & wanted == wanted
                }
                _ => false,
            })
            .filter_map(|section| {
                let end = section.address().checked_add(section.size())?;
                (section.size() > 0).then_some((section.address(), end))
            })
            .collect();
        ranges.sort_unstable();
        ranges
    }

    /// The image of symbols in `.gnu_debugdata`, which has functions that `.dynsym` lacks.
    pub(crate) fn mini(&self) -> Option<Binary> {
        let packed = self.section(".gnu_debugdata")?;
        let mut bytes = Vec::new();
        XzReader::new_mem_limit(packed.as_ref(), false, MAX_MINI_KIB)
            .take(MAX_MINI)
            .read_to_end(&mut bytes)
            .ok()?;
        Binary::of_bytes(bytes).ok()
    }
}

fn segments<'a>(file: &object::File<'a, Pieces<'a>>, pieces: Pieces<'a>) -> Vec<Segment> {
    let length = pieces.len().unwrap_or(0);
    let segments = file.segments().filter_map(|segment| {
        let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
            return None;
        };
        let (offset, file_size) = segment.file_range();
        let address = segment.address();
        // One that would wrap around, or lies outside its file, is a broken file's.
        address.checked_add(file_size)?;
        let end = offset.checked_add(file_size)?;
        (end <= length).then_some(Segment {
            address,
            offset,
            file_size,
            memory_size: segment.size(),
            writable: p_flags & object::elf::PF_W == object::elf::PF_W,
            executable: p_flags & object::elf::PF_X == object::elf::PF_X,
        })
    });
    segments.collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever looks at single instructions all over a file does not read the rest of it.
    #[test]
    fn few_bytes_are_few() {
        let path = std::env::current_exe().expect("a path");
        let all = 1 << 30;
        let room = Room::new(all);
        let binary = Binary::open(&path, &room).expect("an ELF file");
        let code = binary.segments().iter().find(|segment| segment.executable);
        let code = *code.expect("a segment of code");
        let before = room.left();
        let looked: Vec<u64> = (code.address..code.address + code.file_size)
            .step_by(1 << 16)
            .collect();
        for address in &looked {
            let few = binary.few_bytes(*address).expect("code");
            assert_eq!(few.get(..16), binary_at(&path, &code, *address).get(..16));
        }
        let read = before - room.left();
        assert!(looked.len() > 4, "{}", looked.len());
        assert!(
            read <= looked.len() as u64 * (LEAF + LEAF_OVERLAP),
            "{read}"
        );
    }

    fn binary_at(path: &Path, code: &Segment, address: u64) -> Vec<u8> {
        use std::os::unix::fs::FileExt as _;
        let mut bytes = vec![0; 16];
        let file = File::open(path).expect("it is there");
        let offset = code.offset + (address - code.address);
        let read = file.read_at(&mut bytes, offset).expect("it is long enough");
        bytes.truncate(read);
        bytes
    }
}
