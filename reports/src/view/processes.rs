//! Whether the processes that are added up differ.
//!
//! A process has as many windows as it has time, and each of them has as many events as fit into a
//! window. So a slow process and a quick one are added up in parts that are not those of their
//! executions. That is no matter where a value has the same share in both. Where it has not, the
//! sum is a share of nothing that is executed (`docs/decisions/037-time-or-executions.md`).

use std::collections::BTreeMap;

use hotlist::unlike::are_unlike;
use profiledb::{Merged, OF_EXECUTIONS};

use super::values::Values;

/// The events of each process, and how many of them have each value.
pub(crate) type ValuesByProcess = Vec<(f64, BTreeMap<u64, f64>)>;

/// Whether the share of the most frequent value differs between processes by more than chance, so
/// that the share in all of them may be off ([`are_unlike`]).
///
/// Of addresses that code goes to [places differ](places_differ), or do not: the same function has
/// another address in each process.
pub(super) fn differ(row: &Merged<'_>) -> bool {
    if is_of_places(row) {
        return false;
    }
    let per_window = row.list.events() as f64 / row.windows.max(1) as f64;
    do_differ(&row.by_process(), per_window.max(1.0), row.list.threshold())
}

/// Whether values are addresses that code goes to.
fn is_of_places(row: &Merged<'_>) -> bool {
    row.parameter.strip_prefix(OF_EXECUTIONS) == Some("target")
}

/// What [`places_differ`] is to be asked of, where several processes have addresses that code goes
/// to.
pub(super) fn of_places(row: &Merged<'_>) -> ValuesByProcess {
    match is_of_places(row) {
        true => row.values_by_process(),
        false => Vec::new(),
    }
}

/// Whether the share of the most frequent place differs between processes in such a way, where
/// values are addresses of these places.
pub(super) fn places_differ<P: Ord + Copy>(values: &Values, place: impl Fn(u64) -> P) -> bool {
    let per_window = values.samples() as f64 / values.windows.max(1) as f64;
    let processes = by_place(&values.by_process, place);
    do_differ(&processes, per_window.max(1.0), values.threshold)
}

/// The events of each process, and how many of them have the most frequent place of all.
fn by_place<P: Ord + Copy>(
    processes: &[(f64, BTreeMap<u64, f64>)],
    place: impl Fn(u64) -> P,
) -> Vec<(f64, f64)> {
    let mut all: BTreeMap<P, f64> = BTreeMap::new();
    for (value, estimate) in processes.iter().flat_map(|(_, values)| values) {
        *all.entry(place(*value)).or_default() += estimate;
    }
    let most = all.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let most = most.map(|(place, _)| place);
    let equal = |values: &BTreeMap<u64, f64>| {
        let of_place = values
            .iter()
            .filter(|(value, _)| Some(place(**value)) == most);
        of_place.map(|(_, estimate)| estimate).sum()
    };
    let each = processes.iter();
    each.map(|(events, values)| (*events, equal(values)))
        .collect()
}

/// The same of events and those with the value. The events of a window are taken for one, and one
/// in `threshold` of them was counted.
///
/// The squares of what lies between the processes' shares and that of all, by their events, are
/// compared with those of draws, whose sum has the mean and variance of a chi-square (W. G.
/// Cochran, Some methods for strengthening the common chi-square tests, Biometrics 10, 1954).
fn do_differ(processes: &[(f64, f64)], per_window: f64, threshold: f64) -> bool {
    let all: f64 = processes.iter().map(|(events, _)| events).sum();
    let equal: f64 = processes.iter().map(|(_, equal)| equal).sum();
    if processes.len() < 2 || all <= 0.0 {
        return false;
    }
    let share = equal / all;
    let squares = processes.iter().filter(|(events, _)| *events > 0.0);
    let squares = squares.map(|(events, equal)| (equal - share * events).powi(2) / events);
    let degrees = processes.len() as f64 - 1.0;
    let of_draws = share * (1.0 - share) * per_window + share * (threshold - 1.0).max(0.0);
    let more = squares.sum::<f64>() - degrees * of_draws;
    are_unlike(more / all, (2.0 * degrees).sqrt() * of_draws / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One function has other addresses in other processes. Its part in them may be the same, and
    /// may not.
    #[test]
    fn places() {
        let process = |base: u64, often: f64| {
            let values = [(base + 1, often), (base + 2, 1_000.0 - often)];
            (1_000.0, BTreeMap::from(values))
        };
        let place = |value: u64| value % 16;
        let alike = by_place(&[process(0x100, 700.0), process(0x500, 710.0)], place);
        assert_eq!(alike, [(1_000.0, 700.0), (1_000.0, 710.0)]);
        let unlike = by_place(&[process(0x100, 900.0), process(0x500, 400.0)], place);
        assert!(!do_differ(&alike, 4.0, 1.0) && do_differ(&unlike, 4.0, 1.0));
        assert!(by_place(&[], place).is_empty());
    }

    /// Processes that differ by what chance explains are added up, others are not; one that has few
    /// events changes nothing.
    #[test]
    fn two_and_more() {
        assert!(!do_differ(&[(1_000.0, 500.0)], 4.0, 1.0));
        assert!(!do_differ(&[(1_000.0, 520.0), (1_000.0, 480.0)], 4.0, 1.0));
        assert!(do_differ(&[(1_000.0, 900.0), (1_000.0, 100.0)], 4.0, 1.0));
        assert!(!do_differ(&[(100_000.0, 90_000.0), (4.0, 1.0)], 4.0, 1.0));
        let alike: Vec<(f64, f64)> = (0..100).map(|of| (8.0, f64::from(of % 4 + 2))).collect();
        assert!(!do_differ(&alike, 1.0, 1.0));
        let unlike: Vec<(f64, f64)> = (0..100).map(|of| (8.0, f64::from(8 * (of % 2)))).collect();
        assert!(do_differ(&unlike, 1.0, 1.0));
        assert!(!do_differ(&[(0.0, 0.0), (5.0, 5.0)], 1.0, 1.0));
        // An event that was counted stands for five hundred.
        assert!(!do_differ(&[(9_000.0, 500.0), (9_000.0, 0.0)], 1.0, 500.0));
    }
}
