//! Hotlists on their way through the database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{epoch, load, process, program, user};
use counters::Counter;
use hotlist::{Config, Draws, Estimate, Estimates, Generator, Hotlist};
use profiledb::view::{Limits, Viewer, write_view};
use profiledb::{Error, Flush, Merged, NewHotlist, Profile, Writer};
use proptest::prelude::*;
use selection::Selection;
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A full list's worth of values with unequal shares.
fn list(seed: u64, events: u64) -> Hotlist<u64> {
    list_of(&Config::default(), seed, events)
}

fn list_of(config: &Config, seed: u64, events: u64) -> Hotlist<u64> {
    let mut coins = Generator::new(seed);
    let mut list = Hotlist::new(config);
    for event in 0..events {
        let value = if event % 4 == 0 {
            event
        } else {
            u64::MAX - event % 3
        };
        list.update(value, event, &mut coins);
    }
    list
}

/// Adds `list` as the values of a parameter of one PC, with `unknown` more unknown.
fn add(
    flush: &mut Flush<'_>,
    parameter: &str,
    list: impl Into<Estimates<u64>>,
    caller: Option<u64>,
    unknown: u64,
) -> Result<(), Error> {
    let list = list.into();
    let image = flush.image(&program())?;
    let caller = caller
        .map(|address| flush.pc(image, address, None))
        .transpose()?;
    let row = NewHotlist {
        process: flush.process(&process(42))?,
        subject: flush.subject(&user(0))?,
        pc: flush.pc(image, 0x1193, None)?,
        caller,
        parameter,
        reached: list.events + unknown as f64,
        unknown: unknown as f64,
        windows: list.events as u64 / 2,
        even: None,
        list,
    };
    flush.hotlist(row)
}

/// A list that has begun to forget is read as it was written, whichever its method.
#[test]
fn round_trip() -> Outcome {
    round_trip_of(&Config::default())?;
    round_trip_of(&Config::default().precise())
}

fn round_trip_of(config: &Config) -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let written = list_of(config, 1, 1_000);
    assert!(written.p() < 1.0);
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 1_000)?;
    add(&mut flush, "rax", &written, Some(0x2000), 14)?;
    add(&mut flush, "rbx", Estimates::default(), None, 3)?;
    flush.commit()?;
    writer.close()?;

    let profile = load(&path)?;
    // Lists that are keyed by a call site come behind the others.
    let row = &profile.hotlists[1];
    assert_eq!(
        (row.reached, row.unknown, row.windows),
        (1_014.0, 14.0, 500)
    );
    assert_eq!(&*row.parameter, "rax");
    assert_eq!(
        row.caller.map(|caller| profile.pcs[caller].address),
        Some(0x2000)
    );
    same(&row.list.estimates(), &Estimates::from(&written));
    let row = &profile.hotlists[0];
    assert_eq!((row.reached, row.unknown, row.list.len()), (3.0, 3.0, 0));
    Ok(())
}

/// One list says what the other does: the same values in the same order, the same estimates to a
/// ten-millionth. Times may be off by a part in 256 of the flush.
fn same(read: &Estimates<u64>, written: &Estimates<u64>) {
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-7 * one.abs().max(1e-9);
    assert_eq!((read.events, read.len()), (written.events, written.len()));
    assert!(near(read.threshold, written.threshold));
    assert_eq!(read.pairs, written.pairs);
    for (read, written) in read.tuples().zip(written.tuples()) {
        assert_eq!(read.value, written.value);
        let numbers = |tuple: Estimate| {
            let (within, across) = tuple.pairs;
            [tuple.estimate, tuple.variance, tuple.least, within, across]
        };
        for (read, written) in numbers(read).into_iter().zip(numbers(written)) {
            assert!(near(read, written), "{read} for {written}");
        }
        if written.estimate >= 8.0 {
            assert!(written.first.abs_diff(read.first) <= 1_000 / 256 + 1);
        }
    }
}

/// Lists of several flushes merge per parameter, and per call site where that is asked
/// for; counts add up, and values that all lists hold exactly stay exact.
#[test]
fn merged() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut coins = Generator::new(7);
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    for (value, caller) in [(1, 0x10), (1, 0x20), (2, 0x10)] {
        let mut list = Hotlist::new(&Config::default());
        for time in 0..100 {
            list.update(value, time, &mut coins);
        }
        let mut flush = writer.begin(0, 100)?;
        add(&mut flush, "arg0", &list, Some(caller), 5)?;
        add(&mut flush, "arg1", &list, Some(caller), 0)?;
        flush.commit()?;
    }
    writer.close()?;

    let profile = load(&path)?;
    let all = sums(&profile, |pc, _| Some((pc, None)));
    let names: Vec<_> = all
        .iter()
        .map(|merged| (merged.parameter, merged.caller))
        .collect();
    assert_eq!(names, [("arg0", None), ("arg1", None)]);
    assert_eq!(
        (all[0].reached, all[0].unknown, all[0].windows),
        (315, 15, 150)
    );
    assert_eq!(all[0].list.events(), 300);
    let shares: Vec<_> = all[0]
        .list
        .tuples()
        .map(|tuple| (tuple.value, tuple.estimate()))
        .collect();
    assert_eq!(shares, [(1, 200.0), (2, 100.0)]);

    let by_caller = sums(&profile, |pc, caller| Some((pc, caller)));
    let names: Vec<_> = by_caller
        .iter()
        .map(|merged| {
            let caller = merged.caller.map(|caller| profile.pcs[caller].address);
            (merged.parameter, caller, merged.reached, merged.list.len())
        })
        .collect();
    assert_eq!(
        names,
        [
            ("arg0", Some(0x10), 210, 2),
            ("arg0", Some(0x20), 105, 1),
            ("arg1", Some(0x10), 200, 2),
            ("arg1", Some(0x20), 100, 1),
        ]
    );
    Ok(())
}

/// All lists added up, each at the place that `place` says.
fn sums(
    profile: &Profile,
    place: impl Fn(usize, Option<usize>) -> Option<(usize, Option<usize>)>,
) -> Vec<Merged<'_>> {
    let mut all = Vec::new();
    let coins = || Generator::new(7);
    let mut take = |merged| all.push(merged);
    profile.each_merged(|_| true, place, coins, false, Merged::clone, &mut take);
    all
}

/// A day of flushes: the shares of the most frequent values are those that were counted, in the
/// files as they are written and in a view of them, and they stay within their intervals.
#[test]
fn a_day() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut coins = Generator::new(9);
    let mut exact = BTreeMap::new();
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    for minute in 0..1_440 {
        let mut list = Hotlist::new(&Config::default().precise());
        for time in 0..200 {
            // As a Zipf(1.5) has it: half, a sixth, and so on, with a long tail.
            let value = coins.uniform().powi(-2).min(1e9) as u64;
            list.update(value, time, &mut coins);
            *exact.entry(value).or_insert(0_u64) += 1;
        }
        let mut flush = writer.begin(minute, minute + 1)?;
        add(&mut flush, "rax", &list, None, 0)?;
        flush.commit()?;
    }
    writer.close()?;

    let view = dir.path().join("view.db");
    std::fs::File::create(&view)?;
    let limits = Limits {
        bytes: 1 << 30,
        until: Instant::now() + Duration::from_secs(300),
        stop: Arc::default(),
    };
    let everything = Selection::default();
    let left_out = write_view(
        std::slice::from_ref(&path),
        &view,
        Viewer::Privileged,
        &everything,
        &limits,
    )?;
    assert!(left_out.is_empty());
    for path in [path, view] {
        let profile = load(&path)?;
        let merged = sums(&profile, |pc, _| Some((pc, None)));
        let list = &merged[0].list;
        let events = 1_440 * 200;
        assert_eq!((list.events(), merged[0].windows), (events, events / 2));
        let mut held = 0;
        for tuple in list.tuples().take(10) {
            let wanted = 100.0 * exact[&tuple.value] as f64 / events as f64;
            let found = 100.0 * tuple.estimate() / events as f64;
            let off = (found - wanted).abs();
            assert!(off < 0.1, "{}: {found} for {wanted}", tuple.value);
            let draws = Draws {
                samples: events,
                windows: events,
                reached: events,
                even: merged[0].even,
            };
            let (low, high) = list.interval(&tuple, &draws);
            held += u32::from(low <= wanted && wanted <= high);
        }
        assert!(held >= 9, "{held} of 10");
    }
    Ok(())
}

/// A file of the oldest schema has no variances, no pairs and no weights. It is read, viewed, and
/// added to; its intervals count windows then, and branches and calls weigh one each.
#[test]
fn schema_before() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("before.db");
    let conn = rusqlite::Connection::open(&path)?;
    conn.execute_batch(include_str!("../../src/schema/0002.sql"))?;
    conn.pragma_update(None, "application_id", 0x7663_7069)?;
    conn.pragma_update(None, "user_version", 2)?;
    conn.execute_batch(
        "INSERT INTO epoch VALUES (1, 1, 2, 'h', 'k', 'c', 'bpf', 'timer', 'ns', 1.0, 1, 16, '{}');
         INSERT INTO flush VALUES (1, 1, 1, 2);
         INSERT INTO image VALUES (1, 'file', '/bin/x', NULL, 'x');
         INSERT INTO subject VALUES (1, 0, 0, 0, 0, 0, 1, 0, 0);
         INSERT INTO process VALUES (1, 1, 42, 1, 0, 'x');
         INSERT INTO pc VALUES (1, 1, 16, NULL);
         INSERT INTO hotlist VALUES (1, 1, 1, 1, 1, NULL, 'rax', 110, 10, 50, 16, 1, 0.5, 0, 0);
         INSERT INTO tuple VALUES (1, 0, 7, 1, 48, 1);
         INSERT INTO branch VALUES (1, 1, 1, 1, 5, 4, 3);
         INSERT INTO call VALUES (1, 1, 1, 1, NULL, 6);",
    )?;
    drop(conn);

    let view = dir.path().join("view.db");
    std::fs::File::create(&view)?;
    let limits = Limits {
        bytes: 1 << 30,
        until: Instant::now() + Duration::from_secs(300),
        stop: Arc::default(),
    };
    let (sources, everything) = (std::slice::from_ref(&path), Selection::default());
    let left_out = write_view(sources, &view, Viewer::Privileged, &everything, &limits)?;
    assert!(left_out.is_empty(), "{left_out:?}");
    for path in [&path, &view] {
        let profile = load(path)?;
        let merged = sums(&profile, |pc, _| Some((pc, None)));
        let tuple = merged[0].list.tuples().next().ok_or("no value")?;
        assert_eq!((tuple.value, tuple.estimate()), (7, 50.0));
        assert_eq!(tuple.variance(), 2.0);
        assert_eq!(profile.hotlists[0].list.pairs, None);
        let draws = Draws {
            samples: 100,
            windows: 50,
            reached: 110,
            even: 1.0,
        };
        let interval = merged[0].list.interval(&tuple, &draws);
        assert_eq!(interval, draws.interval(50.0, 2.0));
        let (branch, call) = (&profile.branches[0], &profile.calls[0]);
        assert_eq!((branch.weights, branch.squares), ([5.0, 4.0, 3.0], None));
        assert_eq!((call.weight, call.squares), (6.0, None));
    }

    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 1_000)?;
    let written = list_of(&Config::default().precise(), 1, 1_000);
    add(&mut flush, "rbx", &written, None, 0)?;
    flush.commit()?;
    writer.close()?;
    let profile = load(&path)?;
    assert_eq!(profile.hotlists.len(), 2);
    same(
        &profile.hotlists[1].list.estimates(),
        &Estimates::from(&written),
    );
    Ok(())
}

/// Rows that contradict themselves, or that would be read as something else, are refused
/// one by one; the flush goes on.
#[test]
fn refused() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 1_000)?;
    let image = flush.image(&program())?;
    let good = NewHotlist {
        process: flush.process(&process(42))?,
        subject: flush.subject(&user(0))?,
        pc: flush.pc(image, 0x1193, None)?,
        caller: None,
        parameter: "rax",
        reached: 1_010.0,
        unknown: 10.0,
        windows: 1_000,
        even: None,
        list: Estimates::from(&list(1, 1_000)),
    };
    let changes: [fn(&mut NewHotlist<'_>); 16] = [
        |row| row.unknown = 1_011.0,
        |row| row.unknown = 9.0,
        |row| row.unknown = -1.0,
        |row| row.reached = 0.0,
        |row| row.reached = f64::NAN,
        |row| row.windows = 1_001,
        |row| row.list.threshold = 0.0,
        |row| row.list.threshold = f64::INFINITY,
        |row| row.list.tuples[0].estimate = 0.0,
        |row| row.list.tuples[0].least = f64::NAN,
        |row| row.list.pairs = Some((-1.0, 0.0)),
        |row| row.even = Some(1.1),
        |row| row.even = Some(f64::NAN),
        |row| row.list.tuples[0].variance = -1.0,
        |row| row.list.tuples[0].value = row.list.tuples[1].value,
        |row| row.list.tuples.reverse(),
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = flush.hotlist(bad);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    flush.hotlist(good)?;
    flush.commit()?;
    assert_eq!(load(&path)?.hotlists.len(), 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Words of 64 bits come back with every bit, wherever they stand.
    #[test]
    fn every_bit(words in prop::array::uniform8(any::<u64>())) {
        let [address, value, samples, weight, started, counter, taken, size] = words;
        let dir = tempdir().unwrap();
        let path = dir.path().join("vcpi.db");
        let mut writer = Writer::create_epoch(&path, &epoch("demo")).unwrap();
        let mut flush = writer.begin(i64::MIN, i64::MAX).unwrap();
        let image = flush.image(&program()).unwrap();
        let mut process = process(u32::MAX);
        process.started = started;
        let process_id = flush.process(&process).unwrap();
        let subject = flush.subject(&user(u32::MAX)).unwrap();
        let pc = flush.pc(image, address, None).unwrap();
        flush.cycles(process_id, subject, pc, Some(pc), samples, weight).unwrap();
        flush.branch(process_id, subject, pc, [taken, !taken, value]).unwrap();
        flush.call(process_id, subject, pc, None, weight).unwrap();
        flush.symbol(image, address, size, "name").unwrap();
        flush.count(Counter::Samples, counter).unwrap();
        let mut list = Hotlist::new(&Config::default());
        list.update(value, 5, &mut Generator::new(1));
        // A count, of which 53 bits are kept.
        let reached = (counter >> 11).max(1) as f64;
        flush.hotlist(NewHotlist {
            process: process_id,
            subject,
            pc,
            caller: None,
            parameter: "rax",
            reached,
            unknown: reached - 1.0,
            windows: 1,
            even: None,
            list: Estimates::from(&list),
        }).unwrap();
        flush.commit().unwrap();
        writer.close().unwrap();

        let profile = load(&path).unwrap();
        prop_assert_eq!(profile.pcs[0].address, address);
        prop_assert_eq!(&profile.processes, &[process]);
        prop_assert_eq!(&profile.subjects, &[user(u32::MAX)]);
        prop_assert_eq!(profile.cycles[0].samples, samples);
        prop_assert_eq!(profile.cycles[0].cycles, weight as f64 * 2.5);
        let branch = &profile.branches[0];
        prop_assert_eq!((branch.taken, branch.not_taken, branch.unknown), (taken, !taken, value));
        prop_assert_eq!(profile.calls[0].calls, weight);
        prop_assert_eq!((profile.symbols[0].address, profile.symbols[0].size), (address, size));
        prop_assert_eq!(profile.counters.values().copied().collect::<Vec<_>>(), vec![counter]);
        let row = &profile.hotlists[0];
        prop_assert_eq!(row.reached, reached);
        prop_assert_eq!(row.list.tuples().next().map(|tuple| tuple.value), Some(value));
    }
}

/// Within a budget lists are left out by lot, and those that are kept stand for them: over many
/// seeds counts and estimates are those of all lists, lists that were reached often are always
/// there, and what was left out is counted.
#[test]
fn budget() -> Outcome {
    const LISTS: u64 = 3_000;
    let dir = tempdir()?;
    let mut coins = Generator::new(3);
    let lists: Vec<Estimates> = (0..LISTS)
        .map(|of| {
            let mut list = Hotlist::new(&Config::default().precise());
            // One to eleven events, and a hundred of each fiftieth.
            for time in 0..if of % 50 == 0 { 100 } else { 1 + of % 11 } {
                list.update(
                    if time % 3 == 0 { 7 } else { of * 1_000 + time },
                    time,
                    &mut coins,
                );
            }
            Estimates::from(&list)
        })
        .collect();
    let truth = |value: fn(&Estimates) -> f64| lists.iter().map(value).sum::<f64>();
    let sevens = |list: &Estimates| -> f64 {
        let found = list.tuples().find(|tuple| tuple.value == 7);
        found.map_or(0.0, |tuple| tuple.estimate)
    };
    let (events, seven) = (truth(|list| list.events), truth(sevens));
    let (mut sums, mut squares, mut variances) = ([0.0; 2], [0.0; 2], 0.0);
    let runs = 60;
    for seed in 0..runs {
        let path = dir.path().join(format!("{seed}.db"));
        let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
        // Half of it is there at the begin.
        writer.set_budget(Some(10_000 * 60), seed);
        let mut flush = writer.begin(0, 60_000_000_000)?;
        let image = flush.image(&program())?;
        let (process, subject) = (flush.process(&process(42))?, flush.subject(&user(0))?);
        for (number, list) in (0..).zip(&lists) {
            let pc = flush.pc(image, 0x1000 + number, None)?;
            flush.hotlist(NewHotlist {
                process,
                subject,
                pc,
                caller: None,
                parameter: "rax",
                reached: list.events,
                unknown: 0.0,
                windows: list.events as u64,
                even: None,
                list: list.clone(),
            })?;
        }
        flush.commit()?;
        writer.close()?;
        let profile = load(&path)?;
        let rows = &profile.hotlists;
        let counter = |name: &str| profile.counters[&("storage".to_owned(), name.to_owned())];
        assert_eq!(
            counter("lists") - counter("lists_left_out"),
            rows.len() as u64
        );
        assert_eq!(counter("events"), events as u64);
        assert!((LISTS / 4..LISTS * 3 / 4).contains(&counter("lists_left_out")));
        let often = rows.iter().filter(|row| row.reached == 100.0);
        assert_eq!(often.count() as u64, LISTS / 50);
        let found = [
            rows.iter().map(|row| row.reached).sum::<f64>(),
            rows.iter().map(|row| sevens(&row.list.estimates())).sum(),
        ];
        for (index, found) in found.into_iter().enumerate() {
            sums[index] += found;
            squares[index] += found * found;
        }
        let tuples = rows.iter().flat_map(|row| row.list.tuples());
        let variance = tuples
            .filter(|tuple| tuple.value == 7)
            .map(|tuple| tuple.variance);
        variances += variance.sum::<f64>();
    }
    let runs = runs as f64;
    for (index, truth) in [events, seven].into_iter().enumerate() {
        let mean = sums[index] / runs;
        let spread = (squares[index] / runs - mean * mean).max(0.0);
        let error = (spread / runs).sqrt();
        assert!(
            (mean - truth).abs() <= 4.0 * error + 1e-6,
            "{mean} for {truth} +- {error}"
        );
        if index == 1 {
            // A variance out of sixty has an error of a fifth.
            let told = variances / runs;
            assert!((0.5..2.0).contains(&(told / spread)), "{told} for {spread}");
        }
    }
    Ok(())
}
