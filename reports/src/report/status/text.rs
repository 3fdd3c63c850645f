//! The counters as a table: of all that was read and, beside that, of the last flush.

use std::cmp::Reverse;

use counters::{Counter, Group, Loss};
use serde_json::{Map, Value};

use super::{Collected, Counters, Figures, SHARES};
use crate::render::{Align, Table, count, percent};
use crate::view::as_float;

/// What is said of counters whose names the handler and the breakpoints own.
const MEANINGS: [(Group, &str, &str); 23] = [
    (
        Group::Handler,
        "handler_ns",
        "time in the handler of the interrupt, for its samples",
    ),
    (
        Group::Handler,
        "ways",
        "samples whose threads were followed ahead in the interrupt",
    ),
    (
        Group::Handler,
        "ways_unknown",
        "of these, ended at a branch that depends on what the handler does not know",
    ),
    (
        Group::Handler,
        "ways_not_tried",
        "no memory was read ahead: of processes not met before, where it is not known what is RAM",
    ),
    (
        Group::Handler,
        "filtered_samples",
        "of others than what was to be sampled",
    ),
    (
        Group::Handler,
        "own_samples",
        "of the collector itself, left out",
    ),
    (
        Group::Handler,
        "timer_in_thread",
        "came while a thread of the kernel worked off interrupts: whom it found is not known",
    ),
    (
        Group::Handler,
        "timer_behind",
        "the next interval was over before it began: that one is lost",
    ),
    (
        Group::Handler,
        "timer_late",
        "came after what was interrupted had gone on: without registers",
    ),
    (
        Group::Handler,
        "buffer_full",
        "samples that found the handler's buffer full",
    ),
    (
        Group::Pairs,
        "no_entry",
        "attempts: the thread did not come by in time",
    ),
    (
        Group::Pairs,
        "no_exit",
        "attempts: the thread came in, and not out in time",
    ),
    (
        Group::Pairs,
        "no_debug_register",
        "attempts: others, a debugger say, had the debug registers",
    ),
    (
        Group::Pairs,
        "switched",
        "attempts: another thread ran between both breakpoints",
    ),
    (
        Group::Pairs,
        "signalled",
        "attempts: a signal was delivered while they were set",
    ),
    (
        Group::Steps,
        "not_allowed",
        "the kernel does not let this user trace the thread: see kernel.yama.ptrace_scope",
    ),
    (
        Group::Steps,
        "traced",
        "a debugger traces the thread, which has the right of way",
    ),
    (
        Group::Steps,
        "waits",
        "the thread waited in the kernel, where it is not interrupted",
    ),
    (
        Group::Steps,
        "in_system_call",
        "the thread was in a system call, which began anew or was over",
    ),
    (
        Group::Steps,
        "cut_short",
        "the thread was in a system call that may have ended with EINTR by this",
    ),
    (
        Group::Steps,
        "no_stop",
        "the thread did not stop within 20 ms: it waited for a processor, say",
    ),
    (
        Group::Steps,
        "signalled",
        "a signal arrived and was delivered, which ended the stop",
    ),
    (
        Group::Steps,
        "call_waits",
        "a system call that did not return within 5 ms, and was left to itself",
    ),
];

/// What stands for what the reader may not know.
const NOT_SHOWN: &str = "not shown";

/// The table, and whether the last flush has a column in it.
struct StatusTable {
    table: Table,
    has_last: bool,
}

impl StatusTable {
    fn row(&mut self, name: &str, value: String, last: Option<String>, share: Option<String>) {
        let mut cells = vec![format!("  {name}"), value];
        if self.has_last {
            cells.push(last.unwrap_or_default());
        }
        cells.push(share.unwrap_or_default());
        self.table.row(cells);
    }

    fn title(&mut self, title: &str) {
        self.table.line(title);
    }

    /// In place of the rows of a section that has none.
    fn alone(&mut self, words: &str) {
        self.table.line(&format!("  {words}"));
    }

    /// A counter of the run.
    fn plain(&mut self, name: &str, value: Option<u64>, last: Option<u64>) {
        let value = value.map_or_else(|| NOT_SHOWN.to_owned(), count);
        let meaning = meaning(Group::Run.name(), name);
        self.row(name, value, last.map(count), meaning);
    }

    /// Counters of a kind under a title; where they are `parts` of a whole, the largest first with
    /// its share.
    fn section(
        &mut self,
        (title, kind): (&str, &str),
        counters: Option<&Counters>,
        last: Option<&Counters>,
        parts: bool,
    ) {
        self.title(title);
        let Some(counters) = counters else {
            return self.alone(NOT_SHOWN);
        };
        if counters.is_empty() {
            return self.alone("none counted");
        }
        let whole = counters.values().copied().fold(0, u64::saturating_add);
        let mut ordered: Vec<(&String, &u64)> = counters.iter().collect();
        if parts {
            ordered.sort_by_key(|(_, value)| Reverse(**value));
        }
        for (name, value) in ordered {
            let beside = match parts {
                true => Some(format!(
                    "{:.1}%",
                    percent(as_float(*value), as_float(whole))
                )),
                false if *value == 0 => None,
                false => meaning(kind, name),
            };
            let last = last.map(|last| count(last.get(name).copied().unwrap_or(0)));
            self.row(name, count(*value), last, beside);
        }
    }

    fn coverage(&mut self, coverage: &Map<String, Value>, last: Option<&Map<String, Value>>) {
        let Some(Value::Object(counts)) = coverage.get("counts") else {
            return self.alone(NOT_SHOWN);
        };
        for (name, value) in counts {
            let whole = SHARES.iter().find(|(part, _)| part == name);
            let share = coverage.get(name).and_then(Value::as_f64).zip(whole);
            let share =
                share.map(|(share, (_, whole))| format!("{:.1}% of {whole}", share * 100.0));
            let last = last.map(|last| number(last["counts"].get(name)));
            self.row(name, number(Some(value)), last, share);
        }
        if counts.is_empty() {
            self.alone("none counted");
        }
    }

    fn values(&mut self, values: &Map<String, Value>, last: Option<&Map<String, Value>>) {
        for (name, value) in values {
            let last = last.map(|last| cell(name, last.get(name).unwrap_or(&Value::from(0))));
            self.row(name, cell(name, value), last, None);
        }
    }
}

/// All counters, in sections.
pub(super) fn table(status: &Collected<'_>) -> Table {
    let all = &status.all;
    let last = status.last_flush.as_ref();
    let title = last.map(|last| format!("last {:.0} s", last.seconds));
    let mut columns = vec![("counter", Align::Left), ("count", Align::Right)];
    if let Some(title) = &title {
        columns.push((title, Align::Right));
    }
    columns.push(("", Align::Left));
    let mut rows = StatusTable {
        table: Table::new(&columns),
        has_last: last.is_some(),
    };
    let last = last.map(|last| &last.figures);
    rows.title("collected");
    rows.plain("samples", Some(all.samples), last.map(|last| last.samples));
    rows.plain("windows", all.windows, last.and_then(|last| last.windows));
    let events = |of: &Figures| of.value_events;
    rows.plain("value_events", events(all), last.and_then(events));
    for (name, value) in all.run.iter().flatten() {
        let last = last.map(|last| of_map(last.run.as_ref(), name));
        rows.plain(name, Some(*value), last);
    }
    let mut section = |title, of: fn(&Figures) -> Option<&Counters>, parts| {
        rows.section(title, of(all), last.and_then(of), parts);
    };
    section(("lost", Group::Lost.name()), |of| of.lost.as_ref(), false);
    let ends = ("why windows ended", Group::Stop.name());
    section(ends, |of| of.stops.as_ref(), true);
    rows.title("coverage");
    rows.coverage(&all.coverage, last.map(|last| &last.coverage));
    let is_shown = all.run.is_some();
    let group = |rows: &mut StatusTable, title, of: fn(&Figures) -> &Map<String, Value>| {
        rows.title(title);
        match is_shown {
            true => rows.values(of(all), last.map(of)),
            false => rows.alone(NOT_SHOWN),
        }
    };
    group(&mut rows, "intervals between samples", |of| &of.intervals);
    let (throttle, of_last) = (
        all.throttle.as_ref(),
        last.and_then(|of| of.throttle.as_ref()),
    );
    let title = ("throttling by the kernel", Group::Throttle.name());
    rows.section(title, throttle, of_last, false);
    group(&mut rows, "overhead of the collector", |of| &of.overhead);
    for (kind, counters) in all.other.iter().flatten() {
        let last = last.and_then(|last| last.other.as_ref()?.get(kind));
        rows.section((kind, kind), Some(counters), last, false);
    }
    rows.table
}

/// What a counter says, and what to do about a loss.
fn meaning(kind: &str, name: &str) -> Option<String> {
    if kind == Group::Lost.name() {
        let loss = Loss::named(name)?;
        let meaning = loss.meaning();
        return Some(match loss.cause().remedy() {
            Some(remedy) => format!("{meaning}: {remedy}"),
            None => meaning.to_owned(),
        });
    }
    if let Some(counter) = Counter::named(kind, name) {
        return Some(counter.meaning().to_owned());
    }
    let mut others = MEANINGS.iter();
    let found = others.find(|(group, of, _)| group.name() == kind && *of == name);
    found.map(|(.., meaning)| (*meaning).to_owned())
}

fn of_map(counters: Option<&Counters>, name: &str) -> u64 {
    let counter = counters.and_then(|counters| counters.get(name));
    counter.copied().unwrap_or(0)
}

fn number(value: Option<&Value>) -> String {
    let zero = Value::from(0);
    let value = value.unwrap_or(&zero);
    value.as_u64().map_or_else(|| value.to_string(), count)
}

fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "not known".to_owned(),
        Value::String(text) => text.clone(),
        other => match other.as_u64() {
            Some(nanoseconds) if name.ends_with("_ns") => {
                format!("{:.3} s", as_float(nanoseconds) / 1e9)
            }
            Some(number) => count(number),
            None => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss says what happened, and what to do where something helps; no counter is explained
    /// twice.
    #[test]
    fn meanings() {
        for loss in Loss::ALL {
            let said = meaning("lost", loss.name()).expect("a meaning");
            assert!(said.starts_with(loss.meaning()), "{said}");
            assert!(said.ends_with(loss.cause().remedy().unwrap_or_default()));
        }
        let is_known =
            |(group, name, _): &&(Group, &str, &str)| Counter::named(group.name(), name).is_some();
        assert_eq!(MEANINGS.iter().find(is_known), None);
        assert_eq!(meaning("lost", "samples"), None);
    }
}
