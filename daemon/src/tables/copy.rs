//! A copy of what has been collected of some: for readers, while it is being added to.

use profiledb::Subject;
use rustc_hash::{FxHashMap, FxHashSet};

use super::returns::Returns;
use super::sites::Site;
use super::{Cycles, NONE, Owner, Pc, PcId, ProfileKey, SubjectId, Tables, ValueProfile};

/// Which tables are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) cycles: bool,
    pub(crate) values: bool,
    pub(crate) branches: bool,
    pub(crate) calls: bool,
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
    /// Nothing can be added to the copy, and only the counter of samples is in it. With it comes
    /// which index each of its PCs has here.
    pub(crate) fn copy(
        &self,
        wanted: Wanted,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> (Tables, Vec<PcId>) {
        let subjects: FxHashSet<u32> = (0..)
            .zip(&self.subjects)
            .filter(|(_, subject)| is_wanted(subject))
            .map(|(id, _)| id)
            .collect();
        let takes = |owner: &Owner| {
            let SubjectId(id) = owner.subject;
            subjects.contains(&id)
        };
        let mut copy = Tables::new(self.config, 0, 0);
        copy.subjects = self.subjects.clone();
        copy.evenness = self.evenness;
        let mut pcs = Pcs {
            all: &self.pcs,
            new: Vec::new(),
            old: Vec::new(),
            new_of: vec![NONE; self.pcs.len()],
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
            }
        }
        if wanted.values {
            for profile in self.profiles.iter().filter(|one| takes(&one.key.owner)) {
                owners.insert(profile.key.owner);
                copy.copy_profile(profile, &self.returns, &mut pcs);
            }
        }
        if wanted.branches {
            for site in self.sites.iter().filter(|site| takes(&site.owner)) {
                let Some(branch) = self.branches.get(site.branch as usize) else {
                    continue;
                };
                owners.insert(site.owner);
                let new = u32::try_from(copy.branches.len()).unwrap_or(NONE);
                copy.branches.push(*branch);
                copy.sites.push(Site {
                    id: pcs.of(site.id),
                    first: NONE,
                    branch: new,
                    ..*site
                });
            }
        }
        if wanted.calls {
            for ((owner, site, callee), calls) in &self.calls {
                if takes(owner) {
                    owners.insert(*owner);
                    let callee = callee.map(|callee| pcs.of(callee));
                    copy.calls.insert((*owner, pcs.of(*site), callee), *calls);
                }
            }
        }
        copy.pcs = pcs.new;
        let processes: FxHashSet<_> = owners.iter().map(|owner| owner.process).collect();
        let processes = self
            .processes
            .iter()
            .filter(|(id, _)| processes.contains(id));
        copy.processes = processes
            .map(|(id, process)| (*id, process.clone()))
            .collect::<FxHashMap<_, _>>();
        let samples = copy.cycles.values().map(|cycles| cycles.samples).sum();
        copy.count("run", "samples", samples);
        (copy, pcs.old)
    }

    fn copy_profile(&mut self, profile: &ValueProfile, returns: &[Returns], pcs: &mut Pcs<'_>) {
        let of_executions = returns.get(profile.returns as usize).map(|returns| {
            self.returns.push(returns.clone());
            u32::try_from(self.returns.len() - 1).unwrap_or(NONE)
        });
        self.profiles.push(ValueProfile {
            key: ProfileKey {
                pc: pcs.of(profile.key.pc),
                caller: profile.key.caller.map(|caller| pcs.of(caller)),
                ..profile.key
            },
            next: NONE,
            returns: of_executions.unwrap_or(NONE),
            list: profile.list.clone(),
            ..*profile
        });
        self.lists += usize::from(profile.list.is_some());
    }
}
