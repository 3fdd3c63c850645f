//! Where prepared instructions are kept.

use super::form::{Kind, Op};
use crate::parameter::Capture;

/// Bounded store of prepared instructions, for windows that run one behind the other through the
/// same code.
///
/// It is made with room for so many, and allocates nothing afterwards. Of a longer way the rest is
/// fetched each time.
#[derive(Debug)]
pub struct Traces {
    /// In the order in which windows first ran through them.
    ops: Vec<Op>,
    capacity: usize,
    /// Where the op of an address may be. What was forgotten is not taken out: the op tells.
    places: Vec<u32>,
    /// The host's, when they were prepared.
    epoch: u64,
    /// What the windows captured that they were prepared for.
    capture: Capture,
}

impl Traces {
    /// Room for at least one and at most `capacity` instructions (no more than 2^20), each of 64
    /// bytes and 8 to 16 for finding it.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 20);
        Self {
            ops: Vec::with_capacity(capacity),
            capacity,
            places: vec![0; (2 * capacity).next_power_of_two()],
            epoch: 0,
            capture: Capture::NONE,
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
        self.capacity * size_of::<Op>() + self.places.len() * size_of::<u32>()
    }

    /// A window begins that captures these kinds, in the host's epoch.
    pub(super) fn begin(&mut self, epoch: u64, capture: Capture) {
        if (epoch, capture) != (self.epoch, self.capture) {
            self.ops.clear();
            (self.epoch, self.capture) = (epoch, capture);
        }
    }

    /// Something was fetched from the host: what was prepared before holds only in the same epoch.
    #[inline]
    pub(super) fn check(&mut self, epoch: u64) {
        if epoch != self.epoch {
            self.ops.clear();
            self.epoch = epoch;
        }
    }

    /// The op at a process address, which may be at `likely`.
    #[inline(always)]
    pub(super) fn find(&self, pc: u64, likely: usize) -> Option<(usize, &Op)> {
        match self.ops.get(likely) {
            Some(op) if op.pc == pc => Some((likely, op)),
            _ => self.find_elsewhere(pc),
        }
    }

    #[inline(never)]
    fn find_elsewhere(&self, pc: u64) -> Option<(usize, &Op)> {
        let place = *self.places.get(self.place(pc))? as usize;
        let op = self.ops.get(place).filter(|op| op.pc == pc)?;
        Some((place, op))
    }

    /// Whether it is known that no stub begins at a process address: what is there does not jump.
    pub(super) fn is_no_stub(&self, pc: u64) -> bool {
        let at = |pc: u64| self.find_elsewhere(pc).map(|(_, op)| op);
        let jumps =
            |op: &Op| matches!(op.kind, Kind::General | Kind::Jmp | Kind::JmpR | Kind::JmpM);
        at(pc).is_some_and(|first| match first.kind {
            Kind::Nop => at(first.next()).is_some_and(|second| !jumps(second)),
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

    /// Keeps an op of an address that none is kept of, if there is room.
    pub(super) fn add(&mut self, op: Op) {
        if self.ops.len() < self.capacity {
            let place = self.place(op.pc);
            self.places[place] = self.ops.len() as u32;
            if let Some(before) = self.ops.last_mut() {
                before.continues = before.next() == op.pc;
            }
            self.ops.push(op);
        }
    }

    fn place(&self, pc: u64) -> usize {
        (pc ^ pc >> 12) as usize & (self.places.len() - 1)
    }
}
