//! Samples that bring vector registers: their second records, and whether they tell what depends on
//! vectors.

use counters::Counter;
use sampler::{CapturedMemory, Packed, RawSample, Record, Vectors};

use super::Collector;

impl Collector {
    /// Keeps a second record with the sample that it is of, and counts one that comes too late.
    /// Another record is given back.
    pub(super) fn without_second(&mut self, record: Record) -> Option<Record> {
        match record {
            Record::Packed(second) if second.is_second() => {
                if !self.waiting.pair(second) {
                    self.tables.count(Counter::VectorsTooLate, 1);
                }
                None
            }
            other => Some(other),
        }
    }

    /// A sample as its second record shows it, if one has come: with vector registers, and memory
    /// as the thread found it when it went on. It stands for as much as the first.
    pub(super) fn upgraded(
        &mut self,
        first: &Record,
        second: Option<Box<Packed>>,
    ) -> Option<RawSample> {
        let Record::Packed(packed) = first else {
            return None;
        };
        packed.pair()?;
        let Some(second) = second else {
            self.tables.count(Counter::VectorsMissing, 1);
            return None;
        };
        let (Some(sample), Some(mut found)) = (packed.unpack(), second.unpack()) else {
            self.tables.count(Counter::VectorsMalformed, 1);
            return None;
        };
        let is_same = sample.ip == found.ip
            && sample.user == found.user
            && match (&sample.capture, &found.capture) {
                (Some(one), Some(other)) => one.task.process() == other.task.process(),
                _ => false,
            };
        if !is_same {
            self.tables.count(Counter::VectorsOfAnother, 1);
            return None;
        }
        self.tables.count(Counter::VectorWindows, 1);
        found.period = sample.period;
        // The thread stood still in between. The longer copy came with the first record.
        if sample.stack.len() > found.stack.len() {
            found.stack = sample.stack;
        }
        Some(found)
    }
}

/// Whether the sample is one of those that tell of vector registers.
pub(super) fn tells_vectors(capture: Option<&CapturedMemory>) -> bool {
    capture.is_some_and(|of| matches!(of.vectors, Vectors::Here(_) | Vectors::Complete))
}
