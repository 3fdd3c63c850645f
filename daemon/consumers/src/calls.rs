//! Calls and indirect jumps that windows run into.

use counters::Loss;
use rustc_hash::FxHashMap;

use super::squares::{ONE, Squares, weight};
use crate::events::{At, Call, Consumer, Context, Options, Owner, PcId, Shared, Target};

/// Calls from one site to one callee.
#[derive(Clone, Copy, Debug, Default)]
struct CallCount {
    times: u64,
    weight: u64,
    squares: Squares,
}

type Key = (Owner, PcId, Option<PcId>);

/// Counts calls and indirect jumps.
#[derive(Debug)]
pub struct Calls {
    calls: FxHashMap<Key, CallCount>,
    /// What each call of the present window weighs.
    weight: u32,
}

/// Rough size of an entry with its share of the hash table, in bytes.
const CALL_BYTES: usize = 2 * size_of::<(Key, CallCount)>();

impl CallCount {
    fn add(&mut self, window: u32, weight: u32) {
        self.times += 1;
        self.weight += u64::from(weight);
        self.squares.add(window, weight);
    }

    fn told(&self) -> profiledb::Calls {
        profiledb::Calls {
            times: self.times,
            weight: self.weight as f64 / ONE,
            squares: Some(self.squares.sum()),
        }
    }
}

impl Calls {
    /// Counts a call of what is there. What finds no room is counted.
    fn add(&mut self, shared: &mut Shared, window: &Context, site: PcId, callee: Target) {
        let key = (window.owner, site, callee.id());
        let is_new = !self.calls.contains_key(&key);
        if callee == Target::NoRoom || is_new && shared.budget.is_over_full() {
            shared.lost.count(Loss::TableFullCalls, 1);
            return;
        }
        if is_new {
            shared.budget.charge(CALL_BYTES);
        }
        let counted = self.calls.entry(key).or_default();
        counted.add(window.number as u32, self.weight);
    }

    /// The calls that windows met: from where, and where to, if that is known.
    pub fn each(&self) -> impl Iterator<Item = (Owner, PcId, Option<PcId>, profiledb::Calls)> {
        let all = self.calls.iter();
        all.map(|(&(owner, site, callee), calls)| (owner, site, callee, calls.told()))
    }

    /// Takes over the calls of owners that pass the test; `pc` gives their PCs in the copy.
    pub(crate) fn copy(
        &mut self,
        from: &Self,
        shared: &mut Shared,
        takes: impl Fn(&Owner) -> bool,
        mut pc: impl FnMut(PcId) -> PcId,
    ) {
        let all = from.calls.iter().filter(|((owner, ..), _)| takes(owner));
        for (&(owner, site, callee), calls) in all {
            let callee = callee.map(&mut pc);
            self.calls.insert((owner, pc(site), callee), *calls);
            shared.budget.charge(CALL_BYTES);
        }
    }

    /// Whose calls there are.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.calls.keys().map(|(owner, ..)| *owner)
    }
}

impl Consumer for Calls {
    fn new(_: &Options) -> Self {
        Self {
            calls: FxHashMap::default(),
            weight: weight(1, 1.0),
        }
    }

    fn begins(&mut self, _: &mut Shared, window: &Context) {
        self.weight = weight(window.times, window.part);
    }

    fn call(&mut self, shared: &mut Shared, at: &At<'_>, call: &Call<'_>) {
        self.add(shared, at.window, call.site, call.callee);
    }

    fn jump(&mut self, shared: &mut Shared, at: &At<'_>, site: PcId, target: Target) {
        self.add(shared, at.window, site, target);
    }
}
