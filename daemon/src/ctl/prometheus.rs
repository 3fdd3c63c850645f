//! The service's status in Prometheus's text format (version 0.0.4).

use std::fmt::Write as _;

use crate::serve::Status;

/// A figure of the status: its name, whether it only grows, what it is in base units, if that is
/// known, and what it says.
struct Metric(
    &'static str,
    MetricKind,
    fn(&Status) -> Option<f64>,
    &'static str,
);

/// What Prometheus may do with it.
enum MetricKind {
    Counter,
    Gauge,
}

use MetricKind::{Counter, Gauge};

/// A number that may not be known.
trait Figure {
    fn figure(self) -> Option<f64>;
}

macro_rules! figures {
    ($($number:ty)*) => {
        $(impl Figure for $number {
            fn figure(self) -> Option<f64> {
                Some(self as f64)
            }
        })*
    };
}

figures! { u32 u64 i64 usize f64 }

impl<N: Figure> Figure for Option<N> {
    fn figure(self) -> Option<f64> {
        self.and_then(N::figure)
    }
}

/// All figures.
const METRICS: [Metric; 31] = [
    Metric(
        "samples_total",
        Counter,
        |status| status.samples.figure(),
        "Samples taken.",
    ),
    Metric(
        "value_events_total",
        Counter,
        |status| status.value_events.figure(),
        "Values recorded.",
    ),
    Metric(
        "lost_total",
        Counter,
        |status| status.lost.figure(),
        "Everything that was lost; vcpi status tells it apart.",
    ),
    Metric(
        "lost_ratio",
        Gauge,
        |status| status.lost_percent.figure().map(|figure| figure / 100.0),
        "Share of the last minute's samples that was lost, or lost its values, by the cause that took most.",
    ),
    Metric(
        "sampling_starts_total",
        Counter,
        |status| status.starts.figure(),
        "How often sampling was begun.",
    ),
    Metric(
        "cpus",
        Gauge,
        |status| status.sampling.as_ref().and_then(|of| of.cpus.figure()),
        "CPUs that are sampled.",
    ),
    Metric(
        "period",
        Gauge,
        |status| status.sampling.as_ref().and_then(|of| of.period.figure()),
        "Mean interval between samples, in the clock's unit.",
    ),
    Metric(
        "rate",
        Gauge,
        |status| status.sampling.as_ref().and_then(|of| of.rate.figure()),
        "Samples per second and CPU that are to be taken.",
    ),
    Metric(
        "window_instructions",
        Gauge,
        |status| status.sampling.as_ref().and_then(|of| of.window.figure()),
        "Instructions of a window at most.",
    ),
    Metric(
        "handler_seconds_total",
        Counter,
        |status| status.handler.ns.figure().map(|figure| figure / 1e9),
        "Time in the handler of the interrupt, for its samples.",
    ),
    Metric(
        "handler_samples_total",
        Counter,
        |status| status.handler.samples.figure(),
        "Samples that the handler made, whatever became of them.",
    ),
    Metric(
        "overhead_ratio",
        Gauge,
        |status| {
            status
                .overhead
                .percent
                .figure()
                .map(|figure| figure / 100.0)
        },
        "Share of all CPU time that profiling takes.",
    ),
    Metric(
        "overhead_budget_ratio",
        Gauge,
        |status| {
            status
                .overhead
                .budget_percent
                .figure()
                .map(|figure| figure / 100.0)
        },
        "Share of all CPU time that it may take.",
    ),
    Metric(
        "cpu_seconds_total",
        Counter,
        |status| status.overhead.cpu_ns.figure().map(|figure| figure / 1e9),
        "Processor time of the service.",
    ),
    Metric(
        "readers_cpu_seconds_total",
        Counter,
        |status| {
            status
                .overhead
                .readers_cpu_ns
                .figure()
                .map(|figure| figure / 1e9)
        },
        "Of that what readers asked for, which is no part of the overhead.",
    ),
    Metric(
        "sampling_starts_lowered_total",
        Counter,
        |status| status.overhead.starts_lowered.figure(),
        "How often it began at a lower rate than configured.",
    ),
    Metric(
        "rate_lowered_total",
        Counter,
        |status| status.overhead.lowered.figure(),
        "How often the rate was lowered since.",
    ),
    Metric(
        "rate_raised_total",
        Counter,
        |status| status.overhead.raised.figure(),
        "How often the rate was raised.",
    ),
    Metric(
        "tables_bytes",
        Gauge,
        |status| status.memory.tables_bytes.figure(),
        "Memory of what was collected since the last flush.",
    ),
    Metric(
        "saving_bytes",
        Gauge,
        |status| status.memory.saving_bytes.figure(),
        "Memory of what is being written, or could not be.",
    ),
    Metric(
        "programs_bytes",
        Gauge,
        |status| status.memory.programs_bytes.figure(),
        "Memory for programs: their files with unwind rules, and where they are mapped.",
    ),
    Metric(
        "code_bytes",
        Gauge,
        |status| status.memory.code_bytes.figure(),
        "Memory for code: pages of files, decoded instructions, basic blocks.",
    ),
    Metric(
        "rows_bytes",
        Gauge,
        |status| status.memory.rows_bytes.figure(),
        "Memory for what is noted of the unwind rows that the handler was given.",
    ),
    Metric(
        "waiting_bytes",
        Gauge,
        |status| status.memory.waiting_bytes.figure(),
        "Memory of samples that wait for others.",
    ),
    Metric(
        "kernel_bytes",
        Gauge,
        |status| status.memory.kernel_bytes.figure(),
        "Memory of the kernel for the handler's maps, which is not resident.",
    ),
    Metric(
        "resident_memory_bytes",
        Gauge,
        |status| status.memory.resident_bytes.figure(),
        "Resident memory of the service.",
    ),
    Metric(
        "status_age_seconds",
        Gauge,
        |status| status.age_seconds.figure(),
        "How old these figures are: it is kept waiting since.",
    ),
    Metric(
        "database_bytes",
        Gauge,
        |status| status.database.bytes.figure(),
        "Size of all databases.",
    ),
    Metric(
        "database_files",
        Gauge,
        |status| status.database.files.figure(),
        "Databases.",
    ),
    Metric(
        "flushes_total",
        Counter,
        |status| status.database.flushes.figure(),
        "Flushes.",
    ),
    Metric(
        "last_flush_timestamp_seconds",
        Gauge,
        |status| status.database.flushed.figure().map(|figure| figure / 1e9),
        "When the last flush was.",
    ),
];

/// The figures of this status that are known.
pub(super) fn text(status: &Status) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &MetricKind, help: &str, value: f64| {
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP vcpid_{name} {help}\n# TYPE vcpid_{name} {kind}\nvcpid_{name} {value}\n"
        );
    };
    metric(
        "up",
        &Gauge,
        "Whether it samples.",
        f64::from(u8::from(status.sampling.is_some())),
    );
    metric(
        "troubles",
        &Gauge,
        "Things that do not work at present.",
        status.troubles.len() as f64,
    );
    for Metric(name, kind, figure, help) in &METRICS {
        if let Some(value) = figure(status) {
            metric(name, kind, help, value);
        }
    }
    text += &each_trouble(status);
    text
}

/// Each trouble by its name, which holds no quotes; nothing where there is none.
fn each_trouble(status: &Status) -> String {
    let names = status.troubles.iter().map(|trouble| &trouble.what);
    let lines: String = names
        .map(|name| format!("vcpid_trouble{{what=\"{name}\"}} 1\n"))
        .collect();
    match lines.is_empty() {
        true => lines,
        false => format!(
            "# HELP vcpid_trouble What does not work at present.\n# TYPE vcpid_trouble gauge\n{lines}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures are in base units, each with its help and type; what is not known is left out.
    #[test]
    fn figures() {
        let status = serde_json::json!({
            "samples": 12,
            "sampling": {"cpus": 2, "period": null},
            "overhead": {"percent": 0.5, "cpu_ns": 1_500_000_000_u64},
            "lost_percent": 12.5,
            "troubles": [{"what": "this and that", "why": "because"}],
        });
        let status: Status = serde_json::from_value(status).expect("a status");
        let text = text(&status);
        for line in [
            "# TYPE vcpid_samples_total counter",
            "vcpid_samples_total 12",
            "vcpid_up 1",
            "vcpid_troubles 1",
            "vcpid_trouble{what=\"this and that\"} 1",
            "vcpid_lost_ratio 0.125",
            "vcpid_cpus 2",
            "vcpid_overhead_ratio 0.005",
            "vcpid_cpu_seconds_total 1.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("vcpid_period"));
    }
}
