//! The printed tables.

use super::measure::Recorded;

/// What was seen of one program under one build and one setting.
#[derive(Debug, Clone)]
pub(super) struct ProgramYield {
    pub(super) program: String,
    pub(super) build: &'static str,
    pub(super) runs: Vec<Recorded>,
    /// The program's processor time recorded by that alone, of each pair of runs.
    pub(super) ratios: Vec<f64>,
    /// What the collector takes to start and end.
    pub(super) start: f64,
}

/// Reasons of ends that are named; the others are added up.
const ENDS: usize = 5;

impl ProgramYield {
    /// The mean over runs of a count.
    fn mean(&self, of: impl Fn(&Recorded) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len().max(1) as f64
    }

    fn counter(&self, kind: &str, name: &str) -> f64 {
        self.mean(|run| run.counts.get(kind, name))
    }

    /// Processor time of the collector for the samples, without that of its start.
    fn collector(&self) -> f64 {
        (self.mean(|run| run.collector) - self.start).max(0.0)
    }

    /// What is compared: samples, windows and so on, in the order of [`HEAD`].
    fn figures(&self) -> [f64; 12] {
        let samples = self.counter("run", "user_samples");
        let all = self.counter("run", "samples");
        let windows = self.counter("run", "windows");
        let values = self.counter("run", "value_events");
        let destinations = self.counter("coverage", "user_destinations_known");
        // None under the engine `ring`.
        let handled = self.counter("handler", "samples").max(1.0);
        [
            samples,
            windows,
            self.counter("run", "instructions") / windows,
            destinations / samples,
            values,
            self.mean(|run| run.counts.calls),
            self.counter("handler", "handler_ns") / 1e3 / handled,
            1e6 * self.collector() / all,
            1e9 * self.collector() / values,
            100.0 * (median(&self.ratios) - 1.0),
            100.0 * (least(&self.ratios) - 1.0),
            100.0 * (-least(&self.ratios.iter().map(|r| -r).collect::<Vec<_>>()) - 1.0),
        ]
    }

    /// Why windows ended, most often first.
    fn ends(&self) -> String {
        let Some(last) = self.runs.last() else {
            return String::new();
        };
        let all = last.counts.sum("stop").max(1.0);
        let ends = last.counts.of_kind("stop");
        let share = |n: f64| format!("{:.0} %", 100.0 * n / all);
        let mut shown: Vec<_> = ends
            .iter()
            .take(ENDS)
            .map(|(name, n)| format!("{name} {}", share(*n)))
            .collect();
        let others: f64 = ends.iter().skip(ENDS).map(|(_, n)| n).sum();
        if others > 0.0 {
            shown.push(format!("others {}", share(others)));
        }
        shown.join(", ")
    }

    /// What was lost, which should be nothing.
    fn lost(&self) -> f64 {
        self.mean(|run| run.counts.sum("lost"))
    }
}

const HEAD: &str = "| program | build | seconds | user samples | windows | length | dest/sample | values | calls \
     | handler us | us/sample | ns/value | slowdown (least, most) | lost |\n\
     |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

/// The table of one setting, and the ends of windows below it.
pub(super) fn of(rows: &[ProgramYield]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let [
            samples,
            windows,
            length,
            dest,
            values,
            calls,
            handler,
            us,
            ns,
            slower,
            least,
            most,
        ] = row.figures();
        let slowdown = match slower.is_nan() {
            true => "not measured".to_owned(),
            false => format!("{slower:.1} % ({least:.1}, {most:.1})"),
        };
        text += &format!(
            "| {} | {} | {:.1} | {samples:.0} | {windows:.0} | {length:.1} | {dest:.2} | {values:.0} \
             | {calls:.0} | {handler:.1} | {us:.1} | {ns:.1} | {slowdown} | {:.0} |\n",
            row.program,
            row.build,
            row.mean(|run| run.program),
            row.lost(),
        );
    }
    let mut builds: Vec<_> = rows.iter().map(|row| row.build).collect();
    builds.dedup();
    builds.sort_unstable();
    builds.dedup();
    for build in builds {
        let of_build: Vec<_> = rows.iter().filter(|row| row.build == build).collect();
        let mean = |at: usize| {
            let figures = of_build.iter().map(|row| row.figures()[at]);
            geometric(&figures.collect::<Vec<_>>())
        };
        let slower: Vec<f64> = of_build.iter().map(|row| median(&row.ratios)).collect();
        let slower = 100.0 * (geometric(&slower) - 1.0);
        let slowdown = match slower.is_nan() {
            true => "not measured".to_owned(),
            false => format!("{slower:.1} %"),
        };
        text += &format!(
            "| geometric mean | {build} | | {:.0} | {:.0} | {:.1} | {:.2} | {:.0} | {:.0} | {:.1} \
             | {:.1} | {:.1} | {slowdown} | |\n",
            mean(0),
            mean(1),
            mean(2),
            mean(3),
            mean(4),
            mean(5),
            mean(6),
            mean(7),
            mean(8),
        );
    }
    text += "\nEnds of windows:\n\n";
    for row in rows {
        text += &format!("- {}, {}: {}\n", row.program, row.build, row.ends());
    }
    text
}

pub(crate) fn median(of: &[f64]) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.as_slice() {
        [] => f64::NAN,
        sorted => {
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            (low + high) / 2.0
        }
    }
}

fn least(of: &[f64]) -> f64 {
    of.iter()
        .copied()
        .min_by(f64::total_cmp)
        .unwrap_or(f64::NAN)
}

/// The geometric mean; of what is not positive there is none.
pub(crate) fn geometric(of: &[f64]) -> f64 {
    let logs: f64 = of.iter().map(|x| x.ln()).sum();
    (logs / of.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Medians of even and odd numbers, and geometric means.
    #[test]
    fn means() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0]) - 2.5).abs() < 1e-12);
        assert!((geometric(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
    }
}
