//! Intervals of shares of time, as a sampler at nearly even distances finds them, hold the truth
//! as often as they say.

use hotlist::{Config, Draws, Generator, Hotlist, Sum};

/// Intervals between samples vary by an eighth, one by one.
const JITTER: f64 = 0.125;
/// Mean intervals that a recording lasts.
const LENGTH: f64 = 8_000.0;

/// Which values a program has, one phase after another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    TwoValued,
    Zipf,
}

/// What the events of a window are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Window {
    /// One event.
    One,
    /// Up to eight with the value of the moment.
    Repeated,
    /// Up to eight, each with a value of its own.
    Independent,
    /// Eight, by turns of the value of the moment and of the next one.
    ByTurns,
}

/// What is recorded.
#[derive(Clone, Copy, Debug)]
struct Case {
    values: Values,
    /// Mean length of a phase in intervals; 0: each moment has a value of its own.
    phase: f64,
    /// Probability with which a window is accepted.
    accepted: f64,
    window: Window,
}

fn draw(values: Values, random: &mut Generator) -> u64 {
    match values {
        Values::TwoValued => u64::from(random.uniform() > 0.6),
        // The inverse of a distribution function that falls as a Zipf(1.5)'s does.
        Values::Zipf => random.uniform().powi(-2).min(1e6) as u64,
    }
}

/// The true share of the most frequent value, in percent, and its interval.
fn record(case: Case, even: f64, random: &mut Generator) -> Option<(f64, (f64, f64))> {
    // The phases: their ends, and their values.
    let mut phases: Vec<(f64, u64)> = Vec::new();
    let mut end = 0.0;
    while case.phase > 0.0 && end < LENGTH {
        let value = draw(case.values, random);
        end += case.phase * (0.5 + random.uniform());
        phases.push((end.min(LENGTH), value));
    }
    let mut sum = Sum::new(Sum::<u64>::MOST);
    let mut list = Hotlist::new(&Config::default().precise());
    let (mut time, mut at, mut windows) = (random.uniform(), 0, 0);
    while time < LENGTH {
        while phases.get(at).is_some_and(|&(end, _)| end < time) {
            at += 1;
        }
        let accepted = random.uniform() <= case.accepted;
        let moment = phases.get(at).map(|&(_, value)| value);
        let moment = moment.unwrap_or_else(|| draw(case.values, random));
        let events = match case.window {
            Window::One => 1,
            Window::ByTurns => 8,
            Window::Repeated | Window::Independent => 1 + random.next_u64() % 8,
        };
        for event in 0..events {
            let value = match case.window {
                Window::Independent if event > 0 => draw(case.values, random),
                Window::ByTurns => 2 * moment + event % 2,
                _ => moment,
            };
            if accepted {
                list.update_in_window(value, time as u64, event == 0, random);
            }
        }
        windows += u64::from(accepted);
        time += 1.0 + JITTER * (2.0 * random.uniform() - 1.0);
        // A flush now and then.
        if random.next_u64().is_multiple_of(2_000) {
            sum.add(&list, random);
            list = Hotlist::new(&Config::default().precise());
        }
    }
    sum.add(&list, random);
    let tuple = sum.tuples().next()?;
    let value = match case.window {
        Window::ByTurns => tuple.value / 2,
        _ => tuple.value,
    };
    let truth = if phases.is_empty() || case.window == Window::Independent {
        expected(case.values, value)
    } else {
        let starts = [0.0].into_iter().chain(phases.iter().map(|&(end, _)| end));
        let of_value = phases
            .iter()
            .zip(starts)
            .filter(|(phase, _)| phase.1 == value);
        of_value.map(|(&(end, _), start)| end - start).sum::<f64>() / LENGTH
    };
    let share = if case.window == Window::ByTurns {
        truth / 2.0
    } else {
        truth
    };
    let draws = Draws {
        samples: sum.events(),
        windows,
        reached: sum.events(),
        even,
    };
    Some((100.0 * share, sum.interval(&tuple, &draws)))
}

fn expected(values: Values, value: u64) -> f64 {
    match values {
        Values::TwoValued => [0.6, 0.4][value.min(1) as usize],
        Values::Zipf => (value as f64).powf(-0.5) - (value as f64 + 1.0).powf(-0.5),
    }
}

/// How often the interval holds the truth, and how wide it is on average.
fn coverage(case: Case, even: f64, runs: u32) -> (f64, f64) {
    let mut random = Generator::new(41);
    let (mut held, mut width) = (0, 0.0);
    for _ in 0..runs {
        let Some((truth, (low, high))) = record(case, even, &mut random) else {
            continue;
        };
        held += u32::from(low <= truth && truth <= high);
        width += high - low;
    }
    (f64::from(held) / f64::from(runs), width / f64::from(runs))
}

/// What one recording was, q, and which coverages are right.
fn check(case: Case, even: f64, runs: u32, right: std::ops::RangeInclusive<f64>) {
    let (held, width) = coverage(case, even, runs);
    if std::env::var_os("SHOW").is_some() {
        println!("{case:?} {even:.3}: {held:.3}, {width:.3} points");
    }
    // Three standard deviations of a coverage of 95 % beyond what is right.
    let chance = 3.0 * (0.95 * 0.05 / f64::from(runs)).sqrt();
    let (least, most) = (right.start() - chance, right.end() + chance);
    assert!((least..=most).contains(&held), "{case:?} {even}: {held}");
}

const RUNS: u32 = 120;

/// q of windows at distances that vary by [`JITTER`], accepted with this probability.
fn even(accepted: f64) -> f64 {
    accepted * (1.0 - (2.0 * JITTER).powi(2) / 12.0)
}

fn cases(windows: &[Window], phases: &[f64], accepted: f64) -> Vec<Case> {
    let mut cases = Vec::new();
    for values in [Values::TwoValued, Values::Zipf] {
        for &window in windows {
            for &phase in phases {
                cases.push(Case {
                    values,
                    phase,
                    accepted,
                    window,
                });
            }
        }
    }
    cases
}

const OF_MOMENT: [Window; 3] = [Window::One, Window::Repeated, Window::ByTurns];

/// Without phases 95 % hold the truth, whether the events of a window repeat a value or not,
/// however many windows are accepted, and whether it is known how even the distances are.
#[test]
fn without_phases() {
    for accepted in [1.0, 0.5, 0.1] {
        let windows = [
            Window::One,
            Window::Repeated,
            Window::Independent,
            Window::ByTurns,
        ];
        for case in cases(&windows, &[0.0], accepted) {
            check(case, even(accepted), RUNS, 0.93..=0.98);
            check(case, 0.0, RUNS, 0.93..=0.98);
        }
    }
}

/// With phases of thirty intervals to a fifth of the recording, of which not all windows are
/// accepted, 95 % hold the truth as well.
#[test]
fn phases_thinned() {
    for accepted in [0.5, 0.1] {
        for case in cases(&OF_MOMENT, &[30.0, 300.0, 1_500.0], accepted) {
            check(case, even(accepted), RUNS, 0.93..=0.98);
        }
    }
}

/// With shorter ones, and where all windows are accepted, intervals are too wide by the factor
/// that [`Draws`] tells, and never too narrow; so are they where q is not known.
#[test]
fn phases_all_accepted() {
    for case in cases(&OF_MOMENT, &[3.0, 30.0, 300.0, 1_500.0], 1.0) {
        check(case, even(1.0), RUNS, 0.93..=1.0);
        check(case, 0.0, RUNS, 0.93..=1.0);
    }
}
