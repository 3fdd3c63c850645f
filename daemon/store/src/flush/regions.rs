//! What lies where the values of a flush point.

use addresses::ProcessAddress;
use counters::Counter;
use interpreter::Parameter;
use profiledb::{Error, Flush, Mapped, ProcessRowId, Subject};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Snapshot;
use consumers::events::Owner;
use consumers::tables::Tables;
use machine::images::{ImageId, Images};
use machine::layout::{Layout, Region};
use machine::loadmap::{Loadmap, ProcessId};

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
            None => match layout.region(ProcessAddress(value), images) {
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
        | Parameter::Result
        | Parameter::PairMem
        | Parameter::Operand(_)
        | Parameter::Arg(_)
        | Parameter::ArgIn(_)
        | Parameter::Syscall(_) => Some(LEAST),
        Parameter::Single(_)
        | Parameter::Double(_)
        | Parameter::DestWord(..)
        | Parameter::PairWord(..)
        | Parameter::Taken
        | Parameter::VectorRet
        | Parameter::VectorResult
        | Parameter::VectorArg(_)
        | Parameter::Stride
        | Parameter::Line
        | Parameter::Reload
        | Parameter::Silent
        | Parameter::Text(_)
        | Parameter::Sched => None,
    }
}

/// A region, of whose memory, and who may see it.
pub(super) type Told = (ProcessId, Subject, Region);

/// What lies where the values of some tables point: of each owner that much alone, so that whoever
/// sees the values sees no more of a process than these. With it, of how many processes some found
/// no room.
fn pointed(tables: &Tables, loadmap: &mut Loadmap, images: &mut Images) -> (Vec<Told>, u64) {
    let shared = &tables.shared;
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
    let values = &tables.consumers.values;
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
    let entries = tables.consumers.entries.each();
    for ((owner, _), profile, _) in entries.filter(|(_, profile, _)| profile.may_point()) {
        for tuple in profile.list.tuples() {
            if may_be(tuple.value, LEAST) {
                add(owner, tuple.value);
            }
        }
    }
    let mut told = Vec::new();
    for (owner, pointed) in all {
        if let Some(subject) = shared.subjects.get(owner.subject.0 as usize) {
            let regions = pointed.regions.into_iter();
            told.extend(regions.map(|region| (owner.process, *subject, region)));
        }
    }
    told.sort_unstable_by_key(|(process, _, region)| (*process, *region));
    (told, full.len() as u64)
}

impl Snapshot {
    /// Finds out what lies where its values point.
    pub(super) fn look_at_regions(&mut self, loadmap: &mut Loadmap, images: &mut Images) {
        let (told, full) = pointed(&self.tables, loadmap, images);
        self.regions = told;
        let not_kept = full + loadmap.begin_flush();
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
    pub(super) fn regions_of(&self, is_wanted: impl Fn(&Subject) -> bool) -> Vec<Told> {
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

#[cfg(test)]
mod tests {
    use hotlist::{Config, Generator};
    use iced_x86::Register;
    use interpreter::Parameter;
    use sampler::{Mmap, MmapIdentity, Pid, Tid};

    use super::*;
    use consumers::events::{At, Consumer as _, Context, Options};
    use machine::place::Pc;

    const PID: Pid = Pid(4_000_001);
    const HEAP: u64 = 0x5555_0000_0000;
    const OTHER: u64 = 0x7777_0000_0000;

    fn loadmap(images: &mut Images) -> Loadmap {
        let mut loadmap = Loadmap::new(1 << 20);
        loadmap.fork(PID, Pid(4_000_000), 1);
        loadmap.comm(PID, true, "p", true, 2);
        for (path, start, prot) in [("[heap]", HEAP, 3), ("//anon", OTHER, 3)] {
            let mmap = Mmap {
                time: 3,
                pid: PID,
                tid: Tid(PID.0),
                address: start,
                len: 0x5000,
                offset: 0,
                identity: MmapIdentity::Inode {
                    major: 0,
                    minor: 0,
                    inode: 0,
                    generation: 0,
                },
                prot,
                flags: 2,
                path: std::path::Path::new(path).into(),
            };
            loadmap.mmap(&mmap, images);
        }
        loadmap.get(PID).expect("a process").sampled = true;
        loadmap
    }

    /// Tables with these values of the process, each of a user.
    fn tables(loadmap: &mut Loadmap, values: &[(u32, Parameter, u64)]) -> Tables {
        let options = Options {
            lists: Config::default().precise(),
            window: 16,
            by_caller: false,
        };
        let mut tables = Tables::new(&options, 1 << 20, Generator::new(1));
        let process = loadmap.get(PID).expect("a process");
        for (uid, parameter, value) in values {
            let subject = Subject {
                uid: Some(*uid),
                ..Subject::default()
            };
            let shared = &mut tables.shared;
            let owner = shared.owner(process.id, subject, || process.row());
            let owner = owner.expect("room");
            let pc = Pc {
                image: ImageId(0),
                address: addresses::ImageAddress(0x10),
            };
            let window = Context {
                owner,
                is_kernel: false,
                number: 1,
                time: 1,
                times: 1,
                part: 1.0,
            };
            let at = At {
                window: &window,
                site: shared.site(owner, pc),
                depth: 1,
                caller: None,
            };
            let event = (*parameter, Some(*value));
            tables.consumers.values.values(shared, &at, &[event]);
        }
        tables
    }

    fn seen(told: &[Told]) -> Vec<(Option<u32>, Mapped<ImageId>)> {
        let told = told.iter();
        let mut seen: Vec<_> = told
            .map(|(_, subject, region)| (subject.uid, region.what))
            .collect();
        seen.sort();
        seen
    }

    /// Of each access tag the regions are told that its own values point to. A narrow register, a
    /// number and a small one are no pointers.
    #[test]
    fn whose_values_point() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let mut loadmap = loadmap(&mut images);
        let values = [
            (1, Parameter::Ea, HEAP + 8),
            (1, Parameter::Arg(0), HEAP + 0x4fff),
            (2, Parameter::Dest(Register::RAX), OTHER),
            (2, Parameter::Dest(Register::EAX), HEAP),
            (2, Parameter::Double(Register::XMM0), HEAP),
            (3, Parameter::Ret, HEAP + 0x5000),
            (3, Parameter::Ret, 77),
        ];
        let tables = tables(&mut loadmap, &values);
        let (told, full) = pointed(&tables, &mut loadmap, &mut images);
        assert_eq!(
            seen(&told),
            [(Some(1), Mapped::Heap), (Some(2), Mapped::Anon)]
        );
        assert_eq!(full, 0);
    }

    /// What a process that has ended, or that runs another program now, had mapped is known until
    /// the next flush.
    #[test]
    fn processes_that_went() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        for goes in [
            |loadmap: &mut Loadmap| loadmap.comm(PID, true, "other", true, 9),
            |loadmap: &mut Loadmap| {
                loadmap.exit(PID, true, 9);
                loadmap.exit(Pid(4_000_009), true, 9 + 2 * 1_000_000_000);
            },
        ] {
            let mut loadmap = loadmap(&mut images);
            let tables = tables(&mut loadmap, &[(1, Parameter::Ea, HEAP)]);
            goes(&mut loadmap);
            let id = tables.shared.processes.keys().next().copied();
            let is_there = loadmap
                .get(PID)
                .is_some_and(|process| Some(process.id) == id);
            assert!(!is_there);
            let (told, _) = pointed(&tables, &mut loadmap, &mut images);
            assert_eq!(seen(&told), [(Some(1), Mapped::Heap)]);
            loadmap.begin_flush();
            let (told, _) = pointed(&tables, &mut loadmap, &mut images);
            assert!(told.is_empty());
        }
    }
}
