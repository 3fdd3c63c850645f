//! The service's status in Prometheus's text format (version 0.0.4).

use std::fmt::Write as _;

use serde_json::Value;

/// A figure of the status: where it is in the JSON, its name, whether it only grows, by what it is
/// divided to be in base units, and what it is.
struct Metric(&'static str, &'static str, Kind, f64, &'static str);

/// What Prometheus may do with it.
enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

/// All figures.
const METRICS: [Metric; 31] = [
    Metric("/samples", "samples_total", Counter, 1.0, "Samples taken."),
    Metric(
        "/value_events",
        "value_events_total",
        Counter,
        1.0,
        "Values recorded.",
    ),
    Metric(
        "/lost",
        "lost_total",
        Counter,
        1.0,
        "Everything that was lost; vcpi status tells it apart.",
    ),
    Metric(
        "/lost_percent",
        "lost_ratio",
        Gauge,
        100.0,
        "Share of the last minute's samples that was lost, or lost its values, by the cause that took most.",
    ),
    Metric(
        "/starts",
        "sampling_starts_total",
        Counter,
        1.0,
        "How often sampling was begun.",
    ),
    Metric(
        "/sampling/cpus",
        "cpus",
        Gauge,
        1.0,
        "CPUs that are sampled.",
    ),
    Metric(
        "/sampling/period",
        "period",
        Gauge,
        1.0,
        "Mean interval between samples, in the clock's unit.",
    ),
    Metric(
        "/sampling/rate",
        "rate",
        Gauge,
        1.0,
        "Samples per second and CPU that are to be taken.",
    ),
    Metric(
        "/sampling/window",
        "window_instructions",
        Gauge,
        1.0,
        "Instructions of a window at most.",
    ),
    Metric(
        "/handler/ns",
        "handler_seconds_total",
        Counter,
        1e9,
        "Time in the handler of the interrupt, for its samples.",
    ),
    Metric(
        "/handler/samples",
        "handler_samples_total",
        Counter,
        1.0,
        "Samples that the handler made, whatever became of them.",
    ),
    Metric(
        "/overhead/percent",
        "overhead_ratio",
        Gauge,
        100.0,
        "Share of all CPU time that profiling takes.",
    ),
    Metric(
        "/overhead/budget_percent",
        "overhead_budget_ratio",
        Gauge,
        100.0,
        "Share of all CPU time that it may take.",
    ),
    Metric(
        "/overhead/cpu_ns",
        "cpu_seconds_total",
        Counter,
        1e9,
        "Processor time of the service.",
    ),
    Metric(
        "/overhead/readers_cpu_ns",
        "readers_cpu_seconds_total",
        Counter,
        1e9,
        "Of that what readers asked for, which is no part of the overhead.",
    ),
    Metric(
        "/overhead/starts_lowered",
        "sampling_starts_lowered_total",
        Counter,
        1.0,
        "How often it began at a lower rate than configured.",
    ),
    Metric(
        "/overhead/lowered",
        "rate_lowered_total",
        Counter,
        1.0,
        "How often the rate was lowered since.",
    ),
    Metric(
        "/overhead/raised",
        "rate_raised_total",
        Counter,
        1.0,
        "How often the rate was raised.",
    ),
    Metric(
        "/memory/tables_bytes",
        "tables_bytes",
        Gauge,
        1.0,
        "Memory of what was collected since the last flush.",
    ),
    Metric(
        "/memory/saving_bytes",
        "saving_bytes",
        Gauge,
        1.0,
        "Memory of what is being written, or could not be.",
    ),
    Metric(
        "/memory/programs_bytes",
        "programs_bytes",
        Gauge,
        1.0,
        "Memory for programs: their files with unwind rules, and where they are mapped.",
    ),
    Metric(
        "/memory/code_bytes",
        "code_bytes",
        Gauge,
        1.0,
        "Memory for code: pages of files, decoded instructions, basic blocks.",
    ),
    Metric(
        "/memory/rows_bytes",
        "rows_bytes",
        Gauge,
        1.0,
        "Memory for what is noted of the unwind rows that the handler was given.",
    ),
    Metric(
        "/memory/waiting_bytes",
        "waiting_bytes",
        Gauge,
        1.0,
        "Memory of samples that wait for others.",
    ),
    Metric(
        "/memory/kernel_bytes",
        "kernel_bytes",
        Gauge,
        1.0,
        "Memory of the kernel for the handler's maps, which is not resident.",
    ),
    Metric(
        "/memory/resident_bytes",
        "resident_memory_bytes",
        Gauge,
        1.0,
        "Resident memory of the service.",
    ),
    Metric(
        "/age_seconds",
        "status_age_seconds",
        Gauge,
        1.0,
        "How old these figures are: it is kept waiting since.",
    ),
    Metric(
        "/database/bytes",
        "database_bytes",
        Gauge,
        1.0,
        "Size of all databases.",
    ),
    Metric(
        "/database/files",
        "database_files",
        Gauge,
        1.0,
        "Databases.",
    ),
    Metric(
        "/database/flushes",
        "flushes_total",
        Counter,
        1.0,
        "Flushes.",
    ),
    Metric(
        "/database/flushed",
        "last_flush_timestamp_seconds",
        Gauge,
        1e9,
        "When the last flush was.",
    ),
];

/// The figures of this status that are known.
pub(super) fn text(status: &Value) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &Kind, help: &str, value: f64| {
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
    let sampling = status.get("sampling").is_some_and(Value::is_object);
    metric(
        "up",
        &Gauge,
        "Whether it samples.",
        f64::from(u8::from(sampling)),
    );
    let troubles = status["troubles"].as_array().map_or(0, Vec::len);
    metric(
        "troubles",
        &Gauge,
        "Things that do not work at present.",
        troubles as f64,
    );
    for Metric(pointer, name, kind, divisor, help) in &METRICS {
        if let Some(value) = status.pointer(pointer).and_then(Value::as_f64) {
            metric(name, kind, help, value / divisor);
        }
    }
    text += &each_trouble(status);
    text
}

/// Each trouble by its name, which holds no quotes; nothing where there is none.
fn each_trouble(status: &Value) -> String {
    let troubles = status["troubles"].as_array().into_iter().flatten();
    let names = troubles.filter_map(|trouble| trouble["what"].as_str());
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
