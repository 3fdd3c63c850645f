//! What functions are called with, as breakpoints at their entries show it, by call site.
//!
//! These are shares of executions of their own provenance: they mix with nothing that windows see.

use counters::Loss;
use hotlist::{Config, Hotlist};
use parameters::Parameter;
use profiledb::AT_ENTRY;
use rustc_hash::FxHashMap;

use super::alike::{Alike, share};
use crate::events::{Consumer, Options, Owner, PcId, Shared};

/// Integer arguments of the platform's calling convention: rdi rsi rdx rcx r8 r9.
pub const ARGUMENTS: usize = 6;

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

    /// Compares a call's site with that of the first of its burst.
    fn compare(&mut self, shared: &mut Shared, time: u64, first: &Arrived, call: &Arrived) {
        let Sites { lists, alike } = &mut self.sites[call.sites()];
        let Some([sites, firsts]) = lists else {
            return;
        };
        let (first, site) = (number_of(first.caller), number_of(call.caller));
        if let (Some(among), Some(of_firsts)) = (share(sites, first), share(firsts, first)) {
            alike.count(first == site, among, of_firsts);
        }
        sites.update(site, time, &mut shared.coins);
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
        for call in calls {
            if let Some(first) = first {
                function.compare(shared, burst.time, first, &call);
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
            let callers = [0, 1].map(|of: usize| function.sites[of].alike.is_independent());
            let all = function.profiles.iter();
            all.map(move |of| {
                let of_executions = callers[sites_of(of.argument)] && of.alike.is_independent();
                (*callee, of, of_executions)
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

    /// Bursts of ten calls, each of so many times; `value` tells an argument by burst and call.
    fn seen(is_dense: bool, value: impl Fn(u64, u64) -> u64) -> Vec<(u64, bool)> {
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
        for number in 1..=100 {
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
            let calls = (1..=10).map(call);
            entries.entered(shared, &burst, Some(&call(0)), calls);
        }
        let first = |of: &CallValueProfile| of.parameter() == "entry.arg0";
        let results = entries
            .each()
            .find(|(_, of, _)| of.parameter() == "entry.result");
        let (_, results, _) = results.expect("there are some");
        assert_eq!((results.reached, results.unknown), (1_000, 400));
        let all = entries.each().filter(|(_, of, _)| first(of));
        all.map(|(_, of, told)| (of.reached, told)).collect()
    }

    /// Calls count as often as they are to. Where bursts are of a part of the time that is not
    /// known, values that last for a burst are not told, and values at random are.
    #[test]
    fn bursts() {
        let lasting = |number, _| number % 2;
        let at_random = |number: u64, of: u64| (number * 31 + of * 17) % 23 % 2;
        assert_eq!(seen(false, lasting), [(2_000, true)]);
        assert_eq!(seen(true, lasting), [(2_000, false)]);
        assert_eq!(seen(true, at_random), [(2_000, true)]);
    }
}
