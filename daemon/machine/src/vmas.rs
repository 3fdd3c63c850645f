//! What the kernel has mapped in a process, looked at one mapping at a time and remembered.
//!
//! The kernel's records tell of each mapping and each change of rights, but neither of what is
//! unmapped nor of what is moved. Where that matters the kernel is asked, behind the sample. An
//! answer is good for all samples that were taken before the question: what is mapped then, and was
//! not mapped meanwhile by a record, was mapped at the sample. So a process whose samples are
//! looked at many at a time is asked once for each mapping that its windows touch.
//!
//! Of a program that has ended nothing can be asked, and samples come late. So what a program was
//! asked about is asked again from time to time while it lives, whether samples came or not: what
//! is not known of it in the end is a small part of its life.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use addresses::{ProcessAddress, ProcessRange};
use sampler::{Pid, Vma};

pub use crate::host::Region;
use crate::host::{Host, Look};
use crate::system::memory::Room;
use crate::system::procfs;

/// The looks at one process.
#[derive(Debug)]
pub(crate) struct Vmas {
    pid: Pid,
    /// `/proc/PID/maps`: it stands for the address space that it was opened for.
    maps: Option<File>,
    /// When the program was met, when a sample was the reason of a look, and when all that is known
    /// was looked at again.
    met: u64,
    asked: u64,
    again: u64,
    /// How often a sample's stack was not found; of a process that is gone nothing can be learned
    /// any more.
    strangers: u8,
    /// By their first addresses. They do not overlap.
    known: BTreeMap<ProcessAddress, Look>,
    /// When all of the mappings may be read again, where they cannot be had one by one.
    next_reading: u64,
    rooms: LookRooms,
}

/// Room for the looks at all processes.
#[derive(Clone, Debug)]
pub(crate) struct LookRooms {
    looks: Room,
    files: Room,
    /// Processes that samples asked about since they were taken; at most [`MAX_WATCHED`].
    asked: Arc<Mutex<Vec<Pid>>>,
}

impl LookRooms {
    pub(crate) fn new() -> Self {
        Self {
            looks: Room::new(MAX_ALL_KNOWN),
            files: Room::new(MAX_FILES),
            asked: Arc::default(),
        }
    }

    /// Processes that samples asked about since the last call.
    pub(crate) fn take_asked(&self) -> Vec<Pid> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ask(&self, pid: Pid) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() < MAX_WATCHED && !asked.contains(&pid) {
            asked.push(pid);
        }
    }
}

/// Looks kept of one process, and of all: some 5 MB.
const MAX_KNOWN: usize = 512;
const MAX_ALL_KNOWN: usize = 1 << 15;
/// Files kept open. Of other processes they are opened for each look.
const MAX_FILES: usize = 256;
/// Reading all mappings takes so little of the time: one part of that many.
const READING_PART: u64 = 20;
/// Bytes of all mappings that are read: some hundred thousand of them.
const MAX_BYTES: usize = 8 << 20;
/// Programs that are looked at again.
pub(crate) const MAX_WATCHED: usize = 64;
/// A program is looked at again after one part of so many of the while that it has been known: so
/// much of what is known of its windows can be lost when it ends.
pub const AGES: u32 = 16;
/// The mappings at which it is looked then, at most.
const MAX_AGAIN: usize = 64;
/// It is left alone when no sample has asked for as long, in nanoseconds, and for one part of so
/// many of its age.
const IDLE: u64 = 2_000_000_000;
const IDLE_PART: u64 = 4;
/// So often a process is looked for.
const MAX_STRANGERS: u8 = 16;
const PAGE: u64 = 4096;

impl Vmas {
    pub(crate) fn new(pid: Pid, rooms: &LookRooms) -> Self {
        Self {
            pid,
            maps: None,
            met: sampler::clock_now(),
            asked: 0,
            again: 0,
            strangers: 0,
            known: BTreeMap::new(),
            next_reading: 0,
            rooms: rooms.clone(),
        }
    }

    /// What lies around an address, for a sample of that time; `None` if it cannot be told. `stack`
    /// is the stack pointer of a sample of the process whose stack could be read.
    pub(crate) fn at(
        &mut self,
        address: ProcessAddress,
        time: u64,
        stack: Option<u64>,
        host: &mut Host,
    ) -> Option<Region> {
        let before = self.known.range(..=address).next_back();
        if let Some((_, (region, looked))) = before
            && address < region.range().end
            && *looked >= time
        {
            return Some(*region);
        }
        let pid = self.pid;
        let (region, looked) = host.region(pid, address.0, || self.look(address.0, stack))?;
        self.keep(region, looked);
        Some(region)
    }

    /// What lay around an address when it was looked at last, whenever that was.
    pub(crate) fn last(&self, address: ProcessAddress) -> Option<Region> {
        let (_, (region, _)) = self.known.range(..=address).next_back()?;
        (address < region.range().end).then_some(*region)
    }

    fn keep(&mut self, region: Region, looked: u64) {
        let ProcessRange { start, end } = region.range();
        let overlapped: Vec<ProcessAddress> = self
            .known
            .range(..end)
            .rev()
            .take_while(|(_, (old, _))| old.range().end > start)
            .map(|(old, _)| *old)
            .collect();
        for old in overlapped {
            self.known.remove(&old);
            self.rooms.looks.leave(1);
        }
        if self.known.len() >= MAX_KNOWN || self.rooms.looks.is_full() {
            self.rooms.looks.leave(self.known.len());
            self.known.clear();
        }
        if !self.rooms.looks.is_full() {
            self.rooms.looks.take(1);
            self.known.insert(start, (region, looked));
        }
    }

    /// Looks now.
    fn look(&mut self, address: u64, stack: Option<u64>) -> Option<Look> {
        if self.strangers >= MAX_STRANGERS {
            return None;
        }
        let file = match self.maps.take() {
            Some(file) => file,
            None => {
                let opened = open(self.pid, stack?);
                // A thread's stack may be gone by now. Another program's is never there.
                self.strangers += u8::from(opened.is_none());
                opened.inspect(|_| self.rooms.files.take(1))?
            }
        };
        self.asked = sampler::clock_now();
        self.rooms.ask(self.pid);
        let look = self.look_in(&file, address);
        match self.rooms.files.is_full() {
            true => self.rooms.files.leave(1),
            false => self.maps = Some(file),
        }
        look
    }

    /// When the program was met, in nanoseconds of the samples' clock.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }

    /// Looks again at all that is known of the program, if it is time to and `looks` says so. False
    /// if it is gone, or no sample has asked about it for long.
    pub(crate) fn look_again(&mut self, looks: bool) -> bool {
        let now = sampler::clock_now();
        let age = now.saturating_sub(self.met);
        let idle = now.saturating_sub(self.asked);
        if self.strangers >= MAX_STRANGERS || idle > IDLE.max(age / IDLE_PART) {
            return false;
        }
        if !looks || now.saturating_sub(self.again) < age / u64::from(AGES) {
            return true;
        }
        let Some(file) = self.maps.take() else {
            return true;
        };
        self.again = now;
        let starts: Vec<ProcessAddress> = self.known.keys().copied().take(MAX_AGAIN).collect();
        for start in starts {
            let Some((region, looked)) = self.look_in(&file, start.0) else {
                break;
            };
            self.keep(region, looked);
        }
        self.maps = Some(file);
        self.strangers < MAX_STRANGERS
    }

    fn look_in(&mut self, file: &File, address: u64) -> Option<Look> {
        let now = sampler::clock_now();
        match region(self.pid, file, address) {
            Ok(region) => Some((region, now)),
            Err(Refused::Unknown) => self.read_all(file, address),
            Err(Refused::Gone) => {
                self.strangers = MAX_STRANGERS;
                None
            }
        }
    }

    /// Reads all mappings, where the kernel cannot tell one, and not too often.
    fn read_all(&mut self, file: &File, address: u64) -> Option<Look> {
        let now = sampler::clock_now();
        if now < self.next_reading {
            return None;
        }
        let vmas = read(file);
        let took = sampler::clock_now().saturating_sub(now);
        self.next_reading = now + took * READING_PART;
        let vmas = vmas?;
        let found = around(&vmas, address);
        for (vma, _) in vmas.into_iter().take(MAX_KNOWN / 2) {
            self.keep(Region::Mapped(vma), now);
        }
        Some((found, now))
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.known.len() * (size_of::<Look>() + size_of::<ProcessAddress>()) * 3 / 2
    }
}

impl Drop for Vmas {
    fn drop(&mut self) {
        self.rooms.looks.leave(self.known.len());
        self.rooms.files.leave(usize::from(self.maps.is_some()));
    }
}

/// Opens the mappings of a process, if it is still the sampled program: each exec draws another
/// place for the stack.
fn open(pid: Pid, stack: u64) -> Option<File> {
    let file = File::open(format!("/proc/{pid}/maps")).ok()?;
    let found = match region(pid, &file, stack) {
        Ok(region) => region,
        Err(Refused::Unknown) => around(&read(&file)?, stack),
        Err(Refused::Gone) => return None,
    };
    matches!(found, Region::Mapped(vma) if vma.writable && !vma.executable).then_some(file)
}

/// Why there is no answer.
enum Refused {
    /// The kernel does not know the question.
    Unknown,
    /// The address space is gone.
    Gone,
}

fn region(pid: Pid, file: &File, address: u64) -> Result<Region, Refused> {
    let refused = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ENOTTY | libc::EINVAL) => Refused::Unknown,
        _ => Refused::Gone,
    };
    let page = address & !(PAGE - 1);
    let vma = match sampler::vma_from(file.as_fd(), address).map_err(refused)? {
        Some(vma) if vma.start <= address => return Ok(up_to_end(pid, page, vma)),
        Some(vma) => vma,
        None => {
            let end = u64::MAX;
            return Ok(Region::Free { start: page, end });
        }
    };
    let grows = || sampler::is_main_stack(file.as_fd(), vma.start).unwrap_or(false);
    Ok(below(pid, page, &vma, grows))
}

/// A mapping as far as its file reaches: beyond the last page of the file, an access raises an
/// exception as if nothing were mapped there.
fn up_to_end(pid: Pid, page: u64, vma: Vma) -> Region {
    let mapping = || {
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", vma.start, vma.end);
        std::fs::metadata(link).ok()
    };
    // Where it cannot be looked at, it is taken to reach as far as its mapping.
    let file = (vma.inode != 0).then(mapping).flatten();
    match file.filter(std::fs::Metadata::is_file) {
        Some(file) => cut(page, vma, file.len()),
        None => Region::Mapped(vma),
    }
}

/// The mapping of a file of so many bytes.
fn cut(page: u64, vma: Vma, size: u64) -> Region {
    let bytes = size.next_multiple_of(PAGE).saturating_sub(vma.offset);
    let end = vma.end.min(vma.start.saturating_add(bytes));
    match page < end {
        true => Region::Mapped(Vma { end, ..vma }),
        false => Region::Free {
            start: page,
            end: vma.end,
        },
    }
}

/// What a page is that nothing is mapped at, below a mapping: the kernel lets the main stack grow
/// when it is accessed there. (Of other mappings that grow, nothing tells that they do.)
fn below(pid: Pid, page: u64, vma: &Vma, is_stack: impl Fn() -> bool) -> Region {
    let free = Region::Free {
        start: page,
        end: vma.start,
    };
    let may_grow = vma.writable && vma.inode == 0 && !vma.shared && is_stack();
    let room = may_grow.then(|| procfs::stack_limit(pid)).flatten();
    match room {
        Some(room) if vma.end - page <= room => Region::Mapped(Vma {
            start: page,
            ..*vma
        }),
        _ => free,
    }
}

/// All mappings, each with whether it is the main stack.
fn read(file: &File) -> Option<Vec<(Vma, bool)>> {
    let mut text = Vec::new();
    let mut part = vec![0; 1 << 16];
    loop {
        let n = file.read_at(&mut part, text.len() as u64).ok()?;
        if n == 0 {
            break;
        }
        text.extend_from_slice(&part[..n]);
        if text.len() > MAX_BYTES {
            return None;
        }
    }
    let lines = procfs::parse_maps(&String::from_utf8_lossy(&text));
    let vma = |line: procfs::MapsLine| {
        let vma = Vma {
            start: line.start,
            end: line.end,
            readable: line.readable,
            writable: line.writable,
            executable: line.executable,
            shared: line.shared,
            offset: line.offset,
            major: line.major,
            minor: line.minor,
            inode: line.inode,
        };
        (vma, line.path == "[stack]")
    };
    // Of an address space that is gone there are none.
    (!lines.is_empty()).then(|| lines.into_iter().map(vma).collect())
}

/// What lies around an address, by all mappings. Below the main stack is nothing: what it may grow
/// by is left out.
fn around(vmas: &[(Vma, bool)], address: u64) -> Region {
    let start = address & !(PAGE - 1);
    match vmas.iter().find(|(vma, _)| vma.end > address) {
        Some((vma, _)) if vma.start <= address => Region::Mapped(*vma),
        Some((vma, true)) => Region::Mapped(Vma { start, ..*vma }),
        Some((vma, false)) => Region::Free {
            start,
            end: vma.start,
        },
        None => Region::Free {
            start,
            end: u64::MAX,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (Vmas, Pid, u64) {
        let pid = Pid(std::process::id());
        (Vmas::new(pid, &LookRooms::new()), pid, 0)
    }

    /// Of this very process: its code, a local variable, and the null page. One look serves all
    /// samples before it, and none behind.
    #[test]
    fn own_regions() {
        let (mut vmas, _, local) = own();
        let stack = Some(&raw const local as u64);
        let code = own_regions as *const () as u64;
        let mut host = Host::Live;
        let found = vmas.at(ProcessAddress(code), 1, stack, &mut host);
        assert!(matches!(found, Some(Region::Mapped(vma)) if vma.executable && !vma.writable));
        let found = vmas.at(ProcessAddress(&raw const local as u64), 1, stack, &mut host);
        assert!(matches!(found, Some(Region::Mapped(vma)) if vma.writable));
        let found = vmas.at(ProcessAddress(8), 1, stack, &mut host);
        assert!(matches!(found, Some(Region::Free { start: 0, end }) if end > 8));
        // What was found before is good for earlier samples; nobody is asked.
        let mut nobody = Host::Replayed(rustc_hash::FxHashMap::default());
        assert!(vmas.at(ProcessAddress(16), 1, stack, &mut nobody).is_some());
        assert!(
            vmas.at(ProcessAddress(16), u64::MAX, stack, &mut nobody)
                .is_none()
        );
        assert!(
            matches!(vmas.last(ProcessAddress(16)), Some(Region::Free { .. }))
                && vmas.last(ProcessAddress(!0)).is_none()
        );
        assert!(vmas.bytes() > 0);
    }

    /// A process is looked at only where a sample's stack is found in it.
    #[test]
    fn other_program() {
        let (mut vmas, _, _) = own();
        assert_eq!(
            vmas.at(ProcessAddress(8), 1, Some(0x1000), &mut Host::Live),
            None
        );
        let (mut vmas, _, local) = own();
        assert_eq!(vmas.at(ProcessAddress(8), 1, None, &mut Host::Live), None);
        // That was no proof that it is another one.
        let stack = Some(&raw const local as u64);
        assert!(
            vmas.at(ProcessAddress(8), 1, stack, &mut Host::Live)
                .is_some()
        );
    }

    /// A file ends within its mapping, or before it.
    #[test]
    fn ends_of_files() {
        let vma = Vma {
            start: 0x10_000,
            end: 0x14_000,
            offset: 0x1000,
            inode: 7,
            ..Vma::default()
        };
        let mapped = |end| Region::Mapped(Vma { end, ..vma });
        assert_eq!(cut(0x11_000, vma, 0x2001), mapped(0x12_000));
        assert_eq!(cut(0x11_000, vma, 0x9000), mapped(0x14_000));
        let free = |start| Region::Free {
            start,
            end: vma.end,
        };
        assert_eq!(cut(0x12_000, vma, 0x2001), free(0x12_000));
        assert_eq!(cut(0x10_000, vma, 0), free(0x10_000));
    }

    /// From the text of all mappings the same follows as from the answers about one.
    #[test]
    fn all_mappings() {
        let file = File::open("/proc/self/maps").expect("own mappings");
        let all = read(&file).expect("mappings");
        let code = all_mappings as *const () as u64;
        let found = around(&all, code);
        assert!(matches!(found, Region::Mapped(vma) if vma.executable));
        if let Ok(one) = region(Pid(std::process::id()), &file, code) {
            assert_eq!(one, found);
        }
        assert!(matches!(around(&all, 0), Region::Free { start: 0, .. }));
        let (stack, _) = all.iter().find(|(_, is_stack)| *is_stack).expect("a stack");
        let grown = around(&all, stack.start - 8);
        assert!(matches!(grown, Region::Mapped(vma) if vma.start < stack.start));
    }
}
