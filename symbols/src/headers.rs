//! The headers and sections of a file, without its symbols.
//!
//! [`object::File`] reads all of a symbol table before it tells anything of a file. Most questions
//! are about sections, and the tables of large programs take longer to read than all that is asked.

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{
    FileHeader, NoteIterator, ProgramHeader as _, SectionHeader as _, SectionTable,
};
use object::{Endianness, FileKind, SectionIndex};

use crate::pieces::Pieces;

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

/// The headers of one class of files.
#[derive(Debug)]
pub struct Headers<'a, Header: FileHeader> {
    /// The order of the file's bytes.
    pub endian: Header::Endian,
    /// The file.
    pub data: Pieces<'a>,
    /// Its first header.
    pub header: &'a Header,
    /// Its sections.
    pub sections: SectionTable<'a, Header, Pieces<'a>>,
    segments: &'a [Header::ProgramHeader],
}

/// The headers of a file.
#[derive(Debug)]
pub enum AnyHeaders<'a> {
    /// Of a file with addresses of 32 bits.
    Elf32(Headers<'a, FileHeader32<Endianness>>),
    /// Of a file with addresses of 64 bits.
    Elf64(Headers<'a, FileHeader64<Endianness>>),
}

/// Asks the headers of either class the same.
macro_rules! of_either {
    ($headers:expr, $one:ident => $asked:expr) => {
        match $headers {
            $crate::headers::AnyHeaders::Elf32($one) => $asked,
            $crate::headers::AnyHeaders::Elf64($one) => $asked,
        }
    };
}
pub(crate) use of_either;

impl<'a> AnyHeaders<'a> {
    /// Whether addresses in the file have 64 bits.
    #[must_use]
    pub fn is_64(&self) -> bool {
        matches!(self, AnyHeaders::Elf64(_))
    }

    /// Reads the headers of an ELF file.
    pub(crate) fn read(data: Pieces<'a>) -> Result<AnyHeaders<'a>, Error> {
        match FileKind::parse(data).map_err(|_| Error::Malformed)? {
            FileKind::Elf32 => Headers::read(data).map(AnyHeaders::Elf32),
            FileKind::Elf64 => Headers::read(data).map(AnyHeaders::Elf64),
            _ => return Err(Error::Foreign),
        }
        .map_err(|_| Error::Malformed)
    }
}

impl<'a, Header: FileHeader> Headers<'a, Header> {
    fn read(data: Pieces<'a>) -> object::Result<Headers<'a, Header>> {
        let header = Header::parse(data)?;
        let endian = header.endian()?;
        Ok(Headers {
            endian,
            data,
            header,
            sections: header.sections(endian, data)?,
            segments: header.program_headers(endian, data)?,
        })
    }

    /// The first section of a name, with its number.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<(SectionIndex, &'a Header::SectionHeader)> {
        self.sections.section_by_name(self.endian, name.as_bytes())
    }

    /// Where a section lies in memory: its address and its size.
    #[must_use]
    pub fn range(&self, section: &Header::SectionHeader) -> (u64, u64) {
        let endian = self.endian;
        (
            section.sh_addr(endian).into(),
            section.sh_size(endian).into(),
        )
    }

    /// The build id: that of the sections, or of the segments where there are no sections.
    pub(crate) fn build_id(&self) -> Option<&'a [u8]> {
        let (endian, data) = (self.endian, self.data);
        let of_notes = |mut notes: NoteIterator<'a, Header>| {
            while let Some(note) = notes.next().ok()? {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
            None
        };
        if self.sections.is_empty() {
            let notes = self.segments.iter().map(|one| one.notes(endian, data));
            return notes.filter_map(Result::ok).flatten().find_map(of_notes);
        }
        let notes = self.sections.iter().map(|one| one.notes(endian, data));
        notes.filter_map(Result::ok).flatten().find_map(of_notes)
    }

    /// The segments that are loaded and lie in the file.
    pub(crate) fn segments(&self, length: u64) -> Vec<Segment> {
        let endian = self.endian;
        let loaded = self.segments.iter().filter_map(|segment| {
            if segment.p_type(endian) != elf::PT_LOAD {
                return None;
            }
            let (offset, file_size) = segment.file_range(endian);
            let address: u64 = segment.p_vaddr(endian).into();
            // One that would wrap around, or lies outside its file, is a broken file's.
            address.checked_add(file_size)?;
            let end = offset.checked_add(file_size)?;
            let flags = segment.p_flags(endian);
            (end <= length).then_some(Segment {
                address,
                offset,
                file_size,
                memory_size: segment.p_memsz(endian).into(),
                writable: flags & elf::PF_W == elf::PF_W,
                executable: flags & elf::PF_X == elf::PF_X,
            })
        });
        loaded.collect()
    }
}
