//! Threads that have breakpoints: the programs that count their signals, and run where a block ends.

use std::os::fd::OwnedFd;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::abi::{self, Plain};
use super::{Bpf, map};
use crate::{Error, Tid};

/// It runs whenever a signal is delivered.
pub(super) const PROGRAM: &str = "on_signal";
/// It runs at exits of blocks, and has vector registers brought there.
pub(super) const AT_EXIT: &str = "on_exit_of_block";
/// It runs at entries of functions, and has vector registers brought there.
pub(super) const AT_ENTRY: &str = "on_entry_of_function";

/// What the handler knows of threads that have breakpoints.
pub(crate) struct Trapped {
    threads: MapHandle,
    /// Where vector registers can be brought: the program for exits.
    at_exit: Option<OwnedFd>,
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
        wants_vectors: bool,
    ) -> Result<(), libbpf_rs::Error> {
        let thread = abi::Trapped {
            signals: 0,
            attempt,
            wants_vectors: wants_vectors.into(),
            entered: 0,
            left: 0,
        };
        let key = tid.0.to_ne_bytes();
        self.threads
            .update(&key, &thread.to_bytes(), MapFlags::ANY)
    }

    /// How many signals came since the entry. `None` if that cannot be told.
    pub(crate) fn signals(&self, tid: Tid) -> Option<u64> {
        let thread = self.threads.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY);
        let bytes: [u8; size_of::<abi::Trapped>()] = thread.ok()??.try_into().ok()?;
        Some(abi::Trapped::get(&bytes).signals)
    }

    /// Leaves it alone.
    pub(crate) fn end(&self, tid: Tid) {
        // What is not there any more was to be taken out.
        let _ = self.threads.delete(&tid.0.to_ne_bytes());
    }

    /// The program for exits, where vector registers can be brought.
    pub(crate) fn at_exit(&self) -> Option<&OwnedFd> {
        self.at_exit.as_ref()
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
        let at_exit = brings_vectors.then(|| self.program_named(AT_EXIT));
        Ok(Trapped {
            threads: map(&self.object, "trapped")?,
            at_exit: at_exit.transpose()?,
            _link: self.attach(PROGRAM)?,
        })
    }
}
