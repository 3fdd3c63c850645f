//! `targets`: where indirect calls and jumps went.
//!
//! Calls tell their callee as an address in an image, which has a name. The
//! values of the parameter `target` are addresses in a process. Those of executions say which
//! shares the callees have; those of windows stand in where no callee was recorded.

use std::collections::BTreeMap;

use hotlist::weighted_interval;
use iced_x86::FlowControl;
use profiledb::CallRow;
use protocol::Kinds;
use serde::Serialize;

use super::{nothing, seen};
use crate::args::OneFunction;
use crate::code::is_indirect;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, percent, rounded, whole};
use crate::view::{Base, JSON_VALUES, Share, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which indirect calls have one target nearly always?
  vcpi targets --function even_target

  percent    between  count  target         address
  call at 0x19a1 in even_target+0x11 (shares), 6621 known, 0 unknown
     95.3  93.6-96.5   6307  target_common   0x14f0
      4.7    3.5-6.4    314  target_rare     0x1500

  A call that has one target in 95 % of the windows can test for it and call it directly.";

/// Targets of indirect calls and jumps.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Targets {
    #[command(flatten)]
    of: OneFunction,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Transfers {
    rows: Vec<IndirectTransfer>,
}

/// One indirect call or jump.
#[derive(Debug, Serialize)]
struct IndirectTransfer {
    address: String,
    /// What the counts are of: windows or executions.
    base: Base,
    function: String,
    image: String,
    kind: &'static str,
    targets: Vec<TransferTarget>,
    /// Times it was reached without a known target.
    unknown: u64,
    #[serde(skip)]
    place: String,
    #[serde(skip)]
    total: u64,
    /// Times that windows came by.
    #[serde(skip)]
    reached: u64,
}

/// One of its targets.
#[derive(Debug, Serialize)]
struct TransferTarget {
    target: Option<String>,
    address: String,
    /// In windows of a mean interval, or executions.
    count: u64,
    percent: f64,
    /// A 95 % interval of the percentage; `null` where it is not told.
    low: Option<f64>,
    high: Option<f64>,
}

impl TransferTarget {
    /// With counts that are whole, and a share that has an interval.
    fn new(target: Option<String>, address: u64, share: &TargetShare) -> TransferTarget {
        TransferTarget {
            target,
            address: format!("0x{address:x}"),
            count: whole(share.estimate),
            percent: rounded(share.percent, 1),
            low: Some(rounded(share.low, 1)),
            high: Some(rounded(share.high, 1)),
        }
    }
}

/// The share of a target, or of its addresses in several processes.
#[derive(Debug, Clone, Copy, Default)]
struct TargetShare {
    estimate: f64,
    percent: f64,
    low: f64,
    high: f64,
}

impl TargetShare {
    /// Bounds of a sum are no further apart than those of its parts together.
    fn add(&mut self, share: &Share) {
        self.estimate += share.estimate;
        self.percent += share.percent;
        self.low += share.low;
        self.high = (self.high + share.high).min(100.0);
    }
}

impl From<&Share> for TargetShare {
    fn from(share: &Share) -> TargetShare {
        let mut sum = TargetShare::default();
        sum.add(share);
        sum
    }
}

/// Windows that came back to a site, for its executions to be told: chance moves shares by up to
/// ten points in a hundred. What windows meet is off by as much behind stalls.
const ENOUGH: u64 = 100;

/// Where one site leads, by executions.
///
/// Calls are counted in all windows, and windows begin where time goes: what stands behind a stall
/// is met too often (`docs/decisions/059-which-windows-count.md`). Values behind the first of their
/// window have forgotten that.
pub(super) struct ExecutedTargets {
    /// Executions whose target is known.
    known: u64,
    /// Executions whose target is not.
    unknown: u64,
    /// The targets by image and address.
    targets: BTreeMap<(usize, u64), TargetShare>,
}

impl ExecutedTargets {
    /// Those of the sites of calls and jumps that have some.
    pub(super) fn of_all(view: &View<'_>) -> BTreeMap<usize, ExecutedTargets> {
        let mut values = view.values_of("target");
        values.retain(|values| values.base.is_of_executions());
        ExecutedTargets::of_sites(view, &values)
    }

    fn of_sites(view: &View<'_>, values: &[Values]) -> BTreeMap<usize, ExecutedTargets> {
        let targets = |values: &Values| Some((values.pc, ExecutedTargets::new(view, values)?));
        values.iter().filter_map(targets).collect()
    }

    /// The image and address of the most frequent one; its share with the 95 % interval, in
    /// percent; and how many executions are known.
    pub(super) fn most_frequent(&self) -> Option<((usize, u64), [f64; 3], u64)> {
        let targets = self.targets.iter();
        let (place, most) = targets.max_by(|(_, a), (_, b)| a.estimate.total_cmp(&b.estimate))?;
        Some((*place, [most.percent, most.low, most.high], self.known))
    }

    /// Those that enough windows came back to, and all of which are places of images.
    fn new(view: &View<'_>, values: &Values) -> Option<ExecutedTargets> {
        if values.windows < ENOUGH {
            return None;
        }
        let mut targets: BTreeMap<(usize, u64), TargetShare> = BTreeMap::new();
        for share in &values.shares {
            let place = view.pointers.image_at(share.value)?;
            targets.entry(place).or_default().add(share);
        }
        Some(ExecutedTargets {
            known: values.samples(),
            unknown: values.unknown,
            targets,
        })
    }
}

/// What rows of one site and callee say together.
#[derive(Debug, Clone, Copy)]
struct TargetSum {
    /// Times that windows came by.
    times: u64,
    weight: f64,
    squares: Option<f64>,
}

impl TargetSum {
    const NONE: TargetSum = TargetSum {
        times: 0,
        weight: 0.0,
        squares: Some(0.0),
    };

    fn add(&mut self, row: &CallRow) {
        self.times = self.times.saturating_add(row.calls);
        self.weight += row.weight;
        self.squares = self.squares.zip(row.squares).map(|(sum, more)| sum + more);
    }
}

/// By the callee; `None`: it is not known.
type Callees = BTreeMap<Option<usize>, TargetSum>;

impl Query for Targets {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                values: true,
                calls: true,
                ..NO_ROWS
            },
            parameters: &["target"],
            one_image: true,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("indirect calls or jumps"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Transfers { rows }))
    }
}

/// All rows, those seen most first.
fn rows(view: &mut View<'_>) -> Vec<IndirectTransfer> {
    let mut calls: BTreeMap<usize, Callees> = BTreeMap::new();
    for row in &view.profile.calls {
        if view.wants(row.site) && kind(view, row.site).is_some() {
            let callees = calls.entry(row.site).or_default();
            callees
                .entry(row.callee)
                .or_insert(TargetSum::NONE)
                .add(row);
        }
    }
    let values = view.values_of("target").into_iter();
    let (of_executions, of_windows): (Vec<Values>, Vec<Values>) =
        values.partition(|values| values.base.is_of_executions());
    let executed = ExecutedTargets::of_sites(view, &of_executions);
    let mut rows = Vec::new();
    for (site, callees) in &calls {
        rows.extend(match executed.get(site) {
            Some(executed) => from_executions(view, *site, callees, executed),
            None => from_calls(view, *site, callees),
        });
    }
    for values in of_windows {
        if calls.contains_key(&values.pc) {
            continue;
        }
        let kind = kind(view, values.pc).unwrap_or("unknown");
        let shares = values.shares.iter().take(JSON_VALUES);
        let targets = shares
            .map(|share| TransferTarget::new(None, share.value, &share.into()))
            .collect();
        rows.extend(row(
            view,
            values.pc,
            (Base::Windows, kind),
            targets,
            (values.reached, values.samples(), values.unknown),
        ));
    }
    rows.retain(|row| view.is_enough(row.reached));
    rows.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.place.cmp(&b.place)));
    rows
}

/// The shares of executions, where these are known.
fn from_executions(
    view: &mut View<'_>,
    site: usize,
    callees: &Callees,
    executed: &ExecutedTargets,
) -> Option<IndirectTransfer> {
    let mut heaviest: Vec<_> = executed.targets.iter().collect();
    heaviest.sort_by(|(_, a), (_, b)| b.estimate.total_cmp(&a.estimate));
    let target = |(&(image, address), share): (&(usize, u64), &TargetShare)| {
        let name = view.symbols.describe(image, address);
        TransferTarget::new(Some(name), address, share)
    };
    let targets = heaviest.into_iter().map(target).collect();
    let kind = kind(view, site)?;
    let totals = (reached(callees), executed.known, executed.unknown);
    row(view, site, (Base::Executions, kind), targets, totals)
}

/// Times that windows came by.
fn reached(callees: &Callees) -> u64 {
    let times = callees.values().map(|sum| sum.times);
    times.fold(0, u64::saturating_add)
}

fn from_calls(view: &mut View<'_>, site: usize, callees: &Callees) -> Option<IndirectTransfer> {
    let told = || callees.iter().filter(|(callee, _)| callee.is_some());
    let known: f64 = told().map(|(_, sum)| sum.weight).sum();
    let unknown = callees.get(&None).map_or(0.0, |sum| sum.weight);
    // What windows weigh at all callees together is not kept. The root of the sum of its squares is
    // at most the sum of the roots of those of each callee (H. Minkowski's inequality).
    let roots = told().map(|(_, sum)| sum.squares.map(f64::sqrt));
    let squares = roots.sum::<Option<f64>>().map(|root| root * root);
    let mut heaviest: Vec<_> = told().collect();
    heaviest.sort_by(|(_, a), (_, b)| b.weight.total_cmp(&a.weight));
    let targets: Vec<TransferTarget> = heaviest
        .into_iter()
        .filter_map(|(callee, sum)| {
            let pc = view.profile.pcs.get((*callee)?)?;
            let interval = |squares| weighted_interval(sum.weight, known, squares, known + unknown);
            let interval = squares.map(interval);
            Some(TransferTarget {
                target: Some(view.symbols.describe(pc.image, pc.address)),
                address: format!("0x{:x}", pc.address),
                count: seen(sum.weight),
                percent: rounded(percent(sum.weight, known), 1),
                low: interval.map(|(low, _)| rounded(low, 1)),
                high: interval.map(|(_, high)| rounded(high, 1)),
            })
        })
        .collect();
    let kind = kind(view, site)?;
    let totals = (reached(callees), seen(known), seen(unknown));
    row(view, site, (Base::Windows, kind), targets, totals)
}

fn row(
    view: &mut View<'_>,
    index: usize,
    (base, kind): (Base, &'static str),
    targets: Vec<TransferTarget>,
    (reached, total, unknown): (u64, u64, u64),
) -> Option<IndirectTransfer> {
    let pc = view.profile.pcs.get(index)?;
    Some(IndirectTransfer {
        address: view.address(index),
        base,
        function: view.symbols.name_of(index),
        image: view.image_path(pc.image).to_owned(),
        kind,
        targets,
        unknown,
        place: view.symbols.describe(pc.image, pc.address),
        total,
        reached,
    })
}

/// What an indirect transfer is; `None` for other instructions and unread ones.
pub(super) fn kind(view: &View<'_>, index: usize) -> Option<&'static str> {
    let instruction = view.instruction(index).filter(is_indirect)?;
    match instruction.flow_control() {
        FlowControl::IndirectCall => Some("call"),
        _ => Some("jump"),
    }
}

/// What stands above the rows.
const ABOUT: &str = "Indirect calls and jumps that windows came by, and where they went.";

/// What else there is to know of it.
const MORE: &str = "\
    Percent is of the known targets, with a 95 % interval: by executions where windows come\n\
    back to the site. Elsewhere it is of windows. These begin where time is spent; they count\n\
    by their intervals, and those behind stalls in part.";

impl Model for Transfers {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("percent", Align::Right),
            ("between", Align::Right),
            ("count", Align::Right),
            ("target", Align::Left),
            ("address", Align::Right),
        ]);
        for row in &self.rows {
            table.line(&format!(
                "{} at {} in {} ({}){}, {} known, {} unknown",
                row.kind,
                row.address,
                names.shown(&row.place),
                row.image,
                row.base.words(),
                count(row.total),
                count(row.unknown)
            ));
            for target in &row.targets {
                table.row(vec![
                    format!("{:.1}", target.percent),
                    match (target.low, target.high) {
                        (Some(low), Some(high)) => format!("{low:.1}-{high:.1}"),
                        _ => "-".to_owned(),
                    },
                    count(target.count),
                    match &target.target {
                        Some(name) => names.shown(name),
                        None => "address in the process".to_owned(),
                    },
                    target.address.clone(),
                ]);
            }
        }
        page.table(table);
        page
    }
}
