//! The program that counts the signals of threads that have breakpoints.

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::{Bpf, map};
use crate::{Error, Tid};

/// It runs whenever a signal is delivered.
pub(super) const PROGRAM: &str = "on_signal";

/// Counts signals of threads.
pub(crate) struct Signals {
    counts: MapHandle,
    /// Of the program, which runs no more when this is dropped.
    _link: Link,
}

impl Signals {
    /// Begins to count those of a thread.
    pub(crate) fn begin(&self, tid: Tid) -> Result<(), libbpf_rs::Error> {
        let key = tid.0.to_ne_bytes();
        self.counts
            .update(&key, &0_u64.to_ne_bytes(), MapFlags::ANY)
    }

    /// How many came since. `None` if that cannot be told.
    pub(crate) fn count(&self, tid: Tid) -> Option<u64> {
        let count = self.counts.lookup(&tid.0.to_ne_bytes(), MapFlags::ANY);
        let bytes = count.ok()??;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Counts them no more.
    pub(crate) fn end(&self, tid: Tid) {
        // What is not there any more was to be taken out.
        let _ = self.counts.delete(&tid.0.to_ne_bytes());
    }
}

impl Bpf {
    /// Has the program run.
    pub(super) fn begin_signals(&self) -> Result<Signals, Error> {
        Ok(Signals {
            counts: map(&self.object, "signals")?,
            _link: self.attach(PROGRAM)?,
        })
    }
}
