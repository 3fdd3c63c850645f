//! Properties of any list, against an exact count of the stream.

use std::collections::BTreeMap;

use hotlist::{
    Coins, Config, Eviction, Generator, Hotlist, Method, Pairs, Parts, PartsTuple, Trend, interval,
};
use proptest::prelude::*;

fn config() -> impl Strategy<Value = Config> {
    let methods = [Method::Switching, Method::Counting, Method::Concise];
    let evictions = [Eviction::ByEvent, Eviction::ByWeight];
    let factor = prop_oneof![1.01..1.5_f64, 1.5..1e6_f64];
    let methods = prop::sample::select(methods.to_vec());
    let evictions = prop::sample::select(evictions.to_vec());
    (
        2..20_usize,
        factor,
        0..10_u32,
        1..20_u32,
        methods,
        evictions,
    )
        .prop_map(|(capacity, factor, min_end, range, method, eviction)| {
            let config = Config::new(capacity, factor, min_end, min_end + range).unwrap();
            config.method(method).eviction(eviction)
        })
}

/// Values with a few common ones among them, and times that stand still now and then.
fn stream() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let value = prop_oneof![3 => 0..4_u64, 1 => 0..40_u64, 1 => any::<u64>()];
    prop::collection::vec((value, prop_oneof![0..100_u64, 0..1_u64 << 40]), 0..400).prop_map(
        |events| {
            let mut now = 1 << 60;
            events
                .into_iter()
                .map(|(value, step)| {
                    (value, {
                        now += step;
                        now
                    })
                })
                .collect()
        },
    )
}

fn listed(config: &Config, stream: &[(u64, u64)], coins: &mut impl Coins) -> Hotlist {
    let mut list = Hotlist::new(config);
    for &(value, time) in stream {
        list.update(value, time, coins);
    }
    list
}

fn counted(stream: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    let mut exact = BTreeMap::new();
    for &(value, _) in stream {
        *exact.entry(value).or_default() += 1;
    }
    exact
}

/// What holds for every list, however it came about.
fn check(list: &Hotlist, exact: &BTreeMap<u64, u64>) {
    let tuples: Vec<_> = list.tuples().collect();
    assert_eq!(list.len(), tuples.len());
    assert!(list.len() <= list.config().capacity());
    assert!(list.p() > 0.0 && list.p() <= 1.0);
    assert_eq!(list.events(), exact.values().sum::<u64>());
    let ends = list.config().min_end()..=list.config().max_end();
    assert!(ends.contains(&list.sat_count()));
    for tuple in &tuples {
        assert!(tuple.counted >= 1);
        let true_count = exact.get(&tuple.value).copied().unwrap_or_default();
        // Eviction by weight keeps estimates, not counts.
        let weights = list.config().evictions() == Eviction::ByWeight;
        assert!(
            weights || tuple.counted + tuple.certain <= true_count,
            "counted what was not offered"
        );
        assert!(true_count > 0, "a value that was not offered");
        if list.p() == 1.0 {
            assert_eq!(tuple.counted + tuple.certain, true_count);
        }
    }
    let estimates: Vec<_> = tuples.iter().map(|tuple| tuple.estimate()).collect();
    assert!(
        estimates.is_sorted_by(|a, b| *a >= b * (1.0 - 1e-12)),
        "highest first: {estimates:?}"
    );
    let values: BTreeMap<_, _> = tuples.iter().map(|tuple| (tuple.value, ())).collect();
    assert_eq!(values.len(), tuples.len(), "one tuple a value");
}

/// Coins that fall as badly as coins can: no list may hang or panic on them.
struct Hostile(u64);

impl Coins for Hostile {
    fn gap(&mut self, _good: f64, limit: u64) -> u64 {
        [0, limit, u64::MAX, limit / 2][self.0 as usize % 4]
    }

    fn losses(&mut self, trials: u64, _bad: f64) -> u64 {
        [0, trials, u64::MAX, trials / 2][self.0 as usize / 4 % 4]
    }
}

/// Numbers that somebody may have written into a file, likely ones and the extremes.
fn number() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        u64::from(u32::MAX) - 2,
        u64::from(u32::MAX),
        1 << 53,
        u64::MAX,
    ];
    prop_oneof![
        0..200_u64,
        prop::sample::select(edges.to_vec()),
        any::<u64>()
    ]
}

fn parts() -> impl Strategy<Value = Parts> {
    let p = prop_oneof![Just(1.0), 0.0..1.0, Just(1e-9), Just(1e-60), any::<f64>()];
    let variance = prop_oneof![
        Just(None),
        any::<f32>().prop_map(Some),
        (0.0..1e6_f32).prop_map(Some)
    ];
    let pairs = || (number(), number()).prop_map(|(within, across)| Pairs { within, across });
    let counts = (number(), number(), number(), number());
    let tuple = (counts, variance, pairs()).prop_map(
        |((value, counted, certain, first), variance, pairs)| PartsTuple {
            variance,
            pairs,
            ..PartsTuple::new(value, counted, certain, first)
        },
    );
    let tuples = prop::collection::vec(tuple, 0..6);
    (
        config(),
        p,
        any::<bool>(),
        0..60_u32,
        number(),
        number(),
        prop::option::of(pairs()),
        tuples,
    )
        .prop_map(
            |(config, p, concise, sat_count, events, last, pairs, tuples)| Parts {
                config,
                p,
                concise,
                sat_count,
                events,
                last,
                pairs,
                tuples,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lists are exact up to N distinct values, p never rises, counts never exceed the truth.
    #[test]
    fn any_stream(config in config(), stream in stream(), seed: u64) {
        let mut coins = Generator::new(seed);
        let mut list = Hotlist::new(&config);
        let mut exact = BTreeMap::new();
        for &(value, time) in &stream {
            let before = list.p();
            list.update(value, time, &mut coins);
            *exact.entry(value).or_default() += 1;
            prop_assert!(list.p() <= before);
            prop_assert!(list.p() == 1.0 || exact.len() > config.capacity());
            check(&list, &exact);
        }
        // S lies within the stream, as exactly as it is kept.
        if let (Some(&(_, start)), Some(&(_, end))) = (stream.first(), stream.last()) {
            for tuple in list.tuples() {
                let slack = (end - start) >> 31;
                prop_assert!(tuple.first + slack >= start && tuple.first <= end);
            }
        }
    }

    /// Merging is exact while the values fit, stays within the truth, and never raises p.
    #[test]
    fn any_merge(a_config in config(), b_config in config(), stream in stream(), cut in 0.0..1.0, seed: u64) {
        let mut coins = Generator::new(seed);
        let (front, back) = stream.split_at((stream.len() as f64 * cut) as usize);
        let a = listed(&a_config, front, &mut coins);
        // Counts are within the truth by the same rule or not at all.
        let b_config = b_config.eviction(a_config.evictions());
        let b = listed(&b_config, back, &mut coins);
        let merged = a.merge(&b, &mut coins);
        prop_assert_eq!(merged.config(), a_config);
        prop_assert!(merged.p() <= a.p().min(b.p()));
        let exact = counted(&stream);
        if a.p() == 1.0 && b.p() == 1.0 {
            prop_assert_eq!(merged.p() == 1.0, exact.len() <= a_config.capacity());
        }
        check(&merged, &exact);
        let again = Hotlist::from_parts(merged.to_parts()).unwrap();
        prop_assert_eq!(again.to_parts(), merged.to_parts());
    }

    /// A list brought back from its parts goes on like the one it was taken from.
    #[test]
    fn parts_live_on(config in config(), stream in stream(), seed: u64) {
        let (front, back) = stream.split_at(stream.len() / 2);
        let list = listed(&config, front, &mut Generator::new(seed));
        let mut again = Hotlist::from_parts(list.to_parts()).unwrap();
        prop_assert_eq!(again.to_parts(), list.to_parts());
        let mut coins = Generator::new(!seed);
        for &(value, time) in back {
            again.update(value, time, &mut coins);
        }
        check(&again, &counted(&stream));
    }

    /// Parts from anywhere are refused or make a list that goes on, merges and reports.
    #[test]
    fn any_parts(a in parts(), b in parts(), stream in stream(), seed: u64) {
        let mut coins = Generator::new(seed);
        let lists: Vec<_> = [a, b].into_iter().filter_map(|parts| Hotlist::from_parts(parts).ok()).collect();
        for list in &lists {
            let mut merged = list.merge(&lists[0], &mut coins);
            for &(value, time) in &stream {
                merged.update(value, time, &mut coins);
            }
            prop_assert!(merged.len() <= merged.config().capacity());
            for tuple in merged.tuples() {
                prop_assert!(tuple.estimate().is_finite() && tuple.variance().is_finite());
                let (low, high) = tuple.interval(merged.events(), 7, 3);
                prop_assert!(0.0 <= low && low <= high && high <= 100.0);
                for (start, now) in [(0, u64::MAX), (u64::MAX, 0), (tuple.first, tuple.first), (5, 1 << 61)] {
                    if let Trend::Rising(sure) | Trend::Falling(sure) = tuple.trend(start, now) {
                        prop_assert!(sure > 0.5 && sure <= 1.0);
                    }
                }
            }
        }
    }

    /// Unfair coins cost truth, but neither a panic nor an endless loop.
    #[test]
    fn hostile_coins(config in config(), stream in stream(), kind in 0..16_u64) {
        let mut coins = Hostile(kind);
        let a = listed(&config, &stream, &mut coins);
        let b = listed(&config, &stream[stream.len() / 2..], &mut coins);
        let merged = a.merge(&b, &mut coins);
        prop_assert!(merged.len() <= config.capacity());
    }

    /// A tuple's own interval holds its share and lies within the one that knows only p.
    #[test]
    fn intervals(config in config(), stream in stream(), seed: u64, unknown in 0..400_u64) {
        let list = listed(&config, &stream, &mut Generator::new(seed));
        let samples = list.events();
        for tuple in list.tuples() {
            let (low, high) = tuple.interval(samples, samples, samples + unknown);
            let wide = interval(tuple.estimate(), samples, samples, samples + unknown, list.p());
            prop_assert!(wide.0 <= low + 1e-9 && high <= wide.1 + 1e-9);
            if unknown == 0 {
                let share = (100.0 * tuple.estimate() / samples as f64).min(100.0);
                prop_assert!(low <= share + 1e-9 && share <= high + 1e-9);
            }
        }
    }
}
