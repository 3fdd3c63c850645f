//! Sums of many lists, as of a day of flushes, against exact counts.

#[path = "streams/mod.rs"]
mod streams;

use hotlist::{Config, Draws, Generator, Hotlist, Sum};
use streams::{ALL, Source, Stream, ZIPF_VALUES};

/// Flushes of a day.
const FLUSHES: usize = 1_440;
/// Events of a flush.
const EVENTS: usize = 1_000;

/// A list of a flush, and the exact counts of all of them so far.
fn flush(source: &Source, exact: &mut [u64], random: &mut Generator) -> Hotlist {
    let mut list = Hotlist::new(&Config::default().precise());
    for (time, value) in (0..).zip(source.draw(EVENTS, random)) {
        list.update(value, time, random);
        exact[value as usize] += 1;
    }
    list
}

/// Root of the mean square of the errors of the five largest shares, in points.
fn error(exact: &[u64], estimate: impl Fn(u64) -> f64) -> f64 {
    let all: u64 = exact.iter().sum();
    let mut values: Vec<usize> = (0..exact.len()).collect();
    values.sort_by_key(|&value| std::cmp::Reverse(exact[value]));
    let errors = values.iter().take(5).map(|&value| {
        let off = estimate(value as u64) - exact[value] as f64;
        (100.0 * off / all as f64).powi(2)
    });
    (errors.sum::<f64>() / 5.0).sqrt()
}

fn of_sum(sum: &Sum, value: u64) -> f64 {
    let tuple = sum.tuples().find(|tuple| tuple.value == value);
    tuple.map_or(0.0, |tuple| tuple.estimate())
}

/// The largest shares of a day of flushes are right to a tenth of a point with all values kept.
/// With room for fewer those that stand out from the rest are as right. One list that takes in
/// all flushes is not.
#[test]
fn a_day_of_flushes() {
    for kind in ALL.into_iter().chain([Stream::Zipf(1.2)]) {
        let source = Source::new(kind);
        let mut random = Generator::new(51);
        let mut exact = vec![0; ZIPF_VALUES];
        let mut sums = [Sum::<u64>::MOST, 256, 64].map(Sum::new);
        let mut merged = Hotlist::new(&Config::default().precise());
        for _ in 0..FLUSHES {
            let list = flush(&source, &mut exact, &mut random);
            for sum in &mut sums {
                sum.add(&list, &mut random);
            }
            merged = merged.merge(&list, &mut random);
        }
        let errors = sums
            .each_ref()
            .map(|sum| error(&exact, |value| of_sum(sum, value)));
        let of_merged = error(&exact, |value| {
            let tuple = merged.tuples().find(|tuple| tuple.value == value);
            tuple.map_or(0.0, |tuple| tuple.estimate())
        });
        if std::env::var_os("SHOW").is_some() {
            let lengths = sums.each_ref().map(Sum::len);
            println!("{kind}: sums {errors:.4?} of {lengths:?} values, merged {of_merged:.3}");
        }
        for (sum, error) in sums.iter().zip(errors) {
            let alike = kind == Stream::Uniform && sum.len() < 1_000;
            assert!(
                error <= if alike { 0.3 } else { 0.1 },
                "{kind}, {} values: {error}",
                sum.len()
            );
            assert_eq!(sum.events(), (FLUSHES * EVENTS) as u64);
        }
        assert!(sums[2].len() <= 128);
        assert!(of_merged <= 4.0, "{kind}: {of_merged}");
    }
}

/// A million values that come once each take no more room than was given, and what they are kept
/// as adds up to what came.
#[test]
fn a_million_values() {
    let mut random = Generator::new(52);
    let mut sum = Sum::new(500);
    let mut value = 0;
    for _ in 0..1_000 {
        let mut list = Hotlist::new(&Config::default().precise());
        for time in 0..1_000 {
            // One of them comes at every tenth event.
            value += 1;
            list.update(if value % 10 == 0 { 0 } else { value }, time, &mut random);
        }
        sum.add(&list, &mut random);
        assert!(sum.len() <= 1_000);
    }
    let total: f64 = sum.tuples().map(|tuple| tuple.estimate()).sum();
    assert!((total / 1e6 - 1.0).abs() < 0.1, "{total}");
    let first = sum.tuples().next().expect("there are values");
    assert_eq!(first.value, 0);
    let off = (first.estimate() - 1e5).abs();
    assert!(
        off < 4.0 * first.variance().sqrt(),
        "{off} for {}",
        first.variance()
    );
}

/// The interval of a share holds the one that events were drawn with 93 to 98 times of 100, and is
/// not twice as wide as it would be without any thinning; values of a few hits are wider. The
/// sum has room for all values, or for as few as a list.
#[test]
fn intervals_of_sums() {
    for share in [0.1, 0.3, 0.6, 0.95] {
        for most in [1_000, 12] {
            let (held, width) = interval_of_sum(most, share);
            assert!((0.925..=0.985).contains(&held), "{most} {share}: {held}");
            // In so little room a value of every tenth event is at stake itself.
            let staked = most == 12 && share < 0.3;
            assert!(width < 1.6 || staked, "{most} {share}: {width}");
        }
    }
    let (held, _) = interval_of_sum(1_000, 0.02);
    assert!((0.925..=0.985).contains(&held), "0.02: {held}");
}

/// How often it does, and how wide it is, in widths of the binomial one.
fn interval_of_sum(most: usize, share: f64) -> (f64, f64) {
    let (mut held, mut width, mut listed) = (0, 0.0, 0);
    let mut random = Generator::new(53);
    for _ in 0..1_000 {
        let mut sum = Sum::new(most);
        for _ in 0..10 {
            let mut list = Hotlist::new(&Config::default().precise());
            for time in 0..200 {
                let value = match random.uniform() <= share {
                    true => 0,
                    false => 1 + random.next_u64() % 100_000,
                };
                list.update(value, time, &mut random);
            }
            sum.add(&list, &mut random);
        }
        let Some(tuple) = sum.tuples().find(|tuple| tuple.value == 0) else {
            continue;
        };
        let draws = Draws {
            samples: 2_000,
            windows: 2_000,
            reached: 2_000,
            even: 0.5,
        };
        let (low, high) = sum.interval(&tuple, &draws);
        listed += 1;
        held += u32::from(low <= 100.0 * share && 100.0 * share <= high);
        width += high - low;
    }
    let listed = f64::from(listed);
    let (held, width) = (f64::from(held) / listed, width / listed);
    let binomial = 2.0 * 1.96 * 100.0 * (share * (1.0 - share) / 2_000_f64).sqrt();
    if std::env::var_os("SHOW").is_some() {
        println!("{most} {share}: {held:.3} of {listed}, {width:.2} points for {binomial:.2}");
    }
    (held, width / binomial)
}
