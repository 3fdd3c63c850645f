//! What a run delivers, kept whole.

use std::sync::mpsc::{Receiver, sync_channel};

use libtest_mimic::Failed;
use sampler::{
    Batch, CapturedMemory, Clock, Config, RawSample, Record, Running, Sampler, Stats, Target,
    Vectors,
};

/// A mean interval that gives about a thousand samples a second.
pub(crate) fn millisecond(clock: Clock) -> u64 {
    match clock {
        Clock::CpuClock | Clock::Timer => 1_000_000,
        Clock::Cycles => 3_000_000,
    }
}

/// Fails a test with what it says, unless this holds.
pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// A run and all it has delivered so far.
pub(crate) struct Recording {
    running: Running,
    receiver: Receiver<Batch>,
    pub(crate) batches: Vec<Batch>,
}

impl Recording {
    pub(crate) fn start(target: Target, clock: Clock) -> Result<Recording, Failed> {
        Recording::with(&Config::new(target, clock, millisecond(clock)))
    }

    pub(crate) fn with(config: &Config) -> Result<Recording, Failed> {
        Recording::with_room(config, 16)
    }

    /// With room for so many batches that nobody has received yet.
    pub(crate) fn with_room(config: &Config, batches: usize) -> Result<Recording, Failed> {
        let (sender, receiver) = sync_channel(batches);
        let running = Sampler::open(config)?.start(sender)?;
        Ok(Recording {
            running,
            receiver,
            batches: Vec::new(),
        })
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Receives until what has been received is enough.
    pub(crate) fn until(&mut self, enough: impl Fn(&[Batch]) -> bool) -> Result<(), Failed> {
        while !enough(&self.batches) {
            self.batches.push(self.receiver.recv()?.unpacked());
        }
        Ok(())
    }

    /// Receives until a number of samples has come that fulfil a condition.
    pub(crate) fn samples(
        &mut self,
        count: usize,
        counts: impl Fn(&RawSample) -> bool,
    ) -> Result<(), Failed> {
        let mut seen = samples(&self.batches)
            .filter(|sample| counts(sample))
            .count();
        while seen < count {
            let batch = self.receiver.recv()?.unpacked();
            seen += samples(std::slice::from_ref(&batch))
                .filter(|sample| counts(sample))
                .count();
            self.batches.push(batch);
        }
        Ok(())
    }

    /// Stops, receives the rest, and checks that the figures agree with what was received.
    pub(crate) fn stop(mut self) -> Result<(Vec<Batch>, Stats), Failed> {
        self.running.request_stop();
        self.batches
            .extend(self.receiver.iter().map(Batch::unpacked));
        let stats = self.running.stop();
        let count = |counts: fn(&Record) -> u64| -> u64 {
            self.batches
                .iter()
                .flat_map(|batch| &batch.records)
                .map(counts)
                .sum()
        };
        let expected = Stats {
            samples: count(|record| u64::from(is_sample(record))),
            records: count(|_| 1),
            batches: self.batches.len() as u64,
            lost: count(|record| match record {
                Record::Lost { count, .. } => *count,
                _ => 0,
            }),
            lost_samples: count(|record| match record {
                Record::LostSamples { count, .. } => *count,
                _ => 0,
            }),
            without_room: count(|record| match record {
                Record::Cycles(cycles) => cycles.samples,
                _ => 0,
            }),
            throttled: count(|record| u64::from(matches!(record, Record::Throttle { .. }))),
            inherited: self.batches.iter().map(|batch| batch.inherited).sum(),
            intervals: self
                .batches
                .iter()
                .map(|batch| batch.intervals.len() as u64)
                .sum(),
            malformed: 0,
            counted: stats.counted,
            undelivered: 0,
            readers_failed: 0,
            redraws_failed: stats.redraws_failed,
            displaced: stats.displaced,
        };
        if stats != expected {
            return Err(format!("the figures {stats:?} are not {expected:?}").into());
        }
        Ok((self.batches, stats))
    }
}

/// Whether it is a sample, and no second record of one.
fn is_sample(record: &Record) -> bool {
    let Record::Sample(sample) = record else {
        return false;
    };
    let second = |capture: &CapturedMemory| matches!(capture.vectors, Vectors::Here(_));
    !sample.capture.as_ref().is_some_and(second)
}

/// The samples of some batches.
pub(crate) fn samples(batches: &[Batch]) -> impl Iterator<Item = &RawSample> {
    batches
        .iter()
        .flat_map(|batch| &batch.records)
        .filter_map(|record| match record {
            Record::Sample(sample) => Some(&**sample),
            _ => None,
        })
}

/// All records in the order of their times, as a consumer merges them.
pub(crate) fn by_time(batches: &[Batch]) -> Vec<&Record> {
    let mut records: Vec<&Record> = batches.iter().flat_map(|batch| &batch.records).collect();
    records.sort_by_key(|record| record.time());
    records
}
