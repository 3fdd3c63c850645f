//! The call stacks of a profile, and what interrupts there are without one.
//!
//! Every interrupt has a row that counts it, with its caller at most. Those whose stacks were
//! recorded are counted there again. So what is exported adds up to all interrupts: the stacks, and
//! what is left of each row without them.

use std::collections::BTreeMap;

use crate::failure::Failure;
use crate::report::nothing;
use crate::view::{Heat, View};

/// Which interrupts are one sample.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path<O> {
    /// Whose they are, as far as that is told.
    pub(crate) of: O,
    /// Indices of PCs: what was interrupted, then the calls that lead there.
    pub(crate) pcs: Vec<usize>,
    /// Why there are no more of them; `None`: there is none.
    pub(crate) cut: Option<&'static str>,
}

/// Flush, process and access tag of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// When its flush began and ended, in nanoseconds of the Unix epoch, where that is told.
    pub(crate) time: Time,
    /// Index of the process.
    pub(crate) process: usize,
    /// Index of the access tag.
    pub(crate) subject: usize,
}

/// Begin and end of a flush; `None`: all are one.
pub(crate) type Time = Option<(i64, i64)>;

/// Why rows without a stack have no more than one caller.
const NO_STACK: &str = "no-stack";

/// What counts interrupts: whose they are, PC, and the caller by which rows are told apart.
type CyclesKey<O> = (O, usize, Option<usize>);

/// The interrupts that a view wants, by their stacks, those of one `origin` together.
pub(crate) fn paths<O: Ord + Copy>(
    view: &View<'_>,
    origin: impl Fn(Origin) -> O,
) -> BTreeMap<Path<O>, Heat> {
    let mut paths: BTreeMap<Path<O>, Heat> = BTreeMap::new();
    each_path(view, origin, &mut |path, heat| {
        paths.entry(path).or_default().add(heat);
    });
    paths.retain(|_, heat| heat.samples > 0);
    paths
}

/// As [`paths`], those with as many samples as the view asks for at least. What is left out is
/// noted.
///
/// # Errors
/// If there is none.
pub(crate) fn frequent_paths<O: Ord + Copy>(
    view: &mut View<'_>,
    origin: impl Fn(Origin) -> O,
) -> Result<BTreeMap<Path<O>, Heat>, Failure> {
    let mut paths = paths(view, origin);
    let before = paths.len();
    paths.retain(|_, heat| heat.samples >= view.min_samples);
    if paths.is_empty() {
        return Err(nothing("samples"));
    }
    let left_out = before - paths.len();
    if left_out > 0 {
        let stacks = crate::render::counted(left_out as u64, "stack");
        view.notes
            .push(format!("{stacks} left out (--min-samples)"));
    }
    Ok(paths)
}

/// Gives `take` the interrupts that a view wants, by their stacks and origins. A path may come more
/// than once: all of them take much memory.
pub(crate) fn each_path<O: Ord + Copy>(
    view: &View<'_>,
    origin: impl Fn(Origin) -> O,
    take: &mut dyn FnMut(Path<O>, Heat),
) {
    let profile = view.profile;
    let origin = |time: (i64, i64), process, subject| {
        origin(Origin {
            time: profile.by_flush.then_some(time),
            process,
            subject,
        })
    };
    let rows = profile.cycles.iter().filter(|row| view.wants(row.pc));
    let rows = rows.map(|row| {
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        let of = origin(row.time, row.process, row.subject);
        ((of, row.pc, row.caller), heat)
    });
    let mut without_stack = |(of, pc, caller): CyclesKey<O>, heat: Heat| {
        let path = Path {
            of,
            pcs: std::iter::once(pc).chain(caller).collect(),
            cut: Some(NO_STACK),
        };
        take(path, heat);
    };
    if profile.stacks.is_empty() {
        rows.for_each(|(key, heat)| without_stack(key, heat));
        return;
    }
    let mut rest: BTreeMap<CyclesKey<O>, Heat> = BTreeMap::new();
    for (key, heat) in rows {
        rest.entry(key).or_default().add(heat);
    }
    let mut whole = Vec::new();
    for row in &profile.stacks {
        let pcs: Vec<usize> = profile.frames(row).map(|frame| frame.pc).collect();
        let Some(leaf) = pcs.first().copied().filter(|leaf| view.wants(*leaf)) else {
            continue;
        };
        let of = origin(row.time, row.process, row.subject);
        let key = (of, leaf, pcs.get(1).copied());
        let path = Path {
            of,
            pcs,
            cut: (!row.end.is_whole()).then(|| row.end.name()),
        };
        let heat = Heat {
            samples: row.samples,
            cycles: row.cycles,
        };
        whole.push((path, taken(&mut rest, key, heat)));
    }
    for (key, heat) in rest {
        without_stack(key, heat);
    }
    for (path, heat) in whole {
        take(path, heat);
    }
}

/// Takes what a stack counts from the rows that count it too: those with its caller, then the
/// others of its PC. No more than there is: what a stack is missing in there is counted nowhere.
fn taken<O: Ord + Copy>(
    rest: &mut BTreeMap<CyclesKey<O>, Heat>,
    key: CyclesKey<O>,
    wanted: Heat,
) -> Heat {
    let (of, pc, _) = key;
    let row = |caller| (of, pc, caller);
    let all = row(None)..=row(Some(usize::MAX));
    let others = rest.range(all).map(|(other, _)| *other);
    let others: Vec<CyclesKey<O>> = others.filter(|other| *other != key).collect();
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
        let row = |caller| ((), 7, caller);
        let mut rest = BTreeMap::from([
            (row(None), heat(10, 100.0)),
            (row(Some(1)), heat(5, 50.0)),
            (((), 8, Some(1)), heat(9, 90.0)),
        ]);
        assert_eq!(taken(&mut rest, row(Some(1)), heat(4, 40.0)), heat(4, 40.0));
        assert_eq!(rest.get(&row(Some(1))), Some(&heat(1, 10.0)));
        assert_eq!(taken(&mut rest, row(Some(1)), heat(3, 30.0)), heat(3, 30.0));
        assert_eq!(rest.get(&row(None)), Some(&heat(8, 80.0)));
        assert_eq!(
            taken(&mut rest, row(Some(2)), heat(99, 990.0)),
            heat(8, 80.0)
        );
        assert_eq!(rest.get(&((), 8, Some(1))), Some(&heat(9, 90.0)));
    }
}
