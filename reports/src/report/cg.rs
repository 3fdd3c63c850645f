//! `cg`: who calls a function from where, in percent of the time in it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{finish_rows, nothing};
use crate::args::Format;
use crate::failure::Failure;
use crate::names::Names;
use crate::render::{percent, rounded};
use crate::symbols::FunctionId;
use crate::view::{Heat, View};

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

/// The report.
pub(crate) fn report(view: &mut View<'_>, format: Format) -> Result<String, Failure> {
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
            if heat.samples < view.min_samples {
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
    if rows.is_empty() {
        return Err(nothing("samples"));
    }
    let names = view.names;
    finish_rows(view, rows, format, |rows, out| text(rows, names, out))
}

fn text(rows: &Vec<Row>, names: Names, out: &mut String) {
    out.push_str("Of the time in each function, the share under each call site (samples).\n\n");
    for row in rows {
        let from = match (&row.caller, &row.call_site) {
            (Some(caller), Some(site)) => format!("{} ({site})", names.shown(caller)),
            _ => "unknown callers".to_owned(),
        };
        out.push_str(&format!(
            "{} {:.1}% from {from}  [{}]\n",
            names.shown(&row.function),
            row.percent,
            row.samples
        ));
    }
}
