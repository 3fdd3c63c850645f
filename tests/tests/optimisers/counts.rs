//! How far exported counts, and samples, overlap with exact ones.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use symbols::{Binary, Functions, Room};
use vcpi_tests::exact::At;
use vcpi_tests::programs::Programs;

/// What is compared, by addresses of the program.
pub(crate) struct Counts {
    /// The program.
    pub(crate) file: PathBuf,
    /// What was exported for llvm-profgen.
    pub(crate) raw: String,
    /// Samples of instructions.
    pub(crate) samples: BTreeMap<u64, f64>,
    /// How often instructions ran.
    pub(crate) exact: BTreeMap<u64, f64>,
    /// How often conditional branches were taken.
    pub(crate) taken: BTreeMap<u64, f64>,
}

/// Lines of an export: two addresses and a count.
type Part = Vec<(u64, u64, f64)>;

/// A block as the export has it.
struct Range {
    start: u64,
    last: u64,
    count: f64,
}

/// The counts of a program among those of all.
pub(crate) fn of_program(all: &HashMap<At, u64>, name: &str) -> BTreeMap<u64, f64> {
    let own = all.iter().filter(|((path, _), _)| path.ends_with(name));
    own.map(|((_, address), count)| (*address, *count as f64))
        .collect()
}

/// The samples of each instruction of the program `opt`, as `vcpi` reports them.
pub(crate) fn samples(programs: &Programs, database: &Path) -> Result<BTreeMap<u64, f64>> {
    let report = programs.report(database, &["top", "--by", "instruction", "--image", "opt"])?;
    let rows = report.as_array().context("no rows")?;
    let row = |row: &serde_json::Value| {
        let address = row["address"].as_str()?.strip_prefix("0x")?;
        Some((
            u64::from_str_radix(address, 16).ok()?,
            row["samples"].as_f64()?,
        ))
    };
    Ok(rows.iter().filter_map(row).collect())
}

impl Counts {
    fn parts(&self) -> Result<Vec<Part>> {
        let mut lines = self.raw.lines();
        let mut parts = Vec::new();
        while let Some(count) = lines.next() {
            let lines = lines.by_ref().take(count.parse()?);
            let rows = lines.map(|line| {
                let (range, count) = line.split_once(':')?;
                let (from, to) = range.split_once("->").or_else(|| range.split_once('-'))?;
                let number = |text| u64::from_str_radix(text, 16).ok();
                Some((number(from)?, number(to)?, count.parse().ok()?))
            });
            parts.push(
                rows.collect::<Option<Vec<_>>>()
                    .context("a line is no count")?,
            );
        }
        Ok(parts)
    }

    fn ranges(&self) -> Result<Vec<Range>> {
        let parts = self.parts()?;
        let ranges = parts.first().context("no ranges")?.iter();
        let range = |(start, last, count): &(u64, u64, f64)| Range {
            start: *start,
            last: *last,
            count: *count,
        };
        Ok(ranges.map(range).collect())
    }

    /// The overlap with the exact counts inside functions, in percent: that of the exported counts,
    /// and that of samples, which are shared out evenly over each block's instructions. A function
    /// weighs what it ran.
    pub(crate) fn overlaps(&self) -> Result<(f64, f64)> {
        let binary = Binary::open(&self.file, &Room::new(1 << 30))?;
        let functions = Functions::new(&binary, None);
        let ranges = self.ranges()?;
        let around = |address: u64| {
            let behind = ranges.partition_point(|range| range.start <= address);
            let range = ranges.get(behind.checked_sub(1)?)?;
            (address <= range.last).then_some(range)
        };
        // Instructions of each function: the exact count, that by flow, that by samples.
        let mut inside: BTreeMap<u64, Vec<[f64; 3]>> = BTreeMap::new();
        for (address, exact) in &self.exact {
            let range = around(*address);
            let (first, last) =
                range.map_or((*address, *address), |range| (range.start, range.last));
            let samples: f64 = self.samples.range(first..=last).map(|(_, n)| n).sum();
            let instructions = self.exact.range(first..=last).count() as f64;
            let function = functions.find(&binary, *address);
            let counts = [
                *exact,
                range.map_or(0.0, |range| range.count),
                samples / instructions,
            ];
            let function = function.map_or(0, |function| function.start);
            inside.entry(function).or_default().push(counts);
        }
        let sum = |counts: &[[f64; 3]], of: usize| counts.iter().map(|one| one[of]).sum::<f64>();
        let overlap = |of: usize| {
            let all: f64 = inside.values().map(|counts| sum(counts, 0)).sum();
            let parts = inside.values().map(|counts| {
                let (exact, found) = (sum(counts, 0), sum(counts, of));
                let shared = counts
                    .iter()
                    .map(|one| (one[0] / exact).min(one[of] / found));
                match found > 0.0 {
                    true => exact / all * shared.sum::<f64>(),
                    false => 0.0,
                }
            });
            100.0 * parts.sum::<f64>()
        };
        Ok((overlap(1), overlap(2)))
    }

    /// The mean error of the probability that a branch is taken, in percent, weighted by how often
    /// it ran; of branches that were taken at all, and whose block ran by the export.
    pub(crate) fn error_of_directions(&self) -> Result<f64> {
        let ranges = self.ranges()?;
        let parts = self.parts()?;
        let went: BTreeMap<u64, f64> = parts
            .get(1)
            .context("no branches")?
            .iter()
            .map(|(from, _, count)| (*from, *count))
            .collect();
        let (mut error, mut all) = (0.0, 0.0);
        for (address, taken) in &self.taken {
            let ran = self.exact.get(address).copied().unwrap_or(0.0);
            let range = ranges.iter().find(|range| range.last == *address);
            let Some(range) = range.filter(|_| ran > 0.0) else {
                continue;
            };
            let found = went.get(address).copied().unwrap_or(0.0) / range.count;
            error += ran * (found - taken / ran).abs();
            all += ran;
        }
        if all > 0.0 {
            Ok(100.0 * error / all)
        } else {
            bail!("no branch is in both")
        }
    }
}
