//! `cg`: who calls a function from where, in percent of the time in it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Kinds;
use serde::Serialize;

use super::nothing;
use super::paths::{self, Direction};
use crate::args::{Common, OneFunction};
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{counted, percent, rounded};
use crate::renderers::Format;
use crate::symbols::FunctionId;
use crate::view::{Heat, View};

/// The first argument's parameter.
const FIRST: &str = "arg0";

/// What `--flat` needs.
const FLAT: &str = "--flat is for trees in JSON: add --tree or --up, and --format json";

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: who spends the time in a function?
  vcpi cg polyeval

  pov::polyeval 39.6% from pov::regula_falsa (0x223745)  [569]
  pov::polyeval 30.8% from pov::numchanges (0x2235a8)  [446]
  pov::polyeval 26.3% from pov::numchanges (0x2235f4)  [375]

  Of the time in polyeval 39.6 % is under the call at 0x223745 in regula_falsa. `vcpi cg --up`
  shows whole paths, where call stacks were recorded.";

/// Who calls a function from where, in percent of the time in it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Cg {
    #[command(flatten)]
    of: OneFunction,
    /// A tree of what is called, from call stacks (`vcpid record --frames`).
    #[arg(long)]
    tree: bool,
    /// A tree of who calls, from call stacks.
    #[arg(long, conflicts_with = "tree")]
    up: bool,
    /// With `--format json`: the nodes of the tree as rows, none within another.
    #[arg(long)]
    flat: bool,
}

impl Cg {
    /// The tree that is asked for.
    fn tree(&self) -> Option<Direction> {
        match (self.tree, self.up) {
            (true, _) => Some(Direction::Down),
            (false, true) => Some(Direction::Up),
            (false, false) => None,
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Callers {
    rows: Vec<Caller>,
}

/// One caller of one function.
#[derive(Debug, Serialize)]
struct Caller {
    function: String,
    image: String,
    caller: Option<String>,
    call_site: Option<String>,
    samples: u64,
    percent: f64,
    base: &'static str,
    /// Of the calls that breakpoints at the function's entry saw, those from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<EntryCalls>,
}

/// Calls at an entry.
#[derive(Debug, Clone, Copy, Serialize)]
struct EntryCalls {
    calls: u64,
    percent: f64,
}

/// Call site, where known, and the time under it.
type Site = (Option<usize>, Heat);

impl Query for Cg {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                cycles: true,
                values: self.tree().is_none(),
                stacks: self.tree().is_some(),
                ..NO_ROWS
            },
            // Each call has one, whether it is an argument or not.
            parameters: &[FIRST],
            ..Needs::ROWS
        }
    }

    fn check(&self, common: &Common) -> Result<(), Failure> {
        match self.flat && (self.tree().is_none() || common.format != Format::Json) {
            true => Err(Failure::Usage(FLAT.to_owned())),
            false => Ok(()),
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        if let Some(direction) = self.tree() {
            return paths::answer(view, direction, self.flat);
        }
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("samples"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Callers { rows }))
    }
}

/// Calls of functions, by call site.
type Calls = BTreeMap<FunctionId, BTreeMap<Option<usize>, f64>>;

/// The calls that breakpoints saw, of functions where they are shares of executions.
fn entries(view: &View<'_>) -> Calls {
    let mut calls = Calls::new();
    let mut untold = BTreeSet::new();
    for row in &view.profile.hotlists {
        let first = row.parameter.strip_prefix(profiledb::AT_ENTRY) == Some(FIRST);
        let Some(function) = view.symbols.function_of(row.pc).filter(|_| first) else {
            continue;
        };
        if row.unknown > 0.0 {
            untold.insert(function);
        }
        let sites = calls.entry(function).or_default();
        *sites.entry(row.caller).or_default() += row.reached;
    }
    calls.retain(|function, _| !untold.contains(function));
    calls
}

/// All rows, those of the hottest functions first.
fn rows(view: &View<'_>) -> Vec<Caller> {
    let mut callers: BTreeMap<FunctionId, BTreeMap<Option<usize>, Heat>> = BTreeMap::new();
    for row in &view.profile.cycles {
        if let Some(function) = view.symbols.function_of(row.pc)
            && view.wants(row.pc)
        {
            let sites = callers.entry(function).or_default();
            sites.entry(row.caller).or_default().add(Heat {
                samples: row.samples,
                cycles: row.cycles,
            });
        }
    }
    let entries = entries(view);
    for (function, sites) in &entries {
        // There may have been calls from sites under which no interrupt came.
        if let Some(known) = callers.get_mut(function) {
            for site in sites.keys() {
                known.entry(*site).or_default();
            }
        }
    }
    let mut functions: Vec<(FunctionId, Heat, Vec<Site>)> = callers
        .into_iter()
        .map(|(function, sites)| {
            let mut total = Heat::default();
            for heat in sites.values() {
                total.add(*heat);
            }
            (function, total, sites.into_iter().collect())
        })
        .collect();
    functions.sort_by(|a, b| b.1.cycles.total_cmp(&a.1.cycles).then(a.0.cmp(&b.0)));
    let mut rows = Vec::new();
    for (id, total, mut sites) in functions {
        let Some(function) = view.symbols.function(id) else {
            continue;
        };
        sites.sort_by(|a, b| b.1.cycles.total_cmp(&a.1.cycles).then(a.0.cmp(&b.0)));
        let entered = entries.get(&id);
        let all: f64 = entered.map_or(0.0, |of| of.values().sum());
        for (site, heat) in sites {
            let calls = entered.and_then(|of| of.get(&site)).copied();
            let calls = entered.map(|_| calls.unwrap_or_default());
            // Events are counted in whole numbers, far below 2^53.
            let whole = calls.unwrap_or_default().round() as u64;
            if !view.is_enough(heat.samples.max(whole)) {
                continue;
            }
            rows.push(Caller {
                function: function.name.clone(),
                image: view.image_path(function.image).to_owned(),
                caller: site.map(|pc| view.symbols.name_of(pc)),
                call_site: site.map(|pc| view.address(pc)),
                samples: heat.samples,
                percent: rounded(percent(heat.cycles, total.cycles), 1),
                base: "time",
                entries: calls.map(|calls| EntryCalls {
                    calls: whole,
                    percent: rounded(percent(calls, all), 1),
                }),
            });
        }
    }
    rows
}

impl Model for Callers {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.text("Of the time in each function, the share under each call site (samples).");
        page.gap();
        for row in &self.rows {
            let from = match (&row.caller, &row.call_site) {
                (Some(caller), Some(site)) => format!("{} ({site})", names.shown(caller)),
                _ => "unknown callers".to_owned(),
            };
            let function = names.shown(&row.function);
            let entries = match row.entries {
                Some(EntryCalls { calls, percent }) => {
                    format!(" {percent:.1}% of executions [{}]", counted(calls, "call"))
                }
                None => String::new(),
            };
            page.item(
                0,
                format!(
                    "{function} {:.1}% from {from}  [{}]{entries}",
                    row.percent, row.samples
                ),
            );
        }
        page
    }
}
