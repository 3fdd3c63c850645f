//! Chunks as they are written, and as somebody may have forged them.

use std::collections::BTreeMap;

use hotlist::{Config, Estimates, Generator, Hotlist};
use proptest::prelude::*;

use super::*;
use crate::{Calls, Directions};

const PLACE: ChunkPlace = ChunkPlace {
    bucket: 0x40,
    time: (1_000, 1_000_000),
};

/// That place, for another kind.
fn place(kind: ChunkKind) -> ChunkPlace {
    ChunkPlace {
        bucket: bucket_of(kind, 0x40_0000),
        ..PLACE
    }
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Lists of all shapes: empty, constant, of few values, drawn from many, of one window and of more.
fn lists(seed: u64, count: usize, is_keyed: bool) -> Vec<ListOf> {
    let mut random = random(seed);
    let mut coins = Generator::new(seed);
    let row = |index: usize| {
        let config = match random(3) {
            0 => Config::default(),
            _ => Config::default().precise(),
        };
        let mut list = Hotlist::new(&config);
        let events = [0, 1, 1, 2, 5, 40, 400][random(7) as usize];
        let kinds = [1, 2, 3, 1_000][random(4) as usize];
        let base = [0, 0x7fff_0000_0000, u64::MAX][random(3) as usize];
        let each = 1 + random(2);
        for event in 0..events {
            let value = base ^ random(kinds);
            list.update_in_window(value, 1_000 + 100 * event, event % each == 0, &mut coins);
        }
        let unknown = random(3) as f64;
        let mut list = Estimates::from(&list);
        if random(9) == 0 {
            list.pairs = None;
            list.tuples
                .iter_mut()
                .for_each(|tuple| tuple.pairs = (0.0, 0.0));
        }
        let windows = events.div_ceil(each);
        ListOf {
            process: 3 + (index / 50) as i64,
            address: 0x40_0000 + 3 * (index as u64 % 50),
            caller: is_keyed.then(|| (1 + random(2) as i64, random(1 << 40))),
            parameter: 1 + random(20) as i64,
            reached: list.events + unknown,
            unknown,
            windows,
            even: [None, Some(windows as f64 / 1_000.0), Some(0.5)][random(3) as usize],
            list,
        }
    };
    layers((0..count).map(row).collect()).remove(0)
}

/// What a chunk gives back is what it was given, to the precision that it keeps.
fn assert_same(read: &ListOf, written: &ListOf) {
    assert_eq!(read.key(), written.key());
    assert_eq!(
        (read.reached, read.unknown),
        (written.reached, written.unknown)
    );
    assert_eq!(
        (read.windows, read.list.events),
        (written.windows, written.list.events)
    );
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-7 * other.abs();
    assert_eq!(read.list.pairs.is_some(), written.list.pairs.is_some());
    let evens = read.even.zip(written.even);
    assert!(evens.is_none_or(|(one, other)| (one - other).abs() <= 2e-4 * other));
    assert_eq!(read.even.is_some(), written.even.is_some());
    let pairs = |row: &ListOf| row.list.pairs.unwrap_or_default();
    assert!(near(pairs(read).0, pairs(written).0) && near(pairs(read).1, pairs(written).1));
    assert_eq!(read.list.len(), written.list.len());
    for (read, written) in read.list.tuples().zip(written.list.tuples()) {
        assert_eq!(read.value, written.value);
        assert!(near(read.estimate, written.estimate) && near(read.variance, written.variance));
        assert!(near(read.least, written.least) && near(read.pairs.0, written.pairs.0));
        assert!(near(read.pairs.1, written.pairs.1), "{read:?} {written:?}");
        let part = ((PLACE.time.1 - PLACE.time.0) / 256 + 1) as u64;
        let first = match written.estimate >= 8.0 {
            true => written.first,
            false => PLACE.time.0 as u64,
        };
        assert!(read.first <= first && first - read.first <= part);
    }
}

/// Lists of every shape come back.
#[test]
fn values_round_trip() {
    for seed in 0..30 {
        for is_keyed in [false, true] {
            let rows = lists(seed, 200, is_keyed);
            let blob = encode_values(PLACE, 7.0, &rows);
            let read = decode_values(PLACE, is_keyed, &blob).expect("it is good");
            assert_eq!((read.tau, read.rows.len()), (7.0, rows.len()));
            for (read, written) in read.rows.iter().zip(&rows) {
                assert_same(read, written);
            }
            let mut places = Vec::new();
            each_place(PLACE, &blob, |at| places.push(at)).expect("it is good");
            assert_eq!(places, rows.iter().map(ListOf::at).collect::<Vec<_>>());
        }
    }
}

/// So do lists that stand for others.
#[test]
fn weighed_lists_round_trip() {
    let mut rows = lists(5, 100, false);
    rows.iter_mut().for_each(|row| row.weigh(30.0));
    let blob = encode_values(PLACE, 0.0, &rows);
    let read = decode_values(PLACE, false, &blob).expect("it is good");
    for (read, written) in read.rows.iter().zip(&rows) {
        assert_same(read, written);
    }
}

fn counts(seed: u64) -> (Vec<CyclesOf>, Vec<BranchOf>, Vec<CallOf>) {
    let mut random = random(seed);
    let mut at = |index: u64| {
        let other = (random(2) == 0).then(|| (random(3) as i64, random(1 << 47)));
        (1 + (index / 40) as i64, 0x40_0000 + index % 40 * 5, other)
    };
    let places: Vec<At> = (0..120).map(&mut at).collect();
    let cycles = places.iter().map(|&(process, address, caller)| CyclesOf {
        process,
        address,
        caller,
        samples: random(9),
        weight: random(1 << 31) << random(30),
    });
    // Some are called from elsewhere, too.
    let cycles = cycles.flat_map(|row| {
        let again = row.caller.is_none().then(|| CyclesOf {
            caller: Some((1, 7)),
            ..row.clone()
        });
        [Some(row), again].into_iter().flatten()
    });
    let cycles = cycles.collect();
    let mut weight = |times: u64| times as f64 * [0.5, 1.25, 1.0 / 3.0][random(3) as usize];
    let branches = places.iter().map(|&(process, address, _)| {
        let times = [address % 3, address % 2, process as u64 % 2];
        let [taken, not_taken, unknown] = times;
        let weights = times.map(&mut weight);
        BranchOf {
            process,
            address,
            seen: Directions {
                taken,
                not_taken,
                unknown,
                weights,
                squares: (address % 4 != 0).then_some((weights[0] + weights[1]).powi(2)),
            },
        }
    });
    let branches = branches.collect();
    let calls = places.iter().map(|&(process, address, callee)| {
        let times = 1 + address % 7;
        CallOf {
            process,
            address,
            callee,
            seen: Calls {
                times,
                weight: weight(times),
                squares: (address % 3 != 0).then_some(0.25),
            },
        }
    });
    let calls = calls.collect();
    (cycles, branches, calls)
}

/// Squares are kept to a hundredth.
fn assert_near(read: Option<f64>, written: Option<f64>) {
    assert_eq!(read.is_some(), written.is_some());
    let near = |(read, written): (f64, f64)| (read - written).abs() <= 0.012 * written;
    assert!(
        read.zip(written).is_none_or(near),
        "{read:?} for {written:?}"
    );
}

/// Interrupts, branches and calls come back exactly but for their squares.
#[test]
fn counts_round_trip() {
    for seed in 0..20 {
        let (cycles, branches, calls) = counts(seed);
        let blob = encode_cycles(&cycles);
        let sum = sum_cycles(&blob).expect("it is good");
        let mut processes: Vec<i64> = cycles.iter().map(|row| row.process).collect();
        processes.dedup();
        assert_eq!((sum.rows, sum.processes), (cycles.len(), processes));
        let samples = cycles.iter().map(|row| row.samples).sum();
        let weight = cycles.iter().map(|row| row.weight);
        let weight = weight.fold(0, u64::saturating_add);
        assert_eq!((sum.samples, sum.weight), (samples, weight));
        let of_cycles = place(ChunkKind::Cycles);
        let mut sums = Vec::new();
        let all = sum_instructions(of_cycles, &blob, &mut sums).expect("it is good");
        assert_eq!((all.samples, all.weight), (samples, weight));
        let mut expected: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for row in &cycles {
            let sum = expected.entry(row.address).or_default();
            sum.0 += row.samples;
            sum.1 = sum.1.saturating_add(row.weight);
        }
        let sums: Vec<_> = sums
            .iter()
            .map(|sum| (sum.address, (sum.samples, sum.weight)))
            .collect();
        assert!(sums.len() < cycles.len(), "some are joined");
        assert_eq!(sums, expected.into_iter().collect::<Vec<_>>());
        let wants = |address: u64| address.is_multiple_of(3);
        let (some, rest) = decode_some_cycles(of_cycles, &blob, wants).expect("it is good");
        let is_wanted = |row: &&CyclesOf| wants(row.address);
        assert!(some.iter().eq(cycles.iter().filter(is_wanted)));
        let samples_of_some: u64 = some.iter().map(|row| row.samples).sum();
        assert_eq!(samples_of_some + rest.samples, samples);
        // Blobs of older versions have no sums in front.
        let older = head::with_sums(&blob, None).expect("it is good");
        let of_older = sum_cycles(&older).expect("it is good");
        assert_eq!(
            (of_older.samples, of_older.weight),
            (sum.samples, sum.weight)
        );
        let wrong = Some((sum.samples + 1, sum.weight));
        let wrong = head::with_sums(&blob, wrong).expect("it is good");
        assert!(decode_cycles(of_cycles, &wrong).is_err());
        assert!(sum_instructions(of_cycles, &wrong, &mut Vec::new()).is_err());
        for blob in [&blob, &older] {
            assert_eq!(decode_cycles(of_cycles, blob).as_ref(), Ok(&cycles));
        }
        let read = decode_branches(place(ChunkKind::Branches), &encode_branches(&branches))
            .expect("they are good");
        for (read, written) in read.iter().zip(&branches) {
            assert_near(read.seen.squares, written.seen.squares);
            let squares = written.seen.squares;
            let seen = Directions {
                squares,
                ..read.seen
            };
            assert_eq!(
                BranchOf {
                    seen,
                    ..read.clone()
                },
                *written
            );
        }
        let read =
            decode_calls(place(ChunkKind::Calls), &encode_calls(&calls)).expect("they are good");
        for (read, written) in read.iter().zip(&calls) {
            assert_near(read.seen.squares, written.seen.squares);
            let squares = written.seen.squares;
            let seen = Calls {
                squares,
                ..read.seen
            };
            assert_eq!(
                CallOf {
                    seen,
                    ..read.clone()
                },
                *written
            );
        }
    }
    let code = vec![
        (0x40_0001, vec![0x90]),
        (0x40_0002, vec![1; 15]),
        (0x40_ffff, vec![7, 8]),
    ];
    assert_eq!(decode_code(0x40, &encode_code(&code)), Ok(code));
}

/// Reads a blob as everything that it could be.
fn read(blob: &[u8]) -> usize {
    let of = |result: Result<usize, Bad>| usize::from(result.is_ok());
    // Who asks for no more than places, or sums, sees less of what is wrong.
    let _ = each_place(PLACE, blob, |_| {});
    let _ = sum_cycles(blob).map(|sum| sum.rows);
    let _ = sum_instructions(place(ChunkKind::Cycles), blob, &mut Vec::new()).map(|sum| sum.rows);
    of(decode_values(PLACE, true, blob).map(|values| values.rows.len()))
        + of(decode_values(PLACE, false, blob).map(|values| values.rows.len()))
        + of(decode_cycles(place(ChunkKind::Cycles), blob).map(|rows| rows.len()))
        + of(decode_branches(place(ChunkKind::Branches), blob).map(|rows| rows.len()))
        + of(decode_calls(place(ChunkKind::Calls), blob).map(|rows| rows.len()))
        + of(decode_code(PLACE.bucket, blob).map(|rows| rows.len()))
}

/// Every changed bit of a blob is found by its checksum.
#[test]
fn flipped_bits() {
    let blob = encode_values(PLACE, 0.0, &lists(1, 60, false));
    for bit in 0..blob.len() * 8 {
        let mut bad = blob.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_values(PLACE, false, &bad).is_err(), "bit {bit}");
    }
    for length in 0..blob.len() {
        assert!(
            decode_values(PLACE, false, &blob[..length]).is_err(),
            "{length} bytes"
        );
    }
}

/// Forged blobs with the right checksum are read or refused, without panic: bytes changed before
/// and behind the compression, which is left out here.
#[test]
fn forged() {
    let (cycles, branches, calls) = counts(3);
    let blobs = [
        encode_values(PLACE, 3.0, &lists(2, 60, false)),
        encode_values(PLACE, 3.0, &lists(2, 60, true)),
        encode_cycles(&cycles),
        encode_branches(&branches),
        encode_calls(&calls),
        encode_code(&[(0x40_0001, vec![0x90]), (0x40_0002, vec![1; 15])]),
    ];
    let mut random = random(11);
    let mut refused = 0;
    for blob in blobs {
        let raw = head::plain(&blob).expect("it is good");
        for good in [&raw, &blob] {
            assert!(read(good) > 0);
            for _ in 0..4_000 {
                let mut bad = good.clone();
                for _ in 0..=random(3) {
                    let at = head::FRONT + random((bad.len() - head::FRONT) as u64) as usize;
                    bad[at] = [0, 1, 0x7f, 0x80, 0xff, random(256) as u8][random(6) as usize];
                }
                if random(10) == 0 {
                    bad.truncate(head::FRONT + random(bad.len() as u64 - 5) as usize);
                }
                head::seal(&mut bad);
                refused += usize::from(read(&bad) == 0);
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}

/// A few bytes that say they hold thousands of millions of rows, or columns without end, take no
/// memory for them.
#[test]
fn bombs() {
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).expect("it compresses");
    for (rows, length) in [
        (u64::MAX, u64::MAX),
        (64 << 20, 64 << 20),
        (1 << 22, 8 << 20),
        (1, 9),
    ] {
        let mut blob = vec![0; head::FRONT];
        // No draw, no process, no image, no parameter.
        blob.extend([0, 0, 0, 0]);
        bytes::put(&mut blob, rows);
        bytes::put(&mut blob, length);
        blob.push(1);
        blob.extend(&bomb);
        head::seal(&mut blob);
        assert_eq!(read(&blob), 0);
    }
}

proptest! {
    /// Random bytes behind a right checksum are read or refused.
    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut blob = vec![0; head::FRONT];
        blob.extend(bytes);
        head::seal(&mut blob);
        read(&blob);
    }
}
