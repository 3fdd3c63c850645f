//! What a sample's code page was like, looked up as soon as the sample arrives.
//!
//! Samples wait until all CPUs have been drained up to their time, and many a process does not
//! live that long. So the page of the PC is looked up at once, and what was seen travels with the
//! sample. Evidence is of one sample only: which program a pid stands for may change with the
//! next record.

use addresses::ProcessAddress;
use rustc_hash::FxHashMap;
use sampler::{CapturedMemory, Mode, Outcome, Pid, RawSample, UserRegisters};
use serde::{Deserialize, Serialize};

use crate::system::procfs::{PageState, Pagemap};

/// State of the pages that a window begins in, seen after the interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageEvidence {
    pages: [(u64, PageState); 2],
}

impl PageEvidence {
    /// State of the page around `address`, if it was looked up.
    pub(crate) fn of(&self, address: u64) -> Option<PageState> {
        let page = address & !(PAGE - 1);
        self.pages
            .iter()
            .find(|(at, _)| *at == page)
            .map(|(_, state)| *state)
    }
}

/// Looks up pages, with page tables kept open.
#[derive(Debug, Default)]
pub struct PageCheck {
    pagemaps: FxHashMap<Pid, Pagemap>,
}

const PAGE: u64 = 4096;
/// Page tables kept open; when there are more, all are closed.
const MAX_OPEN: usize = 128;
/// Most windows stay within as many bytes of their PC.
const AHEAD: u64 = 128;

impl PageCheck {
    /// Looks at the pages of a user sample; `None` if its process is gone or has executed
    /// another program.
    pub fn look(&mut self, sample: &RawSample) -> Option<PageEvidence> {
        let UserRegisters::Long(registers) = &sample.user else {
            return None;
        };
        // With a way the code itself came along.
        let followed = |capture: &CapturedMemory| capture.outcome != Outcome::NotTried;
        if sample.mode != Mode::User
            || sample.stack.is_empty()
            || sample.capture.as_ref().is_some_and(followed)
        {
            return None;
        }
        let stack = registers.sp();
        // An open page table is that of the program that ran when it was opened: if it is of no
        // use any more, there may be a newer one.
        if let Some(pagemap) = self.pagemaps.get(&sample.pid) {
            if let Some(evidence) = look(pagemap, sample.ip, stack) {
                return Some(evidence);
            }
            self.pagemaps.remove(&sample.pid);
        }
        let pagemap = Pagemap::open(sample.pid)?;
        let evidence = look(&pagemap, sample.ip, stack)?;
        if self.pagemaps.len() >= MAX_OPEN {
            self.pagemaps.clear();
        }
        self.pagemaps.insert(sample.pid, pagemap);
        Some(evidence)
    }
}

fn look(pagemap: &Pagemap, ProcessAddress(pc): ProcessAddress, stack: u64) -> Option<PageEvidence> {
    let first = pc & !(PAGE - 1);
    let last = pc.saturating_add(AHEAD) & !(PAGE - 1);
    let state = pagemap.page(first);
    let pages = [
        (first, state),
        (
            last,
            if last == first {
                state
            } else {
                pagemap.page(last)
            },
        ),
    ];
    // The stack last: while its page is there, the program is the sampled one, so it was when the
    // others were looked at. The interrupt could read that page, so it is there and anonymous;
    // each exec draws another place for the stack.
    let known = pages.iter().all(|(_, state)| *state != PageState::Unknown);
    (known && pagemap.has_stack(stack)).then_some(PageEvidence { pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this very process the text is seen clean, and a stack elsewhere is noticed.
    #[test]
    fn own_process() {
        let pagemap = Pagemap::open(Pid(std::process::id())).expect("own page table");
        let pc = own_process as *const () as u64;
        let local = 0_u64;
        let evidence =
            look(&pagemap, ProcessAddress(pc), &raw const local as u64).expect("evidence");
        assert_eq!(evidence.of(pc), Some(PageState::Clean));
        assert_eq!(evidence.of(&raw const local as u64), None);
        assert_eq!(look(&pagemap, ProcessAddress(pc), 0x1000), None);
    }
}
