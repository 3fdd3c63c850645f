//! The order, the retention and the recovery of epochs' files.

use super::*;
use crate::{Epoch, Filter, Profile, Writer};

const DAY: Duration = Duration::from_secs(86_400);

fn file(sequence: u64, bytes: u64, age: Duration, now: SystemTime) -> EpochFile {
    EpochFile {
        path: PathBuf::from(sequence.to_string()),
        sequence,
        bytes,
        modified: now - age,
        aside: false,
    }
}

fn epoch() -> Epoch {
    Epoch {
        started: 1,
        ended: None,
        host: "host".to_owned(),
        kernel: "6.1".to_owned(),
        command: "serve".to_owned(),
        engine: "ring".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 1.0,
        period: 1_000_000,
        window: 16,
        settings: crate::EpochSettings::default(),
    }
}

/// A directory with so many epochs that were ended properly.
fn directory(epochs: u32) -> (tempfile::TempDir, Directory) {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::new(folder.path()).unwrap();
    for _ in 0..epochs {
        let (path, sequence) = directory.next(1_000_000_000).unwrap();
        let mut writer = Writer::create_epoch_as(&path, &epoch(), Some(sequence)).unwrap();
        writer.begin(1, 2).unwrap().commit().unwrap();
        writer.end_epoch(2).unwrap();
        writer.close().unwrap();
    }
    (folder, directory)
}

fn recover(directory: &Directory) -> Vec<Recovered> {
    let mut found = Vec::new();
    directory
        .recover(|_| false, |recovered| found.push(recovered))
        .unwrap();
    found
}

/// Names say time and number, and only such names are taken for epochs.
#[test]
fn names() {
    let name = name(1_795_219_200_000_000_000, 17);
    assert_eq!(name, "2026-11-21T00-00-00-000017.db");
    assert_eq!(parse(&name), Some((17, false)));
    assert_eq!(parse(&(name.clone() + ".damaged")), Some((17, true)));
    for other in [
        "vcpi.db",
        "2026-11-21T00-00-00.db",
        "2026-11-21T00-00-00-000017.db-wal",
        "2026-11-21T00-00-00-000017",
        "2026-11-21T00-00-00-x00017.db",
        "x026-11-21T00-00-00-000017.db",
    ] {
        assert_eq!(parse(other), None, "{other}");
    }
}

/// An epoch that begins after the clock was set back comes behind the one before it.
#[test]
fn clock_set_back() {
    let (_folder, directory) = directory(1);
    let (second, _) = directory.next(0).unwrap();
    Writer::create_epoch(&second, &epoch()).unwrap();
    let listed = directory.list().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1].path, second);
}

/// What is too old goes, but for the newest; what is too much goes, but for the running one.
#[test]
fn retention() {
    let now = SystemTime::UNIX_EPOCH + 1000 * DAY;
    let files: Vec<_> = (0..6)
        .map(|n| file(n, 10, DAY * (60 - 10 * n as u32), now))
        .collect();
    let kept = |retention: Retention| {
        let gone = surplus(&files, &retention, now, Path::new("5"));
        6 - gone.len()
    };
    let all = Retention {
        age: 365 * DAY,
        bytes: 1000,
        newest: 3,
    };
    assert_eq!(kept(all), 6);
    // Ages are 60, 50, ... 10 days.
    assert_eq!(
        kept(Retention {
            age: 25 * DAY,
            ..all
        }),
        3
    );
    assert_eq!(
        kept(Retention {
            age: 35 * DAY,
            ..all
        }),
        3
    );
    assert_eq!(
        kept(Retention {
            age: 45 * DAY,
            ..all
        }),
        4
    );
    assert_eq!(
        kept(Retention {
            age: DAY,
            newest: 0,
            ..all
        }),
        1
    );
    assert_eq!(kept(Retention { bytes: 45, ..all }), 4);
    assert_eq!(kept(Retention { bytes: 0, ..all }), 1);
    // A clock that stands years back makes nothing old.
    let gone = surplus(&files, &all, SystemTime::UNIX_EPOCH, Path::new("5"));
    assert!(gone.is_empty());
}

/// The files that go take what SQLite left beside them along; foreign files stay.
#[test]
fn enforced() {
    let (folder, directory) = directory(4);
    let listed = directory.list().unwrap();
    let log = with_suffix(&listed[0].path, "-wal");
    fs::write(&log, "x").unwrap();
    fs::write(folder.path().join("notes.db"), "mine").unwrap();
    let retention = Retention {
        age: DAY,
        bytes: listed[3].bytes + listed[2].bytes,
        newest: 1,
    };
    let gone = directory
        .enforce(&retention, SystemTime::now(), &listed[3].path)
        .unwrap();
    assert_eq!(gone.len(), 2);
    assert!(!log.exists());
    assert_eq!(directory.list().unwrap(), listed[2..]);
    assert!(folder.path().join("notes.db").exists());
}

/// A database whose writer died is brought into one file; one that is well is left alone.
#[test]
fn unclosed() {
    let (_folder, directory) = directory(1);
    let (path, _) = directory.next(0).unwrap();
    let mut writer = Writer::create_epoch(&path, &epoch()).unwrap();
    writer.begin(1, 2).unwrap().commit().unwrap();
    // The files as a writer leaves them that is killed: with a log.
    let held = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let from = with_suffix(&path, suffix);
        fs::copy(&from, held.path().join(format!("copy{suffix}"))).unwrap();
    }
    drop(writer);
    for suffix in ["", "-wal"] {
        fs::copy(
            held.path().join(format!("copy{suffix}")),
            with_suffix(&path, suffix),
        )
        .unwrap();
    }
    let found = recover(&directory);
    assert!(
        matches!(found.as_slice(), [Recovered::Closed(closed)] if *closed == path),
        "{found:?}"
    );
    assert!(!with_suffix(&path, "-wal").exists());
    assert!(recover(&directory).is_empty());
    let [ended] = epochs(&path)[..] else {
        panic!("not one epoch");
    };
    assert_eq!(ended, (Some(2), true));
}

/// End of each epoch, and whether it was cut short.
fn epochs(path: &Path) -> Vec<(Option<i64>, bool)> {
    let profile = crate::Profile::load(&[path.to_owned()], &crate::Filter::default()).unwrap();
    profile
        .epochs
        .iter()
        .map(|epoch| (epoch.ended, epoch.is_cut_short()))
        .collect()
}

/// What an earlier writer left without an end is ended as of its last flush, or of its start, by
/// the next one that begins an epoch in the database; but not while somebody has it open, who might
/// be that writer.
#[test]
fn appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vcpi.db");
    let mut first = Writer::create_epoch(&path, &epoch()).unwrap();
    first.begin(1, 2).unwrap().commit().unwrap();
    let second = Writer::create_epoch(&path, &epoch()).unwrap();
    assert_eq!(epochs(&path), [(None, false), (None, false)]);
    // Both die.
    drop((first, second));
    let mut third = Writer::create_epoch(&path, &epoch()).unwrap();
    assert_eq!(
        epochs(&path),
        [(Some(2), true), (Some(1), true), (None, false)]
    );
    third.end_epoch(7).unwrap();
    third.close().unwrap();
    let fourth = Writer::create_epoch(&path, &epoch()).unwrap();
    assert_eq!(epochs(&path)[2], (Some(7), false));
    drop(fourth);
}

/// Text, a database of a newer version and one whose pages are overwritten are moved aside with
/// their logs; another program's file of another name is not.
#[test]
fn useless() {
    let (folder, directory) = directory(4);
    let files = directory.list().unwrap();
    fs::write(
        &files[0].path,
        "no database, but long enough to be one ".repeat(40),
    )
    .unwrap();
    fs::write(with_suffix(&files[0].path, "-wal"), "its log").unwrap();
    rusqlite::Connection::open(&files[1].path)
        .and_then(|conn| conn.pragma_update(None, "user_version", 1_000_000))
        .unwrap();
    let mut bytes = fs::read(&files[2].path).unwrap();
    let page = bytes.len() / 2 / 4096 * 4096;
    bytes[page..page + 4096].fill(0xa5);
    fs::write(&files[2].path, bytes).unwrap();
    fs::write(folder.path().join("notes.db"), "mine").unwrap();
    let found = recover(&directory);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found
            .iter()
            .all(|found| matches!(found, Recovered::Aside { .. })),
        "{found:?}"
    );
    let listed = directory.list().unwrap();
    assert_eq!(listed.iter().filter(|file| file.aside).count(), 3);
    assert!(with_suffix(&files[0].path, ".damaged-wal").exists());
    assert!(folder.path().join("notes.db").exists());
    // It is said of each as long as it is there.
    let folder_itself = [folder.path().to_owned()];
    let (profile, left_out) = Profile::load_readable(&folder_itself, &Filter::default()).unwrap();
    assert!(!profile.epochs.is_empty());
    let aside = |error: &&Error| matches!(error, Error::SetAside { .. });
    assert_eq!(left_out.iter().filter(aside).count(), 3, "{left_out:?}");
    // Their numbers are not used again.
    assert_eq!(directory.next(0).unwrap().1, 5);
}
