//! A sample: one interrupt. Of several that found no room it is their cycles.

use addresses::ProcessAddress;
use serde::{Deserialize, Serialize};

use crate::capture::{CapturedMemory, ProcessKey};
use crate::thread::{Mode, Pid, Registers, Tid, UserRegisters};

/// One interrupt: what was executing, with which registers and which stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSample {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU that was interrupted.
    pub cpu: u32,
    /// The process that was running.
    pub pid: Pid,
    /// The thread that was running.
    pub tid: Tid,
    /// The interval that ended here, in the clock's unit (cycles, or nanoseconds).
    pub period: u64,
    /// The interrupted PC; 0 in a sample of [`crate::Clock::Timer`] of which only the thread is
    /// known, which then counts as one of the kernel.
    pub ip: ProcessAddress,
    /// What was interrupted.
    pub mode: Mode,
    /// The interrupted registers; `None` for 32-bit code, and where the kernel gives none.
    pub interrupted: Option<Registers>,
    /// The user registers, also where the kernel was interrupted.
    pub user: UserRegisters,
    /// User memory from the user stack pointer upward, as much of it as could be copied (it may be
    /// nothing); never padded. The engine `bpf` copies 2,048 bytes at most, and none where an
    /// unwind row leads to the caller. Where more than one caller is asked for and rows are
    /// lacking, it copies up to 32,768 bytes, in which nobody looked for changes: they are for
    /// callers alone.
    pub stack: Box<[u8]>,
    /// What the engine `bpf` brought besides; `None` from the engine `ring`.
    pub capture: Option<CapturedMemory>,
}

impl RawSample {
    /// Bytes of the memory that came with it.
    pub fn memory_bytes(&self) -> usize {
        let captured = self
            .capture
            .as_ref()
            .map_or(0, CapturedMemory::memory_bytes);
        self.stack.len() + captured
    }
}

/// Samples of one PC of one thread that found no room: their cycles are not lost, their values are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// When they were fetched, in nanoseconds of `CLOCK_MONOTONIC`, which is after they were taken.
    pub time: u64,
    /// The process.
    pub process: ProcessKey,
    /// Its effective user id.
    pub euid: u32,
    /// The interrupted PC.
    pub ip: ProcessAddress,
    /// What was interrupted.
    pub mode: Mode,
    /// How many samples.
    pub samples: u64,
    /// Their intervals summed, in the clock's unit.
    pub weight: u64,
}
