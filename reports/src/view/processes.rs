//! Whether the processes that are added up differ.
//!
//! A process has as many windows as it has time, and each of them has as many events as fit into a
//! window. So a slow process and a quick one are added up in parts that are not those of their
//! executions. That is no matter where a value has the same share in both. Where it has not, the
//! sum is a share of nothing that is executed (`docs/decisions/037-time-or-executions.md`).

use hotlist::unlike::are_unlike;
use profiledb::{Merged, OF_EXECUTIONS};

/// Whether the share of the most frequent value differs between processes by more than chance, so
/// that the share in all of them may be off ([`are_unlike`]).
///
/// Of addresses that code goes to it is not known: the same function has another one in each
/// process.
pub(super) fn differ(row: &Merged<'_>) -> bool {
    if row.parameter.strip_prefix(OF_EXECUTIONS) == Some("target") {
        return false;
    }
    let per_window = row.list.events() as f64 / row.windows.max(1) as f64;
    do_differ(&row.by_process(), per_window.max(1.0), row.list.threshold())
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
