//! Threads that have breakpoints: the programs that count their signals, and run where a block
//! ends.

use std::os::fd::OwnedFd;

use addresses::ProcessAddress;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::{Bpf, map};
use crate::abi::{self, Plain};
use crate::{Error, Tid};

/// It runs whenever a signal is delivered.
pub(super) const PROGRAM: &str = "on_signal";
/// It runs at exits of blocks, and has vector registers brought there.
pub(super) const AT_EXIT: &str = "on_exit_of_block";
/// It runs at entries of functions, and has vector registers brought there.
pub(super) const AT_ENTRY: &str = "on_entry_of_function";

/// Memory operands of a block that can be read at its exit.
pub(crate) const MOST_OPERANDS: usize = abi::BLOCK_OPERANDS as usize;

/// A number that no register has.
const NO_REGISTER: u8 = u8::MAX;

const NO_OPERAND: abi::BlockOperand = abi::BlockOperand {
    address: 0,
    held: 0,
    base: NO_REGISTER,
    index: NO_REGISTER,
    scale: 0,
    bytes: 0,
    is_read: 0,
};

/// Where an operand is, by what registers hold at the entry of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// Numbers of general registers in the processor's order.
    pub base: Option<u8>,
    /// The one that is multiplied.
    pub index: Option<u8>,
    /// By what: 1, 2, 4 or 8.
    pub scale: u8,
    /// What is added.
    pub displacement: u64,
    /// Its size: 1 to 8.
    pub bytes: u8,
}

impl MemoryOperand {
    /// Its address where the general registers hold this.
    pub fn address(&self, gpr: &[u64; 16]) -> ProcessAddress {
        let held = |number: Option<u8>| number.map_or(0, |of| gpr[usize::from(of) & 15]);
        let index = held(self.index).wrapping_mul(self.scale.into());
        let sum = self.displacement.wrapping_add(held(self.base));
        ProcessAddress(sum.wrapping_add(index))
    }
}

/// What the handler knows of threads that have breakpoints.
pub(crate) struct Trapped {
    threads: MapHandle,
    /// The program for exits.
    at_exit: OwnedFd,
    /// Whether vector registers can be brought.
    brings_vectors: bool,
    /// Of the program that counts signals, which runs no more when this is dropped.
    _link: Link,
}

impl Trapped {
    /// Begins to count the signals of a thread, and says whether its vector registers are to be
    /// brought, by records that name this attempt.
    pub(crate) fn begin(
        &self,
        tid: Tid,
        attempt: u32,
        (wants_vectors, operands): (bool, &[MemoryOperand]),
    ) -> Result<(), libbpf_rs::Error> {
        let mut all: [abi::BlockOperand; MOST_OPERANDS] = std::array::from_fn(|_| NO_OPERAND);
        for (to, of) in all.iter_mut().zip(operands) {
            *to = abi::BlockOperand {
                address: of.displacement,
                base: of.base.unwrap_or(NO_REGISTER),
                index: of.index.unwrap_or(NO_REGISTER),
                scale: of.scale,
                bytes: of.bytes,
                ..NO_OPERAND
            };
        }
        let thread = abi::Trapped {
            signals: 0,
            attempt,
            wants_vectors: wants_vectors.into(),
            entered: 0,
            left: 0,
            operands: all,
        };
        let key = tid.0.to_ne_bytes();
        self.threads.update(&key, &thread.to_bytes(), MapFlags::ANY)
    }

    /// How many signals came since the entry, and what the operands held at the exit, if it could
    /// be read. `None` if that cannot be told.
    pub(crate) fn found(&self, tid: Tid) -> Option<(u64, Vec<Option<u64>>)> {
        let thread = self.threads.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY);
        let bytes: [u8; size_of::<abi::Trapped>()] = thread.ok()??.try_into().ok()?;
        let found = abi::Trapped::get(&bytes);
        let operands = found.operands.iter();
        let held = operands.map(|of| (of.is_read != 0).then_some(of.held));
        Some((found.signals, held.collect()))
    }

    /// Leaves it alone.
    pub(crate) fn end(&self, tid: Tid) {
        // What is not there any more was to be taken out.
        let _ = self.threads.delete(&tid.0.to_ne_bytes());
    }

    /// The program for exits.
    pub(crate) fn at_exit(&self) -> &OwnedFd {
        &self.at_exit
    }

    /// Whether vector registers can be brought.
    pub(crate) fn brings_vectors(&self) -> bool {
        self.brings_vectors
    }
}

impl Bpf {
    /// The program for entries of functions, where vector registers can be brought.
    pub(crate) fn at_entry(&self) -> Option<OwnedFd> {
        self.wakes.as_ref()?;
        self.program_named(AT_ENTRY).ok()
    }

    /// Has the programs run.
    pub(super) fn begin_breakpoints(&self, brings_vectors: bool) -> Result<Trapped, Error> {
        Ok(Trapped {
            threads: map(&self.object, "trapped")?,
            at_exit: self.program_named(AT_EXIT)?,
            brings_vectors,
            _link: self.attach(PROGRAM)?,
        })
    }
}
