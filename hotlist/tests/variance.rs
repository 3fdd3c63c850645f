//! The estimated variance is the true one, by simulation.

#[path = "streams/mod.rs"]
mod streams;

use hotlist::{Config, Eviction, Generator, Hotlist, Method, Sum};
use streams::{ALL, Source, Stream};

/// The streams that there are, and one more.
fn kinds() -> impl Iterator<Item = Stream> {
    ALL.into_iter().chain([Stream::Zipf(1.2)])
}

/// For the values that came most often: the sum of the mean estimated variances, and the sum of
/// the mean squared errors, over many runs on one stream, with how far chance may take the second.
fn variances(
    kind: Stream,
    runs: u32,
    mut estimates: impl FnMut(&[u64]) -> Vec<(u64, f64, f64)>,
) -> Vec<(f64, f64, f64)> {
    let stream = Source::new(kind).draw(3_000, &mut Generator::new(31));
    let mut exact = vec![0_u64; streams::ZIPF_VALUES];
    stream.iter().for_each(|&value| exact[value as usize] += 1);
    let mut top: Vec<usize> = (0..exact.len()).filter(|&value| exact[value] > 0).collect();
    top.sort_by_key(|&value| std::cmp::Reverse(exact[value]));
    top.truncate(8);
    // Estimated, squared error, its square.
    let mut sums = vec![(0.0, 0.0, 0.0); top.len()];
    for _ in 0..runs {
        let found = estimates(&stream);
        for (sum, &value) in sums.iter_mut().zip(&top) {
            let tuple = found.iter().find(|(found, ..)| *found == value as u64);
            let (estimate, variance) = tuple.map_or((0.0, 0.0), |&(_, x, v)| (x, v));
            let square = (estimate - exact[value] as f64).powi(2);
            *sum = (sum.0 + variance, sum.1 + square, sum.2 + square * square);
        }
    }
    let n = f64::from(runs);
    let mean = |&(estimated, squares, fourth): &(f64, f64, f64)| {
        let (estimated, squares) = (estimated / n, squares / n);
        let error = ((fourth / n - squares * squares).max(0.0) / n).sqrt();
        (estimated, squares, error)
    };
    sums.iter().map(mean).collect()
}

/// Every value's estimated variance over its true one is within these, but for chance.
fn assert_near(what: &str, found: &[(f64, f64, f64)], least: f64, most: f64) {
    for (rank, &(estimated, squares, error)) in found.iter().enumerate() {
        if std::env::var_os("SHOW").is_some() {
            println!(
                "{what} {rank}: {estimated:.2} for {squares:.2} ± {error:.2}: {:.3}",
                estimated / squares
            );
        }
        let chance = 3.5 * error + 1e-9;
        assert!(
            estimated >= least * (squares - chance) && estimated <= most * (squares + chance),
            "{what}: value {rank} has {estimated} for {squares} ± {error}"
        );
    }
}

fn tuples(list: &Hotlist) -> Vec<(u64, f64, f64)> {
    let of_tuple = |tuple: hotlist::Tuple| (tuple.value, tuple.estimate(), tuple.variance());
    list.tuples().map(of_tuple).collect()
}

fn listed(config: &Config, stream: &[u64], coins: &mut Generator) -> Hotlist {
    let mut list = Hotlist::new(config);
    for (time, &value) in (0..).zip(stream) {
        list.update(value, time, coins);
    }
    list
}

/// Of one list, with each method and eviction.
#[test]
fn one_list() {
    for eviction in [Eviction::ByEvent, Eviction::ByWeight] {
        for method in [Method::Counting, Method::Switching, Method::Concise] {
            let config = Config::default().method(method).eviction(eviction);
            // With several events of B, eviction by weight forgets some of what they brought.
            let mixed = method != Method::Counting && eviction == Eviction::ByWeight;
            let least = if mixed { 0.5 } else { 0.8 };
            for kind in kinds() {
                let mut coins = Generator::new(32);
                let found = variances(kind, 1_500, |stream| {
                    tuples(&listed(&config, stream, &mut coins))
                });
                // A value that all but never is lost has a variance of rare large errors, of
                // which so many runs see too few: common in one phase and rare in the next.
                let rare = matches!(kind, Stream::Phases) && eviction == Eviction::ByWeight;
                let most = if rare { 2.0 } else { 1.25 };
                assert_near(&format!("{kind}, {config:?}"), &found, least, most);
            }
        }
    }
}

/// Of precise lists that were merged: ten flushes of a stream, in order.
#[test]
fn merged_lists() {
    let config = Config::default().precise();
    for kind in kinds() {
        let mut coins = Generator::new(33);
        let found = variances(kind, 1_000, |stream| {
            let lists = stream
                .chunks(300)
                .map(|part| listed(&config, part, &mut Generator::new(coins.next_u64())));
            let lists: Vec<_> = lists.collect();
            let merged = lists.into_iter().reduce(|a, b| a.merge(&b, &mut coins));
            tuples(&merged.expect("ten of them"))
        });
        assert_near(&format!("merged {kind}"), &found, 0.8, 1.25);
    }
}

/// Of a sum of these, exact or with room for few values.
#[test]
fn summed_lists() {
    let config = Config::default().precise();
    for (most, kind) in [1_000, 12]
        .into_iter()
        .flat_map(|most| kinds().map(move |kind| (most, kind)))
    {
        let mut coins = Generator::new(34);
        let found = variances(kind, 1_000, |stream| {
            let mut sum = Sum::new(most);
            for part in stream.chunks(300) {
                sum.add(&listed(&config, part, &mut coins), &mut coins);
            }
            sum.tuples()
                .map(|tuple| (tuple.value, tuple.estimate(), tuple.variance()))
                .collect()
        });
        assert_near(&format!("sum of {most}, {kind}"), &found, 0.8, 1.25);
    }
}
