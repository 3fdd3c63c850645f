//! What the status says: the fields of its JSON, and the text made of them.

use std::path::PathBuf;
use std::time::Duration;

use protocol::Answer;
use serde::{Deserialize, Serialize};

use crate::output::count;

/// How the service is. `None`: not known, or not at present. What a service of another version does
/// not say has its default here, and what it says besides is left out.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) samples: u64,
    pub(crate) value_events: u64,
    /// Everything that was lost.
    pub(crate) lost: u64,
    /// Of the last minute's samples those that were lost, or lost their values.
    pub(crate) lost_percent: Option<f64>,
    /// How often sampling was begun.
    pub(crate) starts: u64,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) handler: Handler,
    pub(crate) overhead: Overhead,
    pub(crate) memory: HeldMemory,
    pub(crate) database: Database,
    pub(crate) troubles: Vec<Trouble>,
    /// How old all this is; absent until it is told to somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) age_seconds: Option<u64>,
}

/// What is sampled, and how.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Sampling {
    pub(crate) engine: String,
    pub(crate) clock: String,
    /// Of intervals: `cycles` or `ns`.
    pub(crate) unit: String,
    pub(crate) cpus: usize,
    /// Mean interval between samples at present, in the clock's unit.
    pub(crate) period: Option<u64>,
    pub(crate) configured_period: u64,
    /// Samples a second and CPU.
    pub(crate) rate: Option<f64>,
    pub(crate) why_rate: Option<String>,
    /// Instructions of a window at most.
    pub(crate) window: u32,
    pub(crate) why_window: String,
}

/// Time in the handlers of interrupts, for so many samples.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Handler {
    pub(crate) ns: u64,
    pub(crate) samples: u64,
    pub(crate) ns_per_sample: Option<u64>,
}

/// What profiling takes of the machine's processor time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Overhead {
    pub(crate) percent: Option<f64>,
    pub(crate) budget_percent: Option<f64>,
    /// Of the interrupted program, by an interrupt without its handler.
    pub(crate) interrupt_ns: Option<u64>,
    pub(crate) handler_ns: Option<u64>,
    pub(crate) collector_ns: Option<u64>,
    pub(crate) cpu_ns: u64,
    pub(crate) readers_cpu_ns: u64,
    /// How often sampling began at a lower rate than configured.
    pub(crate) starts_lowered: u64,
    pub(crate) lowered: u64,
    pub(crate) raised: u64,
    /// Whether samples found no room of late.
    pub(crate) short_of_room: Option<bool>,
}

/// Who holds how many bytes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct HeldMemory {
    pub(crate) tables_bytes: Option<usize>,
    pub(crate) saving_bytes: Option<usize>,
    pub(crate) waiting_bytes: Option<u64>,
    pub(crate) programs_bytes: Option<usize>,
    pub(crate) code_bytes: Option<usize>,
    pub(crate) rows_bytes: Option<usize>,
    pub(crate) kernel_bytes: Option<u64>,
    pub(crate) resident_bytes: Option<u64>,
}

/// Where it writes to.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Database {
    pub(crate) directory: PathBuf,
    pub(crate) running: Option<PathBuf>,
    /// The running epoch's id.
    pub(crate) epoch: Option<u64>,
    pub(crate) files: Option<usize>,
    pub(crate) bytes: Option<u64>,
    pub(crate) most_bytes: u64,
    pub(crate) flushes: u64,
    /// When the last flush was: nanoseconds since 1970.
    pub(crate) flushed: Option<i64>,
    pub(crate) flush_ns: Option<u64>,
}

/// Something that does not work at present.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Trouble {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl Status {
    /// In both forms, said so long after it was so.
    pub(in crate::serve) fn answer(mut self, age: Duration) -> Answer {
        self.age_seconds = Some(age.as_secs());
        // By way of a value, whose keys are in order.
        let json = serde_json::to_value(&self).unwrap_or_default();
        Answer {
            text: self.text(),
            json: json.to_string(),
        }
    }
}

/// In place of what profiling costs.
const NOT_MEASURED: &str = "not known yet: it is measured from about ten seconds after a start on, and \
    from five after a change of the rate";

/// What is not known is a question mark.
fn word(what: Option<impl std::fmt::Display>) -> String {
    what.map_or_else(|| "?".to_owned(), |what| what.to_string())
}

/// As JSON has it: with a digit behind the point.
fn number(what: Option<f64>) -> String {
    what.map_or_else(|| "?".to_owned(), |what| format!("{what:?}"))
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "?".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

fn of_memory(bytes: Option<usize>) -> String {
    mebibytes(bytes.map(|bytes| bytes as u64))
}

fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

impl Status {
    /// For people: a line for each thing.
    fn text(&self) -> String {
        let mut lines = vec![
            format!("vcpid {}, pid {}", self.version, self.pid),
            match &self.sampling {
                Some(sampling) => format!(
                    "sampling  engine {}, clock {}, {}, a sample every {} {} (configured: {})\n\
                 rate      {} a second and CPU, {}\n\
                 windows   of {} at most: {}",
                    sampling.engine,
                    sampling.clock,
                    count(sampling.cpus, "CPU"),
                    word(sampling.period),
                    sampling.unit,
                    sampling.configured_period,
                    number(sampling.rate),
                    word(sampling.why_rate.as_deref()),
                    count(sampling.window, "instruction"),
                    sampling.why_window,
                ),
                None => "sampling  none at present".to_owned(),
            },
            format!(
                "collected {}, {}, {} lost",
                count(self.samples, "sample"),
                count(self.value_events, "value"),
                self.lost
            ),
            format!(
                "overhead  {} (budget {} %), {} ns an interrupt{}; rate lowered at {} of {}, then lowered {}, raised {}",
                match self.overhead.percent {
                    None => NOT_MEASURED.to_owned(),
                    Some(percent) => format!("{percent:?} % of the machine"),
                },
                number(self.overhead.budget_percent),
                word(self.overhead.interrupt_ns),
                match self.overhead.handler_ns {
                    None => String::new(),
                    Some(handler) => format!(
                        ", besides {handler} in the handler and {} in the collector",
                        word(self.overhead.collector_ns)
                    ),
                },
                self.overhead.starts_lowered,
                count(self.starts, "start"),
                count(self.overhead.lowered, "time"),
                count(self.overhead.raised, "time"),
            ),
            match self.handler.ns_per_sample {
                None => "handler   no samples".to_owned(),
                Some(each) => format!(
                    "handler   {} in all for {}, {each} ns a sample",
                    seconds(self.handler.ns),
                    count(self.handler.samples, "sample"),
                ),
            },
            format!(
                "readers   {} of processor time in all, which is no part of that",
                seconds(self.overhead.readers_cpu_ns),
            ),
            format!(
                "memory    {} resident: {} in tables, {} being saved, {} for programs, {} for code, {} for \
             rows, {} waiting; and {} in the kernel",
                mebibytes(self.memory.resident_bytes),
                of_memory(self.memory.tables_bytes),
                of_memory(self.memory.saving_bytes),
                of_memory(self.memory.programs_bytes),
                of_memory(self.memory.code_bytes),
                of_memory(self.memory.rows_bytes),
                mebibytes(self.memory.waiting_bytes),
                mebibytes(self.memory.kernel_bytes),
            ),
            format!(
                "database  epoch {} in {}; {}, {} of {}; {}",
                word(self.database.epoch),
                word(self.database.running.as_ref().map(|path| path.display())),
                count(word(self.database.files), "file"),
                mebibytes(self.database.bytes),
                mebibytes(Some(self.database.most_bytes)),
                count(self.database.flushes, "flush"),
            ),
        ];
        if let Some(age @ 1..) = self.age_seconds {
            let line = format!(
                "of {age} s ago: since then it is kept waiting, by a slow disk or for want of processor time"
            );
            lines.push(line);
        }
        for Trouble { what, why } in &self.troubles {
            lines.push(format!("trouble   {what}: {why}"));
        }
        lines.join("\n")
    }
}
