//! `status`: what was collected, and everything that was lost on the way.

mod text;

use std::collections::BTreeMap;

use profiledb::Profile;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::epochs::{self, Shown};
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::page::Page;
use crate::query::{Account, Answer};
use crate::render::{clean, counted, percent, rounded, whole};
use crate::time;
use crate::view::as_float;
use text::table;

type Counters = BTreeMap<String, u64>;

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: how much was seen, and what was lost?
  vcpi status

  epoch  from                       to                         samples  command
      1  2026-11-26 10:56:06+00:00  2026-11-26 10:56:42+00:00     6326  sh -c for i in 1 2 3
  counter                                   count
  collected
    samples                                  6326
    windows                                  5445
    value_events                        1,361,930
  lost
    malformed_records                           0
    names_of_images                             0

  Each loss that happened says what it means, and what to do.";

/// What was collected, and everything that was lost.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Status {}

/// The answer; `null` in JSON is what the reader may not know, or nobody does.
#[derive(Debug, Serialize)]
struct Collected<'p> {
    #[serde(flatten)]
    all: Figures,
    engine: String,
    clock: String,
    epochs: Vec<Value>,
    last_flush: Option<LastFlush>,
    #[serde(skip)]
    shown: Vec<Shown<'p>>,
}

/// What counters say.
#[derive(Debug, Serialize)]
struct Figures {
    samples: u64,
    windows: Option<u64>,
    value_events: Option<u64>,
    /// The other counters of the run, whatever they are.
    run: Option<Counters>,
    lost: Option<Counters>,
    stops: Option<Counters>,
    intervals: Map<String, Value>,
    throttled: Option<u64>,
    throttle: Option<Counters>,
    coverage: Map<String, Value>,
    overhead: Map<String, Value>,
    /// Counters of kinds that this program does not know.
    other: Option<BTreeMap<String, Counters>>,
}

/// How it was at last: in a service a minute, unless configured otherwise.
#[derive(Debug, Serialize)]
struct LastFlush {
    started: String,
    ended: String,
    seconds: f64,
    #[serde(flatten)]
    figures: Figures,
}

impl Account for Status {
    fn answer<'p>(&self, profile: &'p Profile, served: bool) -> Answer<'p> {
        if profile.epochs.is_empty() && profile.counters.is_empty() {
            return Err(Failure::Nothing("no epoch matches".to_owned()));
        }
        Ok(Box::new(collected(profile, epochs::of(profile, served))))
    }
}

impl Model for Collected<'_> {
    fn page(&self, _names: Names) -> Page {
        let mut page = Page::default();
        page.table(epochs::table(&self.shown));
        page.gap();
        let mut lines = settings(&self.shown);
        lines.extend(mean_interval("on average", &self.all.intervals));
        if let Some(last) = &self.last_flush {
            let when = format!("in the last flush, of {:.0} s,", last.seconds);
            lines.extend(mean_interval(&when, &last.figures.intervals));
        }
        page.text(lines.join("\n"));
        page.gap();
        page.table(table(self));
        page
    }
}

fn collected<'p>(profile: &'p Profile, epochs: Vec<Shown<'p>>) -> Collected<'p> {
    let withheld = epochs::are_withheld(profile);
    // Of a single flush there is nothing to say twice.
    let latest = profile.latest.as_ref();
    let latest = latest.filter(|latest| !withheld && latest.counters != profile.counters);
    Collected {
        all: Figures::of(&profile.counters, profile, withheld),
        engine: joined(profile.epochs.iter().map(|epoch| epoch.engine.as_str())),
        clock: joined(profile.epochs.iter().map(|epoch| epoch.clock.as_str())),
        epochs: epochs.iter().map(Shown::json).collect(),
        last_flush: latest.map(|latest| LastFlush {
            started: time::utc(latest.started),
            ended: time::utc(latest.ended),
            seconds: rounded(as_float(latest.ended.abs_diff(latest.started)) / 1e9, 3),
            figures: Figures::of(&latest.counters, profile, withheld),
        }),
        shown: epochs,
    }
}

impl Figures {
    fn of(
        counters: &BTreeMap<(String, String), u64>,
        profile: &Profile,
        withheld: bool,
    ) -> Figures {
        let mut kinds: BTreeMap<String, Counters> = BTreeMap::new();
        for ((kind, name), value) in counters {
            let of_kind = kinds.entry(kind.clone()).or_default();
            of_kind.insert(name.clone(), *value);
        }
        if let Some(handler) = kinds.get_mut("handler") {
            each_sample(handler);
        }
        // What was never counted is 0; what is withheld is not.
        let known = |counters| Some(counters).filter(|_| !withheld);
        let count = |value: Option<u64>| Some(value.unwrap_or(0)).filter(|_| !withheld);
        let mut take = |kind: &str| kinds.remove(kind).unwrap_or_default();
        let mut run = take("run");
        let interval = take("interval");
        let throttle = take("throttle");
        Figures {
            samples: run.remove("samples").unwrap_or(0),
            windows: count(run.remove("windows")),
            value_events: count(run.remove("value_events")),
            run: known(run),
            lost: known(take("lost")),
            stops: known(take("stop")),
            intervals: intervals(&interval, profile, count(interval.get("distinct").copied())),
            throttled: count(throttle.get("throttled").copied()),
            throttle: known(throttle),
            coverage: coverage(known(take("coverage"))),
            overhead: overhead(&take("overhead")),
            other: Some(kinds).filter(|_| !withheld),
        }
    }
}

/// Adds what a sample took the handler.
fn each_sample(handler: &mut Counters) {
    let time = handler.get("handler_ns").copied().unwrap_or(0);
    let samples = handler.get("samples").copied().unwrap_or(0);
    if let Some(each @ 1..) = time.checked_div(samples) {
        handler.insert("handler_ns_per_sample".to_owned(), each);
    }
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

fn shown(counters: &Counters) -> Map<String, Value> {
    counters
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect()
}

fn intervals(counters: &Counters, profile: &Profile, distinct: Option<u64>) -> Map<String, Value> {
    let mut map = shown(counters);
    let get = |name| as_float(counters.get(name).copied().unwrap_or(0));
    let mean = (get("count") > 0.0).then(|| rounded(get("sum") / get("count"), 1));
    map.insert("mean".to_owned(), json!(mean));
    map.insert("distinct".to_owned(), json!(distinct));
    map.insert(
        "unit".to_owned(),
        json!(joined(
            profile.epochs.iter().map(|epoch| epoch.unit.as_str())
        )),
    );
    map
}

/// Counters that are parts of others.
const SHARES: [(&str, &str); 4] = [
    ("destinations_known", "destinations_reached"),
    ("loads_captured", "loads_reached"),
    ("user_samples_with_caller", "user_samples"),
    ("user_samples_with_whole_stack", "user_samples"),
];

/// Shares of what windows reached, and the counters that they are made of.
fn coverage(counters: Option<Counters>) -> Map<String, Value> {
    let mut map = Map::new();
    let get = |name| counters.as_ref()?.get(name).copied();
    for (part, whole) in SHARES {
        let part_count = get(part);
        let whole_count = get(whole).filter(|count| *count > 0);
        // Of nothing reached, no share is known.
        let share = part_count
            .zip(whole_count)
            .map(|(part, whole)| rounded(as_float(part) / as_float(whole), 4));
        map.insert(part.to_owned(), json!(share));
    }
    let counts = counters.as_ref().map(shown);
    map.insert("counts".to_owned(), json!(counts));
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
        .map(|interrupts| get("collector_cpu_ns") + get("handler_ns") + interrupts)
        .map(|all| rounded(percent(all, capacity), 3));
    if let Some(both) = both {
        map.insert("cpu_percent_with_interrupts".to_owned(), json!(both));
    }
    map
}

/// The settings that epochs were collected with, each once.
fn settings(epochs: &[Shown<'_>]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for Shown { epoch, .. } in epochs {
        let line = format!(
            "on {} ({}): engine {}, clock {}, asked for one sample per {} {}, windows of {}",
            clean(&epoch.host),
            clean(&epoch.kernel),
            clean(&epoch.engine),
            clean(&epoch.clock),
            epoch.period,
            clean(&epoch.unit),
            counted(u64::from(epoch.window), "instruction"),
        );
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    seen
}

/// How far apart samples were in fact: a collector that is short of time takes fewer.
fn mean_interval(when: &str, intervals: &Map<String, Value>) -> Option<String> {
    let mean = intervals.get("mean").and_then(Value::as_f64);
    let unit = intervals.get("unit").and_then(Value::as_str);
    // Of several units no mean means anything.
    let unit = unit.filter(|unit| !unit.contains(','));
    let (mean, unit) = mean.zip(unit)?;
    let mean = whole(mean);
    Some(format!(
        "{when} there was one sample per {mean} {}",
        clean(unit)
    ))
}
