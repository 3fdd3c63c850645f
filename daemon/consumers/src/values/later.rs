//! Where the later events of profiles are kept.

use counters::Loss;
use hotlist::Hotlist;

use super::visits::Place;
use super::{Moment, ValueProfile, Values, tuple_bytes};
use crate::events::{NONE, Shared};
use crate::returns::{Later, Returns};

/// Rough size of an entry, in bytes.
fn bytes_of(returns: &Returns) -> usize {
    2 * size_of::<Returns>() + tuple_bytes(&returns.list)
}

/// What the later events of a profile tell of its executions.
#[derive(Clone, Copy, Debug)]
pub struct Executions<'a> {
    /// How many there are, and how many of them are unknown.
    pub reached: u64,
    /// See `reached`.
    pub unknown: u64,
    /// Later events do not depend on the first ones of their windows. If they do, they are no
    /// shares of executions.
    pub is_independent: bool,
    /// The later events.
    pub returns: &'a Returns,
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
        let last = std::mem::replace(&mut profile.last_depth, moment.depth);
        let (before, as_first) = match moment.visited {
            Some(visited) => (visited.before, visited.as_first),
            None => (last, true),
        };
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
            as_first,
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

    /// What the later events of a profile tell of its executions, if there are any. Where values
    /// are kept apart by who called, how many have a next one is known of their place.
    pub fn executions_of(&self, profile: &ValueProfile) -> Option<Executions<'_>> {
        let returns = self.returns_of(profile)?;
        let visit = Place::of(&profile.key).and_then(|place| self.visits.of(&place));
        let early_and_returned = visit.map_or_else(
            || returns.early_and_returned(),
            |visit| visit.early_and_returned(),
        );
        let (reached, unknown) = returns.reached_and_unknown(early_and_returned);
        let is_independent = visit.is_none_or(|visit| visit.is_independent());
        Some(Executions {
            reached,
            unknown,
            is_independent: is_independent && returns.is_independent(),
            returns,
        })
    }
}
