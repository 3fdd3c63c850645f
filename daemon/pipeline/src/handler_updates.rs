//! What the handler of the interrupt is told: which processes are known, and unwind rows.
//!
//! A process is told of when its first sample is looked at: that it has no devices in its memory,
//! so that the handler may read there without a look of its own; or that it has, so that its memory
//! is not to be read. An unwind row is given once for each place that it is wanted at: the next
//! sample there has its caller by it.

use addresses::{ProcessAddress, ReturnAddress};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{Denial, Handler, HandlerCounters, Pid, ProcessKey, RowPlace, UnwindRow};

use machine::address_space::AddressSpace;
use machine::place::Pc;
use machine::system::memory::{of_map, of_set};

/// What the handler was told of one process.
#[derive(Debug, Default)]
struct OfProcess {
    /// Places whose rows were given.
    rows: FxHashSet<RowPlace>,
    /// Its memory is kept back.
    denied: bool,
    /// All that it loads is read a second time.
    looks_again: bool,
}

/// The handler, and what it was told.
pub(crate) struct HandlerUpdates {
    handler: Handler,
    processes: FxHashMap<ProcessKey, OfProcess>,
    /// The process that a pid stood for last.
    keys: FxHashMap<Pid, ProcessKey>,
    /// Rows noted here, of all processes.
    rows: usize,
    /// What the handler had counted when it was asked last.
    counted: HandlerCounters,
    /// Processes met so far.
    met: u64,
}

/// Rows noted. When there are more, all are forgotten: those that the handler still has go on to
/// serve, and are given anew where they are wanted.
const MAX_ROWS: usize = 1 << 18;
/// Processes kept, likewise.
const MAX_PROCESSES: usize = 1 << 16;

impl HandlerUpdates {
    /// Nothing yet.
    pub(crate) fn new(handler: Handler) -> Self {
        Self {
            handler,
            processes: FxHashMap::default(),
            keys: FxHashMap::default(),
            rows: 0,
            counted: HandlerCounters::default(),
            met: 0,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let rows: usize = self.processes.values().map(|of| of_set(&of.rows)).sum();
        rows + of_map(&self.processes) + of_map(&self.keys)
    }

    /// Processes met so far.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }

    /// What the handler counted since the last time, by name; nothing if it cannot be asked.
    pub(crate) fn take_counters(&mut self) -> Vec<(&'static str, u64)> {
        let Ok(now) = self.handler.counters() else {
            return Vec::new();
        };
        let since = now
            .iter()
            .map(|(of, n)| (of.name(), n.saturating_sub(self.counted.get(of))));
        let since = since.collect();
        self.counted = now;
        since
    }

    /// Takes notice of the process of a sample, before anything else of it. Of a process with
    /// devices in its memory nothing is read: that might do something.
    pub(crate) fn meet(&mut self, process: ProcessKey, has_devices: impl FnOnce() -> bool) {
        if self.processes.contains_key(&process) {
            return;
        }
        if self.processes.len() >= MAX_PROCESSES || self.rows >= MAX_ROWS {
            self.processes.retain(|_, of| {
                *of = OfProcess {
                    denied: of.denied,
                    ..OfProcess::default()
                };
                of.denied
            });
            self.rows = 0;
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
            // Where the handler cannot be told, it looks at each page itself from now on.
            let _ = self.handler.deny(*process, Denial::Memory);
        }
    }

    /// Gives up what belongs to a process that ended.
    pub(crate) fn exited(&mut self, pid: Pid) {
        if let Some(process) = self.keys.remove(&pid) {
            self.forget(process);
        }
    }

    /// The rows that the handler has of it do no harm and give way to what is used; a denial stays
    /// until it is taken back.
    fn forget(&mut self, process: ProcessKey) {
        let Some(of_process) = self.processes.remove(&process) else {
            return;
        };
        self.rows = self.rows.saturating_sub(of_process.rows.len());
        if of_process.denied {
            let _ = self.handler.forget(process);
        }
    }

    /// Gives the row of a return address, once.
    pub(crate) fn give_row(
        &mut self,
        process: ProcessKey,
        to: ReturnAddress,
        space: &AddressSpace<'_>,
    ) {
        self.give(process, RowPlace::of_return(to), || {
            let call = space.place(to.within_call())?;
            row_at(space, call)
        });
    }

    /// Gives the row of an interrupted PC, once.
    pub(crate) fn give_row_of_start(
        &mut self,
        process: ProcessKey,
        pc: ProcessAddress,
        space: &AddressSpace<'_>,
        image_pc: Pc,
    ) {
        self.give(process, RowPlace::of_start(pc), || {
            row_of_start(space, image_pc)
        });
    }

    fn give(
        &mut self,
        process: ProcessKey,
        place: RowPlace,
        row: impl FnOnce() -> Option<UnwindRow>,
    ) {
        let Some(of_process) = self.processes.get_mut(&process) else {
            return;
        };
        if !of_process.rows.insert(place) {
            return;
        }
        self.rows += 1;
        if let Some(row) = row() {
            // A row that is refused leaves the frame pointer to go by.
            let _ = self.handler.put_row(process, place, row);
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

/// The unwind row of an instruction to be interrupted, by unwind rules or by the code itself.
fn row_of_start(space: &AddressSpace<'_>, pc: Pc) -> Option<UnwindRow> {
    if space.may_have_rules(pc) {
        return row_at(space, pc);
    }
    match space.exits(pc).as_slice() {
        [exit] if space.tell(pc, exit) => exit.row(),
        _ => None,
    }
}

/// The row of an instruction by unwind rules.
fn row_at(space: &AddressSpace<'_>, pc: Pc) -> Option<UnwindRow> {
    let mut images = space.images.borrow_mut();
    images.unwind(pc.image)?.row(pc.address)
}
