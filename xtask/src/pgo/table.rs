//! The table: what each build takes of the plain one's time.

use hotlist::Generator;

use super::builds::Variant;
use super::race::Times;
use crate::yields::{geometric, median};

/// What is told of a program.
#[derive(Debug)]
pub(super) struct ProgramGains {
    pub(super) program: &'static str,
    pub(super) language: &'static str,
    /// What the export said that it rests on.
    pub(super) basis: String,
    pub(super) times: Times,
    /// What could not be built, and why.
    pub(super) missing: Vec<String>,
}

/// Drawings of the rounds from which intervals come.
const DRAWINGS: usize = 4000;
/// The instrumented build's gain from which on others are compared with it, in parts of 1.
const GAIN: f64 = 0.05;

impl ProgramGains {
    fn column(&self, variant: Variant) -> Option<usize> {
        let mut names = self.times.variants.iter();
        names.position(|name| name == variant.name())
    }

    /// What a build takes of the time of one without a profile, round by round.
    fn ratios(&self, variant: Variant) -> Option<Vec<f64>> {
        let (of, plain) = (self.column(variant)?, self.column(variant.baseline())?);
        let rounds = self.times.rounds.iter();
        let ratios: Vec<f64> = rounds.map(|round| round[of] / round[plain]).collect();
        (!ratios.is_empty()).then_some(ratios)
    }

    fn ratio(&self, variant: Variant) -> Option<f64> {
        self.ratios(variant).map(|ratios| median(&ratios))
    }

    /// The ratio with its interval, and what of the instrumented build's gain that is.
    fn cell(&self, variant: Variant) -> String {
        let Some(ratios) = self.ratios(variant) else {
            return "-".to_owned();
        };
        let ratio = median(&ratios);
        let (low, high) = interval(&ratios);
        let share = match self.ratio(Variant::Instrumented) {
            Some(best) if variant.is_by_samples() && best <= 1.0 - GAIN => {
                format!(", {:.0} %", 100.0 * (1.0 - ratio) / (1.0 - best))
            }
            _ => String::new(),
        };
        format!("{ratio:.3} ({low:.3} to {high:.3}){share}")
    }

    fn plain_seconds(&self) -> f64 {
        let place = self.column(Variant::Plain);
        let rounds = self.times.rounds.iter();
        let times = rounds.filter_map(|round| round.get(place?).copied());
        median(&times.collect::<Vec<_>>())
    }
}

/// A 95 % interval of the median (B. Efron, Bootstrap methods, 1979).
fn interval(ratios: &[f64]) -> (f64, f64) {
    let mut coins = Generator::new(0x0070_676f);
    let mut medians: Vec<f64> = (0..DRAWINGS)
        .map(|_| {
            let draw = |_| {
                let place = coins.next_u64() % ratios.len() as u64;
                ratios[usize::try_from(place).unwrap_or(0)]
            };
            median(&(0..ratios.len()).map(draw).collect::<Vec<_>>())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (
        medians[DRAWINGS / 40],
        medians[DRAWINGS - DRAWINGS / 40 - 1],
    )
}

/// The table, with what it rests on below it.
pub(super) fn of(rows: &[ProgramGains]) -> String {
    let others = &Variant::ALL[1..];
    let names: Vec<&str> = others.iter().map(|one| one.name()).collect();
    let mut text = format!(
        "| program | plain, s | {} |\n|---|---|{}\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for row in rows {
        let cells: Vec<String> = others.iter().map(|one| row.cell(*one)).collect();
        text += &format!(
            "| {} ({}) | {:.2} | {} |\n",
            row.program,
            row.language,
            row.plain_seconds(),
            cells.join(" | ")
        );
    }
    let gains = |row: &&ProgramGains| {
        let best = row.ratio(Variant::Instrumented);
        best.is_some_and(|best| best <= 1.0 - GAIN)
    };
    let gaining: Vec<&ProgramGains> = rows.iter().filter(gains).collect();
    let mean = |variant: Variant| {
        let ratios: Option<Vec<f64>> = gaining.iter().map(|row| row.ratio(variant)).collect();
        ratios.map(|ratios| geometric(&ratios))
    };
    if let Some(best) = mean(Variant::Instrumented).filter(|_| gaining.len() > 1) {
        let cells = others.iter().map(|variant| match mean(*variant) {
            Some(ratio) if variant.is_by_samples() => {
                format!("{ratio:.3}, {:.0} %", 100.0 * (1.0 - ratio) / (1.0 - best))
            }
            Some(ratio) => format!("{ratio:.3}"),
            None => "-".to_owned(),
        });
        let cells: Vec<String> = cells.collect();
        text += &format!("| those that gain, mean | | {} |\n", cells.join(" | "));
    }
    text += "\n";
    for row in rows {
        let rounds = row.times.rounds.len();
        text += &format!("- {}: {rounds} rounds; {}\n", row.program, row.basis);
        for missing in &row.missing {
            text += &format!("  - {missing}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: &'static str, lines: &str) -> ProgramGains {
        ProgramGains {
            program,
            language: "C",
            basis: "10000 samples".to_owned(),
            times: Times::of(lines).unwrap(),
            missing: Vec::new(),
        }
    }

    /// A build's gain is told beside the instrumented one's where that gains much; a build that is
    /// missing has no figure.
    #[test]
    fn cells() {
        let gains = row(
            "a",
            "plain instrumented vcpi\n1 0.8 0.9\n2 1.6 1.8\n1 0.8 0.9\n",
        );
        assert_eq!(gains.cell(Variant::Instrumented), "0.800 (0.800 to 0.800)");
        assert_eq!(gains.cell(Variant::Vcpi), "0.900 (0.900 to 0.900), 50 %");
        assert_eq!(gains.cell(Variant::Bolt), "-");
        let same = row("b", "plain instrumented vcpi\n1 0.99 1.01\n");
        assert_eq!(same.cell(Variant::Vcpi), "1.010 (1.010 to 1.010)");
        // Another compiler's build is compared with that compiler's own one.
        let other = row("c", "plain instrumented gcc gcov\n1 0.8 2 1\n");
        assert_eq!(other.cell(Variant::Gcc), "2.000 (2.000 to 2.000)");
        assert_eq!(other.cell(Variant::Gcov), "0.500 (0.500 to 0.500)");
        let text = of(&[gains, same]);
        assert!(!text.contains("mean"), "{text}");
    }
}
