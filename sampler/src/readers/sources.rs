//! Where the records of one CPU come from: its perf ring, and the buffer of the handler in the
//! kernel.

use std::cell::{RefCell, RefMut};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::attr::Role;
use crate::block::{Filling, Pool};
use crate::bpf::{OfCpu, Overflow};
use crate::event::Event;
use crate::packed::{self, Packed};
use crate::sys::Ring;

/// A new interval begins anew, whatever has passed of the present one: that time is lost to the
/// profile, and so much of it may be, one part in so many of the time since the last draw. Where a
/// sample woke the reader it is less; where the time-out did, a later draw will do.
const MOST_LOST: u64 = 200;
/// The same of a clock of several events: what woke the reader was a sample of one of them.
const MOST_LOST_OF_SEVERAL: u64 = 80;

/// What the reader knows of one of its events.
pub(crate) struct Own {
    /// The kernel's id of it.
    pub(crate) id: u64,
    /// How many events the CPU's clock consists of: each takes so many times as long as the
    /// intervals that its samples stand for.
    pub(crate) of: u64,
    /// Its period of the start, which the software clock goes on reporting.
    pub(crate) reported: u64,
    /// The present interval and the one before, in the clock's unit.
    pub(crate) interval: u64,
    pub(crate) previous: u64,
    /// When the present interval was set, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) set_at: u64,
    /// Around which mean it was drawn.
    pub(crate) mean: u64,
    /// The interval has been in force for long enough.
    pub(crate) is_spent: bool,
}

impl Own {
    /// Around `mean`, as it was opened.
    fn new(event: &Event, of: u64, mean: u64) -> Own {
        Own {
            id: event.id,
            of,
            reported: event.interval.saturating_mul(of),
            interval: event.interval,
            previous: event.interval,
            set_at: 0,
            mean,
            is_spent: false,
        }
    }

    /// The time between two of its samples.
    pub(crate) fn period(&self) -> u64 {
        self.interval.saturating_mul(self.of)
    }

    /// The interval that ended with a sample of [`Clock::CpuClock`] at `time`.
    ///
    /// A ring that was drained just before the interval was set holds samples of two intervals at
    /// most. Those of the present one are at least its length away from when it was set; half of
    /// it is taken, because the two clock readings are not of the same instant.
    pub(crate) fn interval_at(&self, time: u64) -> u64 {
        if time >= self.set_at.saturating_add(self.period() / 2) {
            self.interval
        } else {
            self.previous
        }
    }

    /// Whether a new interval around `mean` is to be set `now`, the last sample having been taken
    /// at `sampled`.
    ///
    /// If it is `steady`, its intervals being of the time of a CPU and not of a thread, no more can
    /// have passed of one than it is long. So a draw is made up for where none could be at the last
    /// sample; but not where there was none: it would interrupt a CPU that has nothing to do.
    pub(crate) fn is_to_be_redrawn(&self, steady: bool, mean: u64, sampled: u64, now: u64) -> bool {
        let is_stale = self.is_spent || self.mean != mean;
        is_stale && self.may_be_redrawn(steady, sampled, now)
    }

    fn may_be_redrawn(&self, steady: bool, sampled: u64, now: u64) -> bool {
        let since = now.saturating_sub(sampled);
        let passed = if steady {
            since.min(self.period())
        } else {
            since
        };
        let most = match self.of {
            ..=1 => MOST_LOST,
            _ => MOST_LOST_OF_SEVERAL,
        };
        passed <= now.saturating_sub(self.set_at) / most
    }
}

/// Where one CPU's records come from.
pub(crate) struct Sources {
    pub(crate) ring: Ring,
    /// Those that write into the ring.
    pub(crate) events: Arc<[OwnedFd]>,
    /// Those whose intervals are drawn: the same, or the clock of the handler in the kernel, unless
    /// that draws by itself.
    pub(crate) clocks: Arc<[OwnedFd]>,
    /// The present intervals of `clocks`.
    pub(crate) own: Vec<Own>,
    /// The buffer of the handler in the kernel.
    pub(crate) buffer: Option<MapHandle>,
    /// Its tables of what finds no room there.
    pub(crate) overflow: Option<Overflow>,
}

impl Sources {
    /// Of a CPU's events, whose intervals were drawn around `mean`.
    pub(crate) fn new(ring: Ring, events: Vec<Event>, bpf: Option<OfCpu>, mean: u64) -> Sources {
        let fds = |events: Vec<Event>| events.into_iter().map(|event| event.fd).collect();
        let Some(OfCpu {
            clocks,
            buffer,
            overflow,
        }) = bpf
        else {
            let own = |event| Own::new(event, 1, mean);
            let own = events.iter().map(own).collect();
            let events: Arc<[OwnedFd]> = fds(events);
            return Sources {
                ring,
                clocks: Arc::clone(&events),
                events,
                own,
                buffer: None,
                overflow: None,
            };
        };
        let of = clocks.len() as u64;
        let own = |event| Own::new(event, of, mean);
        Sources {
            ring,
            own: clocks.iter().map(own).collect(),
            clocks: fds(clocks),
            events: fds(events),
            buffer: Some(buffer),
            overflow: Some(overflow),
        }
    }

    /// The events, by what they are for.
    pub(crate) fn events(&self) -> Vec<(Role, Arc<[OwnedFd]>)> {
        if self.buffer.is_none() {
            return vec![(Role::Both, Arc::clone(&self.events))];
        }
        vec![
            (Role::SideBand, Arc::clone(&self.events)),
            (Role::Clock, Arc::clone(&self.clocks)),
        ]
    }
}

/// What looks into the handler's buffer gave.
pub(crate) struct Received {
    cpu: u32,
    /// Records that are not among the samples yet.
    filling: Filling,
    pub(crate) samples: Vec<Packed>,
    /// Samples that found no room.
    pub(crate) missed: u64,
    /// Records that were none.
    pub(crate) malformed: u64,
}

impl Received {
    fn new(cpu: u32, pool: Pool) -> Self {
        Self {
            cpu,
            filling: Filling::new(pool),
            samples: Vec::new(),
            missed: 0,
            malformed: 0,
        }
    }

    fn add(&mut self, record: &[u8]) {
        if self.filling.is_full_for(record.len()) {
            self.unpile();
        }
        match packed::is_stack_copy(record) {
            true => self.filling.begin(record),
            false => self.filling.push(record),
        }
    }

    /// Has all records among the samples.
    fn unpile(&mut self) {
        for record in self.filling.take() {
            match Packed::new(record, self.cpu) {
                Some((sample, missed)) => {
                    self.samples.push(sample);
                    self.missed += u64::from(missed);
                }
                None => self.malformed += 1,
            }
        }
    }
}

/// The handler's buffer.
pub(crate) struct Buffer {
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Received>>,
}

impl Buffer {
    pub(crate) fn new(map: &MapHandle, cpu: u32, pool: &Pool) -> libbpf_rs::Result<Buffer> {
        let received = Rc::new(RefCell::new(Received::new(cpu, pool.clone())));
        let into = Rc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            into.borrow_mut().add(bytes);
            0
        })?;
        Ok(Buffer {
            ring: builder.build()?,
            received,
        })
    }

    /// Adds what is there to what was received and not taken yet.
    pub(crate) fn drain(&self) -> RefMut<'_, Received> {
        if let Err(error) = self.ring.consume() {
            tracing::debug!(%error, "a buffer cannot be read");
        }
        let mut received = self.received.borrow_mut();
        received.unpile();
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of so many events, whose first interval gives way to another at some time.
    fn own(of: u64, intervals: [u64; 2], set_at: u64) -> Own {
        let [previous, interval] = intervals;
        Own {
            id: 0,
            of,
            reported: previous * of,
            interval,
            previous,
            set_at,
            mean: interval,
            is_spent: true,
        }
    }

    /// A new interval is set only where hardly anything is lost by it.
    #[test]
    fn redraws() {
        let own = own(1, [1_000_000; 2], 0);
        for steady in [false, true] {
            assert!(own.may_be_redrawn(steady, 10_000_000, 10_050_000));
            assert!(!own.may_be_redrawn(steady, 10_000_000, 10_500_000));
            // It had none.
            assert!(!own.may_be_redrawn(steady, 0, 10_000_000));
            // The clock of interrupts may be ahead by a little.
            assert!(own.may_be_redrawn(steady, 10_000_001, 10_000_000));
        }
        // An interval is little of so long a time, if it is one of time.
        assert!(own.may_be_redrawn(true, 0, 200_000_000));
        assert!(!own.may_be_redrawn(false, 0, 200_000_000));
        // One that is not spent is left, unless it is to be of another mean.
        let redrawn = |own: &Own, mean| own.is_to_be_redrawn(true, mean, 10_000_000, 10_050_000);
        assert!(redrawn(&own, 1_000_000));
        let new = Own {
            is_spent: false,
            ..own
        };
        assert!(!redrawn(&new, 1_000_000));
        assert!(redrawn(&new, 2_000_000));
    }

    /// Of several events each takes as many times as long as what its samples stand for, and may
    /// lose more by a draw: a reader that is woken up meets it anywhere between two samples.
    #[test]
    fn several_events() {
        let own = own(4, [200_000, 250_000], 10_000_000);
        assert_eq!(own.interval_at(10_400_000), 200_000);
        assert_eq!(own.interval_at(10_600_000), 250_000);
        assert!(own.may_be_redrawn(true, 49_600_000, 50_000_000));
        assert!(!own.may_be_redrawn(true, 49_400_000, 50_000_000));
        // No more than its period can have passed.
        assert!(own.may_be_redrawn(true, 10_000_000, 90_000_000));
    }

    /// A sample of the software clock belongs to the interval that was current when it was taken.
    #[test]
    fn interval_at() {
        let own = own(1, [700, 1000], 50_000);
        assert_eq!(own.interval_at(49_000), 700);
        assert_eq!(own.interval_at(50_003), 700);
        assert_eq!(own.interval_at(50_999), 1000);
        assert_eq!(own.interval_at(u64::MAX), 1000);
        let late = Own {
            set_at: u64::MAX,
            ..own
        };
        assert_eq!(late.interval_at(49_000), 700);
    }
}
