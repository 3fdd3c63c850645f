//! Damaged and forged databases: typed errors, bounded memory, no panic.

use std::fs;
use std::path::Path;

use crate::common::{add_old_rows, database, epoch, fill, load, process, program, user};
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::{Error, NewHotlist, Writer};
use rusqlite::Connection;
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A closed database with every kind of row, also of those that older programs wrote.
fn complete(path: &Path) -> Outcome {
    let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    fill(&mut flush, 42, 1000)?;
    let image = flush.image(&program())?;
    let mut list = Hotlist::new(&Config::default());
    let mut coins = Generator::new(3);
    for time in 0..500 {
        list.update(time % 40, time, &mut coins);
    }
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
        list: Estimates::from(&list),
    };
    flush.hotlist(row)?;
    flush.commit()?;
    writer.close()?;
    add_old_rows(path, &list)?;
    load(path)?;
    Ok(())
}

/// Runs SQL on the file with every check of the schema and of references off.
fn forge(path: &Path, sql: &str) -> Outcome {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.pragma_update(None, "ignore_check_constraints", true)?;
    conn.pragma_update(None, "writable_schema", true)?;
    conn.execute_batch(sql)?;
    Ok(())
}

/// Each reference to nowhere and each value out of its range is named in an error.
#[test]
fn forged_rows() -> Outcome {
    let dir = tempdir()?;
    let good = dir.path().join("good.db");
    complete(&good)?;
    let bad = dir.path().join("bad.db");
    let cases = [
        ("UPDATE flush SET epoch = 9", "epoch 9, which is missing"),
        ("DELETE FROM epoch", "epoch 1, which is missing"),
        ("DELETE FROM flush", "flush 1, which is missing"),
        ("DELETE FROM image", "image 1, which is missing"),
        ("DELETE FROM subject", "subject 1, which is missing"),
        ("DELETE FROM process", "process 1, which is missing"),
        ("DELETE FROM pc", "pc 1, which is missing"),
        ("DELETE FROM pc; DELETE FROM cycles; DELETE FROM hotlist; DELETE FROM tuple",
            "pc 2, which is missing"),
        ("UPDATE cycles SET caller = -1", "pc -1, which is missing"),
        ("UPDATE call SET callee = 77", "pc 77, which is missing"),
        ("UPDATE counter SET flush = 2", "flush 2, which is missing"),
        ("UPDATE symbol SET image = 8", "image 8, which is missing"),
        ("INSERT INTO epoch SELECT 2, started, ended, host, kernel, command, engine, clock, unit,
          cycles_per_unit, period, window, settings FROM epoch; UPDATE process SET epoch = 2",
            "refers to process 1 of another"),
        ("DELETE FROM hotlist", "hotlist 1, which is missing"),
        ("UPDATE hotlist SET id = 5", "hotlist 1, which is missing"),
        ("UPDATE hotlist SET id = 0", "hotlist 1, which is missing"),
        ("UPDATE epoch SET cycles_per_unit = 0", "0 cycles per unit"),
        ("UPDATE epoch SET cycles_per_unit = 9e999", "inf cycles per unit"),
        ("UPDATE epoch SET window = -1", "out of range"),
        ("UPDATE process SET pid = 1 << 40", "out of range"),
        ("UPDATE subject SET uid = -1", "out of range"),
        ("UPDATE image SET kind = 'socket'", "no known kind"),
        ("UPDATE pc SET bytes = zeroblob(16) WHERE id = 1", "instruction of 16 bytes"),
        ("UPDATE pc SET bytes = x'' WHERE id = 1", "instruction of 0 bytes"),
        ("UPDATE pc SET bytes = zeroblob(1 << 20) WHERE id = 1", "instruction of 1048576 bytes"),
        ("UPDATE image SET path = CAST(x'ff' AS TEXT)", "utf-8"),
        ("UPDATE hotlist SET p = 1.5", "hotlist 1: p must lie in"),
        ("UPDATE hotlist SET p = 0", "hotlist 1: p must lie in"),
        ("UPDATE hotlist SET p = -9e999", "hotlist 1: p must lie in"),
        ("UPDATE hotlist SET capacity = 1", "hotlist 1: a hotlist needs room"),
        ("UPDATE hotlist SET capacity = 1 << 31", "hotlist 1: a hotlist needs room"),
        ("UPDATE hotlist SET capacity = 1 << 60", "out of range"),
        ("UPDATE hotlist SET capacity = 2", "in a list with room for 2"),
        ("UPDATE hotlist SET sat_count = 51", "hotlist 1: SatCount 51"),
        ("UPDATE hotlist SET unknown = reached + 1", "511 of 510 values unknown"),
        ("UPDATE hotlist SET windows = 501", "500 known values from 501 windows"),
        ("UPDATE hotlist SET reached = 12, windows = 0", "2 known values from 0 windows"),
        ("UPDATE tuple SET counted = -1 WHERE rank = 0", "tuple 0 has counts"),
        ("UPDATE tuple SET counted = 0 WHERE rank = 0", "tuple 0 has counts"),
        ("UPDATE tuple SET value = 5", "repeats the value"),
        ("UPDATE branch SET taken_weight = -1", "a weight of -1"),
        ("UPDATE branch SET unknown_weight = 9e999", "a weight of inf"),
        ("UPDATE branch SET squares = -9e999", "a weight of -inf"),
        ("UPDATE call SET weight = -0.5", "a weight of -0.5"),
        ("UPDATE call SET squares = 9e999", "a weight of inf"),
        ("UPDATE chunk SET kind = 9 WHERE id = 1", "chunk 1: it is of no known kind"),
        ("UPDATE chunk SET flush = 9", "flush 9, which is missing"),
        ("UPDATE chunk SET image = 9", "image 9, which is missing"),
        ("UPDATE chunk SET subject = 9", "subject 9, which is missing"),
        ("UPDATE chunk SET data = x'' WHERE id = 2", "chunk 2: it is too short"),
        ("UPDATE chunk SET data = zeroblob(99) WHERE id = 2", "chunk 2: it is of a version"),
        ("UPDATE chunk SET data = CAST(data || x'00' AS BLOB) WHERE id = 1", "has not the checksum"),
        ("UPDATE chunk SET kind = 5 WHERE id = 1", "chunk 1: it"),
        ("UPDATE chunk SET kind = 2 WHERE id = 1", "chunk 1: it"),
        ("DELETE FROM parameter", "parameter 1, which is missing"),
        ("UPDATE code SET data = zeroblob(9)", "code 1: it is of a version"),
        ("UPDATE code SET image = 9", "image 9, which is missing"),
        ("PRAGMA user_version = 0", "schema version 0"),
        ("PRAGMA user_version = -3", "schema version -3"),
    ];
    for (sql, says) in cases {
        fs::copy(&good, &bad)?;
        forge(&bad, sql)?;
        match load(&bad) {
            Err(Error::Corrupt { path, detail }) => {
                assert_eq!(path, bad);
                assert!(detail.contains(says), "{sql}: {detail}");
            }
            other => return Err(format!("{sql}: {other:?}").into()),
        }
    }
    Ok(())
}

/// A table that is missing or declared in another way, as a view or with computed columns,
/// is refused by both sides before it is used.
#[test]
fn forged_schema() -> Outcome {
    let dir = tempdir()?;
    let good = dir.path().join("good.db");
    complete(&good)?;
    let bad = dir.path().join("bad.db");
    let cases = [
        ("DROP TABLE symbol", "table symbol is missing"),
        ("ALTER TABLE call RENAME TO calls", "table call is missing"),
        (
            "DROP TABLE call; CREATE VIEW call AS SELECT * FROM branch",
            "table call is missing",
        ),
        (
            "DROP TABLE call; CREATE TABLE call (flush, process, subject, site, callee, calls)",
            "table call is declared differently",
        ),
        (
            "ALTER TABLE symbol ADD COLUMN more TEXT AS (printf('%.*c', size, 'x'))",
            "table symbol is declared differently",
        ),
        (
            "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'cycles'",
            "table cycles is declared differently",
        ),
        (
            "UPDATE sqlite_schema SET sql = replace(sql, '''file''', '''file--''), x AS (1) --
            ''') WHERE name = 'image'",
            "",
        ),
        (
            "UPDATE sqlite_schema SET sql = 'CREATE TABLE pc (' WHERE name = 'pc'",
            "malformed",
        ),
        (
            "UPDATE sqlite_schema SET rootpage = 100000 WHERE name = 'pc'",
            "",
        ),
        (
            "UPDATE sqlite_schema SET rootpage = 2 WHERE type = 'table'",
            "",
        ),
    ];
    for (sql, says) in cases {
        fs::copy(&good, &bad)?;
        forge(&bad, sql)?;
        let read = load(&bad).err();
        let Some(Error::Corrupt { detail, .. }) = &read else {
            return Err(format!("{sql}: {read:?}").into());
        };
        assert!(detail.contains(says), "{sql}: {detail}");
    }
    for (sql, _) in &cases[..6] {
        fs::copy(&good, &bad)?;
        forge(&bad, sql)?;
        let before = fs::read(&bad)?;
        let written = Writer::create_epoch(&bad, &epoch("more")).err();
        assert!(
            matches!(written, Some(Error::Corrupt { .. })),
            "{sql}: {written:?}"
        );
        assert_eq!(fs::read(&bad)?, before, "{sql}");
    }
    Ok(())
}

/// What a user adds for their own queries disturbs nobody, and triggers do not run.
#[test]
fn additions() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    complete(&path)?;
    forge(
        &path,
        "CREATE INDEX mine ON cycles(samples);
         CREATE VIEW hot AS SELECT * FROM cycles WHERE samples > 10;
         CREATE TRIGGER evil AFTER INSERT ON epoch BEGIN DELETE FROM cycles; END;",
    )?;
    Writer::create_epoch(&path, &epoch("more"))?.close()?;
    let profile = load(&path)?;
    assert_eq!((profile.epochs.len(), profile.cycles.len()), (2, 4));
    Ok(())
}

/// Values of other types, which SQLite itself would not store in these columns, are found.
#[test]
fn forged_types() -> Outcome {
    let dir = tempdir()?;
    let good = dir.path().join("good.db");
    complete(&good)?;
    let bad = dir.path().join("bad.db");
    let updates = [
        ("cycles", "samples = 'many'"),
        ("cycles", "pc = 1.5"),
        ("pc", "address = x'00' WHERE id = 1"),
        ("pc", "bytes = 'text'"),
        ("process", "comm = x'00'"),
        ("epoch", "host = NULL"),
        ("hotlist", "p = 'often'"),
        ("hotlist", "concise = NULL"),
        ("flush", "ended = 'never'"),
    ];
    for (table, update) in updates {
        fs::copy(&good, &bad)?;
        // Without STRICT the value goes in; then the declaration is put back.
        let lax = format!(
            "UPDATE sqlite_schema SET sql = replace(replace(sql, ') STRICT', ')'), 'NOT NULL', '')
             WHERE name = '{table}'"
        );
        let original: String = Connection::open(&good)?.query_row(
            "SELECT sql FROM sqlite_schema WHERE name = ?1",
            [table],
            |row| row.get(0),
        )?;
        forge(&bad, &lax)?;
        forge(&bad, &format!("UPDATE {table} SET {update}"))?;
        let back = original.replace('\'', "''");
        forge(
            &bad,
            &format!("UPDATE sqlite_schema SET sql = '{back}' WHERE name = '{table}'"),
        )?;
        let read = load(&bad).err();
        assert!(
            matches!(read, Some(Error::Corrupt { .. })),
            "{table} {update}: {read:?}"
        );
    }
    Ok(())
}

/// A file cut off anywhere gives an error.
#[test]
fn truncated() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    database(&path, 3)?;
    let whole = fs::read(&path)?;
    for length in [
        1,
        16,
        99,
        100,
        511,
        512,
        4_095,
        4_096,
        5_000,
        8_192,
        whole.len() - 1,
    ] {
        fs::write(&path, &whole[..length])?;
        assert!(load(&path).is_err(), "{length} of {} bytes", whole.len());
    }
    Ok(())
}

/// A small generator for positions of damage: the test is the same in every run.
struct Damage(u64);

impl Damage {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0) * limit as u128) >> 64) as usize
    }
}

/// Reading a file with damaged bytes never panics, whether the damage is found or not.
#[test]
fn flipped_bytes() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    complete(&path)?;
    let whole = fs::read(&path)?;
    let mut damage = Damage(1);
    let (mut found, rounds) = (0, 600);
    for round in 0..rounds {
        let mut bytes = whole.clone();
        for _ in 0..=damage.below(8) {
            // Every second round hits the headers and the schema.
            let position = damage.below(if round % 2 == 0 { bytes.len() } else { 4_096 });
            bytes[position] ^= 1 << damage.below(8);
        }
        fs::write(&path, &bytes)?;
        found += u32::from(load(&path).is_err());
    }
    // Most of a small database is unused space, and a changed count is a count.
    assert!(found > rounds / 20, "{found} of {rounds} found");
    Ok(())
}

/// A tree that leads to the same pages over and over, which would yield rows without end,
/// is stopped when it has yielded more than its file can hold.
#[test]
fn pages_used_many_times() -> Outcome {
    let dir = tempdir()?;
    let large = dir.path().join("large.db");
    let path = dir.path().join("vcpi.db");
    complete(&large)?;
    // Small pages make a deep tree out of few rows.
    forge(
        &large,
        &format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
             INSERT INTO cycles SELECT 1, 1, 1, 1, NULL, i, i FROM n;
             PRAGMA page_size = 512;
             VACUUM INTO '{}'",
            path.display()
        ),
    )?;
    assert_eq!(load(&path)?.cycles.len(), 60_004);
    let root: u32 = Connection::open(&path)?.query_row(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'cycles'",
        [],
        |row| row.get(0),
    )?;

    let root = root as usize;
    const PAGE: usize = 512;
    const INTERIOR: u8 = 5;
    let mut bytes = fs::read(&path)?;
    let mut interior = vec![root];
    let number = |bytes: &[u8], at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    };
    // Interior pages of this one table: it is the only one with so many rows.
    interior.extend(
        (2..=bytes.len() / PAGE)
            .filter(|page| *page != root && bytes[(page - 1) * PAGE] == INTERIOR),
    );
    assert!(interior.len() > 15, "{} interior pages", interior.len());
    interior.truncate(15);
    let mut leaf = root;
    while bytes[(leaf - 1) * PAGE] == INTERIOR {
        leaf = number(&bytes, (leaf - 1) * PAGE + 8);
    }
    for (index, page) in interior.iter().enumerate() {
        let next = (interior.get(index + 1).copied().unwrap_or(leaf) as u32).to_be_bytes();
        let start = (page - 1) * PAGE;
        let cells = usize::from(bytes[start + 3]) << 8 | usize::from(bytes[start + 4]);
        bytes[start + 8..start + 12].copy_from_slice(&next);
        for cell in 0..cells {
            let pointer = start + 12 + 2 * cell;
            let at = start + (usize::from(bytes[pointer]) << 8 | usize::from(bytes[pointer + 1]));
            bytes[at..at + 4].copy_from_slice(&next);
        }
    }
    fs::write(&path, &bytes)?;
    match load(&path) {
        Err(Error::Corrupt { detail, .. }) => assert!(detail.contains("its size"), "{detail}"),
        other => return Err(format!("{:?}", other.map(|profile| profile.cycles.len())).into()),
    }
    Ok(())
}

/// Lists that state room for many more tuples than they have cannot fill the memory.
#[test]
fn room_for_nothing() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    complete(&path)?;
    let lists = |count| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO hotlist SELECT 1000 + {count} + i, 1, 1, 1, 1, NULL, 'rax', 0, 0, 0,
                                        {}, 0, 1.0, 0, 0, NULL, NULL, NULL FROM n",
            Config::MAX_CAPACITY
        )
    };
    forge(&path, &lists(100))?;
    assert_eq!(load(&path)?.hotlists.len(), 102);
    forge(&path, &lists(60_000))?;
    match load(&path) {
        Err(Error::Corrupt { detail, .. }) => assert!(detail.contains("room for"), "{detail}"),
        other => return Err(format!("{:?}", other.map(|profile| profile.hotlists.len())).into()),
    }
    Ok(())
}

/// A database whose last change was cut short by a crash is not read half changed; the
/// next writer takes the change back.
#[test]
fn cut_short() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    complete(&path)?;
    let conn = Connection::open(&path)?;
    conn.pragma_update(None, "cache_size", 1)?;
    conn.execute_batch(
        "BEGIN;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO cycles SELECT 1, 1, 1, 1, NULL, i, i FROM n",
    )?;
    let copy = dir.path().join("copy.db");
    fs::copy(&path, &copy)?;
    fs::copy(
        dir.path().join("vcpi.db-journal"),
        dir.path().join("copy.db-journal"),
    )?;
    drop(conn);

    let read = load(&copy).err();
    assert!(matches!(read, Some(Error::Unrecovered { .. })), "{read:?}");
    Writer::create_epoch(&copy, &epoch("more"))?.close()?;
    let profile = load(&copy)?;
    assert_eq!((profile.epochs.len(), profile.cycles.len()), (2, 4));
    Ok(())
}
