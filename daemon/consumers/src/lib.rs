//! What windows tell, and the tables of what is kept of it until the next flush.
//!
//! A window is the run of instructions that is interpreted from a sample. The stage (crate
//! `pipeline`) turns it into typed [`events`]: instructions, values, branches, calls, loads. Each
//! consumer gets all of them in order, and keeps what it is for. The way of an event:
//!
//! 1. [`tables::Tables`] is all that one flush interval collects: the samples by place, counters,
//!    and the [`Consumers`].
//! 2. Its [`events::Shared`] gives the places and owners of events small numbers, and has the
//!    budget of memory, the counts of losses, and the coins.
//! 3. An [`events::Consumer`] charges what it keeps to that budget. What finds no room is a loss
//!    that it counts.
//! 4. `Tables::take` hands all to a flush (crate `store`), `Tables::copy` some of it to a reader.
//!
//! The consumers lie one file each, and are registered with one line each, in `consumers!` below.
//! [`acceptance`] decides by lot which windows count, which the tables' intervals rely on.
//!
//! This crate knows no samples: neither how they come nor how windows are made of them. It knows no
//! file, and does not log.

pub mod acceptance;
mod alike;
mod branches;
mod calls;
mod coverage;
pub mod entries;
pub mod events;
mod returns;
mod squares;
mod stacks;
mod stretches;
pub mod tables;
mod values;

pub use self::branches::Branches;
pub use self::calls::Calls;
pub use self::coverage::Coverage;
pub use self::entries::Entries;
pub use self::returns::Returns;
pub use self::stacks::{StackCount, Stacks};
pub use self::values::{ProfileKey, ValueProfile, Values};
use crate::events::{
    At, Call, CallStack, Consumer, Context, Ending, Event, Load, Options, PcId, Shared, Store,
    Target,
};
use addresses::ProcessAddress;
use counters::CounterKey;

/// Makes one consumer of several, which hands each event to each of them in turn. Which ones there
/// are is known when the program is built, so nothing is looked up at an event.
macro_rules! consumers {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// All consumers.
        #[derive(Debug)]
        pub struct Consumers {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Consumer for Consumers {
            fn new(options: &Options) -> Self {
                Self { $($name: <$kind>::new(options),)* }
            }

            fn stack(&mut self, shared: &mut Shared, stack: &CallStack<'_>) {
                $(self.$name.stack(shared, stack);)*
            }

            fn begins(&mut self, shared: &mut Shared, window: &Context) {
                $(self.$name.begins(shared, window);)*
            }

            #[inline(always)]
            fn instruction(&mut self, shared: &mut Shared, at: &At<'_>) {
                $(self.$name.instruction(shared, at);)*
            }

            #[inline(always)]
            fn values(&mut self, shared: &mut Shared, at: &At<'_>, events: &[Event]) {
                $(self.$name.values(shared, at, events);)*
            }

            #[inline(always)]
            fn branch(&mut self, shared: &mut Shared, at: &At<'_>, taken: Option<bool>) {
                $(self.$name.branch(shared, at, taken);)*
            }

            fn system_call(&mut self, shared: &mut Shared, at: &At<'_>, values: &[Event]) {
                $(self.$name.system_call(shared, at, values);)*
            }

            fn call(&mut self, shared: &mut Shared, at: &At<'_>, call: &Call<'_>) {
                $(self.$name.call(shared, at, call);)*
            }

            fn jump(&mut self, shared: &mut Shared, at: &At<'_>, site: PcId, target: Target) {
                $(self.$name.jump(shared, at, site, target);)*
            }

            #[inline(always)]
            fn returns(&mut self, shared: &mut Shared, at: &At<'_>) {
                $(self.$name.returns(shared, at);)*
            }

            #[inline(always)]
            fn leads(&mut self, shared: &mut Shared, at: &At<'_>, destination: ProcessAddress) {
                $(self.$name.leads(shared, at, destination);)*
            }

            #[inline(always)]
            fn load(&mut self, shared: &mut Shared, at: &At<'_>, load: &Load) {
                $(self.$name.load(shared, at, load);)*
            }

            #[inline(always)]
            fn store(&mut self, shared: &mut Shared, at: &At<'_>, store: &Store) {
                $(self.$name.store(shared, at, store);)*
            }

            fn ends(&mut self, shared: &mut Shared, window: &Context, ending: &Ending) {
                $(self.$name.ends(shared, window, ending);)*
            }

            fn count(&self, add: &mut dyn FnMut(CounterKey, u64)) {
                $(self.$name.count(add);)*
            }
        }
    };
}

consumers! {
    /// What windows reach, and how much of that is known.
    coverage: Coverage,
    /// Calls and indirect jumps.
    calls: Calls,
    /// Directions of conditional branches.
    branches: Branches,
    /// Value profiles.
    values: Values,
    /// Call stacks.
    stacks: Stacks,
    /// Arguments at entries.
    entries: Entries,
}
