//! What the lists of a place say together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::thread;

use foldhash::{HashMap, HashSet};
use hotlist::{Coins, Course, Estimates, Sum, Summed};

use crate::profile::{HotlistRow, Profile};
use crate::read::threads;

/// The value profile of a parameter over all processes, access tags and flushes.
#[derive(Clone, Debug)]
pub struct Merged<'p> {
    /// Index of the PC.
    pub pc: usize,
    /// What was captured.
    pub parameter: &'p str,
    /// Index of the PC of the call site, if it was asked for and is known.
    pub caller: Option<usize>,
    /// How often a window came by.
    pub reached: u64,
    /// How often of these the value was unknown.
    pub unknown: u64,
    /// Distinct windows that the known values came from.
    pub windows: u64,
    /// How far these came at even distances: the mean over the flushes, by known values, with
    /// those of which it is not known as 0.
    pub even: f64,
    /// The values of all flushes.
    pub list: Sum<u64>,
    /// These, [as it has them](Sum::tuples).
    pub tuples: Vec<Summed>,
    /// The lists that were added up.
    pub rows: Vec<&'p HotlistRow>,
    /// What they say of rising and falling values, if that was asked for, and unless they were
    /// added up while they were read ([`crate::Filter::added_up`]).
    pub course: Option<Course<u64>>,
}

impl Merged<'_> {
    /// The events of each process, and how many of them have the most frequent value of all. Of
    /// parameters that are no executions this is not kept apart: see [`crate::Filter::added_up`].
    pub fn by_process(&self) -> Vec<(f64, f64)> {
        let most_frequent = self.tuples.first().map(|tuple| tuple.value);
        let mut of: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        let (first, others) = match self.rows.split_first() {
            Some((first, others)) => (first.process, others),
            None => return Vec::new(),
        };
        // Mostly there is one.
        if others.iter().all(|row| row.process == first) {
            return vec![(
                self.list.events() as f64,
                self.tuples.first().map_or(0.0, Summed::estimate),
            )];
        }
        for row in &self.rows {
            let mut tuples = row.list.tuples();
            let equal = tuples.find(|tuple| Some(tuple.value) == most_frequent);
            let (events, equals) = of.entry(row.process).or_default();
            *events += row.list.events;
            *equals += equal.map_or(0.0, |tuple| tuple.estimate);
        }
        of.into_values().collect()
    }

    /// The events of each process, and how many of them have each value. As with
    /// [`Self::by_process`], those of executions.
    pub fn values_by_process(&self) -> Vec<(f64, BTreeMap<u64, f64>)> {
        let mut of: BTreeMap<usize, (f64, BTreeMap<u64, f64>)> = BTreeMap::new();
        for row in &self.rows {
            let (events, values) = of.entry(row.process).or_default();
            *events += row.list.events;
            for tuple in row.list.tuples() {
                *values.entry(tuple.value).or_default() += tuple.estimate;
            }
        }
        of.into_values().collect()
    }
}

/// Values that a thread adds up at a time, at least. Fewer in all are not worth a thread.
const SOME_VALUES: usize = 1 << 14;

impl Profile {
    /// Adds up the hotlists of each PC, parameter and call site: counts, and the estimates of each
    /// value ([`Sum`]). Nothing is lost that a list of a flush knows, up to [`Sum::MOST`] values.
    /// Gives `take` what `of` makes of each, in the order of the PCs' indices, then of the
    /// parameters and call sites. Several threads add up, a few groups ahead of what is taken.
    ///
    /// What was seen at a PC, and from a call site, counts at those that `place` says, by their
    /// indices, and nowhere if that says `None`.
    /// Each group has coins of its own, so that what else is wanted changes nothing in it.
    ///
    /// Of parameters that `wants` says no to there is nothing. One of executions begins with
    /// [`crate::OF_EXECUTIONS`]. `with_courses` asks for [`Merged::course`].
    pub fn each_merged<'p, C: Coins, T: Send>(
        &'p self,
        wants: impl Fn(&str) -> bool,
        place: impl Fn(usize, Option<usize>) -> Option<(usize, Option<usize>)>,
        coins: impl Fn() -> C + Sync,
        with_courses: bool,
        of: impl Fn(&Merged<'p>) -> T + Sync,
        take: &mut dyn FnMut(T),
    ) {
        let members = self.members(wants, place);
        let with_courses = with_courses && !self.added_up;
        let make = |adding: &mut Adding<'p>, batch: &Range<usize>| {
            let mut rest = members.get(batch.clone()).unwrap_or_default();
            let mut made = Vec::new();
            while let Some(group) = first_group(rest) {
                made.push(of(adding.sum(group, with_courses, coins())));
                rest = rest.get(group.len()..).unwrap_or_default();
            }
            made
        };
        let batches = batches(&members);
        let threads = threads().min(batches.len());
        if threads < 2 {
            let mut adding = Adding::new();
            for batch in &batches {
                make(&mut adding, batch).into_iter().for_each(&mut *take);
            }
            return;
        }
        thread::scope(|scope| {
            let spawn = |first: usize| {
                // Each is one batch ahead of what is taken of it.
                let (made, taken) = sync_channel(0);
                let (batches, make) = (&batches, &make);
                scope.spawn(move || {
                    let mut adding = Adding::new();
                    for batch in batches.iter().skip(first).step_by(threads) {
                        // Who takes no more has panicked.
                        if made.send(make(&mut adding, batch)).is_err() {
                            return;
                        }
                    }
                });
                taken
            };
            let taken: Vec<_> = (0..threads).map(spawn).collect();
            for (_, taken) in batches.iter().zip(taken.iter().cycle()) {
                // A thread that is gone has panicked, which is told where it is waited for.
                let Ok(made) = taken.recv() else { return };
                made.into_iter().for_each(&mut *take);
            }
        });
    }

    /// The lists that count, those of a group behind each other.
    fn members(
        &self,
        wants: impl Fn(&str) -> bool,
        place: impl Fn(usize, Option<usize>) -> Option<(usize, Option<usize>)>,
    ) -> Vec<Member<'_>> {
        // Names are compared once, and not as often as lists are.
        let names = self.hotlists.iter().map(|row| &*row.parameter);
        let names: BTreeSet<&str> = names.collect::<HashSet<_>>().into_iter().collect();
        let ranks: HashMap<&str, Option<u32>> = names
            .into_iter()
            .zip(0..)
            .map(|(name, rank)| (name, wants(name).then_some(rank)))
            .collect();
        let mut members = Vec::new();
        for row in &self.hotlists {
            if let Some(Some(parameter)) = ranks.get(&*row.parameter).copied()
                && let Some((pc, caller)) = place(row.pc, row.caller)
            {
                members.push(Member {
                    pc,
                    parameter,
                    caller,
                    row,
                });
            }
        }
        // Rows of a group stay in their order.
        members.sort_by_key(Member::key);
        members
    }
}

/// A list, and where it counts.
struct Member<'p> {
    pc: usize,
    /// The place of the parameter's name in their order.
    parameter: u32,
    caller: Option<usize>,
    row: &'p HotlistRow,
}

impl Member<'_> {
    fn key(&self) -> (usize, u32, Option<usize>) {
        (self.pc, self.parameter, self.caller)
    }
}

/// The lists of the first group; `None`: there is none.
fn first_group<'m, 'p>(members: &'m [Member<'p>]) -> Option<&'m [Member<'p>]> {
    let key = members.first()?.key();
    let length = members.iter().take_while(|member| member.key() == key);
    members.get(..length.count())
}

/// Whole groups that have [`SOME_VALUES`] together, by the indices of their lists.
fn batches(members: &[Member<'_>]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut begin, mut end, mut values) = (0, 0, 0);
    while let Some(group) = first_group(members.get(end..).unwrap_or_default()) {
        end += group.len();
        values += group.iter().map(|of| of.row.list.len()).sum::<usize>();
        if values >= SOME_VALUES {
            batches.push(begin..end);
            (begin, values) = (end, 0);
        }
    }
    if begin < end {
        batches.push(begin..end);
    }
    batches
}

/// Adds up the lists of one group after the other in the same room: to ask the system for it each
/// time takes as long as to add up.
struct Adding<'p> {
    merged: Merged<'p>,
    /// Those of one list.
    values: Estimates<u64>,
}

impl<'p> Adding<'p> {
    fn new() -> Self {
        Self {
            merged: Merged {
                pc: 0,
                parameter: "",
                caller: None,
                reached: 0,
                unknown: 0,
                windows: 0,
                even: 0.0,
                list: Sum::new(Sum::<u64>::MOST),
                tuples: Vec::new(),
                rows: Vec::new(),
                course: None,
            },
            values: Estimates::default(),
        }
    }

    /// Adds up the lists of a group.
    fn sum(
        &mut self,
        group: &[Member<'p>],
        with_course: bool,
        mut coins: impl Coins,
    ) -> &Merged<'p> {
        // A sum that has no room becomes the largest number that has.
        let add = |count: fn(&HotlistRow) -> f64| {
            let sum: f64 = group.iter().map(|member| count(member.row)).sum();
            sum.round() as u64
        };
        let Self { merged, values } = self;
        merged.list.clear();
        let mut even = 0.0;
        let mut course = with_course.then(|| merged.course.take().unwrap_or_default());
        if let Some(course) = &mut course {
            course.clear();
        }
        for Member { row, .. } in group {
            row.list.unpack(values);
            merged.list.add_estimates(values, &mut coins);
            if let Some(course) = &mut course {
                let time = |time: i64| u64::try_from(time).unwrap_or(0);
                let time = (time(row.time.0), time(row.time.1));
                course.add(values, row.windows as f64, time);
            }
            even += row.even.unwrap_or(0.0) * row.list.events;
        }
        let first = group.first();
        (merged.pc, merged.parameter, merged.caller) = first.map_or((0, "", None), |first| {
            (first.pc, &*first.row.parameter, first.caller)
        });
        merged.reached = add(|row| row.reached);
        merged.unknown = add(|row| row.unknown);
        merged.windows = add(|row| row.windows as f64);
        merged.even = even / (merged.list.events() as f64).max(1.0);
        merged.rows.clear();
        merged.rows.extend(group.iter().map(|member| member.row));
        merged.course = course;
        merged.list.put_tuples(&mut merged.tuples);
        merged
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hotlist::{Estimate, Generator};

    use super::*;
    use crate::List;

    /// More lists than one thread adds up at a time come added up, each once and in order.
    #[test]
    fn side_by_side() {
        const PCS: usize = 600;
        const VALUES: u64 = 60;
        let tuples = (0..VALUES).map(|value| Estimate {
            value,
            estimate: 1.0,
            variance: 0.0,
            least: 1.0,
            first: 0,
            pairs: (0.0, 0.0),
        });
        let list = List::from(&Estimates {
            events: VALUES as f64,
            threshold: 1.0,
            pairs: None,
            tuples: tuples.collect(),
        });
        let row = |pc: usize| HotlistRow {
            process: 0,
            subject: 0,
            pc,
            caller: None,
            parameter: Arc::from("rax"),
            reached: VALUES as f64,
            unknown: 0.0,
            windows: VALUES,
            even: None,
            time: (0, 1),
            list: list.clone(),
        };
        let profile = Profile {
            hotlists: (0..PCS).rev().chain(0..PCS).map(row).collect(),
            ..Profile::default()
        };
        assert!(2 * PCS * VALUES as usize > 3 * SOME_VALUES);
        let mut all = Vec::new();
        profile.each_merged(
            |_| true,
            |pc, caller| Some((pc, caller)),
            || Generator::new(1),
            false,
            |merged| {
                let doubled = merged.list.tuples().filter(|of| of.estimate() == 2.0);
                (merged.pc, merged.reached, doubled.count() as u64)
            },
            &mut |of| all.push(of),
        );
        let expected: Vec<_> = (0..PCS).map(|pc| (pc, 2 * VALUES, VALUES)).collect();
        assert_eq!(all, expected);
    }
}
