//! Whether the share of a value rises or falls over many lists.

use std::hash::Hash;

use foldhash::HashMap;

use crate::estimates::Estimates;
use crate::trend::Trend;
use crate::words::Words;

/// The lists of a place in the order of time, and what each says of every value.
///
/// [`Tuple::trend`](crate::Tuple::trend) tells of one list while it grows. This tells of what was
/// kept of several: of each list when it began and ended, and of each value the time S of its first
/// event.
///
/// Over several lists, the test is that for a linear trend in proportions (P. Armitage: Tests for
/// linear trends in proportions and frequencies, Biometrics 11, 1955), with the variance that
/// thinning has put into the estimates, and events counted as far as their windows are independent.
/// Programs have phases: where shares vary from list to list by more than chance explains, beside
/// the trend, the variance is that much larger (as in R. W. M. Wedderburn's quasi-likelihood,
/// Biometrika 61, 1974).
///
/// Of a single list, S tells that a value came late: if it always came at one rate, the chance that
/// k further events follow in the time A behind S, after none in the time B before, is
/// (A / (A + B))^k. A fall does not show in one list: S is too coarse for it.
#[derive(Clone, Debug)]
pub struct Course<V = u64> {
    lists: Vec<List>,
    /// The values of all lists, one list's behind the other's: few are ever asked for.
    values: Vec<(V, ListedValue)>,
}

/// A list.
#[derive(Clone, Copy, Debug)]
struct List {
    events: f64,
    /// Events for each window.
    effect: f64,
    /// 1/p.
    threshold: f64,
    started: u64,
    ended: u64,
}

/// A value in a list.
#[derive(Clone, Copy, Debug)]
struct ListedValue {
    /// Index of the list.
    list: usize,
    estimate: f64,
    variance: f64,
    /// S; `None` where it cannot tell, since events were passed over.
    first: Option<u64>,
}

/// When lists ended.
#[derive(Clone, Copy, Debug)]
struct Timespan {
    first: u64,
    last: u64,
    /// Of all lists.
    events: f64,
    /// The mean of their times, by events.
    mean: f64,
}

impl Timespan {
    fn of(lists: &[List]) -> Self {
        let ended = || lists.iter().map(|list| list.ended);
        let events: f64 = lists.iter().map(|list| list.events).sum();
        let mut span = Timespan {
            first: ended().min().unwrap_or(0),
            last: ended().max().unwrap_or(0),
            events,
            mean: 0.0,
        };
        let times = lists.iter().map(|list| list.events * span.place(list));
        span.mean = times.sum::<f64>() / events;
        span
    }

    /// The time of a list, from 0 to 1.
    fn place(&self, list: &List) -> f64 {
        (list.ended - self.first) as f64 / (self.last - self.first) as f64
    }
}

impl<V: Words + Ord + Hash> Course<V> {
    /// How sure a trend is that is told.
    pub const SURE: f64 = 0.999;
    /// A share that changes by less than this part of itself over all the time is steady to a
    /// reader, however sure the change is.
    const LEAST: f64 = 0.25;

    /// No list yet.
    pub fn new() -> Self {
        Self {
            lists: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Adds a list whose known values came from so many windows, between these times.
    pub fn add(&mut self, list: &Estimates<V>, windows: f64, (started, ended): (u64, u64)) {
        if list.events.is_nan() || list.events <= 0.0 {
            return;
        }
        let index = self.lists.len();
        self.lists.push(List {
            events: list.events,
            effect: (list.events / windows.max(1.0)).max(1.0),
            threshold: list.threshold.max(1.0),
            started,
            ended: ended.max(started),
        });
        self.values.extend(list.tuples().map(|tuple| {
            let is_exact = tuple.variance <= 0.0 && list.threshold <= 1.0;
            let listed = ListedValue {
                list: index,
                estimate: tuple.estimate,
                variance: tuple.variance.max(0.0),
                first: Some(tuple.first).filter(|_| is_exact),
            };
            (tuple.value, listed)
        }));
    }

    /// Has no list any more; the room for them stays.
    pub fn clear(&mut self) {
        self.lists.clear();
        self.values.clear();
    }

    /// Whether the share of each of some values, no two of them equal, rises or falls, with a
    /// confidence of at least [`Self::SURE`].
    pub fn trends(&self, values: &[V]) -> Vec<Trend> {
        let asked: HashMap<V, usize> = values.iter().copied().zip(0..).collect();
        let place = |(value, listed): &(V, ListedValue)| Some((*asked.get(value)?, *listed));
        let mut seen: Vec<(usize, ListedValue)> = self.values.iter().filter_map(place).collect();
        // Those of a value stay in the order of the lists.
        seen.sort_by_key(|(place, _)| *place);
        let time = Timespan::of(&self.lists);
        let mut rest = seen.as_slice();
        let mut trends = Vec::with_capacity(values.len());
        for place in 0..values.len() {
            let count = rest.iter().take_while(|(of, _)| *of == place).count();
            let (own, others) = rest.split_at(count);
            rest = others;
            trends.push(self.trend(own, &time));
        }
        trends
    }

    fn trend(&self, seen: &[(usize, ListedValue)], time: &Timespan) -> Trend {
        let trend = match seen {
            [] => return Trend::Unknown,
            _ if time.first < time.last => self.over_lists(seen, time),
            [(_, one)] => self.within_a_list(one),
            _ => return Trend::Unknown,
        };
        match trend {
            Trend::Rising(sure) | Trend::Falling(sure) if sure < Self::SURE => Trend::Unknown,
            trend => trend,
        }
    }

    fn over_lists(&self, seen: &[(usize, ListedValue)], span: &Timespan) -> Trend {
        let &Timespan { events, mean, .. } = span;
        let time = |list: &List| span.place(list);
        let share = seen.iter().map(|(_, seen)| seen.estimate).sum::<f64>() / events;
        if !(share > 0.0 && share < 1.0) {
            return Trend::Unknown;
        }
        let mut of_value = vec![(0.0, 0.0); self.lists.len()];
        for (_, seen) in seen {
            if let Some((estimate, variance)) = of_value.get_mut(seen.list) {
                *estimate += seen.estimate;
                *variance += seen.variance;
            }
        }
        let (mut sum, mut spread, mut variance) = (0.0, 0.0, 0.0);
        // A list tells no variance of a value that it passed over. Of m events counted with the
        // probability p it is m (1 - p) / p, or that of the wait for the first one.
        let chance = |list: &List, (estimate, thinned): (f64, f64)| {
            let expected = share * list.events;
            let passed_over = match estimate > 0.0 {
                true => thinned,
                false => expected.min(list.threshold) * (list.threshold - 1.0),
            };
            expected * (1.0 - share) * list.effect + passed_over
        };
        for (list, seen) in self.lists.iter().zip(&of_value) {
            let from_mean = time(list) - mean;
            sum += seen.0 * from_mean;
            spread += list.events * from_mean * from_mean;
            variance += from_mean * from_mean * chance(list, *seen);
        }
        if !(spread > 0.0 && variance > 0.0) {
            return Trend::Unknown;
        }
        let slope = sum / spread;
        let mut dispersion = 0.0;
        for (list, seen) in self.lists.iter().zip(&of_value) {
            let expected = list.events * (share + slope * (time(list) - mean));
            let beside = seen.0 - expected;
            dispersion += beside * beside / chance(list, *seen);
        }
        if let Some(free) = self.lists.len().checked_sub(2).filter(|free| *free > 0) {
            variance *= (dispersion / free as f64).max(1.0);
        }
        if slope.abs() < Self::LEAST * share {
            return Trend::Unknown;
        }
        // Two-sided: the normal distribution has less than that beyond z (W. Feller, An
        // Introduction to Probability Theory, volume 1, 1968, VII.1).
        let sure = 1.0 - (-sum * sum / variance / 2.0).exp();
        match slope > 0.0 {
            true => Trend::Rising(sure),
            false => Trend::Falling(sure),
        }
    }

    fn within_a_list(&self, one: &ListedValue) -> Trend {
        let (Some(list), Some(first)) = (self.lists.get(one.list), one.first) else {
            return Trend::Unknown;
        };
        if !(list.started..list.ended).contains(&first) {
            return Trend::Unknown;
        }
        let (before, since) = ((first - list.started) as f64, (list.ended - first) as f64);
        let further = (one.estimate / list.effect - 1.0).max(0.0);
        let chance = (further * (since / (since + before)).ln()).exp();
        match before > Self::LEAST * (since + before) {
            true => Trend::Rising(1.0 - chance),
            false => Trend::Unknown,
        }
    }
}

impl<V: Words + Ord + Hash> Default for Course<V> {
    fn default() -> Self {
        Self::new()
    }
}
