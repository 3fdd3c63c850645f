//! Waiting for a traced thread.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::sched_yield;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;

use super::Hitch;
use crate::Tid;
use crate::sys::trace;

/// How often the processor is left to others before this thread sleeps: a step takes less.
const TURNS: u32 = 20;

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It has ended.
    Ended,
    /// It stands, since it was to stop.
    Stood,
    /// It was stopped by a signal, with all threads of its process.
    Stopped,
    /// It stands at the entry of a system call, or behind it.
    Call,
    /// It stands, since this signal is to be delivered.
    Signal(i32),
}

impl Change {
    fn of(status: i32) -> Self {
        if !libc::WIFSTOPPED(status) {
            return Self::Ended;
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        match (event, signal) {
            (EVENT_STOP, libc::SIGTRAP) => Self::Stood,
            (0, CALL) => Self::Call,
            (0, signal) => Self::Signal(signal),
            // No other event was asked for.
            _ => Self::Stopped,
        }
    }
}

/// The event of a thread that was to stop, or was stopped with its process: `PTRACE_EVENT_STOP`.
const EVENT_STOP: i32 = 128;
/// What stands for a signal at system calls.
const CALL: i32 = libc::SIGTRAP | 0x80;

/// Tells when something becomes of traced threads.
pub(super) struct Changes(SignalFd);

impl Changes {
    /// The signal is to be blocked in all threads.
    pub(super) fn new() -> io::Result<Self> {
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(SignalFd::with_flags(&children, flags)?))
    }

    /// Waits until something becomes of a thread; `None` if nothing has until then.
    pub(super) fn next(&self, tid: Tid, until: Option<Instant>) -> Result<Option<Change>, Hitch> {
        let mut turns = 0;
        loop {
            match trace::changed(tid) {
                Ok(Some(status)) => return Ok(Some(Change::of(status))),
                Ok(None) => {}
                // Another thread's exec has taken its id.
                Err(_) => return Err(Hitch::Gone),
            }
            if turns < TURNS {
                turns += 1;
                // It cannot fail.
                let _ = sched_yield();
                continue;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let mut watched = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            // An interruption is looked at again.
            let _ = ppoll(&mut watched, left.map(TimeSpec::from), None);
            // What comes behind this wakes up again.
            while let Ok(Some(_)) = self.0.read_signal() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stops of each kind are told apart.
    #[test]
    fn kinds() {
        let stopped = |signal: i32, event: i32| event << 16 | signal << 8 | 0x7f;
        assert_eq!(Change::of(0), Change::Ended);
        assert_eq!(Change::of(libc::SIGKILL), Change::Ended);
        assert_eq!(Change::of(stopped(libc::SIGTRAP, 128)), Change::Stood);
        assert_eq!(Change::of(stopped(libc::SIGSTOP, 128)), Change::Stopped);
        assert_eq!(Change::of(stopped(libc::SIGTRAP | 0x80, 0)), Change::Call);
        // A signal without a name of its own.
        assert_eq!(Change::of(stopped(33, 0)), Change::Signal(33));
        assert_eq!(
            Change::of(stopped(libc::SIGTRAP, 0)),
            Change::Signal(libc::SIGTRAP)
        );
    }
}
