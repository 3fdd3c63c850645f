//! What has been collected since the last flush: cycles, what the consumers of windows keep,
//! counters.
//!
//! Memory is bounded: every entry is counted against a budget, and when it is used up the
//! caller flushes. Should that fail, what does not fit is counted as lost.

mod copy;
mod tally;

use std::collections::BTreeMap;

use counters::{CounterKey, Loss};
use hotlist::Generator;
use interpreter::Parameter;
use profiledb::{Moment, StackEnd};
use rustc_hash::FxHashMap;

pub use self::copy::Wanted;
pub use self::tally::Tally;
use crate::Consumers;
use crate::events::lost::Lost;
use crate::events::{At, CallStack, Consumer, Context, Options, Owner, PcId, Shared};
use machine::place::Pc;

/// Where an interrupt came, called by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Arrival {
    owner: Owner,
    pc: Pc,
    caller: Option<Pc>,
}

/// Interrupts at a PC.
#[derive(Clone, Copy, Debug)]
pub struct Cycles {
    /// Where they came.
    pub pc: PcId,
    /// The call site of the function there, if that is known.
    pub caller: Option<PcId>,
    /// How many.
    pub samples: u64,
    /// What they stand for, in the clock's unit.
    pub weight: u64,
}

/// Everything collected since the last flush.
#[derive(Debug)]
pub struct Tables {
    options: Options,
    /// What the consumers share.
    pub shared: Shared,
    /// What windows find.
    pub consumers: Consumers,
    /// By the places themselves: for most samples this is all that is looked up.
    cycles: FxHashMap<Arrival, Cycles>,
    /// What is counted at every sample or window.
    pub tally: Tally,
    /// What is counted seldom.
    counts: FxHashMap<CounterKey, u64>,
    /// How far the samples come at even distances of time: see [`hotlist::Draws::even`].
    pub evenness: f64,
}

/// Rough size of an entry with its share of the hash table, in bytes.
const CYCLES_BYTES: usize = 2 * size_of::<(Arrival, Cycles)>();

impl Tables {
    /// Empty tables with room for `budget` bytes.
    pub fn new(options: &Options, budget: usize, coins: Generator) -> Self {
        Self {
            options: *options,
            shared: Shared::new(budget, coins),
            consumers: Consumers::new(options),
            cycles: FxHashMap::default(),
            tally: Tally::default(),
            counts: FxHashMap::default(),
            evenness: 1.0,
        }
    }

    /// Empty tables for the same windows, in which no coin is tossed.
    fn empty(&self, budget: usize) -> Self {
        Self::new(&self.options, budget, Generator::new(0))
    }

    /// Takes what was collected. What is left is empty, for windows of the same kind, and goes on
    /// tossing the same coins.
    pub fn take(&mut self) -> Self {
        let mut empty = self.empty(self.shared.budget.most());
        std::mem::swap(&mut empty.shared.coins, &mut self.shared.coins);
        std::mem::replace(self, empty)
    }

    /// Bytes in use, roughly.
    pub fn bytes(&self) -> usize {
        self.shared.budget.used()
    }

    /// Whether a flush is due for want of room.
    pub fn is_full(&self) -> bool {
        self.shared.budget.is_full()
    }

    /// What was lost.
    pub fn lost(&self) -> &Lost {
        &self.shared.lost
    }

    /// Adds to a counter.
    pub fn count(&mut self, what: impl Into<CounterKey>, n: u64) {
        if n == 0 {
            return;
        }
        let counter = self.counts.entry(what.into()).or_insert(0);
        *counter = counter.saturating_add(n);
    }

    /// All counters. Losses are there even if there were none, so that a reader sees what was
    /// watched.
    pub fn counters(&self) -> BTreeMap<CounterKey, u64> {
        let mut counters = BTreeMap::new();
        let mut add = |what, n| {
            let counter = counters.entry(what).or_insert(0_u64);
            *counter = counter.saturating_add(n);
        };
        let mut add_some = |what, n| {
            if n > 0 {
                add(what, n);
            }
        };
        self.consumers.count(&mut add_some);
        for (counter, n) in self.tally.each() {
            add_some(counter.into(), n);
        }
        let lost = self.shared.lost.each();
        let lost = lost.map(|(loss, n)| (loss.into(), n));
        for (what, n) in self.counts.iter().map(|(what, n)| (*what, *n)).chain(lost) {
            add(what, n);
        }
        counters
    }

    /// Counts interrupts and the sum of their intervals. Where there is no room for the caller, it
    /// is left out; where there is none at all, they are counted as lost. Returns the caller's
    /// index.
    pub fn add_cycles(
        &mut self,
        owner: Owner,
        pc: Pc,
        caller: Option<Pc>,
        samples: u64,
        weight: u64,
    ) -> Option<PcId> {
        let key = Arrival { owner, pc, caller };
        let cycles = match self.cycles.get_mut(&key) {
            Some(cycles) => cycles,
            None => match self.new_cycles(key) {
                Some(cycles) => cycles,
                None => {
                    self.shared.lost.count(Loss::TableFullSamples, samples);
                    return None;
                }
            },
        };
        cycles.samples = cycles.samples.saturating_add(samples);
        cycles.weight = cycles.weight.saturating_add(weight);
        cycles.caller
    }

    /// Counts how a sample's thread was scheduled; `number` is the sample's own, from 1.
    pub fn add_moment(
        &mut self,
        (owner, is_kernel): (Owner, bool),
        pc: Pc,
        moment: Moment,
        (number, time): (u64, u64),
    ) {
        let window = Context {
            owner,
            is_kernel,
            number,
            time,
            times: 1,
            part: 1.0,
        };
        let at = At {
            window: &window,
            site: self.shared.site(owner, pc),
            depth: 1,
            caller: None,
        };
        let event = (Parameter::Sched, Some(moment.value()));
        self.consumers
            .values
            .add_sample(&mut self.shared, &at, event);
    }

    /// Tells consumers of the call stack of a sample, the innermost frame first.
    pub fn add_stack(&mut self, owner: Owner, frames: &[Pc], end: StackEnd, weight: u64) {
        let stack = CallStack {
            owner,
            frames,
            end,
            weight,
        };
        self.consumers.stack(&mut self.shared, &stack);
    }

    /// Where interrupts are counted that come there for the first time; `None` if there is no room.
    fn new_cycles(&mut self, key: Arrival) -> Option<&mut Cycles> {
        let pc = self.shared.pc(key.pc)?;
        let caller = key.caller.and_then(|caller| self.shared.pc(caller));
        let key = Arrival {
            caller: key.caller.filter(|_| caller.is_some()),
            ..key
        };
        if !self.cycles.contains_key(&key) {
            if self.shared.budget.is_over_full() {
                return None;
            }
            self.shared.budget.charge(CYCLES_BYTES);
        }
        Some(self.cycles.entry(key).or_insert(Cycles {
            pc,
            caller,
            samples: 0,
            weight: 0,
        }))
    }

    /// The interrupts at each PC, whose they are, and who called.
    pub fn cycles(&self) -> impl Iterator<Item = (Owner, Cycles)> {
        self.cycles.iter().map(|(key, cycles)| (key.owner, *cycles))
    }

    /// The samples of each owner.
    pub fn samples(&self) -> FxHashMap<Owner, u64> {
        let mut samples = FxHashMap::default();
        for (key, cycles) in &self.cycles {
            *samples.entry(key.owner).or_insert(0) += cycles.samples;
        }
        samples
    }
}
