//! A thread of readers: waits until there is something to read for one of them, or for too long.
//!
//! A ring's reader has to be on the ring's CPU, so it has a thread of its own. What the handler
//! leaves can be read from anywhere, and one thread reads it for all CPUs: on a machine that has
//! little to do, each that wakes up wakes a processor for nothing.

mod outlet;
mod reader;
mod sources;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use self::outlet::Undelivered;
use self::sources::Buffer;
use crate::block::Pool;
use crate::stats::Stats;
use crate::stop_request::StopRequest;
use crate::{Batch, Tid, cpus, sys};

pub(crate) use self::outlet::Outlet;
pub(crate) use self::reader::Reader;
pub(crate) use self::sources::Sources;

/// What the end is waited for by.
const STOP: u64 = u64::MAX;
/// Events that are taken at a time.
const EVENTS: usize = 64;

/// Some readers for one thread.
pub(crate) struct Readers {
    readers: Vec<Reader>,
    stop: Arc<StopRequest>,
}

/// They at work: what the handler leaves is mapped by the thread that reads it.
struct Reading {
    readers: Vec<(Reader, Option<Buffer>)>,
    epoll: Epoll,
    stop: Arc<StopRequest>,
}

impl Readers {
    pub(crate) fn new(readers: Vec<Reader>, stop: Arc<StopRequest>) -> Self {
        Self { readers, stop }
    }

    /// Reads until it is told to stop or nobody receives any more. Says its thread to `ready` once
    /// it is where it belongs.
    pub(crate) fn run(self, ready: SyncSender<Tid>) -> Stats {
        self.settle();
        let mut stats = Stats::default();
        let mut reading = match self.begin() {
            Ok(reading) => reading,
            Err(error) => {
                tracing::error!(%error, "what is sampled cannot be read");
                stats.readers_failed += 1;
                return stats;
            }
        };
        let tid = nix::unistd::gettid().as_raw().cast_unsigned();
        // Whoever started us may have failed with another thread, and be gone.
        let _ = ready.send(Tid(tid));
        // The starter waits until every thread has let go of this.
        drop(ready);
        loop {
            reading.wait();
            // Before the drain: what was written until the events were stopped is then drained.
            let stopping = reading.stop.is_made();
            let read = reading.read(stopping);
            if let Err(Undelivered(records)) = read {
                stats.undelivered += records;
            }
            if stopping || read.is_err() {
                break;
            }
        }
        for (reader, _) in &reading.readers {
            stats.add(reader.stats());
        }
        stats
    }

    /// Moves to the CPU whose ring this is, ahead of others there. Where that is not allowed the
    /// reader works from elsewhere; see `Reader::drained_to`.
    ///
    /// What the handler leaves is read on whatever CPU has nothing else to do: on its own the
    /// reader would find none of its code and data in the caches at its few wake-ups a second, and
    /// be felt by the program there, by several microseconds for each sample.
    fn settle(&self) {
        if let [reader] = self.readers.as_slice()
            && let Some(cpu) = reader.home()
            && let Err(error) = cpus::stay_on(cpu)
        {
            tracing::warn!(cpu, %error, "a reader cannot be pinned to its CPU");
        }
        // On a busy CPU the ring would fill while the reader waits for its turn. It runs shortly
        // and seldom; without the privilege it is an ordinary thread, and losses are counted.
        if let Err(error) = sys::raise_priority() {
            tracing::debug!(%error, "a reader has ordinary priority");
        }
    }

    fn begin(self) -> Result<Reading, Box<dyn std::error::Error>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let stop = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
        epoll.add(self.stop.wake.as_fd(), stop)?;
        let (mut readers, blocks) = (Vec::new(), Pool::default());
        for (number, reader) in (0..).zip(self.readers) {
            let buffer = reader.map_buffer(&blocks)?;
            reader.watch(&epoll, number)?;
            readers.push((reader, buffer));
        }
        Ok(Reading {
            readers,
            epoll,
            stop: self.stop,
        })
    }
}

impl Reading {
    /// Waits for samples, the end, or the first time-out; those who have something to read are due
    /// then.
    fn wait(&mut self) {
        let now = Instant::now();
        let left = self.readers.iter().map(|(reader, _)| reader.time_left(now));
        let left = left.min().unwrap_or_default();
        // Not before it has passed.
        let timeout = (left + Duration::from_micros(999)).as_millis();
        let timeout = EpollTimeout::try_from(timeout).unwrap_or(EpollTimeout::ZERO);
        let mut events = [EpollEvent::empty(); EVENTS];
        // An error is that of a signal's interruption: it is as good as a time-out.
        let count = self.epoll.wait(&mut events, timeout).unwrap_or(0);
        for event in events.iter().take(count) {
            let number = event.data();
            let reader = usize::try_from(number).ok();
            if let Some((reader, _)) = reader.and_then(|number| self.readers.get_mut(number)) {
                reader.happened(&self.epoll, number, event.events());
            }
        }
    }

    /// Drains those that are due, with those that are quiet, or all at the end, and sends what they
    /// had; where urgent records were among it, all. Those that had nothing are told of together.
    fn read(&mut self, stopping: bool) -> Result<(), Undelivered> {
        let now = Instant::now();
        if !stopping && !self.readers.iter().any(|(reader, _)| reader.is_due(now)) {
            return Ok(());
        }
        let (mut quiet, mut urgent): (Option<(usize, Batch)>, bool) = (None, false);
        for others in [false, true] {
            for (number, (reader, buffer)) in self.readers.iter_mut().enumerate() {
                let wanted = match others {
                    false => stopping || reader.is_quiet() || reader.is_due(now),
                    true => urgent && reader.is_behind(now),
                };
                if !wanted {
                    continue;
                }
                let batch = reader.drain(buffer.as_ref(), now, stopping);
                urgent |= batch.has_much_urgent();
                match &mut quiet {
                    _ if !batch.is_empty() => reader.send(batch)?,
                    None => quiet = Some((number, batch)),
                    Some((_, first)) => {
                        first.others_drained_to.push((batch.cpu, batch.drained_to));
                    }
                }
            }
        }
        match quiet {
            Some((number, batch)) => self.readers[number].0.send(batch),
            None => Ok(()),
        }
    }
}
