//! `loads`: how the addresses of each load follow each other.
//!
//! A window that passes a load several times knows exactly how far its addresses are apart. These
//! differences are the values `stride`; `line` says whether another line of memory, or another page
//! is touched.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use parameters::Parameter;
use profiledb::Apart;
use serde::{Serialize, Serializer};

use super::access::{AccessSite, heat_around, is_of_stack, signed};
use super::{JsonShare, json_shares, nothing, shares_with};
use crate::args::OneFunction;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, cycles, percent, rounded, whole};
use crate::view::{Base, Heat, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which loads walk memory in steps, and which at random?
  vcpid record --capture stride -- ./loads
  vcpi loads -n 3

  time%  cycles  loads  line%  page%  load in                  pattern    strides
   7.33    188M   2708   99.9   98.9  scattered+0x2d (0x133d)  scattered  (varies)
   3.35   86.1M   1821  100.0  100.0  by_page+0x10 (0x12f0)    stride     (99.5% +4160) ...
   2.86   73.6M   1626  100.0    6.7  backwards+0x18 (0x12c8)  stride     (100.0% -256)

  A prefetch pays where `line%` is high and the processor cannot foresee the address.";

/// How the addresses of each load follow each other: one address, a stride, or neither; and how
/// often a load touches another line of memory or another page. Needs values of the kind stride
/// (vcpid record --capture stride).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Loads {
    #[command(flatten)]
    of: OneFunction,
    /// Strides shown for each load in text.
    #[arg(long, value_name = "N", default_value_t = 3)]
    values: usize,
    /// Show returns and loads of registers from the stack as well.
    #[arg(long)]
    stack: bool,
}

/// What the strides say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Pattern {
    /// Nearly all loads are at the address of the one before.
    OneAddress,
    /// Nearly all are one distance behind it.
    Stride,
    /// More than half are at the address of the one before.
    MostlyOneAddress,
    /// More than half are one distance behind it.
    MostlyStride,
    /// No distance has half of them.
    Scattered,
    /// Too much is unknown.
    Unknown,
}

/// A pattern of nearly all, and one of most.
const NEARLY_ALL: f64 = 90.0;
const MOST: f64 = 50.0;

impl Pattern {
    fn of(strides: &Values) -> Pattern {
        let Some(first) = strides.shares.first() else {
            return Pattern::Unknown;
        };
        let known = strides.mostly_known();
        let share = if known { first.percent } else { first.low };
        match first.value {
            0 if share >= NEARLY_ALL => Pattern::OneAddress,
            0 if share > MOST => Pattern::MostlyOneAddress,
            _ if share >= NEARLY_ALL => Pattern::Stride,
            _ if share > MOST => Pattern::MostlyStride,
            // What is not in the list is no more than the first.
            _ if known || first.high <= MOST => Pattern::Scattered,
            _ => Pattern::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Pattern::OneAddress => "one address",
            Pattern::Stride => "stride",
            Pattern::MostlyOneAddress => "mostly one address",
            Pattern::MostlyStride => "mostly stride",
            Pattern::Scattered => "scattered",
            Pattern::Unknown => "unknown",
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Patterns {
    rows: Vec<LoadSite>,
    #[serde(skip)]
    most: usize,
}

/// One load.
#[derive(Debug, Serialize)]
struct LoadSite {
    #[serde(flatten)]
    place: AccessSite,
    /// Time at the load and at the instruction behind it, which waits for it.
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    heat: Heat,
    /// Of all cycles.
    percent: f64,
    cycle_samples: u64,
    pattern: Pattern,
    #[serde(flatten)]
    strides: Strides,
    /// Of the loads in `samples`, percent that touch another line than the one before, and another
    /// page.
    other_line: Option<f64>,
    other_page: Option<f64>,
}

/// Distances.
#[derive(Debug)]
struct Strides(Values);

#[derive(Serialize)]
struct JsonStrides {
    base: Base,
    reached: u64,
    unknown: u64,
    samples: u64,
    strides: Vec<JsonShare>,
}

impl Serialize for Strides {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Strides(values) = self;
        let strides = JsonStrides {
            base: values.base,
            reached: values.reached,
            unknown: values.unknown,
            samples: values.samples(),
            strides: json_shares(values, values.class()),
        };
        strides.serialize(serializer)
    }
}

impl Query for Loads {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: CYCLES_AND_VALUES,
            parameters: &["stride", "line"],
            apart: Apart::Pcs,
            others: false,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view, self.stack);
        if rows.is_empty() {
            return Err(nothing("strides of loads (vcpid record --capture stride)"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Patterns {
            rows,
            most: self.values,
        }))
    }
}

/// All rows, those that take most time first.
fn rows(view: &View<'_>, stack: bool) -> Vec<LoadSite> {
    let mut strides: BTreeMap<usize, Values> = BTreeMap::new();
    let mut lines: BTreeMap<usize, Values> = BTreeMap::new();
    for values in view.values(false) {
        let of = match values.parameter.parse() {
            Ok(Parameter::Stride) => &mut strides,
            Ok(Parameter::Line) => &mut lines,
            _ => continue,
        };
        // Of first events and later ones, those that are more.
        match of.get(&values.pc) {
            Some(held) if held.reached >= values.reached => {}
            _ => {
                of.insert(values.pc, values);
            }
        }
    }
    let total = view.total().cycles;
    let mut rows: Vec<LoadSite> = strides
        .into_iter()
        .filter(|(pc, _)| stack || !is_of_stack(view, *pc))
        .map(|(pc, values)| {
            let heat = heat_around(view, pc);
            let lines = lines.get(&pc).filter(|lines| lines.mostly_known());
            let beyond = |least: u64| {
                let lines = lines?;
                let shares = lines.shares.iter().filter(|share| share.value >= least);
                // The sum of nothing would be below zero.
                let sum = shares.fold(0.0, |sum, share| sum + share.percent);
                Some(rounded(sum.min(100.0), 1))
            };
            LoadSite {
                place: AccessSite::new(view, pc),
                heat,
                percent: rounded(percent(heat.cycles, total), 2),
                cycle_samples: heat.samples,
                pattern: Pattern::of(&values),
                other_line: beyond(1),
                other_page: beyond(2),
                strides: Strides(values),
            }
        })
        .collect();
    rows.sort_by_key(|row| {
        let Strides(values) = &row.strides;
        (Reverse(whole(row.heat.cycles)), Reverse(values.reached))
    });
    rows
}

/// What stands above the the rows.
const ABOUT: &str = "Bytes from each load to the next of the same instruction.";

/// What else there is to know of it.
const MORE: &str = "\
    Distances are known where windows passed an instruction twice.\n\
    time%: at the load and the instruction behind it, of all cycles. line%, page%: loads in another\n\
    line of 64 bytes, or page, than the one before. from..to%: less than 90% known.";

impl Model for Patterns {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("loads", Align::Right),
            ("line%", Align::Right),
            ("page%", Align::Right),
            ("load in", Align::Left),
            ("pattern", Align::Left),
            ("strides", Align::Left),
        ]);
        for row in &self.rows {
            let Strides(values) = &row.strides;
            let share = |percent: Option<f64>| {
                percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"))
            };
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.heat.cycles),
                count(values.reached),
                share(row.other_line),
                share(row.other_page),
                row.place.text(names),
                row.pattern.words().to_owned(),
                shares_with(values, self.most, signed),
            ]);
        }
        page.table(table);
        page
    }
}
