//! What thinning leaves of shares and sums.

use std::fs;

use profiledb::rollup::Limits;

use super::days::{Days, Sums, sums};
use super::{ALL, LATER, files, roll};

fn bytes(folder: &std::path::Path) -> u64 {
    files(folder)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum()
}

/// The errors of the five largest shares of lists with a thousand events, in points.
fn errors(before: &Sums, after: &Sums) -> Vec<f64> {
    let mut errors = Vec::new();
    for (key, values) in &before.values {
        let all: f64 = values.values().sum();
        let of_list = after.values.get(key);
        let found: f64 = of_list.map_or(0.0, |values| values.values().sum());
        if all < 1_000.0 {
            continue;
        }
        let mut largest: Vec<(u64, f64)> = values.iter().map(|(v, n)| (*v, *n)).collect();
        largest.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (value, events) in largest.into_iter().take(5) {
            let found = of_list
                .and_then(|values| values.get(&value))
                .unwrap_or(&0.0)
                / found.max(1.0);
            errors.push(100.0 * (found - events / all));
        }
    }
    errors
}

/// Rolled up to weeks, the five largest shares of a list are what they were, to 0.3 points (root of
/// the mean square), although its rare values are thinned; sums of what is not thinned are exact.
#[test]
fn top_five() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 7,
        values: 3_000,
        events: 60,
        instructions: 8,
        ..Days::default()
    }
    .write(folder.path());
    let before = sums(folder.path());
    roll(folder.path(), LATER, &ALL, || {});
    let after = sums(folder.path());
    assert_eq!(after.reached, before.reached);
    let errors = errors(&before, &after);
    assert!(errors.len() > 30, "{}", errors.len());
    let squares: f64 = errors.iter().map(|error| error * error).sum();
    let rms = (squares / errors.len() as f64).sqrt();
    assert!(rms < 0.3, "{rms} points");
}

/// Hours and days of lists that are met seldom keep about to their bytes, and what is left stands
/// for all: sums over lists are what they were, but for chance.
#[test]
fn budgets() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        instructions: 1_500,
        every: 120,
        ..Days::default()
    }
    .write(folder.path());
    let before = sums(folder.path());
    let unbounded = {
        let folder = tempfile::tempdir().unwrap();
        let days = Days {
            instructions: 1_500,
            every: 120,
            ..Days::default()
        };
        days.write(folder.path());
        roll(folder.path(), LATER, &ALL, || {});
        bytes(folder.path())
    };
    let limits = Limits {
        hour: 60_000,
        day: unbounded / 3,
        week: 0,
    };
    roll(folder.path(), LATER, &limits, || {});
    let after = sums(folder.path());
    let most = limits.day * 5 / 4 + 100_000;
    assert!(
        bytes(folder.path()) < most,
        "{} of {most}",
        bytes(folder.path())
    );
    let off = after.reached / before.reached - 1.0;
    assert!(off.abs() < 0.05, "{off}");
    let total = |sums: &Sums| -> f64 { sums.values.values().flat_map(|v| v.values()).sum() };
    let off = total(&after) / total(&before) - 1.0;
    assert!(off.abs() < 0.05, "{off}");
}
