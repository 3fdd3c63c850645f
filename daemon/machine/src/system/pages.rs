//! What is known of a process's pages.

use addresses::{ProcessAddress, ProcessRange};
use rustc_hash::FxHashMap;
use sampler::Pid;

use crate::system::memory::{Room, of_map};
use crate::system::procfs::{PageState, Pagemap};

const PAGE: u64 = 4096;

/// Verdicts on pages of a process: was this page ever written?
///
/// A verdict "clean" is good for samples taken before it was made. "Written" is good until the
/// page is mapped anew.
#[derive(Debug)]
pub(crate) struct Pages {
    pid: Pid,
    pagemap: Option<Pagemap>,
    failed: bool,
    /// What is open is the page table of the sampled program; it stays that.
    same_space: bool,
    verdicts: FxHashMap<u64, (PageState, u64)>,
    room: Room,
}

/// Verdicts kept per process; emptied when full.
const MAX_VERDICTS: usize = 16_384;
/// Verdicts kept of all processes: some 10 MB.
pub(crate) const MAX_ALL_VERDICTS: usize = 1 << 18;

impl Pages {
    pub(crate) fn new(pid: Pid, room: &Room) -> Self {
        Self {
            room: room.clone(),
            pid,
            pagemap: None,
            failed: false,
            same_space: false,
            verdicts: FxHashMap::default(),
        }
    }

    /// State of the page around `address` for a sample of time `time`; `now` tells the time.
    pub(crate) fn state(
        &mut self,
        address: u64,
        time: u64,
        now: impl FnOnce() -> u64,
    ) -> PageState {
        let page = address & !(PAGE - 1);
        if let Some(&(state, at)) = self.verdicts.get(&page)
            && (state == PageState::Written || at >= time)
        {
            return state;
        }
        // The time before the look: the page cannot have been written before it and be clean.
        let at = now();
        let state = self.look(page);
        if state != PageState::Unknown {
            self.keep(page, (state, at));
        }
        state
    }

    /// Whether the page table that can be read now is still that of the sampled program, and not
    /// one that it executed since, or of another process with its pid: the page around its stack
    /// pointer, which the interrupt could read, is there, and anonymous. Each exec draws another
    /// place for the stack. What is open is bound to the address space that it was opened for, and
    /// tells nothing any more when that is gone.
    pub(crate) fn is_same_space(&mut self, stack: u64) -> bool {
        self.same_space = self.same_space || self.look(stack & !(PAGE - 1)) == PageState::Written;
        self.same_space
    }

    fn look(&mut self, page: u64) -> PageState {
        if self.pagemap.is_none() && !self.failed {
            self.pagemap = Pagemap::open(self.pid);
            self.failed = self.pagemap.is_none();
        }
        self.pagemap
            .as_ref()
            .map_or(PageState::Unknown, |map| map.page(page))
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        of_map(&self.verdicts)
    }

    fn keep(&mut self, page: u64, verdict: (PageState, u64)) {
        if self.verdicts.len() >= MAX_VERDICTS || self.room.is_full() {
            self.room.leave(self.verdicts.len());
            self.verdicts = FxHashMap::default();
        }
        if !self.room.is_full() && self.verdicts.insert(page, verdict).is_none() {
            self.room.take(1);
        }
    }

    pub(crate) fn forget(&mut self, range: ProcessRange) {
        self.room.leave(self.verdicts.len());
        self.verdicts
            .retain(|page, _| !range.contains(ProcessAddress(*page)));
        self.room.take(self.verdicts.len());
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.room.leave(self.verdicts.len());
    }
}
