//! The way of a sample, from what a reader of the kernel's buffers hands on to the tables.
//!
//! 1. [`merge::Merge`] takes the readers' batches (crate `sampler`), and gives out the records of
//!    all CPUs in one order of time.
//! 2. [`collector::Collector`] takes these: `put_off` keeps a sample until a record changes what it
//!    sees, `record` takes any other. It knows what each process maps (crate `machine`).
//! 3. Each sample is counted by its place. `blocks` says whether its window counts. One that does
//!    is interpreted (crate `interpreter`).
//! 4. `stage` makes what the interpreter says into events of the program, for the consumers
//!    (crate `consumers`).
//! 5. `Collector::take_tables` hands all of that to a flush, and begins anew.
//!
//! On the way back, `handler_updates` tells the interrupt's handler what is known of processes.
//!
//! Whatever goes into a collector can be written down ([`raw`]), and goes into another one later.
//!
//! For a few samples the processor itself is asked: [`bounce`] puts breakpoints around a block,
//! [`steps`] runs a thread instruction by instruction, [`entries`] watches calls of functions. What
//! they see is recorded beside what windows know, and compared with that.
//!
//! This crate writes to no database, and knows no configuration and no command line. It decides
//! neither when to flush nor how often to sample.

mod blocks;
pub mod bounce;
pub mod collector;
pub mod entries;
mod handler_updates;
mod lot;
pub mod merge;
pub mod raw;
mod results;
mod stage;
pub mod steps;
