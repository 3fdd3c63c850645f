//! Where prepared instructions are kept.

use super::form::Op;
use crate::code::{CODE_BYTES, Code};
use crate::prepared_kind::PreparedKind;
use parameters::ValueKinds;

/// Bounded store of prepared instructions, for windows that run through the same code.
///
/// It is made with room for so many, and allocates nothing afterwards. Instructions of several of
/// the host's [epochs](crate::Code::epoch) lie in it side by side. What finds no room is fetched
/// each time, until all that was kept makes room for it.
#[derive(Debug)]
pub struct Traces {
    /// The ops in the order in which windows first ran through them.
    ops: Vec<Op>,
    /// The code of each.
    codes: Vec<[u8; CODE_BYTES]>,
    capacity: usize,
    /// Where the op of an address may be. What was forgotten is not taken out: the op tells.
    places: Vec<u32>,
    /// The host's present one.
    epoch: u64,
    /// What the windows captured that they were prepared for.
    capture: ValueKinds,
    /// The number of the present window, and of the first one since all was given up.
    window: u32,
    since: u32,
    /// Something found no room since.
    crowded: bool,
}

/// All is given up at most once in as many windows as there is room for instructions, divided by
/// this: otherwise little would be gained from what is prepared.
const INSTRUCTIONS_PER_WINDOW: usize = 16;

impl Traces {
    /// Room for at least one and at most `capacity` instructions (no more than 2^20), each of 80
    /// bytes and 8 to 16 for finding it.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 20);
        Self {
            ops: Vec::with_capacity(capacity),
            codes: Vec::with_capacity(capacity),
            capacity,
            places: vec![0; (2 * capacity).next_power_of_two()],
            epoch: 0,
            capture: ValueKinds::NONE,
            window: 0,
            since: 0,
            crowded: false,
        }
    }

    /// Number of instructions that are prepared.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.capacity * (size_of::<Op>() + CODE_BYTES) + self.places.len() * size_of::<u32>()
    }

    /// Gives up all that was prepared.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.codes.clear();
        (self.since, self.crowded) = (self.window, false);
    }

    /// A window begins that captures these kinds, in the host's epoch.
    pub(super) fn begin(&mut self, epoch: u64, capture: ValueKinds) {
        let lasted = self.window.wrapping_sub(self.since) as usize;
        let is_full = self.crowded && lasted >= self.capacity / INSTRUCTIONS_PER_WINDOW;
        // The number of a window is not used a second time.
        let wraps = self.window == u32::MAX;
        if capture != self.capture || is_full || wraps {
            self.clear();
        }
        self.window = self.window.wrapping_add(1).max(1);
        (self.epoch, self.capture) = (epoch, capture);
    }

    /// Something was fetched from the host: what was prepared before holds only in its own epoch.
    #[inline]
    pub(super) fn check(&mut self, epoch: u64) {
        self.epoch = epoch;
    }

    /// The op at a process address, which may be at `likely`.
    #[inline(always)]
    pub(super) fn find(&self, pc: u64, likely: usize) -> Option<(usize, &Op)> {
        match self.ops.get(likely) {
            Some(op) if self.is_of(op, pc) => Some((likely, op)),
            _ => self.find_elsewhere(pc),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&self, pc: u64) -> Option<(usize, &Op)> {
        let place = *self.places.get(self.place(pc))? as usize;
        let op = self.ops.get(place).filter(|op| self.is_of(op, pc))?;
        Some((place, op))
    }

    /// Whether an op is that of this address in the present epoch.
    #[inline(always)]
    pub(super) fn is_of(&self, op: &Op, pc: u64) -> bool {
        op.pc == pc && op.epoch == self.epoch
    }

    /// Whether the code of the op at an index is what it was prepared from, in the present window.
    #[inline(always)]
    pub(super) fn holds<C: Code>(&self, index: usize, op: &Op, code: &mut C) -> bool {
        op.vouched.get() == self.window || self.ask(index, op, code)
    }

    #[inline(never)]
    fn ask<C: Code>(&self, index: usize, op: &Op, code: &mut C) -> bool {
        let kept = self.codes.get(index);
        let holds = kept.is_some_and(|kept| code.holds(op.pc, kept, usize::from(op.len)));
        if holds {
            op.vouched.set(self.window);
        }
        holds
    }

    /// Whether certainly no stub begins at a process address: the code there does not jump.
    pub(super) fn is_no_stub<C: Code>(&self, pc: u64, code: &mut C) -> bool {
        let mut at = |pc: u64| {
            let found = self.find_elsewhere(pc);
            found.filter(|(index, op)| self.holds(*index, op, code))
        };
        let jumps = |op: &Op| {
            matches!(
                op.kind,
                PreparedKind::General | PreparedKind::Jmp | PreparedKind::JmpR | PreparedKind::JmpM
            )
        };
        at(pc).is_some_and(|(_, first)| match first.kind {
            PreparedKind::Nop => at(first.next()).is_some_and(|(_, second)| !jumps(second)),
            _ => !jumps(first),
        })
    }

    /// All ops, in the order in which they were prepared.
    #[inline(always)]
    pub(super) fn row(&self) -> &[Op] {
        &self.ops
    }

    /// The op at `index` led to an address: where the op of that is, which is remembered.
    pub(super) fn link(&mut self, index: usize, to: u64) -> Option<usize> {
        let (found, _) = self.find_elsewhere(to)?;
        // There are at most 2^20.
        self.ops.get_mut(index)?.link = found as u32;
        Some(found)
    }

    /// Keeps an op that was prepared from this code: in place of the one at an index, of the same
    /// address and epoch, else behind all others, if there is room.
    pub(super) fn keep(&mut self, op: Op, code: [u8; CODE_BYTES], instead: Option<usize>) {
        let op = Op {
            epoch: self.epoch,
            ..op
        };
        op.vouched.set(self.window);
        let index = instead.unwrap_or(self.ops.len());
        if index >= self.capacity {
            self.crowded = true;
            return;
        }
        let place = self.place(op.pc);
        self.places[place] = index as u32;
        match self.ops.get_mut(index) {
            Some(old) => {
                *old = op;
                self.codes[index] = code;
            }
            None => {
                self.ops.push(op);
                self.codes.push(code);
            }
        }
        self.join(index);
        if let Some(before) = index.checked_sub(1) {
            self.join(before);
        }
    }

    /// Finds out whether the op behind this one is that of the instruction behind it.
    fn join(&mut self, index: usize) {
        if let Some([op, behind]) = self.ops.get_mut(index..index + 2).map(|pair| {
            let (op, behind) = pair.split_at_mut(1);
            [&mut op[0], &mut behind[0]]
        }) {
            op.continues = op.next() == behind.pc && op.epoch == behind.epoch;
        }
    }

    fn place(&self, pc: u64) -> usize {
        let spread = self.epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (pc ^ pc >> 12 ^ spread) as usize & (self.places.len() - 1)
    }
}
