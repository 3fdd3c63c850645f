//! The database of a running collection, and what could not be written to it yet.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use profiledb::Writer;

use crate::collector::Collector;
use crate::flush;
use crate::tables::Tables;

/// The database and what could not be written to it yet.
pub(crate) struct Store {
    writer: Option<Writer>,
    /// Tables of a flush that failed, with its times.
    pending: Option<(Tables, i64, i64)>,
    /// When the present interval began, by both clocks: the wall's may be set meanwhile.
    started: i64,
    since: Instant,
    measured_at: Instant,
    measured_cpu: Duration,
}

impl Store {
    pub(crate) fn new(writer: Writer) -> Self {
        Self {
            writer: Some(writer),
            ..Self::closed()
        }
    }

    /// A store whose database could not be opened yet.
    pub(crate) fn closed() -> Self {
        Self {
            writer: None,
            pending: None,
            started: wall_now(),
            since: Instant::now(),
            measured_at: Instant::now(),
            measured_cpu: cpu_time(),
        }
    }

    /// Writes to this database from now on.
    pub(crate) fn open(&mut self, writer: Writer) {
        self.writer = Some(writer);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes no more to its database, and leaves that as it is.
    pub(crate) fn abandon(&mut self) {
        self.writer = None;
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.pending.is_some()
    }

    /// Counts what collecting has cost since the last time.
    pub(crate) fn measure(&mut self, tables: &mut Tables, cpus: usize) {
        let (now, cpu) = (Instant::now(), cpu_time());
        let wall = nanoseconds(now - self.measured_at);
        tables.count("overhead", "wall_ns", wall);
        tables.count(
            "overhead",
            "machine_cpu_ns",
            wall.saturating_mul(cpus as u64),
        );
        let spent = cpu.saturating_sub(self.measured_cpu);
        tables.count("overhead", "collector_cpu_ns", nanoseconds(spent));
        (self.measured_at, self.measured_cpu) = (now, cpu);
    }

    /// Writes what is pending, then the tables, which are empty afterwards.
    pub(crate) fn flush(&mut self, collector: &mut Collector) -> Result<()> {
        if let Some((tables, started, ended)) = self.pending.take() {
            self.write_or_keep(tables, started, ended, collector)?;
        }
        let started = self.started;
        let elapsed = i64::try_from(self.since.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let ended = started.saturating_add(elapsed);
        (self.started, self.since) = (ended, Instant::now());
        let tables = collector.take_tables();
        self.write_or_keep(tables, started, ended, collector)
    }

    fn write_or_keep(
        &mut self,
        tables: Tables,
        started: i64,
        ended: i64,
        collector: &mut Collector,
    ) -> Result<()> {
        let result = self.write(&tables, started, ended, collector);
        if result.is_err() {
            self.pending = Some((tables, started, ended));
        }
        result
    }

    fn write(
        &mut self,
        tables: &Tables,
        started: i64,
        ended: i64,
        collector: &mut Collector,
    ) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            bail!("the database is closed")
        };
        flush::write(
            writer,
            tables,
            &mut collector.images,
            &mut collector.kernel,
            started,
            ended,
        )
        .context("flush failed")
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        writer.end_epoch(wall_now())?;
        writer.close()?;
        Ok(())
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
