//! `branches`: directions of conditional branches.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{finish_rows, nothing};
use crate::args::Format;
use crate::failure::Failure;
use crate::names::Names;
use crate::render::{Align, Table, count, percent};
use crate::view::{View, as_float};

/// One branch.
#[derive(Debug, Serialize)]
struct Row {
    address: String,
    function: String,
    image: String,
    taken: u64,
    not_taken: u64,
    unknown: u64,
    #[serde(skip)]
    place: String,
}

/// The report.
pub(crate) fn report(view: &mut View<'_>, format: Format) -> Result<String, Failure> {
    let mut sums: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    for row in &view.profile.branches {
        if view.wants(row.pc) {
            let sum = sums.entry(row.pc).or_default();
            sum.0 = sum.0.saturating_add(row.taken);
            sum.1 = sum.1.saturating_add(row.not_taken);
            sum.2 = sum.2.saturating_add(row.unknown);
        }
    }
    let mut sums: Vec<_> = sums
        .into_iter()
        .filter(|(_, (taken, not_taken, unknown))| {
            let reached = taken.saturating_add(*not_taken).saturating_add(*unknown);
            reached >= view.min_samples
        })
        .collect();
    sums.sort_by_key(|(pc, (taken, not_taken, _))| {
        (std::cmp::Reverse(taken.saturating_add(*not_taken)), *pc)
    });
    let mut rows = Vec::new();
    for (index, (taken, not_taken, unknown)) in sums {
        let Some(pc) = view.profile.pcs.get(index) else {
            continue;
        };
        rows.push(Row {
            address: view.address(index),
            function: view.symbols.name_of(index),
            image: view.image_path(pc.image).to_owned(),
            taken,
            not_taken,
            unknown,
            place: view.symbols.describe(pc.image, pc.address),
        });
    }
    if rows.is_empty() {
        return Err(nothing("branches"));
    }
    let names = view.names;
    finish_rows(view, rows, format, |rows, out| text(rows, names, out))
}

fn text(rows: &Vec<Row>, names: Names, out: &mut String) {
    out.push_str(
        "Conditional branches that windows came by, by how often their direction was known;\n\
         `taken%` is of the known, `unknown` could not be told. Windows begin where time is\n\
         spent, so these are shares of windows and not of executions.\n\n",
    );
    let mut table = Table::new(&[
        ("taken%", Align::Right),
        ("taken", Align::Right),
        ("not taken", Align::Right),
        ("unknown", Align::Right),
        ("address", Align::Right),
        ("branch in", Align::Left),
        ("image", Align::Left),
    ]);
    for row in rows {
        let known = as_float(row.taken.saturating_add(row.not_taken));
        table.row(vec![
            if known > 0.0 {
                format!("{:.1}", percent(as_float(row.taken), known))
            } else {
                "-".to_owned()
            },
            count(row.taken),
            count(row.not_taken),
            count(row.unknown),
            row.address.clone(),
            names.shown(&row.place),
            row.image.clone(),
        ]);
    }
    table.print(out);
}
