//! Call stacks: as they were written, added up over flushes, and as others may see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::common::{epoch, instructions, library, load, process, program, user, whole_and_bare};
use counters::Counter;
use profiledb::view::{Limits, Viewer, write_view};
use profiledb::{
    Error, Filter, Image, ImageKind, Places, Profile, StackEnd, Subject, Writer, convert, unpack,
};
use rusqlite::Connection;
use selection::{Kinds, Selection};
use tempfile::tempdir;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn kernel() -> Image {
    Image {
        kind: ImageKind::Kernel,
        path: "[kernel]".to_owned(),
        build_id: None,
        identity: "boot".to_owned(),
    }
}

fn secret() -> Image {
    Image {
        path: "/home/bob/secret".to_owned(),
        identity: "of bob".to_owned(),
        ..program()
    }
}

/// Two flushes with the same call stacks of two users: whole ones and cut ones, through two images,
/// and some of the kernel.
fn database(path: &Path) -> Result<(), Error> {
    let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
    for minute in 0..2 {
        let mut flush = writer.begin(minute * 60, (minute + 1) * 60)?;
        for (pid, uid, image) in [(42, 1000, program()), (43, 1001, secret())] {
            let of_kernel = flush.image(&kernel())?;
            let image = flush.image(&image)?;
            let library = flush.image(&library())?;
            let process = flush.process(&process(pid))?;
            let tag = flush.subject(&user(uid))?;
            let in_kernel = flush.subject(&Subject {
                kernel: true,
                ..user(uid)
            })?;
            flush.symbol(image, 0x100, 0x100, "main")?;
            let start = flush.pc(image, 0x10, None)?;
            let main = flush.pc(image, 0x110, None)?;
            let leaf = flush.pc(library, 0x2000 + u64::from(pid), Some(&[0x90]))?;
            let system = flush.pc(of_kernel, 0x500, None)?;
            let whole = [leaf, main, start];
            flush.stack(process, tag, &whole, StackEnd::Whole, 5, 5_000)?;
            flush.stack(process, tag, &[leaf, main], StackEnd::NoRules, 1, 1_000)?;
            flush.stack(process, tag, &[main, start], StackEnd::Whole, 2, 2_000)?;
            flush.stack(
                process,
                tag,
                &[leaf, system, start],
                StackEnd::Whole,
                1,
                1_000,
            )?;
            flush.stack(process, in_kernel, &[system], StackEnd::Kernel, 3, 3_000)?;
        }
        flush.count(Counter::Samples, 24)?;
        flush.commit()?;
    }
    writer.end_epoch(120)?;
    writer.close()
}

/// Each stack in words, the innermost frame first, with its samples and cycles.
fn stacks(profile: &Profile) -> BTreeMap<String, (u64, f64)> {
    let mut all = BTreeMap::new();
    for row in &profile.stacks {
        let mut text = format!("{}", profile.processes[row.process].pid);
        for frame in profile.frames(row) {
            let pc = &profile.pcs[frame.pc];
            let path = &profile.images[pc.image].path;
            let mark = if frame.is_call { "<" } else { " " };
            text += &format!("{mark}{path}:{:x}", pc.address);
        }
        text += &format!(" {}", row.end.name());
        assert!(all.insert(text, (row.samples, row.cycles)).is_none());
    }
    all
}

/// Those of the first user.
fn of_alice() -> BTreeMap<String, (u64, f64)> {
    let leaf = "42 /usr/lib/library.so:202a";
    let (main, start) = ("/usr/bin/program:110", "/usr/bin/program:10");
    BTreeMap::from([
        (format!("{leaf}<{main}<{start} whole"), (10, 25_000.0)),
        (format!("{leaf}<{main} no-rules"), (2, 5_000.0)),
        (format!("42 {main}<{start} whole"), (4, 10_000.0)),
    ])
}

/// Stacks come back with all their frames, one row for a path over all flushes; calls are told from
/// the instruction that was interrupted.
#[test]
fn round_trip() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("a.db");
    database(&path)?;
    let profile = load(&path)?;
    let all = stacks(&profile);
    assert_eq!(all.len(), 10, "{all:#?}");
    for (text, sums) in of_alice() {
        assert_eq!(all.get(&text), Some(&sums), "{text}");
    }
    assert_eq!(all["42 [kernel]:500 kernel"], (6, 15_000.0));
    // Each of the shared frames is one node.
    assert!(profile.stack_nodes.len() == 15, "{:?}", profile.stack_nodes);
    assert!(
        profile
            .stack_nodes
            .iter()
            .enumerate()
            .all(|(index, node)| { node.parent.is_none_or(|parent| parent < index) })
    );
    let kinds = Kinds {
        stacks: false,
        ..Kinds::default()
    };
    let (without, _) = Profile::load_kinds(&[path], &Filter::default(), kinds)?;
    assert!(without.stacks.is_empty() && without.stack_nodes.is_empty());
    Ok(())
}

/// Who asks for places gets the stacks that go through them, whole; who asks for a process gets
/// those of that.
#[test]
fn asked() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("a.db");
    database(&path)?;
    let mut places = Places::default();
    places.add(&program(), 0x100, 0x200);
    let filter = Filter {
        places: Some(places),
        ..Filter::default()
    };
    let profile = Profile::load(std::slice::from_ref(&path), &filter)?;
    assert_eq!(stacks(&profile), of_alice());
    let filter = Filter {
        pids: vec![43],
        since: Some(60),
        ..Filter::default()
    };
    let profile = Profile::load(&[path], &filter)?;
    assert_eq!(stacks(&profile).len(), 5);
    assert!(stacks(&profile).keys().all(|text| text.starts_with("43 ")));
    assert_eq!(
        profile.stacks.iter().map(|row| row.samples).sum::<u64>(),
        12
    );
    Ok(())
}

/// Who asks only where rows are gets the places of all frames, and no stack.
#[test]
fn only_places() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("a.db");
    database(&path)?;
    for pids in [vec![], vec![43]] {
        let (whole, mut bare) = whole_and_bare(&path, pids)?;
        assert!(bare.stacks.is_empty() && bare.stack_nodes.is_empty() && bare.pcs.is_empty());
        bare.recall_all();
        assert_eq!(instructions(&bare), instructions(&whole));
        assert!(!instructions(&bare).is_empty());
    }
    Ok(())
}

/// A reader gets their own stacks, cut where a frame is the kernel's: nothing in the file is of
/// anybody else. The privileged get all.
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
    let sources = [source.clone()];
    let view = |viewer, selection: &Selection| -> Result<Profile, Box<dyn std::error::Error>> {
        fs::write(&target, [])?;
        write_view(&sources, &target, viewer, selection, &limits)?;
        Ok(load(&target)?)
    };
    let all = Selection::default();
    let seen = stacks(&view(Viewer::User(1000), &all)?);
    let mut expected = of_alice();
    let cut = "42 /usr/lib/library.so:202a hidden";
    expected.insert(cut.to_owned(), (2, 5_000.0));
    assert_eq!(seen, expected);
    let bytes = fs::read(&target)?;
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    };
    assert!(has("/usr/bin/program") && !has("secret") && !has("[kernel]"));
    assert!(view(Viewer::User(1002), &all)?.stacks.is_empty());
    let root = view(Viewer::Privileged, &all)?;
    assert_eq!(stacks(&root), stacks(&load(&source)?));
    let without = Selection {
        kinds: Kinds {
            stacks: false,
            ..Kinds::default()
        },
        ..Selection::default()
    };
    assert!(view(Viewer::Privileged, &without)?.stacks.is_empty());
    Ok(())
}

/// A database written anew has the same stacks, packed or not.
#[test]
fn conversion() -> Outcome {
    let dir = tempdir()?;
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    database(&path("a.db"))?;
    convert(&path("a.db"), &path("b.db"))?;
    unpack(&path("a.db"), &path("c.db"))?;
    let expected = stacks(&load(&path("a.db"))?);
    assert_eq!(stacks(&load(&path("b.db"))?), expected);
    assert_eq!(stacks(&load(&path("c.db"))?), expected);
    Ok(())
}

/// Stacks of no frames and of too many are refused, and take nothing else with them; a stack whose
/// innermost frame is in another image than its chunk is damage.
#[test]
fn refused() -> Outcome {
    let dir = tempdir()?;
    let path = dir.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    let (image, other) = (flush.image(&program())?, flush.image(&library())?);
    let (process, tag) = (flush.process(&process(42))?, flush.subject(&user(1000))?);
    let (pc, elsewhere) = (flush.pc(image, 0x10, None)?, flush.pc(other, 0x10, None)?);
    for frames in [vec![], vec![pc; 129]] {
        let stack = flush.stack(process, tag, &frames, StackEnd::Whole, 1, 1);
        assert!(matches!(stack, Err(Error::Invalid { .. })));
    }
    flush.stack(process, tag, &vec![pc; 128], StackEnd::Depth, 1, 1)?;
    flush.stack(process, tag, &[elsewhere], StackEnd::Depth, 1, 1)?;
    flush.commit()?;
    writer.close()?;
    let profile = load(&path)?;
    assert_eq!(profile.stacks.len(), 2);
    assert_eq!(profile.frames(&profile.stacks[0]).count(), 128);
    Connection::open(&path)?.execute("UPDATE chunk SET image = 3 - image", [])?;
    assert!(matches!(load(&path), Err(Error::Corrupt { .. })));
    Ok(())
}
