//! The intervals hold the truth as often as they say.

use hotlist::{Config, Eviction, Generator, Hotlist, Method, weighted_interval};

const RUNS: u32 = 1_000;

/// How often the interval of value 0's share holds the share that the stream was made with.
/// Values come `repeats` at a time, as in windows that see one value more than once, and the
/// windows are split over `lists`, which are merged.
fn coverage(config: &Config, share: f64, distinct: u64, repeats: u64, lists: u64) -> f64 {
    let mut random = Generator::new(21);
    let mut coins = Generator::new(22);
    let windows = 500;
    let mut held = 0;
    let mut listed = 0;
    for _ in 0..RUNS {
        let mut parts = vec![Hotlist::new(config); lists as usize];
        for window in 0..windows {
            let value = if random.uniform() <= share {
                0
            } else {
                1 + random.next_u64() % distinct
            };
            for _ in 0..repeats {
                parts[(window * lists / windows) as usize].update(value, window, &mut coins);
            }
        }
        let merge = |a: Hotlist, b: Hotlist| a.merge(&b, &mut coins);
        let list = parts.into_iter().reduce(merge).unwrap();
        let Some(tuple) = list.tuples().find(|tuple| tuple.value == 0) else {
            continue;
        };
        let samples = list.events();
        let (low, high) = tuple.interval(samples, windows, samples);
        listed += 1;
        held += u32::from(low <= 100.0 * share && 100.0 * share <= high);
    }
    assert!(listed > RUNS / 2);
    f64::from(held) / f64::from(listed)
}

/// Exact lists: 95 % of the intervals hold the truth, however often a window repeats its value.
#[test]
fn exact_lists() {
    for share in [0.02, 0.5, 0.95] {
        for repeats in [1, 5] {
            let held = coverage(&Config::default(), share, 10, repeats, 1);
            assert!((0.92..=0.98).contains(&held), "{share} {repeats}: {held}");
        }
    }
}

/// Thinned lists, with every method: hardly fewer than 95 %.
#[test]
fn thinned_lists() {
    for method in [Method::Switching, Method::Counting, Method::Concise] {
        for eviction in [Eviction::ByEvent, Eviction::ByWeight] {
            let config = Config::default().method(method).eviction(eviction);
            for share in [0.3, 0.6, 0.95] {
                let held = coverage(&config, share, 100_000, 1, 1);
                // Eviction by weight forgets a little of the spread that concise samples brought.
                let mixed = method != Method::Counting && eviction == Eviction::ByWeight;
                let least = if mixed { 0.90 } else { 0.92 };
                assert!(held > least, "{method:?} {eviction:?} {share}: {held}");
            }
        }
    }
}

/// Merged lists, as of several flushes: hardly fewer than 95 % either.
#[test]
fn merged_lists() {
    let by_weight = Config::default()
        .method(Method::Counting)
        .eviction(Eviction::ByWeight);
    for config in [Config::default(), by_weight] {
        for share in [0.1, 0.3, 0.6, 0.95] {
            let held = coverage(&config, share, 100_000, 1, 10);
            assert!(held > 0.92, "{config:?} {share}: {held}");
        }
    }
}

/// Windows of unequal weights: 95 % of the intervals hold the truth where the events of a window
/// are alike, and more where each is a draw of its own.
#[test]
fn weighted_windows() {
    let mut random = Generator::new(23);
    for share in [0.05, 0.5, 0.9] {
        for alike in [true, false] {
            let mut held = 0;
            for _ in 0..RUNS {
                let (mut part, mut all, mut squares) = (0.0, 0.0, 0.0);
                for _ in 0..300 {
                    // As windows behind stalls have them, twice for long intervals.
                    let times = 1.0 + (random.next_u64() % 2) as f64;
                    let weight = times * (0.05 + 0.95 * random.uniform());
                    let first = random.uniform() <= share;
                    let events = if alike { 1 + random.next_u64() % 3 } else { 12 };
                    for _ in 0..events {
                        let is_it = if alike {
                            first
                        } else {
                            random.uniform() <= share
                        };
                        part += weight * f64::from(u8::from(is_it));
                    }
                    let of_window = weight * events as f64;
                    all += of_window;
                    squares += of_window * of_window;
                }
                let (low, high) = weighted_interval(part, all, squares, all);
                held += u32::from(low <= 100.0 * share && 100.0 * share <= high);
            }
            let held = f64::from(held) / f64::from(RUNS);
            let most = if alike { 0.98 } else { 1.0 };
            assert!((0.92..=most).contains(&held), "{share} {alike}: {held}");
        }
    }
    assert_eq!(weighted_interval(0.0, 0.0, 0.0, 0.0), (0.0, 100.0));
    let (low, high) = weighted_interval(1.0, 2.0, 4.0, 8.0);
    assert!(low <= 12.5 && 87.5 <= high, "{low} {high}");
}
