//! The estimates are unbiased, by simulation; the derivation is in the crate's documentation.

use hotlist::{Config, Eviction, Generator, Hotlist, Method};

/// A stream that makes small lists thin and switch a lot: an early favourite, a late one, a
/// steady one, and rare values in between.
fn stream() -> Vec<u64> {
    let mut random = Generator::new(7);
    (0..300)
        .map(|at| match random.next_u64() % 10 {
            0..=3 if at < 100 => 0,
            0..=3 if at >= 200 => 1,
            0..=5 => 2,
            6..=7 => 3 + random.next_u64() % 3,
            _ => 10 + random.next_u64() % 30,
        })
        .collect()
}

/// All ways of counting and evicting, with N = 4 and a MaxEnd that is reached often.
fn configs() -> impl Iterator<Item = Config> {
    let plain = Config::new(4, 4.0 / 3.0, 0, 3).unwrap();
    let methods = [Method::Switching, Method::Counting, Method::Concise];
    methods.into_iter().flat_map(move |method| {
        let evictions = [Eviction::ByEvent, Eviction::ByWeight];
        evictions.map(|eviction| plain.method(method).eviction(eviction))
    })
}

/// The mean error of every value's estimate over many runs of `list`, which stands for `stream`,
/// is within what chance allows.
fn assert_unbiased(stream: &[u64], what: &str, mut list: impl FnMut() -> Hotlist) {
    const RUNS: u32 = 20_000;
    let mut sums = [(0.0, 0.0); 40];
    for _ in 0..RUNS {
        let mut errors = [0.0; 40];
        for &value in stream {
            errors[value as usize] -= 1.0;
        }
        for tuple in list().tuples() {
            errors[tuple.value as usize] += tuple.estimate();
        }
        for (sum, error) in sums.iter_mut().zip(errors) {
            *sum = (sum.0 + error, sum.1 + error * error);
        }
    }
    for (value, (sum, squares)) in sums.into_iter().enumerate() {
        let mean = sum / f64::from(RUNS);
        let error = (squares / f64::from(RUNS)).sqrt() / f64::from(RUNS).sqrt();
        // One in 500,000 for each of a few hundred values; the seeds are fixed.
        assert!(
            mean.abs() <= 4.75 * error + 1e-9,
            "{what}: value {value} is off by {mean} ± {error}"
        );
    }
}

/// Every value's estimate is unbiased with every method and eviction, over thinning and switching
/// from one method to the other and back.
#[test]
fn one_stream() {
    let stream = stream();
    for config in configs() {
        let mut coins = Generator::new(11);
        let mut switches = 0;
        assert_unbiased(&stream, &format!("{config:?}"), || {
            let mut list = Hotlist::new(&config);
            let mut concise = list.is_concise();
            for (time, &value) in (0..).zip(&stream) {
                list.update(value, time, &mut coins);
                switches += u32::from(list.is_concise() != concise);
                concise = list.is_concise();
            }
            list
        });
        let switching = config.methods() == Method::Switching;
        let often = switches > 2 * 20_000;
        assert_eq!(often, switching, "{switches} switches, {config:?}");
    }
}

/// Merging lists of very different p keeps every estimate unbiased, and so does going on after it.
#[test]
fn merged_streams() {
    let stream = stream();
    for config in configs() {
        let mut coins = Generator::new(13);
        assert_unbiased(&stream, &format!("merged, {config:?}"), || {
            let mut parts = [20, 170, 50].map(|length| (length, Hotlist::new(&config)));
            let mut events = (0..).zip(&stream);
            for (length, list) in &mut parts {
                for (time, &value) in events.by_ref().take(*length) {
                    list.update(value, time, &mut coins);
                }
            }
            let [(_, a), (_, b), (_, c)] = parts;
            let mut all = a.merge(&c.merge(&b, &mut coins), &mut coins);
            for (time, &value) in events {
                all.update(value, time, &mut coins);
            }
            all
        });
    }
}
