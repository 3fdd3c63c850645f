//! `status`: what was collected, and everything that was lost on the way.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::finish;
use crate::args::Format;
use crate::failure::Failure;
use crate::render::{Align, Table, clean, count, percent, rounded};
use crate::view::as_float;

type Counters = BTreeMap<String, u64>;

/// The report in JSON.
#[derive(Debug, Serialize)]
struct Status {
    samples: u64,
    windows: u64,
    value_events: u64,
    /// The other counters of the run, whatever they are.
    run: Counters,
    lost: Counters,
    stops: Counters,
    engine: String,
    clock: String,
    epochs: Vec<Value>,
    intervals: Map<String, Value>,
    throttled: u64,
    throttle: Counters,
    coverage: Map<String, Value>,
    overhead: Map<String, Value>,
    /// Counters of kinds that this program does not know.
    other: BTreeMap<String, Counters>,
}

/// The report; it takes the profile as it is, since counters belong to no PC.
pub(crate) fn report(profile: &profiledb::Profile, format: Format) -> Result<String, Failure> {
    if profile.epochs.is_empty() && profile.counters.is_empty() {
        return Err(Failure::Nothing("no epoch matches".to_owned()));
    }
    let mut kinds: BTreeMap<String, Counters> = BTreeMap::new();
    for ((kind, name), value) in &profile.counters {
        kinds
            .entry(kind.clone())
            .or_default()
            .insert(name.clone(), *value);
    }
    let mut take = |kind: &str| kinds.remove(kind).unwrap_or_default();
    let mut run = take("run");
    let interval = take("interval");
    let throttle = take("throttle");
    let status = Status {
        samples: run.remove("samples").unwrap_or(0),
        windows: run.remove("windows").unwrap_or(0),
        value_events: run.remove("value_events").unwrap_or(0),
        run,
        lost: take("lost"),
        stops: take("stop"),
        engine: joined(profile.epochs.iter().map(|epoch| epoch.engine.as_str())),
        clock: joined(profile.epochs.iter().map(|epoch| epoch.clock.as_str())),
        epochs: profile.epochs.iter().map(epoch).collect(),
        intervals: intervals(&interval, profile),
        throttled: throttle.get("throttled").copied().unwrap_or(0),
        throttle,
        coverage: coverage(&take("coverage")),
        overhead: overhead(&take("overhead")),
        other: kinds,
    };
    finish(&status, format, text)
}

/// Each different word once.
fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen.join(",")
}

fn epoch(epoch: &profiledb::rows::Epoch) -> Value {
    let seconds = epoch.ended.and_then(|ended| {
        let nanoseconds = u64::try_from(ended.checked_sub(epoch.started)?).ok()?;
        Some(rounded(as_float(nanoseconds) / 1e9, 3))
    });
    json!({
        "started": timestamp(epoch.started),
        "ended": epoch.ended.map(timestamp),
        "seconds": seconds,
        "host": epoch.host,
        "kernel": epoch.kernel,
        "command": epoch.command,
        "engine": epoch.engine,
        "clock": epoch.clock,
        "unit": epoch.unit,
        "period": epoch.period,
        "window": epoch.window,
    })
}

fn timestamp(nanoseconds: i64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)) {
        Ok(time) => format!("{time:.0}"),
        Err(_) => nanoseconds.to_string(),
    }
}

fn shown(counters: &Counters) -> Map<String, Value> {
    counters
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect()
}

fn intervals(counters: &Counters, profile: &profiledb::Profile) -> Map<String, Value> {
    let mut map = shown(counters);
    let get = |name| as_float(counters.get(name).copied().unwrap_or(0));
    let mean = (get("count") > 0.0).then(|| rounded(get("sum") / get("count"), 1));
    map.insert("mean".to_owned(), json!(mean));
    map.insert(
        "distinct".to_owned(),
        json!(counters.get("distinct").copied().unwrap_or(0)),
    );
    map.insert(
        "unit".to_owned(),
        json!(joined(
            profile.epochs.iter().map(|epoch| epoch.unit.as_str())
        )),
    );
    map
}

/// Counters that are parts of others.
const SHARES: [(&str, &str); 3] = [
    ("destinations_known", "destinations_reached"),
    ("loads_captured", "loads_reached"),
    ("user_samples_with_caller", "user_samples"),
];

/// Shares of what windows reached, and the counters that they are made of.
fn coverage(counters: &Counters) -> Map<String, Value> {
    let mut map = Map::new();
    for (part, whole) in SHARES {
        let part_count = counters.get(part).copied();
        let whole_count = counters.get(whole).copied().filter(|count| *count > 0);
        // Of nothing reached, no share is known.
        let share = part_count
            .zip(whole_count)
            .map(|(part, whole)| rounded(as_float(part) / as_float(whole), 4));
        map.insert(part.to_owned(), json!(share));
    }
    map.insert("counts".to_owned(), Value::Object(shown(counters)));
    map
}

fn overhead(counters: &Counters) -> Map<String, Value> {
    let mut map = shown(counters);
    let get = |name| as_float(counters.get(name).copied().unwrap_or(0));
    let machine = get("machine_cpu_ns");
    let capacity = if machine > 0.0 {
        machine
    } else {
        get("wall_ns") * get("cpus").max(1.0)
    };
    let share = (capacity > 0.0).then(|| rounded(percent(get("collector_cpu_ns"), capacity), 3));
    map.insert("cpu_percent".to_owned(), json!(share));
    // The service knows what its interrupts cost, too.
    let interrupts = counters.get("interrupts_ns").map(|&ns| as_float(ns));
    let both = interrupts
        .filter(|_| capacity > 0.0)
        .map(|interrupts| rounded(percent(get("collector_cpu_ns") + interrupts, capacity), 3));
    if let Some(both) = both {
        map.insert("cpu_percent_with_interrupts".to_owned(), json!(both));
    }
    map
}

fn text(status: &Status, out: &mut String) {
    for epoch in &status.epochs {
        let get = |name: &str| match epoch.get(name) {
            Some(Value::String(text)) => clean(text),
            Some(Value::Null) | None => "not closed (running, or the collector died)".to_owned(),
            Some(other) => other.to_string(),
        };
        out.push_str(&format!(
            "{}\n  from {} to {}, on {} ({})\n  engine {}, clock {}, one sample per {} {}, windows of {} instructions\n\n",
            match get("command") {
                command if command.is_empty() => "(the service's own)".to_owned(),
                command => command,
            },
            get("started"),
            get("ended"),
            get("host"),
            get("kernel"),
            get("engine"),
            get("clock"),
            get("period"),
            get("unit"),
            get("window"),
        ));
    }
    let mut table = Table::new(&[
        ("counter", Align::Left),
        ("count", Align::Right),
        ("", Align::Left),
    ]);
    let plain = |table: &mut Table, name: &str, value: u64| {
        table.row(vec![format!("  {name}"), count(value), String::new()]);
    };
    table.line("collected");
    plain(&mut table, "samples", status.samples);
    plain(&mut table, "windows", status.windows);
    plain(&mut table, "value_events", status.value_events);
    for (name, value) in &status.run {
        plain(&mut table, name, *value);
    }
    section(&mut table, "lost", &status.lost, None);
    section(
        &mut table,
        "why windows ended",
        &status.stops,
        Some(status.stops.values().copied().fold(0, u64::saturating_add)),
    );
    table.line("coverage");
    coverage_rows(&mut table, &status.coverage);
    table.line("intervals between samples");
    values(&mut table, &status.intervals);
    section(
        &mut table,
        "throttling by the kernel",
        &status.throttle,
        None,
    );
    table.line("overhead of the collector");
    values(&mut table, &status.overhead);
    for (kind, counters) in &status.other {
        section(&mut table, kind, counters, None);
    }
    table.print(out);
}

fn coverage_rows(table: &mut Table, coverage: &Map<String, Value>) {
    let Some(Value::Object(counts)) = coverage.get("counts") else {
        return;
    };
    for (name, value) in counts {
        let whole = SHARES
            .iter()
            .find(|(part, _)| part == name)
            .map(|(_, whole)| *whole);
        let share = coverage.get(name).and_then(Value::as_f64).zip(whole);
        let share = share.map(|(share, whole)| format!("{:.1}% of {whole}", share * 100.0));
        let number = value.as_u64().map_or_else(|| value.to_string(), count);
        table.row(vec![format!("  {name}"), number, share.unwrap_or_default()]);
    }
    if counts.is_empty() {
        table.row(vec![
            "  none counted".to_owned(),
            String::new(),
            String::new(),
        ]);
    }
}

fn section(table: &mut Table, title: &str, counters: &Counters, whole: Option<u64>) {
    table.line(title);
    if counters.is_empty() {
        table.row(vec![
            "  none counted".to_owned(),
            String::new(),
            String::new(),
        ]);
    }
    let mut ordered: Vec<(&String, &u64)> = counters.iter().collect();
    if whole.is_some() {
        ordered.sort_by_key(|(_, value)| std::cmp::Reverse(**value));
    }
    for (name, value) in ordered {
        let share =
            whole.map(|whole| format!("{:.1}%", percent(as_float(*value), as_float(whole))));
        table.row(vec![
            format!("  {name}"),
            count(*value),
            share.unwrap_or_default(),
        ]);
    }
}

fn values(table: &mut Table, values: &Map<String, Value>) {
    for (name, value) in values {
        let cell = match value {
            Value::Null => "not known".to_owned(),
            Value::String(text) => text.clone(),
            other => match other.as_u64() {
                Some(nanoseconds) if name.ends_with("_ns") => {
                    format!("{:.3} s", as_float(nanoseconds) / 1e9)
                }
                Some(number) => count(number),
                None => other.to_string(),
            },
        };
        table.row(vec![format!("  {name}"), cell, String::new()]);
    }
}
