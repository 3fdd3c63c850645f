//! `redundant`: stores of what is there already, and loads of what was loaded just before.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use parameters::Parameter;
use profiledb::Apart;
use serde::Serialize;

use super::access::{AccessSite, heat_around, is_of_stack};
use super::nothing;
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
Example: which stores change nothing, and which loads bring the same again?
  vcpid record --capture redundant -- ./loads
  vcpi redundant -n 2

  time%  cycles  redundant%     between  seen  kind   in
   1.75   44.7M       100.0  92.4-100.0   694  store  store_same+0x1b (0x136b)
   0.47   11.9M       100.0  94.6-100.0  1034  load   one_address+0x10 (0x1240)

  The load can be kept in a register, unless another thread stores there.";

/// Stores of what is there already, and loads of what the thread loaded in the 64 instructions
/// before and has not stored to since. Needs values of the kind redundant (vcpid record --capture
/// redundant).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Redundant {
    #[command(flatten)]
    of: OneFunction,
    /// Show calls, returns, and registers kept on the stack as well.
    #[arg(long)]
    stack: bool,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum AccessKind {
    Load,
    Store,
}

impl AccessKind {
    fn of(parameter: &str) -> Option<AccessKind> {
        match parameter.parse() {
            Ok(Parameter::Reload) => Some(AccessKind::Load),
            Ok(Parameter::Silent) => Some(AccessKind::Store),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Accesses {
    rows: Vec<InstructionAccesses>,
}

/// The loads or the stores of one instruction.
#[derive(Debug, Serialize)]
struct InstructionAccesses {
    #[serde(flatten)]
    place: AccessSite,
    kind: AccessKind,
    base: Base,
    /// Times that windows came by.
    reached: u64,
    /// Of those, where nobody knows.
    unknown: u64,
    samples: u64,
    /// Percent of the known that are redundant, and a 95 % interval.
    redundant: f64,
    low: f64,
    high: f64,
    /// At the instruction and the one behind it.
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    heat: Heat,
    /// Of all cycles.
    percent: f64,
    cycle_samples: u64,
    #[serde(skip)]
    mostly_known: bool,
}

impl Query for Redundant {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: CYCLES_AND_VALUES,
            parameters: &["reload", "silent"],
            apart: Apart::Pcs,
            others: false,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view, self.stack);
        if rows.is_empty() {
            let what = "redundant loads or stores (vcpid record --capture redundant)";
            return Err(nothing(what));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Accesses { rows }))
    }
}

/// All rows of which some are redundant: those first that take most time redundantly.
fn rows(view: &View<'_>, stack: bool) -> Vec<InstructionAccesses> {
    let mut sums: BTreeMap<(usize, AccessKind), Values> = BTreeMap::new();
    for values in view.values(false) {
        let Some(kind) = AccessKind::of(&values.parameter) else {
            continue;
        };
        // Of first events and later ones, those that are more.
        match sums.get(&(values.pc, kind)) {
            Some(held) if held.reached >= values.reached => {}
            _ => {
                sums.insert((values.pc, kind), values);
            }
        }
    }
    let total = view.total().cycles;
    let mut rows: Vec<InstructionAccesses> = sums
        .into_iter()
        .filter(|((pc, _), _)| stack || !is_of_stack(view, *pc))
        .filter_map(|((pc, kind), values)| {
            let share = values.shares.iter().find(|share| share.value == 1)?;
            let heat = heat_around(view, pc);
            Some(InstructionAccesses {
                place: AccessSite::new(view, pc),
                kind,
                base: values.base,
                reached: values.reached,
                unknown: values.unknown,
                samples: values.samples(),
                redundant: rounded(share.percent, 1),
                low: rounded(share.low, 1),
                high: rounded(share.high, 1),
                heat,
                percent: rounded(percent(heat.cycles, total), 2),
                cycle_samples: heat.samples,
                mostly_known: values.mostly_known(),
            })
        })
        .collect();
    rows.sort_by_key(|row| {
        let share = if row.mostly_known {
            row.redundant
        } else {
            row.low
        };
        (
            Reverse(whole(row.heat.cycles * share)),
            Reverse(row.samples),
        )
    });
    rows
}

/// What stands above the the rows.
const ABOUT: &str = "Stores of what is there already, and loads of the same bytes again.";

/// What else there is to know of it.
const MORE: &str = "\
    A load is redundant if the thread loaded its bytes in the 64 instructions before and has not\n\
    stored to them since. redundant%: of the known, with a 95 % interval. time%: at the instruction\n\
    and the one behind it, of all cycles. from..to%: less than 90% known.";

impl Model for Accesses {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("redundant%", Align::Right),
            ("between", Align::Right),
            ("seen", Align::Right),
            ("kind", Align::Left),
            ("in", Align::Left),
        ]);
        for row in &self.rows {
            let share = if row.mostly_known {
                format!("{:.1}", row.redundant)
            } else {
                format!("{:.1}..{:.1}", row.low, row.high)
            };
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.heat.cycles),
                share,
                format!("{:.1}-{:.1}", row.low, row.high),
                count(row.reached),
                row.kind.words().to_owned(),
                row.place.text(names),
            ]);
        }
        page.table(table);
        page
    }
}
