//! From the clock interrupt to a [`RawSample`]: clocks, per-CPU buffers and loss counters.
//!
//! Responsible for: opening one sampling event per online CPU (or per CPU and thread of a target),
//! draining its ring buffer, decoding what the kernel wrote, drawing random intervals, and
//! counting everything that was lost on the way. Not responsible for: what a sample means. This
//! crate reads no memory of the sampled process but in the interrupt itself, knows no image and no
//! instruction, and keeps nothing once a [`Batch`] is sent.
//!
//! There are two engines. With [`Engine::Ring`] the kernel's perf events write samples with
//! registers and a copy of the stack. With [`Engine::Bpf`] a BPF program runs at each overflow
//! (`bpf/` holds it): it knows whom to sample, says who was running, and reads the memory that
//! the code ahead loads. It goes by what the consumer tells it ([`Handler`]). Both deliver
//! [`RawSample`]s the same way; only the second fills in [`RawSample::capture`].
//!
//! The way of a sample: the kernel writes it into the ring of the CPU it was taken on; a reader
//! thread (pinned to that CPU; one for all CPUs where the handler fills their buffers) wakes up
//! every few samples, decodes what lies in the ring, draws the next interval, and sends one
//! [`Batch`] through a bounded channel. When the consumer is slow the reader blocks there, the ring
//! overflows, and the kernel counts the loss ([`Record::Lost`]).
//!
//! With [`Clock::Timer`] there is no event: the handler is the callback of a timer on each CPU,
//! which it sets anew, and which finds out by itself what it has interrupted (`bpf/origin.h`).
//!
//! Intervals are random: each reader draws a new one at every wake-up, for those of its events
//! that had a sample since the last ([`Batch::intervals`]). An event that is in the middle of its
//! interval is left alone, because a new interval would discard what it has counted, and a thread
//! that seldom runs would never be sampled. Threads and processes that are born to a target keep
//! the interval that was current at their birth ([`Batch::inherited`] counts their samples): the
//! kernel gives them events of their own, which nobody outside can reach. Whatever the interval,
//! [`RawSample::period`] is the one that ended with the sample.
//!
//! It is cheap because a wake-up is shared by many samples, and nothing crosses CPUs on the way of
//! a ring: its reader and the event whose interval is redrawn belong to its CPU, and records are
//! decoded in place. What the handler leaves crosses them as it is ([`Packed`]).
//!
//! ```no_run
//! use std::sync::mpsc::sync_channel;
//!
//! let config = sampler::Config::new(sampler::Target::System, sampler::Clock::CpuClock, 1_000_000);
//! let (sender, receiver) = sync_channel(64);
//! let running = sampler::Sampler::open(&config)?.start(sender)?;
//! for batch in receiver.iter().take(100) {
//!     println!("cpu {}: {} records", batch.cpu, batch.records.len());
//! }
//! drop(receiver);
//! println!("{:?}", running.stop());
//! # Ok::<(), sampler::Error>(())
//! ```

mod abi;
mod attr;
mod block;
mod bpf;
mod breakpoints;
mod capture;
mod config;
mod cpus;
pub mod decode;
mod error;
mod event;
mod intervals;
mod packed;
pub mod probe;
mod readers;
mod reasons;
mod record;
mod refusal;
mod sample;
mod sampling;
mod stats;
mod stepping;
mod stop_request;
mod sys;
mod thread;
mod vectors;
mod wakers;

pub use bpf::{
    CallerRbp, Denial, Handler, HandlerCounter, HandlerCounters, MemoryOperand, RowPlace, UnwindRow,
};
pub use breakpoints::{
    AtEntries, Block, Breakpoints, Burst, Entered, FunctionEntry, Miss, Pair, entries, entry_cost,
};
pub use capture::{
    CapturedFrame, CapturedMemory, Change, Context, FrameSource, FramesEnd, Outcome, Placement,
    PlanFailure, ProcessKey, Share, SignalHandlers, TaskIdentity, WayEnd,
};
pub use config::{
    BpfOptions, CPU_CLOCK_FLOOR, Clock, Config, Engine, Filter, Target, VectorOptions,
};
pub use cpus::online as online_cpus;
pub use error::Error;
pub use intervals::Intervals;
pub use packed::{AtEntry, Packed, Stop};
pub use record::{Batch, Mmap, MmapIdentity, Record};
pub use sample::{Cycles, RawSample};
pub use sampling::{Running, Sampler, Setup};
pub use stats::Stats;
pub use stepping::{Hitch, Load, Moment, Next, Stepped, Stepper, ThreadState, Visit};
pub use sys::{
    Vma, clock_now, guard_regions, hasten, is_main_stack, lower_priority, ordinary_priority,
    peer_groups, share_memory, vma_from,
};
pub use thread::{Mode, Pid, Registers, Tid, UserRegisters};
pub use vectors::{VectorState, Vectors, X87};
