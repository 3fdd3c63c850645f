//! The hotlist and its update.

use crate::coins::Coins;
use crate::config::{Config, Eviction, Method};
use crate::evict::entry_variance;
use crate::interval::{by_windows, share_interval};
use crate::pairs::Pairs;
use crate::store::{Counts, Store};
use crate::words::Words;

/// Set in a run that ends without an acceptance; alone, a run that has yet to be drawn.
const UNDRAWN: u32 = 1 << 31;
/// The longest run that is drawn at once.
const LONGEST: u32 = UNDRAWN - 1;
/// Below this p the list takes nothing new: it would no longer be a number to divide by.
pub(crate) const LEAST_P: f64 = f64::MIN_POSITIVE * 65_536.0;

/// A list of at most N tuples that stands for a stream of any length.
///
/// See the [crate's page](crate) for the method and for why its estimates are unbiased.
#[derive(Clone, Debug)]
pub struct Hotlist<V = u64> {
    pub(crate) store: Store<V>,
    pub(crate) p: f64,
    pub(crate) events: u64,
    pub(crate) factor: f64,
    /// Refusals left before the next acceptance; see [`UNDRAWN`].
    pub(crate) run: u32,
    pub(crate) sat_count: u8,
    pub(crate) min_end: u8,
    pub(crate) max_end: u8,
    pub(crate) mode: CountingMode,
}

/// How the next event is counted, and whether that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountingMode {
    Counting,
    Concise,
    AlwaysCounting,
    AlwaysConcise,
}

// Lists are many: 64 bytes and, for 16 tuples of one word, 592 on the heap.
const _: () = assert!(size_of::<Hotlist<u64>>() == 64);

/// A value of a list with what is known about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuple<V = u64> {
    /// The value.
    pub value: V,
    /// B: its events counted with probability p.
    pub counted: u64,
    /// D: its events counted surely.
    pub certain: u64,
    /// S: estimated time of the first event still counted, in the caller's unit.
    pub first: u64,
    /// How events of the value came together; all zero where [`Hotlist::pairs`] is none.
    pub pairs: Pairs,
    variance: f64,
    p: f64,
    eviction: Eviction,
}

impl<V> Tuple<V> {
    /// Unbiased estimate of how many events had this value: B/p + D.
    pub fn estimate(&self) -> f64 {
        self.counted as f64 / self.p + self.certain as f64
    }

    /// Unbiased estimate of the variance that thinning has put into [`Tuple::estimate`], zero
    /// while p is one.
    ///
    /// By event it is B (1-p) / p^2. By weight it is that of the moment at which the value entered
    /// the list or was last at stake (see the [crate's page](crate#variance)).
    pub fn variance(&self) -> f64 {
        self.variance
    }

    pub(crate) fn p(&self) -> f64 {
        self.p
    }

    pub(crate) fn eviction(&self) -> Eviction {
        self.eviction
    }

    /// A 95 % interval, in percent, of this value's share; the arguments and the rest are as for
    /// [`interval`](crate::interval), the thinning is this tuple's own.
    pub fn interval(&self, samples: u64, windows: u64, reached: u64) -> (f64, f64) {
        let effect = by_windows(samples, windows);
        share_interval(self.estimate(), self.variance(), samples, effect, reached)
    }
}

impl<V: Words> Hotlist<V> {
    /// An empty list: p = 1, SatCount = MinEnd. Allocates once, here.
    pub fn new(config: &Config) -> Self {
        let store = Store::new(config.bytes().0, config.evictions());
        Self::with_store(store, config)
    }

    /// An empty list that takes the room of its tuples as they come: for many lists of which most
    /// have few values. An event that brings a new value may allocate, three times at most in the
    /// life of a list of 64 tuples.
    pub fn growing(config: &Config) -> Self {
        let store = Store::growing(config.bytes().0, config.evictions());
        Self::with_store(store, config)
    }

    /// Takes no more room from here on than it has, or for four values where it has less, as if it
    /// had been a list of so many from the start: for want of memory. What it estimates stays
    /// unbiased.
    #[inline]
    pub fn stop_growing(&mut self) {
        self.store.stop_growing();
    }

    fn with_store(mut store: Store<V>, config: &Config) -> Self {
        let (_, min_end, max_end) = config.bytes();
        if config.methods() != Method::Counting {
            // Others pass over events without a look.
            store.forget_pairs();
        }
        Self {
            store,
            p: 1.0,
            events: 0,
            factor: config.factor(),
            run: UNDRAWN,
            sat_count: min_end,
            min_end,
            max_end,
            mode: match config.methods() {
                Method::Switching => CountingMode::Counting,
                Method::Counting => CountingMode::AlwaysCounting,
                Method::Concise => CountingMode::AlwaysConcise,
            },
        }
    }

    /// The settings of this list.
    pub fn config(&self) -> Config {
        let method = match self.mode {
            CountingMode::Counting | CountingMode::Concise => Method::Switching,
            CountingMode::AlwaysCounting => Method::Counting,
            CountingMode::AlwaysConcise => Method::Concise,
        };
        Config::of(
            self.factor,
            (self.store.capacity, self.min_end, self.max_end),
            method,
            self.store.eviction(),
        )
    }

    /// Events offered so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The probability with which an event of a value that is not in the list enters it.
    pub fn p(&self) -> f64 {
        self.p
    }

    /// 1/p: about the number of events below which a value may be missing.
    pub fn threshold(&self) -> f64 {
        1.0 / self.p
    }

    /// Tuples in the list.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether no event has been counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the next event is counted by concise samples (else by counting samples).
    pub fn is_concise(&self) -> bool {
        matches!(
            self.mode,
            CountingMode::Concise | CountingMode::AlwaysConcise
        )
    }

    /// The saturating counter of values found less values not found.
    pub fn sat_count(&self) -> u32 {
        u32::from(self.sat_count)
    }

    /// Bytes that the list takes, in itself and on the heap.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.store.heap()
    }

    /// How the events came together, whatever their values. `None` where it is not known: with
    /// methods other than counting samples, and of lists of old databases.
    pub fn pairs(&self) -> Option<Pairs> {
        self.store.tells_pairs().then(|| self.store.pairs(0))
    }

    /// The tuples, highest estimate first.
    pub fn tuples(&self) -> impl Iterator<Item = Tuple<V>> + '_ {
        (0..self.len()).map(|index| {
            let counts = self.store.counts(index);
            Tuple {
                value: self.store.value(index),
                counted: counts.counted,
                certain: counts.certain,
                first: counts.first,
                pairs: self.store.pairs(index + 1),
                variance: self.variance(counts),
                p: self.p,
                eviction: self.store.eviction(),
            }
        })
    }

    /// Estimated variance of the estimate that these counts make.
    pub(crate) fn variance(&self, counts: Counts) -> f64 {
        let of_event = (1.0 - self.p) / (self.p * self.p);
        match (self.store.eviction(), counts.counted) {
            // It has few bits: rounding must not take it beyond the largest that there can be.
            (Eviction::ByWeight, 1) => {
                let most = of_event * (1.0 + self.p * counts.certain as f64);
                f64::from(counts.variance).min(most)
            }
            (_, counted) => counted as f64 * of_event,
        }
    }

    /// Offers an event that is all that its window has for this list: see
    /// [`Hotlist::update_in_window`].
    #[inline(always)]
    pub fn update(&mut self, value: V, time: u64, coins: &mut impl Coins) {
        self.update_in_window(value, time, true, coins);
    }

    /// Offers an event. `time` is in any unit; it is kept as S. Where events come out of order, S
    /// is the time of the one that came first. `opens`: it is the first event of its window that
    /// this list is offered.
    ///
    /// Allocates nothing (but see [`Hotlist::growing`]), and draws no random number unless one is
    /// needed: none while p = 1, none for a value that counting samples find in the list, and one
    /// per acceptance else.
    #[inline(always)]
    pub fn update_in_window(&mut self, value: V, time: u64, opens: bool, coins: &mut impl Coins) {
        self.events = self.events.saturating_add(1);
        let concise = self.is_concise();
        if concise && !self.offer(coins) {
            return;
        }
        let found = self.store.find(value);
        if self.store.tells_pairs() {
            self.store.pair(found, opens);
        }
        match found {
            Some(index) => {
                let full = match concise {
                    true => self.store.count(index),
                    false => self.store.count_surely(index),
                };
                self.found(index, full, time, coins);
            }
            None => {
                self.not_found();
                if concise || self.offer(coins) {
                    self.enter(value, time, coins);
                }
            }
        }
    }

    /// Whether an event that is counted with probability p is counted.
    ///
    /// What is left of a run says so. Runs are drawn when first needed and end with an acceptance,
    /// which is what changes p, so none is left over from another p.
    #[inline]
    fn offer(&mut self, coins: &mut impl Coins) -> bool {
        if self.p >= 1.0 {
            return true;
        }
        if self.run == UNDRAWN {
            let run = coins.gap(self.p, u64::from(LONGEST));
            // A run of the full length says nothing of the event behind it: another run does.
            self.run = u32::try_from(run).map_or(LONGEST, |run| run.min(LONGEST));
            if self.run == LONGEST {
                self.run |= UNDRAWN;
            }
        }
        if self.run == 0 {
            self.run = UNDRAWN;
            return true;
        }
        self.run -= 1;
        false
    }

    /// After an event was added to a tuple.
    #[inline]
    fn found(&mut self, index: usize, full: bool, time: u64, coins: &mut impl Coins) {
        self.store.saw(time);
        if index > 0 {
            self.store.rise(index, self.p);
        }
        if self.sat_count < self.max_end {
            self.sat_count += 1;
            if self.sat_count == self.max_end && self.mode == CountingMode::Counting {
                self.mode = CountingMode::Concise;
            }
        }
        if full {
            self.make_room(time, coins);
        }
    }

    #[inline]
    fn not_found(&mut self) {
        if self.sat_count > self.min_end {
            self.sat_count -= 1;
            if self.sat_count == self.min_end && self.mode == CountingMode::Concise {
                self.mode = CountingMode::Counting;
            }
        }
    }

    /// A new tuple, for which p may have to fall until one of N + 1 is gone. The newcomer waits
    /// outside the list as its last tuple.
    #[inline(never)]
    fn enter(&mut self, value: V, time: u64, coins: &mut impl Coins) {
        let mut newcomer = Counts {
            counted: 1,
            certain: 0,
            first: time,
            variance: entry_variance(self.p),
        };
        while self.store.is_full() {
            let p = self.p / self.factor;
            if p < LEAST_P {
                return;
            }
            let lose = 1.0 - 1.0 / self.factor;
            self.thin(p, lose, time, coins);
            newcomer = self.store.eviction().thin(newcomer, lose, p, time, coins);
            if newcomer.counted == 0 {
                return;
            }
        }
        let index = self.len();
        self.store.push(value, newcomer);
        self.store.saw(time);
        if self.store.tells_pairs() {
            self.store.pair_newcomer(index);
        }
    }

    /// Lowers p: every event counted with probability p stays with probability 1 - `lose`, which
    /// must be the new p over the old one.
    fn thin(&mut self, p: f64, lose: f64, now: u64, coins: &mut impl Coins) {
        self.p = p;
        // S of what is left may come up to now, and must not pass the last event.
        self.store.saw(now);
        let mut kept = 0;
        for index in 0..self.store.len() {
            let old = self.store.counts(index);
            let new = self.store.eviction().thin(old, lose, p, now, coins);
            if new.counted == 0 {
                continue;
            }
            if kept != index {
                self.store.copy(index, kept);
            }
            if new.first != old.first {
                self.store.set(kept, new);
            } else if new != old {
                self.store.set_counts(kept, new);
            }
            kept += 1;
        }
        self.store.truncate(kept);
        self.store.sort(p);
    }

    /// Lowers p to this value at once. Whatever run was drawn for the old p is void.
    pub(crate) fn thin_to(&mut self, p: f64, now: u64, coins: &mut impl Coins) {
        if p < self.p {
            self.thin(p, 1.0 - p / self.p, now, coins);
            self.forget_run();
        }
    }

    /// What was drawn for another p is void.
    pub(crate) fn forget_run(&mut self) {
        self.run = UNDRAWN;
    }

    /// Brings counts that are at the end of their 32 bits back into range.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: u64, coins: &mut impl Coins) {
        while let Some(index) = (0..self.len()).find(|&index| self.store.counts(index).is_at_end())
        {
            let counts = self.store.counts(index);
            if self.p < LEAST_P {
                // No fair coins come here: 2^32 events were counted with a p of all but zero.
                let most = Counts::MAX;
                let (counted, certain) = (counts.counted.min(most), counts.certain.min(most));
                self.store.set(
                    index,
                    Counts {
                        counted,
                        certain,
                        ..counts
                    },
                );
            } else if let Some(folded) = counts.folded(self.p, coins) {
                self.store.set(index, folded);
                self.store.sort(self.p);
            } else {
                self.thin_to(self.p / 2.0, now, coins);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eviction, Generator, Parts, PartsTuple};

    /// A list in which one value has been counted almost as far as 32 bits go.
    fn nearly_full(p: f64, concise: bool, eviction: Eviction) -> Hotlist {
        let most = u64::from(u32::MAX) - 3;
        let (counted, certain) = if concise { (most, 7) } else { (1, most) };
        Hotlist::from_parts(Parts {
            config: Config::default().eviction(eviction),
            p,
            concise,
            sat_count: 25,
            events: 1 << 40,
            last: 100,
            tuples: vec![
                PartsTuple::new(1, counted, certain, 0),
                PartsTuple::new(2, 1 << 20, 1 << 20, 0),
            ],
            pairs: None,
        })
        .unwrap()
    }

    fn estimates(list: &Hotlist) -> Vec<(u64, f64)> {
        list.tuples()
            .map(|tuple| (tuple.value, tuple.estimate()))
            .collect()
    }

    /// Counts that come to the end of their 32 bits make room and stay right to about
    /// 1/sqrt(2^32 p); so do merged ones that would lie beyond it.
    #[test]
    fn counts_at_their_end() {
        let mut coins = Generator::new(1);
        for (p, concise) in [
            (1.0, false),
            (1.0, true),
            (0.25, false),
            (0.25, true),
            (1e-6, false),
        ] {
            for eviction in [Eviction::ByEvent, Eviction::ByWeight] {
                let mut list = nearly_full(p, concise, eviction);
                let before = estimates(&list);
                let merged = estimates(&list.merge(&list, &mut coins));
                for time in 100..200 {
                    list.update(1, time, &mut coins);
                }
                for (found, times) in [(estimates(&list), 1.0), (merged, 2.0)] {
                    assert_eq!(found.len(), 2);
                    for (&(value, estimate), &(same, wanted)) in found.iter().zip(&before) {
                        assert_eq!(value, same);
                        let off = (estimate / (times * wanted) - 1.0).abs();
                        let allowed = if value == 1 && p > 0.1 { 1e-4 } else { 6e-2 };
                        assert!(
                            off < allowed,
                            "{p} {concise} {eviction:?}: {estimate} for {wanted}"
                        );
                    }
                }
            }
        }
    }

    /// Events may come out of order, far out of it too: the last one is the latest, and S of a
    /// value is the time at which it came first.
    #[test]
    fn events_out_of_order() {
        let (mut list, mut coins) = (Hotlist::new(&Config::default()), Generator::new(1));
        for (value, time) in [(1, 1000), (2, 3000), (1, 2000), (3, 10), (2, 2500)] {
            list.update(value, time, &mut coins);
        }
        let parts = list.to_parts();
        assert_eq!(parts.last, 3000);
        let mut firsts: Vec<_> = parts.tuples.iter().map(|t| (t.value, t.first)).collect();
        firsts.sort_unstable();
        assert_eq!(firsts, [(1, 1000), (2, 3000), (3, 10)]);
        list.update(1, 1 << 50, &mut coins);
        list.update(1, 20, &mut coins);
        let last = list.to_parts().last;
        assert!(((1 << 50) - (1 << 20)..=1 << 50).contains(&last), "{last}");
    }
}
