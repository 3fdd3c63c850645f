//! What the runs took, as a table.

use std::fmt::Write as _;

use super::{Kind, Run};

/// What the columns mean.
const LEGEND: &str = "Medians. wall: the command alone; slowdown: of that against nothing, and of its processor time;
collector: processor time of the profiler from start to end, per second of the command and per
sample, its start and end left out (they are those of the interrupts alone); dest: known values of
destination registers per user sample; values/int: values per interrupt; values/%: values per
second and percent of slowdown; MB/min: what it wrote per minute of the command.
";

/// The table of these kinds.
pub(super) fn of(kinds: &[Kind], results: &[(Kind, Run)]) -> String {
    let of = |kind: Kind, what: &dyn Fn(&Run) -> f64| {
        let runs = results.iter().filter(|(other, _)| *other == kind);
        median(runs.map(|(_, run)| what(run)))
    };
    let base = of(Kind::Nothing, &|run| run.wall);
    let base_cpu = of(Kind::Nothing, &|run| run.user + run.system);
    let mut text = format!("{LEGEND}\n");
    let _ = writeln!(
        text,
        "{:<46} {:>7} {:>9} {:>9} {:>9} {:>9} {:>6} {:>10} {:>9} {:>7} {:>6}",
        "under",
        "wall s",
        "slowdown",
        "of CPU",
        "collector",
        "us/sample",
        "dest",
        "values/int",
        "values/%",
        "MB/min",
        "lost"
    );
    for &kind in kinds {
        let wall = of(kind, &|run| run.wall);
        let cpu = of(kind, &|run| run.user + run.system);
        let percent = |value: f64, base: f64| 100.0 * (value / base - 1.0);
        let slowdown = percent(wall, base);
        let idle = match kind {
            Kind::Vcpid(clock, rate, _) => of(Kind::Interrupts(clock, rate), &|run| run.collector),
            Kind::Nothing | Kind::Interrupts(..) | Kind::Perf(_) => 0.0,
        };
        let shown = |value: f64, digits: usize| match value.is_finite() && value != 0.0 {
            true => format!("{value:.digits$}"),
            false => "-".to_owned(),
        };
        let per_second = of(kind, &|run| run.counts.values / run.wall);
        let _ = writeln!(
            text,
            "{:<46} {:>7.3} {:>9} {:>9} {:>9} {:>9} {:>6} {:>10} {:>9} {:>7.1} {:>6}",
            kind.name(),
            wall,
            format!("{slowdown:+.1} %"),
            format!("{:+.1} %", percent(cpu, base_cpu)),
            format!("{:.1} %", 100.0 * of(kind, &|run| run.collector / run.wall)),
            shown(
                of(kind, &|run| 1e6 * (run.collector - idle)
                    / run.counts.samples),
                1
            ),
            shown(
                of(kind, &|run| run.counts.destinations
                    / run.counts.user_samples),
                1
            ),
            shown(of(kind, &|run| run.counts.values / run.counts.samples), 1),
            // Below half a percent the slowdown is noise.
            shown(
                if slowdown > 0.5 {
                    per_second / slowdown
                } else {
                    f64::NAN
                },
                0
            ),
            of(kind, &|run| run.bytes / 1e6 / (run.wall / 60.0)),
            shown(of(kind, &|run| run.counts.lost), 0),
        );
    }
    text
}

/// The median; 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
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

    /// The table sets each kind against the runs under nothing.
    #[test]
    fn slowdown() {
        let run = |wall, samples| Run {
            wall,
            user: wall,
            system: 0.0,
            collector: 0.1,
            counts: Counts {
                samples,
                user_samples: samples,
                values: 20.0 * samples,
                destinations: 5.0 * samples,
                lost: 0.0,
            },
            bytes: 1e6,
        };
        let kind = Kind::Vcpid("timer", 1000, 16);
        let results = [(Kind::Nothing, run(2.0, 0.0)), (kind, run(2.1, 1000.0))];
        let text = of(&[Kind::Nothing, kind], &results);
        let line = text.lines().find(|line| line.starts_with("vcpid"));
        for shown in ["+5.0 %", " 100.0 ", " 5.0 ", " 20.0 "] {
            assert!(line.is_some_and(|line| line.contains(shown)), "{line:?}");
        }
    }
}
