//! Lists that are added up while they are read: a service's day has millions, of far fewer places.

use std::sync::Arc;

use foldhash::HashMap;
use hotlist::Estimate;

use crate::join::join_equal;
use crate::profile::HotlistRow;
use crate::{AT_ENTRY, List, OF_EXECUTIONS};

/// The rows that lists are added to.
#[derive(Default)]
pub(super) struct Sums {
    rows: HashMap<Key, Summed>,
    parameters: HashMap<Arc<str>, u32>,
    /// Values that are being joined.
    room: Vec<Estimate<u64>>,
}

/// PC, call site from 1 on (0: none), parameter, and of shares of executions, or by entries, the
/// process. There are many of these: they are small.
type Key = (u32, u32, u32, u32);

/// A row that was added to.
struct Summed {
    index: u32,
    /// Its values when it had each of them once.
    distinct: u32,
}

/// A list that has as many values or fewer is left as it came.
const FEW: u32 = 8;

impl Sums {
    /// Adds a list to the one of its PC, call site and parameter.
    pub(super) fn add(&mut self, rows: &mut Vec<HotlistRow>, row: &HotlistRow) {
        let Some((key, next)) = self.key(row).zip(u32::try_from(rows.len()).ok()) else {
            rows.push(row.clone());
            return;
        };
        let known = self.rows.entry(key).or_insert(Summed {
            index: next,
            distinct: FEW,
        });
        let Some(sum) = rows.get_mut(known.index as usize) else {
            rows.push(row.clone());
            return;
        };
        add(sum, row);
        if sum.list.len() as u64 > 2 * u64::from(known.distinct) {
            join_values(&mut sum.list, &mut self.room);
            known.distinct = sum.list.count.max(FEW);
        }
    }

    fn key(&mut self, row: &HotlistRow) -> Option<Key> {
        let next = u32::try_from(self.parameters.len()).ok()?;
        let parameter = match self.parameters.get(&row.parameter) {
            Some(number) => *number,
            None => *self
                .parameters
                .entry(Arc::clone(&row.parameter))
                .or_insert(next),
        };
        let pc = u32::try_from(row.pc).ok()?;
        let caller = row.caller.map_or(Some(0), |pc| pc.checked_add(1))?;
        let of_executions = [OF_EXECUTIONS, AT_ENTRY];
        let process = match of_executions.iter().any(|of| row.parameter.starts_with(of)) {
            true => u32::try_from(row.process).ok()?,
            false => 0,
        };
        Some((pc, u32::try_from(caller).ok()?, parameter, process))
    }

    /// Has every row have each of its values once.
    pub(super) fn finish(mut self, rows: &mut [HotlistRow]) {
        for row in self.rows.into_values() {
            if let Some(sum) = rows.get_mut(row.index as usize) {
                join_values(&mut sum.list, &mut self.room);
                sum.list.tuples.shrink_to_fit();
            }
        }
    }
}

/// Adds one list to another, as [`hotlist::Sum`] does; values of both are there twice.
fn add(sum: &mut HotlistRow, row: &HotlistRow) {
    let evenness = |row: &HotlistRow| row.even.map(|even| even * row.list.events);
    let even = match (evenness(sum), evenness(row)) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    };
    sum.reached += row.reached;
    sum.unknown += row.unknown;
    sum.windows = sum.windows.saturating_add(row.windows);
    let more = &row.list;
    let list = &mut sum.list;
    if !more.is_empty() {
        list.threshold = match list.is_empty() {
            true => more.threshold,
            false => list.threshold.max(more.threshold),
        };
    }
    list.pairs = match (list.pairs, more.pairs) {
        (Some((within, across)), Some(more)) => Some((within + more.0, across + more.1)),
        // A list without events tells nothing and asks for nothing.
        (known, _) if more.events == 0.0 => known,
        (_, more) if list.events == 0.0 => more,
        _ => None,
    };
    list.events += more.events;
    list.append(more);
    sum.even = even.map(|even| even / list.events.max(f64::MIN_POSITIVE));
}

/// Makes one of each value's estimates. `room` is what they are joined in.
fn join_values(list: &mut List, room: &mut Vec<Estimate<u64>>) {
    if list.count < 2 {
        return;
    }
    room.clear();
    room.extend(list.tuples());
    let value = |tuple: &Estimate<u64>| tuple.value;
    join_equal(room, value, |sum, more| {
        sum.estimate += more.estimate;
        sum.variance += more.variance;
        sum.least += more.least;
        sum.first = sum.first.min(more.first);
        sum.pairs.0 += more.pairs.0;
        sum.pairs.1 += more.pairs.1;
    });
    list.set_tuples(room);
}

#[cfg(test)]
mod tests {
    use hotlist::{Config, Estimates, Generator, Hotlist, Sum};

    use super::*;

    /// Lists that were added up while they were read add up to what they do one by one.
    #[test]
    fn sums_are_the_same() {
        let mut coins = Generator::new(5);
        let config = Config::with_capacity(16).expect("a size").precise();
        let (mut sums, mut rows) = (Sums::default(), Vec::new());
        let (mut one_by_one, mut lists) = (Sum::new(Sum::<u64>::MOST), Vec::new());
        for flush in 0..200_u64 {
            let mut list = Hotlist::new(&config);
            for event in 0..flush % 40 {
                let value = match event % 3 {
                    0 => 7,
                    1 => 100 * flush + event,
                    _ => event / 5,
                };
                list.update(value, event, &mut coins);
            }
            let events = list.events();
            lists.push(HotlistRow {
                process: 0,
                subject: 0,
                pc: 3,
                caller: (flush % 2 == 0).then_some(9),
                parameter: "rax".into(),
                reached: events as f64 + 1.0,
                unknown: 1.0,
                windows: events,
                even: (flush % 5 > 0).then_some(0.5),
                time: (0, 1),
                list: List::from(&Estimates::from(&list)),
            });
        }
        for row in lists {
            if row.caller.is_some() {
                one_by_one.add_estimates(&row.list.estimates(), &mut coins);
            }
            sums.add(&mut rows, &row);
        }
        sums.finish(&mut rows);
        let [summed, other] = rows.as_slice() else {
            panic!("{} rows", rows.len());
        };
        assert_eq!((summed.caller, other.caller), (Some(9), None));
        let mut again = Sum::new(Sum::<u64>::MOST);
        again.add_estimates(&summed.list.estimates(), &mut coins);
        assert_eq!(summed.list.len(), one_by_one.len());
        assert_eq!(again.events(), one_by_one.events());
        assert_eq!(again.threshold(), one_by_one.threshold());
        assert_eq!(summed.reached, summed.list.events + 100.0);
        assert_eq!(summed.unknown, 100.0);
        for (a, b) in again.tuples().zip(one_by_one.tuples()) {
            assert_eq!((a.value, a.first), (b.value, b.first));
            assert!((a.estimate() - b.estimate()).abs() < 1e-9 * b.estimate());
            assert!((a.variance() - b.variance()).abs() <= 1e-9 * b.variance());
            assert!((a.least - b.least).abs() < 1e-9);
        }
        assert!(summed.even.is_some_and(|even| (0.3..=0.5).contains(&even)));
    }
}
