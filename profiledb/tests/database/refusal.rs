//! What is no vcpi database is refused by name, and left as it was.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{database, epoch, load};
use profiledb::{Error, Filter, Profile, Writer};
use rusqlite::Connection;
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Both sides refuse the file with an error that contains `says`; neither it nor its
/// directory changes.
fn refused(path: &Path, says: &str) -> Outcome {
    let dir = path.parent().ok_or("a file in a directory")?;
    let before = fs::read(path)?;
    let beside = fs::read_dir(dir)?.count();
    let errors = [
        Writer::create_epoch(path, &epoch("demo")).err(),
        Profile::load(&[PathBuf::from(path)], &Filter::default()).err(),
    ];
    for error in errors {
        let error = error.ok_or("the file was taken")?;
        assert!(error.to_string().contains(says), "{error}");
        assert!(
            error.to_string().contains(&*path.to_string_lossy()),
            "{error}"
        );
    }
    assert_eq!(fs::read(path)?, before);
    assert_eq!(fs::read_dir(dir)?.count(), beside);
    Ok(())
}

/// Files of any content and length that are not SQLite's are refused.
#[test]
fn no_sqlite() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("file");
    let mut contents: Vec<Vec<u8>> = [1, 15, 50, 99, 100, 511, 512, 4096, 70_000]
        .map(|len| vec![b'x'; len])
        .to_vec();
    contents.push(vec![0; 4096]);
    contents.push(b"#!/bin/sh\n".to_vec());
    contents.push(fs::read(std::env::current_exe()?)?);
    for content in contents {
        fs::write(&path, content)?;
        refused(&path, "a file of another kind")?;
    }
    Ok(())
}

/// Databases of other programs are refused, with a write-ahead log as well.
#[test]
fn other_programs() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("other.db");
    let conn = Connection::open(&path)?;
    conn.execute_batch("CREATE TABLE epoch (id INTEGER PRIMARY KEY)")?;
    refused(&path, "an SQLite database of another program")?;
    conn.pragma_update(None, "application_id", 0x1234)?;
    refused(&path, "(application id 0x1234)")?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.execute_batch("INSERT INTO epoch VALUES (1)")?;
    refused(&path, "(application id 0x1234)")
}

/// A schema newer than known is refused by both sides and stays; what reads it is said.
#[test]
fn newer_schema() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("newer.db");
    database(&path, 1)?;
    Connection::open(&path)?.pragma_update(None, "user_version", 8)?;
    refused(
        &path,
        "schema version 8, this program knows up to 7; use a newer vcpi",
    )
}

/// So is one that lacks what today's has, and it is not called damaged.
#[test]
fn older_schema() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("older.db");
    database(&path, 1)?;
    Connection::open(&path)?.pragma_update(None, "user_version", 1)?;
    refused(&path, "schema version 1 of an older vcpi")
}

/// A database that becomes one of another schema while it is written to takes no more, and keeps
/// what it has.
#[test]
fn other_schema_meanwhile() -> Outcome {
    let dir = tempdir()?;
    for (version, says) in [(8, "schema version 8"), (1, "of an older vcpi")] {
        let path = dir.path().join(format!("{version}.db"));
        let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
        writer.begin(0, 60)?.commit()?;
        let other = Connection::open(&path)?;
        other.pragma_update(None, "user_version", version)?;
        for _ in 0..2 {
            let error = writer.begin(60, 120).err().ok_or("it was taken")?;
            assert!(error.to_string().contains(says), "{error}");
            assert!(profiledb::is_useless(&error), "{error}");
        }
        let flushes: i64 = other.query_row("SELECT count(*) FROM flush", [], |row| row.get(0))?;
        assert_eq!(flushes, 1);
    }
    Ok(())
}

/// A directory, a pipe and a device are named for what they are, without waiting for one.
#[test]
fn no_files() -> Outcome {
    let dir = tempdir()?;
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    assert!(made.success());
    let cases = [
        (dir.path(), "a directory"),
        (&*pipe, "a named pipe"),
        (Path::new("/dev/null"), "a device"),
    ];
    for (path, what) in cases {
        match Writer::create_epoch(path, &epoch("demo")) {
            Err(Error::NotADatabase { found, .. }) => assert_eq!(found, what),
            other => return Err(format!("{:?}", other.err()).into()),
        }
    }
    assert!(matches!(load(&pipe), Err(Error::NotADatabase { .. })));
    assert!(matches!(
        load(Path::new("/dev/null")),
        Err(Error::NotADatabase { .. })
    ));
    Ok(())
}

/// A missing directory is the file system's error, and names special to SQLite are files.
#[test]
fn names() -> Outcome {
    let dir = tempdir()?;
    let missing = dir.path().join("missing/vcpi.db");
    let error = Writer::create_epoch(&missing, &epoch("demo")).err();
    assert!(matches!(&error, Some(Error::Io { .. })), "{error:?}");
    let error = load(&missing).err();
    assert!(matches!(&error, Some(Error::Io { .. })), "{error:?}");
    assert!(Writer::create_epoch(Path::new(""), &epoch("demo")).is_err());
    let special = dir.path().join(":memory:");
    database(&special, 1)?;
    assert_eq!(load(&special)?.epochs.len(), 1);
    Ok(())
}

/// An empty file, as a run that died at once leaves it, is as good as none for a writer;
/// a reader says that it is empty.
#[test]
fn empty_file() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    fs::write(&path, "")?;
    match load(&path) {
        Err(Error::NotADatabase { found, .. }) => assert_eq!(found, "an empty file"),
        other => return Err(format!("{other:?}").into()),
    }
    database(&path, 1)?;
    assert_eq!(load(&path)?.epochs.len(), 1);
    Ok(())
}

/// An epoch whose clock has no speed is refused before there is a file.
#[test]
fn no_clock_speed() -> Outcome {
    let dir = tempdir()?;
    for speed in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let mut epoch = epoch("demo");
        epoch.cycles_per_unit = speed;
        let error = Writer::create_epoch(&dir.path().join("vcpi.db"), &epoch).err();
        assert!(matches!(error, Some(Error::Invalid { .. })), "{error:?}");
    }
    assert_eq!(fs::read_dir(dir.path())?.count(), 0);
    Ok(())
}
