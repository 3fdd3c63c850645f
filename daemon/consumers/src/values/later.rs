//! Where the later events of profiles are kept.

use counters::Loss;
use hotlist::{Estimates, Generator, Hotlist, Sum};
use interpreter::Parameter;
use rustc_hash::FxHashSet;

use super::visits::Place;
use super::{Moment, ProfileKey, ValueProfile, Values};
use crate::alike::IsInTurns;
use crate::events::{NONE, PcId, Shared};
use crate::returns::{Later, MOST_TURNED_AWAY, Returns};

/// One later event for so many first ones are some.
const SOME: f64 = 8.0;

/// Rough size of an entry, in bytes.
fn bytes_of(returns: &Returns) -> usize {
    2 * size_of::<Returns>() + returns.bytes() - size_of::<Hotlist<u64>>()
}

/// What a profile is of, whoever's it is: the instruction, who called, and the parameter.
type OfAll = (PcId, Option<PcId>, Parameter);

fn of_all(key: &ProfileKey) -> OfAll {
    (key.pc, key.caller, key.parameter)
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
    /// They do, since values take turns of which a window sees few.
    take_turns: bool,
    /// The later events.
    pub returns: &'a Returns,
}

/// What windows tell of a profile, whatever its shares are of.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Events, by how often each counts.
    pub reached: f64,
    /// Those of them whose value is not known.
    pub unknown: f64,
    /// Windows with a known one, at least.
    pub windows: u64,
    /// The known ones.
    pub list: Estimates<u64>,
}

impl Executions<'_> {
    /// Whether all but three in a hundred are known, so that they are told.
    pub(crate) fn are_known(&self) -> bool {
        u128::from(self.unknown) * 100 <= u128::from(self.reached) * 3
    }
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
        let bytes = returns.bytes();
        returns.count(&later, value, profile.list.as_ref(), &mut shared.coins);
        shared.budget.charge(returns.bytes() - bytes);
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
        let apart = visit.map_or(returns.apart(), |visit| visit.apart());
        let (reached, unknown) = returns.reached_and_unknown(apart);
        let of_list = |list| returns.may_be_off(profile.reached, list);
        let off = visit
            .and_then(|visit| visit.may_be_off())
            .or_else(|| profile.list.as_ref().and_then(of_list));
        let are_callers = visit.is_none_or(|visit| visit.is_independent());
        Some(Executions {
            reached,
            unknown,
            is_independent: are_callers && returns.is_independent() && off.is_none(),
            take_turns: are_callers && (returns.take_turns() || off == Some(IsInTurns(true))),
            returns,
        })
    }

    /// Profiles of which later events were seen, whoever's they are.
    pub fn come_back(&self) -> FxHashSet<OfAll> {
        let with_returns = self.profiles.iter().filter(|of| of.returns != NONE);
        with_returns.map(|of| of_all(&of.key)).collect()
    }

    /// As how many later events the executions of a profile count which has none, where others of
    /// the same place have some ([`Values::come_back`]): those of another process, to which they
    /// are added up. None of them is known.
    ///
    /// Where a window comes by once at most, the first events of all windows are as many as the
    /// executions that these stand for. Of later ones that are far apart one in four is accepted.
    pub fn never_back(&self, profile: &ValueProfile, come_back: &FxHashSet<OfAll>) -> Option<f64> {
        let is_alone = self.tells_executions()
            && profile.returns == NONE
            && come_back.contains(&of_all(&profile.key));
        is_alone.then(|| profile.reached as f64 / MOST_TURNED_AWAY)
    }

    /// The first events of windows, which are those of time.
    ///
    /// With them come the later ones where there are some and these are no shares of executions by
    /// themselves: since many executions have none behind them, or since values take turns of which
    /// a window sees few. In a loop of few rounds, whose function is called once or twice in a
    /// window, the first event is mostly that of the first round. The stretch before that is long,
    /// so it is right about time, and no more than that. All events together are neither of time
    /// nor of executions, and have each round. Of long stretches between two of them too few are
    /// seen, which the acceptance makes up for.
    ///
    /// `laters` are those of [`Values::executions_of`].
    pub fn seen_of(&self, profile: &ValueProfile, laters: Option<&Executions<'_>>) -> Seen {
        let firsts = Seen {
            reached: profile.reached as f64,
            unknown: profile.unknown as f64,
            windows: profile.windows,
            list: profile
                .list
                .as_ref()
                .map(Estimates::from)
                .unwrap_or_default(),
        };
        let tells_more =
            |of: &&Executions<'_>| of.take_turns || of.is_independent && !of.are_known();
        let Some(later) = laters.filter(tells_more) else {
            return firsts;
        };
        let [reached, unknown] = <[u64; 2]>::from(later.returns.accepted())
            .map(|accepted| accepted as f64 * MOST_TURNED_AWAY);
        // A few of them change nothing.
        if (reached - unknown) * SOME < firsts.reached - firsts.unknown {
            return firsts;
        }
        let mut laters = Estimates::from(&later.returns.list);
        laters.undo_thinning(MOST_TURNED_AWAY);
        // They are far fewer than would have it toss coins.
        let mut coins = Generator::new(0);
        let mut sum = Sum::new(Sum::<u64>::MOST);
        for list in [&firsts.list, &laters] {
            sum.add_estimates(list, &mut coins);
        }
        Seen {
            reached: firsts.reached + reached,
            unknown: firsts.unknown + unknown,
            windows: firsts.windows.max(later.returns.windows),
            list: sum.to_estimates(),
        }
    }
}
