//! `top`: where the cycles are.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, ValueEnum};
use profiledb::{Apart, Process};
use protocol::Kinds;
use serde::Serialize;

use super::nothing;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, counted, cycles, percent, rounded, whole};
use crate::view::{Heat, View, as_float};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: where does the time of a query go?
  vcpid record -- sqlite3 test.db < query.sql
  vcpi top -n 3

  percent  cycles  samples  function                 image
    24.51   3.93G     1555  sqlite3VdbeExec          libsqlite3.so.0.8.6
    13.42   2.15G      866  sqlite3BtreeTableMoveto  libsqlite3.so.0.8.6
     3.79    608M      242  sqlite3GetVarint         libsqlite3.so.0.8.6

  A quarter of all cycles is in one function: `vcpi list sqlite3VdbeExec` shows which of its
  instructions they are at, and with which values.";

/// Where the cycles are.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Top {
    /// What to add up by.
    #[arg(long, value_enum, default_value_t = By::Function)]
    by: By,
    /// Redraw it each second, and walk through it with keys (`?` names them; q leaves).
    #[arg(long, conflicts_with = "by")]
    live: bool,
}

impl Top {
    /// Whether it is to be redrawn.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }
}

/// What `top` adds up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// Executables, libraries and the kernel.
    Image,
    /// Functions.
    Function,
    /// Single instructions.
    Instruction,
    /// Processes.
    Process,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Hottest {
    rows: Vec<HotSpot>,
    #[serde(skip)]
    by: By,
    /// All that was collected.
    #[serde(skip)]
    total: Heat,
}

/// The cycles of one image, function, instruction or process.
#[derive(Debug, Serialize)]
struct HotSpot {
    key: String,
    cycles: u64,
    percent: f64,
    samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(flatten)]
    process: Option<ProcessNumbers>,
}

/// What tells a process from others; a row of many has neither.
#[derive(Debug, Serialize)]
struct ProcessNumbers {
    pid: Option<u32>,
    /// Nanoseconds since boot.
    started: Option<u64>,
}

/// What rows are added up by; indices into the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'p> {
    Image(usize),
    Function(usize),
    Instruction(usize),
    Process(Program<'p>),
}

/// A process while it goes by one name: over epochs, and over execs that keep the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Program<'p> {
    comm: &'p str,
    pid: u32,
    /// Nanoseconds since boot: process ids come back.
    started: u64,
}

impl Program<'_> {
    fn new(process: &Process) -> Program<'_> {
        Program {
            comm: &process.comm,
            pid: process.pid,
            started: process.started,
        }
    }

    /// Whether it stands for all processes: the collector kept none apart.
    fn is_all(&self) -> bool {
        self.pid == 0 && self.comm.is_empty()
    }

    /// Whether it stands for many that lived for seconds.
    fn is_folded(&self) -> bool {
        self.pid == Process::FOLDED
    }

    /// Its name, with its place among those `like` it, of the same name and id, where there are
    /// others. When each was started is known since boot alone, and not since which.
    fn key(&self, like: &Likeness<'_>) -> String {
        if self.is_all() {
            return "(all)".to_owned();
        }
        if self.is_folded() {
            return format!("{} (short-lived)", self.comm);
        }
        let key = format!("{}[{}]", self.comm, self.pid);
        let starts = like.get(&(self.comm, self.pid));
        match starts.filter(|starts| starts.len() > 1) {
            None => key,
            Some(starts) => {
                let place = starts.range(..=self.started).count();
                format!("{key} ({place} of {} of this id)", starts.len())
            }
        }
    }
}

/// The starts of the processes of a name and id.
type Likeness<'p> = BTreeMap<(&'p str, u32), BTreeSet<u64>>;

impl Query for Top {
    fn needs(&self) -> Needs<'_> {
        Needs {
            kinds: Kinds {
                cycles: true,
                ..NO_ROWS
            },
            // Of what is told of one function, shares are of all.
            one_function: false,
            nameless: matches!(self.by, By::Image | By::Process),
            apart: match self.by {
                By::Image | By::Process => Apart::Images,
                By::Function | By::Instruction => Apart::Instructions,
            },
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let rows = rows(view, self.by).ok_or_else(|| nothing("samples"))?;
        Ok(Box::new(Hottest {
            rows,
            by: self.by,
            total: view.total(),
        }))
    }
}

/// As many rows as are asked for, the hottest first; `None`: there is none.
fn rows(view: &mut View<'_>, by: By) -> Option<Vec<HotSpot>> {
    let profile = view.profile;
    let mut sums: Vec<(Key<'_>, Heat)> = Vec::new();
    for row in &profile.cycles {
        if !view.wants(row.pc) {
            continue;
        }
        let key = match by {
            By::Image => profile.pcs.get(row.pc).map(|pc| Key::Image(pc.image)),
            By::Function => view.symbols.function_of(row.pc).map(Key::Function),
            By::Instruction => Some(Key::Instruction(row.pc)),
            By::Process => {
                let process = profile.processes.get(row.process);
                process.map(|process| Key::Process(Program::new(process)))
            }
        };
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        // Rows next to each other are mostly of one function.
        match (sums.last_mut(), key) {
            (_, None) => {}
            (Some((of, sum)), Some(key)) if *of == key => sum.add(heat),
            (_, Some(key)) => sums.push((key, heat)),
        }
    }
    // And mostly in order.
    sums.sort_by_key(|(key, _)| *key);
    sums.dedup_by(|more, sum| {
        let is_same = more.0 == sum.0;
        if is_same {
            sum.1.add(more.1);
        }
        is_same
    });
    // Shares are of all that was collected, not of what is shown.
    let total = view.total();
    sums.retain(|(_, heat)| view.is_enough(heat.samples));
    let mut like: Likeness<'_> = BTreeMap::new();
    for (key, _) in &sums {
        if let Key::Process(program) = key {
            let starts = like.entry((program.comm, program.pid)).or_default();
            starts.insert(program.started);
        }
    }
    if sums.is_empty() {
        return None;
    }
    // Names are looked up of what is shown alone.
    view.keep_least(&mut sums, |a, b| {
        let by_cycles = b.1.cycles.total_cmp(&a.1.cycles);
        by_cycles.then(a.0.cmp(&b.0))
    });
    let rows = sums.iter();
    let rows = rows.map(|(key, heat)| row(view, *key, *heat, total, &like));
    Some(rows.collect())
}

fn row(view: &mut View<'_>, key: Key<'_>, heat: Heat, total: Heat, like: &Likeness<'_>) -> HotSpot {
    let profile = view.profile;
    let mut row = HotSpot {
        key: String::new(),
        cycles: whole(heat.cycles),
        percent: rounded(percent(heat.cycles, total.cycles), 2),
        samples: heat.samples,
        image: None,
        address: None,
        process: None,
    };
    match key {
        Key::Image(image) => row.key = view.image_path(image).to_owned(),
        Key::Function(id) => {
            if let Some(function) = view.symbols.function(id) {
                row.key = function.name.clone();
                row.image = Some(view.image_path(function.image).to_owned());
                row.address = function.start.map(|start| format!("0x{start:x}"));
            }
        }
        Key::Instruction(index) => {
            if let Some(pc) = profile.pcs.get(index) {
                row.key = view.symbols.describe(pc.image, pc.address);
                row.image = Some(view.image_path(pc.image).to_owned());
                row.address = Some(format!("0x{:x}", pc.address));
            }
        }
        Key::Process(program) => {
            row.key = program.key(like);
            let one = Some(program).filter(|program| !program.is_folded());
            let numbers = ProcessNumbers {
                pid: one.map(|program| program.pid),
                started: one.map(|program| program.started),
            };
            row.process = Some(numbers).filter(|_| !program.is_all());
        }
    }
    row
}

impl Model for Hottest {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.text(format!(
            "{} cycles in {} (k, M, G, T: 10^3, 10^6, 10^9, 10^12)",
            cycles(self.total.cycles),
            counted(self.total.samples, "sample")
        ));
        page.gap();
        let title = match self.by {
            By::Image => "image",
            By::Function => "function",
            By::Instruction => "instruction",
            By::Process => "process",
        };
        let mut columns = vec![
            ("percent", Align::Right),
            ("cycles", Align::Right),
            ("samples", Align::Right),
            (title, Align::Left),
        ];
        let located = matches!(self.by, By::Function | By::Instruction);
        if located {
            columns.push(("image", Align::Left));
        }
        let mut table = Table::new(&columns);
        for row in &self.rows {
            let mut cells = vec![
                format!("{:.2}", row.percent),
                cycles(as_float(row.cycles)),
                count(row.samples),
                if located {
                    names.shown(&row.key)
                } else {
                    row.key.clone()
                },
            ];
            if located {
                cells.push(row.image.clone().unwrap_or_default());
            }
            table.hot_row(cells, row.percent);
        }
        page.table(table);
        page
    }
}
