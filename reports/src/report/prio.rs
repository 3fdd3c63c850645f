//! `prio` and `irq`: how what took the time was scheduled, and what of it was interrupts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use profiledb::{Apart, Level, Moment};
use serde::Serialize;

use super::nothing;
use crate::args::OneFunction;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, cycles, percent, rounded, whole};
use crate::view::View;

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: how much time has each priority?
  vcpid record --capture sched -- nice -n 7 ./loads
  vcpi prio

  time%  cycles  class       priority
  99.88   2.58G  other       nice 7
   0.07   1.84M  other       nice 0
   0.02    635k  interrupts
   0.03    724k  unknown

  Real-time threads have rows of their own. Interrupts come to whoever runs, and are apart.";

/// Cycles by scheduling class and priority. Needs values of the kind sched and the engine bpf
/// (vcpid record --capture sched).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Prio {
    #[command(flatten)]
    of: OneFunction,
}

/// A worked example, for the help and the manual page.
const EXAMPLE_OF_IRQ: &str = "\
Example: which functions run in interrupts, or with interrupts off?
  vcpid record --capture sched -- nice -n 7 ./loads
  vcpi irq

  time%  cycles  level    interrupts  function
   0.02    635k  softirq  on          run_timer_softirq

  What takes long here delays everything else on its processor.";

/// Time in interrupts, in softirqs, and with interrupts off, by function. Needs values of the kind
/// sched and the engine bpf (vcpid record --capture sched).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE_OF_IRQ)]
pub(crate) struct Irq {
    #[command(flatten)]
    of: OneFunction,
}

/// Scheduling classes by the numbers of their policies.
const CLASSES: [&str; 8] = [
    "other", "fifo", "rr", "batch", "iso", "idle", "deadline", "ext",
];

const NEEDS: Needs<'static> = Needs {
    kinds: CYCLES_AND_VALUES,
    parameters: &[Moment::PARAMETER],
    apart: Apart::Instructions,
    others: false,
    ..Needs::ROWS
};

/// What is left out where nothing of this kind was recorded.
const WANTED: &str = "samples with their scheduling (vcpid record --capture sched)";

/// Cycles at each PC by what the moment was; those of which that is not known.
struct Moments {
    known: Vec<(usize, Moment, f64)>,
    unknown: f64,
}

/// The shares of samples at a PC are those of its cycles: intervals know no priority.
fn moments(view: &View<'_>) -> Moments {
    let mut known = Vec::new();
    let mut unknown = 0.0;
    for (pc, heat) in view.heat.iter().enumerate() {
        if view.wants(pc) {
            unknown += heat.cycles;
        }
    }
    for values in view.values(false) {
        let heat = view.heat.get(values.pc).copied().unwrap_or_default();
        if values.parameter != Moment::PARAMETER || heat.samples == 0 {
            continue;
        }
        let samples = crate::view::as_float(values.samples());
        let part = (samples / crate::view::as_float(heat.samples)).min(1.0);
        for share in &values.shares {
            if let Some(moment) = Moment::of(share.value) {
                let cycles = heat.cycles * part * share.percent / 100.0;
                known.push((values.pc, moment, cycles));
                unknown -= cycles;
            }
        }
    }
    Moments {
        known,
        unknown: unknown.max(0.0),
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Priorities {
    rows: Vec<PriorityCycles>,
}

/// Cycles of one priority.
#[derive(Debug, Serialize)]
struct PriorityCycles {
    /// `null`: not known, or interrupts, which are nobody's.
    class: Option<&'static str>,
    /// `nice`, or the real-time priority, whichever the class has.
    nice: Option<i32>,
    real_time: Option<u8>,
    what: &'static str,
    #[serde(serialize_with = "whole_number")]
    cycles: f64,
    /// Of all cycles.
    percent: f64,
}

fn whole_number<S: serde::Serializer>(cycles: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole(*cycles))
}

impl Query for Prio {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            ..NEEDS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let Moments { known, unknown } = moments(view);
        if known.is_empty() {
            return Err(nothing(WANTED));
        }
        let total = view.total().cycles;
        // By class and priority; interrupts apart, which come to whoever runs.
        let mut sums: BTreeMap<Option<(u8, u8)>, f64> = BTreeMap::new();
        for (_, moment, cycles) in known {
            let is_own = matches!(moment.level, Level::User | Level::Kernel);
            let key = is_own.then_some((moment.policy, moment.priority));
            *sums.entry(key).or_default() += cycles;
        }
        let row = |(key, cycles): (Option<(u8, u8)>, f64)| {
            let class = key.and_then(|(policy, _)| CLASSES.get(usize::from(policy)));
            let priority = key.map(|(_, priority)| priority);
            PriorityCycles {
                class: class.copied(),
                nice: priority
                    .filter(|priority| *priority >= 100)
                    .map(|priority| i32::from(priority) - 120),
                real_time: priority
                    .filter(|priority| *priority < 100)
                    .map(|priority| 99 - priority),
                what: if key.is_some() {
                    "threads"
                } else {
                    "interrupts"
                },
                cycles,
                percent: rounded(percent(cycles, total), 2),
            }
        };
        let mut rows: Vec<PriorityCycles> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| Reverse(whole(row.cycles)));
        if whole(unknown) > 0 {
            rows.push(PriorityCycles {
                class: None,
                nice: None,
                real_time: None,
                what: "unknown",
                cycles: unknown,
                percent: rounded(percent(unknown, total), 2),
            });
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Priorities { rows }))
    }
}

/// What stands above the priorities.
const ABOUT_PRIORITIES: &str = "Cycles by scheduling class and by priority.";

/// What else there is to know of it.
const MORE_PRIORITIES: &str = "\
    Priorities are nice from -20 to 19, and real-time from 99 down.\n\
    Interrupts and softirqs are apart: they come to whoever runs.";

impl Model for Priorities {
    fn page(&self, _: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT_PRIORITIES, MORE_PRIORITIES);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("class", Align::Left),
            ("priority", Align::Left),
        ]);
        for row in &self.rows {
            let priority = match (row.nice, row.real_time) {
                (Some(nice), _) => format!("nice {nice}"),
                (None, Some(real_time)) => format!("real-time {real_time}"),
                (None, None) => String::new(),
            };
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.cycles),
                row.class.unwrap_or(row.what).to_owned(),
                priority,
            ]);
        }
        page.table(table);
        page
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Interrupts {
    rows: Vec<OfFunction>,
}

/// Cycles of a function at one level.
#[derive(Debug, Serialize)]
struct OfFunction {
    level: &'static str,
    interrupts_off: bool,
    function: String,
    image: String,
    #[serde(serialize_with = "whole_number")]
    cycles: f64,
    /// Of all cycles.
    percent: f64,
}

impl Query for Irq {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            ..NEEDS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut sums: BTreeMap<(Level, bool, String, String), f64> = BTreeMap::new();
        let found = moments(view).known;
        if found.is_empty() {
            return Err(nothing(WANTED));
        }
        for (pc, moment, cycles) in found {
            let is_shown =
                moment.interrupts_off || matches!(moment.level, Level::Softirq | Level::Hardirq);
            if !is_shown {
                continue;
            }
            let image = view.profile.pcs.get(pc).map(|pc| view.image_path(pc.image));
            let image = image.unwrap_or("?").to_owned();
            let function = view.symbols.name_of(pc);
            let key = (moment.level, moment.interrupts_off, function, image);
            *sums.entry(key).or_default() += cycles;
        }
        let total = view.total().cycles;
        let row = |((level, interrupts_off, function, image), cycles)| OfFunction {
            level: match level {
                Level::User => "user",
                Level::Kernel => "kernel",
                Level::Softirq => "softirq",
                Level::Hardirq => "hardirq",
            },
            interrupts_off,
            function,
            image,
            cycles,
            percent: rounded(percent(cycles, total), 2),
        };
        let mut rows: Vec<OfFunction> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| Reverse(whole(row.cycles)));
        if rows.is_empty() {
            return Err(nothing("samples in interrupts or with interrupts off"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Interrupts { rows }))
    }
}

/// What stands above the functions.
const ABOUT_INTERRUPTS: &str = "Time in interrupts, and with interrupts off, by function.";

/// What else there is to know of it.
const MORE_INTERRUPTS: &str = "\
    Hardware interrupts and softirqs are apart, and what runs elsewhere with interrupts off.\n\
    A clock that interrupts (cpu-clock, timer) finds code that has them off only where it turns\n\
    them on.";

impl Model for Interrupts {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT_INTERRUPTS, MORE_INTERRUPTS);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("level", Align::Left),
            ("interrupts", Align::Left),
            ("function", Align::Left),
        ]);
        for row in &self.rows {
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.cycles),
                row.level.to_owned(),
                if row.interrupts_off { "off" } else { "on" }.to_owned(),
                names.shown(&row.function),
            ]);
        }
        page.table(table);
        page
    }
}
