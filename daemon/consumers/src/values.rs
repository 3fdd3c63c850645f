//! Value profiles: which values windows see at each instruction, and as arguments of each call.

mod later;
mod strings;
mod visits;

use std::array;

use counters::{Counter, CounterKey, Loss};
use hotlist::{Config, Hotlist};
use interpreter::{OTHER_ARGUMENTS, Parameter};
use rustc_hash::FxHashMap;

use self::strings::Strings;
use self::visits::{Place, Visited, Visits};
use super::returns::{self, Returns};
use crate::events::{
    Arguments, At, Call, Consumer, Context, Ending, Event, Load, NONE, Options, Owner, PcId,
    Shared, SiteId, Store,
};

/// Key of a value profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProfileKey {
    /// Whose values these are.
    pub owner: Owner,
    /// The instruction that has them; for arguments of a call, the function that is called.
    pub pc: PcId,
    /// The call site of the function that runs, where profiles are kept apart by it.
    pub caller: Option<PcId>,
    /// Which of the instruction's values these are.
    pub parameter: Parameter,
}

/// A value profile: a line of the processor's cache, and another for its list.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ValueProfile {
    /// Whose and which values these are.
    pub key: ProfileKey,
    /// The next profile of its site; [`NONE`] behind the last.
    pub(super) next: u32,
    /// What came behind the first event of a window; [`NONE`] if nothing did.
    pub(super) returns: u32,
    /// Events, by how often each counts.
    pub reached: u64,
    /// Those of them whose value is not known.
    pub unknown: u64,
    /// Windows with a known value, by how often each counts.
    pub windows: u64,
    /// The last window, the lower half of its number, and the instruction of it.
    pub(super) last_window: u32,
    pub(super) last_depth: u32,
    /// Made with the first known value.
    pub list: Option<Hotlist<u64>>,
}

/// What value events have in common that belong to one instruction of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) caller: Option<PcId>,
    /// What it is to its window, where values are kept apart by who called.
    visited: Option<Visited>,
    /// Number of the window, from 1.
    pub(super) window: u64,
    /// Which of its instructions this is, from 1.
    pub(super) depth: u32,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub(super) time: u64,
}

/// Where the values of one instruction are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueSlots {
    site: SiteId,
    pc: PcId,
    /// The profile of the next event, probably: those of an instruction mostly come in the order in
    /// which they came first.
    likely: u32,
}

/// Profiles that are searched for at their site; with more they are found by their key.
const SLOTS: usize = 16;

/// Rough size of an entry without its list's tuples, in bytes.
const PROFILE_BYTES: usize = 2 * size_of::<ValueProfile>();

/// Bytes of a list's tuples. Most lists of a flush have one value or two, so they grow.
pub(super) fn tuple_bytes(list: &Hotlist<u64>) -> usize {
    list.bytes() - size_of::<Hotlist<u64>>()
}

/// Keeps the value profiles.
#[derive(Debug)]
pub struct Values {
    /// All profiles. Those of one instruction are linked.
    pub profiles: Vec<ValueProfile>,
    pub(super) returns: Vec<Returns>,
    visits: Visits,
    /// Profiles of sites that have many.
    spilled: FxHashMap<ProfileKey, u32>,
    pub(super) config: Config,
    by_caller: bool,
    /// Known values so far.
    known: u64,
    /// How often the events of the present window count.
    pub(super) times: u32,
    /// Instructions of a window, if those that return within one are counted apart; else 0.
    pub(super) long: u32,
    /// What the arguments of the present window's calls point to.
    strings: Strings,
}

impl Values {
    /// Whether events that come back within a window are counted apart, as those of executions.
    /// Then first events are those of time, for which all windows count.
    pub fn tells_executions(&self) -> bool {
        self.long != 0
    }

    /// Known values so far.
    pub fn known(&self) -> u64 {
        self.known
    }

    fn moment(at: &At<'_>, caller: Option<PcId>) -> Moment {
        Moment {
            caller,
            visited: None,
            window: at.window.number,
            depth: at.depth,
            time: at.window.time,
        }
    }

    /// Where values of a site are kept, or of what the site calls.
    #[inline]
    pub(super) fn place(shared: &Shared, site: SiteId, callee: Option<PcId>) -> Option<ValueSlots> {
        let of_site = shared.sites.get(site.0 as usize)?;
        Some(ValueSlots {
            site,
            pc: callee.unwrap_or(of_site.id),
            likely: of_site.profile,
        })
    }

    /// Counts a value event. What finds no room is counted.
    #[inline(always)]
    pub(super) fn add_value(
        &mut self,
        shared: &mut Shared,
        place: &mut ValueSlots,
        parameter: Parameter,
        value: Option<u64>,
        moment: Moment,
    ) {
        let held = self.profiles.get(place.likely as usize);
        // All profiles of a site are of its owner.
        let is_it = held.is_some_and(|held| {
            held.key.pc == place.pc
                && held.key.caller == moment.caller
                && held.key.parameter == parameter
        });
        if !is_it {
            let ValueSlots { site, pc, .. } = *place;
            match self.other_profile(shared, site, pc, moment.caller, parameter) {
                Some(profile) => place.likely = profile,
                None => return,
            }
        }
        place.likely = self.count_value(shared, place.likely, value, moment);
    }

    /// The profile of a key that is not where it was looked for. `None`, and counted, if there is
    /// no room.
    #[inline(never)]
    fn other_profile(
        &mut self,
        shared: &mut Shared,
        site: SiteId,
        pc: PcId,
        caller: Option<PcId>,
        parameter: Parameter,
    ) -> Option<u32> {
        let of_site = shared.sites.get(site.0 as usize)?;
        let key = ProfileKey {
            owner: of_site.owner,
            pc,
            caller,
            parameter,
        };
        let mut last = None;
        let mut at = of_site.profile;
        let mut held = 0;
        while let Some(profile) = self.profiles.get(at as usize) {
            if profile.key == key {
                return Some(at);
            }
            (last, at) = (Some(at), profile.next);
            held += 1;
        }
        let spills = held >= SLOTS;
        if spills && let Some(&profile) = self.spilled.get(&key) {
            return Some(profile);
        }
        if shared.budget.is_over_full() {
            shared.lost.count(Loss::TableFullValues, 1);
            return None;
        }
        let new = u32::try_from(self.profiles.len()).ok();
        let new = new.filter(|new| *new != NONE)?;
        shared.budget.charge(PROFILE_BYTES);
        let profile = ValueProfile {
            key,
            next: NONE,
            reached: 0,
            unknown: 0,
            windows: 0,
            returns: NONE,
            last_window: 0,
            last_depth: 0,
            list: None,
        };
        self.profiles.push(profile);
        if spills {
            self.spilled.insert(key, new);
        } else if let Some(last) = last {
            self.profiles[last as usize].next = new;
        } else {
            shared.sites[site.0 as usize].profile = new;
        }
        Some(new)
    }

    /// Counts a value event; the next profile of the same site.
    #[inline(always)]
    fn count_value(
        &mut self,
        shared: &mut Shared,
        index: u32,
        value: Option<u64>,
        moment: Moment,
    ) -> u32 {
        let Some(profile) = self.profiles.get_mut(index as usize) else {
            return NONE;
        };
        let next = profile.next;
        // The lower half tells neighbours apart.
        let window = moment.window as u32;
        let opens = profile.last_window != window;
        if self.long != 0 {
            let is_later = match moment.visited {
                Some(visited) => !visited.opens,
                None => !opens && profile.last_depth != moment.depth,
            };
            if is_later {
                self.count_return(shared, index, value, moment);
                return next;
            }
            profile.last_depth = moment.depth;
            if opens && let Some(returns) = self.returns.get_mut(profile.returns as usize) {
                returns.begins(moment.depth, self.long, value, self.times);
            }
        }
        let times = self.times;
        profile.reached += u64::from(times);
        let Some(value) = value else {
            profile.unknown += u64::from(times);
            if self.long != 0 {
                profile.last_window = window;
            }
            return next;
        };
        if opens {
            profile.last_window = window;
            profile.windows += u64::from(times);
        }
        let before = profile.list.as_ref().map_or(0, tuple_bytes);
        let growing = || Hotlist::growing(&self.config);
        let list = profile.list.get_or_insert_with(growing);
        if shared.budget.is_over_full() {
            list.stop_growing();
        }
        list.update_in_window(value, moment.time, opens, &mut shared.coins);
        for _ in 1..times {
            // To the list it is another event of the window: so intervals know of it.
            list.update_in_window(value, moment.time, false, &mut shared.coins);
        }
        shared.budget.charge(tuple_bytes(list) - before);
        next
    }

    /// Counts a value of a sample, which has a number of its own in place of its window's.
    pub(super) fn add_sample(&mut self, shared: &mut Shared, at: &At<'_>, event: Event) {
        self.times = 1;
        self.add_values(shared, at, None, &[event]);
    }

    /// Counts the values of an instruction.
    #[inline(always)]
    fn add_values(
        &mut self,
        shared: &mut Shared,
        at: &At<'_>,
        caller: Option<PcId>,
        events: &[Event],
    ) {
        let Some(mut place) = at.site.and_then(|site| Self::place(shared, site, None)) else {
            return;
        };
        let mut moment = Self::moment(at, caller);
        if caller.is_some() && !self.visit(shared, &place, &mut moment, false) {
            return;
        }
        for &(parameter, value) in events {
            self.known += u64::from(value.is_some());
            self.add_value(shared, &mut place, parameter, value, moment);
        }
    }

    /// Counts the arguments of a call at its callee.
    fn add_call(&mut self, shared: &mut Shared, at: &At<'_>, call: &Call<'_>, of: &Arguments<'_>) {
        let (Some(callee), Some(site)) = (call.callee.id(), at.site) else {
            return;
        };
        let to = (site, callee, call.site);
        let registers = of.registers;
        // The casts are exact: there are six of them, and eight.
        let events: [Event; 6] =
            array::from_fn(|i| (Parameter::Arg(i as u8), registers.arguments[i]));
        self.add_arguments(shared, at, to, &events);
        if let Some(others) = of.others.filter(|others| !others.is_empty()) {
            let event = |i: usize| (Parameter::ArgIn(OTHER_ARGUMENTS[i]), registers.others[i]);
            let mut events = [(Parameter::Taken, None); OTHER_ARGUMENTS.len()];
            let mut count = 0;
            for (held, number) in events.iter_mut().zip(others.numbers()) {
                *held = event(number);
                count += 1;
            }
            self.add_arguments(shared, at, to, &events[..count]);
        }
        if let Some(words) = of.vectors {
            let event = |i: usize| (Parameter::VectorArg(i as u8), words[i].get(8));
            let events: [Event; 8] = array::from_fn(event);
            self.add_arguments(shared, at, to, &events);
        }
    }

    /// Counts value events at what a site calls.
    #[inline(never)]
    fn add_arguments(
        &mut self,
        shared: &mut Shared,
        at: &At<'_>,
        (site, callee, caller): (SiteId, PcId, PcId),
        events: &[Event],
    ) {
        let known = events.iter().filter(|(_, value)| value.is_some());
        self.known += known.count() as u64;
        let mut moment = Self::moment(at, Some(caller));
        let Some(mut place) = Self::place(shared, site, Some(callee)) else {
            return;
        };
        let is_text = matches!(events, [(Parameter::Text(_), _), ..]);
        if !self.visit(shared, &place, &mut moment, is_text) {
            return;
        }
        for &(parameter, value) in events {
            self.add_value(shared, &mut place, parameter, value, moment);
        }
    }

    /// Takes over a profile; `pc` gives its PCs in the copy.
    pub(crate) fn copy(
        &mut self,
        (from, profile): (&Self, &ValueProfile),
        shared: &mut Shared,
        mut pc: impl FnMut(PcId) -> PcId,
    ) {
        let of_executions = from.returns.get(profile.returns as usize).map(|returns| {
            self.put_returns(shared, returns.clone());
            u32::try_from(self.returns.len() - 1).unwrap_or(NONE)
        });
        let key = ProfileKey {
            pc: pc(profile.key.pc),
            caller: profile.key.caller.map(pc),
            ..profile.key
        };
        if let (Some(of), Some(to)) = (Place::of(&profile.key), Place::of(&key)) {
            self.visits.copy(&from.visits, (&of, to), shared);
        }
        let copy = ValueProfile {
            key,
            next: NONE,
            returns: of_executions.unwrap_or(NONE),
            list: profile.list.clone(),
            ..*profile
        };
        self.profiles.push(copy);
        shared.budget.charge(PROFILE_BYTES);
        shared
            .budget
            .charge(profile.list.as_ref().map_or(0, tuple_bytes));
    }
}

impl Consumer for Values {
    fn new(options: &Options) -> Self {
        Self {
            profiles: Vec::new(),
            returns: Vec::new(),
            visits: Visits::default(),
            spilled: FxHashMap::default(),
            config: options.lists,
            by_caller: options.by_caller,
            known: 0,
            times: 1,
            long: returns::long(options.window),
            strings: Strings::default(),
        }
    }

    fn begins(&mut self, _: &mut Shared, window: &Context) {
        self.times = window.times;
        self.strings.clear();
    }

    /// While an instruction is interpreted, what its values go to can come into the cache.
    #[inline(always)]
    fn instruction(&mut self, shared: &mut Shared, at: &At<'_>) {
        if let Some(site) = at.site
            && let Some(site) = shared.sites.get(site.0 as usize)
            && let Some(profile) = self.profiles.get(site.profile as usize)
        {
            mem_prefetch::prefetch_read_data::<_, 3>(profile);
            mem_prefetch::prefetch_read_data::<_, 3>(&profile.list);
        }
    }

    #[inline(always)]
    fn values(&mut self, shared: &mut Shared, at: &At<'_>, events: &[Event]) {
        self.add_values(shared, at, at.caller.filter(|_| self.by_caller), events);
    }

    /// Most system calls are made in functions of the C library, one for each. What tells them
    /// apart is who calls these.
    fn system_call(&mut self, shared: &mut Shared, at: &At<'_>, events: &[Event]) {
        self.add_values(shared, at, at.caller, events);
    }

    fn call(&mut self, shared: &mut Shared, at: &At<'_>, call: &Call<'_>) {
        if let Some(arguments) = &call.arguments {
            self.add_call(shared, at, call, arguments);
            if arguments.with_strings {
                self.strings.call(at, call, &arguments.registers.arguments);
            }
        }
    }

    #[inline(always)]
    fn load(&mut self, _: &mut Shared, _: &At<'_>, load: &Load) {
        if !self.strings.is_empty() {
            self.strings.load(load);
        }
    }

    #[inline(always)]
    fn store(&mut self, _: &mut Shared, _: &At<'_>, store: &Store) {
        if !self.strings.is_empty() {
            self.strings.store(store);
        }
    }

    fn ends(&mut self, shared: &mut Shared, window: &Context, _: &Ending) {
        if !self.strings.is_empty() {
            self.add_strings(shared, window);
        }
    }

    fn count(&self, add: &mut dyn FnMut(CounterKey, u64)) {
        add(Counter::ValueEvents.into(), self.known);
    }
}
