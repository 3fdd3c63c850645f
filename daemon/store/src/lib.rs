//! The database of a running collection, and what could not be written to it yet.
//!
//! A [`Store`] writes what a collector (crate `pipeline`) has gathered, one flush interval at a
//! time:
//!
//! 1. `Store::begin` takes the collector's tables as a [`flush::Snapshot`]. The collector goes on
//!    with empty ones.
//! 2. A thread of its own (`saver`) writes the snapshot in one transaction (crate `profiledb`).
//!    `Store::ended` or `Store::wait` says what became of it.
//! 3. What could not be written is kept, and comes before all else at the next flush. Only a
//!    [defect](Error::Defect) loses samples, which `Store::count_unsaved` counts.
//! 4. Another thread (`checkpointer`) merges the database's log, so that no flush waits for the
//!    disk.
//!
//! Readers of the service see what is not saved yet too: `Store::unsaved` and `Store::running`.
//!
//! This crate decides neither when to flush nor which database to write to. It does not know who
//! reads.

mod checkpointer;
mod error;
pub mod flush;
mod saver;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use counters::{Counter, Loss};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use profiledb::{Subject, Writer};

use crate::checkpointer::Checkpointer;
pub use crate::error::Error;
use crate::flush::Snapshot;
use crate::saver::{Done, Saver};
use consumers::events::lost::Lost;
use consumers::tables::{Tables, Wanted};
use machine::system::clock::wall_now;
use pipeline::collector::{Collector, Totals};

/// The database and what could not be written to it yet.
pub struct Store {
    saver: Saver,
    checkpointer: Checkpointer,
    /// Not here while something is being written.
    writer: Option<Writer>,
    /// What could not be written.
    pending: Option<Arc<Snapshot>>,
    /// What is being written, for readers.
    saving: Option<Arc<Snapshot>>,
    /// What never will be: samples, and counts of losses by name.
    unsaved: (u64, Lost),
    /// All losses that were ever handed over, by name.
    losses: Lost,
    /// Bytes of what is being written, or could not be.
    saving_bytes: usize,
    /// When the present interval began, by both clocks: the wall's may be set meanwhile.
    started: i64,
    since: Instant,
    measured_at: Instant,
    measured_cpu: Duration,
}

/// Something has been written.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// What was counted in the run when it was handed over.
    pub totals: Totals,
    /// How long writing took.
    pub took: Duration,
}

impl Store {
    /// A store that writes to this database.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn new(writer: Writer) -> Result<Self, Error> {
        Ok(Self {
            writer: Some(writer),
            ..Self::closed()?
        })
    }

    /// A store whose database could not be opened yet.
    ///
    /// # Errors
    /// The system allows no more threads.
    pub fn closed() -> Result<Self, Error> {
        Ok(Self {
            saver: Saver::start().map_err(Error::NoThread)?,
            checkpointer: Checkpointer::start().map_err(Error::NoThread)?,
            writer: None,
            pending: None,
            saving: None,
            unsaved: (0, Lost::default()),
            losses: Lost::default(),
            saving_bytes: 0,
            started: wall_now(),
            since: Instant::now(),
            measured_at: Instant::now(),
            measured_cpu: cpu_time(),
        })
    }

    /// Writes to this database from now on.
    pub fn open(&mut self, writer: Writer) {
        self.writer = Some(writer);
    }

    /// Whether there is a database to write to.
    pub fn is_open(&self) -> bool {
        self.writer.is_some() || self.is_saving()
    }

    /// Writes no more to its database, and leaves that as it is.
    pub fn abandon(&mut self) {
        self.writer = None;
    }

    /// Whether something could not be written.
    pub fn is_failing(&self) -> bool {
        self.pending.is_some()
    }

    /// Bytes of what is being written, or could not be.
    pub fn saving_bytes(&self) -> usize {
        self.saving_bytes
    }

    /// Whether something is being written.
    pub fn is_saving(&self) -> bool {
        self.saver.is_busy()
    }

    /// Counts what was to be written and never will be.
    pub fn count_unsaved(&mut self, collector: &mut Collector) {
        let (samples, lost) = std::mem::take(&mut self.unsaved);
        collector.lost(Loss::UnsavedSamples, samples);
        collector.tables.shared.lost.add(&lost);
        // It is there already.
        collector.totals.lost = collector.totals.lost.saturating_sub(lost.total());
        self.losses.take_off(&lost);
    }

    /// Samples that were collected and are not saved.
    pub fn unsaved_samples(&self, collector: &Collector) -> u64 {
        let handed = self.saving.iter().chain(&self.pending);
        let handed: u64 = handed.map(|snapshot| snapshot.losses().0).sum();
        let counters = collector.tables.counters();
        let rest = counters.get(&Counter::Samples.into()).copied();
        self.unsaved.0 + handed + rest.unwrap_or(0)
    }

    /// All losses that were ever handed over.
    pub fn losses(&self) -> &Lost {
        &self.losses
    }

    /// Processor time that writing has taken.
    pub fn saving_time(&self) -> Duration {
        self.saver.cpu_time() + self.checkpointer.cpu_time()
    }

    /// Counts what collecting has cost since the last time.
    pub fn measure(&mut self, tables: &mut Tables, cpus: usize) {
        let (now, cpu) = (Instant::now(), cpu_time());
        let wall = nanoseconds(now - self.measured_at);
        tables.count(Counter::WallNs, wall);
        tables.count(Counter::MachineCpuNs, wall.saturating_mul(cpus as u64));
        let spent = cpu.saturating_sub(self.measured_cpu);
        tables.count(Counter::CollectorCpuNs, nanoseconds(spent));
        (self.measured_at, self.measured_cpu) = (now, cpu);
    }

    /// Begins to write what could not be written before, else what was collected. What is being
    /// written already must have ended.
    ///
    /// # Errors
    /// There is no database; what was to be written is kept.
    pub fn begin(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let snapshot = match self.pending.take() {
            Some(pending) => pending,
            None => Arc::new(self.take(collector)),
        };
        let Some(writer) = self.writer.take() else {
            self.pending = Some(snapshot);
            return Err(Error::Closed);
        };
        if self.checkpointer.is_behind(writer.path()) {
            self.checkpointer.want(writer.path());
            (self.writer, self.pending) = (Some(writer), Some(snapshot));
            return Err(Error::Behind);
        }
        self.saving_bytes = snapshot.bytes();
        self.saving = Some(Arc::clone(&snapshot));
        self.saver.begin(writer, snapshot).map_err(|back| {
            let (writer, snapshot) = *back;
            (self.writer, self.pending) = (Some(writer), Some(snapshot));
            Error::Gone
        })
    }

    /// What was collected since the last time.
    fn take(&mut self, collector: &mut Collector) -> Snapshot {
        let started = self.started;
        let ended = self.now();
        (self.started, self.since) = (ended, Instant::now());
        let snapshot = Snapshot::take(collector, started, ended);
        self.losses.add(snapshot.losses().1);
        snapshot
    }

    /// What was taken from the tables and is not saved yet.
    pub fn unsaved(&self) -> Vec<Arc<Snapshot>> {
        self.saving.iter().chain(&self.pending).cloned().collect()
    }

    /// What the tables hold at present of owners whose access tags pass the test.
    pub fn running(
        &self,
        collector: &mut Collector,
        wanted: Wanted,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> Snapshot {
        let times = (self.started, self.now());
        Snapshot::of_running(collector, times, wanted, is_wanted)
    }

    /// The present time by the clock that intervals are told by.
    fn now(&self) -> i64 {
        let elapsed = i64::try_from(self.since.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.started.saturating_add(elapsed)
    }

    /// What became of what was begun, once that is known.
    pub fn ended(&mut self) -> Option<Result<Saved, Error>> {
        let done = self.saver.ended()?;
        Some(self.settle(done))
    }

    /// Waits for what is being written, if anything is, as long as `patient` says.
    pub fn wait(&mut self, patient: &dyn Fn() -> bool) -> Option<Result<Saved, Error>> {
        if !self.is_saving() {
            return None;
        }
        Some(match self.saver.wait(patient) {
            Some(done) => self.settle(done),
            None if self.is_saving() => Err(Error::TooLong),
            None => Err(Error::Gone),
        })
    }

    fn settle(&mut self, done: Done) -> Result<Saved, Error> {
        let Done {
            writer,
            snapshot,
            result,
            took,
        } = done;
        if matches!(result, Ok(Ok(()))) {
            self.checkpointer.want(writer.path());
        }
        self.writer = Some(writer);
        self.saving = None;
        let totals = snapshot.totals;
        let Ok(result) = result else {
            self.saving_bytes = 0;
            let (samples, losses) = snapshot.losses();
            self.unsaved.0 += samples;
            self.unsaved.1.add(losses);
            return Err(Error::Defect(samples));
        };
        if result.is_err() {
            self.pending = Some(snapshot);
        } else {
            self.saving_bytes = 0;
        }
        result
            .map_err(Error::Flush)
            .map(|()| Saved { totals, took })
    }

    /// Writes all that was collected, and waits for that as long as `patient` says.
    ///
    /// # Errors
    /// Those of the database, or it takes too long; what could not be written is kept.
    pub fn flush(
        &mut self,
        collector: &mut Collector,
        patient: &dyn Fn() -> bool,
    ) -> Result<Saved, Error> {
        // Should it have failed, it is pending.
        if let Some(Err(error)) = self.wait(patient)
            && self.is_saving()
        {
            return Err(error);
        }
        loop {
            let is_all = !self.is_failing();
            self.begin(collector)?;
            let saved = self.wait(patient).ok_or(Error::Gone)??;
            if is_all {
                return Ok(saved);
            }
        }
    }

    /// Ends the epoch and closes its database, and waits for that.
    ///
    /// # Errors
    /// Those of the database.
    pub fn end(&mut self) -> Result<(), Error> {
        let Some(ending) = self.begin_end(true) else {
            return Ok(());
        };
        Ok(ending.recv().map_err(|_| Error::Gone)??)
    }

    /// Begins to end the epoch and to close its database, and says what comes of it. The log is
    /// merged if it must be, or the disk is quick.
    pub fn begin_end(
        &mut self,
        must_merge: bool,
    ) -> Option<Receiver<Result<(), profiledb::Error>>> {
        let writer = self.writer.take()?;
        let merge = must_merge || !self.checkpointer.is_slow();
        let merge = merge.then(|| self.checkpointer.shared());
        // Where the last interval ended: the clock may have been set since the first began.
        Some(self.saver.end(writer, self.started, merge))
    }
}

/// Processor time of this process so far.
pub fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Duration::ZERO;
    };
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(microseconds.unsigned_abs())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use counters::CounterKey;
    use profiledb::Epoch;

    use super::*;
    use pipeline::collector::Settings;

    /// What a defect keeps from being written is given up and counted, with what it told of losses,
    /// and what comes after it is saved.
    #[test]
    fn defect() {
        let folder = tempfile::tempdir().unwrap();
        let epoch = Epoch {
            started: 1,
            ended: None,
            host: String::new(),
            kernel: String::new(),
            command: String::new(),
            engine: "ring".to_owned(),
            clock: "cpu-clock".to_owned(),
            unit: "ns".to_owned(),
            cycles_per_unit: 1.0,
            period: 1000,
            window: 16,
            settings: profiledb::EpochSettings::default(),
        };
        let writer = Writer::create_epoch(&folder.path().join("epoch.db"), &epoch).unwrap();
        let mut collector = Collector::new(Settings::small());
        let mut store = Store {
            saver: Saver::failing().unwrap(),
            ..Store::new(writer).unwrap()
        };
        collector.tables.count(Counter::Samples, 5);
        collector.lost(Loss::RingSamples, 2);
        let error = store.flush(&mut collector, &|| true).unwrap_err();
        assert!(error.to_string().contains("5 samples of it"), "{error}");
        assert!(store.is_open() && !store.is_failing());

        store.count_unsaved(&mut collector);
        let counters = collector.tables.counters();
        assert_eq!(counters[&CounterKey::from(Loss::UnsavedSamples)], 5);
        assert_eq!(counters[&CounterKey::from(Loss::RingSamples)], 2);
        store.saver = Saver::start().unwrap();
        let saved = store.flush(&mut collector, &|| true).unwrap();
        assert_eq!(saved.totals.lost, 7);
        store.count_unsaved(&mut collector);
        assert_eq!(collector.tables.lost().total(), 0);
        store.end().unwrap();
    }
}
