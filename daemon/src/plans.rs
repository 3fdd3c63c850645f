//! Capture plans and unwind rows on their way to the handler of the interrupt.
//!
//! A plan is made when a second sample found none for its PC, from the code that came with the
//! sample and from the image files. It is made again, a few times at most, when a window ran into
//! code that the plan did not bring: by then it is known where an indirect branch leads. One that came
//! out as it was before is left for longer. The handler gives a plan up at the first step that fails,
//! as loads do that belong to a way that the thread does not go. So such a step is put off until the
//! others are done, and left out if it fails more often than not. Plans are advice: the window computes
//! each address itself, and takes code and memory only from what the handler read.

mod given;
mod known;

use std::hash::BuildHasher;

use interpreter::{Account, Arms, DecodeCache, Limits, Plan, Planner, Request};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use sampler::{Counters, Denial, GivenPlan, Handler, Pid, PlanFailure, PlanOutcome, ProcessKey};

use self::given::{Destinations, Given, share_for};
use self::known::{Known, KnownCode, return_address, row_at, row_of_start};
use crate::memory::{of_map, of_set};
use crate::tables::{Owner, Pc, Tables};
use crate::view::View;
use crate::window::{Brought, Ways};

/// A PC of a process; of the kernel, whose code all processes share, the process is the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    pub(crate) process: ProcessKey,
    pub(crate) pc: u64,
}

/// What was wanted in a window and had not been read in the interrupt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lacked {
    pub(crate) code: bool,
    /// Memory at an address that the window knew.
    pub(crate) memory: bool,
    /// A second look at memory that others may write.
    pub(crate) second_look: bool,
}

/// What a plan is made from.
#[derive(Debug)]
pub(crate) struct Basis<'a, 'v> {
    pub(crate) start: Start,
    pub(crate) owner: Owner,
    /// What became of the plan that there was.
    pub(crate) outcome: PlanOutcome,
    /// The process address of image address 0.
    pub(crate) bias: u64,
    pub(crate) image_pc: Pc,
    pub(crate) view: &'a View<'v>,
    pub(crate) brought: &'a Brought<'a>,
    /// Whether the kernel's bases of FS and GS came with the sample.
    pub(crate) bases: [bool; 2],
    /// How likely it is that the window is accepted.
    pub(crate) probability: f64,
}

/// What was given and learned for one process.
#[derive(Debug, Default)]
struct OfProcess {
    given: FxHashMap<u64, Given>,
    /// Return addresses whose rows were given.
    rows: FxHashSet<u64>,
    destinations: FxHashMap<u64, Destinations>,
    /// Its memory is kept back.
    denied: bool,
    /// All that it loads is read a second time.
    looks_again: bool,
}

/// Plans and rows for the handler.
pub(crate) struct Plans {
    handler: Handler,
    planner: Planner,
    known: Known,
    instructions: u32,
    processes: FxHashMap<ProcessKey, OfProcess>,
    /// The process that a pid stood for last.
    keys: FxHashMap<Pid, ProcessKey>,
    /// Plans, rows and destinations kept here, of all processes.
    entries: usize,
    /// Marks of PCs that a sample was seen at without a plan, each in the place that it falls to.
    seen: Box<[u32]>,
    /// What the handler had counted when it was asked last.
    counted: Counters,
    tag: u32,
    /// Plans made so far.
    made: u64,
    /// Processes met so far.
    met: u64,
}

/// Places of marks: a power of two.
const SEEN: usize = 1 << 16;
/// Entries kept. When there are more, all are forgotten: plans that the handler still has go on to
/// serve, and are made anew where it has given them up.
const MAX_ENTRIES: usize = 1 << 18;
/// Processes kept, likewise.
const MAX_PROCESSES: usize = 1 << 16;
impl Plans {
    /// For windows of so many instructions.
    pub(crate) fn new(handler: Handler, instructions: u32) -> Self {
        Self {
            handler,
            planner: Planner::default(),
            known: Known::default(),
            instructions,
            processes: FxHashMap::default(),
            keys: FxHashMap::default(),
            entries: 0,
            seen: vec![0; SEEN].into(),
            counted: Counters::default(),
            tag: 0,
            made: 0,
            met: 0,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let one = |of: &OfProcess| of_map(&of.given) + of_set(&of.rows) + of_map(&of.destinations);
        let all: usize = self.processes.values().map(one).sum();
        all + of_map(&self.processes)
            + of_map(&self.keys)
            + size_of_val(&*self.seen)
            + self.known.bytes()
    }

    /// Plans made so far, and processes met.
    pub(crate) fn learned(&self) -> u64 {
        self.made + self.met
    }

    /// What the handler counted since the last time, by name; nothing if it cannot be asked.
    pub(crate) fn take_counters(&mut self) -> Vec<(&'static str, u64)> {
        let Ok(now) = self.handler.counters() else {
            return Vec::new();
        };
        let since = now
            .iter()
            .map(|(name, n)| (name, n.saturating_sub(self.counted.get(name))));
        let since = since.collect();
        self.counted = now;
        since
    }

    /// Takes notice of the process of a sample, before anything else of it. A process with devices
    /// in its memory gets no plans: reading there might do something.
    pub(crate) fn meet(&mut self, process: ProcessKey, has_devices: impl FnOnce() -> bool) {
        if self.processes.contains_key(&process) {
            return;
        }
        if self.processes.len() >= MAX_PROCESSES || self.entries >= MAX_ENTRIES {
            self.processes.retain(|process, of| {
                *of = OfProcess {
                    denied: of.denied,
                    ..OfProcess::default()
                };
                // The kernel is met once only.
                of.denied || *process == ProcessKey::default()
            });
            self.entries = 0;
            let known = &self.processes;
            self.keys.retain(|_, process| known.contains_key(process));
        }
        let pid = Pid(process.tgid);
        if let Some(old) = self.keys.insert(pid, process) {
            self.forget(old);
        }
        self.processes.insert(process, OfProcess::default());
        self.met += 1;
        self.look_for_devices(pid, has_devices);
        if self.processes.get(&process).is_some_and(|of| !of.denied) {
            // Where the handler is not told, it looks at each page itself.
            let _ = self.handler.meet(process, false);
        }
    }

    /// Takes notice of a process that has mapped what may be a device.
    pub(crate) fn look_for_devices(&mut self, pid: Pid, has_devices: impl FnOnce() -> bool) {
        let Some(process) = self.keys.get(&pid) else {
            return;
        };
        if let Some(of_process) = self.processes.get_mut(process)
            && !of_process.denied
            && has_devices()
        {
            of_process.denied = true;
            // Where the handler cannot be told, it gets no plans either: making them is refused.
            let _ = self.handler.deny(*process, Denial::Memory);
        }
    }

    /// Gives up what belongs to a process that ended.
    pub(crate) fn exited(&mut self, pid: Pid) {
        if let Some(process) = self.keys.remove(&pid) {
            self.forget(process);
        }
    }

    /// Its plans make room for those of others. The rows that the handler has of it do no harm and give
    /// way to what is used; a denial stays until it is taken back.
    fn forget(&mut self, process: ProcessKey) {
        let Some(of_process) = self.processes.remove(&process) else {
            return;
        };
        self.entries = self.entries.saturating_sub(of_process.len());
        for pc in of_process.given.keys() {
            self.handler.remove_plan(process, *pc);
        }
        if of_process.denied {
            let _ = self.handler.forget(process);
        }
    }

    /// Takes notice of what a window lacked and where it went: makes a plan, or a better one, where
    /// that is of use.
    pub(crate) fn settle(
        &mut self,
        basis: &Basis<'_, '_>,
        lacked: Lacked,
        went: &Ways,
        cache: &mut DecodeCache,
        tables: &mut Tables,
    ) {
        let mut learned = None;
        if lacked.code {
            for &(branch, destination) in went.iter() {
                // Where the plan brought the code, it knows the way.
                if basis.brought.pieces().code(destination).is_empty() {
                    learned = learned.max(self.learn(basis.start.process, branch, destination));
                }
            }
        }
        if self.is_wanted(basis, lacked, learned) {
            self.make(basis, cache, tables);
        } else if lacked.second_look {
            self.look_again(basis, tables);
        } else {
            self.arrange(basis, tables);
        }
    }

    /// Has what a plan reads looked at a second time from now on.
    fn look_again(&mut self, basis: &Basis<'_, '_>, tables: &mut Tables) {
        if let PlanOutcome::Complete { tag } | PlanOutcome::Failed { tag, .. } = basis.outcome {
            let looking_again = |given: &mut Given, plan: Plan| {
                let is_new = !std::mem::replace(&mut given.looks_again, true);
                is_new.then(|| ("second_looks", plan.looking_again()))
            };
            self.change(basis, tag, tables, looking_again);
        }
    }

    /// Puts a step off that failed, or leaves it out, if it is time for that.
    fn arrange(&mut self, basis: &Basis<'_, '_>, tables: &mut Tables) {
        // Of these causes the step is to blame.
        let PlanOutcome::Failed {
            tag,
            step,
            cause: PlanFailure::Unreadable | PlanFailure::Forbidden | PlanFailure::Full,
        } = basis.outcome
        else {
            return;
        };
        self.change(basis, tag, tables, |given, plan| {
            if !given.failed() {
                return None;
            }
            let (what, plan) = match given.fails_mostly() {
                true => ("steps_left_out", plan.without(step)),
                false => ("steps_put_off", plan.deferring(step)),
            };
            Some((what, plan?)).inspect(|_| given.arranged())
        });
    }

    /// Gives another plan, which is made of the one of this tag, if that is still there.
    fn change(
        &mut self,
        basis: &Basis<'_, '_>,
        tag: u32,
        tables: &mut Tables,
        change: impl FnOnce(&mut Given, Plan) -> Option<(&'static str, Plan)>,
    ) {
        let Start { process, pc } = basis.start;
        let of_process = self.processes.get_mut(&process);
        let of_process = of_process.filter(|of| !of.denied);
        let given = of_process.and_then(|of| of.given.get_mut(&pc));
        let Some(given) = given.filter(|given| given.tag == tag) else {
            return;
        };
        let there = self.handler.plan(process, pc).filter(|of| of.0 == tag);
        let Some(plan) = there.and_then(|(_, bytes)| Plan::from_bytes(&bytes).ok()) else {
            return;
        };
        let Some((what, plan)) = change(given, plan) else {
            return;
        };
        self.tag = self.tag.wrapping_add(1);
        let plan = GivenPlan {
            bytes: &plan.to_bytes(),
            bias: basis.bias,
            tag: self.tag,
            row: row_of_start(basis.view, basis.image_pc),
            share: given.share,
        };
        // Bytes of a plan are not refused.
        if self.handler.put_plan(process, pc, &plan).is_ok() {
            given.replace(self.tag);
            tables.count("plan", what, 1);
        }
    }

    /// Lets the handler evaluate a plan for about as many samples as have their windows accepted.
    fn share(handler: &Handler, given: &mut Given, basis: &Basis<'_, '_>) {
        let Some(wanted) = given.other_share(basis.probability) else {
            return;
        };
        let Start { process, pc } = basis.start;
        handler.set_share(process, pc, wanted);
        given.share = wanted;
    }

    /// Notes where an indirect branch led, and says which plan was the last one without knowing it.
    fn learn(&mut self, process: ProcessKey, branch: u64, destination: u64) -> Option<u32> {
        let of_process = self.processes.get_mut(&process)?;
        let known = of_process.destinations.entry(branch).or_insert_with(|| {
            self.entries += 1;
            Destinations::default()
        });
        Some(known.learn(destination, self.tag))
    }

    /// Whether a plan is to be made, or made again, after a window. One that there is gets its share.
    /// `learned` says which plan was the last that knew nothing of a way that the window went.
    fn is_wanted(&mut self, basis: &Basis<'_, '_>, lacked: Lacked, learned: Option<u32>) -> bool {
        let of_process = self.processes.get_mut(&basis.start.process);
        let mut given = of_process.and_then(|of| of.given.get_mut(&basis.start.pc));
        if let Some(given) = &mut given {
            Self::share(&self.handler, given, basis);
        }
        let tag = match basis.outcome {
            PlanOutcome::Missing => {
                return match given {
                    // Samples that were on their way when it was given say nothing about it.
                    Some(given) => given.since < basis.view.time,
                    None => self.is_seen_again(basis.start),
                };
            }
            PlanOutcome::Complete { tag } | PlanOutcome::Failed { tag, .. } => tag,
            PlanOutcome::Thinned { .. }
            | PlanOutcome::Followed { .. }
            | PlanOutcome::MemoryDenied
            | PlanOutcome::ValuesDenied
            | PlanOutcome::NotDumpable => return false,
        };
        let given = given.filter(|given| given.tag == tag);
        given.is_some_and(|given| {
            given.took();
            given.is_outdone(basis.outcome, lacked, learned)
        })
    }

    /// Whether a sample without a plan is not the first at its PC. Most PCs of a large program are
    /// met once: a plan for each would cost more than all the rest, and serve nobody.
    fn is_seen_again(&mut self, start: Start) -> bool {
        let hash = FxBuildHasher.hash_one(start);
        // The casts pick the bits: the place from the upper ones, the mark from the others.
        let place = (hash >> 48) as usize % SEEN;
        let mark = hash as u32 | 1;
        std::mem::replace(&mut self.seen[place], mark) == mark
    }

    /// Makes a plan and gives it to the handler.
    fn make(&mut self, basis: &Basis<'_, '_>, cache: &mut DecodeCache, tables: &mut Tables) {
        let Basis { start, bias, .. } = *basis;
        let of_process = self.processes.get_mut(&start.process);
        let Some(of_process) = of_process.filter(|of| !of.denied) else {
            return;
        };
        self.tag = self.tag.wrapping_add(1);
        let tag = self.tag;
        let given = of_process.given.entry(start.pc).or_insert_with(|| {
            self.entries += 1;
            Given::new(tag, basis.bases)
        });
        given.begin(tag);
        let row = row_of_start(basis.view, basis.image_pc);
        let limits = Limits {
            fs_base: given.bases[0],
            gs_base: given.bases[1],
            ..Limits::of_windows(self.instructions)
        };
        let destinations = &of_process.destinations;
        let mut follow = |branch: u64, visit: &mut dyn FnMut(u64)| {
            if let Some(known) = destinations.get(&branch) {
                known.iter().for_each(visit);
            }
        };
        let seen = &*tables;
        let mut directions = |branch: u64| {
            let place = basis.view.locate(branch)?;
            seen.directions(basis.owner, place.pc)
        };
        let request = Request {
            arms: Arms::Both,
            return_address: row.and_then(return_address),
            destinations: Some(&mut follow),
            directions: Some(&mut directions),
            changeable: Some(&mut |_| true),
            other_images: true,
            limits,
        };
        // Windows do not go the ways of a plan.
        cache.browse(true);
        let mut code = KnownCode::new(basis.view, basis.brought.pieces(), cache, &mut self.known);
        // Without code there is nothing to load: an empty plan keeps the PC from coming again.
        let planned = self.planner.plan(start.pc, &mut code, request);
        let planned = planned.unwrap_or_default();
        given.open = code.lacking;
        cache.browse(false);
        count(tables, &planned.account);
        let plan = match given.looks_again {
            true => planned.plan.looking_again(),
            false => planned.plan,
        };
        let bytes = plan.to_bytes();
        let print = FxBuildHasher.hash_one((bytes, bias, row));
        if given.came_out_as(print) && basis.outcome != PlanOutcome::Missing {
            tables.count("plan", "unchanged", 1);
            return;
        }
        given.replace(tag);
        given.share = share_for(basis.probability);
        let plan = GivenPlan {
            bytes: &bytes,
            bias,
            tag,
            row,
            share: given.share,
        };
        let put = self.handler.put_plan(start.process, start.pc, &plan);
        if put.is_err() {
            of_process.given.remove(&start.pc);
            tables.count("plan", "refused", 1);
        } else {
            given.since = sampler::clock_now();
            self.made += 1;
            tables.count("plan", "made", 1);
        }
    }

    /// Gives the row of a return address, once.
    pub(crate) fn give_row(&mut self, process: ProcessKey, return_address: u64, view: &View<'_>) {
        let Some(of_process) = self.processes.get_mut(&process) else {
            return;
        };
        if !of_process.rows.insert(return_address) {
            return;
        }
        self.entries += 1;
        // The row of the call, not of what follows: that may be another function.
        let Some(located) = view.locate(return_address.wrapping_sub(1)) else {
            return;
        };
        if let Some(row) = row_at(view, located.pc) {
            // A row that is refused leaves the frame pointer to go by.
            let _ = self.handler.put_row(process, return_address, row);
        }
    }

    /// Gives the unwind row of an interrupted PC, for the samples that come there without a plan.
    pub(crate) fn give_row_of_start(&mut self, basis: &Basis<'_, '_>) {
        let Start { process, pc } = basis.start;
        let Some(of_process) = self.processes.get_mut(&process) else {
            return;
        };
        // The PC itself may be a return address, too.
        if !of_process.rows.insert(pc | Handler::START) {
            return;
        }
        self.entries += 1;
        if let Some(row) = row_of_start(basis.view, basis.image_pc) {
            // As above.
            let _ = self.handler.put_row(process, pc | Handler::START, row);
        }
    }

    /// Has all that a process loads read a second time from now on: others may write it.
    pub(crate) fn look_twice(&mut self, process: ProcessKey) {
        if let Some(of_process) = self.processes.get_mut(&process)
            && !of_process.denied
            && !std::mem::replace(&mut of_process.looks_again, true)
        {
            let _ = self.handler.meet(process, true);
        }
    }
}

impl OfProcess {
    fn len(&self) -> usize {
        self.given.len() + self.rows.len() + self.destinations.len()
    }
}

fn count(tables: &mut Tables, account: &Account) {
    let of_plans = [
        ("loads", account.loads),
        ("loads_dropped", account.dropped),
        ("loads_unknown", account.unknown),
        ("ways_cut", account.ways_cut),
        ("code_dropped", account.code_dropped),
    ];
    for (name, n) in of_plans {
        tables.count("plan", name, u64::from(n));
    }
}
