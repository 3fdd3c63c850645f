//! The counters as a table: of all that was read and, beside that, of the last flush.

use std::cmp::Reverse;

use profiledb::Loss;
use serde_json::{Map, Value};

use super::{Collected, Counters, Figures, SHARES};
use crate::render::{Align, Table, count, percent};
use crate::view::as_float;

/// What counters say that their names do not; losses say it themselves.
const MEANINGS: [(&str, &str); 43] = [
    (
        "windows_thinned",
        "refused, so that windows behind stalls do not weigh too much; their cycles count",
    ),
    (
        "windows_thinned_early",
        "of these, more than should have been: the handler had yet to be told of a larger share",
    ),
    (
        "windows_without_way",
        "not looked at, by lot: no memory was read ahead; their cycles count",
    ),
    (
        "windows_crowded",
        "not looked at: too many waited, since vcpid gets too little processor time; their cycles \
         count",
    ),
    (
        "windows_twice",
        "had intervals longer than the mean, and count more than once",
    ),
    (
        "windows_in_part",
        "began behind stalls: their values count in full, branches and calls in part",
    ),
    (
        "handler_ns",
        "time in the handler of the interrupt, for its samples",
    ),
    (
        "ways",
        "samples whose threads were followed ahead in the interrupt",
    ),
    (
        "ways_unknown",
        "of these, ended at a branch that depends on what the handler does not know",
    ),
    (
        "ways_not_tried",
        "no memory was read ahead: of processes not met before, where it is not known what is RAM",
    ),
    ("filtered_samples", "of others than what was to be sampled"),
    ("own_samples", "of the collector itself, left out"),
    (
        "timer_in_thread",
        "came while a thread of the kernel worked off interrupts: whom it found is not known",
    ),
    (
        "timer_behind",
        "the next interval was over before it began: that one is lost",
    ),
    (
        "timer_late",
        "came after what was interrupted had gone on: without registers",
    ),
    (
        "lists_left_out",
        "lists of values that were reached seldom: others stand for them, by lot (`hour_mib`)",
    ),
    (
        "events_left_out",
        "what these were reached; what others stand for them is right on average",
    ),
    (
        "values_left_out",
        "depend on vector registers, in samples that were not chosen to bring these",
    ),
    (
        "bursts",
        "short times for which threads were stopped at all their calls of a function",
    ),
    ("bursts_empty", "of these, without a call"),
    (
        "bursts_full",
        "of these, ended by so many calls: these count for the others of the time",
    ),
    (
        "bursts_dense",
        "of functions that are entered again sooner than a breakpoint takes",
    ),
    (
        "trials",
        "bursts that were to find out how long they may last; they count for nothing",
    ),
    (
        "without_site",
        "calls of which it is not known from where they came",
    ),
    (
        "not_watched",
        "functions without unwind rules, or with a way back to their entry that is no call",
    ),
    (
        "without_room",
        "samples whose threads were not watched: too many are",
    ),
    (
        "mapped_anew",
        "pairs or bursts of code that is not there any more",
    ),
    (
        "asked",
        "blocks of instructions around which breakpoints were to be set",
    ),
    (
        "busy",
        "blocks that found others waiting for the breakpoints",
    ),
    (
        "without_block",
        "samples at an instruction that no block begins with: a branch, or code that is made at \
         run time",
    ),
    (
        "seen",
        "pairs: the same execution was stopped at both breakpoints",
    ),
    (
        "given_up",
        "blocks without a pair: what became of each attempt is counted beside this",
    ),
    ("no_entry", "attempts: the thread did not come by in time"),
    (
        "no_exit",
        "attempts: the thread came in, and not out in time",
    ),
    (
        "no_debug_register",
        "attempts: others, a debugger say, had the debug registers",
    ),
    (
        "switched",
        "attempts: another thread ran between both breakpoints",
    ),
    (
        "signalled",
        "attempts: a signal was delivered while they were set",
    ),
    ("compared", "pairs whose instructions were worked out"),
    (
        "not_worked_out",
        "pairs around an instruction that is not interpreted; their results are values",
    ),
    (
        "results_compared",
        "registers that the instructions of pairs wrote, known and compared",
    ),
    (
        "raced",
        "pairs that differ, and load what others may have written between: as windows may",
    ),
    (
        "disagreed",
        "the processor made something else of them: a defect of vcpid, report it",
    ),
    (
        "buffer_full",
        "samples that found the handler's buffer full",
    ),
];

/// What stands for what the reader may not know.
const NOT_SHOWN: &str = "not shown";

/// The table, and whether the last flush has a column in it.
struct Rows {
    table: Table,
    has_last: bool,
}

impl Rows {
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

    fn plain(&mut self, name: &str, value: Option<u64>, last: Option<u64>) {
        let value = value.map_or_else(|| NOT_SHOWN.to_owned(), count);
        let meaning = meaning(name);
        self.row(name, value, last.map(count), meaning);
    }

    /// Counters under a title; where they are `parts` of a whole, the largest first with its share.
    fn section(
        &mut self,
        title: &str,
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
                false => meaning(name),
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
    let mut rows = Rows {
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
    section("lost", |of| of.lost.as_ref(), false);
    section("why windows ended", |of| of.stops.as_ref(), true);
    rows.title("coverage");
    rows.coverage(&all.coverage, last.map(|last| &last.coverage));
    let is_shown = all.run.is_some();
    let group = |rows: &mut Rows, title, of: fn(&Figures) -> &Map<String, Value>| {
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
    rows.section("throttling by the kernel", throttle, of_last, false);
    group(&mut rows, "overhead of the collector", |of| &of.overhead);
    for (kind, counters) in all.other.iter().flatten() {
        let last = last.and_then(|last| last.other.as_ref()?.get(kind));
        rows.section(kind, Some(counters), last, false);
    }
    rows.table
}

/// What a counter says that its name does not, and what to do about it.
fn meaning(name: &str) -> Option<String> {
    if let Some(loss) = Loss::named(name) {
        let meaning = loss.meaning();
        return Some(match loss.cause().remedy() {
            Some(remedy) => format!("{meaning}: {remedy}"),
            None => meaning.to_owned(),
        });
    }
    let found = MEANINGS.iter().find(|(of, _)| *of == name);
    found.map(|(_, meaning)| (*meaning).to_owned())
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

    /// A loss says what happened, and what to do where something helps; no other counter has the
    /// name of a loss.
    #[test]
    fn meanings() {
        for loss in Loss::ALL {
            let said = meaning(loss.name()).expect("a meaning");
            assert!(said.starts_with(loss.meaning()), "{said}");
            assert!(said.ends_with(loss.cause().remedy().unwrap_or_default()));
        }
        let stands_twice = |(name, _): &&(&str, _)| Loss::named(name).is_some();
        assert_eq!(MEANINGS.iter().find(stands_twice), None);
        assert_eq!(meaning("samples"), None);
    }
}
