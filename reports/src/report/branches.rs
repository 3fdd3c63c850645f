//! `branches`: directions of conditional branches.

use std::collections::BTreeMap;

use hotlist::weighted_interval;
use profiledb::BranchRow;
use protocol::Kinds;
use serde::Serialize;

use super::{nothing, seen};
use crate::args::OneFunction;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{NO_ROWS, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, percent, rounded};
use crate::view::View;

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: which branches go the same way each time?
  vcpi branches --function sqlite3GetVarint -n 2

  taken%     between  taken  not taken  unknown  address  branch in
     1.6     0.9-2.6     41       2562       17  0xe8d5e  sqlite3GetVarint+0xe
   100.0  99.5-100.0   2441          0        0  0xe8d88  sqlite3GetVarint+0x38

  A `taken%` near 0 or 100 says that the branch can be predicted; 50 that it may cost much.";

/// Directions of conditional branches.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Branches {
    #[command(flatten)]
    of: OneFunction,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Directions {
    rows: Vec<BranchSite>,
}

/// One branch.
#[derive(Debug, Serialize)]
struct BranchSite {
    address: String,
    function: String,
    image: String,
    /// In windows of a mean interval, as are the other two.
    taken: u64,
    not_taken: u64,
    unknown: u64,
    /// Percent of the known that are taken, and a 95 % interval; `null` where they are not told.
    percent: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    #[serde(skip)]
    place: String,
}

/// What rows of one branch say together.
#[derive(Debug)]
struct DirectionSums {
    /// Times that windows came by.
    reached: u64,
    /// What was taken, what was not, and what is unknown weighs.
    weights: [f64; 3],
    squares: Option<f64>,
}

impl DirectionSums {
    const NONE: DirectionSums = DirectionSums {
        reached: 0,
        weights: [0.0; 3],
        squares: Some(0.0),
    };

    fn add(&mut self, row: &BranchRow) {
        let times = [row.taken, row.not_taken, row.unknown];
        self.reached = times.into_iter().fold(self.reached, u64::saturating_add);
        for (sum, weight) in self.weights.iter_mut().zip(row.weights) {
            *sum += weight;
        }
        self.squares = self.squares.zip(row.squares).map(|(sum, more)| sum + more);
    }

    fn known(&self) -> f64 {
        self.weights[0] + self.weights[1]
    }

    fn percent(&self) -> Option<f64> {
        let known = self.known();
        (known > 0.0).then(|| percent(self.weights[0], known))
    }

    fn interval(&self) -> Option<(f64, f64)> {
        let known = self.known();
        let squares = self.squares.filter(|_| known > 0.0)?;
        let reached = known + self.weights[2];
        Some(weighted_interval(self.weights[0], known, squares, reached))
    }
}

impl Query for Branches {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: Kinds {
                branches: true,
                ..NO_ROWS
            },
            one_image: true,
            others: false,
            ..Needs::ROWS
        }
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = rows(view);
        if rows.is_empty() {
            return Err(nothing("branches"));
        }
        view.keep_first(&mut rows);
        Ok(Box::new(Directions { rows }))
    }
}

/// All rows, those seen most first.
fn rows(view: &mut View<'_>) -> Vec<BranchSite> {
    let mut sums: BTreeMap<usize, DirectionSums> = BTreeMap::new();
    for row in &view.profile.branches {
        if view.wants(row.pc) {
            sums.entry(row.pc).or_insert(DirectionSums::NONE).add(row);
        }
    }
    let mut sums: Vec<_> = sums
        .into_iter()
        .filter(|(_, sum)| view.is_enough(sum.reached))
        .collect();
    sums.sort_by(|(pc, a), (other, b)| b.known().total_cmp(&a.known()).then(pc.cmp(other)));
    let mut rows = Vec::new();
    for (index, sum) in sums {
        let Some(pc) = view.profile.pcs.get(index) else {
            continue;
        };
        let [taken, not_taken, unknown] = sum.weights.map(seen);
        let interval = sum.interval();
        rows.push(BranchSite {
            address: view.address(index),
            function: view.symbols.name_of(index),
            image: view.image_path(pc.image).to_owned(),
            taken,
            not_taken,
            unknown,
            percent: sum.percent().map(|percent| rounded(percent, 1)),
            low: interval.map(|(low, _)| rounded(low, 1)),
            high: interval.map(|(_, high)| rounded(high, 1)),
            place: view.symbols.describe(pc.image, pc.address),
        });
    }
    rows
}

/// What stands above the rows.
const ABOUT: &str = "Directions of conditional branches that windows came by.";

/// What else there is to know of it.
const MORE: &str = "\
    Branches stand by how often their direction was known;\n\
    `taken%` is of the known, with a 95 % interval; `unknown` could not be told. Windows begin\n\
    where time is spent: they count by their intervals, and those behind stalls in part.\n\
    So these are shares of windows, nearer to executions than to time.";

impl Model for Directions {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("taken%", Align::Right),
            ("between", Align::Right),
            ("taken", Align::Right),
            ("not taken", Align::Right),
            ("unknown", Align::Right),
            ("address", Align::Right),
            ("branch in", Align::Left),
            ("image", Align::Left),
        ]);
        for row in &self.rows {
            let one = |percent: f64| format!("{percent:.1}");
            let interval = row.low.zip(row.high);
            table.row(vec![
                row.percent.map_or_else(|| "-".to_owned(), one),
                interval.map_or_else(
                    || "-".to_owned(),
                    |(low, high)| format!("{low:.1}-{high:.1}"),
                ),
                count(row.taken),
                count(row.not_taken),
                count(row.unknown),
                row.address.clone(),
                names.shown(&row.place),
                row.image.clone(),
            ]);
        }
        page.table(table);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(times: [u64; 3], weights: [f64; 3], squares: Option<f64>) -> BranchRow {
        let [taken, not_taken, unknown] = times;
        BranchRow {
            process: 0,
            subject: 0,
            pc: 0,
            taken,
            not_taken,
            unknown,
            weights,
            squares,
        }
    }

    /// Shares are of what was seen weighs. There is an interval if all rows say how much their
    /// windows tell; the times that windows came by are those of all.
    #[test]
    fn weights() {
        let mut sum = DirectionSums::NONE;
        assert_eq!((sum.percent(), sum.interval()), (None, None));
        sum.add(&row([50, 10, 0], [5.0, 5.0, 0.0], Some(1.0)));
        assert_eq!((sum.reached, sum.percent()), (60, Some(50.0)));
        let (low, high) = sum.interval().expect("it is told");
        // As of a hundred draws.
        assert!((low - 40.4).abs() < 0.1 && (high - 59.6).abs() < 0.1);
        sum.add(&row([3, 0, 1], [10.0, 0.0, 1.0], None));
        assert_eq!((sum.reached, sum.percent()), (64, Some(75.0)));
        assert_eq!(sum.interval(), None);
    }

    /// What was seen is not nothing, however little it weighs.
    #[test]
    fn little() {
        assert_eq!([0.0, 0.01, 1.4, 1.6].map(seen), [0, 1, 1, 2]);
    }
}
