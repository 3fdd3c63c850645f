//! The reader of one CPU: drains, redraws the interval, sends.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sched::sched_getcpu;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::outlet::{Outlet, Undelivered};
use super::sources::{Buffer, Own, Sources};
use crate::block::Pool;
use crate::decode::Paths;
use crate::stats::Stats;
use crate::{Batch, Clock, Config, Intervals, Record, decode, sys};

/// How long readers of rings and of buffers wait for samples before they send what there is. On a
/// CPU that is sampled all the time, the longest intervals' wake-ups still come before it.
const RING_TIMEOUT: Duration = Duration::from_millis(80);
const BUFFER_TIMEOUT: Duration = Duration::from_millis(512);

/// What came longer ago than this is taken when others have urgent records: what is to be learned
/// of it waits for all that has come from all CPUs until then.
const SOON: Duration = Duration::from_millis(40);

/// How long a buffer's reader waits when there was something to learn of a program: it goes on to
/// code that nothing is known of yet. Then twice as long each time, up to what is usual.
const AFTER_URGENT: Duration = Duration::from_millis(32);

/// A mapping of code is as urgent as that many records: its file may be gone soon.
const CODE_IS_URGENT: u64 = 16;

/// What is waited for of a descriptor.
const EDGES: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLET);

/// How far the kernel's clock in interrupts can differ from the one that is read here, in
/// nanoseconds: it is read without a lock, and may be off by the step of an adjustment.
const CLOCK_SLACK: u64 = 10_000;

/// How long a record can be on its way into the ring of another CPU, in nanoseconds. It is
/// written without preemption, within microseconds; on the reader's own CPU never while it runs.
/// What the handler in the kernel writes has the time of its start.
const DISPLACED_SLACK: u64 = 10_000_000;

pub(crate) struct Reader {
    cpu: u32,
    sources: Sources,
    intervals: Intervals,
    /// The mean of the next interval, which may be changed while the reader runs.
    mean: Arc<AtomicU64>,
    clock: Clock,
    /// With how many samples the handler in the kernel wakes this up.
    wake_up_samples: u32,
    outlet: Outlet,
    /// Which event is watched: the first one whose threads have not all ended.
    watched: usize,
    /// Something has come since the last drain.
    is_awake: bool,
    /// Nothing had come until then.
    is_quiet: bool,
    drained_at: Instant,
    /// How long it waits next.
    patience: Duration,
    /// Intervals drawn since the last batch.
    drawn: Vec<u64>,
    scratch: Vec<u8>,
    paths: Paths,
    stats: Stats,
}

impl Reader {
    pub(crate) fn new(
        cpu: u32,
        sources: Sources,
        intervals: Intervals,
        mean: Arc<AtomicU64>,
        config: &Config,
        outlet: Outlet,
    ) -> Reader {
        let drawn = sources.own.iter().map(|own| own.interval).collect();
        Reader {
            cpu,
            sources,
            intervals,
            mean,
            clock: config.clock,
            wake_up_samples: config.wake_up_samples,
            outlet,
            watched: 0,
            is_awake: false,
            is_quiet: false,
            drained_at: Instant::now(),
            patience: AFTER_URGENT,
            drawn,
            scratch: Vec::new(),
            paths: Paths::default(),
            stats: Stats::default(),
        }
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The CPU that it has to be on, if it reads a ring.
    pub(crate) fn home(&self) -> Option<u32> {
        self.sources.buffer.is_none().then_some(self.cpu)
    }

    /// Maps what the handler leaves, for the thread that calls this, whose blocks these are.
    pub(crate) fn map_buffer(&self, blocks: &Pool) -> libbpf_rs::Result<Option<Buffer>> {
        let map = self.sources.buffer.as_ref();
        map.map(|map| Buffer::new(map, self.cpu, blocks))
            .transpose()
    }

    /// Has its descriptors watched, for this reader's number.
    ///
    /// They are for their edges: a buffer counts as readable while there is anything in it, and the
    /// handler says when that is worth to wake up for.
    pub(crate) fn watch(&self, epoll: &Epoll, number: u64) -> nix::Result<()> {
        if let Some(buffer) = &self.sources.buffer {
            epoll.add(buffer.as_fd(), EpollEvent::new(EDGES, number))?;
        }
        self.watch_event(epoll, number)
    }

    fn watch_event(&self, epoll: &Epoll, number: u64) -> nix::Result<()> {
        match self.sources.events.get(self.watched) {
            Some(event) => epoll.add(event.as_fd(), EpollEvent::new(EDGES, number)),
            // All threads have ended; the last records are in the ring, or drained.
            None => Ok(()),
        }
    }

    /// One of its descriptors is readable, or has ended: only events do.
    pub(crate) fn happened(&mut self, epoll: &Epoll, number: u64, what: EpollFlags) {
        self.is_awake = true;
        if !what.intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            return;
        }
        if let Some(event) = self.sources.events.get(self.watched) {
            // What is not watched any more was to be left.
            let _ = epoll.delete(event.as_fd());
            self.watched += 1;
        }
        if let Err(error) = self.watch_event(epoll, number) {
            tracing::debug!(cpu = self.cpu, %error, "a ring is read at time-outs");
        }
    }

    /// How long it may still wait.
    pub(crate) fn time_left(&self, now: Instant) -> Duration {
        let timeout = match self.sources.buffer {
            Some(_) => self.patience,
            None => RING_TIMEOUT,
        };
        (self.drained_at + timeout).saturating_duration_since(now)
    }

    /// Whether something has come, or it has waited for too long.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.is_awake || self.time_left(now).is_zero()
    }

    /// Whether its last drain found nothing. It may be drained whenever another is: it would wake
    /// up at its time-outs for nothing else.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether others that have urgent records wait for it.
    pub(crate) fn is_behind(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.drained_at) >= SOON
    }

    /// What came of its work so far.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Sends a batch, once there is room.
    pub(crate) fn send(&mut self, batch: Batch) -> Result<(), Undelivered> {
        self.stats.batches += self.outlet.send(batch)?;
        Ok(())
    }

    /// Takes all that there is.
    pub(crate) fn drain(&mut self, buffer: Option<&Buffer>, now: Instant, stopping: bool) -> Batch {
        (self.is_awake, self.drained_at) = (false, now);
        let drained_to = self.drained_to();
        let mut batch = Batch::empty(self.cpu, drained_to);
        // Of each own event, how many samples it had, and when the last one, or 0.
        let mut sampled = vec![(0, 0); self.sources.own.len()];
        let (own, clock, scratch, paths, stats) = (
            &self.sources.own,
            self.clock,
            &mut self.scratch,
            &mut self.paths,
            &mut self.stats,
        );
        let mut take = |bytes: &[u8]| match decode::record(bytes, paths) {
            Ok(decode::Decoded { mut record, stream }) => {
                match &mut record {
                    Record::Sample(sample) => {
                        stats.samples += 1;
                        let known = own
                            .iter()
                            .zip(&mut sampled)
                            .find(|(own, _)| own.id == stream);
                        if let Some((own, sampled)) = known {
                            *sampled = (sampled.0 + 1, sample.time);
                            // The kernel goes on reporting the first interval of this clock's
                            // event. Of an inherited one that is the only one.
                            if clock == Clock::CpuClock {
                                sample.period = own.interval_at(sample.time);
                            }
                        } else {
                            batch.inherited += 1;
                        }
                    }
                    Record::Mmap(mmap) if mmap.executable() => batch.urgent += CODE_IS_URGENT,
                    Record::Throttle { .. } => stats.throttled += 1,
                    Record::Lost { count, .. } => stats.lost = stats.lost.saturating_add(*count),
                    Record::LostSamples { count, .. } => {
                        stats.lost_samples = stats.lost_samples.saturating_add(*count);
                    }
                    _ => {}
                }
                batch.records.push(record);
            }
            Err(error) => {
                tracing::debug!(%error, "malformed record");
                batch.malformed += 1;
            }
        };
        let uncut = self
            .sources
            .ring
            .drain(|first, second| decode::split(first, second, scratch, &mut take));
        if uncut > 0 {
            batch.malformed += 1;
        }
        if let Some(buffer) = buffer {
            self.drain_buffer(buffer, &mut batch, &mut sampled, stopping);
        }
        if stopping {
            self.count_last_losses(&mut batch);
        } else {
            self.redraw(&sampled);
        }
        batch.intervals = std::mem::take(&mut self.drawn);
        self.is_quiet = batch.is_empty();
        self.patience = match batch.has_much_urgent() {
            true => AFTER_URGENT,
            false => (self.patience * 2).min(BUFFER_TIMEOUT),
        };
        self.stats.records += batch.records.len() as u64;
        self.stats.malformed += batch.malformed;
        self.stats.inherited += batch.inherited;
        self.stats.intervals += batch.intervals.len() as u64;
        batch
    }

    /// Takes what the handler in the kernel has left; adds to how many samples each event had, and
    /// when the last one was taken.
    fn drain_buffer(
        &mut self,
        buffer: &Buffer,
        batch: &mut Batch,
        sampled: &mut [(u64, u64)],
        stopping: bool,
    ) {
        let mut received = buffer.drain();
        let missed = std::mem::take(&mut received.missed);
        batch.malformed += std::mem::take(&mut received.malformed);
        let samples = &mut received.samples;
        batch.records.reserve(samples.len());
        let firsts = samples.iter().filter(|sample| sample.is_sample());
        self.stats.samples += firsts.count() as u64;
        let own = &self.sources.own;
        for mut sample in samples.drain(..) {
            if !sample.is_sample() {
                batch.records.push(Record::Packed(sample));
                continue;
            }
            let of = match self.clock {
                Clock::Cycles => 0,
                Clock::CpuClock => {
                    let reported = sample.period();
                    let of = own.iter().position(|own| own.reported == reported);
                    let of = of.unwrap_or(0);
                    // As with events that write into the ring.
                    if let Some(own) = own.get(of) {
                        sample.set_period(own.interval_at(sample.time()));
                    }
                    of
                }
                Clock::Timer => {
                    self.drawn.push(sample.period());
                    0
                }
            };
            if let Some((count, last)) = sampled.get_mut(of) {
                (*count, *last) = (*count + 1, sample.time());
            }
            batch.urgent += u64::from(sample.is_urgent());
            batch.records.push(Record::Packed(sample));
        }
        let Some(overflow) = &mut self.sources.overflow else {
            return;
        };
        let intervals: u64 = own.iter().map(|own| own.interval).sum();
        let interval = intervals / (own.len() as u64).max(1);
        // Looking there costs samples. Only at the end there is no next one that would tell.
        let turns = match (missed > 0, stopping) {
            (_, true) => 2,
            (true, false) => 1,
            (false, false) => 0,
        };
        let lost = if stopping {
            overflow.lost_by_timer()
        } else {
            0
        };
        if lost > 0 {
            self.stats.lost_samples = self.stats.lost_samples.saturating_add(lost);
            batch.records.push(Record::LostSamples {
                time: sys::clock_now(),
                count: lost,
            });
        }
        for _ in 0..turns {
            let (entries, unread) = overflow.drain();
            batch.malformed += unread;
            for mut cycles in entries {
                if self.clock == Clock::CpuClock {
                    cycles.weight = cycles.samples.saturating_mul(interval);
                }
                self.stats.without_room += cycles.samples;
                batch.records.push(Record::Cycles(Box::new(cycles)));
            }
        }
    }

    /// A time before which nothing can appear in this ring any more.
    fn drained_to(&mut self) -> u64 {
        let now = sys::clock_now();
        // On its own CPU no record is half written while the reader runs.
        let pinned = self.sources.buffer.is_none();
        let at_home = pinned && sched_getcpu().is_ok_and(|cpu| cpu == self.cpu as usize);
        self.stats.displaced += u64::from(pinned && !at_home);
        now.saturating_sub(if at_home {
            CLOCK_SLACK
        } else {
            DISPLACED_SLACK
        })
    }

    /// Draws a new interval for each event that has just had a sample, or had a draw long ago. For
    /// others, which are in the middle of theirs, a new one would discard what they have counted:
    /// an event that is slow to fill its interval would never be sampled.
    fn redraw(&mut self, sampled: &[(u64, u64)]) {
        let Sources {
            clocks,
            own,
            buffer,
            ..
        } = &mut self.sources;
        let mean = self.mean.load(Ordering::Relaxed);
        self.intervals.set_mean(mean);
        let steady = self.clock == Clock::CpuClock && buffer.is_some();
        for ((event, own), &(count, last)) in clocks.iter().zip(own).zip(sampled) {
            let set_at = sys::clock_now();
            own.is_spent |= match steady {
                true => is_spent_by(count, u64::from(self.wake_up_samples) / own.of),
                false => count > 0,
            };
            if !own.is_to_be_redrawn(steady, mean, last, set_at) {
                continue;
            }
            let drawn = Own {
                interval: self.intervals.draw(),
                previous: own.interval,
                set_at,
                mean,
                is_spent: false,
                ..*own
            };
            match sys::set_period(event.as_fd(), drawn.period()) {
                Ok(()) => {
                    self.drawn.push(drawn.interval);
                    *own = drawn;
                }
                // Its thread or CPU has gone.
                Err(_) => self.stats.redraws_failed += 1,
            }
        }
    }

    /// Counts what was lost after the last record found room: the kernel would report it with the
    /// next one, which does not come.
    fn count_last_losses(&mut self, batch: &mut Batch) {
        let total: u64 = self
            .sources
            .events
            .iter()
            .filter_map(|event| sys::totals(event.as_fd()).ok()?.lost)
            .fold(0, u64::saturating_add);
        let count = total.saturating_sub(self.stats.lost);
        if count > 0 {
            self.stats.lost = total;
            batch.records.push(Record::Lost {
                time: sys::clock_now(),
                count,
            });
        }
    }
}

/// Whether an interval gives way after a drain that found so many samples of it: by a coin, so that
/// each is in force for so many samples on average, `usual`, however many a drain finds.
/// Were it a number of drains, whose time it is that is limited where little is sampled, there
/// would be more samples of the short intervals, and more in all than were asked for.
fn is_spent_by(count: u64, usual: u64) -> bool {
    count > rand::random_range(0..usual.max(1))
}
