//! How the service is.

mod form;

use std::path::Path;
use std::time::Duration;

use super::epochs::Epochs;
use super::governor::{Change, Governor};
use super::journal::Troubles;
use super::losses::{LOSSES, Losses};
use super::sampling::{Handled, Sampling};
use crate::output::{self, count};
use crate::session::Session;
use crate::settings::args::WINDOW;
pub(crate) use form::Status;
use form::Trouble;
use machine::system::clock::wall_now;
use machine::system::procfs;
use pipeline::collector::Totals;
use profiledb::EpochFile;
use store::Saved;

/// What is counted over the service's life.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// How often sampling was begun.
    pub(super) starts: u64,
    /// The clock of the last time.
    pub(super) clock: &'static str,
    /// Grows while there is nothing to do.
    pub(super) idle: u64,
    /// What the collections before the running one counted.
    before: Totals,
    /// What the running one has counted.
    running: Totals,
    /// What the handlers of the collections before took for so many samples.
    handled: (Duration, u64),
    /// Samples of the running collection that are saved.
    saved: u64,
    never_saved: u64,
    flushes: u64,
    last_flush: Option<(i64, Duration)>,
    /// How often sampling began at a lower rate than the configured one.
    pub(super) starts_lowered: u64,
    lowered: u64,
    raised: u64,
}

impl Figures {
    /// Something was saved.
    pub(super) fn flushed(&mut self, session: &Session, saved: &Saved) {
        self.running = session.collector.totals;
        self.saved = saved.totals.samples;
        self.flushes += 1;
        self.last_flush = Some((wall_now(), saved.took));
    }

    /// A collection ends, whose figures are added to those before.
    pub(super) fn restarted(&mut self, session: &Session) {
        let totals = session.collector.totals;
        self.before.samples += totals.samples;
        self.before.values += totals.values;
        self.before.lost += totals.lost;
        self.never_saved += self.unsaved(session);
        self.running = Totals::default();
        self.saved = 0;
    }

    /// A handler ends that had counted this.
    pub(super) fn end_handler(&mut self, handled: Option<Handled>) {
        self.handled = self.handled(handled);
    }

    /// What the handler took for so many samples, with what the running one has counted.
    fn handled(&self, running: Option<Handled>) -> (Duration, u64) {
        let (time, samples) = running.map_or((Duration::ZERO, 0), |of| (of.time, of.samples));
        (self.handled.0 + time, self.handled.1 + samples)
    }

    pub(super) fn changed(&mut self, change: Change) {
        match change {
            Change::Lower(_) => self.lowered += 1,
            Change::Raise(_) => self.raised += 1,
        }
    }

    /// Samples of this collection that are in no database.
    pub(super) fn unsaved(&self, session: &Session) -> u64 {
        session.collector.totals.samples.saturating_sub(self.saved)
    }

    /// Samples of the collection before that were never saved.
    pub(super) fn take_unsaved(&mut self) -> u64 {
        std::mem::take(&mut self.never_saved)
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        format!("{}, {}", self.collected(), count(self.flushes, "flush"))
    }

    /// What was collected, as of the last flush or the end of a collection.
    pub(super) fn collected(&self) -> String {
        output::collected(&Totals {
            samples: self.before.samples + self.running.samples,
            values: self.before.values + self.running.values,
            lost: self.before.lost + self.running.lost,
            ..Totals::default()
        })
    }
}

/// What the status is made of.
pub(super) struct Parts<'a> {
    pub(super) figures: &'a Figures,
    pub(super) sampling: Option<&'a Sampling>,
    pub(super) governor: Option<&'a Governor>,
    pub(super) epochs: &'a Epochs,
    pub(super) troubles: &'a Troubles,
    pub(super) losses: &'a Losses,
    /// Processor time that readers have cost.
    pub(super) readers: Duration,
    pub(super) session: Option<&'a Session>,
}

/// How the service is.
pub(super) fn of(parts: &Parts<'_>) -> Status {
    let figures = parts.figures;
    let running = parts
        .session
        .map_or(Totals::default(), |session| session.collector.totals);
    let tables = parts.session.map(|session| &session.collector.tables);
    let lost = tables.map_or(0, |tables| tables.lost().total());
    let files = parts.epochs.directory().list().ok();
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        samples: figures.before.samples + running.samples,
        value_events: figures.before.values + running.values,
        lost: figures.before.lost + running.lost + lost,
        lost_percent: parts.losses.share().map(percent),
        starts: figures.starts,
        sampling: parts
            .sampling
            .map(|sampling| of_sampling(sampling, parts.governor)),
        handler: of_handler(parts),
        overhead: of_overhead(parts),
        memory: of_memory(parts),
        database: of_database(parts, files.as_deref()),
        troubles: troubles(parts, files.as_deref()),
        age_seconds: None,
    }
}

fn of_sampling(sampling: &Sampling, governor: Option<&Governor>) -> form::Sampling {
    let choices = &sampling.choices;
    form::Sampling {
        engine: choices.engine_name().to_owned(),
        clock: choices.clock_name().to_owned(),
        unit: choices.unit().to_owned(),
        cpus: sampling.setup.cpus.len(),
        period: governor.map(Governor::mean),
        configured_period: choices.period,
        rate: governor.map(|of| rounded(choices.per_second(of.mean()))),
        why_rate: governor.map(|of| of.why().to_owned()),
        window: sampling.wanted.window,
        why_window: why_window(sampling.wanted.window).to_owned(),
    }
}

fn of_handler(parts: &Parts<'_>) -> form::Handler {
    let (time, samples) = parts
        .figures
        .handled(parts.sampling.and_then(Sampling::handled));
    form::Handler {
        ns: nanoseconds(time),
        samples,
        ns_per_sample: nanoseconds(time).checked_div(samples),
    }
}

fn of_overhead(parts: &Parts<'_>) -> form::Overhead {
    let (figures, governor) = (parts.figures, parts.governor);
    let each = governor.and_then(Governor::each);
    form::Overhead {
        percent: governor.and_then(Governor::share).map(percent),
        budget_percent: governor.map(|governor| percent(governor.budget())),
        interrupt_ns: governor.map(|governor| nanoseconds(governor.cost())),
        handler_ns: each.map(|each| nanoseconds(each.handler)),
        collector_ns: each.map(|each| nanoseconds(each.collector)),
        cpu_ns: nanoseconds(store::cpu_time()),
        readers_cpu_ns: nanoseconds(parts.readers),
        starts_lowered: figures.starts_lowered,
        lowered: figures.lowered,
        raised: figures.raised,
        short_of_room: governor.map(Governor::is_overrun),
    }
}

fn of_memory(parts: &Parts<'_>) -> form::HeldMemory {
    let session = parts.session;
    let memory = session.map(|session| session.collector.memory());
    let waiting = session
        .zip(parts.sampling)
        .map(|(session, sampling)| session.waiting_bytes(sampling.running.sent_bytes()));
    form::HeldMemory {
        tables_bytes: session.map(|session| session.collector.tables.bytes()),
        saving_bytes: session.map(|session| session.store.saving_bytes()),
        waiting_bytes: waiting,
        programs_bytes: memory.map(|memory| memory.programs),
        code_bytes: memory.map(|memory| memory.code),
        rows_bytes: memory.map(|memory| memory.rows),
        kernel_bytes: parts.sampling.map(|sampling| sampling.kernel_bytes),
        resident_bytes: procfs::resident_bytes(),
    }
}

fn of_database(parts: &Parts<'_>, files: Option<&[EpochFile]>) -> form::Database {
    let (epochs, figures) = (parts.epochs, parts.figures);
    form::Database {
        directory: epochs.directory().path().to_owned(),
        running: epochs.running().map(Path::to_owned),
        epoch: epochs.running_id(),
        files: files.map(<[EpochFile]>::len),
        bytes: files.map(|files| files.iter().map(|file| file.bytes).sum()),
        most_bytes: epochs.settings.retention().bytes,
        flushes: figures.flushes,
        flushed: figures.last_flush.map(|(at, _)| at),
        flush_ns: figures.last_flush.map(|(_, took)| nanoseconds(took)),
    }
}

fn troubles(parts: &Parts<'_>, files: Option<&[EpochFile]>) -> Vec<Trouble> {
    let of = |(what, why): (&str, &str)| {
        let why = match (what, parts.losses.share()) {
            (LOSSES, Some(share)) => {
                let (percent, seconds) = (percent(share), parts.losses.time().as_secs());
                format!("{why} (of the last {seconds} s {percent} %)")
            }
            _ => why.to_owned(),
        };
        Trouble {
            what: what.to_owned(),
            why,
        }
    };
    let mut all: Vec<Trouble> = parts.troubles.all().map(of).collect();
    let aside = files.unwrap_or_default().iter().filter_map(EpochFile::said);
    all.extend(aside.map(|error| Trouble {
        what: "an earlier epoch".to_owned(),
        why: error.to_string(),
    }));
    all
}

/// Why windows are as long as they are.
fn why_window(instructions: u32) -> &'static str {
    match instructions {
        ..WINDOW => "as configured; longer ones would bring more values for their cost",
        _ => "fewer samples with long windows bring more values than more with short ones",
    }
}

/// To a tenth.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// In percent, to a thousandth.
fn percent(share: f64) -> f64 {
    (share * 1e5).round() / 1e3
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
