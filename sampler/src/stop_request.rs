//! How the threads of sampling are told to end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// How readers and wakers are told to end.
pub(crate) struct StopRequest {
    is_made: AtomicBool,
    /// Readable once they are to end; never read, so that it wakes all of them.
    pub(crate) wake: EventFd,
}

impl StopRequest {
    /// One that is not made yet.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            is_made: AtomicBool::new(false),
            wake: EventFd::from_flags(flags)?,
        })
    }

    /// Makes it, and wakes up all who wait for it.
    pub(crate) fn make(&self) {
        self.is_made.store(true, Ordering::Release);
        // The counter cannot overflow by one: it was 0, or the readers are awake already.
        if let Err(error) = self.wake.write(1) {
            tracing::debug!(%error, "the readers wake up at their time-out");
        }
    }

    /// Whether it is made.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Acquire)
    }
}
