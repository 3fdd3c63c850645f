//! What a recording says of branches and indirect calls, against exact counts of the same load.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use vcpi_tests::exact::{At, Exact, Files, InstructionKind};

use super::database::rows;

/// How right a recording is. Shares are of executions.
#[derive(Debug, Default)]
pub(super) struct Accuracy {
    /// Branches of which a direction is known, and their part of the executions of all.
    branches: u64,
    met: f64,
    /// Mean error of the probability of being taken, and the part that goes the other way mostly.
    error: f64,
    wrong: f64,
    /// Sites of indirect calls and jumps that were met, and their part of the calls of all.
    sites: u64,
    sites_met: f64,
    /// Part of the calls whose most frequent target was told, and the overlap of all targets.
    top: f64,
    overlap: f64,
}

/// A target that comes nearly as often as the most frequent one is as good as that.
const AS_GOOD: f64 = 0.95;

/// Whether a database has what branches and calls weigh; those of older builds count each once.
const WEIGHS: &str = "SELECT count(*) FROM pragma_table_info('branch') WHERE name = 'taken_weight'";
const BRANCHES: &str = "FROM branch \
    JOIN pc ON pc.id = branch.pc JOIN image ON image.id = pc.image GROUP BY 1, 2";
const CALLS: &str = "FROM call \
    JOIN pc ON pc.id = call.site JOIN image ON image.id = pc.image \
    LEFT JOIN pc p2 ON p2.id = call.callee LEFT JOIN image i2 ON i2.id = p2.image \
    GROUP BY 1, 2, 3, 4";

impl Accuracy {
    /// Compares a database with exact counts.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub(super) fn of(database: &Path, exact: &Exact) -> Result<Self> {
        let mut files = Files::default();
        let mut verdict = Self::default();
        let weighs = rows(database, WEIGHS)? == [["1"]];
        let (taken, not_taken, calls) = match weighs {
            true => ("taken_weight", "not_taken_weight", "weight"),
            false => ("taken", "not_taken", "calls"),
        };
        let branches =
            format!("SELECT image.path, pc.address, sum({taken}), sum({not_taken}) {BRANCHES}");
        let calls = format!(
            "SELECT image.path, pc.address, coalesce(i2.path, ''), \
             coalesce(p2.address, 0), sum({calls}) {CALLS}"
        );
        verdict.judge_branches(rows(database, &branches)?, exact, &mut files)?;
        verdict.judge_targets(rows(database, &calls)?, exact, &mut files)?;
        Ok(verdict)
    }

    fn judge_branches(
        &mut self,
        rows: Vec<Vec<String>>,
        exact: &Exact,
        files: &mut Files,
    ) -> Result<()> {
        let mut seen = HashMap::new();
        for row in rows {
            let [path, address, rest @ ..] = row.as_slice() else {
                continue;
            };
            let [taken, not] = weights(rest)?;
            seen.insert((path.clone(), number(address)?), (taken, not));
        }
        let (mut all, mut met, mut error, mut wrong) = (0.0, 0.0, 0.0, 0.0);
        for (at, &executed) in &exact.executed {
            if executed == 0 || files.kind(at) != InstructionKind::Conditional {
                continue;
            }
            let taken = exact.taken.get(at).copied().unwrap_or_default();
            let weight = executed as f64;
            all += weight;
            let Some((yes, no)) = seen.get(at).filter(|(yes, no)| yes + no > 0.0) else {
                continue;
            };
            let (p, truth) = (yes / (yes + no), taken as f64 / weight);
            self.branches += 1;
            met += weight;
            error += weight * (p - truth).abs();
            wrong += weight * f64::from((p > 0.5) != (truth > 0.5));
        }
        (self.met, self.error, self.wrong) = (met / all, error / met, wrong / met);
        Ok(())
    }

    fn judge_targets(
        &mut self,
        rows: Vec<Vec<String>>,
        exact: &Exact,
        files: &mut Files,
    ) -> Result<()> {
        let mut seen: HashMap<At, HashMap<At, f64>> = HashMap::new();
        for row in rows {
            let [path, address, to_path, to, rest @ ..] = row.as_slice() else {
                continue;
            };
            let [calls] = weights(rest)?;
            if !to_path.is_empty() {
                let site = (path.clone(), number(address)?);
                let site = seen.entry(site).or_default();
                site.insert((to_path.clone(), number(to)?), calls);
            }
        }
        let (mut all, mut met, mut top, mut overlap) = (0.0, 0.0, 0.0, 0.0);
        for (at, targets) in &exact.targets {
            if files.kind(at) != InstructionKind::Indirect {
                continue;
            }
            let calls: u64 = targets.values().sum();
            let weight = calls as f64;
            all += weight;
            let Some(found) = seen.get(at) else { continue };
            let known: f64 = found.values().sum();
            self.sites += 1;
            met += weight;
            let most = found.iter().max_by(|a, b| a.1.total_cmp(b.1));
            let told = most.and_then(|(to, _)| targets.get(to)).copied();
            let most = targets.values().max().copied().unwrap_or_default();
            let is_right = told.unwrap_or_default() as f64 >= AS_GOOD * most as f64;
            top += weight * f64::from(is_right);
            let shared = targets.iter().map(|(to, n)| {
                let share = found.get(to).copied().unwrap_or_default() / known;
                share.min(*n as f64 / weight)
            });
            overlap += weight * shared.sum::<f64>();
        }
        (self.sites_met, self.top, self.overlap) = (met / all, top / met, overlap / met);
        Ok(())
    }

    /// The head of the table.
    pub(super) const HEAD: &str = "| program | build | branches | of executions | mean error | \
        wrong way | indirect sites | of calls | top target right | overlap |\n\
        |---|---|---|---|---|---|---|---|---|---|\n";

    /// A row of it.
    pub(super) fn row(&self, program: &str, build: &str) -> String {
        let percent = |part: f64| format!("{:.1} %", 100.0 * part);
        format!(
            "| {program} | {build} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            self.branches,
            percent(self.met),
            percent(self.error),
            percent(self.wrong),
            self.sites,
            percent(self.sites_met),
            percent(self.top),
            percent(self.overlap),
        )
    }
}

/// An address, which the database has as a signed number.
fn number(word: &str) -> Result<u64> {
    let number: i64 = word.parse().context("a number of the database")?;
    Ok(number.cast_unsigned())
}

fn weights<const N: usize>(words: &[String]) -> Result<[f64; N]> {
    let mut weights = [0.0; N];
    for (weight, word) in weights.iter_mut().zip(words) {
        *weight = word.parse().context("a weight of the database")?;
    }
    Ok(weights)
}
