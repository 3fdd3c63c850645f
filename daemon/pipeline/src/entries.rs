//! Entries of functions: what they are called with, and from where, in proportion to executions.
//!
//! For chosen functions a breakpoint stays at the entry for short times, which are drawn at random
//! ([`sampler::entries`]). All calls of such a time count, so each call has the same chance,
//! whatever lies between it and the next. A thread of its own sets one breakpoint at a time; the
//! collector says where (`Targets`), and makes values of what was seen.

mod thread;
mod width;

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use addresses::{ImageAddress, ProcessAddress};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{AtEntries, AtEntry, Burst, Entered, FunctionEntry, Miss, Pid, Registers, Tid};

pub(crate) use self::width::Kept;
use consumers::entries::{BURST, VECTORS};
use machine::images::ImageId;
use machine::loadmap::ProcessId;
use machine::place::Pc;

/// Functions whose entries are watched at a time, and threads and functions together.
const MOST_FUNCTIONS: usize = 16;
const MOST_TARGETS: usize = 128;
/// Bursts that wait for the collector.
const SEEN: usize = 64;
/// What was brought from entries, and waits for its burst.
const STOPS: usize = 4096;
const _: () = assert!(Burst::MOST == BURST as usize);
/// How long after the last hit of a burst what is brought of it comes at the latest, in
/// nanoseconds.
const HIT: u64 = 1_000_000;
/// How long a burst waits for what the handler brings: its buffer is drained sooner.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which functions are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Those that windows see called most.
    Hottest,
    /// Those of these names.
    Named(Vec<String>),
}

/// A function in a thread.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) entry: FunctionEntry,
    pub(crate) process: ProcessId,
    pub(crate) pc: Pc,
    /// What its code does with vector registers.
    pub(crate) vectors: VectorUse,
}

/// What a function's code does with vector registers by which values are passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorUse {
    /// It reads such as may be arguments.
    pub(crate) reads_arguments: bool,
    /// It writes the one that may be a result.
    pub(crate) writes_result: bool,
}

/// What was seen of a target in a while.
#[derive(Debug)]
pub(crate) struct SeenTarget {
    pub(crate) target: Target,
    pub(crate) burst: Result<(Burst, Option<Kept>), Miss>,
    /// Of a burst that is to tell vector registers: of each call what was in them.
    pub(crate) vectors: Option<Vec<VectorsOfCall>>,
}

/// The lower words of the vector registers of a call, as far as they were brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VectorsOfCall {
    /// Those of arguments, at the entry.
    pub(crate) arguments: Option<[u64; VECTORS]>,
    /// That of a result, where the call returned to.
    pub(crate) result: Option<u64>,
}

/// What the thread chooses from.
type Targets = Arc<Mutex<Vec<Target>>>;

/// The collector's end of the thread.
#[derive(Debug)]
pub struct Entries {
    wanted: Wanted,
    targets: Targets,
    seen: Receiver<SeenTarget>,
    /// What the handler brought from entries and returns whose bursts have yet to come.
    stops: VecDeque<AtEntry>,
    /// Bursts that wait for it.
    waiting: VecDeque<(Instant, SeenTarget)>,
    /// Entries of wanted functions in the images that were looked at.
    functions: FxHashMap<ImageId, Vec<ImageAddress>>,
    /// Functions that cannot be watched.
    refused: FxHashSet<Pc>,
    /// How often there was no room for a thread, and functions that were refused, since these were
    /// taken.
    pub(crate) without_room: u64,
    pub(crate) not_watched: u64,
}

impl Entries {
    /// Starts the thread, which has vector registers brought if it is handed what does that.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start(wanted: Wanted, vectors: Option<AtEntries>) -> io::Result<Self> {
        let targets = Targets::default();
        let (sender, seen) = sync_channel(SEEN);
        thread::start(Arc::clone(&targets), vectors, sender)?;
        Ok(Self {
            wanted,
            targets,
            seen,
            stops: VecDeque::new(),
            waiting: VecDeque::new(),
            functions: FxHashMap::default(),
            refused: FxHashSet::default(),
            without_room: 0,
            not_watched: 0,
        })
    }

    /// The names of the functions that are to be looked up in an image that was not looked at.
    pub(crate) fn names_for(&self, image: ImageId) -> Option<&[String]> {
        match &self.wanted {
            Wanted::Named(names) if !self.functions.contains_key(&image) => Some(names),
            _ => None,
        }
    }

    /// Whether the hottest functions are to be chosen, and there is room for more.
    pub(crate) fn wants_hottest(&self) -> bool {
        self.wanted == Wanted::Hottest && self.count() < MOST_FUNCTIONS
    }

    fn count(&self) -> usize {
        self.functions.values().map(Vec::len).sum()
    }

    /// Takes the entries of the functions that an image has of those that are wanted.
    pub(crate) fn found(&mut self, image: ImageId, entries: Vec<ImageAddress>) {
        self.functions.insert(image, entries);
    }

    /// Watches these functions besides, as far as there is room.
    pub(crate) fn watch_also(&mut self, functions: impl IntoIterator<Item = Pc>) {
        let mut count = self.count();
        for pc in functions {
            if count >= MOST_FUNCTIONS {
                return;
            }
            if self.refused.contains(&pc) {
                continue;
            }
            let Pc { image, address } = pc;
            let entries = self.functions.entry(image).or_default();
            if !entries.contains(&address) {
                entries.push(address);
                count += 1;
            }
        }
    }

    /// Entries in an image that are watched.
    pub(crate) fn of(&self, image: ImageId) -> &[ImageAddress] {
        self.functions.get(&image).map_or(&[], Vec::as_slice)
    }

    /// Leaves a function alone: what is executed there tells no calls.
    pub(crate) fn refuse(&mut self, pc: Pc) {
        if let Some(entries) = self.functions.get_mut(&pc.image) {
            entries.retain(|address| *address != pc.address);
        }
        self.not_watched += u64::from(self.refused.insert(pc));
    }

    /// Whether this entry is watched in this thread.
    pub(crate) fn has(&self, process: ProcessId, tid: Tid, address: ProcessAddress) -> bool {
        let is_it = |target: &Target| {
            target.process == process && target.entry.tid == tid && target.entry.address == address
        };
        lock(&self.targets).iter().any(is_it)
    }

    /// Watches an entry in a thread.
    pub(crate) fn watch(&mut self, target: Target) {
        let mut targets = lock(&self.targets);
        if targets.len() < MOST_TARGETS {
            targets.push(target);
        } else {
            self.without_room += 1;
        }
    }

    /// Leaves a process alone from now on.
    pub(crate) fn leave(&mut self, pid: Pid) {
        lock(&self.targets).retain(|target| target.entry.pid != pid);
    }

    /// Takes what the handler brought from an entry or a return.
    pub(crate) fn came_in(&mut self, stop: AtEntry) {
        if self.stops.len() >= STOPS {
            self.stops.pop_front();
        }
        self.stops.push_back(stop);
    }

    /// What was seen since; of vector registers when the handler has had the time to bring them.
    pub(crate) fn next(&mut self, is_last: bool) -> Option<SeenTarget> {
        while let Ok(seen) = self.seen.try_recv() {
            match seen.vectors {
                None => return Some(seen),
                Some(_) => self.waiting.push_back((Instant::now(), seen)),
            }
        }
        let is_ready = |(came, _): &(Instant, SeenTarget)| is_last || came.elapsed() > PATIENCE;
        if !self.waiting.front().is_some_and(is_ready) {
            return None;
        }
        let (_, mut seen) = self.waiting.pop_front()?;
        if let (Ok((burst, _)), Some(vectors)) = (&seen.burst, &mut seen.vectors) {
            *vectors = vectors_of_calls(&mut self.stops, seen.target.entry.tid, burst);
        }
        Some(seen)
    }
}

/// What was brought of the calls of a burst. What belongs to a hit comes right behind it, before
/// the thread's next hit, and has its registers.
fn vectors_of_calls(stops: &mut VecDeque<AtEntry>, tid: Tid, burst: &Burst) -> Vec<VectorsOfCall> {
    let returns = || burst.calls.iter().filter_map(|call| call.returned);
    let entries = burst.calls.iter().map(|call| call.time);
    let mut hits: Vec<u64> = entries.chain(returns().map(|of| of.time)).collect();
    hits.sort_unstable();
    let mut take = |time: u64, registers: &Registers| {
        // Behind the last one nothing of this burst comes, but a later burst has other hits.
        let end = hits.get(hits.partition_point(|hit| *hit <= time));
        let end = end.copied().unwrap_or(time.saturating_add(HIT));
        let place = stops
            .iter()
            .position(|stop| stop.tid == tid && (time..end).contains(&stop.time))?;
        let stop = stops.remove(place)?;
        let is_same = stop.registers.is_same_but_resuming(registers);
        is_same.then_some(stop.vectors)
    };
    let mut of_call = |call: &Entered| VectorsOfCall {
        arguments: take(call.time, &call.registers),
        result: call.returned.and_then(|returned| {
            let [result, ..] = take(returned.time, &returned.registers)?;
            Some(result)
        }),
    };
    burst.calls.iter().map(&mut of_call).collect()
}

fn lock(targets: &Mutex<Vec<Target>>) -> std::sync::MutexGuard<'_, Vec<Target>> {
    // Whoever held it has not left it half done: targets are put in and taken out whole.
    targets.lock().unwrap_or_else(PoisonError::into_inner)
}
