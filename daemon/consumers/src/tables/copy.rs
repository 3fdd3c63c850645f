//! A copy of what has been collected of some: for readers, while it is being added to.

use counters::Counter;
use profiledb::Subject;
use rustc_hash::FxHashSet;

use super::{CYCLES_BYTES, Cycles, Tables};
use crate::events::{NONE, Owner, PcId, SubjectId};
use machine::place::Pc;

/// Which tables are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Samples by place.
    pub cycles: bool,
    /// Value profiles.
    pub values: bool,
    /// Directions of conditional branches.
    pub branches: bool,
    /// Calls and indirect jumps.
    pub calls: bool,
    /// Call stacks.
    pub stacks: bool,
    /// All counters, of whomever they tell: else the samples of what is copied are counted.
    pub counters: bool,
}

impl Wanted {
    /// Whether anything is copied.
    pub fn is_any(&self) -> bool {
        let Self {
            cycles,
            values,
            branches,
            calls,
            stacks,
            counters,
        } = *self;
        cycles || values || branches || calls || stacks || counters
    }
}

/// PCs of the copy, by their indices in the tables copied from.
struct Pcs<'a> {
    all: &'a [Pc],
    new: Vec<Pc>,
    /// Of each of `new`, which it was.
    old: Vec<PcId>,
    new_of: Vec<u32>,
}

impl Pcs<'_> {
    fn of(&mut self, old: PcId) -> PcId {
        let Some(new) = self.new_of.get_mut(old.0 as usize) else {
            return PcId(NONE);
        };
        if *new == NONE
            && let Some(pc) = self.all.get(old.0 as usize)
        {
            // There are no more of them than in the tables copied from.
            *new = u32::try_from(self.new.len()).unwrap_or(NONE);
            self.new.push(*pc);
            self.old.push(old);
        }
        PcId(*new)
    }
}

impl Tables {
    /// What is there of the owners with access tags that pass the test, as far as it is wanted.
    /// Nothing can be added to the copy. With it comes which index each of its PCs has here.
    pub fn copy(
        &self,
        wanted: Wanted,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> (Tables, Vec<PcId>) {
        let subjects: FxHashSet<u32> = (0..)
            .zip(&self.shared.subjects)
            .filter(|(_, subject)| is_wanted(subject))
            .map(|(id, _)| id)
            .collect();
        let takes = |owner: &Owner| {
            let SubjectId(id) = owner.subject;
            subjects.contains(&id)
        };
        let mut copy = self.empty(0);
        copy.shared.subjects = self.shared.subjects.clone();
        copy.evenness = self.evenness;
        let mut pcs = Pcs {
            all: &self.shared.pcs,
            new: Vec::new(),
            old: Vec::new(),
            new_of: vec![NONE; self.shared.pcs.len()],
        };
        let mut owners: FxHashSet<Owner> = FxHashSet::default();
        // How even windows come is told by all samples of their owner.
        if wanted.cycles || wanted.values {
            for (key, cycles) in self.cycles.iter().filter(|(key, _)| takes(&key.owner)) {
                owners.insert(key.owner);
                let cycles = Cycles {
                    pc: pcs.of(cycles.pc),
                    caller: cycles.caller.map(|caller| pcs.of(caller)),
                    ..*cycles
                };
                copy.cycles.insert(*key, cycles);
                copy.shared.budget.charge(CYCLES_BYTES);
            }
        }
        let (from, to) = (&self.consumers, &mut copy.consumers);
        if wanted.values {
            let profiles = from.values.profiles.iter();
            for profile in profiles.filter(|profile| takes(&profile.key.owner)) {
                owners.insert(profile.key.owner);
                let all = (&from.values, profile);
                to.values.copy(all, &mut copy.shared, |pc| pcs.of(pc));
            }
            let all = &from.entries;
            to.entries
                .copy(all, &mut copy.shared, takes, |pc| pcs.of(pc));
            owners.extend(to.entries.owners());
        }
        if wanted.branches {
            let all = (&from.branches, &self.shared);
            to.branches
                .copy(all, &mut copy.shared, takes, |pc| pcs.of(pc));
            owners.extend(copy.shared.sites.iter().map(|site| site.owner));
        }
        if wanted.calls {
            let all = &from.calls;
            to.calls.copy(all, &mut copy.shared, takes, |pc| pcs.of(pc));
            owners.extend(to.calls.owners());
        }
        if wanted.stacks {
            let all = &from.stacks;
            to.stacks
                .copy(all, &mut copy.shared, takes, |pc| pcs.of(pc));
            owners.extend(to.stacks.owners());
        }
        let Pcs { new, old, .. } = pcs;
        copy.shared.put_pcs(new);
        let processes: FxHashSet<_> = owners.iter().map(|owner| owner.process).collect();
        let all = self.shared.processes.iter();
        for (id, process) in all.filter(|(id, _)| processes.contains(id)) {
            copy.shared.put_process(*id, process.clone());
        }
        if wanted.counters {
            let copied = copy.counters();
            for (what, n) in self.counters() {
                let of_copy = copied.get(&what).copied().unwrap_or(0);
                copy.count(what, n.saturating_sub(of_copy));
            }
        } else {
            let samples = copy.cycles.values().map(|cycles| cycles.samples).sum();
            copy.count(Counter::Samples, samples);
        }
        (copy, old)
    }
}
