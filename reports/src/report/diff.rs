//! `diff`: what changed between two profiles.
//!
//! Functions are compared by their shares of the samples, instructions by the shares of their
//! values. What chance alone explains is left out.

mod pairs;
mod statistics;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use profiledb::Apart;
use serde::{Serialize, Serializer};

use self::pairs::{Families, Key};
use self::statistics::{by_counts, limit};
use self::values::ComparedValues;
use crate::failure::Failure;
use crate::model::Model;
use crate::names::Names;
use crate::needs::Needs;
use crate::page::Page;
use crate::query::{Answer, Comparison, Side};
use crate::render::{Align, Table, count, counted, cycles, percent, rounded, whole};
use crate::view::{Heat, View, as_float};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: what did a change do?
  vcpid record -o old.db -- ./old/shop
  vcpid record -o new.db -- ./new/shop
  vcpi diff old.db new.db

  before%  after%  change      samples     p  function
    61.82   66.58   +4.76  4064 > 3361  1e-7  evaluate
    13.37   10.52   -2.85    898 > 530  3e-6  __memcpy_avx512_unaligned_erms
     2.65    1.71   -0.94     167 > 86  8e-4  clear

  Functions stand here if their share of the time changed by more than chance explains, and below
  them the values that changed.";

/// What changed between two databases, or between two epochs.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Diff {
    /// Before: a database, a directory or a socket; an epoch of it (`FILE@EPOCH`); or an epoch of
    /// what -i names (`@EPOCH`).
    #[arg(value_name = "A")]
    before: String,
    /// After: as before.
    #[arg(value_name = "B")]
    after: String,
    /// Show what did not change, too.
    #[arg(long)]
    all: bool,
}

/// In place of a share on the side that has no samples.
const NONE: &str = "-";

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Changes {
    rows: Vec<FunctionChange>,
    #[serde(skip)]
    names: [String; 2],
    #[serde(skip)]
    totals: [Heat; 2],
    /// How many functions and parameters were compared.
    #[serde(skip)]
    compared: (usize, usize),
}

/// A function on both sides.
#[derive(Debug, Serialize)]
struct FunctionChange {
    key: String,
    image: String,
    before: Option<FunctionSide>,
    after: Option<FunctionSide>,
    /// In percentage points.
    change: f64,
    /// How often chance alone would make the shares differ as much.
    #[serde(serialize_with = "significant")]
    p: f64,
    changed: bool,
    profiles: Vec<ComparedValues>,
}

/// A function on one side, as `top` has it.
#[derive(Debug, Clone, Copy, Serialize)]
struct FunctionSide {
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    heat: Heat,
    percent: f64,
    samples: u64,
}

impl Comparison for Diff {
    fn needs(&self) -> Needs<'_> {
        Needs {
            // Both sides name what one of them found.
            one_function: false,
            min_samples: 10,
            others: false,
            // How unequal samples are is a part of the answer.
            apart: Apart::Rows,
            ..Needs::ROWS
        }
    }

    fn sides(&self) -> Result<[Side; 2], Failure> {
        Ok([side(&self.before)?, side(&self.after)?])
    }

    fn answer<'p>(&self, before: &mut View<'p>, after: &mut View<'p>) -> Answer<'p> {
        let families = Families::new([&*before, &*after]);
        let totals = [before.total(), after.total()];
        let mut rows = functions([&*before, &*after], &families);
        let compared = (
            rows.len(),
            values::add([&mut *before, &mut *after], &families, &mut rows),
        );
        mark(&mut rows);
        if !self.all {
            for row in rows.values_mut() {
                row.profiles.retain(|profile| profile.changed);
            }
            rows.retain(|_, row| row.changed || !row.profiles.is_empty());
        }
        after.notes.extend(families.notes);
        if rows.is_empty() {
            return Err(Failure::Nothing(format!(
                "nothing changed that chance does not explain: {} and {} were compared",
                counted(compared.0 as u64, "function"),
                counted(compared.1 as u64, "parameter"),
            )));
        }
        let mut rows: Vec<FunctionChange> = rows.into_values().collect();
        rows.sort_by(|a, b| {
            let size = b.change.abs().total_cmp(&a.change.abs());
            size.then_with(|| a.key.cmp(&b.key))
        });
        after.keep_first(&mut rows);
        Ok(Box::new(Changes {
            rows,
            names: [self.before.clone(), self.after.clone()],
            totals,
            compared,
        }))
    }
}

/// The profile that a word means: a path that exists, else a path or nothing with an epoch behind.
fn side(word: &str) -> Result<Side, Failure> {
    let side = |file: Option<&str>, epoch| Side {
        name: word.to_owned(),
        input: file.map(PathBuf::from),
        epoch,
    };
    let failed = match fs::metadata(word) {
        Ok(_) => return Ok(side(Some(word), None)),
        Err(error) => (word, error),
    };
    let epoch = word.rsplit_once('@');
    let epoch = epoch.and_then(|(file, id)| Some((file, id.parse::<i64>().ok()?)));
    let (file, error) = match epoch {
        Some(("", id)) => return Ok(side(None, Some(id))),
        Some((file, id)) => match fs::metadata(file) {
            Ok(_) => return Ok(side(Some(file), Some(id))),
            Err(error) => (file, error),
        },
        None => failed,
    };
    Err(Failure::Input(format!(
        "{file}: {error}\nwrite FILE, FILE@EPOCH, or @EPOCH of what -i names (`vcpi status` lists \
         epochs)"
    )))
}

/// A row for each function that either side has samples of.
fn functions(views: [&View<'_>; 2], families: &Families) -> BTreeMap<Key, FunctionChange> {
    let mut parts: BTreeMap<Key, [Heat; 2]> = BTreeMap::new();
    // What samples weigh is not the same everywhere: as many alike tell as much (Kish).
    let mut squares = [0.0; 2];
    for (side, view) in views.into_iter().enumerate() {
        for row in &view.profile.cycles {
            squares[side] += row.cycles * row.cycles / as_float(row.samples.max(1));
            let id = view.symbols.function_of(row.pc);
            let key = id.and_then(|id| families.key(side, view, id));
            if let Some(key) = key.filter(|_| view.wants(row.pc)) {
                parts.entry(key).or_default()[side].add(Heat {
                    samples: row.samples,
                    cycles: row.cycles,
                });
            }
        }
    }
    let totals = views.map(View::total);
    let draws = [0, 1].map(|side: usize| {
        let all = totals[side].cycles;
        let draws = all * all / f64::max(squares[side], f64::MIN_POSITIVE);
        draws.min(as_float(totals[side].samples))
    });
    let row = |(key, heats): (Key, [Heat; 2])| {
        let shares = [0, 1].map(|side: usize| percent(heats[side].cycles, totals[side].cycles));
        let drawn = [0, 1].map(|side: usize| {
            (
                whole(shares[side] / 100.0 * draws[side]),
                whole(draws[side]),
            )
        });
        let part = |side: usize| {
            (heats[side].samples > 0).then_some(FunctionSide {
                heat: heats[side],
                percent: rounded(shares[side], 2),
                samples: heats[side].samples,
            })
        };
        let row = FunctionChange {
            key: match &key.name {
                Some(name) => name.clone(),
                None => format!("{} (code without names)", families.name(key.family)),
            },
            image: families.name(key.family).to_owned(),
            before: part(0),
            after: part(1),
            change: rounded(shares[1] - shares[0], 2),
            p: by_counts(drawn[0], drawn[1]),
            changed: false,
            profiles: Vec::new(),
        };
        (key, row)
    };
    parts.into_iter().map(row).collect()
}

impl FunctionChange {
    /// A function without samples on either side.
    fn of_values(key: &Key, families: &Families) -> FunctionChange {
        FunctionChange {
            key: key.name.clone().unwrap_or_default(),
            image: families.name(key.family).to_owned(),
            before: None,
            after: None,
            change: 0.0,
            p: 1.0,
            changed: false,
            profiles: Vec::new(),
        }
    }
}

/// Marks what changed: functions among functions, parameters among parameters.
fn mark(rows: &mut BTreeMap<Key, FunctionChange>) {
    let of_functions = limit(rows.values().map(|row| row.p).collect());
    let profiles = rows.values().flat_map(|row| &row.profiles);
    let of_values = limit(profiles.map(|profile| profile.p).collect());
    for row in rows.values_mut() {
        row.changed = row.p <= of_functions;
        for profile in &mut row.profiles {
            profile.changed = profile.p <= of_values;
        }
        row.profiles.sort_by(|a, b| a.p.total_cmp(&b.p));
    }
}

/// What stands above the rows.
const ABOUT: &str = "What changed by more than chance explains, as shares of all cycles of a side.";

/// What else there is to know of it.
const MORE: &str = "\
    A function is here if its share changed by more than\n\
    chance explains (Fisher's exact test on samples, as independent draws), or the share of a\n\
    value in it did (by the 95 % intervals of both). One in twenty of them may still be chance\n\
    (Benjamini and Hochberg). Below a function: an instruction's values that changed, as shares\n\
    of those known in windows. What may be an address counts as one value, since memory lies\n\
    elsewhere in each process.";

impl Model for Changes {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        for (when, (name, total)) in ["before", "after "]
            .iter()
            .zip(self.names.iter().zip(&self.totals))
        {
            page.item(
                0,
                format!(
                    "{when}: {name}, {} cycles in {}",
                    cycles(total.cycles),
                    counted(total.samples, "sample")
                ),
            );
        }
        let (functions, parameters) = self.compared;
        page.item(
            0,
            format!(
                "{} and {} were compared",
                counted(functions as u64, "function"),
                counted(parameters as u64, "parameter")
            ),
        );
        page.gap();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("before%", Align::Right),
            ("after%", Align::Right),
            ("change", Align::Right),
            ("samples", Align::Right),
            ("p", Align::Right),
            ("function", Align::Left),
            ("image", Align::Left),
        ]);
        for row in &self.rows {
            table.row(row.cells(names));
            for profile in &row.profiles {
                table.line(&profile.line());
            }
        }
        page.table(table);
        page
    }
}

impl FunctionChange {
    fn cells(&self, names: Names) -> Vec<String> {
        let share = |part: &Option<FunctionSide>| {
            part.map_or_else(|| NONE.to_owned(), |part| format!("{:.2}", part.percent))
        };
        let samples = |part: &Option<FunctionSide>| part.map_or(0, |part| part.samples);
        vec![
            share(&self.before),
            share(&self.after),
            format!("{:+.2}", self.change),
            format!(
                "{} > {}",
                count(samples(&self.before)),
                count(samples(&self.after))
            ),
            chance(self.p),
            names.shown(&self.key),
            self.image.clone(),
        ]
    }
}

/// Probabilities below this one are not told apart.
const LEAST: f64 = 1e-9;

/// A probability as JSON has it: two digits.
fn significant<S: Serializer>(p: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let short = format!("{:.1e}", p.max(LEAST)).parse().unwrap_or(*p);
    serializer.serialize_f64(short)
}

/// A probability as a short number.
fn chance(p: f64) -> String {
    match p {
        ..LEAST => "<1e-9".to_owned(),
        ..0.001 => format!("{p:.0e}"),
        _ => format!("{p:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What exists is a file, whatever its name; `@` names an epoch of a file or of the input.
    #[test]
    fn sides() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["a.db", "b@2"] {
            std::fs::write(path(name), "").expect("writes");
        }
        let told = |word: &str| side(word).map(|side| (side.input, side.epoch)).ok();
        let file = |name: &str| Some(PathBuf::from(path(name)));
        assert_eq!(told(&path("a.db")), Some((file("a.db"), None)));
        assert_eq!(told(&path("b@2")), Some((file("b@2"), None)));
        assert_eq!(told(&path("a.db@7")), Some((file("a.db"), Some(7))));
        assert_eq!(told("@3"), Some((None, Some(3))));
        for wrong in ["@", "@x", "no such file", "no-such@1"] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }
}
