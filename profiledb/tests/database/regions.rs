//! What lies where in the memory of processes: written, read, filtered, seen by whom.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use profiledb::view::{Limits, Viewer, write_view};
use profiledb::{Filter, Mapped, Profile, Region, Writer, convert};
use rusqlite::Connection;
use selection::Selection;
use tempfile::tempdir;

use crate::common::{epoch, fill, library, load, process, user};

type Outcome = Result<(), Box<dyn Error>>;

const HEAP: u64 = 0x55d0_c000_0000;
const LIBRARY: u64 = 0x7f00_0000_0000;

/// The heap of process 42, of user 1000; the library in process 43, of user 1001. The heap grows
/// from one flush to the next.
fn database(path: &Path) -> Outcome {
    let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
    for number in 0..2 {
        let mut flush = writer.begin(number * 60, (number + 1) * 60)?;
        fill(&mut flush, 42, 1000)?;
        fill(&mut flush, 43, 1001)?;
        let (alice, bob) = (flush.process(&process(42))?, flush.process(&process(43))?);
        let (of_alice, of_bob) = (flush.subject(&user(1000))?, flush.subject(&user(1001))?);
        let grown = 0x1000 * (number.cast_unsigned() + 1);
        let heap = Region {
            start: HEAP,
            end: HEAP + grown,
            what: Mapped::Heap,
        };
        flush.region(alice, of_alice, &heap)?;
        let image = flush.image(&library())?;
        let mapped = Region {
            start: LIBRARY,
            end: LIBRARY + 0x9000,
            what: Mapped::Image {
                image,
                address: 0x4000,
            },
        };
        flush.region(bob, of_bob, &mapped)?;
        let nothing = Region { end: HEAP, ..heap };
        assert!(flush.region(alice, of_alice, &nothing).is_err());
        flush.commit()?;
    }
    writer.close()?;
    Ok(())
}

/// Where a region lies, and the name and offset of what is mapped there.
type Shown = (u64, u64, Option<(String, u64)>);

/// The regions of a profile, with the paths of images.
fn regions(profile: &Profile) -> Vec<Shown> {
    let mut regions: Vec<_> = profile
        .regions
        .iter()
        .map(|region| {
            let image = match region.what {
                Mapped::Image { image, address } => {
                    Some((profile.images[image].path.clone(), address))
                }
                _ => None,
            };
            (region.start, region.end, image)
        })
        .collect();
    regions.sort();
    regions
}

fn of_alice() -> (u64, u64, Option<(String, u64)>) {
    (HEAP, HEAP + 0x2000, None)
}

fn of_bob() -> (u64, u64, Option<(String, u64)>) {
    (LIBRARY, LIBRARY + 0x9000, Some((library().path, 0x4000)))
}

/// A region is there once, as long as it ever was; a filter of processes takes those of these; a
/// database that is written anew has the same.
#[test]
fn written_and_read() -> Outcome {
    let dir = tempdir()?;
    let (path, anew) = (dir.path().join("a.db"), dir.path().join("b.db"));
    database(&path)?;
    assert_eq!(regions(&load(&path)?), [of_alice(), of_bob()]);
    let filter = Filter {
        pids: vec![43],
        ..Filter::default()
    };
    let profile = Profile::load(std::slice::from_ref(&path), &filter)?;
    assert_eq!(regions(&profile), [of_bob()]);
    convert(&path, &anew)?;
    assert_eq!(regions(&load(&anew)?), [of_alice(), of_bob()]);
    // Two files have what both have.
    let profile = Profile::load(&[path, anew], &Filter::default())?;
    assert_eq!(regions(&profile).len(), 4);
    Ok(())
}

/// A reader gets the regions of their own values, and nothing of anybody else's is in the file.
#[test]
fn views() -> Outcome {
    let dir = tempdir()?;
    let (source, target) = (dir.path().join("a.db"), dir.path().join("view.db"));
    database(&source)?;
    let limits = Limits {
        stop: Arc::new(AtomicBool::new(false)),
        bytes: 64 << 20,
        until: Instant::now() + Duration::from_secs(60),
    };
    let sources = [source];
    let view = |viewer| -> Result<Profile, Box<dyn Error>> {
        fs::write(&target, [])?;
        write_view(&sources, &target, viewer, &Selection::default(), &limits)?;
        Ok(load(&target)?)
    };
    assert_eq!(regions(&view(Viewer::User(1000))?), [of_alice()]);
    assert_eq!(regions(&view(Viewer::User(1001))?), [of_bob()]);
    assert!(regions(&view(Viewer::User(1002))?).is_empty());
    let all = regions(&view(Viewer::Privileged)?);
    assert_eq!(all, [of_alice(), of_bob()]);
    Ok(())
}

/// Rows that are no regions, and rows that refer to what is missing, are damage with a name.
#[test]
fn damage() -> Outcome {
    for (sql, said) in [
        ("UPDATE region SET kind = 9", "a region is none"),
        ("UPDATE region SET pages = -1", "a region is none"),
        ("UPDATE region SET image = 77 WHERE kind = 4", "image 77"),
        ("UPDATE region SET subject = 77", "subject 77"),
        (
            "UPDATE region SET process = 77 WHERE kind = 4",
            "process 77",
        ),
    ] {
        let dir = tempdir()?;
        let path = dir.path().join("a.db");
        database(&path)?;
        let conn = Connection::open(&path)?;
        conn.pragma_update(None, "foreign_keys", false)?;
        conn.execute_batch(sql)?;
        drop(conn);
        let error = load(&path).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.contains(said), "{sql}: {error}");
    }
    Ok(())
}
