//! What lies where the values of a flush point.

use counters::Counter;
use interpreter::Parameter;
use profiledb::{Error, Flush, Mapped, ProcessRowId, Subject};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Snapshot;
use crate::events::Owner;
use crate::machine::images::{ImageId, Images};
use crate::machine::layout::{Layout, Region};
use crate::machine::loadmap::{Loadmap, ProcessId};

/// Regions told of one process and access tag in one flush.
const MOST: usize = 64;
/// Smaller values may be numbers as well as pointers, and are told from them by what they are used
/// for.
const LEAST: u64 = 1 << 32;
/// Where user space ends.
const END: u64 = 1 << 47;

/// What the values of an owner point to.
#[derive(Default)]
struct Pointed {
    regions: FxHashSet<Region>,
    /// The one that the last value was in.
    last: Option<Region>,
}

impl Pointed {
    /// Takes note of what a value points to. False: it found no room.
    fn add(&mut self, value: u64, layout: &Layout, images: &mut Images) -> bool {
        let has = |region: &Region| (region.start..region.end).contains(&value);
        if self.last.as_ref().is_some_and(has) {
            return true;
        }
        let known = self.regions.iter().find(|region| has(region)).copied();
        self.last = match known {
            Some(region) => Some(region),
            None => match layout.region(value, images) {
                Some(_) if self.regions.len() >= MOST => return false,
                Some(region) => {
                    self.regions.insert(region);
                    Some(region)
                }
                None => return true,
            },
        };
        true
    }
}

/// Whether the values of a parameter may be pointers: from which number on.
fn least(parameter: Parameter) -> Option<u64> {
    match parameter {
        Parameter::Ea | Parameter::Base => Some(0),
        Parameter::Dest(register) | Parameter::Pair(register) => {
            (register.size() == 8).then_some(LEAST)
        }
        Parameter::Mem
        | Parameter::MemWord(_)
        | Parameter::Load
        | Parameter::LoadWord(_)
        | Parameter::Old
        | Parameter::OldWord(_)
        | Parameter::Target
        | Parameter::Ret
        | Parameter::Operand(_)
        | Parameter::Arg(_)
        | Parameter::ArgIn(_)
        | Parameter::Syscall(_) => Some(LEAST),
        Parameter::Single(_)
        | Parameter::Double(_)
        | Parameter::DestWord(..)
        | Parameter::Taken
        | Parameter::VectorRet
        | Parameter::VectorArg(_)
        | Parameter::Stride
        | Parameter::Line
        | Parameter::Reload
        | Parameter::Silent
        | Parameter::Text(_)
        | Parameter::Sched => None,
    }
}

impl Snapshot {
    /// Finds out what lies where values point: of each owner that much alone, so that whoever sees
    /// the values sees no more of a process than these.
    pub(super) fn look_at_regions(&mut self, loadmap: &mut Loadmap, images: &mut Images) {
        let shared = &self.tables.shared;
        let mut layouts: FxHashMap<ProcessId, Option<Layout>> = FxHashMap::default();
        let mut all: FxHashMap<Owner, Pointed> = FxHashMap::default();
        let mut full: FxHashSet<ProcessId> = FxHashSet::default();
        let mut add = |owner: Owner, value: u64| {
            let layout = layouts.entry(owner.process).or_insert_with(|| {
                let process = shared.processes.get(&owner.process)?;
                loadmap.layout(sampler::Pid(process.pid), owner.process)
            });
            let Some(layout) = layout else { return };
            if !all.entry(owner).or_default().add(value, layout, images) {
                full.insert(owner.process);
            }
        };
        let may_be = |value: u64, least: u64| value >= least && value < END;
        let values = &self.tables.consumers.values;
        for profile in &values.profiles {
            let Some(least) = least(profile.key.parameter) else {
                continue;
            };
            let returns = values.returns_of(profile).map(|returns| &returns.list);
            let lists = profile.list.as_ref().into_iter().chain(returns);
            for tuple in lists.flat_map(|list| list.tuples()) {
                if may_be(tuple.value, least) {
                    add(profile.key.owner, tuple.value);
                }
            }
        }
        for ((owner, _), profile, _) in self.tables.consumers.entries.each() {
            for tuple in profile.list.tuples() {
                if may_be(tuple.value, LEAST) {
                    add(owner, tuple.value);
                }
            }
        }
        for (owner, pointed) in all {
            if let Some(subject) = shared.subjects.get(owner.subject.0 as usize) {
                let regions = pointed.regions.into_iter();
                let regions = regions.map(|region| (owner.process, *subject, region));
                self.regions.extend(regions);
            }
        }
        self.regions
            .sort_unstable_by_key(|(process, _, region)| (*process, *region));
        let not_kept = full.len() as u64 + loadmap.begin_flush();
        self.tables.count(Counter::RegionsNotKept, not_kept);
        for (_, _, region) in &self.regions {
            if let Mapped::Image { image, .. } = region.what
                && !self.images.contains_key(&image)
                && let Some(row) = images.row(image)
            {
                self.images.insert(image, row);
            }
        }
    }

    /// Those of access tags that pass a test.
    pub(super) fn regions_of(
        &self,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> Vec<(ProcessId, Subject, Region)> {
        let regions = self.regions.iter();
        regions
            .filter(|(_, subject, _)| is_wanted(subject))
            .copied()
            .collect()
    }

    /// Writes them.
    pub(super) fn write_regions(
        &self,
        flush: &mut Flush<'_>,
        processes: &FxHashMap<ProcessId, ProcessRowId>,
    ) -> Result<(), Error> {
        for (process, subject, region) in &self.regions {
            let Some(process) = processes.get(process) else {
                continue;
            };
            let subject = flush.subject(subject)?;
            let mut row = |image: ImageId| {
                let row = self.images.get(&image)?;
                Some(flush.image(row))
            };
            let what = match region.what {
                Mapped::Image { image, address } => match row(image).transpose()? {
                    Some(image) => Mapped::Image { image, address },
                    None => continue,
                },
                Mapped::Heap => Mapped::Heap,
                Mapped::Stack => Mapped::Stack,
                Mapped::Anon => Mapped::Anon,
            };
            let (start, end) = (region.start, region.end);
            flush.region(*process, subject, &profiledb::Region { start, end, what })?;
        }
        Ok(())
    }
}
