//! What is past is rolled up: to hours, days and weeks, and each event is told once at any moment.

mod crash;
mod days;
mod shares;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use profiledb::rollup::{Limits, RollUpStep, RollUps};
use profiledb::view::{Limits as ViewLimits, Viewer, write_view};
use profiledb::{Directory, Filter, Profile};
use selection::{Kinds, Selection};

use days::{DAY, Days, Sums, sums};

/// Far behind all that the tests write: every hour, day and week is over.
const LATER: i64 = days::BEGIN + 100 * DAY;

/// Room for everything.
const ALL: Limits = Limits {
    hour: 1 << 30,
    day: 1 << 30,
    week: 1 << 30,
};

fn directory(path: &Path) -> RollUps {
    RollUps::new(Directory::new(path).unwrap())
}

/// Does all that there is to do, and looks at the directory after each piece.
fn roll(path: &Path, now: i64, limits: &Limits, mut look: impl FnMut()) -> Vec<String> {
    let mut rollups = directory(path);
    let mut told = Vec::new();
    loop {
        match rollups.step(now, None, limits).unwrap() {
            RollUpStep::Idle => return told,
            RollUpStep::Worked => {}
            RollUpStep::Finished(what) => told.push(what),
        }
        look();
    }
}

fn files(path: &Path) -> Vec<PathBuf> {
    let listed = Directory::new(path).unwrap().list().unwrap();
    listed.into_iter().map(|file| file.path).collect()
}

fn load(path: &Path) -> Profile {
    Profile::load(&[path.to_owned()], &Filter::default()).unwrap()
}

/// With room for everything, sums and values of two weeks are exactly what they were, after each
/// piece of the work; in the end each week has a file.
#[test]
fn exact_at_every_moment() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 9,
        ..Days::default()
    }
    .write(folder.path());
    let before = sums(folder.path());
    let mut looks = 0;
    let told = roll(folder.path(), LATER, &ALL, || {
        looks += 1;
        if looks % 7 == 0 {
            assert_eq!(sums(folder.path()), before, "after {looks} pieces");
        }
    });
    assert_eq!(sums(folder.path()), before);
    assert!(told.iter().any(|what| what.contains("an hour")), "{told:?}");
    assert_eq!(files(folder.path()).len(), 2, "{told:?}");
    let profile = load(folder.path());
    assert_eq!(profile.epochs.len(), 2);
    assert!(profile.epochs[0].settings.joined.starts_with(&[1, 2]));
}

/// Lists that reports ask for by themselves have chunks of their own. Who asks for some has the
/// same of a roll-up as who asks for all, and learns where there are others.
#[test]
fn asked_alone() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 2,
        ..Days::default()
    }
    .write(folder.path());
    roll(folder.path(), LATER, &ALL, || {});
    for file in files(folder.path()) {
        let conn = rusqlite::Connection::open(file).unwrap();
        let sql = "SELECT min(n) FROM (SELECT count(*) AS n FROM chunk WHERE kind = 2
                   GROUP BY flush, image, bucket, subject)";
        let least: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(least, 2);
    }
    let told = |profile: &Profile, parameter: &str| {
        let lists = profile.hotlists.iter();
        let of = lists.filter(|row| &*row.parameter == parameter);
        let told = of.map(|row| {
            let at = profile.pcs[row.pc].address;
            (at, row.reached.to_bits(), row.list.estimates())
        });
        format!("{:?}", told.collect::<Vec<_>>())
    };
    let all = load(folder.path());
    let addresses: BTreeSet<u64> = all
        .hotlists
        .iter()
        .map(|row| row.pc)
        .map(|pc| all.pcs[pc].address)
        .collect();
    for parameter in ["ret", "eax", "arg0"] {
        let filter = Filter {
            parameters: vec![parameter.to_owned()],
            ..Filter::default()
        };
        let kinds = Kinds {
            values: true,
            ..Kinds::default()
        };
        let paths = [folder.path().to_owned()];
        let some = Profile::load_kinds(&paths, &filter, kinds).unwrap().0;
        assert!(some.hotlists.iter().all(|row| &*row.parameter == parameter));
        assert_eq!(told(&some, parameter), told(&all, parameter));
        let known = some.pcs.iter().map(|pc| pc.address);
        let known: BTreeSet<u64> = known.chain(some.passed_over[0].iter().copied()).collect();
        assert!(known.is_superset(&addresses), "{parameter}");
    }
}

/// Processes that lived for seconds are one of their command; a service is still itself, in the
/// file of a week once.
#[test]
fn processes() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 3,
        ..Days::default()
    }
    .write(folder.path());
    let before = load(folder.path());
    assert!(before.processes.len() > 100, "{}", before.processes.len());
    roll(folder.path(), LATER, &ALL, || {});
    let after = load(folder.path());
    let mut names: Vec<_> = after
        .processes
        .iter()
        .map(|p| (p.pid, p.comm.as_str()))
        .collect();
    names.sort_unstable();
    let folded = profiledb::Process::FOLDED;
    assert_eq!(names, [(10, "server"), (11, "waker"), (folded, "cc1")]);
}

/// The running file's hours are rolled up while it is written to, and neither days nor the hour
/// that is not over.
#[test]
fn running() {
    let folder = tempfile::tempdir().unwrap();
    let days = Days::default();
    let (path, mut writer) = days.begin(folder.path(), 0);
    let minutes = 3 * 60 + 20;
    for minute in 0..minutes {
        days.minute(&mut writer, 0, minute);
    }
    let now = days::BEGIN + minutes * days::MINUTE;
    let before = sums(folder.path());
    let mut rollups = directory(folder.path());
    let (mut written, mut added) = (0, Sums::default());
    while rollups.step(now, Some(&path), &ALL).unwrap() != RollUpStep::Idle {
        // The collector goes on.
        days.minute(&mut writer, 0, minutes + written);
        written += 1;
        added = sums(folder.path());
    }
    assert!(written >= 3 && added != before);
    let rows = flushes(&path);
    let of = |grain| rows.iter().filter(|row| **row == grain).count() as i64;
    assert_eq!((of(3_600), of(86_400)), (3, 0));
    assert_eq!(of(0), 20 + written);
    days.end(writer, 0);
    let whole = sums(folder.path());
    roll(folder.path(), LATER, &ALL, || {});
    assert_eq!(sums(folder.path()), whole);
}

/// The grains of a file's flushes.
fn flushes(path: &Path) -> Vec<i64> {
    let conn = rusqlite::Connection::open(path).unwrap();
    let mut statement = conn.prepare("SELECT grain FROM flush").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

/// A reader that comes by while files are joined sees what was before or what is after, never both
/// and never less.
#[test]
fn a_reader_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    Days {
        days: 8,
        ..Days::default()
    }
    .write(folder.path());
    let before = sums(folder.path());
    let over = std::sync::atomic::AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(sums(folder.path()), before);
                looks += 1;
            }
            looks
        });
        roll(folder.path(), LATER, &ALL, || {});
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(looks > 0);
    assert_eq!(sums(folder.path()), before);
}

/// What older programs wrote stays as it is, and a limit of 0 leaves a grain out.
#[test]
fn left_alone() {
    let folder = tempfile::tempdir().unwrap();
    Days::default().write(folder.path());
    let off = Limits { hour: 0, ..ALL };
    assert!(roll(folder.path(), LATER, &off, || {}).is_empty());
    let hours = Limits { day: 0, ..ALL };
    roll(folder.path(), LATER, &hours, || {});
    let path = &files(folder.path())[0];
    assert!(flushes(path).iter().all(|grain| *grain == 3_600));
    let days = Limits { week: 0, ..ALL };
    roll(folder.path(), LATER, &days, || {});
    assert!(flushes(path).iter().all(|grain| *grain == 86_400));
}

/// A range of times takes an hour that is rolled up as of its end, and the profile says which hour
/// it cuts.
#[test]
fn a_range_that_cuts() {
    let folder = tempfile::tempdir().unwrap();
    Days::default().write(folder.path());
    roll(folder.path(), LATER, &Limits { day: 0, ..ALL }, || {});
    let since = days::BEGIN + 90 * days::MINUTE;
    let range = |since, until| {
        let filter = Filter {
            since: Some(since),
            until: Some(until),
            ..Filter::default()
        };
        Profile::load(&[folder.path().to_owned()], &filter).unwrap()
    };
    let cut = range(since, since + DAY);
    let (from, to) = cut.cut.unwrap();
    assert!(from < since && since < to && to - from <= 60 * days::MINUTE);
    let extent = &cut.extents[0];
    assert_eq!(extent.began, Some(from));
    assert_eq!(range(to, since + DAY).cut, None);
}

/// The view of a range that ends within an hour that is rolled up says so, to whoever reads it: it
/// has nothing of that hour but when it was.
#[test]
fn a_view_that_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    Days::default().write(folder.path());
    roll(folder.path(), LATER, &Limits { day: 0, ..ALL }, || {});
    let until = days::BEGIN + 90 * days::MINUTE;
    let selection = Selection {
        until: Some(until),
        ..Selection::default()
    };
    let filter = Filter::from(&selection);
    let whole = Profile::load(&[folder.path().to_owned()], &filter).unwrap();
    let view = folder.path().join("view");
    std::fs::write(&view, []).unwrap();
    let limits = ViewLimits {
        bytes: 1 << 30,
        until: Instant::now() + Duration::from_secs(600),
        stop: Arc::new(AtomicBool::new(false)),
    };
    let sources = files(folder.path());
    write_view(&sources, &view, Viewer::Privileged, &selection, &limits).unwrap();
    let seen = Profile::load(&[view], &filter).unwrap();
    assert!(whole.cut.is_some());
    assert_eq!(seen.cut, whole.cut);
    assert_eq!(seen.extents[0].saved, whole.extents[0].saved);
    assert_eq!(seen.totals, whole.totals);
}
