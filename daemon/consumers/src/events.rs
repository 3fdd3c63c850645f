//! The events of a window, and what consumes them.
//!
//! The interpreter says what each instruction does, by process addresses. The stage
//! (`pipeline::stage`) turns that into events of the program: instructions by image and address,
//! calls with their site and callee, jumps, returns. Every [`Consumer`] gets all events in order.
//!
//! A consumer overrides the methods of the events that it wants. The other methods are empty and
//! are inlined, so an event that nobody wants costs no instruction. The same holds for a consumer
//! that is not registered ([`crate::Consumers`]).

mod budget;
mod keys;
pub mod lost;
mod places;
mod shared;
mod sites;

use addresses::ProcessAddress;
use counters::CounterKey;
use interpreter::{Parameter, StopReason, Word};
use profiledb::StackEnd;

pub(crate) use self::keys::{NONE, Site};
pub use self::keys::{Owner, PcId, SiteId, SubjectId};
pub use self::shared::Shared;
use machine::images::Others;
use machine::place::Pc;

/// A value event; `None`: a window reached the instruction, but its value is not known.
pub type Event = (Parameter, Option<u64>);

/// What all events of one window have in common.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Whose sample the window begins at.
    pub owner: Owner,
    /// The window runs kernel code.
    pub is_kernel: bool,
    /// Number of the window, from 1.
    pub number: u64,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub time: u64,
    /// How often the events of the window count: its interval may be longer than the mean.
    pub times: u32,
    /// The part of each branch and call that counts. Branches and calls are events of executions,
    /// and have no counts of time beside them.
    pub part: f64,
}

/// Where in its window an event is.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// What holds for the whole window.
    pub window: &'a Context,
    /// The instruction. `None`: the shared tables had no room for it, and counted that.
    pub site: Option<SiteId>,
    /// Which of the window's instructions this is, from 1.
    pub depth: u32,
    /// The call site of the function that runs, if that is known.
    pub caller: Option<PcId>,
}

/// Where a call or a jump leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing is known of it.
    Unknown,
    /// This place, for which the shared tables have no room.
    NoRoom,
    /// This place.
    Known(PcId),
}

impl Target {
    /// The index of the place, if there is one.
    pub fn id(self) -> Option<PcId> {
        match self {
            Self::Known(id) => Some(id),
            Self::Unknown | Self::NoRoom => None,
        }
    }
}

/// A call, or a jump that takes the place of a call and a return.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The call instruction.
    pub site: PcId,
    /// The function that is called. Stubs on the way are left out.
    pub callee: Target,
    /// A jump to another function: that one returns to the caller of the present function.
    pub is_tail_call: bool,
    /// What is handed over; `None` where nobody asked for it, or where the callee is denied.
    pub arguments: Option<Arguments<'a>>,
}

/// The registers that may hold arguments of a call.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The registers at the call.
    pub registers: &'a interpreter::Call,
    /// The registers beside the platform's that the callee's language uses.
    pub others: Option<Others>,
    /// The lowest 64 bits of xmm0 to xmm7, where they are wanted.
    pub vectors: Option<&'a [Word; 8]>,
    /// Whether it is wanted what they point to.
    pub with_strings: bool,
}

/// An access to memory of at most 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The process address, if that is known.
    pub address: Option<u64>,
    /// How many bytes the instruction loads.
    pub bytes: u32,
    /// What it loads, if all of that is known.
    pub value: Option<u64>,
}

/// A store to memory of at most 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The process address, if that is known.
    pub address: Option<u64>,
    /// How many bytes the instruction stores.
    pub bytes: u32,
    /// What it stores, if all of that is known.
    pub value: Option<u64>,
}

/// The call stack of a sample.
#[derive(Clone, Copy, Debug)]
pub struct CallStack<'a> {
    /// Whose sample it is.
    pub owner: Owner,
    /// The frames, the innermost first: the interrupted instruction, then calls.
    pub frames: &'a [Pc],
    /// Why there are no more.
    pub end: StackEnd,
    /// What the sample stands for, in the clock's unit.
    pub weight: u64,
}

/// How a window ended.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Instructions that were interpreted to their end.
    pub instructions: u32,
    /// Why there are no more.
    pub stop: StopReason,
}

/// What is settled before the first event.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The settings of each hotlist.
    pub lists: hotlist::Config,
    /// Instructions of a window, at most.
    pub window: u32,
    /// Whether hotlists are kept apart by the call site of their function.
    pub by_caller: bool,
}

/// Something that the events of windows go to.
///
/// Memory is bounded: a consumer charges what it keeps to the budget of [`Shared`], and counts what
/// finds no room. A consumer goes with the tables of its flush interval.
pub trait Consumer {
    /// An empty one.
    fn new(options: &Options) -> Self;

    /// A sample has a call stack. This is an event of the sample: it may have no window.
    #[inline(always)]
    fn stack(&mut self, _shared: &mut Shared, _stack: &CallStack<'_>) {}

    /// A window begins.
    #[inline(always)]
    fn begins(&mut self, _shared: &mut Shared, _window: &Context) {}

    /// A window reaches an instruction. What the instruction does comes behind this.
    #[inline(always)]
    fn instruction(&mut self, _shared: &mut Shared, _at: &At<'_>) {}

    /// All values of one instruction.
    #[inline(always)]
    fn values(&mut self, _shared: &mut Shared, _at: &At<'_>, _events: &[Event]) {}

    /// The direction of a conditional branch; `None`: it is not known, and the window ends.
    #[inline(always)]
    fn branch(&mut self, _shared: &mut Shared, _at: &At<'_>, _taken: Option<bool>) {}

    /// The number and the arguments of a system call, with which the window ends.
    fn system_call(&mut self, _shared: &mut Shared, _at: &At<'_>, _values: &[Event]) {}

    /// A call. What follows runs in the callee, which `at.caller` does not say yet.
    #[inline(always)]
    fn call(&mut self, _shared: &mut Shared, _at: &At<'_>, _call: &Call<'_>) {}

    /// An indirect jump within a function, or one of which nothing better is known. It comes before
    /// the instruction that it leads to.
    #[inline(always)]
    fn jump(&mut self, _shared: &mut Shared, _at: &At<'_>, _site: PcId, _target: Target) {}

    /// A function returns; `at.caller` is the call that it returns behind.
    #[inline(always)]
    fn returns(&mut self, _shared: &mut Shared, _at: &At<'_>) {}

    /// Where an indirect jump, an indirect call or a return leads.
    #[inline(always)]
    fn leads(&mut self, _shared: &mut Shared, _at: &At<'_>, _destination: ProcessAddress) {}

    /// An instruction loads.
    #[inline(always)]
    fn load(&mut self, _shared: &mut Shared, _at: &At<'_>, _load: &Load) {}

    /// An instruction stores.
    #[inline(always)]
    fn store(&mut self, _shared: &mut Shared, _at: &At<'_>, _store: &Store) {}

    /// The window ends.
    #[inline(always)]
    fn ends(&mut self, _shared: &mut Shared, _window: &Context, _ending: &Ending) {}

    /// Says what goes into the table `counter` of the database: kind, name and number.
    fn count(&self, _add: &mut dyn FnMut(CounterKey, u64)) {}
}
