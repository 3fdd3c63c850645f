//! The loadmap: which process has what mapped where, kept from the kernel's records.

mod moved;
mod remains;
mod sharers;
mod threads;

// Over 500 lines: every record that tells of processes and their mappings changes one table.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;

use addresses::ProcessAddress;
use rustc_hash::FxHashMap;
use sampler::{Mmap, Pid};

use crate::exceptions::{Exceptions, Notes};
use crate::generated_code::{GeneratedCode, GeneratedCodeRooms};
use crate::guards::Guards;
use crate::host::Host;
use crate::images::{ImageId, Images};
use crate::jitdump;
use crate::layout::{Layout, Stacks};
use crate::mapping::{Mapping, is_data, is_heap, rights};
use crate::maps::{MAPPING_BYTES, Maps};
use crate::signals::Signals;
use crate::system::memory::{Room, of_map};
use crate::system::pages::{MAX_ALL_VERDICTS, Pages};
use crate::system::procfs::Credentials;
use crate::vmas::{LookRooms, MAX_WATCHED, Vmas};

use self::remains::Remains;
use self::sharers::Sharers;
use self::threads::Threads;

/// Identifies a process between two execs for as long as the collector runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(pub u32);

/// A process.
#[derive(Debug)]
pub struct Process {
    /// What tells it from all others.
    pub id: ProcessId,
    pub(crate) pid: Pid,
    pub(crate) started: u64,
    pub(crate) execs: u32,
    pub(crate) comm: String,
    /// What it has mapped.
    pub maps: Maps,
    /// Mapping records older than this are already in `maps`.
    as_of: u64,
    credentials: Option<Credentials>,
    /// When they were read; `None`: not since the last exec.
    credentials_at: Option<u64>,
    pub(crate) pages: Pages,
    pub(crate) vmas: Vmas,
    pub(crate) signals: Signals,
    pub(crate) guards: Guards,
    pub(crate) exceptions: Exceptions,
    /// What was seen of the code that it makes.
    pub generated_code: GeneratedCode,
    /// Addresses on its threads' stacks.
    pub stacks: Stacks,
    /// Something was collected of it since the last flush.
    pub sampled: bool,
    /// Text of programs that anonymous memory took the place of.
    texts: Vec<Mapping>,
    threads: Threads,
    /// When its first thread ended.
    exited: Option<u64>,
    /// The same, known before that is taken notice of: what waits of the process is looked at
    /// first.
    pub ends: Option<u64>,
}

/// How old credentials may be before they are read again: a process may change them at any
/// time without a record.
const CREDENTIALS_NS: u64 = 1_000_000_000;

impl Process {
    /// What the kernel goes by.
    pub(crate) const KERNEL: Pid = Pid(0);

    /// The kernel as if it were a process in which nothing but its image is mapped; `text` is the
    /// address of `_text`.
    pub fn of_kernel(image: ImageId, text: ProcessAddress) -> Self {
        let rooms = Rooms::new(1);
        let mut process = Self::new(
            &rooms,
            ProcessId(u32::MAX),
            Self::KERNEL,
            0,
            0,
            String::new(),
        );
        process.maps.insert(Mapping::of_kernel(image, text));
        process
    }

    fn new(rooms: &Rooms, id: ProcessId, pid: Pid, started: u64, execs: u32, comm: String) -> Self {
        Self {
            id,
            pid,
            started,
            execs,
            comm,
            maps: Maps::new(&rooms.mappings),
            as_of: 0,
            credentials: None,
            credentials_at: None,
            pages: Pages::new(pid, &rooms.verdicts),
            vmas: Vmas::new(pid, &rooms.looks),
            signals: Signals::default(),
            guards: Guards::default(),
            exceptions: Exceptions::new(&rooms.exceptions),
            generated_code: GeneratedCode::new(pid, &rooms.generated_code),
            stacks: Stacks::default(),
            sampled: false,
            texts: Vec::new(),
            threads: Threads::default(),
            exited: None,
            ends: None,
        }
    }

    /// Credentials as near to `now` as they can be had.
    fn credentials(&mut self, now: u64, host: &mut Host) -> Option<Credentials> {
        let stale = self
            .credentials_at
            .is_none_or(|at| now.saturating_sub(at) > CREDENTIALS_NS);
        if stale && self.exited.is_none() {
            if let Some(read) = host.credentials(self.pid) {
                self.credentials = Some(read);
            }
            self.credentials_at = Some(now);
        }
        self.credentials
    }

    /// What it has mapped now.
    fn layout(&self) -> Layout {
        Layout::of(self.pid, &self.maps, &self.stacks)
    }

    /// Whether the process is not dumpable, as far as that shows: its files in `/proc` then belong
    /// to root. Of root's own processes it cannot be told.
    pub fn keeps_memory_to_itself(&self) -> bool {
        self.credentials
            .is_some_and(|ids| ids.euid != 0 && ids.owner == 0)
    }

    /// Whether a single thread used its memory at a time that the records have come to, as far as
    /// they and [`Loadmap::look_for_sharers`] tell.
    pub fn is_alone(&self, time: u64) -> bool {
        self.threads.are_one(time)
    }

    /// The row that the database keeps of it.
    pub fn row(&self) -> profiledb::Process {
        profiledb::Process {
            pid: self.pid.0,
            started: self.started,
            execs: self.execs,
            comm: self.comm.clone(),
        }
    }
}

/// Room for what is known of all processes together, and what tells of all of them.
#[derive(Debug)]
struct Rooms {
    mappings: Room,
    verdicts: Room,
    looks: LookRooms,
    generated_code: GeneratedCodeRooms,
    exceptions: Notes,
}

impl Rooms {
    fn new(mappings: usize) -> Self {
        Self {
            mappings: Room::new(mappings),
            verdicts: Room::new(MAX_ALL_VERDICTS),
            looks: LookRooms::new(),
            generated_code: GeneratedCodeRooms::new(),
            exceptions: Notes::default(),
        }
    }
}

/// All processes of which records came.
#[derive(Debug)]
pub struct Loadmap {
    processes: FxHashMap<Pid, Process>,
    /// Who is asked about processes.
    pub host: Host,
    next: u32,
    exited: usize,
    /// Processes that ended, in the order in which they did.
    gone: VecDeque<(u64, Pid)>,
    /// What was mapped in those that went.
    remains: Remains,
    rooms: Rooms,
    sharers: Sharers,
    /// Programs whose mappings are looked at again.
    watched: Vec<Pid>,
    /// Processes that could not be kept for want of room.
    pub dropped: u64,
    /// Mappings, likewise.
    pub mappings_dropped: u64,
}

/// Processes kept at a time.
const MAX_PROCESSES: usize = 65_536;
/// Exited processes kept for samples that might still name them, for want of knowledge whether
/// other threads of them live on.
const MAX_EXITED: usize = 4096;
/// How long a process is kept for such samples when all its threads have ended, in nanoseconds of
/// the records' clock.
const LINGER: u64 = 1_000_000_000;

impl Loadmap {
    /// With room for what is known of mappings in so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            processes: FxHashMap::default(),
            host: Host::Live,
            next: 0,
            exited: 0,
            gone: VecDeque::new(),
            remains: Remains::default(),
            rooms: Rooms::new(bytes / MAPPING_BYTES),
            sharers: Sharers::default(),
            watched: Vec::new(),
            dropped: 0,
            mappings_dropped: 0,
        }
    }

    /// Asks this handler, from now on, which accesses raise exceptions.
    pub fn ask_of_exceptions(&self, handler: sampler::Handler) {
        self.rooms.exceptions.ask(handler);
    }

    /// Which images are mapped, or were in processes that may yet be asked about, by their number.
    pub fn mapped_images(&self) -> Vec<bool> {
        let mut mapped = Vec::new();
        let processes = self.processes.values();
        let now = processes.flat_map(|process| process.maps.images());
        for image in now.chain(self.remains.images()) {
            let index = image.0 as usize;
            if index >= mapped.len() {
                mapped.resize(index + 1, false);
            }
            mapped[index] = true;
        }
        mapped
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let one = |process: &Process| {
            let seen = process.pages.bytes() + process.vmas.bytes();
            let seen = seen + process.generated_code.bytes() + process.guards.bytes();
            let seen = seen + process.stacks.bytes();
            process.comm.capacity() + process.maps.bytes() + seen
        };
        let all = of_map(&self.processes) + self.processes.values().map(one).sum::<usize>();
        all + self.remains.bytes()
    }

    /// What lies where in a process that something was collected of.
    pub fn layout(&mut self, pid: Pid, id: ProcessId) -> Option<Layout> {
        match self.processes.get(&pid).filter(|process| process.id == id) {
            Some(process) => Some(process.layout()),
            None => self.remains.take(id),
        }
    }

    /// A flush has all that was collected. Returns of how many processes what lay where in them
    /// found no room.
    pub fn begin_flush(&mut self) -> u64 {
        self.remains.clear();
        for process in self.processes.values_mut() {
            process.sampled = false;
        }
        std::mem::take(&mut self.remains.dropped)
    }

    /// The process with this pid.
    pub fn get(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.get_mut(&pid)
    }

    /// Looks again at the mappings of the programs that samples asked about of late, and says when
    /// the youngest of these was met. A recording that is written down has the answers to samples
    /// alone: what replays it has no other looks.
    pub fn look_again(&mut self) -> Option<u64> {
        for pid in self.rooms.looks.take_asked() {
            if self.watched.len() < MAX_WATCHED && !self.watched.contains(&pid) {
                self.watched.push(pid);
            }
        }
        let looks = matches!(self.host, Host::Live);
        let mut youngest = None;
        self.watched.retain(|pid| {
            let Some(process) = self.processes.get_mut(pid) else {
                return false;
            };
            let lives = process.vmas.look_again(looks);
            if lives {
                youngest = youngest.max(Some(process.vmas.met()));
            }
            lives
        });
        youngest
    }

    /// The process with this pid, and who is asked about it.
    pub fn get_and_host(&mut self, pid: Pid) -> Option<(&mut Process, &mut Host)> {
        let process = self.processes.get_mut(&pid)?;
        Some((process, &mut self.host))
    }

    /// Finds out, where that is to be known and as often as it may take the time, whether another
    /// process uses the memory of this one. [`Process::is_alone`] is no until that is known.
    pub fn look_for_sharers(&mut self, pid: Pid) {
        let process = self.processes.get_mut(&pid);
        let Some(process) = process.filter(|process| process.threads.may_be_lent()) else {
            return;
        };
        let sharers = &mut self.sharers;
        let found = self.host.sharers(pid, || sharers.look(pid));
        if let Some((false, before, behind)) = found {
            process.threads.kept(before, behind);
        }
    }

    /// Credentials of a process as near to `now` as they can be had.
    pub fn credentials(&mut self, pid: Pid, now: u64) -> Option<Credentials> {
        self.processes
            .get_mut(&pid)?
            .credentials(now, &mut self.host)
    }

    /// Whether all these processes have ended.
    pub fn all_exited(&self, pids: &[Pid]) -> bool {
        pids.iter()
            .all(|pid| self.processes.get(pid).is_none_or(|p| p.exited.is_some()))
    }

    /// Reads a process that ran before the records began. `now` is taken before the reading.
    pub fn scan(&mut self, pid: Pid, now: u64, images: &mut Images) {
        let (Some(comm), Some(started)) = (self.host.comm(pid), self.host.start_time(pid)) else {
            return; // gone already
        };
        let mut process = self.new_process(pid, started, 0, comm);
        let live = self.host.is_live().then_some(pid);
        let lines = self.host.maps(pid);
        process.maps.aliases_mut().unsure |= lines.is_none();
        for line in lines.unwrap_or_default() {
            process.maps.aliases_mut().found(&line);
            let mapping = images.mapping_of_line(live, &line);
            let mapping = moved_or_generated(mapping, &mut process, live, images, &line.path);
            let kept = process.maps.insert(mapping);
            self.mappings_dropped += u64::from(!kept);
        }
        process.as_of = now;
        let threads = self.host.threads(pid, || Threads::look(pid));
        process.threads = threads.map_or_else(Threads::default, Threads::counted);
        self.insert(process);
    }

    fn new_process(&mut self, pid: Pid, started: u64, execs: u32, comm: String) -> Process {
        let id = ProcessId(self.next);
        self.next = self.next.wrapping_add(1);
        Process::new(&self.rooms, id, pid, started, execs, comm)
    }

    fn insert(&mut self, process: Process) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&process.pid) {
            self.dropped += 1;
            return;
        }
        if let Some(old) = self.processes.insert(process.pid, process) {
            self.remains.keep(&old);
            self.exited = self
                .exited
                .saturating_sub(usize::from(old.exited.is_some()));
        }
    }

    /// A process that no record has introduced: its fork was lost, or it runs since before.
    pub fn introduce(&mut self, pid: Pid, now: u64, images: &mut Images) {
        self.scan(pid, now, images);
        if !self.processes.contains_key(&pid) {
            let mut process = self.new_process(pid, now, 0, String::new());
            process.maps.aliases_mut().unsure = true;
            self.insert(process);
        }
    }

    /// Records were lost: of any process, something may have been mapped without notice.
    pub fn records_lost(&mut self) {
        for process in self.processes.values_mut() {
            process.maps.aliases_mut().unsure = true;
            process.threads.lost();
        }
    }

    /// PERF_RECORD_FORK. Threads share everything with their process.
    pub fn fork(&mut self, pid: Pid, parent: Pid, time: u64) {
        if pid == parent {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.threads.born(time);
            }
            return;
        }
        if let Some(parent) = self.processes.get_mut(&parent) {
            parent.threads.lent(time);
        }
        // A process that the scan found may have been forked while the scan ran.
        if self
            .processes
            .get(&pid)
            .is_some_and(|known| known.exited.is_none() && known.as_of >= time)
        {
            return;
        }
        let mut child = self.new_process(pid, time, 0, String::new());
        child.threads = Threads::forked(time);
        if let Some(parent) = self.processes.get(&parent) {
            child.comm.clone_from(&parent.comm);
            child.maps = parent.maps.forked();
            child.texts.clone_from(&parent.texts);
            child.credentials = parent.credentials;
            child.credentials_at = parent.credentials_at;
        } else {
            child.maps.aliases_mut().unsure = true;
        }
        self.insert(child);
    }

    /// PERF_RECORD_COMM. An exec begins a new program with nothing mapped; a thread's name is
    /// not its process's.
    pub fn comm(&mut self, pid: Pid, is_leader: bool, name: &str, exec: bool, time: u64) {
        let Some(old) = self.processes.get_mut(&pid) else {
            // The command's own exec is the first that is heard of it.
            let started = self.host.start_time(pid).unwrap_or(time);
            let mut process = self.new_process(pid, started, 0, name.to_owned());
            process.maps.aliases_mut().unsure = !exec;
            if exec {
                process.threads = Threads::behind_exec(time);
            }
            self.insert(process);
            return;
        };
        if old.as_of >= time {
            return;
        }
        if exec {
            let (started, execs) = (old.started, old.execs.saturating_add(1));
            let mut process = self.new_process(pid, started, execs, name.to_owned());
            process.threads = Threads::behind_exec(time);
            self.insert(process);
        } else if is_leader {
            name.clone_into(&mut old.comm);
        }
    }

    /// PERF_RECORD_EXIT of a thread. A process whose threads have all ended is given up soon; where
    /// that is not known, when its first thread has, and there are many of that kind.
    pub fn exit(&mut self, pid: Pid, is_leader: bool, time: u64) {
        self.give_up_until(time.saturating_sub(LINGER));
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.threads.ended(time);
        if is_leader && process.exited.is_none() {
            process.exited = Some(time);
            self.exited += 1;
        }
        if process.exited.is_some() && process.threads.are_gone() {
            process.exited = Some(time);
            self.gone.push_back((time, pid));
        }
        if self.exited > MAX_EXITED {
            let ended = |process: &Process| process.exited.is_some();
            for process in self.processes.values().filter(|process| ended(process)) {
                self.remains.keep(process);
            }
            self.processes.retain(|_, process| !ended(process));
            self.gone.clear();
            self.exited = 0;
        }
    }

    /// Gives up the processes that ended until then.
    fn give_up_until(&mut self, time: u64) {
        while let Some(&(ended, pid)) = self.gone.front()
            && ended <= time
        {
            self.gone.pop_front();
            // Its pid may be another's by now.
            let process = self.processes.get(&pid);
            if process.is_some_and(|process| process.exited == Some(ended)) {
                if let Some(process) = self.processes.remove(&pid) {
                    self.remains.keep(&process);
                }
                self.exited = self.exited.saturating_sub(1);
            }
        }
    }

    /// PERF_RECORD_MMAP2. False if it says nothing new.
    pub fn mmap(&mut self, mmap: &Mmap, images: &mut Images) -> bool {
        if images.need_numbers() {
            images.give_back(&self.mapped_images());
        }
        if !self.processes.contains_key(&mmap.pid) {
            self.introduce(mmap.pid, mmap.time, images);
        }
        let Some(process) = self.processes.get_mut(&mmap.pid) else {
            return false;
        };
        // A heap grows, is given back, and grows again.
        if is_data(mmap) && process.maps.is_data(mmap.range(), rights(mmap)) {
            if !is_heap(mmap) {
                let aliases = process.maps.aliases_mut();
                aliases.remapped(mmap.range(), mmap.time);
            }
            return false;
        }
        if process.as_of >= mmap.time {
            return true;
        }
        // What was there was unmapped or moved, or its rights changed: nothing tells which.
        if is_data(mmap) && !is_heap(mmap) && process.maps.replaces(mmap.range(), rights(mmap)) {
            process.maps.aliases_mut().remapped(mmap.range(), mmap.time);
        }
        process.maps.aliases_mut().mapped(mmap);
        let path = path_text(&mmap.path);
        let mapping = images.mapping_of_record(mmap, &path);
        let live = self.host.is_live().then_some(mmap.pid);
        let mapping = moved_or_generated(mapping, process, live, images, &path);
        process.pages.forget(mapping.range);
        process.generated_code.forget(mapping.range);
        let kept = process.maps.insert(mapping);
        self.mappings_dropped += u64::from(!kept);
        true
    }
}

/// A path as text; what is none is replaced.
fn path_text(path: &Path) -> Cow<'_, str> {
    // Nearly all are, which is seen several times as soon as where they are not.
    match path.to_str() {
        Some(text) => Cow::Borrowed(text),
        None => path.to_string_lossy(),
    }
}

/// A new mapping of a process; if it is one of executable memory, as what that holds: a program's
/// text that was moved to the same addresses, or code that is made at run time.
fn moved_or_generated(
    mapping: Mapping,
    process: &mut Process,
    live: Option<Pid>,
    images: &mut Images,
    path: &str,
) -> Mapping {
    if mapping.is_anon() {
        moved::note(process, &mapping);
    } else if live.is_some() && jitdump::is_dump(Path::new(path)) {
        images.note_dump(process.pid, Path::new(path));
    }
    if !images.may_be_generated(&mapping) {
        return mapping;
    }
    if let Some(text) = moved::text_of(&mapping, process, live, images) {
        return text;
    }
    let name = match mapping.is_anon() {
        true => "[anon]",
        false => path.strip_suffix(" (deleted)").unwrap_or(path),
    };
    let image = images.generated(process.pid, process.started, process.execs, name);
    mapping.generated(image)
}

#[cfg(test)]
mod tests {
    use sampler::{MmapIdentity, Tid};

    use super::*;
    use crate::mapping::tests::mapping;

    /// A forked process has its parent's mappings until it execs.
    #[test]
    fn fork_and_exec() {
        let mut loadmap = Loadmap::new(1 << 20);
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

    /// A process goes when its last thread has, after a while for samples that come late; not when
    /// its first has, and not when another has its pid.
    #[test]
    fn exits() {
        let mut loadmap = Loadmap::new(1 << 20);
        let (parent, one, two) = (Pid(4_000_001), Pid(4_000_002), Pid(4_000_003));
        let later = |times: u64| times * 2 * LINGER;
        loadmap.fork(one, parent, 1);
        loadmap.fork(one, one, 2);
        loadmap.fork(two, parent, 3);
        loadmap.exit(one, true, 4);
        loadmap.exit(two, true, 5);
        loadmap.exit(parent, true, 6);
        assert!(loadmap.get(one).is_some() && loadmap.get(two).is_some());
        loadmap.exit(parent, true, later(1));
        assert!(loadmap.get(one).is_some() && loadmap.get(two).is_none());
        loadmap.exit(one, false, later(2));
        loadmap.fork(one, parent, later(2) + 1);
        loadmap.exit(parent, true, later(4));
        assert!(loadmap.get(one).is_some_and(|new| new.exited.is_none()));
        loadmap.exit(one, true, later(5));
        loadmap.exit(parent, true, later(7));
        assert!(loadmap.get(one).is_none());
        assert_eq!((loadmap.exited, loadmap.gone.len()), (0, 0));
    }

    /// A heap that is given back and grows again says nothing new; one that grows further does, and
    /// so does what was mapped within it, and the heap over that, and a change of rights. A file's
    /// name makes no heap. What was unmapped and mapped again may be unmapped.
    #[test]
    fn heaps() {
        let (mut loadmap, pid) = (Loadmap::new(1 << 20), Pid(4_000_001));
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        loadmap.comm(pid, true, "p", true, 1);
        let mut map = |path: &str, start: u64, end: u64, prot: u32| {
            let mmap = Mmap {
                time: 2,
                pid,
                tid: Tid(pid.0),
                address: start,
                len: end - start,
                offset: start,
                identity: MmapIdentity::Inode {
                    major: 0,
                    minor: 0,
                    inode: u64::from(path.starts_with("/x")),
                    generation: 0,
                },
                prot,
                flags: 2,
                path: Path::new(path).into(),
            };
            loadmap.mmap(&mmap, &mut images)
        };
        let (data, code, constant) = (3, 5, 1);
        assert!(map("[heap]", 0x1000, 0x5000, data));
        assert!(!map("[heap]", 0x1000, 0x3000, data));
        assert!(!map("//anon", 0x2000, 0x5000, data));
        assert!(map("[heap]", 0x1000, 0x6000, data));
        assert!(map("/x", 0x2000, 0x3000, data) && map("/x", 0x2000, 0x3000, data));
        assert!(map("[heap]", 0x1000, 0x6000, data) && !map("[heap]", 0x1000, 0x6000, data));
        assert!(map("//anon", 0x4000, 0x5000, code));
        assert!(map("//anon", 0x4000, 0x5000, data) && map("[heap]", 0x1000, 0x6000, data));
        assert!(
            map("[heap]", 0x1000, 0x2000, constant) && !map("[heap]", 0x1000, 0x2000, constant)
        );
        assert!(map("[heap]", 0x1000, 0x6000, data));
        assert!(map("//anon", 0x9000, 0xa000, data) && !map("//anon", 0x9000, 0xa000, data));
        let maps = &loadmap.get(pid).expect("a process").maps;
        assert!(maps.aliases().may_be_unmapped(ProcessAddress(0x9000), 3));
        assert!(
            !maps.aliases().may_be_unmapped(ProcessAddress(0x8000), 3) && !maps.may_have_aliases()
        );
    }
}
