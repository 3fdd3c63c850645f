//! What is written comes back, over flushes, epochs, files and crashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{database, epoch, fill, library, load, process, program, user};
use profiledb::view::{Limits, Viewer, write_view};
use profiledb::{Calls, Directions, Doubled, Error, Filter, Profile, Writer};
use selection::Selection;
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Every kind of row is read as it was written, and refers to the right rows.
#[test]
fn round_trip() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    database(&path, 1)?;
    let profile = load(&path)?;

    let mut expected = epoch("demo");
    expected.ended = Some(60);
    assert_eq!(profile.epochs, [expected]);
    assert_eq!(profile.images, [program(), library()]);
    assert_eq!(profile.subjects, [user(1000)]);
    assert_eq!(profile.processes, [process(42)]);
    let hot = &profile.pcs[profile.cycles[0].pc];
    assert_eq!((hot.image, hot.address), (0, 0x1193));
    assert_eq!(
        hot.bytes.as_deref(),
        Some([0x48, 0x8b, 0x47, 0x08].as_slice())
    );
    let site = profile.cycles[0].caller.ok_or("the caller is known")?;
    assert_eq!(
        (profile.pcs[site].image, profile.pcs[site].address),
        (1, 0x2000)
    );
    assert_eq!(profile.pcs[site].bytes, None);
    assert_eq!(profile.cycles[0].samples, 30);
    assert_eq!(profile.cycles[0].cycles, 75_000.0);
    assert_eq!(profile.cycles[1].caller, None);
    let branch = &profile.branches[0];
    assert_eq!((branch.taken, branch.not_taken, branch.unknown), (9, 1, 2));
    assert_eq!(branch.pc, profile.cycles[1].pc);
    assert_eq!(profile.calls.len(), 2);
    // What is not known comes first.
    assert_eq!((profile.calls[1].site, profile.calls[1].calls), (site, 7));
    assert_eq!(profile.calls[1].callee, Some(profile.cycles[0].pc));
    assert_eq!(profile.calls[0].callee, None);
    let symbol = &profile.symbols[0];
    assert_eq!((symbol.image, symbol.address, symbol.size), (1, 0x2000, 64));
    assert_eq!(symbol.name, "caller");
    assert_eq!(
        profile.counters[&("run".to_owned(), "samples".to_owned())],
        40
    );
    assert_eq!(profile.counters[&("lost".to_owned(), "ring".to_owned())], 0);
    Ok(())
}

/// Squares only say how wide an interval is: they are kept to a hundredth.
fn near(read: Option<f64>, written: Option<f64>) {
    let (read, written) = (read.unwrap_or(-1.0), written.unwrap_or(-1.0));
    assert!(
        (read - written).abs() <= 0.012 * written,
        "{read} for {written}"
    );
}

/// What branches and calls weigh comes back, from the file and from a view of it.
#[test]
fn weights() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let directions = Directions {
        taken: 9,
        not_taken: 1,
        unknown: 2,
        weights: [4.5, 0.25, 2.0],
        squares: Some(3.0625),
    };
    let calls = Calls {
        times: 7,
        weight: 0.875,
        squares: Some(0.125),
    };
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    let image = flush.image(&program())?;
    let (process, tag) = (flush.process(&process(42))?, flush.subject(&user(1000))?);
    let pc = flush.pc(image, 0x1193, None)?;
    flush.branch(process, tag, pc, directions)?;
    flush.call(process, tag, pc, None, calls)?;
    flush.commit()?;
    writer.close()?;
    let view = dir.path().join("view.db");
    fs::File::create(&view)?;
    let limits = Limits {
        bytes: 1 << 30,
        until: Instant::now() + Duration::from_secs(300),
        stop: Arc::default(),
    };
    let (sources, everything) = (std::slice::from_ref(&path), Selection::default());
    write_view(sources, &view, Viewer::Privileged, &everything, &limits)?;
    for path in [&path, &view] {
        let profile = load(path)?;
        let (branch, call) = (&profile.branches[0], &profile.calls[0]);
        assert_eq!(branch.weights, directions.weights);
        near(branch.squares, directions.squares);
        assert_eq!((call.calls, call.weight), (calls.times, calls.weight));
        near(call.squares, calls.squares);
    }
    Ok(())
}

/// A second run appends an epoch; what recurs is stored and read once, what is new to the
/// second run (here the encoding of a PC) is added to it.
#[test]
fn appended_epoch() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    database(&path, 2)?;
    let mut writer = Writer::create_epoch(&path, &epoch("again"))?;
    let mut flush = writer.begin(500, 600)?;
    fill(&mut flush, 43, 1000)?;
    let image = flush.image(&program())?;
    flush.pc(image, 0x1197, Some(&[0x90]))?;
    flush.pc(image, 0x1197, Some(&[0xcc]))?;
    flush.commit()?;
    writer.close()?;

    let profile = load(&path)?;
    assert_eq!(profile.epochs.len(), 2);
    assert_eq!(profile.epochs[1].command, "again");
    assert_eq!(profile.epochs[1].ended, None);
    let extents = profile.extents.iter();
    let extents: Vec<_> = extents
        .map(|extent| (extent.id, extent.last, extent.samples, extent.saved))
        .collect();
    assert_eq!(
        extents,
        [(1, false, 80, Some(120)), (2, true, 40, Some(600))]
    );
    assert_eq!((profile.images.len(), profile.subjects.len()), (2, 1));
    assert_eq!(profile.pcs.len(), 3);
    let warm = profile
        .pcs
        .iter()
        .find(|pc| pc.address == 0x1197)
        .ok_or("it is there")?;
    assert_eq!(warm.bytes.as_deref(), Some([0x90].as_slice()));
    assert_eq!(profile.processes, [process(42), process(43)]);
    assert_eq!(profile.cycles.len(), 6);
    assert_eq!(
        profile.counters[&("run".to_owned(), "samples".to_owned())],
        120
    );
    Ok(())
}

/// A damaged database among others of a directory is left out whole and named; it cannot be
/// read by its name, and a directory with nothing else cannot be read either.
#[test]
fn damaged_among_others() -> Outcome {
    let dir = tempdir()?;
    let [good, bad] = ["a.db", "b.db"].map(|name| dir.path().join(name));
    database(&good, 2)?;
    let whole = load(&good)?;
    let mut writer = Writer::create_epoch(&bad, &epoch("other"))?;
    let mut flush = writer.begin(0, 60)?;
    fill(&mut flush, 43, 1001)?;
    // What the good one has not: the encoding of a PC, another image, another name.
    let image = flush.image(&program())?;
    flush.pc(image, 0x1197, Some(&[0x90]))?;
    flush.commit()?;
    writer.close()?;
    let conn = rusqlite::Connection::open(&bad)?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.execute("UPDATE counter SET flush = 99", [])?;
    drop(conn);
    let directory = [dir.path().to_owned()];
    let (profile, left_out) = Profile::load_readable(&directory, &Filter::default())?;
    assert_eq!(left_out.len(), 1);
    assert!(
        left_out[0].to_string().contains("b.db: is damaged"),
        "{left_out:?}"
    );
    assert_eq!(profile.epochs, whole.epochs);
    assert_eq!((&profile.pcs, &profile.images), (&whole.pcs, &whole.images));
    assert_eq!(
        (&profile.cycles, &profile.calls),
        (&whole.cycles, &whole.calls)
    );
    assert_eq!(
        (&profile.subjects, &profile.symbols),
        (&whole.subjects, &whole.symbols)
    );
    assert_eq!(profile.counters, whole.counters);
    assert!(Profile::load_readable(&[bad], &Filter::default()).is_err());
    assert!(Profile::load(&directory, &Filter::default()).is_err());
    fs::remove_file(&good)?;
    assert!(Profile::load_readable(&directory, &Filter::default()).is_err());
    Ok(())
}

/// A directory stands for its databases, a file named twice is read once, and rows of
/// several files share images, access tags and PCs.
#[test]
fn several_files() -> Outcome {
    let dir = tempdir()?;
    let (first, second) = (dir.path().join("1.db"), dir.path().join("2.db"));
    database(&first, 1)?;
    database(&second, 1)?;
    later(&second)?;
    fs::write(dir.path().join("notes.txt"), "no database")?;
    let paths = [dir.path().to_owned(), first, dir.path().join("./2.db")];
    let profile = Profile::load(&paths, &Filter::default())?;
    assert_eq!(profile.epochs.len(), 2);
    assert_eq!(
        (
            profile.images.len(),
            profile.subjects.len(),
            profile.pcs.len()
        ),
        (2, 1, 3)
    );
    assert_eq!((profile.processes.len(), profile.cycles.len()), (2, 4));
    assert_eq!(profile.symbols.len(), 1);

    let empty = dir.path().join("empty");
    fs::create_dir(&empty)?;
    let error = Profile::load(&[empty], &Filter::default());
    assert!(matches!(error, Err(Error::NoDatabase { .. })), "{error:?}");
    Ok(())
}

/// Makes the epoch of a database one that began later than the others.
fn later(path: &Path) -> Outcome {
    let conn = rusqlite::Connection::open(path)?;
    conn.execute("UPDATE epoch SET started = started + 1", [])?;
    Ok(())
}

/// An epoch that is in several files of a directory is read in the one that has most of it, which
/// is told; where the files are named, each is read.
#[test]
fn copies_in_a_directory() -> Outcome {
    let dir = tempdir()?;
    let paths = ["a.db", "b.db", "c.db"].map(|name| dir.path().join(name));
    for (path, flushes) in paths.iter().zip([1, 3, 2]) {
        database(path, flushes)?;
    }
    let directory = [dir.path().to_owned()];
    let profile = Profile::load(&directory, &Filter::default())?;
    let most = load(&paths[1])?;
    assert_eq!(
        (&profile.cycles, &profile.extents),
        (&most.cycles, &most.extents)
    );
    let doubled = [&paths[0], &paths[2]].map(|left| Doubled {
        id: 1,
        read: paths[1].clone(),
        left: left.clone(),
    });
    assert_eq!(profile.doubled, doubled);
    let named = Profile::load(&paths, &Filter::default())?;
    assert_eq!((named.epochs.len(), named.doubled.len()), (3, 0));
    later(&paths[0])?;
    let profile = Profile::load(&directory, &Filter::default())?;
    assert_eq!((profile.epochs.len(), profile.doubled.len()), (2, 1));
    Ok(())
}

/// Each condition of a filter leaves out the rows that do not meet it, and what only
/// those refer to.
#[test]
fn filters() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    database(&path, 3)?;
    let mut writer = Writer::create_epoch(&path, &epoch("other"))?;
    let mut flush = writer.begin(1_000, 1_060)?;
    fill(&mut flush, 43, 1001)?;
    let (process, subject) = (flush.process(&process(43))?, flush.subject(&user(1001))?);
    let library = flush.image(&library())?;
    let inside = flush.pc(library, 0x3000, None)?;
    flush.cycles(process, subject, inside, None, 1, 1)?;
    flush.commit()?;
    writer.close()?;
    Writer::create_epoch(&path, &epoch("nothing yet"))?.close()?;

    let read = |filter: Filter| Profile::load(std::slice::from_ref(&path), &filter);
    let rows = |filter: Filter| -> Result<_, Error> {
        let profile = read(filter)?;
        Ok((
            profile.epochs.len(),
            profile.processes.len(),
            profile.cycles.len(),
        ))
    };
    let all = Filter::default;
    assert_eq!(rows(all())?, (3, 2, 9));
    assert_eq!(
        rows(Filter {
            epochs: vec![2],
            ..all()
        })?,
        (1, 1, 3)
    );
    assert_eq!(
        rows(Filter {
            epochs: vec![3],
            ..all()
        })?,
        (1, 0, 0)
    );
    assert_eq!(
        rows(Filter {
            pids: vec![42],
            ..all()
        })?,
        (3, 1, 6)
    );
    assert_eq!(
        rows(Filter {
            uids: vec![1001],
            ..all()
        })?,
        (3, 1, 3)
    );
    assert_eq!(
        rows(Filter {
            since: Some(60),
            until: Some(120),
            ..all()
        })?,
        (1, 1, 2)
    );
    assert_eq!(
        rows(Filter {
            since: Some(61),
            until: Some(119),
            ..all()
        })?,
        (0, 0, 0)
    );
    assert_eq!(
        rows(Filter {
            since: Some(59),
            until: Some(121),
            ..all()
        })?,
        (1, 1, 4)
    );
    // Wherever two ranges adjoin, each flush is in one of them.
    for meeting in [0, 1, 60, 61, 119, 120, 1_030, 1_060, 1_061] {
        let mut seen = 0;
        for (since, until) in [(None, Some(meeting)), (Some(meeting), None)] {
            let filter = Filter {
                since,
                until,
                ..all()
            };
            seen += rows(filter)?.2;
        }
        assert_eq!(seen, 9, "{meeting}");
    }
    assert_eq!(
        rows(Filter {
            since: Some(9_999),
            ..all()
        })?,
        (0, 0, 0)
    );
    for name in ["/usr/lib/library.so", "library.so"] {
        assert_eq!(
            rows(Filter {
                images: vec![name.to_owned()],
                ..all()
            })?,
            (3, 2, 1)
        );
    }
    for name in ["/usr/bin/program", "program", "ab12cd34", "AB12"] {
        assert_eq!(
            rows(Filter {
                images: vec![name.to_owned()],
                ..all()
            })?,
            (3, 2, 8)
        );
    }
    for name in ["", "ab1", "ab12cd345", "rogram", "bin/program"] {
        assert_eq!(
            rows(Filter {
                images: vec![name.to_owned()],
                ..all()
            })?,
            (3, 0, 0)
        );
    }
    let profile = read(Filter {
        epochs: vec![1],
        since: Some(120),
        ..all()
    })?;
    assert_eq!(
        profile.counters[&("run".to_owned(), "samples".to_owned())],
        40
    );
    Ok(())
}

/// What was flushed before a collector died, or while it still runs, is there for readers
/// and for the next collector.
#[test]
fn died_writer() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = Writer::create_epoch(&path, &epoch("dies"))?;
    let mut flush = writer.begin(0, 60)?;
    fill(&mut flush, 42, 1000)?;
    flush.commit()?;
    assert_eq!(load(&path)?.cycles.len(), 2, "beside a live writer");

    // What a dead process leaves is the files as they are now.
    let copy = dir.path().join("copy.db");
    fs::copy(&path, &copy)?;
    fs::copy(
        dir.path().join("vcpi.db-wal"),
        dir.path().join("copy.db-wal"),
    )?;
    drop(writer);
    assert_eq!(load(&copy)?.cycles.len(), 2, "after its death");

    let mut writer = Writer::create_epoch(&copy, &epoch("next"))?;
    let mut flush = writer.begin(60, 120)?;
    fill(&mut flush, 42, 1000)?;
    flush.commit()?;
    writer.close()?;
    let profile = load(&copy)?;
    assert_eq!((profile.epochs.len(), profile.cycles.len()), (2, 4));
    let [died, next] = &profile.epochs[..] else {
        return Err("not two epochs".into());
    };
    assert_eq!((died.ended, died.is_cut_short()), (Some(60), true));
    assert_eq!((next.ended, next.is_cut_short()), (None, false));
    Ok(())
}

/// While the log is being merged, the main file's first page says already how many pages there will
/// be: a reader goes by the log.
#[test]
fn amid_merging() -> Outcome {
    // The database has to grow.
    const PROCESSES: u32 = 1000;
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    for pid in 1..=PROCESSES {
        fill(&mut flush, pid, 1000)?;
    }
    flush.commit()?;
    let copy = dir.path().join("copy.db");
    for end in ["", "-wal"] {
        let name = |stem: &str| dir.path().join(format!("{stem}.db{end}"));
        fs::copy(name("vcpi"), name("copy"))?;
    }
    // What merging writes first: a frame of the log is the number of a page, more, and the page.
    let log = fs::read(dir.path().join("copy.db-wal"))?;
    let page = u32::from_be_bytes(log[8..12].try_into()?) as usize;
    let frames = log[32..].chunks_exact(24 + page);
    let mut first_page = frames.filter(|frame| frame[..4] == 1_u32.to_be_bytes());
    let first_page = &first_page
        .next_back()
        .ok_or("the first page is in the log")?[24..];
    let mut bytes = fs::read(&copy)?;
    bytes[..page].copy_from_slice(first_page);
    fs::write(&copy, &bytes)?;
    assert_eq!(load(&copy)?.cycles.len(), 2 * PROCESSES as usize);
    // Without its log, that is damage.
    fs::remove_file(dir.path().join("copy.db-wal"))?;
    assert!(matches!(load(&copy), Err(failed) if failed.to_string().contains("damaged")));
    Ok(())
}

/// A reader sees whole flushes only, while the next one is being written.
#[test]
fn between_two_flushes() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let mut writer = Writer::create_epoch(&path, &epoch("runs"))?;
    for number in 0..5 {
        let mut flush = writer.begin(number, number + 1)?;
        fill(&mut flush, 42, 1000)?;
        assert_eq!(load(&path)?.cycles.len() as i64, 2 * number);
        flush.commit()?;
    }
    writer.close()?;
    assert_eq!(load(&path)?.cycles.len(), 10);
    Ok(())
}

/// A closed database is one file for its owner alone, which needs no write-ahead log.
#[test]
fn closed_is_one_file() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir()?;
    let path = dir.path().join("a ?#%file.db");
    database(&path, 1)?;
    let names: Vec<PathBuf> = fs::read_dir(dir.path())?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    assert_eq!(names, std::slice::from_ref(&path));
    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    load(&path)?;
    assert_eq!(
        fs::read_dir(dir.path())?.count(),
        1,
        "reading leaves nothing behind"
    );
    Ok(())
}

/// A reader that is at work keeps nobody from closing, and loses nothing.
#[test]
fn closing_beside_another_writer() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("vcpi.db");
    let first = Writer::create_epoch(&path, &epoch("first"))?;
    let mut second = Writer::create_epoch(&path, &epoch("second"))?;
    let mut flush = second.begin(0, 60)?;
    fill(&mut flush, 42, 1000)?;
    flush.commit()?;
    drop(first);
    second.close()?;
    let profile = load(&path)?;
    assert_eq!((profile.epochs.len(), profile.cycles.len()), (2, 2));
    Ok(())
}
