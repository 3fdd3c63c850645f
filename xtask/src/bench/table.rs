//! What was measured, as a table.

use std::fmt::Write as _;

use super::{Profiler, Results, Run};

/// What the columns mean.
const LEGEND: &str =
    "Medians of the rounds. slowdown: of the program, by what it takes without, on the average of a
round; spread: between the quarters of the rounds; us/int: slowdown per interrupt asked for (those
alone all come at one interval, drawn at the start between half and one and a half of it);
collector: processor time of the profiler while it was measured, in percent of one processor and per
sample; whole: the same from start to end, in seconds; dest: known values of destination registers
per user sample; values/int: values per sample; values/%: values per second and percent of
slowdown; MB/min: what it wrote per minute.
";

/// The table of these kinds.
pub(super) fn of(kinds: &[Profiler], results: &Results) -> String {
    let mut text = format!(
        "{LEGEND}\n{:<46} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7} {:>6} {:>10} {:>9} {:>7} {:>6}\n",
        "under",
        "slowdown",
        "spread",
        "us/int",
        "collector",
        "us/sample",
        "whole s",
        "dest",
        "values/int",
        "values/%",
        "MB/min",
        "lost"
    );
    for &kind in kinds {
        line(&mut text, kind, results);
    }
    text
}

/// The line of one kind.
fn line(text: &mut String, kind: Profiler, results: &Results) {
    let runs = || results.runs.iter().filter(|(other, _)| *other == kind);
    let of = |what: &dyn Fn(&Run) -> f64| median(runs().map(|(_, run)| what(run)));
    // Of what was not counted, there is no number.
    let shown = |value: f64, digits: usize| match value.is_finite() && value != 0.0 {
        true => format!("{value:.digits$}"),
        false => "-".to_owned(),
    };
    let ratios = results.ratios.iter().filter(|(other, _)| *other == kind);
    let mut slowdowns: Vec<f64> = ratios.map(|(_, ratio)| 100.0 * (ratio - 1.0)).collect();
    let slowdown = median(slowdowns.iter().copied());
    slowdowns.sort_by(f64::total_cmp);
    let quarter = |share: usize| slowdowns.get(slowdowns.len() * share / 4).copied();
    let spread = quarter(3).unwrap_or(f64::NAN) - quarter(1).unwrap_or(f64::NAN);
    let per_interrupt = kind
        .rate()
        .map_or(0.0, |rate| 1e4 * slowdown / f64::from(rate));
    let per_second = of(&|run| run.counts.values / run.counts.seconds);
    let _ = writeln!(
        text,
        "{:<46} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7} {:>6} {:>10} {:>9} {:>7} {:>6}",
        kind.name(),
        format!("{slowdown:+.2} %"),
        format!("{spread:.2}"),
        shown(per_interrupt, 1),
        shown(of(&|run| 100.0 * run.collector), 1),
        shown(
            of(&|run| 1e6 * run.collector * run.counts.seconds / run.counts.samples),
            1
        ),
        shown(of(&|run| run.whole), 2),
        shown(
            of(&|run| run.counts.destinations / run.counts.user_samples),
            1
        ),
        shown(of(&|run| run.counts.values / run.counts.samples), 1),
        // What is not slowed down has no such number.
        shown(
            if slowdown > 0.0 {
                per_second / slowdown
            } else {
                0.0
            },
            0
        ),
        shown(of(&|run| run.bytes / 1e6 / (run.counts.seconds / 60.0)), 1),
        shown(of(&|run| run.counts.lost), 0),
    );
}

/// The median; 0 of nothing.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (Some(upper), 1) => *upper,
        (Some(upper), _) => (upper + values.get(middle.saturating_sub(1)).unwrap_or(upper)) / 2.0,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Counts;
    use super::*;

    /// The median of an even number of values lies between the middle two.
    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    /// A line says how much slower the program was, and what each sample cost and brought.
    #[test]
    fn a_line() {
        let run = Run {
            collector: 0.01,
            whole: 0.1,
            counts: Counts {
                seconds: 5.0,
                samples: 5000.0,
                user_samples: 5000.0,
                values: 100_000.0,
                destinations: 25_000.0,
                lost: 0.0,
            },
            bytes: 1e6,
        };
        let kind = Profiler::Vcpid("timer", 1000, 16);
        let results = Results {
            ratios: vec![(Profiler::Nothing, 1.0), (kind, 1.05)],
            runs: vec![(kind, run)],
        };
        let text = of(&[kind], &results);
        let line = text.lines().find(|line| line.starts_with("vcpid"));
        for shown in [
            "+5.00 %", " 50.0 ", " 1.0 ", " 10.0 ", " 5.0 ", " 20.0 ", " 4000 ",
        ] {
            assert!(line.is_some_and(|line| line.contains(shown)), "{line:?}");
        }
    }
}
