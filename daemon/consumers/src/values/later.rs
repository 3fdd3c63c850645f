//! Where the later events of profiles are kept.

use counters::Loss;
use hotlist::Hotlist;

use super::{Moment, ValueProfile, Values, tuple_bytes};
use crate::events::{NONE, Shared};
use crate::returns::{Later, Returns};

/// Rough size of an entry, in bytes.
fn bytes_of(returns: &Returns) -> usize {
    2 * size_of::<Returns>() + tuple_bytes(&returns.list)
}

impl Values {
    /// Counts an event that is not the first of its window. What finds no room is counted.
    #[inline(never)]
    pub(super) fn count_return(
        &mut self,
        shared: &mut Shared,
        index: u32,
        value: Option<u64>,
        moment: Moment,
    ) {
        let is_full = shared.budget.is_over_full();
        let Some(profile) = self.profiles.get_mut(index as usize) else {
            return;
        };
        let before = std::mem::replace(&mut profile.last_depth, moment.depth);
        if profile.returns == NONE {
            let new = u32::try_from(self.returns.len()).ok();
            let Some(new) = new.filter(|new| !is_full && *new != NONE) else {
                shared.lost.count(Loss::TableFullValues, 1);
                return;
            };
            profile.returns = new;
            let mut returns = Returns::new(Hotlist::growing(&self.config));
            // Of the value of that one nothing is kept.
            returns.begins(before, self.long, None, self.times);
            shared.budget.charge(bytes_of(&returns));
            self.returns.push(returns);
        }
        let Some(returns) = self.returns.get_mut(profile.returns as usize) else {
            return;
        };
        let later = Later {
            window: moment.window,
            depth: moment.depth,
            before,
            time: moment.time,
            times: self.times,
            long: self.long,
        };
        if is_full {
            returns.list.stop_growing();
        }
        let bytes = returns.list.bytes();
        returns.count(&later, value, profile.list.as_ref(), &mut shared.coins);
        shared.budget.charge(returns.list.bytes() - bytes);
    }

    /// Keeps later events of a profile.
    pub(super) fn put_returns(&mut self, shared: &mut Shared, returns: Returns) {
        shared.budget.charge(bytes_of(&returns));
        self.returns.push(returns);
    }

    /// The later events of a profile, if there are any.
    pub fn returns_of(&self, profile: &ValueProfile) -> Option<&Returns> {
        self.returns.get(profile.returns as usize)
    }
}
