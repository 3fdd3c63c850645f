//! The database of a running collection, and what could not be written to it yet.

pub(crate) mod checkpointer;
pub(crate) mod flush;
pub(crate) mod output;
pub(crate) mod saver;

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use counters::{Counter, Loss};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use profiledb::{Error, Subject, Writer};

use crate::store::checkpointer::Checkpointer;
use crate::store::flush::Snapshot;
use crate::store::output::count;
use crate::store::saver::{Done, Saver};
use consumers::events::lost::Lost;
use consumers::tables::{Tables, Wanted};
use pipeline::collector::{Collector, Totals};

/// What `-o` names cannot be had.
pub(crate) const CANNOT_WRITE: &str = "cannot write the database (-o names another file)";

/// The database and what could not be written to it yet.
pub(crate) struct Store {
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
pub(crate) struct Saved {
    /// What was counted in the run when it was handed over.
    pub(crate) totals: Totals,
    pub(crate) took: Duration,
}

impl Store {
    pub(crate) fn new(writer: Writer) -> Result<Self> {
        Ok(Self {
            writer: Some(writer),
            ..Self::closed()?
        })
    }

    /// A store whose database could not be opened yet.
    pub(crate) fn closed() -> Result<Self> {
        Ok(Self {
            saver: Saver::start()?,
            checkpointer: Checkpointer::start()?,
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
    pub(crate) fn open(&mut self, writer: Writer) {
        self.writer = Some(writer);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.writer.is_some() || self.is_saving()
    }

    /// Writes no more to its database, and leaves that as it is.
    pub(crate) fn abandon(&mut self) {
        self.writer = None;
    }

    /// Whether something could not be written.
    pub(crate) fn is_failing(&self) -> bool {
        self.pending.is_some()
    }

    /// Bytes of what is being written, or could not be.
    pub(crate) fn saving_bytes(&self) -> usize {
        self.saving_bytes
    }

    /// Whether something is being written.
    pub(crate) fn is_saving(&self) -> bool {
        self.saver.is_busy()
    }

    /// Counts what was to be written and never will be.
    pub(crate) fn count_unsaved(&mut self, collector: &mut Collector) {
        let (samples, lost) = std::mem::take(&mut self.unsaved);
        collector.lost(Loss::UnsavedSamples, samples);
        collector.tables.shared.lost.add(&lost);
        // It is there already.
        collector.totals.lost = collector.totals.lost.saturating_sub(lost.total());
        self.losses.take_off(&lost);
    }

    /// All losses that were ever handed over.
    pub(crate) fn losses(&self) -> &Lost {
        &self.losses
    }

    /// Processor time that writing has taken.
    pub(crate) fn saving_time(&self) -> Duration {
        self.saver.cpu_time() + self.checkpointer.cpu_time()
    }

    /// Counts what collecting has cost since the last time.
    pub(crate) fn measure(&mut self, tables: &mut Tables, cpus: usize) {
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
    pub(crate) fn begin(&mut self, collector: &mut Collector) -> Result<()> {
        let snapshot = match self.pending.take() {
            Some(pending) => pending,
            None => Arc::new(self.take(collector)),
        };
        let Some(writer) = self.writer.take() else {
            self.pending = Some(snapshot);
            return Err(anyhow!("the database is closed"));
        };
        if self.checkpointer.is_behind(writer.path()) {
            self.checkpointer.want(writer.path());
            (self.writer, self.pending) = (Some(writer), Some(snapshot));
            return Err(anyhow!("the disk does not keep up"));
        }
        self.saving_bytes = snapshot.bytes();
        self.saving = Some(Arc::clone(&snapshot));
        self.saver.begin(writer, snapshot).map_err(|back| {
            let (writer, snapshot) = *back;
            (self.writer, self.pending) = (Some(writer), Some(snapshot));
            anyhow!("the thread that saves is gone")
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
    pub(crate) fn unsaved(&self) -> Vec<Arc<Snapshot>> {
        self.saving.iter().chain(&self.pending).cloned().collect()
    }

    /// What the tables hold at present of owners whose access tags pass the test.
    pub(crate) fn running(
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
    pub(crate) fn ended(&mut self) -> Option<Result<Saved>> {
        let done = self.saver.ended()?;
        Some(self.settle(done))
    }

    /// Waits for what is being written, if anything is, as long as `patient` says.
    pub(crate) fn wait(&mut self, patient: &dyn Fn() -> bool) -> Option<Result<Saved>> {
        if !self.is_saving() {
            return None;
        }
        Some(match self.saver.wait(patient) {
            Some(done) => self.settle(done),
            None if self.is_saving() => Err(anyhow!("it takes too long")),
            None => Err(anyhow!("the thread that saves is gone")),
        })
    }

    fn settle(&mut self, done: Done) -> Result<Saved> {
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
            return Err(anyhow!(
                "what was to be saved cannot be, by a defect of this program: {} of it are lost",
                count(samples, "sample")
            ));
        };
        if result.is_err() {
            self.pending = Some(snapshot);
        } else {
            self.saving_bytes = 0;
        }
        result
            .context("flush failed")
            .map(|()| Saved { totals, took })
    }

    /// Writes all that was collected, and waits for that as long as `patient` says.
    ///
    /// # Errors
    /// Those of the database, or it takes too long; what could not be written is kept.
    pub(crate) fn flush(
        &mut self,
        collector: &mut Collector,
        patient: &dyn Fn() -> bool,
    ) -> Result<Saved> {
        // Should it have failed, it is pending.
        if let Some(Err(error)) = self.wait(patient)
            && self.is_saving()
        {
            return Err(error);
        }
        loop {
            let is_all = !self.is_failing();
            self.begin(collector)?;
            let saved = self.wait(patient).context("nothing was written")??;
            if is_all {
                return Ok(saved);
            }
        }
    }

    /// Ends the epoch and closes its database, and waits for that.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(ending) = self.begin_end(true) else {
            return Ok(());
        };
        Ok(ending.recv().context("the thread that saves is gone")??)
    }

    /// Begins to end the epoch and to close its database, and says what comes of it. The log is
    /// merged if it must be, or the disk is quick.
    pub(crate) fn begin_end(&mut self, must_merge: bool) -> Option<Receiver<Result<(), Error>>> {
        let writer = self.writer.take()?;
        let merge = must_merge || !self.checkpointer.is_slow();
        let merge = merge.then(|| self.checkpointer.shared());
        // Where the last interval ended: the clock may have been set since the first began.
        Some(self.saver.end(writer, self.started, merge))
    }
}

/// Processor time of this process so far.
pub(crate) fn cpu_time() -> Duration {
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

/// Wall-clock time in nanoseconds of the Unix epoch.
pub(crate) fn wall_now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0)
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
            settings: "{}".to_owned(),
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
