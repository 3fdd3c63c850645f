//! Branches and calls of all processes, added up. A service's weeks have those of a library once
//! for each process that ran it.

use foldhash::HashMap;

use crate::profile::{BranchRow, CallRow};

/// Where the rows are that others are added to.
#[derive(Default)]
pub(super) struct Transfers {
    /// By the PC of the branch.
    branches: HashMap<usize, usize>,
    /// By the PCs of the call and of the entry.
    calls: HashMap<(usize, Option<usize>), usize>,
}

impl Transfers {
    /// Adds directions to those of their branch.
    pub(super) fn add_branch(&mut self, branches: &mut Vec<BranchRow>, row: BranchRow) {
        let index = *self.branches.entry(row.pc).or_insert(branches.len());
        let Some(sum) = branches.get_mut(index) else {
            branches.push(row);
            return;
        };
        sum.taken = sum.taken.saturating_add(row.taken);
        sum.not_taken = sum.not_taken.saturating_add(row.not_taken);
        sum.unknown = sum.unknown.saturating_add(row.unknown);
        for (sum, weight) in sum.weights.iter_mut().zip(row.weights) {
            *sum += weight;
        }
        sum.squares = sum.squares.zip(row.squares).map(|(sum, more)| sum + more);
    }

    /// Adds calls to those from their site to their entry.
    pub(super) fn add_call(&mut self, calls: &mut Vec<CallRow>, row: CallRow) {
        let index = *self
            .calls
            .entry((row.site, row.callee))
            .or_insert(calls.len());
        let Some(sum) = calls.get_mut(index) else {
            calls.push(row);
            return;
        };
        sum.calls = sum.calls.saturating_add(row.calls);
        sum.weight += row.weight;
        sum.squares = sum.squares.zip(row.squares).map(|(sum, more)| sum + more);
    }
}
