//! Databases written anew: with the rows of older programs packed, and with packed ones unpacked.

use crate::common::{add_old_rows, epoch, fill, load, process, program, user};
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{Error, Filter, Mapped, NewHotlist, Profile, Region, Writer, convert, unpack};
use rusqlite::Connection;
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn list() -> Hotlist<u64> {
    let (mut list, mut coins) = (Hotlist::new(&Config::default()), Generator::new(3));
    for time in 0..500 {
        list.update(time % 40, time, &mut coins);
    }
    list
}

/// A database with rows of both layouts.
fn mixed(path: &std::path::Path) -> Outcome {
    let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    fill(&mut flush, 42, 1000)?;
    let image = flush.image(&program())?;
    let row = NewHotlist {
        process: flush.process(&process(42))?,
        subject: flush.subject(&user(1000))?,
        pc: flush.pc(image, 0x1193, None)?,
        caller: None,
        parameter: "rax",
        reached: 510.0,
        unknown: 10.0,
        windows: 400,
        even: None,
        list: Estimates::from(&list()),
    };
    flush.hotlist(row.clone())?;
    let heap = Region {
        start: 0x5000,
        end: 0x9000,
        what: Mapped::Heap,
    };
    flush.region(row.process, row.subject, &heap)?;
    flush.commit()?;
    writer.close()?;
    add_old_rows(path, &list())
}

/// What reports are made of.
fn said(profile: &Profile) -> Vec<String> {
    let place = |pc: usize| {
        let pc = &profile.pcs[pc];
        format!(
            "{} {:#x} {:?}",
            profile.images[pc.image].path, pc.address, pc.bytes
        )
    };
    let mut said: Vec<String> = profile
        .cycles
        .iter()
        .map(|row| {
            let caller = row.caller.map(place);
            format!(
                "{} {caller:?} {} {}",
                place(row.pc),
                row.samples,
                row.cycles
            )
        })
        .collect();
    said.extend(profile.branches.iter().map(|row| {
        let counts = (row.taken, row.not_taken, row.unknown, row.weights);
        format!("{} {counts:?}", place(row.pc))
    }));
    said.extend(profile.calls.iter().map(|row| {
        let callee = row.callee.map(place);
        format!(
            "{} {callee:?} {} {}",
            place(row.site),
            row.calls,
            row.weight
        )
    }));
    said.extend(profile.hotlists.iter().map(|row| {
        let values = row
            .list
            .tuples()
            .map(|tuple| (tuple.value, tuple.estimate.round()));
        let counts = (row.reached, row.unknown, row.windows);
        format!(
            "{} {} {counts:?} {:?}",
            place(row.pc),
            row.parameter,
            values.collect::<Vec<_>>()
        )
    }));
    said.extend(
        profile
            .counters
            .iter()
            .map(|counter| format!("{counter:?}")),
    );
    said.extend(profile.symbols.iter().map(|symbol| format!("{symbol:?}")));
    said.extend(profile.regions.iter().map(|region| format!("{region:?}")));
    said.extend(profile.epochs.iter().map(|epoch| format!("{epoch:?}")));
    said.sort();
    said
}

/// A database says the same when it is written anew, in either way and twice, of what lay where in
/// memory, too; nothing of it lies in the tables of the other layout.
#[test]
fn the_same_is_said() -> Outcome {
    let dir = tempdir()?;
    let path = |name: &str| dir.path().join(name);
    mixed(&path("mixed.db"))?;
    let wanted = said(&load(&path("mixed.db"))?);
    convert(&path("mixed.db"), &path("packed.db"))?;
    convert(&path("packed.db"), &path("again.db"))?;
    unpack(&path("packed.db"), &path("rows.db"))?;
    unpack(&path("mixed.db"), &path("all.db"))?;
    convert(&path("rows.db"), &path("back.db"))?;
    for name in ["packed.db", "again.db", "rows.db", "all.db", "back.db"] {
        let profile = Profile::load(&[path(name)], &Filter::default())?;
        assert_eq!(said(&profile), wanted, "{name}");
        let conn = Connection::open(path(name))?;
        let other = match name {
            "rows.db" | "all.db" => "chunk",
            _ => "hotlist",
        };
        let sql = format!("SELECT count(*) FROM {other}");
        let rows: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
        assert_eq!(rows, 0, "{name}");
    }
    Ok(())
}

/// What is there already stays; of what cannot be read nothing is written.
#[test]
fn refused() -> Outcome {
    let dir = tempdir()?;
    let (good, taken) = (dir.path().join("good.db"), dir.path().join("taken.db"));
    mixed(&good)?;
    std::fs::write(&taken, "mine")?;
    let error = convert(&good, &taken);
    assert!(matches!(error, Err(Error::Exists { .. })), "{error:?}");
    assert_eq!(std::fs::read(&taken)?, b"mine");
    Connection::open(&good)?.execute("UPDATE tuple SET counted = 0", [])?;
    let new = dir.path().join("new.db");
    assert!(matches!(convert(&good, &new), Err(Error::Corrupt { .. })));
    assert_eq!(std::fs::read_dir(dir.path())?.count(), 2);
    Ok(())
}
