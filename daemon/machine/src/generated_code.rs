//! Code that a process makes, as it lay in memory at the moment of a sample.
//!
//! No file vouches for such code, and an interrupt brings a few bytes of it. So the collector reads
//! its pages from the process: when a sample wants one first, and again for later samples. A line
//! of 64 bytes that two looks found the same held these bytes at all samples between both. What has
//! changed, or was looked at once only, is not known.
//!
//! A line could be changed and changed back between two looks. So a line of which code was seen to
//! give way to other code is not trusted for a while, which is twice as long each time; nor is a
//! page in which interrupts met other code between the looks; and where a sample brings the code at
//! its PC, that must be the same. Code that escapes all of these counts as unchanged.
//!
//! The code says where return addresses lie, and which calls stand before them. No value is taken
//! from it.

// Over 500 lines: what two looks at a line of code tell is one table, and one piece of reasoning.

use std::hash::Hash;

use addresses::{ProcessAddress, ProcessRange};
use rustc_hash::FxHashMap;
use sampler::Pid;

use crate::flow::{self, Exit, Leads, Text};
use crate::host::Host;
pub use crate::host::PageLook;
use crate::images::Images;
use crate::maps::Maps;
use crate::system::memory::{Room, of_map};
use crate::system::procfs::{self, Pagemap};

const PAGE: u64 = 4096;
const PAGE_BYTES: usize = PAGE as usize;
/// Bytes whose changes are told apart.
const LINE: usize = 64;
const LINES: usize = PAGE_BYTES / LINE;
/// How long a line is not trusted that has changed, in nanoseconds: so long times two to the number
/// of times, of which so many count.
const DISTRUST: u64 = 8_000_000_000;
const MAX_CHANGES: u8 = 20;
/// Pages that samples asked for a while ago at most are looked at so often, in nanoseconds. Samples
/// wait for less than that while.
const LOOK_AGAIN: u64 = 1_000_000_000;
const WHILE: u64 = 20_000_000_000;
/// Pages kept of all processes: some 10 MB.
const MAX_PAGES: usize = 1 << 11;
/// What was found out of all processes: some 5 MB.
const MAX_ANSWERS: usize = 1 << 14;
/// Processes whose memory is kept open.
const MAX_FILES: usize = 256;
/// So often a process is looked for.
const MAX_ATTEMPTS: u8 = 16;

/// Room for the code of all processes.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedCodeRooms {
    pages: Room,
    answers: Room,
    files: Room,
}

impl GeneratedCodeRooms {
    pub(crate) fn new() -> Self {
        Self {
            pages: Room::new(MAX_PAGES),
            answers: Room::new(MAX_ANSWERS),
            files: Room::new(MAX_FILES),
        }
    }
}

/// The code of one process.
#[derive(Debug)]
pub struct GeneratedCode {
    pid: Pid,
    memory: OpenMemory,
    pages: FxHashMap<u64, Box<Page>>,
    exits: FxHashMap<u64, Conclusion<Vec<Exit>>>,
    /// What the handler goes by, at each PC: this exit, or one and then another.
    rows: FxHashMap<u64, Option<Exit>>,
    /// By target and PC; the PC is 0 where the way out is asked for.
    leads: FxHashMap<(u64, u64), Conclusion<Leads>>,
    rooms: GeneratedCodeRooms,
}

/// The process's memory. What is open is bound to the address space that it was opened for.
#[derive(Debug)]
enum OpenMemory {
    /// So often its program was not found.
    NotOpened(u8),
    Open(procfs::ProcessMemory),
    /// It cannot be had, or is gone.
    Closed,
}

/// A page that was looked at.
#[derive(Debug)]
struct Page {
    bytes: [u8; PAGE_BYTES],
    /// Since when each line is known to hold this.
    since: [u64; LINES],
    /// How often code was seen to give way to other code.
    changes: [u8; LINES],
    /// The time before the last look.
    until: u64,
    /// When a sample asked for it the last time.
    wanted: u64,
}

/// What follows from lines of code.
#[derive(Debug)]
struct Conclusion<T> {
    answer: T,
    lines: Vec<Lines>,
}

/// Lines of a page, a bit each, and the time since which the youngest of them is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    page: u64,
    lines: u64,
    since: u64,
}

/// Whose code is asked for, and for a sample of which time.
#[derive(Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) maps: &'a Maps,
    pub(crate) images: &'a Images,
    pub(crate) host: &'a mut Host,
    pub(crate) time: u64,
    /// The stack pointer of the sample, if its stack could be read.
    pub(crate) stack: Option<u64>,
}

impl Asker<'_> {
    /// When an interrupt met other code in a page than before.
    fn last_change(&self, page: u64) -> u64 {
        let mapping = self.maps.find(ProcessAddress(page));
        mapping.map_or(0, |of| self.images.last_change(of.image, page))
    }
}

impl GeneratedCode {
    pub(crate) fn new(pid: Pid, rooms: &GeneratedCodeRooms) -> Self {
        Self {
            pid,
            memory: OpenMemory::NotOpened(0),
            pages: FxHashMap::default(),
            exits: FxHashMap::default(),
            rows: FxHashMap::default(),
            leads: FxHashMap::default(),
            rooms: rooms.clone(),
        }
    }

    /// The exits from an instruction, as [`flow::exits`] has them.
    pub(crate) fn exits(
        &mut self,
        ProcessAddress(pc): ProcessAddress,
        asker: &mut Asker<'_>,
    ) -> Vec<Exit> {
        self.answer(
            |generated_code| &mut generated_code.exits,
            pc,
            asker,
            |text| flow::exits(text, pc),
        )
    }

    /// The answer to a question: as it was found before, if the code still says so, or else now.
    fn answer<Q: Eq + Hash, T: Clone>(
        &mut self,
        answers: fn(&mut Self) -> &mut FxHashMap<Q, Conclusion<T>>,
        question: Q,
        asker: &mut Asker<'_>,
        ask: impl FnOnce(&mut MadeText<'_, '_>) -> T,
    ) -> T {
        if let Some(known) = answers(self).remove(&question) {
            if self.holds(&known.lines, asker) {
                let answer = known.answer.clone();
                answers(self).insert(question, known);
                return answer;
            }
            self.rooms.answers.leave(1);
        }
        let mut text = MadeText::new(self, asker);
        let answer = ask(&mut text);
        let lines = text.lines();
        if let Some(lines) = lines.filter(|_| self.has_room()) {
            let answer = answer.clone();
            answers(self).insert(question, Conclusion { answer, lines });
            self.rooms.answers.take(1);
        }
        answer
    }

    /// Takes note of an exit that the handler is told of; false if it is not to be.
    pub(crate) fn tell(&mut self, ProcessAddress(pc): ProcessAddress, exit: &Exit) -> bool {
        if !self.rows.contains_key(&pc) {
            if !self.has_room() {
                return false;
            }
            self.rooms.answers.take(1);
        }
        let told = self.rows.entry(pc).or_insert_with(|| Some(*exit));
        if *told != Some(*exit) {
            *told = None;
        }
        told.is_some()
    }

    /// Whether the handler was told of this exit, and of no other.
    pub(crate) fn was_told(&self, pc: ProcessAddress, exit: &Exit) -> bool {
        self.rows.get(&pc.0) == Some(&Some(*exit))
    }

    /// Whether a call to `target` leads to `pc`, or out of this code if there is none.
    pub(crate) fn leads(
        &mut self,
        ProcessAddress(target): ProcessAddress,
        pc: Option<ProcessAddress>,
        asker: &mut Asker<'_>,
    ) -> Leads {
        let pc = pc.map(|pc| pc.0);
        let question = (target, pc.unwrap_or(0));
        self.answer(
            |generated_code| &mut generated_code.leads,
            question,
            asker,
            |text| flow::leads(text, target, pc),
        )
    }

    /// Reads code; how many bytes of it there are.
    pub(crate) fn read(
        &mut self,
        address: ProcessAddress,
        bytes: &mut [u8],
        asker: &mut Asker<'_>,
    ) -> usize {
        MadeText::new(self, asker).read(address.0, bytes)
    }

    /// Looks again at the pages that samples have asked for, now and then: of a process that has
    /// ended nothing can be read.
    pub fn look_again(&mut self, now: u64) {
        let is_due = |page: &Page| {
            page.wanted.saturating_add(WHILE) > now && page.until.saturating_add(LOOK_AGAIN) < now
        };
        let pages = self.pages.iter().filter(|(_, page)| is_due(page));
        let due: Vec<u64> = pages.map(|(page, _)| *page).collect();
        for page in due {
            let bytes = self.pages.get(&page).map(|known| &known.bytes);
            let seen = self.memory.look(page, bytes, self.pid, None, &self.rooms);
            if let Some(seen) = seen {
                self.take(page, seen);
            }
        }
    }

    /// Gives up what was seen between these addresses: something else is mapped there.
    pub(crate) fn forget(&mut self, range: ProcessRange) {
        if self.pages.is_empty() {
            return;
        }
        let (start, end) = (range.start.0, range.end.0);
        let before = self.pages.len();
        self.pages
            .retain(|page, _| page.saturating_add(PAGE) <= start || *page >= end);
        self.rooms.pages.leave(before - self.pages.len());
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let lines = |lines: &Vec<Lines>| lines.capacity() * size_of::<Lines>();
        let exits = self.exits.values();
        let exits = exits.map(|of| lines(&of.lines) + of.answer.capacity() * size_of::<Exit>());
        let leads = self.leads.values().map(|of| lines(&of.lines));
        of_map(&self.pages)
            + self.pages.len() * size_of::<Page>()
            + of_map(&self.exits)
            + of_map(&self.rows)
            + of_map(&self.leads)
            + exits.sum::<usize>()
            + leads.sum::<usize>()
    }

    /// Whether one more answer has room; these begin anew where they are too many.
    fn has_room(&mut self) -> bool {
        if self.rooms.answers.is_full() {
            self.forget_answers();
        }
        !self.rooms.answers.is_full()
    }

    fn forget_answers(&mut self) {
        self.rooms
            .answers
            .leave(self.exits.len() + self.rows.len() + self.leads.len());
        self.rows = FxHashMap::default();
        self.exits = FxHashMap::default();
        self.leads = FxHashMap::default();
    }

    /// Whether lines are what they were when something followed from them, at this sample, too.
    fn holds(&mut self, lines: &[Lines], asker: &mut Asker<'_>) -> bool {
        lines.iter().all(|of| {
            of.since < asker.time
                && asker.last_change(of.page) < of.since
                && self.page(of.page, asker).is_some()
                && self.pages[&of.page].since(of.lines) == of.since
        })
    }

    /// A page as of a look behind the sample.
    fn page(&mut self, page: u64, asker: &mut Asker<'_>) -> Option<&Page> {
        let known = self.pages.get(&page);
        if known.is_none_or(|known| known.until < asker.time) {
            let (pid, stack) = (self.pid, asker.stack);
            let bytes = known.map(|known| &known.bytes);
            let (memory, rooms) = (&mut self.memory, &self.rooms);
            let look = || memory.look(page, bytes, pid, stack, rooms);
            let seen = asker.host.code(pid, page, look)?;
            self.take(page, seen)?;
        }
        let page = self.pages.get_mut(&page)?;
        page.wanted = page.wanted.max(asker.time);
        Some(page)
    }

    /// Takes what was seen of a page.
    fn take(&mut self, page: u64, seen: PageLook) -> Option<()> {
        let bytes = match seen.bytes {
            None => {
                self.pages.get_mut(&page)?.until = seen.before;
                return Some(());
            }
            Some(bytes) => <[u8; PAGE_BYTES]>::try_from(bytes.as_slice()).ok()?,
        };
        if let Some(known) = self.pages.get_mut(&page) {
            known.change(&bytes, seen.behind);
            known.until = seen.before;
            return Some(());
        }
        if self.rooms.pages.is_full() {
            self.rooms.pages.leave(self.pages.len());
            self.pages = FxHashMap::default();
            if self.rooms.pages.is_full() {
                return None;
            }
        }
        let new = Page {
            bytes,
            since: [seen.behind; LINES],
            changes: [0; LINES],
            until: seen.before,
            wanted: 0,
        };
        self.rooms.pages.take(1);
        self.pages.insert(page, Box::new(new));
        Some(())
    }
}

impl Drop for GeneratedCode {
    fn drop(&mut self) {
        self.forget_answers();
        self.rooms.pages.leave(self.pages.len());
        if matches!(self.memory, OpenMemory::Open(_)) {
            self.rooms.files.leave(1);
        }
    }
}

impl OpenMemory {
    /// Looks at a page now, of which these bytes were seen before.
    fn look(
        &mut self,
        page: u64,
        known: Option<&[u8; PAGE_BYTES]>,
        pid: Pid,
        stack: Option<u64>,
        rooms: &GeneratedCodeRooms,
    ) -> Option<PageLook> {
        if let Self::NotOpened(attempts) = *self {
            if rooms.files.is_full() {
                return None;
            }
            // A thread's stack may be gone by now. Another program's is never there.
            *self = match open(pid, stack?) {
                Some(memory) => {
                    rooms.files.take(1);
                    Self::Open(memory)
                }
                None if attempts < MAX_ATTEMPTS => Self::NotOpened(attempts + 1),
                None => Self::Closed,
            };
        }
        let Self::Open(memory) = self else {
            return None;
        };
        let mut bytes = [0; PAGE_BYTES];
        let before = sampler::clock_now();
        memory.read(page, &mut bytes).then(|| PageLook {
            before,
            behind: sampler::clock_now(),
            bytes: (known != Some(&bytes)).then(|| bytes.to_vec()),
        })
    }
}

/// Opens the memory of a process, if it is still the sampled program: each exec draws another place
/// for the stack.
fn open(pid: Pid, stack: u64) -> Option<procfs::ProcessMemory> {
    let memory = procfs::memory(pid)?;
    Pagemap::open(pid)?.has_stack(stack).then_some(memory)
}

impl Page {
    /// Since when all of these lines are known.
    fn since(&self, lines: u64) -> u64 {
        let of = |line: usize| match lines >> line & 1 {
            0 => 0,
            _ => self.since[line],
        };
        (0..LINES).map(of).max().unwrap_or(0)
    }

    fn change(&mut self, bytes: &[u8; PAGE_BYTES], at: u64) {
        let lines = self.bytes.chunks(LINE).zip(bytes.chunks(LINE));
        let marks = self.since.iter_mut().zip(&mut self.changes);
        for ((old, new), (since, changes)) in lines.zip(marks) {
            if old == new {
                continue;
            }
            *since = at;
            if !grows(old, new) {
                *changes = (*changes + 1).min(MAX_CHANGES);
                *since = at.saturating_add(DISTRUST << *changes);
            }
        }
        self.bytes = *bytes;
    }
}

/// Whether code came where there was none: what has changed was the same byte all over.
fn grows(old: &[u8], new: &[u8]) -> bool {
    let pairs = || old.iter().zip(new);
    let first = pairs().position(|(old, new)| old != new).unwrap_or(0);
    let last = pairs().rposition(|(old, new)| old != new).unwrap_or(0);
    old[first..=last].iter().all(|byte| *byte == old[first])
}

/// The code of one process at one sample.
struct MadeText<'a, 'b> {
    code: &'a mut GeneratedCode,
    asker: &'a mut Asker<'b>,
    /// What was read.
    read: Vec<Lines>,
    /// Some that was wanted is not known at this sample.
    lacks: bool,
}

impl<'a, 'b> MadeText<'a, 'b> {
    fn new(code: &'a mut GeneratedCode, asker: &'a mut Asker<'b>) -> Self {
        Self {
            code,
            asker,
            read: Vec::new(),
            lacks: false,
        }
    }

    /// The lines that were read, if all that was wanted was known.
    fn lines(self) -> Option<Vec<Lines>> {
        (!self.lacks).then_some(self.read)
    }

    /// The known bytes of a page from an offset on.
    fn part(&mut self, page: u64, from: usize, bytes: &mut [u8]) -> usize {
        let is_generated_code = |address| {
            let mapping = self.asker.maps.find(ProcessAddress(address));
            mapping.is_some_and(|of| of.is_anon() && of.readable && !of.shared && !of.special)
        };
        if !is_generated_code(page + from as u64) {
            return 0;
        }
        let time = self.asker.time;
        let last_change = self.asker.last_change(page);
        let Some(found) = self.code.page(page, self.asker) else {
            self.lacks = true;
            return 0;
        };
        let mut lines = 0;
        let mut since = 0;
        let mut done = 0;
        while done < bytes.len() {
            let at = from + done;
            let line = at / LINE;
            if found.since[line] >= time || found.since[line] <= last_change {
                self.lacks = true;
                break;
            }
            let n = (LINE - at % LINE).min(bytes.len() - done);
            bytes[done..done + n].copy_from_slice(&found.bytes[at..at + n]);
            lines |= 1 << line;
            since = since.max(found.since[line]);
            done += n;
        }
        if lines != 0 {
            match self.read.iter_mut().find(|of| of.page == page) {
                Some(of) => (of.lines, of.since) = (of.lines | lines, of.since.max(since)),
                None => self.read.push(Lines { page, lines, since }),
            }
        }
        done
    }
}

impl Text for MadeText<'_, '_> {
    const MORE_CALLS: u32 = 8;

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let page = at & !(PAGE - 1);
            let from = (at % PAGE) as usize;
            let n = (PAGE_BYTES - from).min(bytes.len() - done);
            let read = self.part(page, from, &mut bytes[done..done + n]);
            done += read;
            if read < n {
                break;
            }
        }
        done
    }

    fn function(&mut self, _address: u64) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests;
