//! How the service is: as JSON, which the other forms are made of, and as text for people.

use std::time::Duration;

use protocol::Answer;
use serde_json::{Value, json};

use super::epochs::Epochs;
use super::governor::{Change, Governor};
use super::journal::Troubles;
use super::losses::Losses;
use super::sampling::{Handled, Sampling};
use super::service::LOSSES;
use crate::pipeline::collector::Totals;
use crate::session::Session;
use crate::settings::args::WINDOW;
use crate::store::output::{self, count};
use crate::store::{self, Saved, wall_now};
use crate::system::procfs;

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

/// The status as JSON.
pub(super) fn of(parts: &Parts<'_>) -> Value {
    let figures = parts.figures;
    let running = parts
        .session
        .map_or(Totals::default(), |session| session.collector.totals);
    let (files, bytes) = match parts.epochs.directory().list() {
        Ok(list) => (
            Some(list.len()),
            Some(list.iter().map(|file| file.bytes).sum::<u64>()),
        ),
        Err(_) => (None, None),
    };
    let tables = parts.session.map(|session| &session.collector.tables);
    let memory = parts.session.map(|session| session.collector.memory());
    let waiting = parts
        .session
        .zip(parts.sampling)
        .map(|(session, sampling)| session.waiting_bytes(sampling.running.sent_bytes()));
    let (time, handled) = figures.handled(parts.sampling.and_then(Sampling::handled));
    let each = parts.governor.and_then(Governor::each);
    let troubles: Vec<_> = parts
        .troubles
        .all()
        .map(|(what, why)| match (what, parts.losses.share()) {
            (LOSSES, Some(share)) => {
                let (percent, seconds) = (percent(share), parts.losses.time().as_secs());
                let why = format!("{why} (of the last {seconds} s {percent} %)");
                json!({ "what": what, "why": why })
            }
            _ => json!({ "what": what, "why": why }),
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "samples": figures.before.samples + running.samples,
        "value_events": figures.before.values + running.values,
        "lost": figures.before.lost + running.lost + tables.map_or(0, |tables| tables.lost().total()),
        "lost_percent": parts.losses.share().map(percent),
        "starts": figures.starts,
        "sampling": parts.sampling.map(|sampling| json!({
            "engine": sampling.choices.engine_name(),
            "clock": sampling.choices.clock_name(),
            "unit": sampling.choices.unit(),
            "cpus": sampling.setup.cpus.len(),
            "period": parts.governor.map(Governor::mean),
            "configured_period": sampling.choices.period,
            "rate": parts.governor.map(|of| rounded(sampling.choices.per_second(of.mean()))),
            "why_rate": parts.governor.map(Governor::why),
            "window": sampling.wanted.window,
            "why_window": why_window(sampling.wanted.window),
        })),
        "handler": {
            "ns": nanoseconds(time),
            "samples": handled,
            "ns_per_sample": time.as_nanos().checked_div(u128::from(handled)),
        },
        "overhead": {
            "percent": parts.governor.and_then(Governor::share).map(percent),
            "budget_percent": parts.governor.map(|governor| percent(governor.budget())),
            "interrupt_ns": parts.governor.map(|governor| nanoseconds(governor.cost())),
            "handler_ns": each.map(|each| nanoseconds(each.handler)),
            "collector_ns": each.map(|each| nanoseconds(each.collector)),
            "cpu_ns": nanoseconds(store::cpu_time()),
            "readers_cpu_ns": nanoseconds(parts.readers),
            "starts_lowered": figures.starts_lowered,
            "lowered": figures.lowered,
            "raised": figures.raised,
            "short_of_room": parts.governor.map(Governor::is_overrun),
        },
        "memory": {
            "tables_bytes": tables.map(|tables| tables.bytes()),
            "saving_bytes": parts.session.map(|session| session.store.saving_bytes()),
            "waiting_bytes": waiting,
            "programs_bytes": memory.map(|memory| memory.programs),
            "code_bytes": memory.map(|memory| memory.code),
            "rows_bytes": memory.map(|memory| memory.rows),
            "kernel_bytes": parts.sampling.map(|sampling| sampling.kernel_bytes),
            "resident_bytes": procfs::resident_bytes(),
        },
        "database": {
            "directory": parts.epochs.directory().path(),
            "running": parts.epochs.running(),
            "epoch": parts.epochs.running_id(),
            "files": files,
            "bytes": bytes,
            "most_bytes": parts.epochs.settings.retention().bytes,
            "flushes": figures.flushes,
            "flushed": figures.last_flush.map(|(at, _)| at),
            "flush_ns": figures.last_flush.map(|(_, took)| nanoseconds(took)),
        },
        "troubles": troubles,
    })
}

/// The status in both forms, that of so long ago.
pub(super) fn answer(mut status: Value, age: Duration) -> Answer {
    status["age_seconds"] = json!(age.as_secs());
    Answer {
        text: text(&status),
        json: status.to_string(),
    }
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

/// In place of what profiling costs.
const NOT_MEASURED: &str = "not known yet: it is measured from about ten seconds after a start on, and \
    from five after a change of the rate";

/// The status for people: a line for each thing.
fn text(status: &Value) -> String {
    let word = |pointer: &str| match status.pointer(pointer) {
        None | Some(Value::Null) => "?".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let many = |pointer: &str, noun: &str| count(word(pointer), noun);
    let mebibytes = |pointer: &str| {
        let bytes = status.pointer(pointer).and_then(Value::as_u64);
        bytes.map_or("?".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
    };
    let seconds = |pointer: &str| {
        let time = status.pointer(pointer).and_then(Value::as_u64);
        time.map_or("?".to_owned(), |ns| format!("{:.2} s", ns as f64 / 1e9))
    };
    let mut lines = vec![
        format!("vcpid {}, pid {}", word("/version"), word("/pid")),
        match status.get("sampling") {
            Some(Value::Object(_)) => format!(
                "sampling  engine {}, clock {}, {}, a sample every {} {} (configured: {})\n\
                 rate      {} a second and CPU, {}\n\
                 windows   of {} at most: {}",
                word("/sampling/engine"),
                word("/sampling/clock"),
                many("/sampling/cpus", "CPU"),
                word("/sampling/period"),
                word("/sampling/unit"),
                word("/sampling/configured_period"),
                word("/sampling/rate"),
                word("/sampling/why_rate"),
                many("/sampling/window", "instruction"),
                word("/sampling/why_window"),
            ),
            _ => "sampling  none at present".to_owned(),
        },
        format!(
            "collected {}, {}, {} lost",
            many("/samples", "sample"),
            many("/value_events", "value"),
            word("/lost")
        ),
        format!(
            "overhead  {} (budget {} %), {} ns an interrupt{}; rate lowered at {} of {}, then lowered {}, raised {}",
            match status.pointer("/overhead/percent") {
                None | Some(Value::Null) => NOT_MEASURED.to_owned(),
                Some(percent) => format!("{percent} % of the machine"),
            },
            word("/overhead/budget_percent"),
            word("/overhead/interrupt_ns"),
            match status.pointer("/overhead/handler_ns") {
                None | Some(Value::Null) => String::new(),
                Some(handler) => format!(
                    ", besides {handler} in the handler and {} in the collector",
                    word("/overhead/collector_ns")
                ),
            },
            word("/overhead/starts_lowered"),
            many("/starts", "start"),
            many("/overhead/lowered", "time"),
            many("/overhead/raised", "time"),
        ),
        match status.pointer("/handler/ns_per_sample") {
            None | Some(Value::Null) => "handler   no samples".to_owned(),
            Some(each) => format!(
                "handler   {} in all for {}, {each} ns a sample",
                seconds("/handler/ns"),
                many("/handler/samples", "sample"),
            ),
        },
        format!(
            "readers   {} of processor time in all, which is no part of that",
            seconds("/overhead/readers_cpu_ns"),
        ),
        format!(
            "memory    {} resident: {} in tables, {} being saved, {} for programs, {} for code, {} for \
             rows, {} waiting; and {} in the kernel",
            mebibytes("/memory/resident_bytes"),
            mebibytes("/memory/tables_bytes"),
            mebibytes("/memory/saving_bytes"),
            mebibytes("/memory/programs_bytes"),
            mebibytes("/memory/code_bytes"),
            mebibytes("/memory/rows_bytes"),
            mebibytes("/memory/waiting_bytes"),
            mebibytes("/memory/kernel_bytes"),
        ),
        format!(
            "database  epoch {} in {}; {}, {} of {}; {}",
            word("/database/epoch"),
            word("/database/running"),
            many("/database/files", "file"),
            mebibytes("/database/bytes"),
            mebibytes("/database/most_bytes"),
            many("/database/flushes", "flush"),
        ),
    ];
    if let Some(age @ 1..) = status["age_seconds"].as_u64() {
        let line = format!(
            "of {age} s ago: since then it is kept waiting, by a slow disk or for want of processor time"
        );
        lines.push(line);
    }
    for trouble in status["troubles"].as_array().into_iter().flatten() {
        let part = |name: &str| trouble[name].as_str().unwrap_or_default().to_owned();
        lines.push(format!("trouble   {}: {}", part("what"), part("why")));
    }
    lines.join("\n")
}
