//! When windows come to a place whose values are kept apart by who called.
//!
//! Which event of a window is its first one, and how far it is to the next, belongs to the place:
//! the function that is called, or the instruction. Were it told for each call site by itself, a
//! site that is called once in a while would have a first event in each window that comes by it,
//! and one that does not come back within a window would have no later ones. So neither the first
//! events of all sites together were those of time, nor the later ones those of executions.

use counters::Loss;
use interpreter::Parameter;
use rustc_hash::FxHashMap;

use super::{Moment, ProfileKey, ValueSlots, Values};
use crate::alike::{Alike, IsInTurns, Sequence};
use crate::events::{NONE, Owner, PcId, Shared};
use crate::returns::{Apart, accepted};
use crate::stretches::{Stretches, Where};

/// A place of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) owner: Owner,
    /// The instruction, or the function that is called.
    pub(super) pc: PcId,
    /// The values are texts, which are told when the window has ended.
    pub(super) is_text: bool,
}

impl Place {
    /// That of a profile that is kept apart by who called.
    pub(super) fn of(key: &ProfileKey) -> Option<Place> {
        key.caller.map(|_| Place {
            owner: key.owner,
            pc: key.pc,
            is_text: matches!(key.parameter, Parameter::Text(_)),
        })
    }
}

/// What an event is to its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visited {
    /// It is the place's first one.
    pub(super) opens: bool,
    /// The instruction of the window that had the one before, if there is one.
    pub(super) before: u32,
    /// The window's first event was called by whom this one is.
    pub(super) as_first: bool,
}

/// Events of one caller: the first ones of their windows, and those of later ones that count.
#[derive(Clone, Copy, Debug)]
struct Caller {
    pc: PcId,
    firsts: u64,
    laters: u64,
}

/// A place's last event, and what is known of all.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    /// The window, the lower half of its number, and the instruction of it, from 1; 0 before the
    /// first event.
    window: u32,
    depth: u32,
    last: Visited,
    /// Who called at the first event of that window.
    first: PcId,
    /// How many events have no other one near.
    apart: Apart,
    firsts: u64,
    laters: u64,
    callers: Vec<Caller>,
    /// Who called at the event before.
    before: PcId,
    /// How far the caller of a later event depends on that of the first.
    alike: Alike,
    /// How it follows from the one before.
    sequence: Sequence,
    /// Whether windows lie in stretches with callers of their own.
    stretches: Option<Box<Stretches>>,
}

/// Callers that are told apart in one place; all others are one.
const CALLERS: usize = 16;

/// Rough size of an entry with its share of the hash table and of its callers, in bytes.
const VISIT_BYTES: usize = 2 * size_of::<(Place, Visit)>();
const CALLER_BYTES: usize = 2 * size_of::<Caller>();

impl Visit {
    fn new() -> Self {
        Self {
            window: 0,
            depth: 0,
            last: Visited {
                opens: true,
                before: 0,
                as_first: true,
            },
            first: PcId(NONE),
            apart: Apart::default(),
            firsts: 0,
            laters: 0,
            callers: Vec::new(),
            before: PcId(NONE),
            alike: Alike::default(),
            sequence: Sequence::default(),
            stretches: None,
        }
    }

    /// Where a caller is counted.
    fn caller(&mut self, pc: PcId, shared: &mut Shared) -> usize {
        let found = |pc: PcId| self.callers.iter().position(|of| of.pc == pc);
        let others = PcId(NONE);
        if let Some(at) = found(pc) {
            return at;
        }
        let pc = if self.callers.len() < CALLERS {
            pc
        } else {
            others
        };
        found(pc).unwrap_or_else(|| {
            shared.budget.charge(CALLER_BYTES);
            self.callers.push(Caller {
                pc,
                firsts: 0,
                laters: 0,
            });
            self.callers.len() - 1
        })
    }

    /// Counts an event, unless it is of the one counted last: all values of a call come one after
    /// the other.
    fn comes(
        &mut self,
        shared: &mut Shared,
        by: PcId,
        moment: &Moment,
        (times, long): (u32, u32),
    ) -> Visited {
        let window = moment.window as u32;
        if (self.window, self.depth) == (window, moment.depth) {
            return self.last;
        }
        let at = self.caller(by, shared);
        let by = self.callers[at].pc;
        let opens = self.depth == 0 || self.window != window;
        let before = self.depth;
        let depths = ((!opens).then_some(before), moment.depth);
        self.apart.came_by(depths, long, times);
        (self.window, self.depth) = (window, moment.depth);
        let count = u64::from(times);
        if opens {
            self.first = by;
            self.firsts += count;
            self.callers[at].firsts += count;
        } else {
            self.sequence.saw(count);
            let gap = moment.depth.saturating_sub(before);
            if let Some(stretches) = &mut self.stretches {
                let at = Where {
                    window,
                    depth: moment.depth,
                    gap,
                    long,
                };
                stretches.saw(at, u64::from(by.0));
            }
            self.later(at, accepted((gap, long), times, &mut shared.coins));
            let bytes = Stretches::bytes(&self.stretches);
            let callers = &self.callers;
            let top = || callers.iter().max_by_key(|of| of.laters);
            Stretches::look(&mut self.stretches, self.laters, || {
                top().map(|of| u64::from(of.pc.0))
            });
            shared
                .budget
                .charge(Stretches::bytes(&self.stretches) - bytes);
        }
        self.before = by;
        self.last = Visited {
            opens,
            before,
            as_first: self.first == by,
        };
        self.last
    }

    /// Counts a later event so often, and compares its caller with that of the first.
    fn later(&mut self, at: usize, times: u64) {
        if times == 0 {
            return;
        }
        let first = self.callers.iter().find(|of| of.pc == self.first);
        if let Some(first) = first
            && self.laters > 0
        {
            let [among, of_firsts] = [(first.laters, self.laters), (first.firsts, self.firsts)]
                .map(|(of, all)| of as f64 / all.max(1) as f64);
            let is_equal = self.callers[at].pc == self.first;
            self.alike.count(is_equal, among, of_firsts);
        }
        if let Some(before) = self.callers.iter().find(|of| of.pc == self.before)
            && self.laters > 0
        {
            let among = before.laters as f64 / self.laters as f64;
            let is_equal = self.callers[at].pc == self.before;
            self.sequence.step(is_equal, among);
        }
        self.laters += times;
        self.callers[at].laters += times;
    }

    /// How many events have no other one near.
    pub(super) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// Whether the shares of callers are off, by how later ones follow from the first; and whether
    /// they take turns then.
    pub(super) fn may_be_off(&self) -> Option<IsInTurns> {
        let [firsts, laters] = [self.firsts, self.laters].map(|all| all.max(1) as f64);
        let apart = |of: &Caller| (of.firsts as f64 / firsts - of.laters as f64 / laters).abs();
        let apart = self.callers.iter().map(apart).fold(0.0, f64::max);
        self.sequence.may_be_off(self.firsts, apart)
    }

    /// Whether who called later depends neither on who called first, nor on where the window lies.
    pub(super) fn is_independent(&self) -> bool {
        self.alike.is_independent() && !Stretches::are_unlike(&self.stretches)
    }
}

/// All places whose values are kept apart by who called.
#[derive(Debug, Default)]
pub(super) struct Visits {
    places: FxHashMap<Place, Visit>,
}

impl Visits {
    /// A window that counts so often, of at most `long` instructions, comes to a place. `None`,
    /// and counted, if there is no room.
    pub(super) fn come(
        &mut self,
        shared: &mut Shared,
        (place, caller): (Place, PcId),
        moment: &Moment,
        lengths: (u32, u32),
    ) -> Option<Visited> {
        if let Some(visit) = self.places.get_mut(&place) {
            return Some(visit.comes(shared, caller, moment, lengths));
        }
        if shared.budget.is_over_full() {
            shared.lost.count(Loss::TableFullValues, 1);
            return None;
        }
        shared.budget.charge(VISIT_BYTES);
        let visit = self.places.entry(place).or_insert_with(Visit::new);
        Some(visit.comes(shared, caller, moment, lengths))
    }

    /// What is known of a place.
    pub(super) fn of(&self, place: &Place) -> Option<&Visit> {
        self.places.get(place)
    }

    /// Takes over what another one knows of a place, which is `to` here.
    pub(super) fn copy(&mut self, from: &Self, (of, to): (&Place, Place), shared: &mut Shared) {
        if !self.places.contains_key(&to)
            && let Some(visit) = from.of(of)
        {
            shared.budget.charge(VISIT_BYTES);
            let callers = Vec::new();
            self.places.insert(
                to,
                Visit {
                    callers,
                    ..visit.clone()
                },
            );
        }
    }
}

impl Values {
    /// Takes note that the window comes to a place whose values are kept apart by who called;
    /// whether there is room for it.
    pub(super) fn visit(
        &mut self,
        shared: &mut Shared,
        place: &ValueSlots,
        moment: &mut Moment,
        is_text: bool,
    ) -> bool {
        let owner = shared.sites.get(place.site.0 as usize).map(|of| of.owner);
        let (Some(owner), Some(caller)) = (owner, moment.caller) else {
            return false;
        };
        // In short windows all events are of one kind.
        if self.long != 0 {
            let of = Place {
                owner,
                pc: place.pc,
                is_text,
            };
            let lengths = (self.times, self.long);
            moment.visited = self.visits.come(shared, (of, caller), moment, lengths);
        }
        self.long == 0 || moment.visited.is_some()
    }
}
