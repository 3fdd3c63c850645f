//! The call stacks of a profile, and what interrupts there are without one.
//!
//! Every interrupt has a row that counts it, with its caller at most. Those whose stacks were
//! recorded are counted there again. So what is exported adds up to all interrupts: the stacks, and
//! what is left of each row without them.

use std::collections::BTreeMap;

use crate::view::{Heat, View};

/// Which interrupts are one sample.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    /// When its flush began and ended, in nanoseconds of the Unix epoch, where that is told.
    pub(crate) time: Time,
    /// Index of the process.
    pub(crate) process: usize,
    /// Index of the access tag.
    pub(crate) subject: usize,
    /// Indices of PCs: what was interrupted, then the calls that lead there.
    pub(crate) pcs: Vec<usize>,
    /// Why there are no more of them; `None`: there is none.
    pub(crate) cut: Option<&'static str>,
}

/// Begin and end of a flush; `None`: all are one.
pub(crate) type Time = Option<(i64, i64)>;

/// Why rows without a stack have no more than one caller.
const NO_STACK: &str = "no-stack";

/// What counts interrupts: flush, process, access tag, PC, and the caller by which rows are told
/// apart.
type CyclesKey = (Time, usize, usize, usize, Option<usize>);

/// The interrupts that a view wants, by their stacks.
pub(crate) fn paths(view: &View<'_>) -> BTreeMap<Path, Heat> {
    let time = |time: (i64, i64)| view.profile.by_flush.then_some(time);
    let mut rest: BTreeMap<CyclesKey, Heat> = BTreeMap::new();
    for row in &view.profile.cycles {
        if view.wants(row.pc) {
            let key = (time(row.time), row.process, row.subject, row.pc, row.caller);
            rest.entry(key).or_default().add(Heat {
                samples: row.samples,
                cycles: row.cycles,
            });
        }
    }
    let mut paths: BTreeMap<Path, Heat> = BTreeMap::new();
    for row in &view.profile.stacks {
        let pcs: Vec<usize> = view.profile.frames(row).map(|frame| frame.pc).collect();
        let Some(leaf) = pcs.first().copied().filter(|leaf| view.wants(*leaf)) else {
            continue;
        };
        let caller = pcs.get(1).copied();
        let key = (time(row.time), row.process, row.subject, leaf, caller);
        let path = Path {
            time: time(row.time),
            process: row.process,
            subject: row.subject,
            pcs,
            cut: (!row.end.is_whole()).then(|| row.end.name()),
        };
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        paths
            .entry(path)
            .or_default()
            .add(taken(&mut rest, key, heat));
    }
    for ((time, process, subject, pc, caller), heat) in rest {
        let path = Path {
            time,
            process,
            subject,
            pcs: std::iter::once(pc).chain(caller).collect(),
            cut: Some(NO_STACK),
        };
        paths.entry(path).or_default().add(heat);
    }
    paths.retain(|_, heat| heat.samples > 0);
    paths
}

/// Takes what a stack counts from the rows that count it too: those with its caller, then the
/// others of its PC. No more than there is: what a stack is missing in there is counted nowhere.
fn taken(rest: &mut BTreeMap<CyclesKey, Heat>, key: CyclesKey, wanted: Heat) -> Heat {
    let (time, process, subject, pc, _) = key;
    let row = |caller| (time, process, subject, pc, caller);
    let all = row(None)..=row(Some(usize::MAX));
    let others = rest.range(all).map(|(other, _)| *other);
    let others: Vec<CyclesKey> = others.filter(|other| *other != key).collect();
    let (mut left, mut taken) = (wanted, Heat::default());
    for row in std::iter::once(key).chain(others) {
        if left.samples == 0 {
            break;
        }
        let Some(heat) = rest.get_mut(&row) else {
            continue;
        };
        let samples = left.samples.min(heat.samples);
        // The last samples take what there is: cycles are sums of fractions.
        let cycles = match samples == heat.samples {
            true => heat.cycles,
            false => left.cycles.min(heat.cycles),
        };
        heat.samples -= samples;
        heat.cycles -= cycles;
        left.samples -= samples;
        left.cycles = (left.cycles - cycles).max(0.0);
        taken.add(Heat { samples, cycles });
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks take from the rows of their caller first, then from others of the PC, and never more
    /// than there is.
    #[test]
    fn rows_and_stacks_add_up() {
        let heat = |samples, cycles| Heat { samples, cycles };
        let row = |caller| (None, 0, 0, 7, caller);
        let mut rest = BTreeMap::from([
            (row(None), heat(10, 100.0)),
            (row(Some(1)), heat(5, 50.0)),
            ((None, 0, 0, 8, Some(1)), heat(9, 90.0)),
        ]);
        assert_eq!(taken(&mut rest, row(Some(1)), heat(4, 40.0)), heat(4, 40.0));
        assert_eq!(rest.get(&row(Some(1))), Some(&heat(1, 10.0)));
        assert_eq!(taken(&mut rest, row(Some(1)), heat(3, 30.0)), heat(3, 30.0));
        assert_eq!(rest.get(&row(None)), Some(&heat(8, 80.0)));
        assert_eq!(
            taken(&mut rest, row(Some(2)), heat(99, 990.0)),
            heat(8, 80.0)
        );
        assert_eq!(rest.get(&(None, 0, 0, 8, Some(1))), Some(&heat(9, 90.0)));
    }
}
