//! `cg`: who calls a function from where, in percent of the time in it.

use std::collections::BTreeMap;

use protocol::Kinds;
use serde::Serialize;

use super::nothing;
use super::paths::{self, Direction};
use crate::args::OneFunction;
use crate::names::Names;
use crate::page::Page;
use crate::query::{Answer, Model, NO_ROWS, Needs, Query};
use crate::render::{percent, rounded};
use crate::symbols::FunctionId;
use crate::view::{Heat, View};

/// Who calls a function from where, in percent of the time in it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Cg {
    #[command(flatten)]
    of: OneFunction,
    /// A tree of what is called, from call stacks (`vcpid record --frames`).
    #[arg(long)]
    tree: bool,
    /// A tree of who calls, from call stacks.
    #[arg(long, conflicts_with = "tree")]
    up: bool,
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
    rows: Vec<Row>,
}

/// One caller of one function.
#[derive(Debug, Serialize)]
struct Row {
    function: String,
    image: String,
    caller: Option<String>,
    call_site: Option<String>,
    samples: u64,
    percent: f64,
    base: &'static str,
}

/// Call site, where known, and the time under it.
type Site = (Option<usize>, Heat);

impl Query for Cg {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                cycles: true,
                stacks: self.tree().is_some(),
                ..NO_ROWS
            },
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        if let Some(direction) = self.tree() {
            return paths::answer(view, direction);
        }
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("samples"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Callers { rows }))
    }
}

/// All rows, those of the hottest functions first.
fn rows(view: &View<'_>) -> Vec<Row> {
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
        for (site, heat) in sites {
            if !view.is_enough(heat.samples) {
                continue;
            }
            rows.push(Row {
                function: function.name.clone(),
                image: view.image_path(function.image).to_owned(),
                caller: site.map(|pc| view.symbols.name_of(pc)),
                call_site: site.map(|pc| view.address(pc)),
                samples: heat.samples,
                percent: rounded(percent(heat.cycles, total.cycles), 1),
                base: "time",
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
            page.item(
                0,
                format!(
                    "{function} {:.1}% from {from}  [{}]",
                    row.percent, row.samples
                ),
            );
        }
        page
    }
}
