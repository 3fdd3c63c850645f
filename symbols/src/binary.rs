//! One ELF image: its build id, its code by virtual address, and its sections.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use lzma_rust2::XzReader;
use object::read::elf::{FileHeader, SectionHeader as _};
use object::{Endian as _, Object as _, ObjectSection as _, ReadRef as _, elf};

use crate::frames::frames;
use crate::headers::{AnyHeaders, Error, Headers, Segment, of_either};
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

/// An image whose pieces are read when they are asked for.
#[derive(Debug)]
pub struct Binary {
    /// Shared with what names functions from it.
    source: Rc<Source>,
    is_64: bool,
    is_movable: bool,
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
        Binary::new(Source::Bytes(Rc::new(bytes)))
    }

    fn new(source: Source) -> Result<Binary, Error> {
        let (is_64, is_movable, build_id, segments) = {
            let pieces = Pieces(&source);
            let length = pieces.len().unwrap_or(0);
            let headers = AnyHeaders::read(pieces)?;
            of_either!(&headers, file => {
                if !file.endian.is_little_endian() {
                    return Err(Error::Foreign);
                }
                let is_64 = match file.header.e_machine(file.endian) {
                    elf::EM_X86_64 => true,
                    elf::EM_386 => false,
                    _ => return Err(Error::Foreign),
                };
                let is_movable = file.header.e_type(file.endian) == elf::ET_DYN;
                (is_64, is_movable, file.build_id().map(hex), file.segments(length))
            })
        };
        Ok(Binary {
            source: Rc::new(source),
            is_64,
            is_movable,
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

    /// Whether the image may be loaded at any address.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        self.is_movable
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

    /// The image, to read of it what need not be kept.
    #[must_use]
    pub fn apart(&self) -> Apart {
        Apart(self.source.apart())
    }

    /// As [`Binary::apart`], if there is a section of that name: else no symbols need be read to
    /// know that there is none.
    pub(crate) fn apart_with(&self, section: &str) -> Option<Apart> {
        self.has_section(section).then(|| self.apart())
    }

    /// The text in a range of the file up to its first zero byte, if there is one.
    #[must_use]
    pub fn text(&self, range: Range<u64>) -> Option<&str> {
        let bytes = Pieces(&self.source).read_bytes_at_until(range, 0).ok()?;
        std::str::from_utf8(bytes).ok()
    }

    /// The file's headers and sections, no symbols read.
    #[must_use]
    pub fn headers(&self) -> Option<AnyHeaders<'_>> {
        AnyHeaders::read(Pieces(&self.source)).ok()
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
        let headers = self.headers()?;
        match of_either!(&headers, file => plain_section(file, name)) {
            Some(data) => Some(Cow::Borrowed(data)),
            None => self.packed_section(name),
        }
    }

    /// A section that may be compressed, or have the name of one that is.
    fn packed_section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let apart = self.apart_with(name)?;
        let file = apart.parsed()?;
        let section = file.section_by_name(name)?;
        let packed = section.compressed_file_range().ok()?;
        // What unpacks to a thousand times its size was made to do so.
        let most = packed.compressed_size.saturating_mul(1024);
        if packed.uncompressed_size > MAX_SECTION.min(most) {
            return None;
        }
        let data = section.uncompressed_data().ok()?;
        Some(Cow::Owned(data.into_owned()))
    }

    /// Whether there is a section of that name, or the compressed one that stands for it.
    #[must_use]
    pub fn has_section(&self, name: &str) -> bool {
        let packed = name.strip_prefix(".debug_");
        let packed = packed.map(|debug| format!(".zdebug_{debug}"));
        let names = [Some(name), packed.as_deref()];
        self.headers().is_some_and(|headers| {
            let mut names = names.into_iter().flatten();
            names.any(|name| of_either!(&headers, file => file.section(name).is_some()))
        })
    }

    /// The function range around an address by the unwind table.
    #[must_use]
    pub fn frame(&self, address: u64) -> Option<(u64, u64)> {
        let (start, end) = self.frames().range(..=address).next_back()?;
        (address < *end).then_some((*start, *end))
    }

    /// Function ranges by the unwind table, start to end.
    pub(crate) fn frames(&self) -> &BTreeMap<u64, u64> {
        let read = || frames(&self.headers()?, self.section(".eh_frame")?.as_ref());
        self.frames.get_or_init(|| read().unwrap_or_default())
    }

    /// The sections that hold code, as ranges of addresses in their order.
    pub(crate) fn code_sections(&self) -> Vec<(u64, u64)> {
        let wanted = elf::SHF_EXECINSTR | elf::SHF_ALLOC;
        let mut ranges = self.ranges(|_, flags| flags & wanted == wanted);
        ranges.retain(|(start, end)| end > start);
        ranges.sort_unstable();
        ranges
    }

    /// Where those sections lie in memory that are meant by their names and flags, in the order of
    /// the file: start and end.
    pub fn ranges(&self, is_meant: impl Fn(&str, elf::SectionFlags) -> bool) -> Vec<(u64, u64)> {
        let Some(headers) = self.headers() else {
            return Vec::new();
        };
        of_either!(&headers, file => file
            .sections
            .iter()
            .filter(|section| {
                let name = file.sections.section_name(file.endian, section);
                let name = name.ok().and_then(|name| std::str::from_utf8(name).ok());
                is_meant(name.unwrap_or_default(), section.sh_flags(file.endian))
            })
            .filter_map(|section| {
                let (start, size) = file.range(section);
                Some((start, start.checked_add(size)?))
            })
            .collect())
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

/// An image whose pieces are held no longer than this: who reads whole tables of it to keep little
/// of them reads it apart.
#[derive(Debug)]
pub struct Apart(Source);

impl Apart {
    /// The file as the parsers of `object` see it, all symbols read.
    #[must_use]
    pub fn parsed(&self) -> Option<object::File<'_, Pieces<'_>>> {
        object::File::parse(Pieces(&self.0)).ok()
    }
}

/// A section's bytes as they stand in the file, unless they are compressed or too many.
fn plain_section<'a, Header: FileHeader>(
    file: &Headers<'a, Header>,
    name: &str,
) -> Option<&'a [u8]> {
    let (_, section) = file.section(name)?;
    let flags = section.sh_flags(file.endian);
    let is_plain = flags & elf::SHF_COMPRESSED != elf::SHF_COMPRESSED;
    let size: u64 = section.sh_size(file.endian).into();
    if !is_plain || size > MAX_SECTION {
        return None;
    }
    section.data(file.endian, file.data).ok()
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
