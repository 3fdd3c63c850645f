//! `top`: where the cycles are.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{finish, nothing};
use crate::args::{Format, TopBy};
use crate::failure::Failure;
use crate::names::Names;
use crate::render::{Align, Table, count, cycles, percent, rounded, whole};
use crate::view::{Heat, View, as_float};

/// One line of the report.
#[derive(Debug, Serialize)]
struct Row {
    key: String,
    cycles: u64,
    percent: f64,
    samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
}

/// What rows are added up by; indices into the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Image(usize),
    Function(usize),
    Instruction(usize),
    Process(usize),
}

/// The report.
pub(crate) fn report(view: &mut View<'_>, by: TopBy, format: Format) -> Result<String, Failure> {
    let profile = view.profile;
    let mut sums: BTreeMap<Key, Heat> = BTreeMap::new();
    for row in &profile.cycles {
        if !view.wants(row.pc) {
            continue;
        }
        let key = match by {
            TopBy::Image => profile.pcs.get(row.pc).map(|pc| Key::Image(pc.image)),
            TopBy::Function => view.symbols.function_of(row.pc).map(Key::Function),
            TopBy::Instruction => Some(Key::Instruction(row.pc)),
            TopBy::Process => Some(Key::Process(row.process)),
        };
        if let Some(key) = key {
            sums.entry(key).or_default().add(Heat {
                samples: row.samples,
                cycles: row.cycles,
            });
        }
    }
    // Shares are of all that was collected, not of what is shown.
    let total = view.total();
    let mut sums: Vec<(Key, Heat)> = sums
        .into_iter()
        .filter(|(_, heat)| heat.samples >= view.min_samples)
        .collect();
    sums.sort_by(|a, b| b.1.cycles.total_cmp(&a.1.cycles).then(a.0.cmp(&b.0)));
    let rows: Vec<Row> = sums
        .into_iter()
        .map(|(key, heat)| row(view, key, heat, total))
        .collect();
    if rows.is_empty() {
        return Err(nothing("samples"));
    }
    let names = view.names;
    finish(&rows, format, |rows, out| {
        text(rows, by, total, names, out);
    })
}

fn row(view: &mut View<'_>, key: Key, heat: Heat, total: Heat) -> Row {
    let profile = view.profile;
    let mut row = Row {
        key: String::new(),
        cycles: whole(heat.cycles),
        percent: rounded(percent(heat.cycles, total.cycles), 2),
        samples: heat.samples,
        image: None,
        address: None,
        pid: None,
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
        Key::Process(index) => {
            if let Some(process) = profile.processes.get(index) {
                row.key = format!("{}[{}]", process.comm, process.pid);
                row.pid = Some(process.pid);
            }
        }
    }
    row
}

fn text(rows: &Vec<Row>, by: TopBy, total: Heat, names: Names, out: &mut String) {
    out.push_str(&format!(
        "{} cycles in {} samples (k, M, G, T: 10^3, 10^6, 10^9, 10^12)\n\n",
        cycles(total.cycles),
        count(total.samples)
    ));
    let title = match by {
        TopBy::Image => "image",
        TopBy::Function => "function",
        TopBy::Instruction => "instruction",
        TopBy::Process => "process",
    };
    let mut columns = vec![
        ("percent", Align::Right),
        ("cycles", Align::Right),
        ("samples", Align::Right),
        (title, Align::Left),
    ];
    let located = matches!(by, TopBy::Function | TopBy::Instruction);
    if located {
        columns.push(("image", Align::Left));
    }
    let mut table = Table::new(&columns);
    for row in rows {
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
        table.row(cells);
    }
    table.print(out);
}
