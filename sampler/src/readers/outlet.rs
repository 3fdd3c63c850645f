//! Where readers leave what they have drained.
//!
//! A channel bounds how many batches wait, not how large they are; and the longer a reader had to
//! wait for room, the more it finds. So what is too much for one batch is sent as several.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use crate::Batch;

/// The sending end of one reader.
pub(crate) struct Outlet {
    batches: SyncSender<Batch>,
    /// The most bytes of a batch with more than one record.
    batch_bytes: usize,
    /// Bytes of all batches that readers have sent.
    sent: Arc<AtomicU64>,
    /// Up to when the last batch said that the CPU is drained.
    drained_to: u64,
}

/// Nobody receives any more: so many records were not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered(pub(crate) u64);

impl Outlet {
    /// For batches of so many bytes, which are added to `sent`.
    pub(crate) fn new(
        batches: SyncSender<Batch>,
        batch_bytes: usize,
        sent: Arc<AtomicU64>,
    ) -> Self {
        Self {
            batches,
            batch_bytes,
            sent,
            drained_to: 0,
        }
    }

    /// Sends what one drain gave, once there is room; says in how many batches.
    pub(crate) fn send(&mut self, batch: Batch) -> Result<u64, Undelivered> {
        // What waits for room takes memory, too.
        let bytes = batch.memory_bytes();
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        let drained_to = mem::replace(&mut self.drained_to, batch.drained_to);
        let parts = match bytes <= self.batch_bytes {
            true => vec![batch],
            false => split(batch, self.batch_bytes, drained_to),
        };
        let count = parts.len() as u64;
        let mut left: u64 = parts.iter().map(|part| part.records.len() as u64).sum();
        for part in parts {
            let records = part.records.len() as u64;
            self.batches.send(part).map_err(|_| Undelivered(left))?;
            left -= records;
        }
        Ok(count)
    }
}

/// The batch in parts of so many bytes. The last one has all that is not a record: before it comes,
/// the CPU is not known to be drained any further than it was before.
fn split(mut batch: Batch, most: usize, drained_before: u64) -> Vec<Batch> {
    let part = |records| Batch {
        records,
        ..Batch::empty(batch.cpu, drained_before)
    };
    let (mut parts, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
    for record in mem::take(&mut batch.records) {
        let own = record.memory_bytes();
        if bytes + own > most && !records.is_empty() {
            parts.push(part(mem::take(&mut records)));
            bytes = 0;
        }
        bytes += own;
        records.push(record);
    }
    batch.records = records;
    parts.push(batch);
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::Record;

    fn batch(records: u64) -> Batch {
        Batch {
            cpu: 3,
            records: (0..records).map(|time| Record::Throttle { time }).collect(),
            drained_to: 1000,
            urgent: 0,
            malformed: 2,
            inherited: 1,
            intervals: vec![7],
            others_drained_to: vec![(4, 5)],
        }
    }

    /// However much a drain gives, no batch is larger than is allowed, and together they are what
    /// the drain gave, in its order; only with the last one the CPU is drained.
    #[test]
    fn large_drains() {
        let most = 10 * size_of::<Record>();
        for records in [0, 1, 10, 11, 99, 100] {
            let whole = batch(records);
            let mut parts = split(whole.clone(), most, 900);
            assert_eq!(parts.len() as u64, records.div_ceil(10).max(1));
            assert!(parts.iter().all(|part| part.memory_bytes() <= most));
            let mut last = parts.pop().expect("a part");
            let before = |part: &Batch| {
                (
                    part.drained_to,
                    part.malformed,
                    part.intervals.len() + part.others_drained_to.len(),
                )
            };
            assert!(parts.iter().all(|part| before(part) == (900, 0, 0)));
            let mut all: Vec<Record> = parts.into_iter().flat_map(|part| part.records).collect();
            all.append(&mut last.records);
            last.records = all;
            assert_eq!(last, whole);
        }
        // A record that is larger is alone.
        assert_eq!(split(batch(3), 1, 0).len(), 3);
    }

    /// What is not delivered is counted, and so is what was.
    #[test]
    fn receiver_gone() {
        let (batches, receiver) = sync_channel(100);
        let mut outlet = Outlet::new(batches, 10 * size_of::<Record>(), Arc::default());
        assert_eq!(outlet.send(batch(25)), Ok(3));
        let received: usize = receiver.try_iter().map(|part| part.memory_bytes()).sum();
        assert_eq!(outlet.sent.load(Ordering::Relaxed), received as u64);
        drop(receiver);
        assert_eq!(outlet.send(batch(25)), Err(Undelivered(25)));
    }
}
