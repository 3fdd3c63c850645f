//! Code that a process makes at run time: what its runtime calls it, and when.
//!
//! Each process has images of its own for it. Generation 0 is code without a name; a line of the
//! runtime's file puts its addresses into the generation behind those that it replaces, so that two
//! pieces of code which lay at one address one after the other stay apart. Lines bear no time:
//! each is known to have come between two looks. A sample from between, of an address that had
//! another name before, has none. Code that has no name is told apart by its bytes (`replaced`).

use std::collections::BTreeMap;
use std::path::Path;

use addresses::{Bias, ImageAddress, ProcessAddress, ProcessRange};
use sampler::Pid;

use super::replaced::Replaced;
use super::{Identity, ImageId, Images};
use crate::jitdump::{JitDump, Loaded};
use crate::mapping::Mapping;
use crate::perfmap::{Line, PerfMap};

/// Bytes of names, of all processes together.
const MAX_BYTES: usize = 48 << 20;
/// What a name takes beside its text.
const ONE: usize = 128;
/// What is set in the generation of code without a name that is not the first.
const UNNAMED: u32 = 1 << 31;
/// Generations told apart.
const MAX_GENERATIONS: u32 = 256;
/// Files that processes have mapped which make no code yet.
const MAX_DUMPS: usize = 1024;
/// Names that an address had, of which so many are looked at.
const MAX_STEPS: usize = 512;

/// Start, size and name of a piece of code.
pub type NamedCode = (u64, u64, String);

/// Between two looks, by the samples' clock.
type Between = (u64, u64);

/// Code with a name.
#[derive(Clone, Debug)]
struct Named {
    line: Line,
    generation: u32,
    came: Between,
    went: Option<Between>,
}

/// The code of one process.
#[derive(Debug)]
pub(super) struct Generated {
    pid: Pid,
    started: u64,
    execs: u32,
    path: String,
    map: PerfMap,
    dump: Option<JitDump>,
    looked: u64,
    /// The images of its generations.
    images: Vec<ImageId>,
    /// Of code without a name, by its bytes.
    replaced: Replaced,
    /// The images of the generations of these but the first.
    unnamed: Vec<ImageId>,
    /// What has its name now, by start; nothing overlaps.
    now: BTreeMap<u64, Named>,
    /// What had it before, by start.
    before: BTreeMap<u64, Vec<Named>>,
    /// The longest of these.
    longest: u64,
    bytes: usize,
    /// Nobody had it mapped at the last look.
    idle: bool,
}

impl Generated {
    /// What an address was called at a time, if it was looked since.
    fn find(&self, address: u64, time: u64) -> Option<&Named> {
        if time > self.looked {
            return None;
        }
        let now = self.now(address);
        if let Some(now) = now
            && now.came.1 <= time
        {
            return Some(now);
        }
        let mut candidates = self.earlier(address).chain(now).filter(|named| {
            named.came.0 < time && named.went.is_none_or(|(_, surely)| time < surely)
        });
        let found = candidates.next()?;
        candidates.next().is_none().then_some(found)
    }

    fn now(&self, address: u64) -> Option<&Named> {
        let (_, named) = self.now.range(..=address).next_back()?;
        (address < named.line.end).then_some(named)
    }

    fn earlier(&self, address: u64) -> impl Iterator<Item = &Named> {
        let from = address.saturating_sub(self.longest);
        let near = self.before.range(from..=address).rev();
        let near = near.flat_map(|(_, named)| named.iter().rev());
        near.filter(move |named| address < named.line.end)
            .take(MAX_STEPS)
    }

    /// Takes a line that came between these times; false if it has no room.
    fn add(&mut self, line: Line, came: Between) -> bool {
        let overlapping: Vec<u64> = self
            .now
            .range(..line.end)
            .rev()
            .take_while(|(_, named)| named.line.end > line.start)
            .map(|(start, _)| *start)
            .collect();
        let same = |start: &u64| self.now.get(start).is_some_and(|named| named.line == line);
        if overlapping.len() == 1 && overlapping.first().is_some_and(same) {
            return true;
        }
        // All that was ever there is of an earlier generation.
        let mut generation = 0;
        let from = line.start.saturating_sub(self.longest);
        for (_, earlier) in self.before.range(from..line.end) {
            for named in earlier.iter().filter(|named| named.line.end > line.start) {
                generation = generation.max(named.generation);
            }
        }
        for start in &overlapping {
            if let Some(named) = self.now.get(start) {
                generation = generation.max(named.generation);
            }
        }
        generation += 1;
        if generation >= MAX_GENERATIONS {
            return false;
        }
        for start in overlapping {
            if let Some(mut named) = self.now.remove(&start) {
                named.went = Some(came);
                self.longest = self.longest.max(named.line.end - named.line.start);
                self.before.entry(start).or_default().push(named);
            }
        }
        self.bytes += ONE + line.name.len();
        let start = line.start;
        let named = Named {
            line,
            generation,
            came,
            went: None,
        };
        self.now.insert(start, named);
        true
    }

    /// The part of a mapping around an address that is one piece of code, and its image.
    fn narrow(
        &self,
        mapping: &Mapping,
        ProcessAddress(address): ProcessAddress,
        time: u64,
    ) -> Option<Mapping> {
        let (start, end, image) = match self.find(address, time) {
            Some(Named {
                line, generation, ..
            }) => (line.start, line.end, self.images.get(*generation as usize)?),
            None => {
                let before = self.now.range(..=address).next_back();
                let next = self.now.range(address.saturating_add(1)..).next();
                let next = next.map_or(u64::MAX, |(start, _)| *start);
                let (start, end) = match before {
                    Some((start, named)) if address < named.line.end => (*start, named.line.end),
                    Some((_, named)) => (named.line.end, next),
                    None => (0, next),
                };
                let page = self.replaced.page(address).unwrap_or((0, u64::MAX));
                let generation = self.replaced.generation(address, time);
                let image = match generation.checked_sub(1) {
                    None => self.images.first()?,
                    Some(later) => self.unnamed.get(later)?,
                };
                (start.max(page.0), end.min(page.1), image)
            }
        };
        let mut part = mapping.part(ProcessRange::of_words(start, end));
        part.image = *image;
        Some(part)
    }
}

impl Images {
    /// Whether code may be made there at run time: in memory without a file, or in a file that
    /// others may write through.
    pub(crate) fn may_be_generated(&self, mapping: &Mapping) -> bool {
        mapping.executable && (mapping.is_anon() || self.is_shared(mapping.image))
    }

    /// The image of the code that a process makes, as far as it has no name.
    pub(crate) fn generated(&mut self, pid: Pid, started: u64, execs: u32, path: &str) -> ImageId {
        let identity = Identity::Generated {
            pid: pid.0,
            started,
            execs,
            generation: 0,
        };
        let id = self.intern(identity, path);
        let is_own = matches!(
            self.get(id).map(|image| &image.identity),
            Some(Identity::Generated { .. })
        );
        if is_own && !self.generated.contains_key(&id) {
            let generated = Generated {
                pid,
                started,
                execs,
                path: path.to_owned(),
                map: PerfMap::default(),
                dump: None,
                looked: 0,
                images: vec![id],
                replaced: Replaced::default(),
                unnamed: Vec::new(),
                now: BTreeMap::new(),
                before: BTreeMap::new(),
                longest: 0,
                bytes: 0,
                idle: false,
            };
            self.generated.insert(id, generated);
        }
        id
    }

    /// Takes note of a file in which a process tells of the code that it makes.
    pub(crate) fn note_dump(&mut self, pid: Pid, path: &Path) {
        if self.dumps.len() < MAX_DUMPS {
            self.dumps.insert(pid, path.to_owned());
        }
    }

    /// Whether any process makes code.
    pub fn has_generated(&self) -> bool {
        !self.generated.is_empty()
    }

    /// The processes that make code.
    pub fn makers(&self) -> Vec<Pid> {
        self.generated.values().map(|of| of.pid).collect()
    }

    /// Looks for new names of the code that processes make; `now` is taken before. Returns the
    /// processes whose code has another image, and from when on.
    pub fn look_at_generated(&mut self, only: Option<Pid>, now: u64) -> Vec<(Pid, u64)> {
        let mut renamed = Vec::new();
        let mut wanted = Vec::new();
        let mut bytes = self.generated_bytes;
        let mut not_kept = 0;
        for (id, generated) in &mut self.generated {
            if only.is_some_and(|only| only != generated.pid) {
                continue;
            }
            if let Some(path) = self.dumps.remove(&generated.pid) {
                generated.dump = Some(JitDump::new(path));
            }
            let (before, pid) = (generated.bytes, generated.pid);
            let mut loaded = Vec::new();
            if let Some(dump) = &mut generated.dump {
                let held = dump.bytes();
                loaded = dump.look(pid);
                generated.bytes += dump.bytes() - held;
            }
            let lines = generated.map.look(pid);
            // From the future nothing comes.
            let loaded = loaded.into_iter().map(|Loaded { time, line }| {
                let time = time.min(now);
                (line, (time.saturating_sub(1), time))
            });
            let came = (generated.looked, now);
            for (line, came) in loaded.chain(lines.into_iter().map(|line| (line, came))) {
                // In between code may have either name, and has none.
                renamed.extend([(pid, came.0 + 1), (pid, came.1)]);
                let is_kept =
                    bytes + generated.bytes - before < MAX_BYTES && generated.add(line, came);
                not_kept += u64::from(!is_kept);
            }
            generated.looked = now;
            bytes += generated.bytes - before;
            let generations = generated.now.values().map(|named| named.generation).max();
            wanted.push((*id, generations.unwrap_or(0)));
        }
        (self.generated_bytes, self.names_not_kept) = (bytes, self.names_not_kept + not_kept);
        for (id, generations) in wanted {
            self.make_generations(id, generations);
        }
        renamed.dedup();
        renamed
    }

    fn make_generations(&mut self, id: ImageId, generations: u32) {
        let Some(generated) = self.generated.get(&id) else {
            return;
        };
        let (pid, started, execs) = (generated.pid.0, generated.started, generated.execs);
        let (known, path) = (generated.images.len(), generated.path.clone());
        for generation in u32::try_from(known).unwrap_or(u32::MAX)..=generations {
            let identity = Identity::Generated {
                pid,
                started,
                execs,
                generation,
            };
            let image = self.intern(identity, &path);
            if let Some(generated) = self.generated.get_mut(&id) {
                generated.images.push(image);
            }
        }
    }

    /// Whether this is the image of the code that a process makes.
    pub fn is_generated(&self, id: ImageId) -> bool {
        self.generated.contains_key(&id)
    }

    /// Whether this is an image of code that a process makes, of any generation. Its addresses are
    /// the process's own.
    pub fn is_generated_code(&self, id: ImageId) -> bool {
        let image = self.get(id);
        image.is_some_and(|image| matches!(image.identity, Identity::Generated { .. }))
    }

    /// When an interrupt met other code in the page of an address than before, the last time.
    pub(crate) fn last_change(&self, id: ImageId, address: u64) -> u64 {
        let generated = self.generated.get(&id);
        generated.map_or(0, |generated| generated.replaced.last_change(address))
    }

    /// Takes notice of the code that an interrupt saw at an address, in order of time.
    pub fn observe(&mut self, id: ImageId, address: ProcessAddress, time: u64, code: &[u8]) {
        let Some(generated) = self.generated.get_mut(&id) else {
            return;
        };
        let address = address.0;
        if generated.find(address, time).is_some() {
            return;
        }
        generated.replaced.observe(address, time, code);
        let generations = generated.replaced.generations();
        if generations > generated.unnamed.len() {
            let (pid, started, execs) = (generated.pid.0, generated.started, generated.execs);
            let path = generated.path.clone();
            let first = generated.unnamed.len();
            for later in first..generations {
                let identity = Identity::Generated {
                    pid,
                    started,
                    execs,
                    generation: UNNAMED | u32::try_from(later).unwrap_or(0),
                };
                let image = self.intern(identity, &path);
                if let Some(generated) = self.generated.get_mut(&id) {
                    generated.unnamed.push(image);
                }
            }
        }
    }

    /// The part of a mapping around an address that is one piece of code that was made at run time,
    /// under its name at this time, if it is such a mapping.
    pub(crate) fn narrow(
        &self,
        mapping: &Mapping,
        address: ProcessAddress,
        time: u64,
    ) -> Option<Mapping> {
        let generated = self.generated.get(&mapping.image)?;
        generated.narrow(mapping, address, time)
    }

    /// Start, size and name of the generated code at these addresses of an image.
    pub fn names_of_generated(&self, id: ImageId, addresses: &[ImageAddress]) -> Vec<NamedCode> {
        let (id, _) = self.base(id);
        let Some(Identity::Generated { generation, .. }) =
            self.get(id).map(|image| image.identity.clone())
        else {
            return Vec::new();
        };
        let mut all = self.generated.values();
        let Some(own) = all.find(|generated| generated.images.contains(&id)) else {
            return Vec::new();
        };
        let name = |address: &ImageAddress| {
            let at = Bias::NONE.in_process(*address).0;
            let mut all = own.now(at).into_iter().chain(own.earlier(at));
            let named = all.find(|named| named.generation == generation)?;
            let line = &named.line;
            Some((line.start, line.end - line.start, line.name.clone()))
        };
        let mut names: Vec<_> = addresses.iter().filter_map(name).collect();
        names.dedup();
        names
    }

    /// Gives up the names of code that nobody has mapped, now or at the look before.
    pub(super) fn forget_generated(&mut self, mapped: &[bool]) {
        let mut bytes = 0;
        self.generated.retain(|id, generated| {
            let is_mapped = mapped.get(id.0 as usize).is_some_and(|mapped| *mapped);
            let was_idle = std::mem::replace(&mut generated.idle, !is_mapped);
            let stays = is_mapped || !was_idle;
            let held = generated.bytes + generated.replaced.bytes();
            bytes += if stays { held } else { 0 };
            stays
        });
        self.generated_bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::mapping;

    fn code(images: &mut Images) -> (ImageId, Mapping) {
        let id = images.generated(Pid(u32::MAX), 1, 0, "[anon]");
        (id, mapping(0x1000, 0x9000, 0, false).generated(id))
    }

    fn add(images: &mut Images, id: ImageId, (start, end): (u64, u64), name: &str, came: Between) {
        let line = Line {
            start,
            end,
            name: name.to_owned(),
        };
        let generated = images.generated.get_mut(&id).expect("known");
        generated.looked = came.1;
        assert!(generated.add(line, came));
        images.make_generations(id, 9);
    }

    /// Name and bounds of an address at a time.
    fn at(images: &Images, mapping: &Mapping, address: u64, time: u64) -> (String, u64, u64) {
        let part = images
            .narrow(mapping, ProcessAddress(address), time)
            .expect("generated");
        let names = images.names_of_generated(part.image, &[ImageAddress(address)]);
        let name = names.first().map_or("", |(.., name)| name);
        (name.to_owned(), part.range.start.0, part.range.end.0)
    }

    /// Code keeps the name that it had at the time of the sample; while one name gave way to
    /// another there is none, and what lies between names has none, either.
    #[test]
    fn generations() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let (id, mapping) = code(&mut images);
        add(&mut images, id, (0x2000, 0x2100), "first", (0, 10));
        add(&mut images, id, (0x3000, 0x3100), "other", (0, 10));
        add(&mut images, id, (0x2080, 0x2180), "second", (20, 30));
        add(&mut images, id, (0x2000, 0x2100), "first", (40, 50));
        let named = |name: &str, start, end| (name.to_owned(), start, end);
        assert_eq!(
            at(&images, &mapping, 0x20ff, 5),
            named("first", 0x2000, 0x2100)
        );
        assert_eq!(
            at(&images, &mapping, 0x20ff, 20),
            named("first", 0x2000, 0x2100)
        );
        assert_eq!(at(&images, &mapping, 0x20ff, 25).0, "");
        assert_eq!(
            at(&images, &mapping, 0x20ff, 30),
            named("second", 0x2080, 0x2180)
        );
        assert_eq!(at(&images, &mapping, 0x20ff, 45).0, "");
        assert_eq!(
            at(&images, &mapping, 0x20ff, 50),
            named("first", 0x2000, 0x2100)
        );
        assert_eq!(at(&images, &mapping, 0x2800, 50), named("", 0x2100, 0x3000));
        assert_eq!(
            at(&images, &mapping, 0x3000, 50),
            named("other", 0x3000, 0x3100)
        );
        assert_eq!(at(&images, &mapping, 0x1000, 50), named("", 0x1000, 0x2000));
        // Behind the last look there may be another name already.
        assert_eq!(at(&images, &mapping, 0x3000, 51).0, "");
        // The same name at the same place is two pieces of code, if another was between.
        let image = |time| {
            images
                .narrow(&mapping, ProcessAddress(0x2000), time)
                .map(|part| part.image)
        };
        assert_ne!(image(15), image(50));
    }
}
