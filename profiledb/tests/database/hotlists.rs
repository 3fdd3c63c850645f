//! Hotlists on their way through the database.

use crate::common::{epoch, load, process, program, user};
use hotlist::{Config, Generator, Hotlist, Parts, PartsTuple};
use profiledb::{Error, Flush, NewHotlist, Writer};
use proptest::prelude::*;
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

/// Adds `parts` as the values of a parameter of one PC, with `unknown` more unknown.
fn add(
    flush: &mut Flush<'_>,
    parameter: &str,
    parts: Parts<u64>,
    caller: Option<u64>,
    unknown: u64,
) -> Result<(), Error> {
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
        reached: parts.events + unknown,
        unknown,
        windows: parts.events / 2,
        even: None,
        parts,
    };
    flush.hotlist(&row)
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
    add(&mut flush, "rax", written.to_parts(), Some(0x2000), 14)?;
    add(
        &mut flush,
        "rbx",
        Hotlist::new(&Config::default()).to_parts(),
        None,
        3,
    )?;
    flush.commit()?;
    writer.close()?;

    let profile = load(&path)?;
    let row = &profile.hotlists[0];
    assert_eq!((row.reached, row.unknown, row.windows), (1_014, 14, 500));
    assert_eq!(row.parameter, "rax");
    assert_eq!(
        row.caller.map(|caller| profile.pcs[caller].address),
        Some(0x2000)
    );
    let mut read = row.list.to_parts();
    let expected = written.to_parts();
    // Not stored: the end of the flush stands for it.
    read.last = expected.last;
    assert_eq!(read, expected);
    let row = &profile.hotlists[1];
    assert_eq!((row.reached, row.unknown, row.list.len()), (3, 3, 0));
    Ok(())
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
        add(&mut flush, "arg0", list.to_parts(), Some(caller), 5)?;
        add(&mut flush, "arg1", list.to_parts(), Some(caller), 0)?;
        flush.commit()?;
    }
    writer.close()?;

    let profile = load(&path)?;
    let all = profile.merged(Some, |_| None, || Generator::new(7));
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

    let by_caller = profile.merged(Some, Some, || Generator::new(7));
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
        reached: 1_010,
        unknown: 10,
        windows: 1_000,
        even: None,
        parts: list(1, 1_000).to_parts(),
    };
    let changes: [fn(&mut NewHotlist<'_>); 8] = [
        |row| row.unknown = 1_011,
        |row| row.unknown = 9,
        |row| row.reached = 0,
        |row| row.windows = 1_001,
        |row| row.parts.p = 0.0,
        |row| row.parts.tuples[0].counted = 0,
        |row| row.parts.sat_count = 77,
        |row| row.parts.config = Config::new(16, 2.0, 0, 50).unwrap(),
    ];
    for change in changes {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = flush.hotlist(&bad);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    flush.hotlist(&good)?;
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
        flush.branch(process_id, subject, pc, taken, !taken, value).unwrap();
        flush.call(process_id, subject, pc, None, weight).unwrap();
        flush.symbol(image, address, size, "name").unwrap();
        flush.counter("run", "samples", counter).unwrap();
        let mut parts = Hotlist::new(&Config::default()).to_parts();
        parts.events = 1;
        parts.sat_count = 0;
        parts.tuples = vec![PartsTuple::new(value, 1, 0, 5)];
        flush.hotlist(&NewHotlist {
            process: process_id,
            subject,
            pc,
            caller: None,
            parameter: "rax",
            reached: counter.max(1),
            unknown: counter.max(1) - 1,
            windows: 1,
            even: None,
            parts,
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
        prop_assert_eq!(row.reached, counter.max(1));
        prop_assert_eq!(row.list.tuples().next().map(|tuple| tuple.value), Some(value));
    }
}
