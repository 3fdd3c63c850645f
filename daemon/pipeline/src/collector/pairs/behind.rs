//! What a thread has behind a block, beside what is worked out of it.

use interpreter::{Parameter, Sink};
use sampler::{RawSample, VectorState, Vectors};

use crate::bounce::block::{self, BlockInstruction};
use crate::bounce::truth::Difference;

/// What a thread has behind a block.
pub(super) struct Behind {
    pub(super) registers: sampler::Registers,
    /// Where they were brought: all other registers.
    pub(super) others: Option<Box<VectorState>>,
    /// What was read of what it stored.
    pub(super) stored: Vec<Stored>,
}

/// The vector registers that a record brought.
pub(super) fn vectors_of(stop: RawSample) -> Option<Box<VectorState>> {
    match stop.capture?.vectors {
        Vectors::Here(state) => Some(state),
        _ => None,
    }
}

/// A window of which only stores are told.
#[derive(Default)]
pub(super) struct Stores {
    /// Address, bytes and value.
    all: Vec<(u64, u64, Option<u64>)>,
    /// There were others.
    more: bool,
}

impl Sink for Stores {
    fn value(&mut self, _: u64, _: Parameter, _: Option<u64>) {}

    fn store(&mut self, _: u64, address: Option<u64>, bytes: u32, value: Option<u64>) {
        match address {
            Some(address) => self.all.push((address, bytes.into(), value)),
            None => self.more = true,
        }
    }

    fn accesses_more(&mut self, _: u64) {
        self.more = true;
    }
}

impl Stores {
    /// The first step that left something else in memory than is known.
    pub(super) fn difference(&self, after: &Behind) -> Option<Difference> {
        if self.more {
            return None;
        }
        let wrong = after.stored.iter().find(|of| {
            let (start, end) = (of.address, of.address.wrapping_add(of.bytes));
            let mut stores = self.all.iter().rev();
            let last = stores.find(|(at, bytes, _)| *at < end && start < at.wrapping_add(*bytes));
            matches!(last, Some((at, bytes, Some(known)))
                if (*at, *bytes) == (start, of.bytes) && cut(*known, of.bytes) != of.held)
        });
        wrong.map(|of| Difference::Memory(of.step))
    }
}

/// The lowest bytes of a word.
fn cut(word: u64, bytes: u64) -> u64 {
    match bytes {
        8.. => word,
        _ => word & ((1 << (8 * bytes)) - 1),
    }
}

/// What lay in memory behind a block where one of its steps had stored.
pub(super) struct Stored {
    pub(super) step: usize,
    address: u64,
    bytes: u64,
    pub(super) held: u64,
}

/// What was read of it, as far as no later step stored there.
pub(super) fn stored_of(
    steps: &[BlockInstruction],
    before: &sampler::Registers,
    held: &[Option<u64>],
) -> Vec<Stored> {
    let mut all: Vec<Stored> = Vec::new();
    for ((step, operand), held) in block::stored(steps).into_iter().zip(held) {
        let (address, bytes) = (operand.address(&before.gpr).0, u64::from(operand.bytes));
        let end = address.wrapping_add(bytes);
        all.retain(|of| of.address >= end || of.address.wrapping_add(of.bytes) <= address);
        if let Some(held) = held {
            all.push(Stored {
                step,
                address,
                bytes,
                held: cut(*held, bytes),
            });
        }
    }
    all
}
