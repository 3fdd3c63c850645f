//! What has been collected since the last flush: cycles, hotlists, branches, calls, counters.
//!
//! Memory is bounded: every entry is counted against a budget, and when it is used up the
//! caller flushes. Should that fail, what does not fit is counted as lost.

mod copy;
mod returns;
mod sites;
mod tally;
mod ways;

use std::collections::BTreeMap;

use hotlist::{Config, Hotlist};
use interpreter::Parameter;
use profiledb::{LOST, Loss, Subject};
use rustc_hash::FxHashMap;

pub(crate) use self::copy::Wanted;
use self::returns::Returns;
use self::sites::Site;
pub(crate) use self::sites::{Moment, SiteId};
use self::tally::Tally;
use self::ways::{Branch, Calls};
use crate::images::ImageId;
use crate::loadmap::ProcessId;
use crate::lost::Lost;

/// An instruction: image and ELF virtual address (process address for anonymous memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pc {
    pub(crate) image: ImageId,
    pub(crate) address: u64,
}

/// Index of a [`Pc`] in the tables of one flush interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PcId(pub(crate) u32);

/// Index of a [`Subject`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubjectId(pub(crate) u32);

/// Whose events these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) process: ProcessId,
    pub(crate) subject: SubjectId,
}

/// Key of a value profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProfileKey {
    pub(crate) owner: Owner,
    pub(crate) pc: PcId,
    pub(crate) caller: Option<PcId>,
    pub(crate) parameter: Parameter,
}

/// A value profile: a line of the processor's cache, and another for its list.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ValueProfile {
    pub(crate) key: ProfileKey,
    /// The next profile of its site; [`NONE`] behind the last.
    next: u32,
    /// What came behind the first event of a window; [`NONE`] if nothing did.
    returns: u32,
    pub(crate) reached: u64,
    pub(crate) unknown: u64,
    pub(crate) windows: u64,
    /// The last window, the lower half of its number, and the instruction of it.
    last_window: u32,
    last_depth: u32,
    /// Made with the first known value.
    pub(crate) list: Option<Hotlist<u64>>,
}

/// No profile.
const NONE: u32 = u32::MAX;

const _: () = assert!(size_of::<ValueProfile>() == 128);

/// Where an interrupt came, called by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Arrival {
    owner: Owner,
    pc: Pc,
    caller: Option<Pc>,
}

/// Interrupts at a PC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycles {
    pub(crate) pc: PcId,
    pub(crate) caller: Option<PcId>,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

/// Everything collected since the last flush.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) pcs: Vec<Pc>,
    pc_ids: FxHashMap<Pc, PcId>,
    pub(crate) subjects: Vec<Subject>,
    subject_ids: FxHashMap<Subject, SubjectId>,
    pub(crate) processes: FxHashMap<ProcessId, profiledb::Process>,
    last_owner: Option<(Subject, Owner)>,
    /// By the places themselves: for most samples this is all that is looked up.
    cycles: FxHashMap<Arrival, Cycles>,
    sites: Vec<Site>,
    site_ids: FxHashMap<(Owner, Pc), SiteId>,
    /// By the numbers of instructions in the decode cache, the site that one was at last.
    marked: Vec<SiteId>,
    pub(crate) profiles: Vec<ValueProfile>,
    returns: Vec<Returns>,
    /// Profiles of sites that have many.
    spilled: FxHashMap<ProfileKey, u32>,
    branches: Vec<Branch>,
    calls: FxHashMap<(Owner, PcId, Option<PcId>), Calls>,
    pub(crate) tally: Tally,
    /// By the places of the names, which is all that counting has to look at.
    counts: FxHashMap<[usize; 2], (&'static str, &'static str, u64)>,
    pub(crate) lost: Lost,
    config: Config,
    budget: usize,
    lists: usize,
    /// How far the samples come at even distances of time: see [`hotlist::Draws::even`].
    pub(crate) evenness: f64,
    /// How often the events of the present window count.
    times: u32,
    /// What each branch and call of the present window weighs.
    weight: u32,
    /// The number of the present window, from 1, modulo 2^32.
    opened: u32,
    /// Instructions of a window, if those that return within one are counted apart; else 0.
    long: u32,
}

/// Rough sizes of a table entry with its share of the hash table, in bytes.
const LIST_BYTES: usize = 608;
const PROFILE_BYTES: usize = 2 * size_of::<ValueProfile>();
const SITE_BYTES: usize = 2 * (size_of::<Site>() + size_of::<(Owner, Pc, SiteId)>());
const CYCLES_BYTES: usize = 2 * size_of::<(Arrival, Cycles)>();
const CALL_BYTES: usize = 2 * size_of::<((Owner, PcId, Option<PcId>), Calls)>();
const PC_BYTES: usize = 3 * size_of::<Pc>() + 8;

impl Tables {
    /// Empty tables with room for `budget` bytes, for windows of so many instructions.
    pub(crate) fn new(config: Config, budget: usize, window: u32) -> Self {
        Self {
            pcs: Vec::new(),
            pc_ids: FxHashMap::default(),
            subjects: Vec::new(),
            subject_ids: FxHashMap::default(),
            processes: FxHashMap::default(),
            last_owner: None,
            cycles: FxHashMap::default(),
            sites: Vec::new(),
            site_ids: FxHashMap::default(),
            marked: Vec::new(),
            profiles: Vec::new(),
            returns: Vec::new(),
            spilled: FxHashMap::default(),
            branches: Vec::new(),
            calls: FxHashMap::default(),
            tally: Tally::default(),
            counts: FxHashMap::default(),
            lost: Lost::default(),
            config,
            budget,
            lists: 0,
            evenness: 1.0,
            times: 1,
            weight: ways::weight(1, 1.0),
            opened: 1,
            long: returns::long(window),
        }
    }

    /// Bytes in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.lists * LIST_BYTES
            + self.profiles.len() * PROFILE_BYTES
            + self.returns.len() * 2 * size_of::<Returns>()
            + self.sites.len() * SITE_BYTES
            + self.marked.len() * size_of::<SiteId>()
            + self.branches.len() * 2 * size_of::<Branch>()
            + self.cycles.len() * CYCLES_BYTES
            + self.calls.len() * CALL_BYTES
            + self.pcs.len() * PC_BYTES
            + self.processes.len() * 128
    }

    /// Whether a flush is due for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.budget
    }

    /// Whether there is no room at all: a quarter above the budget, which leaves time to flush.
    fn is_over_full(&self) -> bool {
        self.bytes() >= self.budget + self.budget / 4
    }

    /// Adds to a counter; `kind` and `name` as in the table `counter` of the database.
    pub(crate) fn count(&mut self, kind: &'static str, name: &'static str, n: u64) {
        if n == 0 {
            return;
        }
        let places = [kind.as_ptr().addr(), name.as_ptr().addr()];
        let counter = self.counts.entry(places).or_insert((kind, name, 0));
        counter.2 = counter.2.saturating_add(n);
    }

    /// All counters, by kind and name. Losses are there even if there were none, so that a reader
    /// sees what was watched.
    pub(crate) fn counters(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut counters = BTreeMap::new();
        // The same words may stand in several places.
        let often = self.tally.each().into_iter().filter(|(.., n)| *n > 0);
        let lost = self.lost.each().map(|(loss, n)| (LOST, loss.name(), n));
        for (kind, name, n) in often.chain(self.counts.values().copied()).chain(lost) {
            let counter = counters.entry((kind, name)).or_insert(0_u64);
            *counter = counter.saturating_add(n);
        }
        counters
    }

    /// The index of a PC; `None` if there is no room.
    pub(crate) fn pc(&mut self, pc: Pc) -> Option<PcId> {
        if let Some(&id) = self.pc_ids.get(&pc) {
            return Some(id);
        }
        if self.is_over_full() {
            return None;
        }
        let id = PcId(u32::try_from(self.pcs.len()).ok()?);
        self.pcs.push(pc);
        self.pc_ids.insert(pc, id);
        Some(id)
    }

    /// A process with the subject of a sample of it; `row` is what is known of the process. Mostly
    /// it is that of the sample before. `None` if there is no room.
    pub(crate) fn owner(
        &mut self,
        process: ProcessId,
        subject: Subject,
        row: impl FnOnce() -> profiledb::Process,
    ) -> Option<Owner> {
        if let Some((of, last)) = self.last_owner
            && of == subject
            && last.process == process
        {
            return Some(last);
        }
        let known = |tables: &Self| {
            tables.subject_ids.contains_key(&subject) && tables.processes.contains_key(&process)
        };
        if self.is_over_full() && !known(self) {
            return None;
        }
        let owner = Owner {
            process,
            subject: self.subject(subject),
        };
        self.processes.entry(process).or_insert_with(row);
        self.last_owner = Some((subject, owner));
        Some(owner)
    }

    fn subject(&mut self, subject: Subject) -> SubjectId {
        let next = SubjectId(u32::try_from(self.subjects.len()).unwrap_or(u32::MAX));
        let subjects = &mut self.subjects;
        *self.subject_ids.entry(subject).or_insert_with(|| {
            subjects.push(subject);
            next
        })
    }

    /// Counts interrupts and the sum of their intervals. Where there is no room for the caller, it
    /// is left out; where there is none at all, they are counted as lost. Returns the caller's
    /// index.
    pub(crate) fn add_cycles(
        &mut self,
        owner: Owner,
        pc: Pc,
        caller: Option<Pc>,
        samples: u64,
        weight: u64,
    ) -> Option<PcId> {
        let key = Arrival { owner, pc, caller };
        let cycles = match self.cycles.get_mut(&key) {
            Some(cycles) => cycles,
            None => match self.new_cycles(key) {
                Some(cycles) => cycles,
                None => {
                    self.lost.count(Loss::TableFullSamples, samples);
                    return None;
                }
            },
        };
        cycles.samples = cycles.samples.saturating_add(samples);
        cycles.weight = cycles.weight.saturating_add(weight);
        cycles.caller
    }

    /// Where interrupts are counted that come there for the first time; `None` if there is no room.
    fn new_cycles(&mut self, key: Arrival) -> Option<&mut Cycles> {
        let pc = self.pc(key.pc)?;
        let caller = key.caller.and_then(|caller| self.pc(caller));
        let key = Arrival {
            caller: key.caller.filter(|_| caller.is_some()),
            ..key
        };
        if self.is_over_full() && !self.cycles.contains_key(&key) {
            return None;
        }
        Some(self.cycles.entry(key).or_insert(Cycles {
            pc,
            caller,
            samples: 0,
            weight: 0,
        }))
    }

    /// The interrupts at each PC, whose they are, and who called.
    pub(crate) fn cycles(&self) -> impl Iterator<Item = (Owner, Cycles)> {
        self.cycles.iter().map(|(key, cycles)| (key.owner, *cycles))
    }

    /// The samples of each owner.
    pub(crate) fn samples(&self) -> FxHashMap<Owner, u64> {
        let mut samples = FxHashMap::default();
        for (key, cycles) in &self.cycles {
            *samples.entry(key.owner).or_insert(0) += cycles.samples;
        }
        samples
    }

    /// Whether events that come back within a window are counted apart, as those of executions.
    /// Then first events are those of time, for which all windows count.
    pub(crate) fn tells_executions(&self) -> bool {
        self.long != 0
    }

    /// A window begins, whose events count so often. Of its branches and calls a part counts: those
    /// are of executions, and have no counts of time beside them.
    pub(crate) fn begin_window(&mut self, times: u32, part: f64) {
        (self.times, self.weight) = (times, ways::weight(times, part));
        self.opened = self.opened.wrapping_add(1);
        if times > 1 {
            self.count("run", "windows_twice", 1);
        }
        if part < 1.0 {
            self.count("run", "windows_in_part", 1);
        }
    }
}
