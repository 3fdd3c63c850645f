//! What has been collected since the last flush: cycles, hotlists, branches, calls, counters.
//!
//! Memory is bounded: every entry is counted against a budget, and when it is used up the
//! caller flushes. Should that fail, what does not fit is counted as lost.

use std::collections::BTreeMap;

use hotlist::{Config, Generator, Hotlist};
use interpreter::Parameter;
use profiledb::Subject;
use rustc_hash::FxHashMap;

use crate::images::ImageId;
use crate::loadmap::ProcessId;

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

/// A value profile.
#[derive(Debug, Default)]
pub(crate) struct ValueProfile {
    pub(crate) reached: u64,
    pub(crate) unknown: u64,
    pub(crate) windows: u64,
    last_window: u64,
    /// Made with the first known value.
    pub(crate) list: Option<Box<Hotlist<u64>>>,
}

/// Interrupts at a PC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cycles {
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

/// Directions of a branch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Directions {
    pub(crate) taken: u64,
    pub(crate) not_taken: u64,
    pub(crate) unknown: u64,
}

/// Everything collected since the last flush.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) pcs: Vec<Pc>,
    pc_ids: FxHashMap<Pc, PcId>,
    pub(crate) subjects: Vec<Subject>,
    subject_ids: FxHashMap<Subject, SubjectId>,
    pub(crate) processes: FxHashMap<ProcessId, profiledb::Process>,
    pub(crate) cycles: FxHashMap<(Owner, PcId, Option<PcId>), Cycles>,
    pub(crate) profiles: FxHashMap<ProfileKey, ValueProfile>,
    pub(crate) branches: FxHashMap<(Owner, PcId), Directions>,
    pub(crate) calls: FxHashMap<(Owner, PcId, Option<PcId>), u64>,
    pub(crate) counters: BTreeMap<(&'static str, &'static str), u64>,
    config: Config,
    budget: usize,
    lists: usize,
}

/// Everything that can be lost.
const LOSSES: [&str; 13] = [
    "malformed_records",
    "readers_failed",
    "ring_records",
    "ring_samples",
    "samples_without_room",
    "table_full_branches",
    "table_full_calls",
    "table_full_samples",
    "table_full_values",
    "undelivered_records",
    "unmapped_pc_samples",
    "values_of_samples_without_room",
    "windows_of_gone_processes",
];

/// Rough sizes of a table entry with its share of the hash table, in bytes.
const LIST_BYTES: usize = size_of::<Hotlist<u64>>() + 16;
const PROFILE_BYTES: usize = 2 * (size_of::<ProfileKey>() + size_of::<ValueProfile>());
const CYCLES_BYTES: usize = 2 * (size_of::<(Owner, PcId, Option<PcId>)>() + size_of::<Cycles>());
const PC_BYTES: usize = 3 * size_of::<Pc>() + 8;

impl Tables {
    /// Empty tables with room for `budget` bytes.
    pub(crate) fn new(config: Config, budget: usize) -> Self {
        Self {
            pcs: Vec::new(),
            pc_ids: FxHashMap::default(),
            subjects: Vec::new(),
            subject_ids: FxHashMap::default(),
            processes: FxHashMap::default(),
            cycles: FxHashMap::default(),
            profiles: FxHashMap::default(),
            branches: FxHashMap::default(),
            calls: FxHashMap::default(),
            counters: BTreeMap::new(),
            config,
            budget,
            lists: 0,
        }
    }

    /// Bytes in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.lists * LIST_BYTES
            + self.profiles.len() * PROFILE_BYTES
            + (self.cycles.len() + self.branches.len() + self.calls.len()) * CYCLES_BYTES
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
        if n > 0 {
            let counter = self.counters.entry((kind, name)).or_insert(0);
            *counter = counter.saturating_add(n);
        }
    }

    /// Counts zero of everything that can be lost, so that a reader sees what was watched.
    pub(crate) fn declare_losses(&mut self) {
        for name in LOSSES {
            self.counters.entry(("lost", name)).or_insert(0);
        }
    }

    /// Everything lost since the last flush.
    pub(crate) fn losses(&self) -> u64 {
        let lost = self
            .counters
            .iter()
            .filter(|((kind, _), _)| *kind == "lost");
        lost.map(|(_, count)| count).sum()
    }

    /// The index of a PC.
    pub(crate) fn pc(&mut self, pc: Pc) -> PcId {
        let next = PcId(u32::try_from(self.pcs.len()).unwrap_or(u32::MAX));
        let pcs = &mut self.pcs;
        *self.pc_ids.entry(pc).or_insert_with(|| {
            pcs.push(pc);
            next
        })
    }

    /// The index of a subject.
    pub(crate) fn subject(&mut self, subject: Subject) -> SubjectId {
        let next = SubjectId(u32::try_from(self.subjects.len()).unwrap_or(u32::MAX));
        let subjects = &mut self.subjects;
        *self.subject_ids.entry(subject).or_insert_with(|| {
            subjects.push(subject);
            next
        })
    }

    /// Counts interrupts and the sum of their intervals.
    pub(crate) fn add_cycles(
        &mut self,
        owner: Owner,
        pc: PcId,
        caller: Option<PcId>,
        samples: u64,
        weight: u64,
    ) {
        let key = (owner, pc, caller);
        if self.is_over_full() && !self.cycles.contains_key(&key) {
            return self.count("lost", "table_full_samples", samples);
        }
        let cycles = self.cycles.entry(key).or_default();
        cycles.samples = cycles.samples.saturating_add(samples);
        cycles.weight = cycles.weight.saturating_add(weight);
    }

    /// Counts a value event; `None`: reached, but the value is not known.
    pub(crate) fn add_value(
        &mut self,
        key: ProfileKey,
        value: Option<u64>,
        window: u64,
        time: u64,
        coins: &mut Generator,
    ) {
        if self.is_over_full() && !self.profiles.contains_key(&key) {
            return self.count("lost", "table_full_values", 1);
        }
        let profile = self.profiles.entry(key).or_default();
        profile.reached += 1;
        let Some(value) = value else {
            profile.unknown += 1;
            return;
        };
        if profile.last_window != window {
            profile.last_window = window;
            profile.windows += 1;
        }
        let list = profile.list.get_or_insert_with(|| {
            self.lists += 1;
            Box::new(Hotlist::new(&self.config))
        });
        list.update(value, time, coins);
    }

    /// Counts a direction of a conditional branch.
    pub(crate) fn add_branch(&mut self, owner: Owner, pc: PcId, taken: Option<bool>) {
        if self.is_over_full() && !self.branches.contains_key(&(owner, pc)) {
            return self.count("lost", "table_full_branches", 1);
        }
        let directions = self.branches.entry((owner, pc)).or_default();
        match taken {
            Some(true) => directions.taken += 1,
            Some(false) => directions.not_taken += 1,
            None => directions.unknown += 1,
        }
    }

    /// Counts a call.
    pub(crate) fn add_call(&mut self, owner: Owner, site: PcId, callee: Option<PcId>) {
        let key = (owner, site, callee);
        if self.is_over_full() && !self.calls.contains_key(&key) {
            return self.count("lost", "table_full_calls", 1);
        }
        *self.calls.entry(key).or_insert(0) += 1;
    }
}
