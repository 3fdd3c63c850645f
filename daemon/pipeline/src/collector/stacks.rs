//! Call stacks of samples.

use profiledb::StackEnd;

use super::Collector;
use crate::handler_updates::HandlerUpdates;
use consumers::events::Owner;
use machine::place::Pc;
use machine::stack::{Walked, Walker};

/// Finds the call stack of a sample, and gives the handler rows for frames that it missed; why
/// there are no more frames.
pub(super) fn walk(
    walker: &mut Walker,
    updates: Option<&mut HandlerUpdates>,
    sample: &Walked<'_, '_, '_>,
) -> StackEnd {
    let end = walker.walk(sample);
    if let (Some(updates), Some(capture)) = (updates, sample.capture) {
        let process = capture.task.process();
        for to in walker.returns() {
            updates.give_row(process, *to, sample.space);
        }
    }
    end
}

impl Collector {
    /// The call stack of a sample of which no more is known than where it was taken.
    pub(super) fn leaf_alone(&mut self, owner: Owner, pc: Pc, end: StackEnd, weight: u64) {
        if self.walker.is_on() {
            self.tables.add_stack(owner, &[pc], end, weight);
        }
    }
}
