//! Whether an access that a window comes to raised an exception, as the handler in the kernel noted
//! it: what no record tells of (`mremap`, `munmap`) may let a page raise one.
//!
//! A window is what a thread does within microseconds of the sample, so its exceptions are noted
//! long before it is looked at, but for a thread that loses its processor in between. Of a young
//! sample it counts as well what the page raised in the time before, since programs do the same
//! again and again. A thread that has no processor for longer may come to an exception later than
//! anybody asks.

use std::sync::{Arc, Mutex, PoisonError};

use addresses::ProcessAddress;
use sampler::{Handler, Pid};

use crate::host::Host;

/// Who notes exceptions, if anybody does: the engine `bpf`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Option<Handler>>>);

impl Notes {
    /// Asks this handler from now on.
    pub(crate) fn ask(&self, handler: Handler) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handler);
    }

    fn with<T>(&self, ask: impl FnOnce(&Handler) -> T) -> Option<T> {
        let handler = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handler.as_ref().map(ask)
    }
}

/// What is known of the exceptions of one process.
#[derive(Debug)]
pub(crate) struct Exceptions {
    notes: Notes,
    /// When the last one was raised, and the time before that was asked.
    last: u64,
    as_of: u64,
}

/// What a thread does behind a sample is done after so many nanoseconds: then one answer serves all
/// samples before.
const DONE: u64 = 10_000_000;
/// For so many nanoseconds what a page has raised tells of what it may raise.
const AGAIN: u64 = 10_000_000_000;

impl Exceptions {
    pub(crate) fn new(notes: &Notes) -> Self {
        Self {
            notes: notes.clone(),
            last: 0,
            as_of: 0,
        }
    }

    /// Whether an access to the page around an address raised one [since then](Self::since).
    pub(crate) fn at(
        &self,
        pid: Pid,
        address: ProcessAddress,
        since: u64,
        host: &mut Host,
    ) -> bool {
        let ask = || self.notes.with(|of| of.raised_at(pid, address));
        host.raised_at(pid, address.0, ask)
            .is_some_and(|last| last >= since)
    }

    /// If any access raised one behind a sample of that time, or may yet do so: from when on those
    /// count that a page raised.
    pub(crate) fn since(&mut self, pid: Pid, time: u64, host: &mut Host) -> Option<u64> {
        let done = time.saturating_add(DONE);
        if self.as_of < done {
            let ask = || {
                self.notes.with(|of| {
                    let now = sampler::clock_now();
                    (of.raised(pid), now)
                })
            };
            let (last, as_of) = host.raised(pid, ask).unwrap_or((0, u64::MAX));
            (self.last, self.as_of) = (self.last.max(last), as_of);
        }
        let since = match self.as_of < done {
            true => time.saturating_sub(AGAIN),
            false => time,
        };
        (self.last >= since).then_some(since)
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::host::Answer;

    const PAGE: ProcessAddress = ProcessAddress(0x5008);

    /// One answer serves all samples that were done when it was given; the page is asked about
    /// where anything was raised since the sample.
    #[test]
    fn asks_as_seldom_as_it_can() {
        let pid = Pid(7);
        let mut host = Host::Replayed(FxHashMap::default());
        let mut exceptions = Exceptions::new(&Notes::default());
        let mut at = |time, answers: &[Answer]| {
            for answer in answers {
                host.replay(pid, answer.clone());
            }
            let since = exceptions.since(pid, time, &mut host);
            since.is_some_and(|since| exceptions.at(pid, PAGE, since, &mut host))
        };
        let start = 2 * AGAIN;
        let now = start + DONE + 100;
        let raised_at = |time| Answer::RaisedAt(0x5008, Some(time));
        assert!(!at(start + 90, &[Answer::Raised(Some((start + 80, now)))]));
        assert!(at(start + 80, &[raised_at(start + 80)]));
        assert!(!at(start + 79, &[raised_at(start + 70)]));
        assert!(!at(start + 100, &[]));
        let later = Answer::Raised(Some((start + 200, now + 100)));
        assert!(at(start + 150, &[later, raised_at(start + 200)]));
    }

    /// Of a sample that may not be done yet it counts what the page raised shortly before.
    #[test]
    fn young_samples() {
        let pid = Pid(7);
        let mut host = Host::Replayed(FxHashMap::default());
        let mut exceptions = Exceptions::new(&Notes::default());
        let start = 2 * AGAIN;
        let mut at = |raised: u64| {
            host.replay(pid, Answer::Raised(Some((start, start + DONE))));
            host.replay(pid, Answer::RaisedAt(0x5008, Some(raised)));
            let since = exceptions.since(pid, start + 1, &mut host);
            since.is_some_and(|since| exceptions.at(pid, PAGE, since, &mut host))
        };
        assert!(at(start) && at(start + 1 - AGAIN) && !at(start - AGAIN));
    }

    /// Where nobody notes them, none is known.
    #[test]
    fn nobody_notes() {
        let mut exceptions = Exceptions::new(&Notes::default());
        assert_eq!(exceptions.since(Pid(1), 1, &mut Host::Live), None);
        assert!(!exceptions.at(Pid(1), PAGE, 1, &mut Host::Live));
    }
}
