//! What code itself says of callers, where no unwind rules do.
//!
//! A function goes back to its caller by a return, and what the return takes from the stack is
//! the return address. So the code is followed from an instruction on, every way that it may
//! take, until a return: the slot of the return address is known then, in terms of the registers
//! at the instruction. No frame pointer is trusted, and no function's beginning must be known.
//! A call is followed over, not into. It may be one that never comes back, so ways with fewer
//! calls count before those with more.
//!
//! The other way round, the code is followed from the target of a call. If it does not come by
//! the instruction, the call did not lead there.

mod state;

use std::hash::Hash;

use addresses::ImageAddress;
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{CallerRbp, UnwindRow};

pub use self::state::Symbol;
use self::state::{FlowState, RBP, RSP, Successor};
use crate::place::{ImageId, Pc};
use crate::system::memory::of_map;

/// Instructions that are looked at to find a return.
const MAX_STEPS_OUT: u32 = 2048;
/// Instructions that are looked at to find whether a call leads to a place.
const MAX_STEPS_TO: u32 = 1024;
/// Calls on a way to a return.
const MAX_CALLS: u32 = 64;
/// Exits of one instruction that are kept.
const MAX_EXITS: usize = 4;
/// Answers kept of each kind: some megabytes. When they are too many, they begin anew.
const MAX_ANSWERS: usize = 1 << 14;
/// No instruction is longer.
const MAX_BYTES: usize = 15;

/// The code of one image, by its ELF addresses.
pub(crate) trait Text {
    /// So many calls more than the fewest are followed over, for other exits. Where nothing tells
    /// where functions end, a call that never comes back leads on into what lies behind, which
    /// may be nearer than the function's own return.
    const MORE_CALLS: u32 = 0;

    /// Reads code, and says how many bytes of it there are.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize;

    /// Start of the function with unwind rules around an address, if there is one.
    fn function(&mut self, address: u64) -> Option<u64>;
}

/// Where the return address lies: this register, and so much; and how the caller's rbp follows
/// from the same registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub(crate) register: u8,
    pub(crate) offset: i64,
    pub(crate) rbp: Symbol,
}

impl Exit {
    /// The address of the return address.
    pub(crate) fn slot(&self, gpr: &[u64; 16]) -> u64 {
        gpr[usize::from(self.register) & 15].wrapping_add_signed(self.offset)
    }

    /// The exit as the handler of the interrupt follows it.
    pub fn row(&self) -> Option<UnwindRow> {
        // The return address lies below the canonical frame address.
        let offset = i32::try_from(self.offset.checked_add(8)?).ok()?;
        let rbp = match self.rbp {
            Symbol::Sum(register, 0) if usize::from(register) == RBP => CallerRbp::Same,
            Symbol::Word(register, at) if register == self.register => {
                let saved = at.checked_sub(i64::from(offset))?;
                i32::try_from(saved).map_or(CallerRbp::Unknown, CallerRbp::Saved)
            }
            _ => CallerRbp::Unknown,
        };
        Some(UnwindRow::Frame {
            register: self.register,
            offset,
            rbp,
        })
    }
}

/// Whether a call leads to an instruction, and how the stack lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// It does. Of each way, rsp and rbp there, in terms of the registers at the target of the
    /// call.
    There(Vec<(Symbol, Symbol)>),
    /// It does not.
    Nowhere,
    /// That cannot be told.
    Perhaps,
}

/// Whether a return address in a slot is that of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProof {
    /// The call leads to the instruction, with its return address in this very slot.
    Proven,
    /// It cannot.
    Disproved,
    /// Neither can be shown.
    Possible,
}

impl Leads {
    /// Whether the return address of the call lies in this slot, with these registers at the
    /// instruction.
    pub fn verdict(&self, slot: u64, gpr: &[u64; 16]) -> CallProof {
        let ways = match self {
            Self::Nowhere => return CallProof::Disproved,
            Self::Perhaps => return CallProof::Possible,
            Self::There(ways) => ways,
        };
        // At the target of the call rsp was the address of the slot.
        let at_target = |symbol: Symbol, now: u64| match symbol {
            Symbol::Sum(register, offset) if usize::from(register) == RSP => {
                Some(now.wrapping_sub(offset.cast_unsigned()))
            }
            _ => None,
        };
        let mut untold = false;
        for &(rsp, rbp) in ways {
            match at_target(rsp, gpr[RSP]).or(at_target(rbp, gpr[RBP])) {
                Some(at) if at == slot => return CallProof::Proven,
                Some(_) => {}
                None => untold = true,
            }
        }
        match untold {
            true => CallProof::Possible,
            false => CallProof::Disproved,
        }
    }
}

/// What was found out, as the same few places come with every sample.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    exits: FxHashMap<Pc, Vec<Exit>>,
    leads: FxHashMap<(Pc, ImageAddress), Leads>,
}

impl Flows {
    /// The slots that the return address may lie in at an instruction that has no unwind rules.
    /// None if no way to a return is found, several where ways contradict each other.
    pub(crate) fn exits(&mut self, pc: Pc, text: &mut impl Text) -> &[Exit] {
        answer(&mut self.exits, pc, || exits(text, pc.address.0))
    }

    /// Whether a call to `target` leads to `pc`, which lies in the same image.
    pub(crate) fn leads(&mut self, target: Pc, pc: ImageAddress, text: &mut impl Text) -> &Leads {
        answer(&mut self.leads, (target, pc), || {
            leads(text, target.address.0, Some(pc.0))
        })
    }

    /// Whether a call to `target` leads out of this image.
    pub(crate) fn leaves(&mut self, target: Pc, text: &mut impl Text) -> &Leads {
        // No code is at this address.
        answer(&mut self.leads, (target, ImageAddress(u64::MAX)), || {
            leads(text, target.address.0, None)
        })
    }

    /// Forgets images whose files have changed.
    pub(crate) fn forget(&mut self, changed: &[ImageId]) {
        self.exits.retain(|pc, _| !changed.contains(&pc.image));
        self.leads
            .retain(|(target, _), _| !changed.contains(&target.image));
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let exits = self.exits.values().map(|held| held.capacity());
        let ways = self.leads.values().map(|held| match held {
            Leads::There(ways) => ways.capacity(),
            Leads::Nowhere | Leads::Perhaps => 0,
        });
        of_map(&self.exits)
            + of_map(&self.leads)
            + exits.sum::<usize>() * size_of::<Exit>()
            + ways.sum::<usize>() * size_of::<(Symbol, Symbol)>()
    }
}

fn answer<K: Hash + Eq, V>(
    known: &mut FxHashMap<K, V>,
    question: K,
    find: impl FnOnce() -> V,
) -> &mut V {
    if known.len() >= MAX_ANSWERS && !known.contains_key(&question) {
        known.clear();
    }
    known.entry(question).or_insert_with(find)
}

/// One way that is being followed.
#[derive(Clone, Debug)]
struct Way {
    at: u64,
    state: FlowState,
    /// The code before leads on to here: it was not a jump.
    falls: bool,
}

/// Follows the ways through code.
struct Walk<'a, T> {
    text: &'a mut T,
    factory: InstructionInfoFactory,
    /// Places that ways came by, and how the stack lay there.
    seen: FxHashSet<(u64, Symbol, Symbol)>,
    /// Ways that are open, by the calls on them.
    open: [Vec<Way>; 2],
    left: u32,
}

impl<'a, T: Text> Walk<'a, T> {
    fn new(text: &'a mut T, from: u64, steps: u32) -> Self {
        let way = Way {
            at: from,
            state: FlowState::start(),
            falls: false,
        };
        Self {
            text,
            factory: InstructionInfoFactory::new(),
            seen: FxHashSet::default(),
            open: [vec![way], Vec::new()],
            left: steps,
        }
    }

    /// The next way that came no further than others, without a call that the others have not.
    fn take(&mut self) -> Option<Way> {
        while let Some(way) = self.open[0].pop() {
            let key = (way.at, way.state.register(RSP), way.state.register(RBP));
            if self.seen.insert(key) {
                self.left = self.left.checked_sub(1)?;
                return Some(way);
            }
        }
        None
    }

    /// Goes on with the ways that have one call more; false if there are none.
    fn take_calls(&mut self) -> bool {
        self.open.swap(0, 1);
        !self.open[0].is_empty()
    }

    fn instruction(&mut self, at: u64) -> Option<Instruction> {
        let mut bytes = [0; MAX_BYTES];
        let read = self.text.read(at, &mut bytes);
        let mut decoder = Decoder::with_ip(64, bytes.get(..read)?, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Follows a way by one instruction. Says how it goes on where that is not followed here.
    fn follow(&mut self, way: Way) -> Option<(Successor, FlowState)> {
        let Way { at, mut state, .. } = way;
        let Some(instruction) = self.instruction(at) else {
            return Some((Successor::Somewhere, state));
        };
        let step = state.step(&instruction, &mut self.factory);
        let mut go = |at: u64, state: FlowState, falls: bool, calls: usize| {
            self.open[calls].push(Way { at, state, falls });
        };
        match step {
            Successor::Next => go(instruction.next_ip(), state, true, 0),
            Successor::Called => go(instruction.next_ip(), state, true, 1),
            Successor::Jump(to) => go(to, state, false, 0),
            Successor::Branch(to) => {
                go(to, state.clone(), false, 0);
                go(instruction.next_ip(), state, true, 0);
            }
            Successor::Leave | Successor::Somewhere | Successor::Return(_) | Successor::End => {
                return Some((step, state));
            }
        }
        None
    }
}

/// The exits from an instruction that has no unwind rules, with the fewest calls before them.
pub(crate) fn exits<T: Text>(text: &mut T, pc: u64) -> Vec<Exit> {
    let mut found = Vec::new();
    let mut walk = Walk::new(text, pc, MAX_STEPS_OUT);
    let mut most = MAX_CALLS;
    for calls in 0..=MAX_CALLS {
        while let Some(way) = walk.take() {
            if let Some(exit) = exit(&mut walk, way)
                && !found.contains(&exit)
            {
                found.push(exit);
            }
            if found.len() > MAX_EXITS {
                return Vec::new();
            }
        }
        if !found.is_empty() && most == MAX_CALLS {
            most = calls + more_calls::<T>(calls, &mut found);
        }
        if calls >= most || walk.left == 0 || !walk.take_calls() {
            break;
        }
    }
    // Which word the return address is matters more than what becomes of rbp.
    let mut slots: Vec<Exit> = Vec::new();
    for exit in found {
        match slots
            .iter_mut()
            .find(|of| (of.register, of.offset) == (exit.register, exit.offset))
        {
            Some(same) => same.rbp = Symbol::Unknown,
            None => slots.push(exit),
        }
    }
    slots
}

/// How many calls more than these are followed over. A way without a call is one of the function
/// itself. Others may not be: then the frame pointer is no worse evidence.
fn more_calls<T: Text>(calls: u32, found: &mut Vec<Exit>) -> u32 {
    if calls == 0 || T::MORE_CALLS == 0 {
        return 0;
    }
    let framed = Exit {
        register: 5,
        offset: 8,
        rbp: Symbol::Word(5, 0),
    };
    if !found.contains(&framed) {
        found.push(framed);
    }
    T::MORE_CALLS
}

/// Follows a way by one instruction; the exit if it is one.
fn exit<T: Text>(walk: &mut Walk<'_, T>, way: Way) -> Option<Exit> {
    // Where a function with rules begins, nothing is on the stack but the return address.
    let from = way.at;
    if let Some(start) = walk.text.function(from) {
        let enters = start == from && !way.falls;
        return enters.then(|| exit_of(&way.state)).flatten();
    }
    match walk.follow(way)? {
        (Successor::Return(_) | Successor::Leave, state) => exit_of(&state),
        _ => None,
    }
}

/// The exit where a return is next.
fn exit_of(state: &FlowState) -> Option<Exit> {
    let (register, offset) = state.returns()?;
    Some(Exit {
        register,
        offset,
        rbp: state.register(RBP),
    })
}

/// Whether the code from `target` on comes by `pc`, or out of the image if there is none.
pub(crate) fn leads(text: &mut impl Text, target: u64, pc: Option<u64>) -> Leads {
    let mut ways = Vec::new();
    let mut perhaps = false;
    let mut walk = Walk::new(text, target, MAX_STEPS_TO);
    loop {
        while let Some(way) = walk.take() {
            if Some(way.at) == pc {
                let stack = (way.state.register(RSP), way.state.register(RBP));
                if ways.len() >= MAX_EXITS {
                    perhaps = true;
                } else if !ways.contains(&stack) {
                    ways.push(stack);
                }
            }
            // A return to a word that is not the caller's is a jump.
            if let Some((Successor::Leave | Successor::Somewhere | Successor::Return(None), _)) =
                walk.follow(way)
            {
                perhaps = true;
            }
        }
        if walk.left == 0 {
            perhaps = true;
            break;
        }
        if !walk.take_calls() {
            break;
        }
    }
    match (ways.is_empty(), perhaps) {
        (false, true) => {
            // There may be others.
            ways.push((Symbol::Unknown, Symbol::Unknown));
            Leads::There(ways)
        }
        (false, false) => Leads::There(ways),
        (true, true) => Leads::Perhaps,
        (true, false) => Leads::Nowhere,
    }
}

#[cfg(test)]
mod tests;
