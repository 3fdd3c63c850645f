//! What functions are called with, as breakpoints at their entries show it, by call site.
//!
//! These are shares of executions of their own provenance: they mix with nothing that windows see.

use counters::Loss;
use hotlist::{Config, Hotlist};
use parameters::Parameter;
use profiledb::AT_ENTRY;
use rustc_hash::FxHashMap;

use super::alike::{Alike, share};
use super::stretches::{Stretches, Where};
use crate::events::{Consumer, Options, Owner, PcId, Shared};

/// Integer arguments of the platform's calling convention: rdi rsi rdx rcx r8 r9.
pub const ARGUMENTS: usize = 6;

/// Calls of a burst, at most.
pub const BURST: u32 = 64;

/// A function, and whose it is.
pub(crate) type Callee = (Owner, PcId);

/// The calls of a burst that count, of one function.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// The function.
    pub callee: Callee,
    /// Its number, from 1.
    pub number: u64,
    /// Wall-clock time, ns of the Unix epoch.
    pub time: u64,
    /// How often each of its calls counts.
    pub times: u32,
    /// Its calls count only as far as they do not depend on the first one.
    pub is_dense: bool,
}

/// A call, and where it came from as far as that is known.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// The call site.
    pub caller: Option<PcId>,
    /// What was seen of it.
    pub values: ArrivedWith,
}

/// What was seen of a call: that is the same of all calls of a burst.
#[derive(Clone, Copy, Debug)]
pub enum ArrivedWith {
    /// The registers of integer arguments, in the order of [`ARGUMENTS`], and what the call
    /// returned, where that was asked, if it was seen to.
    General([u64; ARGUMENTS], Option<Option<u64>>),
    /// The lower words of the vector registers of arguments, where the function reads such, and of
    /// the one of a result, where that was asked; as far as they were brought.
    Vectors(Option<[Option<u64>; VECTORS]>, Option<Option<u64>>),
}

/// Vector registers of the platform's calling convention in which arguments are passed.
pub const VECTORS: usize = 8;

/// Places behind those of integer arguments: of a result, of the first vector register, and of a
/// result in one.
const RESULT: u8 = ARGUMENTS as u8;
const FIRST_VECTOR: u8 = RESULT + 1;
const VECTOR_RESULT: u8 = FIRST_VECTOR + VECTORS as u8;

/// The values of an argument, or of the result, of calls from one site.
#[derive(Clone, Debug)]
pub struct CallValueProfile {
    /// The call site, if that is known.
    pub caller: Option<PcId>,
    argument: u8,
    /// Calls that count, by how often each does.
    pub reached: u64,
    /// Those of them whose value is not known.
    pub unknown: u64,
    /// Bursts in which calls counted.
    pub windows: u64,
    /// The known values.
    pub list: Hotlist<u64>,
    last_burst: u64,
    /// Of first calls, which do not count.
    firsts: Option<Hotlist<u64>>,
    alike: Alike,
    behind: Behind,
}

/// The calls behind the first ones of bursts in which these do not count: as later events of
/// windows ([`Stretches`]).
#[derive(Clone, Debug, Default)]
struct Behind {
    /// The burst, the lower half of its number, and which of its calls the last one was, from 1.
    burst: u32,
    last: u32,
    stretches: Option<Box<Stretches>>,
}

impl Behind {
    /// Counts a value that the list has by now, of a burst's call by number.
    fn saw(
        &mut self,
        shared: &mut Shared,
        (burst, call): (u64, u32),
        value: u64,
        list: &Hotlist<u64>,
    ) {
        let window = burst as u32;
        let before = if self.burst == window { self.last } else { 0 };
        (self.burst, self.last) = (window, call);
        if let Some(stretches) = &mut self.stretches {
            let at = Where {
                window,
                depth: call,
                gap: call.saturating_sub(before),
                long: BURST,
            };
            stretches.saw(at, value);
        }
        let had = Stretches::bytes(&self.stretches);
        Stretches::look_at_list(&mut self.stretches, list);
        shared
            .budget
            .charge(Stretches::bytes(&self.stretches) - had);
    }

    /// Whether bursts show no shares of executions, by where they lie.
    fn are_unlike(&self) -> bool {
        Stretches::are_unlike(&self.stretches)
    }
}

/// A function's calls.
#[derive(Debug, Default)]
struct CalledFunction {
    profiles: Vec<CallValueProfile>,
    /// Where calls came from, in bursts that saw general registers and in those that saw vectors.
    sites: [Sites; 2],
}

/// Where the calls of bursts came from in which first calls do not count.
#[derive(Debug, Default)]
struct Sites {
    /// The sites of calls, and of first calls.
    lists: Option<[Hotlist<u64>; 2]>,
    /// How far sites depend on that of the first call.
    alike: Alike,
    behind: Behind,
}

impl Sites {
    fn are_of_executions(&self) -> bool {
        self.alike.is_independent() && !self.behind.are_unlike()
    }
}

/// The number of the sites that belong to the values of a place.
fn sites_of(place: u8) -> usize {
    usize::from(place >= FIRST_VECTOR)
}

/// Keeps the arguments of calls.
#[derive(Debug)]
pub struct Entries {
    functions: FxHashMap<Callee, CalledFunction>,
    config: Config,
}

/// Rough sizes of a list's tuples and of a profile, in bytes.
const LIST_BYTES: usize = 608;
const PROFILE_BYTES: usize = 2 * size_of::<CallValueProfile>() + LIST_BYTES;

impl CalledFunction {
    /// The profile of an argument at a site; `None`, and counted, if there is no room.
    fn profile(
        &mut self,
        shared: &mut Shared,
        config: &Config,
        (caller, argument): (Option<PcId>, u8),
    ) -> Option<&mut CallValueProfile> {
        let is_it = |of: &CallValueProfile| of.caller == caller && of.argument == argument;
        let place = match self.profiles.iter().position(is_it) {
            Some(place) => place,
            None if shared.budget.is_over_full() => {
                shared.lost.count(Loss::TableFullValues, 1);
                return None;
            }
            None => {
                shared.budget.charge(PROFILE_BYTES);
                self.profiles.push(CallValueProfile {
                    caller,
                    argument,
                    reached: 0,
                    unknown: 0,
                    windows: 0,
                    list: Hotlist::new(config),
                    last_burst: 0,
                    firsts: None,
                    alike: Alike::default(),
                    behind: Behind::default(),
                });
                self.profiles.len() - 1
            }
        };
        self.profiles.get_mut(place)
    }

    /// Takes notice of the call that comes before those of a burst, and does not count.
    fn begins(&mut self, shared: &mut Shared, config: &Config, time: u64, first: &Arrived) {
        let sites = &mut self.sites[first.sites()];
        if sites.lists.is_none() {
            shared.budget.charge(2 * LIST_BYTES);
        }
        let lists = sites
            .lists
            .get_or_insert_with(|| [Hotlist::new(config), Hotlist::new(config)]);
        lists[1].update(number_of(first.caller), time, &mut shared.coins);
        for (argument, value) in first.values() {
            let profile = self.profile(shared, config, (first.caller, argument));
            if let (Some(profile), Some(value)) = (profile, value) {
                let firsts = profile.firsts.get_or_insert_with(|| {
                    shared.budget.charge(LIST_BYTES);
                    Hotlist::new(config)
                });
                firsts.update(value, time, &mut shared.coins);
            }
        }
    }

    /// Compares the site of a burst's call, by number, with that of the first.
    fn compare(
        &mut self,
        shared: &mut Shared,
        burst: &Entered,
        first: &Arrived,
        (number, call): (u32, &Arrived),
    ) {
        let of_kind = &mut self.sites[call.sites()];
        let Sites {
            lists,
            alike,
            behind,
        } = of_kind;
        let Some([sites, firsts]) = lists else {
            return;
        };
        let (first, site) = (number_of(first.caller), number_of(call.caller));
        if let (Some(among), Some(of_firsts)) = (share(sites, first), share(firsts, first)) {
            alike.count(first == site, among, of_firsts);
        }
        sites.update(site, burst.time, &mut shared.coins);
        behind.saw(shared, (burst.number, number), site, sites);
    }
}

/// A site as a value.
fn number_of(site: Option<PcId>) -> u64 {
    site.map_or(u64::MAX, |site| site.0.into())
}

impl Arrived {
    /// Its arguments, and its result if that was asked, with their places.
    fn values(&self) -> impl Iterator<Item = (u8, Option<u64>)> {
        let (general, vectors, result) = match self.values {
            ArrivedWith::General(arguments, result) => {
                let arguments = arguments.map(Some);
                (Some(arguments), None, result.map(|of| (RESULT, of)))
            }
            ArrivedWith::Vectors(arguments, result) => {
                (None, arguments, result.map(|of| (VECTOR_RESULT, of)))
            }
        };
        let general = (0..).zip(general.into_iter().flatten());
        let vectors = (FIRST_VECTOR..).zip(vectors.into_iter().flatten());
        general.chain(vectors).chain(result)
    }

    /// The number of the sites that belong to its values.
    fn sites(&self) -> usize {
        match self.values {
            ArrivedWith::General(..) => sites_of(0),
            ArrivedWith::Vectors(..) => sites_of(FIRST_VECTOR),
        }
    }
}

impl Entries {
    /// Counts the calls of a burst; `first` is the one before them, which counts itself no time.
    pub fn entered(
        &mut self,
        shared: &mut Shared,
        burst: &Entered,
        first: Option<&Arrived>,
        calls: impl IntoIterator<Item = Arrived>,
    ) {
        let function = self.functions.entry(burst.callee).or_default();
        let times = u64::from(burst.times);
        let first = first.filter(|_| burst.is_dense);
        if let Some(first) = first {
            function.begins(shared, &self.config, burst.time, first);
        }
        for (number, call) in (1..).zip(calls) {
            if let Some(first) = first {
                function.compare(shared, burst, first, (number, &call));
            }
            for (argument, value) in call.values() {
                let key = (call.caller, argument);
                let Some(profile) = function.profile(shared, &self.config, key) else {
                    continue;
                };
                let of_first = first
                    .filter(|first| first.caller == call.caller)
                    .and_then(|first| first.values().find(|(of, _)| *of == argument)?.1);
                profile.reached += times;
                let Some(value) = value else {
                    profile.unknown += times;
                    continue;
                };
                if let Some(of_first) = of_first {
                    profile.compare(of_first, value);
                }
                let opens = profile.last_burst != burst.number;
                profile.last_burst = burst.number;
                profile.windows += u64::from(opens);
                let list = &mut profile.list;
                list.update_in_window(value, burst.time, opens, &mut shared.coins);
                for _ in 1..times {
                    list.update_in_window(value, burst.time, false, &mut shared.coins);
                }
                if first.is_some() {
                    let at = (burst.number, number);
                    profile.behind.saw(shared, at, value, list);
                }
            }
        }
    }

    /// Takes over the functions of owners that pass the test; `pc` gives their PCs in the copy.
    pub(crate) fn copy(
        &mut self,
        from: &Self,
        shared: &mut Shared,
        takes: impl Fn(&Owner) -> bool,
        mut pc: impl FnMut(PcId) -> PcId,
    ) {
        let all = from.functions.iter();
        for (&(owner, callee), function) in all.filter(|((owner, _), _)| takes(owner)) {
            let profiles = function.profiles.iter().map(|profile| CallValueProfile {
                caller: profile.caller.map(&mut pc),
                ..profile.clone()
            });
            let sites = |number: usize| Sites {
                lists: None,
                alike: function.sites[number].alike,
                behind: function.sites[number].behind.clone(),
            };
            let copy = CalledFunction {
                profiles: profiles.collect(),
                sites: [sites(0), sites(1)],
            };
            shared.budget.charge(copy.profiles.len() * PROFILE_BYTES);
            self.functions.insert((owner, pc(callee)), copy);
        }
    }

    /// Whose functions there are.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.functions.keys().map(|(owner, _)| *owner)
    }

    /// The profiles: of whose function, and whether the shares are of executions.
    pub fn each(&self) -> impl Iterator<Item = (Callee, &CallValueProfile, bool)> {
        self.functions.iter().flat_map(|(callee, function)| {
            let callers = [0, 1].map(|of: usize| function.sites[of].are_of_executions());
            let all = function.profiles.iter();
            all.map(move |of| {
                let own = of.alike.is_independent() && !of.behind.are_unlike();
                (*callee, of, own && callers[sites_of(of.argument)])
            })
        })
    }
}

impl CallValueProfile {
    /// Whether its values may be addresses.
    pub fn may_point(&self) -> bool {
        self.argument < FIRST_VECTOR
    }

    /// The name of its parameter.
    pub fn parameter(&self) -> String {
        let parameter = match self.argument {
            RESULT => Parameter::Result,
            VECTOR_RESULT => Parameter::VectorResult,
            vector if vector >= FIRST_VECTOR => Parameter::VectorArg(vector - FIRST_VECTOR),
            argument => Parameter::Arg(argument),
        };
        format!("{AT_ENTRY}{parameter}")
    }

    fn compare(&mut self, first: u64, value: u64) {
        let firsts = self.firsts.as_ref();
        let of_firsts = firsts.and_then(|firsts| share(firsts, first));
        if let (Some(among), Some(of_firsts)) = (share(&self.list, first), of_firsts) {
            self.alike.count(first == value, among, of_firsts);
        }
    }
}

impl Consumer for Entries {
    fn new(options: &Options) -> Self {
        Self {
            functions: FxHashMap::default(),
            config: options.lists,
        }
    }
}

#[cfg(test)]
mod tests {
    use addresses::ImageAddress;

    use super::*;
    use crate::tables::Tables;
    use machine::images::ImageId;
    use machine::place::Pc;

    /// So many bursts of so many calls, each of two times; `value` tells an argument by burst and
    /// call.
    fn tables(
        (bursts, calls): (u64, u64),
        is_dense: bool,
        value: impl Fn(u64, u64) -> u64,
    ) -> Tables {
        let options = Options {
            lists: Config::default(),
            window: 256,
            by_caller: false,
        };
        let mut tables = Tables::new(&options, 1 << 20, hotlist::Generator::new(7));
        let process = || profiledb::Process {
            pid: 1,
            started: 0,
            execs: 0,
            comm: String::new(),
        };
        let (shared, entries) = (&mut tables.shared, &mut tables.consumers.entries);
        let subject = profiledb::Subject::default();
        let owner = shared.owner(machine::loadmap::ProcessId(1), subject, process);
        let pc = |address| Pc {
            image: ImageId(0),
            address,
        };
        let callee = (
            owner.expect("room"),
            shared.pc(pc(ImageAddress(0x10))).expect("room"),
        );
        for number in 1..=bursts {
            let burst = Entered {
                callee,
                number,
                time: number,
                times: 2,
                is_dense,
            };
            let call = |of| Arrived {
                caller: None,
                values: ArrivedWith::General(
                    [value(number, of), 0, 0, 0, 0, 0],
                    (of % 2 == 0).then_some((of > 4).then_some(of)),
                ),
            };
            let calls = (1..=calls).map(call);
            entries.entered(shared, &burst, Some(&call(0)), calls);
        }
        tables
    }

    /// Of the first argument: how many calls there were, and whether its values are told.
    fn seen(tables: &Tables) -> Vec<(u64, bool)> {
        let entries = &tables.consumers.entries;
        let first = |of: &CallValueProfile| of.parameter() == "entry.arg0";
        let all = entries.each().filter(|(_, of, _)| first(of));
        all.map(|(_, of, told)| (of.reached, told)).collect()
    }

    /// Calls count as often as they are to. Where bursts are of a part of the time that is not
    /// known, values that last for a burst are not told, and values at random are.
    #[test]
    fn bursts() {
        let lasting = |number, _| number % 2;
        let at_random = |number: u64, of: u64| (number * 31 + of * 17) % 23 % 2;
        let few = (100, 10);
        let dense = tables(few, true, at_random);
        assert_eq!(seen(&tables(few, false, lasting)), [(2_000, true)]);
        assert_eq!(seen(&tables(few, true, lasting)), [(2_000, false)]);
        assert_eq!(seen(&dense), [(2_000, true)]);
        let mut all = dense.consumers.entries.each();
        let results = all.find(|(_, of, _)| of.parameter() == "entry.result");
        let (_, results, _) = results.expect("there are some");
        assert_eq!((results.reached, results.unknown), (1_000, 400));
    }

    /// Bursts of calls that follow each other closely begin by time: where they lie in stretches
    /// with values of their own, or in places of a fixed order, nothing is told.
    #[test]
    fn stretches() {
        let at_random = |number: u64, of: u64| {
            let mixed = (number * 64 + of).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
        };
        let of_stretch = |number, of| u64::from(at_random(number, of) % 20 < 1 + 9 * (number % 2));
        let of_place = |number, of| u64::from(at_random(number, of) % 64 < of);
        let mixed = |number, of| u64::from(at_random(number, of) % 20 < 5);
        let many = (400, 63);
        assert_eq!(seen(&tables(many, true, of_stretch)), [(50_400, false)]);
        assert_eq!(seen(&tables(many, true, of_place)), [(50_400, false)]);
        assert_eq!(seen(&tables(many, true, mixed)), [(50_400, true)]);
        assert_eq!(seen(&tables(many, false, of_stretch)), [(50_400, true)]);
    }
}
