//! What became of a skeleton's functions.

use std::fmt::Write as _;

use crate::render::{counted, percent};

/// What became of the skeleton's functions.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Functions with counters.
    pub(super) written: usize,
    /// Functions of which no block is known.
    pub(super) unseen: usize,
    /// Functions with counters of selections.
    pub(super) steps: usize,
    /// Functions that cannot be read.
    pub(super) broken: usize,
    /// Functions that would take too long.
    pub(super) large: usize,
    /// Calls with targets.
    pub(super) targets: usize,
    /// Copies with sizes.
    pub(super) sizes: usize,
    /// Counts of blocks in all.
    pub(super) all: f64,
    /// Of these, those whose place the recorded build has.
    pub(super) known: f64,
}

impl Tally {
    /// In a sentence.
    pub(super) fn coverage(&self) -> String {
        let mut said = format!(
            "counters of {}, targets of {} and sizes at {}; {:.0} % of what ran is in blocks whose \
             counts are known, others follow from them",
            counted(self.written as u64, "function"),
            counted(self.targets as u64, "indirect call"),
            counted(self.sizes as u64, "copy").replace("copys", "copies"),
            percent(self.known, self.all),
        );
        for (left_out, why) in [
            (self.unseen, "without samples or a line in common"),
            (
                self.steps,
                "with counters of selections, for want of -pgo-instr-select=false",
            ),
            (self.broken, "that cannot be read"),
            (self.large, "with too many blocks"),
        ] {
            if left_out > 0 {
                let _ = write!(
                    said,
                    "; left out {} {why}",
                    counted(left_out as u64, "function")
                );
            }
        }
        said
    }
}
