//! ELF files: whether one is the image that was mapped, and what lies in it.

use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use object::elf::{PF_W, PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadCache, ReadRef,
    SymbolKind,
};
use sampler::Pid;

use crate::images::Identity;
use crate::procfs::MapsLine;
use crate::unwind::UnwindInfo;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Tables of symbols above this are not read: nothing real is near it.
const MAX_SECTION: u64 = 256 << 20;

/// A file, of which no piece larger than [`MAX_SECTION`] is read: its own headers say how large
/// its tables are, and anybody may write those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounded<'a>(pub(crate) &'a ReadCache<File>);

impl<'a> ReadRef<'a> for Bounded<'a> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > MAX_SECTION {
            return Err(());
        }
        self.0.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

/// One loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

#[derive(Debug)]
pub(crate) enum Contents {
    File {
        file: File,
        modified: (i64, i64),
        size: u64,
    },
    Bytes(Vec<u8>),
}

/// An image whose contents could be had.
#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) contents: Contents,
    pub(crate) segments: Vec<Segment>,
    pub(crate) build_id: Option<Vec<u8>>,
}

impl Contents {
    pub(crate) fn page(&self, number: u64) -> Option<Box<[u8; PAGE]>> {
        let mut page = Box::new([0; PAGE]);
        let start = number.checked_mul(PAGE as u64)?;
        match self {
            Self::File { file, .. } => {
                let mut done = 0;
                while done < PAGE {
                    match file.read_at(&mut page[done..], start + done as u64) {
                        Ok(0) => break,
                        Ok(n) => done += n,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => return None,
                    }
                }
                // The rest of the last page is zero in memory as well.
                (done > 0).then_some(page)
            }
            Self::Bytes(bytes) => {
                let rest = bytes.get(usize::try_from(start).ok()?..)?;
                let n = rest.len().min(PAGE);
                page[..n].copy_from_slice(&rest[..n]);
                Some(page)
            }
        }
    }

    /// The unwind rules, if they take no more than so many bytes of the file.
    pub(crate) fn unwind(&self, most: u64) -> Option<UnwindInfo> {
        match self {
            Self::File { file, .. } => {
                let cache = ReadCache::new(file.try_clone().ok()?);
                unwind(Bounded(&cache), most)
            }
            Self::Bytes(bytes) => unwind(bytes.as_slice(), most),
        }
    }

    pub(crate) fn changed(&self) -> bool {
        match self {
            Self::File {
                file,
                modified,
                size,
            } => file.metadata().map_or(true, |now| {
                (now.mtime(), now.mtime_nsec()) != *modified || now.size() != *size
            }),
            Self::Bytes(_) => false,
        }
    }
}

pub(crate) enum Found {
    Elf(Box<Elf>),
    Missing,
    Wrong,
}

/// The file of an image that was first mapped at `mapped`, in wall-clock nanoseconds.
pub(crate) fn find(
    identity: &Identity,
    path: &str,
    mapped: i64,
    through: Option<(Pid, u64, u64)>,
) -> Found {
    match identity {
        Identity::Kernel | Identity::Anon | Identity::Shared { .. } => return Found::Wrong,
        Identity::Vdso => {
            return match own_vdso() {
                Some(bytes) => parse(bytes.as_slice(), None)
                    .map(|(segments, build_id)| Elf {
                        contents: Contents::Bytes(bytes.clone()),
                        segments,
                        build_id,
                    })
                    .map_or(Found::Wrong, |elf| Found::Elf(Box::new(elf))),
                None => Found::Wrong,
            };
        }
        Identity::BuildId(_) | Identity::Inode { .. } => {}
    }
    let mut candidates = Vec::new();
    if let Some((pid, start, end)) = through {
        // Exactly the file that is mapped, even if it was deleted since; privileged.
        candidates.push(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        // In the mount namespace of the process.
        candidates.push(format!("/proc/{pid}/root{}", path));
    }
    candidates.push(path.to_owned());
    let mut wrong = false;
    for candidate in candidates {
        match open(Path::new(&candidate), identity, mapped) {
            Found::Elf(elf) => return Found::Elf(elf),
            Found::Wrong => wrong = true,
            Found::Missing => {}
        }
    }
    if wrong && through.is_none() {
        Found::Wrong
    } else {
        Found::Missing
    }
}

fn open(path: &Path, identity: &Identity, mapped: i64) -> Found {
    // A path may have become a pipe or a device meanwhile: look before opening.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        _ => return Found::Missing,
    }
    let Ok(file) = File::open(path) else {
        return Found::Missing;
    };
    let Ok(metadata) = file.metadata() else {
        return Found::Missing;
    };
    if !metadata.is_file() {
        return Found::Missing;
    }
    let (Ok(other), size) = (file.try_clone(), metadata.size()) else {
        return Found::Missing;
    };
    let cache = ReadCache::new(other);
    let Some((segments, build_id)) = parse(Bounded(&cache), Some(size)) else {
        return Found::Wrong;
    };
    let same = match identity {
        Identity::BuildId(expected) => build_id.as_ref() == Some(expected),
        Identity::Inode {
            major,
            minor,
            inode,
            ..
        } => {
            // Overlay and btrfs report other devices in stat than in maps; then there is no way
            // to be sure, and the image stays closed.
            is_inode(&metadata, *major, *minor, *inode) && last_change(&metadata) <= mapped
        }
        Identity::Shared { .. } | Identity::Vdso | Identity::Kernel | Identity::Anon => false,
    };
    if !same {
        return Found::Wrong;
    }
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Found::Elf(Box::new(Elf {
        contents: Contents::File {
            file,
            modified,
            size,
        },
        segments,
        build_id,
    }))
}

/// Whether a file is the one of this device and inode.
pub(crate) fn is_inode(metadata: &Metadata, major: u32, minor: u32, inode: u64) -> bool {
    let device = metadata.dev();
    metadata.ino() == inode
        && nix::sys::stat::major(device) == u64::from(major)
        && nix::sys::stat::minor(device) == u64::from(minor)
}

/// When a file was changed last, in wall-clock nanoseconds.
pub(crate) fn last_change(metadata: &Metadata) -> i64 {
    let seconds = metadata.ctime().saturating_mul(1_000_000_000);
    seconds.saturating_add(metadata.ctime_nsec())
}

/// Build id of the file behind a line of `/proc/PID/maps`, if the file there now is that file.
pub(crate) fn build_id_of_mapped(line: &MapsLine) -> Option<Vec<u8>> {
    let metadata = fs::metadata(&line.path).ok()?;
    if !(metadata.is_file() && is_inode(&metadata, line.major, line.minor, line.inode)) {
        return None;
    }
    build_id(File::open(&line.path).ok()?)
}

/// Build id of a file, if it is an ELF file and has one.
pub(crate) fn build_id(file: File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let elf = ElfFile64::<LittleEndian, _>::parse(Bounded(&cache)).ok()?;
    let id = elf.build_id().ok().flatten()?;
    // As many bytes as the kernel would tell.
    (1..=20).contains(&id.len()).then(|| id.to_vec())
}

/// A function of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// ELF virtual address.
    pub(crate) address: u64,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) name: String,
}

/// The functions around addresses (sorted) as the file's symbol tables name them, and how many
/// bytes the tables have. Not of a file that cannot be read.
pub(crate) fn functions(file: &File, addresses: &[u64]) -> Option<(Vec<Function>, u64)> {
    let cache = ReadCache::new(file.try_clone().ok()?);
    let elf = ElfFile64::<LittleEndian, _>::parse(Bounded(&cache)).ok()?;
    let bytes = [".symtab", ".strtab", ".dynsym", ".dynstr"]
        .iter()
        .filter_map(|name| elf.section_by_name(name))
        .map(|section| section.size())
        .fold(0, u64::saturating_add);
    let table = elf.symbol_table().or_else(|| elf.dynamic_symbol_table())?;
    let functions = table
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter(|symbol| {
            let (start, size) = (symbol.address(), symbol.size());
            let first = addresses.partition_point(|address| *address < start);
            addresses.get(first).is_some_and(|at| at - start < size)
        })
        .filter_map(|symbol| {
            Some(Function {
                address: symbol.address(),
                size: symbol.size(),
                name: symbol.name().ok()?.to_owned(),
            })
        });
    Some((functions.collect(), bytes))
}

pub(crate) type Parsed = (Vec<Segment>, Option<Vec<u8>>);

/// Segments and build id of a 64-bit little-endian ELF.
pub(crate) fn parse<'data, R: ReadRef<'data>>(data: R, size: Option<u64>) -> Option<Parsed> {
    let elf = ElfFile64::<LittleEndian, R>::parse(data).ok()?;
    let endian = LittleEndian;
    let segments = elf
        .elf_program_headers()
        .iter()
        .filter(|header| header.p_type(endian) == PT_LOAD)
        .map(|header| Segment {
            address: header.p_vaddr(endian),
            offset: header.p_offset(endian),
            file_size: header.p_filesz(endian),
            writable: header.p_flags(endian).0 & PF_W.0 != 0,
            executable: header.p_flags(endian).0 & PF_X.0 != 0,
        })
        // A segment that would wrap around, or lies outside its file, is a broken file's.
        .filter(|s| {
            s.address.checked_add(s.file_size).is_some()
                && s.offset
                    .checked_add(s.file_size)
                    .is_some_and(|end| size.is_none_or(|n| end <= n))
        })
        .collect();
    let build_id = elf.build_id().ok().flatten().map(<[u8]>::to_vec);
    Some((segments, build_id))
}

/// Unwind rules of a 64-bit little-endian ELF; `None` if they take more than so many bytes, or
/// cannot be read.
fn unwind<'data, R: ReadRef<'data>>(data: R, most: u64) -> Option<UnwindInfo> {
    let elf = ElfFile64::<LittleEndian, R>::parse(data).ok()?;
    let Some(section) = elf.section_by_name(".eh_frame") else {
        return Some(UnwindInfo::default());
    };
    if section.size() > most {
        return None;
    }
    let text = elf
        .section_by_name(".text")
        .map_or(0, |section| section.address());
    let bytes = section.data().ok()?.to_vec();
    Some(UnwindInfo::new(Some((bytes, section.address())), text))
}

/// The vdso of this process, which is every process's (their time namespaces apart, whose data
/// is elsewhere).
fn own_vdso() -> Option<Vec<u8>> {
    let pid = Pid(std::process::id());
    let line = crate::procfs::maps(pid)?
        .into_iter()
        .find(|line| line.path == "[vdso]")?;
    let mut bytes = vec![0; usize::try_from(line.end.checked_sub(line.start)?).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut bytes, line.start)
        .ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function is found by any address in it, and nothing by an address in none.
    #[test]
    fn functions_around_addresses() {
        let file = File::open("/proc/self/exe").expect("own file");
        let cache = ReadCache::new(File::open("/proc/self/exe").expect("own file"));
        let elf = ElfFile64::<LittleEndian, _>::parse(Bounded(&cache)).expect("an ELF file");
        let table = elf.symbol_table().expect("symbols");
        let symbol = table
            .symbols()
            .find(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 1)
            .expect("a function");
        let (start, size) = (symbol.address(), symbol.size());
        let (found, bytes) = functions(&file, &[start + size - 1]).expect("names");
        assert!(found.iter().all(|f| f.address + f.size > start + size - 1));
        assert!(found.iter().any(|f| (f.address, f.size) == (start, size)));
        assert!(bytes > 0);
        assert_eq!(functions(&file, &[0]).expect("names").0, []);
    }

    /// What a file says of itself does not make us read more of it than is real.
    #[test]
    fn large_pieces_are_refused() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(MAX_SECTION + 2).expect("room for nothing");
        let cache = ReadCache::new(file);
        assert!(Bounded(&cache).read_bytes_at(0, MAX_SECTION + 1).is_err());
        assert!(Bounded(&cache).read_bytes_at(0, 16).is_ok());
    }

    /// Truncated and foreign files are no images, and do no harm.
    #[test]
    fn truncated_and_foreign_files() {
        let whole = fs::read("/proc/self/exe").expect("own file");
        for end in [0, 1, 16, 63, 64, 65, 200, 4096, 100_000] {
            let cut = &whole[..end.min(whole.len())];
            if let Some((segments, _)) = parse(cut, Some(cut.len() as u64)) {
                assert!(
                    segments
                        .iter()
                        .all(|s| s.offset + s.file_size <= cut.len() as u64)
                );
            }
        }
        assert!(parse(b"#!/bin/sh\necho\n".as_slice(), None).is_none());
    }
}
