//! Mappings of one process: what lies at an address, and whether it can have been written.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use interpreter::BaseWriters;
use sampler::{Mmap, MmapIdentity, Pid};

use crate::elf::Segment;
use crate::grants::Grants;
use crate::images::{Identity, ImageId, Images};
use crate::memory::Room;
use crate::procfs::MapsLine;
use crate::views::Views;

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_PRIVATE: u32 = 2;
const PAGE: u64 = 4096;

/// One mapping of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// File offset of `start`.
    pub(crate) offset: u64,
    pub(crate) image: ImageId,
    pub(crate) executable: bool,
    /// Private, not writable now, and at no time since these file pages were mapped here.
    pub(crate) never_writable: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// What is written is seen by whoever else has it mapped, in this process, too.
    pub(crate) shared: bool,
    /// Of a file that may be a device.
    pub(crate) special: bool,
    /// Others may write it: another process, or the kernel while the program runs.
    pub(crate) exposed: bool,
    kind: MappingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappingKind {
    File,
    Vdso,
    Anon,
}

impl Mapping {
    /// Where the kernel's image lies: the upper half of all addresses, with `text` as its address
    /// zero.
    pub(crate) fn of_kernel(image: ImageId, text: u64) -> Self {
        let start = 1 << 63;
        Self {
            start,
            end: u64::MAX,
            offset: start.wrapping_sub(text),
            image,
            executable: true,
            never_writable: false,
            readable: true,
            writable: true,
            shared: false,
            special: false,
            exposed: true,
            kind: MappingKind::File,
        }
    }

    /// What to add to an ELF virtual address of this mapping's segment to get the process
    /// address (wrapping); `None` if the mapping shows no segment of the image.
    pub(crate) fn bias(&self, segments: &[Segment]) -> Option<u64> {
        if self.kind == MappingKind::Anon {
            return None;
        }
        // Segments may share a page of the file; then the access rights tell which is meant.
        let covers = |s: &&Segment| {
            let first = s.offset & !(PAGE - 1);
            let end = s.offset.saturating_add(s.file_size);
            self.offset >= first && self.offset < end
        };
        let segment = segments
            .iter()
            .filter(covers)
            .find(|s| s.executable == self.executable && s.writable == self.writable)
            .or_else(|| segments.iter().find(covers))?;
        // start = bias + segment.address + (offset - segment.offset)
        Some(
            self.start
                .wrapping_sub(self.offset)
                .wrapping_add(segment.offset)
                .wrapping_sub(segment.address),
        )
    }

    /// Whether code may be made here at run time: memory without a file, or a file that others may
    /// write through.
    pub(crate) fn may_be_generated(&self, images: &Images) -> bool {
        self.executable && (self.is_anon() || images.is_shared(self.image))
    }

    /// This mapping as one of code that was made at run time, of that image.
    pub(crate) fn generated(self, image: ImageId) -> Self {
        Self {
            image,
            offset: 0,
            kind: MappingKind::Anon,
            never_writable: false,
            ..self
        }
    }

    /// The part of memory without a file that lies between these addresses.
    pub(crate) fn part(self, start: u64, end: u64) -> Self {
        Self {
            start: self.start.max(start),
            end: self.end.min(end),
            ..self
        }
    }

    /// This mapping as one of a file's pages that were moved to other memory, where `before` lay.
    pub(crate) fn moved(self, before: &Self) -> Self {
        Self {
            image: before.image,
            offset: before
                .offset
                .wrapping_add(self.start.wrapping_sub(before.start)),
            kind: MappingKind::File,
            never_writable: false,
            ..self
        }
    }

    /// Whether it may be written now.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether it shows a program's file.
    pub(crate) fn is_file(&self) -> bool {
        self.kind == MappingKind::File
    }

    /// Whether this is memory without a file.
    pub(crate) fn is_anon(&self) -> bool {
        self.kind == MappingKind::Anon
    }

    /// Whether this is data without a file, with these rights.
    fn is_data(&self, rights: Rights) -> bool {
        let own = (self.readable, self.writable);
        self.is_anon() && !self.executable && !self.special && own == rights
    }
}

/// Whether data can be read, and written.
pub(crate) type Rights = (bool, bool);

/// A mapping, and what is to be added to an address of its image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) mapping: Mapping,
    pub(crate) bias: u64,
}

impl Spot {
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.mapping.start..self.mapping.end).contains(&address)
    }
}

/// The mappings of one process, shared by forked processes until one of them changes.
#[derive(Clone, Debug)]
pub(crate) struct Maps {
    tree: Arc<Tree>,
    /// What may be mapped twice, or not at all.
    views: Views,
    /// The code of the last sample: that of the next is mostly there, too.
    spot: Cell<Option<Spot>>,
    /// What samples may access, for as long as nothing changes.
    grants: Grants,
    /// What was found out about the code that was mapped, and what that depends on.
    pub(crate) bases: Cell<Option<(u32, BaseWriters)>>,
}

/// Mappings by their start, which take their part of the room for all.
#[derive(Debug)]
struct Tree {
    mappings: BTreeMap<u64, Mapping>,
    room: Room,
    /// Some had no room.
    incomplete: bool,
    /// Where something shared was mapped, or may be yet.
    shared: Vec<Range<u64>>,
    /// Something shared was mapped, which may lie elsewhere by now.
    has_shared: bool,
    /// What code was mapped at any time.
    code: CodeSeen,
}

/// Ranges of shared memory that are told apart in one process.
const SHARED_RANGES: usize = 32;

/// The code that was mapped in one process since it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct CodeSeen {
    /// What is as the files have it.
    pub(crate) of_files: Vec<CodeOfFile>,
    /// Some was of no file, or could be written.
    pub(crate) has_other: bool,
}

/// Code as it was mapped from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeOfFile {
    pub(crate) image: ImageId,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// File offset of `start`.
    pub(crate) offset: u64,
}

/// Mappings of code that are told apart in one process.
const CODE_SEEN: usize = 2048;

impl CodeSeen {
    fn add(&mut self, mapping: &Mapping) {
        // The kernel's page of old system calls is at the end of the upper half.
        if !mapping.executable || mapping.start >> 63 != 0 {
            return;
        }
        let is_file = mapping.never_writable && !mapping.is_anon();
        let code = CodeOfFile {
            image: mapping.image,
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
        };
        if is_file && self.of_files.contains(&code) {
            return;
        }
        let is_known = is_file && self.of_files.len() < CODE_SEEN;
        self.has_other |= !is_known;
        if is_known {
            self.of_files.push(code);
        }
    }
}

impl Clone for Tree {
    fn clone(&self) -> Self {
        self.room.take(self.mappings.len());
        Self {
            mappings: self.mappings.clone(),
            room: self.room.clone(),
            incomplete: self.incomplete,
            shared: self.shared.clone(),
            has_shared: self.has_shared,
            code: self.code.clone(),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.room.leave(self.mappings.len());
    }
}

/// Bytes that a mapping takes: the nodes of a tree are two thirds full on the average.
pub(crate) const MAPPING_BYTES: usize = (size_of::<Mapping>() + size_of::<u64>()) * 3 / 2;

impl Maps {
    /// No mappings yet, and so much room for them and those of others.
    pub(crate) fn new(room: &Room) -> Self {
        let tree = Tree {
            mappings: BTreeMap::new(),
            room: room.clone(),
            incomplete: false,
            shared: Vec::new(),
            has_shared: false,
            code: CodeSeen::default(),
        };
        Self {
            tree: Arc::new(tree),
            views: Views::default(),
            spot: Cell::new(None),
            grants: Grants::default(),
            bases: Cell::new(None),
        }
    }

    /// What was [remembered](Self::remember), unless the mappings have changed since.
    pub(crate) fn remembered(&self) -> Option<Spot> {
        self.spot.get()
    }

    /// Keeps one of the mappings with a bias that will not be another one.
    pub(crate) fn remember(&self, spot: Spot) {
        self.spot.set(Some(spot));
    }

    /// The mapping around an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.tree.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// The mappings of a process that is forked: the kernel has not been asked about it.
    pub(crate) fn forked(&self) -> Self {
        let maps = self.clone();
        maps.grants.forget();
        maps
    }

    /// Enters a mapping; what it covers of older ones is gone. Without room for it, nothing is known
    /// of its addresses any more, and `false` is returned.
    pub(crate) fn insert(&mut self, new: Mapping) -> bool {
        // Much memory is mapped, given back and mapped again.
        if new.start >= new.end || self.tree.mappings.get(&new.start) == Some(&new) {
            return true;
        }
        self.spot.set(None);
        self.grants.forget();
        if new.executable {
            self.bases.set(None);
        }
        let tree = Arc::make_mut(&mut self.tree);
        let before = tree.mappings.len();
        let mut new = clear(&mut tree.mappings, new);
        tree.code.add(&new);
        tree.has_shared |= new.shared;
        if new.exposed && tree.shared.len() < SHARED_RANGES {
            tree.shared.push(new.start..new.end);
        } else if new.exposed {
            tree.shared[0] = 0..u64::MAX;
        }
        if tree.room.is_full() {
            tree.incomplete = true;
        } else {
            // What is not known of may have been writable here.
            new.never_writable &= !tree.incomplete;
            tree.mappings.insert(new.start, new);
        }
        tree.room.leave(before);
        tree.room.take(tree.mappings.len());
        tree.mappings.contains_key(&new.start)
    }

    /// Whether nothing but data without a file, and with these rights, is known between these
    /// addresses.
    pub(crate) fn has_only_data(&self, start: u64, end: u64, rights: Rights) -> bool {
        let before = self.tree.mappings.range(..end).rev().map(|(_, old)| old);
        let mut overlapped = before.take_while(|old| old.end > start);
        overlapped.all(|old| old.is_data(rights))
    }

    /// Whether all that is known between these addresses is one mapping of data without a file, and
    /// with these rights. One more of that kind says nothing new.
    pub(crate) fn is_data(&self, start: u64, end: u64, rights: Rights) -> bool {
        let mapping = self.find(start);
        mapping.is_some_and(|mapping| end <= mapping.end && mapping.is_data(rights))
    }

    /// The addresses around one, which no mapping is known at, up to the next mappings.
    pub(crate) fn gap(&self, address: u64) -> (u64, u64) {
        let before = self.tree.mappings.range(..=address).next_back();
        let behind = self.tree.mappings.range(address..).next();
        (
            before.map_or(0, |(_, mapping)| mapping.end),
            behind.map_or(u64::MAX, |(start, _)| *start),
        )
    }

    /// What may be mapped twice, or not at all.
    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// The same, to be changed.
    pub(crate) fn views_mut(&mut self) -> &mut Views {
        self.grants.forget();
        &mut self.views
    }

    /// What samples may access, for as long as nothing changes.
    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether some mapping is not known of, or may have changed without notice.
    pub(crate) fn is_unsure(&self) -> bool {
        self.views.unsure || self.tree.incomplete
    }

    /// Whether memory may be mapped at two addresses, one of which can be written.
    pub(crate) fn may_have_views(&self) -> bool {
        self.views.shared || self.is_unsure()
    }

    /// Whether something was mapped that may be a device.
    pub(crate) fn has_special(&self) -> bool {
        self.tree.incomplete || self.tree.mappings.values().any(|mapping| mapping.special)
    }

    /// Whether somebody else may write at an address although only one thread uses this address
    /// space.
    pub(crate) fn may_be_shared(&self, address: u64) -> bool {
        let mut shared = self.tree.shared.iter();
        self.tree.incomplete || shared.any(|range| range.contains(&address))
    }

    /// Whether something shared was mapped: nothing tells where it was moved to since.
    pub(crate) fn has_shared(&self) -> bool {
        self.tree.has_shared || self.is_unsure()
    }

    /// Whether private pages of a file lie there that is no program's: what others write to the file
    /// shows in those that were not written here. (A program's file is not written while it runs.)
    pub(crate) fn is_data_file(&self, address: u64) -> bool {
        let Some(mapping) = self.find(address).filter(|mapping| mapping.is_file()) else {
            return false;
        };
        let mut code = self.tree.code.of_files.iter();
        !mapping.executable && !code.any(|code| code.image == mapping.image)
    }

    /// The code that was mapped at any time; `None` if some of it may not be known.
    pub(crate) fn code_seen(&self) -> Option<&CodeSeen> {
        (!self.tree.incomplete).then_some(&self.tree.code)
    }

    /// The images that are mapped.
    pub(crate) fn images(&self) -> impl Iterator<Item = ImageId> {
        self.tree.mappings.values().map(|mapping| mapping.image)
    }

    /// Bytes that it holds, of which forked processes have their share each.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.mappings.len() * MAPPING_BYTES / Arc::strong_count(&self.tree)
    }

    /// Number of mappings.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tree.mappings.len()
    }
}

/// Takes away what a new mapping covers; returns the new one with what is known of its pages from
/// before.
fn clear(maps: &mut BTreeMap<u64, Mapping>, mut new: Mapping) -> Mapping {
    let mut overlapped: Vec<Mapping> = maps
        .range(..new.end)
        .rev()
        .map(|(_, m)| *m)
        .take_while(|m| m.end > new.start)
        .collect();
    // (Mappings never overlap one another, so the walk from the right may stop there.)
    for old in overlapped.drain(..) {
        maps.remove(&old.start);
        // The same file pages at the same place: a change of rights, not a new mapping, so
        // what was writable before may have been written.
        let same_pages = old.image == new.image
            && old.kind == new.kind
            && old.start.wrapping_sub(old.offset) == new.start.wrapping_sub(new.offset);
        if same_pages && !old.never_writable {
            new.never_writable = false;
        }
        if old.start < new.start {
            maps.insert(
                old.start,
                Mapping {
                    end: new.start,
                    ..old
                },
            );
        }
        if old.end > new.end {
            let offset = old.offset.wrapping_add(new.end - old.start);
            maps.insert(
                new.end,
                Mapping {
                    start: new.end,
                    offset,
                    ..old
                },
            );
        }
    }
    new
}

/// The rights that a record tells of.
pub(crate) fn rights(mmap: &Mmap) -> Rights {
    (mmap.prot & PROT_READ != 0, mmap.writable())
}

/// Whether what was mapped is data without a file.
pub(crate) fn is_data(mmap: &Mmap) -> bool {
    if mmap.executable() {
        return false;
    }
    // Most is called so.
    if matches!(mmap.path.as_os_str().as_bytes(), b"[heap]" | b"//anon") {
        return true;
    }
    let path = mmap.path.to_string_lossy();
    is_anon(&path) && is_regular(&path)
}

/// Whether what was mapped is the heap that `brk` moves the end of.
pub(crate) fn is_heap(mmap: &Mmap) -> bool {
    mmap.path.as_os_str().as_bytes() == b"[heap]"
}

fn is_anon(path: &str) -> bool {
    path != "[vdso]" && (!path.starts_with('/') || path.starts_with("//"))
}

/// From PERF_RECORD_MMAP2.
pub(crate) fn mapping_of_record(mmap: &Mmap, images: &mut Images) -> Mapping {
    let path = mmap.path.to_string_lossy();
    let (identity, kind) = match &mmap.identity {
        _ if is_anon(&path) => (Identity::Anon, MappingKind::Anon),
        _ if path == "[vdso]" => (Identity::Vdso, MappingKind::Vdso),
        MmapIdentity::BuildId(id) => (Identity::BuildId(id.clone()), MappingKind::File),
        MmapIdentity::Content(id) => (Identity::Content(id.clone()), MappingKind::File),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            ..
        } if mmap.shared() => (
            Identity::Shared {
                major: *major,
                minor: *minor,
                inode: *inode,
            },
            MappingKind::File,
        ),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => (
            Identity::Inode {
                major: *major,
                minor: *minor,
                inode: *inode,
                generation: *generation,
            },
            MappingKind::File,
        ),
    };
    let image = images.intern(identity, image_path(&path, kind));
    images.mapped(image, mmap.time);
    let private = mmap.flags & MAP_PRIVATE != 0 || kind == MappingKind::Vdso;
    let writable = mmap.prot & PROT_WRITE != 0;
    Mapping {
        start: mmap.address,
        end: mmap.address.saturating_add(mmap.len),
        offset: if kind == MappingKind::File {
            mmap.offset
        } else {
            0
        },
        image,
        executable: mmap.prot & PROT_EXEC != 0,
        never_writable: private && !writable,
        readable: mmap.prot & PROT_READ != 0,
        writable,
        shared: mmap.shared(),
        special: !is_regular(&path),
        exposed: !private || is_kernels(&path),
        kind,
    }
}

/// From a line of `/proc/PID/maps`.
pub(crate) fn mapping_of_line(pid: Option<Pid>, line: &MapsLine, images: &mut Images) -> Mapping {
    let kind = match line.path.as_str() {
        "[vdso]" => MappingKind::Vdso,
        path if path.starts_with('/') && line.inode != 0 => MappingKind::File,
        _ => MappingKind::Anon,
    };
    let identity = match kind {
        MappingKind::Vdso => Identity::Vdso,
        MappingKind::Anon => Identity::Anon,
        MappingKind::File => images.identity_of_mapped(pid, line),
    };
    let image = images.intern(identity, image_path(&line.path, kind));
    Mapping {
        start: line.start,
        end: line.end,
        offset: if kind == MappingKind::File {
            line.offset
        } else {
            0
        },
        image,
        executable: line.executable,
        never_writable: !line.shared && !line.writable,
        readable: line.readable,
        writable: line.writable,
        shared: line.shared,
        special: !is_regular(&line.path),
        exposed: line.shared || is_kernels(&line.path),
        kind,
    }
}

/// Whether the kernel writes there while the program runs: the clock's data.
fn is_kernels(path: &str) -> bool {
    path.starts_with("[vvar")
}

/// Whether a path of a mapping can only be that of memory or of a regular file.
fn is_regular(path: &str) -> bool {
    if path.starts_with("/dev/") {
        let memory = ["/dev/shm/", "/dev/zero", "/dev/hugepages/"];
        return memory.iter().any(|prefix| path.starts_with(prefix));
    }
    let devices = ["/sys/", "/proc/", "anon_inode:", "socket:"];
    !devices.iter().any(|prefix| path.starts_with(prefix))
}

fn image_path(path: &str, kind: MappingKind) -> &str {
    match kind {
        MappingKind::File => path.strip_suffix(" (deleted)").unwrap_or(path),
        MappingKind::Vdso => "[vdso]",
        MappingKind::Anon => "[anon]",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const IMAGE: ImageId = ImageId(0);

    pub(crate) fn mapping(start: u64, end: u64, offset: u64, writable: bool) -> Mapping {
        Mapping {
            start,
            end,
            offset,
            image: IMAGE,
            executable: false,
            never_writable: !writable,
            readable: true,
            writable,
            shared: false,
            special: false,
            exposed: false,
            kind: MappingKind::File,
        }
    }

    /// A mapping in the middle of another leaves both of its ends, with their file offsets.
    #[test]
    fn splits_what_it_covers() {
        let mut maps = Maps::new(&Room::new(100));
        maps.insert(mapping(0x1000, 0x9000, 0, false));
        maps.insert(mapping(0x3000, 0x5000, 0x10_000, false));
        assert_eq!(maps.len(), 3);
        assert_eq!(maps.find(0x2fff).map(|m| m.offset), Some(0));
        assert_eq!(maps.find(0x3000).map(|m| m.offset), Some(0x10_000));
        assert_eq!(
            maps.find(0x5000).map(|m| (m.start, m.offset)),
            Some((0x5000, 0x4000))
        );
        assert!(maps.find(0x9000).is_none() && maps.find(0xfff).is_none());
    }

    /// What was shared once may be so yet; code that was mapped once is remembered, and whether some
    /// of it was of no file.
    #[test]
    fn what_was_mapped_is_remembered() {
        let mut maps = Maps::new(&Room::new(100));
        let shared = Mapping {
            exposed: true,
            ..mapping(0x1000, 0x3000, 0, true)
        };
        maps.insert(shared);
        maps.insert(mapping(0x2000, 0x4000, 0, true));
        assert!(maps.may_be_shared(0x1000) && maps.may_be_shared(0x2fff));
        assert!(!maps.may_be_shared(0x3000));
        let code = |start: u64, writable| Mapping {
            executable: true,
            ..mapping(start, start + 0x1000, 0x5000, writable)
        };
        maps.insert(code(0x8000, false));
        maps.insert(mapping(0x8000, 0x9000, 0, true));
        let seen = maps.code_seen().cloned().unwrap_or_default();
        assert!(seen.of_files.len() == 1 && !seen.has_other);
        assert_eq!(
            (seen.of_files[0].start, seen.of_files[0].offset),
            (0x8000, 0x5000)
        );
        maps.bases.set(Some((0, BaseWriters::default())));
        maps.insert(code(0xa000, true));
        assert!(maps.bases.get().is_none());
        assert!(maps.code_seen().is_some_and(|code| code.has_other));
    }

    /// So many ranges of shared memory are told apart; with more, all may be.
    #[test]
    fn much_is_shared() {
        let mut maps = Maps::new(&Room::new(100));
        for number in 0..=SHARED_RANGES as u64 {
            assert!(!maps.may_be_shared(0x1_0000_0000));
            maps.insert(Mapping {
                exposed: true,
                ..mapping(number << 12, (number + 1) << 12, 0, true)
            });
        }
        assert!(maps.may_be_shared(0x1_0000_0000));
    }

    /// Without room for more, nothing is known of a new mapping, and not everything of what comes
    /// later; what is given up gives its room back, also where it was shared.
    #[test]
    fn no_room() {
        let room = Room::new(3);
        let mut one = Maps::new(&room);
        assert!(one.insert(mapping(0x1000, 0x2000, 0, false)));
        let mut other = one.clone();
        assert!(!room.is_full());
        assert!(one.insert(mapping(0x2000, 0x3000, 0, false)));
        assert!(!other.insert(mapping(0x2000, 0x3000, 0, false)) && other.has_special());
        assert!(other.find(0x2000).is_none() && !one.has_special());
        drop(one);
        assert!(other.insert(mapping(0x2000, 0x3000, 0, false)));
        assert!(other.find(0x2000).is_some_and(|m| !m.never_writable));
        drop(other);
        assert_eq!(room.taken(), 0);
    }

    /// A mapping over several removes those it covers whole.
    #[test]
    fn covers_several() {
        let mut maps = Maps::new(&Room::new(100));
        for start in [0x1000, 0x2000, 0x3000, 0x4000] {
            maps.insert(mapping(start, start + 0x1000, 0, false));
        }
        maps.insert(mapping(0x1800, 0x4000, 0x8000, false));
        assert_eq!(maps.len(), 3);
        assert_eq!(maps.find(0x1000).map(|m| m.end), Some(0x1800));
        assert_eq!(maps.find(0x4000).map(|m| m.end), Some(0x5000));
    }

    /// RELRO (written, then protected) and relocated text do not count as never writable, while
    /// a fresh mapping of other file pages at the place does.
    #[test]
    fn once_writable_is_remembered() {
        let mut maps = Maps::new(&Room::new(100));
        maps.insert(mapping(0x1000, 0x9000, 0, false)); // the loader reserves the whole file
        maps.insert(mapping(0x5000, 0x9000, 0x3000, true)); // its data segment
        maps.insert(mapping(0x5000, 0x6000, 0x3000, false)); // RELRO
        assert!(maps.find(0x1000).is_some_and(|m| m.never_writable));
        assert!(
            maps.find(0x5000)
                .is_some_and(|m| !m.never_writable && !m.writable)
        );
        maps.insert(mapping(0x1000, 0x2000, 0, true)); // text is relocated
        maps.insert(mapping(0x1000, 0x2000, 0, false));
        assert!(maps.find(0x1000).is_some_and(|m| !m.never_writable));
        assert!(maps.find(0x2000).is_some_and(|m| m.never_writable));
        maps.insert(mapping(0x5000, 0x6000, 0x7000, false)); // something else is mapped there
        assert!(maps.find(0x5000).is_some_and(|m| m.never_writable));
    }

    /// The load bias is right where ELF addresses and file offsets differ.
    #[test]
    fn bias_of_a_segment() {
        let segments = [
            Segment {
                address: 0,
                offset: 0,
                file_size: 0x1500,
                writable: false,
                executable: false,
            },
            Segment {
                address: 0x2500,
                offset: 0x1500,
                file_size: 0x800,
                writable: false,
                executable: true,
            },
        ];
        let mut text = mapping(0x7000_2000, 0x7000_3000, 0x1000, false);
        text.executable = true;
        assert_eq!(text.bias(&segments), Some(0x7000_0000));
        let headers = mapping(0x7000_0000, 0x7000_2000, 0, false);
        assert_eq!(headers.bias(&segments), Some(0x7000_0000));
    }

    /// Devices are told from memory that merely has a name.
    #[test]
    fn paths() {
        for path in [
            "/usr/bin/x",
            "[heap]",
            "//anon",
            "/dev/shm/a",
            "/dev/zero (deleted)",
            "",
        ] {
            assert!(is_regular(path), "{path}");
        }
        for path in [
            "/dev/mem",
            "/sys/bus/pci/x/resource0",
            "anon_inode:[perf_event]",
        ] {
            assert!(!is_regular(path), "{path}");
        }
    }
}
