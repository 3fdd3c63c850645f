//! `targets`: where indirect calls and jumps went.
//!
//! Calls tell their callee as an address in an image, which has a name. The
//! values of the parameter `target` are addresses in a process; they stand in
//! where no callee was recorded, which is so for jumps.

use std::collections::BTreeMap;

use iced_x86::FlowControl;
use serde::Serialize;

use super::{JSON_VALUES, finish_rows, nothing};
use crate::args::Format;
use crate::code::{decode, is_indirect};
use crate::failure::Failure;
use crate::names::Names;
use crate::render::{Align, Table, count, percent, rounded, whole};
use crate::view::{Base, View, as_float};

/// One indirect call or jump.
#[derive(Debug, Serialize)]
struct Row {
    address: String,
    function: String,
    image: String,
    kind: &'static str,
    targets: Vec<Target>,
    /// Times it was reached without a known target.
    unknown: u64,
    #[serde(skip)]
    place: String,
    #[serde(skip)]
    total: u64,
}

/// One of its targets.
#[derive(Debug, Serialize)]
struct Target {
    target: Option<String>,
    address: String,
    count: u64,
    percent: f64,
}

/// The report.
pub(crate) fn report(view: &mut View<'_>, format: Format) -> Result<String, Failure> {
    let mut calls: BTreeMap<usize, BTreeMap<Option<usize>, u64>> = BTreeMap::new();
    for row in &view.profile.calls {
        if view.wants(row.site) && kind(view, row.site).is_some() {
            let sum = calls
                .entry(row.site)
                .or_default()
                .entry(row.callee)
                .or_default();
            *sum = sum.saturating_add(row.calls);
        }
    }
    let mut rows = Vec::new();
    for (site, callees) in &calls {
        rows.extend(from_calls(view, *site, callees));
    }
    for values in view.values(false) {
        let told = calls.contains_key(&values.pc);
        if values.parameter != "target" || values.base == Base::Executions || told {
            continue;
        }
        let kind = kind(view, values.pc).unwrap_or("unknown");
        let targets: Vec<Target> = values
            .shares
            .iter()
            .take(JSON_VALUES)
            .map(|share| Target {
                target: None,
                address: format!("0x{:x}", share.value),
                count: whole(share.estimate),
                percent: rounded(share.percent, 1),
            })
            .collect();
        rows.extend(row(
            view,
            values.pc,
            kind,
            targets,
            values.samples(),
            values.unknown,
        ));
    }
    rows.retain(|row| row.total.saturating_add(row.unknown) >= view.min_samples);
    rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.place.cmp(&b.place)));
    if rows.is_empty() {
        return Err(nothing("indirect calls or jumps"));
    }
    let names = view.names;
    finish_rows(view, rows, format, |rows, out| text(rows, names, out))
}

fn from_calls(
    view: &mut View<'_>,
    site: usize,
    callees: &BTreeMap<Option<usize>, u64>,
) -> Option<Row> {
    let known: u64 = callees
        .iter()
        .filter(|(callee, _)| callee.is_some())
        .map(|(_, calls)| *calls)
        .fold(0, u64::saturating_add);
    let mut targets: Vec<Target> = callees
        .iter()
        .filter_map(|(callee, calls)| {
            let pc = view.profile.pcs.get((*callee)?)?;
            Some(Target {
                target: Some(view.symbols.describe(pc.image, pc.address)),
                address: format!("0x{:x}", pc.address),
                count: *calls,
                percent: rounded(percent(as_float(*calls), as_float(known)), 1),
            })
        })
        .collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.count));
    let unknown = callees.get(&None).copied().unwrap_or(0);
    let kind = kind(view, site)?;
    row(view, site, kind, targets, known, unknown)
}

fn row(
    view: &mut View<'_>,
    index: usize,
    kind: &'static str,
    targets: Vec<Target>,
    total: u64,
    unknown: u64,
) -> Option<Row> {
    let pc = view.profile.pcs.get(index)?;
    Some(Row {
        address: view.address(index),
        function: view.symbols.name_of(index),
        image: view.image_path(pc.image).to_owned(),
        kind,
        targets,
        unknown,
        place: view.symbols.describe(pc.image, pc.address),
        total,
    })
}

/// What an indirect transfer is; `None` for other instructions and unread ones.
pub(super) fn kind(view: &View<'_>, index: usize) -> Option<&'static str> {
    let pc = view.profile.pcs.get(index)?;
    let bytes = match pc.bytes.as_deref() {
        Some(bytes) => bytes,
        None => view.symbols.elf(pc.image)?.bytes(pc.address)?,
    };
    let instruction = decode(bytes, pc.address).filter(is_indirect)?;
    match instruction.flow_control() {
        FlowControl::IndirectCall => Some("call"),
        _ => Some("jump"),
    }
}

fn text(rows: &Vec<Row>, names: Names, out: &mut String) {
    out.push_str(
        "Indirect calls and jumps that windows came by, and where they went; percent is of the\n\
         known targets. Windows begin where time is spent, so this is not a count of executions.\n\n",
    );
    let mut table = Table::new(&[
        ("percent", Align::Right),
        ("count", Align::Right),
        ("target", Align::Left),
        ("address", Align::Right),
    ]);
    for row in rows {
        table.line(&format!(
            "{} at {} in {} ({}), {} known, {} unknown",
            row.kind,
            row.address,
            names.shown(&row.place),
            row.image,
            count(row.total),
            count(row.unknown)
        ));
        for target in &row.targets {
            table.row(vec![
                format!("{:.1}", target.percent),
                count(target.count),
                match &target.target {
                    Some(name) => names.shown(name),
                    None => "address in the process".to_owned(),
                },
                target.address.clone(),
            ]);
        }
    }
    table.print(out);
}
