//! The loadmap: which process has what mapped where, kept from the kernel's records.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use sampler::{Mmap, MmapIdentity, Pid};

use crate::images::{Identity, ImageId, Images, Segment};
use crate::procfs::{self, Credentials, MapsLine, PageState, Pagemap};

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
    writable: bool,
    kind: MappingKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappingKind {
    File,
    Vdso,
    Anon,
}

impl Mapping {
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

    /// Whether this is memory without a file.
    pub(crate) fn is_anon(&self) -> bool {
        self.kind == MappingKind::Anon
    }
}

/// The mappings of one process, shared by forked processes until one of them changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps(Arc<BTreeMap<u64, Mapping>>);

impl Maps {
    /// The mapping around an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// Enters a mapping; what it covers of older ones is gone.
    fn insert(&mut self, mut new: Mapping) {
        if new.start >= new.end {
            return;
        }
        let maps = Arc::make_mut(&mut self.0);
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
        maps.insert(new.start, new);
    }

    /// Number of mappings.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Identifies a process between two execs for as long as the collector runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProcessId(pub(crate) u32);

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: ProcessId,
    pub(crate) pid: Pid,
    pub(crate) started: u64,
    pub(crate) execs: u32,
    pub(crate) comm: String,
    pub(crate) maps: Maps,
    /// Mapping records older than this are already in `maps`.
    as_of: u64,
    credentials: Option<Credentials>,
    /// When they were read; `None`: not since the last exec.
    credentials_at: Option<u64>,
    pub(crate) pages: Pages,
    pub(crate) exited: bool,
}

/// How old credentials may be before they are read again: a process may change them at any
/// time without a record.
const CREDENTIALS_NS: u64 = 1_000_000_000;

impl Process {
    /// Credentials as near to `now` as they can be had.
    pub(crate) fn credentials(&mut self, now: u64) -> Option<Credentials> {
        let stale = self
            .credentials_at
            .is_none_or(|at| now.saturating_sub(at) > CREDENTIALS_NS);
        if stale && !self.exited {
            if let Some(read) = procfs::credentials(self.pid) {
                self.credentials = Some(read);
            }
            self.credentials_at = Some(now);
        }
        self.credentials
    }

    /// Whether the process is not dumpable, as far as that shows: its files in `/proc` then belong
    /// to root. Of root's own processes it cannot be told.
    pub(crate) fn keeps_memory_to_itself(&self) -> bool {
        self.credentials
            .is_some_and(|ids| ids.euid != 0 && ids.owner == 0)
    }

    /// The row that the database keeps of it.
    pub(crate) fn row(&self) -> profiledb::Process {
        profiledb::Process {
            pid: self.pid.0,
            started: self.started,
            execs: self.execs,
            comm: self.comm.clone(),
        }
    }
}

/// Verdicts on pages of a process: was this page ever written?
///
/// A verdict "clean" is good for samples taken before it was made. "Written" is good until the
/// page is mapped anew.
#[derive(Debug)]
pub(crate) struct Pages {
    pid: Pid,
    pagemap: Option<Pagemap>,
    failed: bool,
    verdicts: FxHashMap<u64, (PageState, u64)>,
}

/// Verdicts kept per process; emptied when full.
const MAX_VERDICTS: usize = 16_384;

impl Pages {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            pagemap: None,
            failed: false,
            verdicts: FxHashMap::default(),
        }
    }

    /// State of the page around `address` for a sample of time `time`; `now` tells the time.
    pub(crate) fn state(
        &mut self,
        address: u64,
        time: u64,
        now: impl FnOnce() -> u64,
    ) -> PageState {
        let page = address & !(PAGE - 1);
        if let Some(&(state, at)) = self.verdicts.get(&page)
            && (state == PageState::Written || at >= time)
        {
            return state;
        }
        // The time before the look: the page cannot have been written before it and be clean.
        let at = now();
        let state = self.look(page);
        if state != PageState::Unknown {
            if self.verdicts.len() >= MAX_VERDICTS {
                self.verdicts.clear();
            }
            self.verdicts.insert(page, (state, at));
        }
        state
    }

    /// Whether the page table that can be read now is still that of the sampled program, and not
    /// one that it executed since, or of another process with its pid: the page around its stack
    /// pointer, which the interrupt could read, is there, and anonymous. Each exec draws another
    /// place for the stack.
    pub(crate) fn is_same_space(&mut self, stack: u64) -> bool {
        self.look(stack & !(PAGE - 1)) == PageState::Written
    }

    fn look(&mut self, page: u64) -> PageState {
        if self.pagemap.is_none() && !self.failed {
            self.pagemap = Pagemap::open(self.pid);
            self.failed = self.pagemap.is_none();
        }
        self.pagemap
            .as_ref()
            .map_or(PageState::Unknown, |map| map.page(page))
    }

    fn forget(&mut self, start: u64, end: u64) {
        self.verdicts.retain(|&page, _| page < start || page >= end);
    }
}

/// All processes of which records came.
#[derive(Debug)]
pub(crate) struct Loadmap {
    processes: FxHashMap<Pid, Process>,
    next: u32,
    exited: usize,
    /// Processes that could not be kept for want of room.
    pub(crate) dropped: u64,
}

/// Processes kept at a time.
const MAX_PROCESSES: usize = 65_536;
/// Exited processes kept for samples that might still name them.
const MAX_EXITED: usize = 4096;

impl Loadmap {
    pub(crate) fn new() -> Self {
        Self {
            processes: FxHashMap::default(),
            next: 0,
            exited: 0,
            dropped: 0,
        }
    }

    /// The process with this pid.
    pub(crate) fn get(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.get_mut(&pid)
    }

    /// Whether all these processes have ended.
    pub(crate) fn all_exited(&self, pids: &[Pid]) -> bool {
        pids.iter()
            .all(|pid| self.processes.get(pid).is_none_or(|process| process.exited))
    }

    /// Reads a process that ran before the records began. `now` is taken before the reading.
    pub(crate) fn scan(&mut self, pid: Pid, now: u64, images: &mut Images) {
        let (Some(comm), Some(started)) = (procfs::comm(pid), procfs::start_time(pid)) else {
            return; // gone already
        };
        let mut process = self.new_process(pid, started, 0, comm);
        for line in procfs::maps(pid).unwrap_or_default() {
            process.maps.insert(mapping_of_line(&line, images));
        }
        process.as_of = now;
        self.insert(process);
    }

    fn new_process(&mut self, pid: Pid, started: u64, execs: u32, comm: String) -> Process {
        let id = ProcessId(self.next);
        self.next = self.next.wrapping_add(1);
        Process {
            id,
            pid,
            started,
            execs,
            comm,
            maps: Maps::default(),
            as_of: 0,
            credentials: None,
            credentials_at: None,
            pages: Pages::new(pid),
            exited: false,
        }
    }

    fn insert(&mut self, process: Process) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&process.pid) {
            self.dropped += 1;
            return;
        }
        if let Some(old) = self.processes.insert(process.pid, process)
            && old.exited
        {
            self.exited = self.exited.saturating_sub(1);
        }
    }

    /// A process that no record has introduced: its fork was lost, or it runs since before.
    pub(crate) fn introduce(&mut self, pid: Pid, now: u64, images: &mut Images) {
        self.scan(pid, now, images);
        if !self.processes.contains_key(&pid) {
            let process = self.new_process(pid, now, 0, String::new());
            self.insert(process);
        }
    }

    /// PERF_RECORD_FORK. Threads share everything with their process.
    pub(crate) fn fork(&mut self, pid: Pid, parent: Pid, time: u64) {
        if pid == parent {
            return;
        }
        // A process that the scan found may have been forked while the scan ran.
        if self
            .processes
            .get(&pid)
            .is_some_and(|known| !known.exited && known.as_of >= time)
        {
            return;
        }
        let mut child = self.new_process(pid, time, 0, String::new());
        if let Some(parent) = self.processes.get(&parent) {
            child.comm.clone_from(&parent.comm);
            child.maps = parent.maps.clone();
            child.credentials = parent.credentials;
            child.credentials_at = parent.credentials_at;
        }
        self.insert(child);
    }

    /// PERF_RECORD_COMM. An exec begins a new program with nothing mapped; a thread's name is
    /// not its process's.
    pub(crate) fn comm(&mut self, pid: Pid, is_leader: bool, name: &str, exec: bool, time: u64) {
        let Some(old) = self.processes.get_mut(&pid) else {
            // The command's own exec is the first that is heard of it.
            let started = procfs::start_time(pid).unwrap_or(time);
            let process = self.new_process(pid, started, 0, name.to_owned());
            self.insert(process);
            return;
        };
        if old.as_of >= time {
            return;
        }
        if exec {
            let (started, execs) = (old.started, old.execs.saturating_add(1));
            let process = self.new_process(pid, started, execs, name.to_owned());
            self.insert(process);
        } else if is_leader {
            name.clone_into(&mut old.comm);
        }
    }

    /// PERF_RECORD_EXIT of a process's leader.
    pub(crate) fn exit(&mut self, pid: Pid) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if !process.exited {
            process.exited = true;
            self.exited += 1;
        }
        if self.exited > MAX_EXITED {
            self.processes.retain(|_, process| !process.exited);
            self.exited = 0;
        }
    }

    /// PERF_RECORD_MMAP2.
    pub(crate) fn mmap(&mut self, mmap: &Mmap, images: &mut Images) {
        if !self.processes.contains_key(&mmap.pid) {
            self.introduce(mmap.pid, mmap.time, images);
        }
        let Some(process) = self.processes.get_mut(&mmap.pid) else {
            return;
        };
        if process.as_of >= mmap.time {
            return;
        }
        let mapping = mapping_of_record(mmap, images);
        process.pages.forget(mapping.start, mapping.end);
        process.maps.insert(mapping);
    }
}

fn mapping_of_record(mmap: &Mmap, images: &mut Images) -> Mapping {
    let path = mmap.path.to_string_lossy();
    let (identity, kind) = match &mmap.identity {
        _ if path == "[vdso]" => (Identity::Vdso, MappingKind::Vdso),
        _ if !path.starts_with('/') || path.starts_with("//") => {
            (Identity::Anon, MappingKind::Anon)
        }
        MmapIdentity::BuildId(id) => (Identity::BuildId(id.clone()), MappingKind::File),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            ..
        } => (
            Identity::Inode {
                major: *major,
                minor: *minor,
                inode: *inode,
            },
            MappingKind::File,
        ),
    };
    let image = images.intern(identity, image_path(&path, kind));
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
        writable,
        kind,
    }
}

fn mapping_of_line(line: &MapsLine, images: &mut Images) -> Mapping {
    let kind = match line.path.as_str() {
        "[vdso]" => MappingKind::Vdso,
        path if path.starts_with('/') && line.inode != 0 => MappingKind::File,
        _ => MappingKind::Anon,
    };
    let identity = match kind {
        MappingKind::Vdso => Identity::Vdso,
        MappingKind::Anon => Identity::Anon,
        MappingKind::File => images.identity_of_mapped(line),
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
        writable: line.writable,
        kind,
    }
}

fn image_path(path: &str, kind: MappingKind) -> &str {
    match kind {
        MappingKind::File => path.strip_suffix(" (deleted)").unwrap_or(path),
        MappingKind::Vdso => "[vdso]",
        MappingKind::Anon => "[anon]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: ImageId = ImageId(0);

    fn mapping(start: u64, end: u64, offset: u64, writable: bool) -> Mapping {
        Mapping {
            start,
            end,
            offset,
            image: IMAGE,
            executable: false,
            never_writable: !writable,
            writable,
            kind: MappingKind::File,
        }
    }

    /// A mapping in the middle of another leaves both of its ends, with their file offsets.
    #[test]
    fn splits_what_it_covers() {
        let mut maps = Maps::default();
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

    /// A mapping over several removes those it covers whole.
    #[test]
    fn covers_several() {
        let mut maps = Maps::default();
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
        let mut maps = Maps::default();
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

    /// A forked process has its parent's mappings until it execs.
    #[test]
    fn fork_and_exec() {
        let mut loadmap = Loadmap::new();
        let (parent, child) = (Pid(4_000_001), Pid(4_000_002));
        loadmap.comm(parent, true, "p", true, 1);
        let maps = &mut loadmap.get(parent).expect("parent").maps;
        maps.insert(mapping(0x1000, 0x2000, 0, false));
        loadmap.fork(child, parent, 5);
        let forked = loadmap.get(child).expect("child");
        assert_eq!((forked.comm.as_str(), forked.maps.len()), ("p", 1));
        let before = forked.id;
        loadmap.comm(child, true, "c", true, 6);
        let execed = loadmap.get(child).expect("child");
        assert_eq!(
            (execed.comm.as_str(), execed.maps.len(), execed.execs),
            ("c", 0, 1)
        );
        assert_ne!(execed.id, before);
        assert_eq!(loadmap.get(parent).expect("parent").maps.len(), 1);
    }
}
