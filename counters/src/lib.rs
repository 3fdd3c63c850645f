//! What is counted, and what can be lost.
//!
//! Each [`Counter`] and each [`Loss`] has its name, unit and meaning here alone. The collector
//! counts by them, databases have their names, and reports explain them. A misspelt counter does
//! not compile. Nothing here asks an operating system.

mod counter;
mod loss;

pub use counter::{Counter, CounterKey, Group};
pub use loss::{Cause, Loss};

/// What something is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Interrupts that were to be looked at.
    Samples,
    /// Stretches of instructions behind a sample.
    Windows,
    /// Values, known and unknown.
    Values,
    /// Calls.
    Calls,
    /// Records of the kernel.
    Records,
    /// Threads that read the kernel's buffers.
    Readers,
    /// Value profiles.
    Profiles,
    /// Files of programs.
    Images,
    /// Raw recordings.
    Recordings,
    /// Instructions.
    Instructions,
    /// Lists of values.
    Lists,
    /// Processes.
    Processes,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Units of the clock: cycles or nanoseconds.
    Clock,
    /// How often it happened.
    Times,
}
