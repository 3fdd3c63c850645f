//! Samples that wait to be looked at, and the order in which that is done.
//!
//! Windows that begin at one instruction run through the same code, and what the collector keeps of
//! it is in the processor's caches while they do so one behind the other; in order of time most of
//! it has gone again before the next one comes there. So samples wait until there are many, or
//! until a record comes that changes what is mapped, and are then looked at by the place where they
//! were taken. What depends on the order of time is done before: their process is met as they come,
//! and their places are found and counted all together, when the tables for that are in the caches
//! once more.

use addresses::ProcessAddress;
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{Mode, Packed, Pid, Record, Tid};

use machine::place::Pc;
use machine::system::page_check::PageEvidence;

/// A sample that has come.
#[derive(Debug)]
pub(super) struct Arrival {
    /// As the engine gave it, packed or not.
    pub(super) record: Record,
    pub(super) evidence: Option<Box<PageEvidence>>,
    /// The second record, which brings the vector registers.
    pub(super) second: Option<Box<Packed>>,
    /// The probability with which its window is to be accepted; 1 until its place is found.
    pub(super) probability: f64,
}

impl Arrival {
    /// When it was taken, whose it is, the interrupted PC and what was interrupted.
    pub(super) fn origin(&self) -> Option<(u64, Pid, ProcessAddress, Mode)> {
        let (pid, ip, mode) = match &self.record {
            Record::Sample(sample) => (sample.pid, sample.ip, sample.mode),
            Record::Packed(packed) => packed.origin(),
            _ => return None,
        };
        Some((self.record.time(), pid, ip, mode))
    }
}

/// Where a sample was taken: the image, the address there, and the process.
type Place = (u32, u64, u32);

/// What waits, until all of it has been taken again.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// In order of time.
    arrivals: Vec<Option<Arrival>>,
    /// Those whose places were found; by place, from [`Self::sort`] on.
    order: Vec<(Place, u32)>,
    /// How many of these have been taken.
    taken: usize,
    /// That the arrivals hold.
    bytes: usize,
    /// The processes that they are of.
    pids: FxHashSet<u32>,
    /// Those that have a second record to come, by what it knows them by.
    awaiting: FxHashMap<(Tid, u64), u32>,
}

impl Waiting {
    /// Adds a sample of this process.
    pub(super) fn push(&mut self, arrival: Arrival, pid: Pid) {
        self.bytes += arrival.record.captured_bytes();
        self.pids.insert(pid.0);
        if let Record::Packed(packed) = &arrival.record
            && let Some(pair) = packed.pair()
        {
            // Far fewer wait than 2^32.
            self.awaiting.insert(pair, self.arrivals.len() as u32);
        }
        self.arrivals.push(Some(arrival));
    }

    /// Puts a second record to its sample; false if that does not wait any more.
    pub(super) fn pair(&mut self, second: Packed) -> bool {
        let index = second.pair().and_then(|pair| self.awaiting.remove(&pair));
        let arrival = index.and_then(|index| self.arrivals.get_mut(index as usize));
        let Some(Some(arrival)) = arrival else {
            return false;
        };
        self.bytes += second.memory_bytes();
        arrival.second = Some(Box::new(second));
        true
    }

    /// The first one whose place was not found yet.
    pub(super) fn unplaced(&self) -> Option<&Arrival> {
        self.arrivals.get(self.order.len())?.as_ref()
    }

    /// Says that this one was taken in the code of this process; without a place in an image, at
    /// this process address.
    pub(super) fn place(&mut self, pid: Pid, place: Result<Pc, ProcessAddress>, probability: f64) {
        let (image, address) = match place {
            Ok(pc) => (pc.image.0, pc.address.0),
            Err(address) => (u32::MAX, address.0),
        };
        let number = self.order.len();
        if let Some(Some(arrival)) = self.arrivals.get_mut(number) {
            arrival.probability = probability;
        }
        // Far fewer wait than 2^32.
        self.order.push(((image, address, pid.0), number as u32));
    }

    /// Whether any sample of a process waits.
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.pids.contains(&pid.0)
    }

    /// Samples that wait.
    pub(super) fn len(&self) -> usize {
        self.arrivals.len() - self.taken
    }

    /// Bytes of what waits, or waited beside it.
    pub(super) fn bytes(&self) -> usize {
        let each = size_of::<Arrival>() + size_of::<(Place, u32)>();
        self.bytes + self.arrivals.len() * each
    }

    /// Puts those that have yet to be taken, all of which have places, in the order of these; at
    /// one place that of time.
    pub(super) fn sort(&mut self) {
        if let Some(rest) = self.order.get_mut(self.taken..) {
            rest.sort_unstable();
        }
    }

    /// Takes the next one.
    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let &(_, index) = self.order.get(self.taken)?;
        self.taken += 1;
        let arrival = self.arrivals.get_mut(index as usize)?.take();
        if self.len() == 0 {
            self.clear();
        } else {
            self.prefetch();
        }
        arrival
    }

    /// While one sample is looked at, the next one can come into the cache, and word of the one
    /// behind it.
    fn prefetch(&self) {
        let ahead = |n| {
            let (_, index) = self.order.get(self.taken + n)?;
            self.arrivals.get(*index as usize)
        };
        if let Some(behind) = ahead(1) {
            mem_prefetch::prefetch_read_data::<_, 3>(behind);
        }
        if let Some(Some(Arrival {
            record: Record::Packed(packed),
            ..
        })) = ahead(0)
        {
            packed.prefetch();
        }
    }

    fn clear(&mut self) {
        self.arrivals.clear();
        self.order.clear();
        self.pids.clear();
        self.awaiting.clear();
        (self.taken, self.bytes) = (0, 0);
    }
}
