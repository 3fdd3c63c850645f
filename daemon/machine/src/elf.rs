//! ELF files: whether one is the image that was mapped, and what lies in it.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use addresses::{ImageAddress, ProcessRange};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ReadCache, ReadRef};
use sampler::Pid;
pub(crate) use symbols::Segment;
use symbols::{Binary, Functions, Room};

use crate::identity::Identity;
use crate::system::procfs::{self, MapsLine};
use crate::unwind::UnwindInfo;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Pieces of a file that are held at a time take no more than this.
const MAX_PIECES: u64 = 256 << 20;
/// Tables larger than this are not read: nothing real is near it.
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

    fn read_bytes_at_until(
        self,
        range: std::ops::Range<u64>,
        delimiter: u8,
    ) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[derive(Debug)]
pub(crate) enum Contents {
    File {
        file: File,
        modified: (i64, i64),
        size: u64,
    },
    /// The bytes of a file.
    Bytes(Arc<[u8]>),
}

/// An image whose contents could be had.
#[derive(Debug)]
pub struct Elf {
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

    /// Reads from an offset; what lies behind the end is left as it is. False if it cannot be read.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        match self {
            Self::File { file, .. } => {
                let mut done = 0;
                while done < bytes.len() {
                    match file.read_at(&mut bytes[done..], offset + done as u64) {
                        Ok(0) => break,
                        Ok(n) => done += n,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => return false,
                    }
                }
                true
            }
            Self::Bytes(_) => false,
        }
    }

    /// The unwind rules, if they take no more than so many bytes of the file.
    pub(crate) fn unwind(&self, most: u64) -> Option<UnwindInfo> {
        match self {
            Self::File { file, .. } => {
                let cache = ReadCache::new(file.try_clone().ok()?);
                unwind(Bounded(&cache), most)
            }
            Self::Bytes(bytes) => unwind(&**bytes, most),
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
    through: Option<(Pid, ProcessRange)>,
) -> Found {
    match identity {
        Identity::BuildId(_) | Identity::Content(_) | Identity::Inode { .. } => {}
        Identity::Vdso => {
            let Some(bytes) = own_vdso() else {
                return Found::Wrong;
            };
            return match parse(bytes.to_vec()) {
                Some((segments, build_id)) => Found::Elf(Box::new(Elf {
                    contents: Contents::Bytes(bytes),
                    segments,
                    build_id,
                })),
                None => Found::Wrong,
            };
        }
        _ => return Found::Wrong,
    }
    let mut candidates = Vec::new();
    if let Some((pid, ProcessRange { start, end })) = through {
        // Exactly the file that is mapped, even if it was deleted since; privileged.
        candidates.push(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        // In the mount namespace of the process.
        candidates.push(format!("/proc/{pid}/root{}", path));
    }
    candidates.push(path.to_owned());
    if let Some((pid, ..)) = through {
        // The mapping may be cut otherwise by now. Looked for last: the list may be long.
        let named = |line: &MapsLine| line.path.strip_suffix(" (deleted)") == Some(path);
        candidates.extend(mapped_files(pid, named));
    }
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
    let Ok(other) = file.try_clone() else {
        return Found::Missing;
    };
    let size = metadata.size();
    let room = Room::new(MAX_PIECES);
    let Ok(binary) = Binary::of_file(other, &room) else {
        return Found::Wrong;
    };
    let build_id = binary.build_id().and_then(bytes_of_hex);
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
        Identity::Content(expected) => {
            symbols::content_id(&file).is_ok_and(|content| content == *expected)
        }
        _ => false,
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
        segments: binary.segments().to_vec(),
        build_id,
    }))
}

/// A few of the files that a process has mapped, by what names them in `/proc` even if they were
/// deleted, of the mappings that are meant.
pub(crate) fn mapped_files(pid: Pid, is_meant: impl Fn(&MapsLine) -> bool) -> Vec<String> {
    let lines = procfs::maps(pid).unwrap_or_default();
    let meant = lines.iter().filter(|line| is_meant(line)).take(4);
    let file = |line: &MapsLine| format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end);
    meant.map(file).collect()
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

/// The file behind a line of `/proc/PID/maps`, if the file there now is that file: what names it,
/// and what is known of it.
pub(crate) fn mapped_file(pid: Option<Pid>, line: &MapsLine) -> Option<(String, Metadata)> {
    let mapping = pid.map(|pid| format!("/proc/{pid}/map_files/{:x}-{:x}", line.start, line.end));
    for (path, is_mapping) in [(mapping, true), (Some(line.path.clone()), false)] {
        let Some(path) = path else { continue };
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let is_meant = is_mapping && metadata.ino() == line.inode
            || is_inode(&metadata, line.major, line.minor, line.inode);
        if metadata.is_file() && is_meant {
            return Some((path, metadata));
        }
    }
    None
}

/// What a file is known by, on any machine and for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastingIdentity {
    /// Its build id.
    BuildId(Vec<u8>),
    /// Its content id.
    Content(String),
}

/// What an ELF file is known by.
pub(crate) fn known(file: File) -> Option<LastingIdentity> {
    let other = file.try_clone().ok()?;
    let binary = Binary::of_file(other, &Room::new(MAX_PIECES)).ok()?;
    let id = binary.build_id().and_then(bytes_of_hex);
    // As many bytes as the kernel would tell.
    match id.filter(|id| (1..=20).contains(&id.len())) {
        Some(id) => Some(LastingIdentity::BuildId(id)),
        None => Some(LastingIdentity::Content(symbols::content_id(&file).ok()?)),
    }
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// A file whose functions a flush names.
#[derive(Debug)]
pub enum Named {
    /// An open file.
    File(File),
    /// The bytes of a file.
    Bytes(Arc<[u8]>),
}

/// The functions around addresses as the file's symbol tables name them, in no more memory than
/// that. Not of a file that cannot be read.
pub fn functions(
    named: &Named,
    addresses: &[ImageAddress],
    room: u64,
) -> Option<Vec<symbols::Function>> {
    let room = Room::new(room);
    let binary = match named {
        Named::File(file) => Binary::of_file(file.try_clone().ok()?, &room),
        Named::Bytes(bytes) => Binary::of_bytes(bytes.to_vec()),
    };
    let binary = binary.ok()?;
    let functions = Functions::new(&binary, None);
    let mut found: Vec<symbols::Function> = Vec::new();
    for &ImageAddress(address) in addresses {
        if found.last().is_none_or(|last| address >= last.end) {
            found.extend(functions.find(&binary, address));
        }
    }
    Some(found)
}

impl Elf {
    /// Where the file's symbol tables have functions of these names, in no more memory than that.
    pub fn named(&self, names: &[String], room: u64) -> Vec<ImageAddress> {
        let room = Room::new(room);
        let binary = match &self.contents {
            Contents::File { file, .. } => match file.try_clone() {
                Ok(file) => Binary::of_file(file, &room),
                Err(_) => return Vec::new(),
            },
            Contents::Bytes(bytes) => Binary::of_bytes(bytes.to_vec()),
        };
        let Ok(binary) = binary else {
            return Vec::new();
        };
        let mut starts: Vec<ImageAddress> = names
            .iter()
            .flat_map(|name| symbols::named(&binary, None, name, &|of| of == name.as_str()).ranges)
            .map(|(start, _)| ImageAddress(start))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }
}

pub(crate) type Parsed = (Vec<Segment>, Option<Vec<u8>>);

/// Segments and build id of an ELF image.
pub(crate) fn parse(bytes: Vec<u8>) -> Option<Parsed> {
    let binary = Binary::of_bytes(bytes).ok()?;
    let build_id = binary.build_id().and_then(bytes_of_hex);
    Some((binary.segments().to_vec(), build_id))
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
pub(crate) fn own_vdso() -> Option<Arc<[u8]>> {
    let pid = Pid(std::process::id());
    let line = crate::system::procfs::maps(pid)?
        .into_iter()
        .find(|line| line.path == "[vdso]")?;
    let mut bytes = vec![0; usize::try_from(line.end.checked_sub(line.start)?).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut bytes, line.start)
        .ok()?;
    Some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function is found by any address in it, and nothing by an address in none.
    #[test]
    fn functions_around_addresses() {
        use object::{ObjectSymbol as _, SymbolKind};

        let bytes = fs::read("/proc/self/exe").expect("own file");
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let symbol = elf
            .symbols()
            .find(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 1)
            .expect("a function");
        let (start, size) = (symbol.address(), symbol.size());
        let named = Named::File(File::open("/proc/self/exe").expect("own file"));
        let functions = |address, room| functions(&named, &[ImageAddress(address)], room);
        let found = functions(start + size - 1, u64::MAX).expect("names");
        assert!(
            found
                .iter()
                .any(|f| (f.start, f.end) == (start, start + size))
        );
        assert_eq!(functions(0, u64::MAX).expect("names"), []);
        assert!(functions(start, 1000).is_none());
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
            if let Some((segments, _)) = parse(cut.to_vec()) {
                assert!(
                    segments
                        .iter()
                        .all(|s| s.offset + s.file_size <= cut.len() as u64)
                );
            }
        }
        assert!(parse(b"#!/bin/sh\necho\n".to_vec()).is_none());
    }
}
