//! What is on the way of every event allocates when it is made and never again.

#[path = "streams/mod.rs"]
mod streams;

use std::hint::black_box;

use allocation_counter::measure;
use hotlist::aggregate::{AggregateFunction, Buffer, LogLinear, Snapshot, pair};
use hotlist::{Config, Eviction, Generator, Hotlist, Method, Value, Words};

const LENGTH: usize = 20_000;

/// Allocations of a list of this kind while it is offered all streams.
fn allocations<V: Words>(config: &Config, value: impl Fn(u64) -> V) -> u64 {
    let mut list = Hotlist::new(config);
    let mut coins = Generator::new(5);
    let mut random = Generator::new(6);
    let kinds = streams::ALL.map(|stream| streams::Source::new(stream).draw(LENGTH, &mut random));
    let counted = measure(|| {
        for (time, &event) in (0..).zip(kinds.iter().flatten()) {
            list.update(value(event), time << 30, &mut coins);
        }
        assert!(list.p() < 1.0);
    });
    counted.count_total
}

/// Updates allocate nothing, whatever the method, the eviction, and the shape of the values.
#[test]
fn updates() {
    for method in [Method::Switching, Method::Counting, Method::Concise] {
        for eviction in [Eviction::ByEvent, Eviction::ByWeight] {
            let config = Config::default().method(method).eviction(eviction);
            assert_eq!(allocations(&config, |value| value), 0);
            assert_eq!(allocations(&config, |value| [value, !value, 0, 1]), 0);
            assert_eq!(allocations(&config, |value| Value::f64(value as f64)), 0);
        }
    }
}

/// A list is one allocation, and with N = 16 and one-word values takes 656 bytes in all.
#[test]
fn one_list() {
    let made = measure(|| {
        // The compiler must not see that nobody needs it.
        let list = black_box(Hotlist::<u64>::new(&Config::default()));
        assert_eq!(list.bytes(), 656);
    });
    assert_eq!((made.count_total, made.bytes_total), (1, 592));
}

/// A list that grows has room for one value first, then for four times as many as before, and
/// comes to the same as one that has all its room from the start.
#[test]
fn growing_list() {
    for (method, eviction) in [
        (Method::Switching, Eviction::ByEvent),
        (Method::Counting, Eviction::ByWeight),
        (Method::Concise, Eviction::ByWeight),
    ] {
        let config = Config::default().method(method).eviction(eviction);
        for stream in streams::ALL {
            let mut list = Hotlist::<u64>::growing(&config);
            let mut whole = Hotlist::<u64>::new(&config);
            let mut coins = [Generator::new(5), Generator::new(5)];
            let mut bytes = vec![list.bytes()];
            let events = streams::Source::new(stream).draw(LENGTH, &mut Generator::new(6));
            for (time, &event) in (0..).zip(&events) {
                let (at, opens) = (time << 30, time % 3 == 0);
                list.update_in_window(event, at, opens, &mut coins[0]);
                whole.update_in_window(event, at, opens, &mut coins[1]);
                assert!(list.tuples().eq(whole.tuples()), "{stream}, event {time}");
                assert_eq!((list.pairs(), list.p()), (whole.pairs(), whole.p()));
                bytes.push(list.bytes());
            }
            bytes.dedup();
            let most = match stream {
                streams::Stream::Constant => 1,
                streams::Stream::TwoValued => 2,
                _ => 3,
            };
            assert_eq!(bytes, [120, 224, 656][..most], "{stream}");
        }
    }
}

/// A list that has to stop growing has no more than the room that it has, or for four values, and
/// still tells how often its values came.
#[test]
fn stopped_list() {
    let config = Config::default().precise();
    for (known, room, bytes) in [(1, 4, 224), (4, 4, 224), (5, 16, 656)] {
        let (lists, events) = (2_000, 600);
        let mut sum = 0.0;
        let mut coins = Generator::new(5);
        for _ in 0..lists {
            let mut list = Hotlist::<u64>::growing(&config);
            for value in 0..known {
                list.update(value, 0, &mut coins);
            }
            list.stop_growing();
            for event in 0..events {
                // Of every three events one is of the value that is asked for.
                let value = if event % 3 == 0 { 0 } else { 100 + event % 40 };
                list.update(value, event, &mut coins);
            }
            assert!(list.len() <= room);
            assert_eq!(list.bytes(), bytes);
            let tuples = list.tuples().filter(|tuple| tuple.value == 0);
            sum += tuples.map(|tuple| tuple.estimate()).sum::<f64>();
        }
        let mean = sum / f64::from(lists);
        assert!((mean - 201.0).abs() < 5.0, "{known} values: {mean}");
    }
}

/// An aggregation buffer allocates nothing while it is written, and taking it nothing either once
/// the snapshot has grown to its size.
#[test]
fn aggregation() {
    let functions = [
        AggregateFunction::Count,
        AggregateFunction::Stddev,
        AggregateFunction::Quantize,
    ];
    let log_linear = AggregateFunction::Llquantize(LogLinear::new(10, 0, 6, 20).unwrap());
    let mut buffer = Buffer::new(1 << 14);
    let (mut writer, mut reader) = pair(1 << 14);
    let mut snapshot = Snapshot::default();
    let mut rounds = |count: i64| {
        for value in 0..count {
            for (id, function) in (0..).zip(functions.iter().chain([&log_linear])) {
                let key = [value.unsigned_abs() % 7, 1];
                assert!(buffer.update(id, function, &key, value));
                assert!(writer.update(id, function, &key, value));
            }
            if value % 100 == 99 {
                reader.take(&mut snapshot);
                buffer.copy_to(&mut snapshot);
                buffer.clear();
            }
        }
    };
    rounds(100);
    assert_eq!(measure(|| rounds(1_000)).count_total, 0);
}
