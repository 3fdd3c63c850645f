//! Which processes a roll-up joins: those that lived for seconds become one of their command.

use std::collections::HashMap;

use crate::rows::Process;

/// A process that lived no longer than this, in nanoseconds, is not told apart after its hour.
const SHORT: i64 = 150_000_000_000;

/// When a process was seen: the ends of the first and the last flush that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenBetween {
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// The processes among `seen` that lived for seconds, by their ids.
///
/// A process says when it began since the boot. When that was, the youngest tell: each was seen
/// after it began, and one of many was seen at once. So a service that wakes seldom is told from a
/// program that ended soon, though a single flush has either.
pub(crate) fn short_lived(
    seen: &HashMap<i64, SeenBetween>,
    processes: &HashMap<i64, Process>,
) -> Vec<i64> {
    let started = |id: &i64| {
        let process = processes.get(id)?;
        i64::try_from(process.started).ok()
    };
    let boots = seen.iter();
    let boots = boots.filter_map(|(id, seen)| seen.first.checked_sub(started(id)?));
    let Some(boot) = boots.min() else {
        return Vec::new();
    };
    let lived = |id: &i64, seen: &SeenBetween| {
        let began = started(id)?.checked_add(boot)?;
        seen.last.checked_sub(began)
    };
    let is_short = |(id, seen): (&i64, &SeenBetween)| {
        let lived = lived(id, seen)?;
        (lived <= SHORT).then_some(*id)
    };
    let mut short: Vec<i64> = seen.iter().filter_map(is_short).collect();
    short.sort_unstable();
    short
}

/// The process that stands for all those of a command that lived for seconds. Its begin is made of
/// the command, so that it is the same one in all databases.
pub(crate) fn folded(comm: &str) -> Process {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    Process {
        pid: Process::FOLDED,
        started: comm.bytes().fold(0xcbf2_9ce4_8422_2325, mix) >> 1,
        execs: 0,
        comm: comm.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn process(started: i64) -> Process {
        Process {
            pid: 7,
            started: (started * SECOND).unsigned_abs(),
            execs: 0,
            comm: "cc1".to_owned(),
        }
    }

    fn of(rows: &[(i64, i64, i64, i64)]) -> Vec<i64> {
        let seen = |&(id, _, first, last): &(i64, i64, i64, i64)| {
            let (first, last) = (first * SECOND, last * SECOND);
            (id, SeenBetween { first, last })
        };
        let known = |&(id, started, ..): &(i64, i64, i64, i64)| (id, process(started));
        short_lived(
            &rows.iter().map(seen).collect(),
            &rows.iter().map(known).collect(),
        )
    }

    /// A compiler's process goes, a service stays, also one that was seen in one flush alone.
    #[test]
    fn by_age() {
        // The machine was booted at 1,000,000.
        let rows = [
            (1, 5_000, 1_005_010, 1_005_010),
            (2, 5_050, 1_005_070, 1_005_130),
            (3, 10, 1_005_010, 1_008_000),
            (4, 60, 1_005_070, 1_005_070),
        ];
        assert_eq!(of(&rows), [1, 2]);
    }

    /// What says nothing of its begin stays.
    #[test]
    fn unknown() {
        let seen = HashMap::from([(1, SeenBetween { first: 5, last: 5 })]);
        assert!(short_lived(&seen, &HashMap::new()).is_empty());
        assert!(short_lived(&HashMap::new(), &HashMap::new()).is_empty());
    }
}
