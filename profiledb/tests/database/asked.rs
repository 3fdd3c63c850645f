//! Rows at some places alone, and what a collector has not saved yet.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::view::{Limits, Selection, Viewer, write_view_with};
use profiledb::{Error, Filter, NewHotlist, Places, Profile, Writer};
use tempfile::tempdir;

use crate::common::{epoch, fill, library, load, process, program, user};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// One flush with a list of values at each of two PCs, called from the library.
fn flush(writer: &mut Writer, started: i64, uid: u32) -> Result<(), Error> {
    let mut flush = writer.begin(started, started + 60)?;
    fill(&mut flush, 42, uid)?;
    let (image, caller) = (flush.image(&program())?, flush.image(&library())?);
    let (process, subject) = (flush.process(&process(42))?, flush.subject(&user(uid))?);
    let caller = flush.pc(caller, 0x2000, None)?;
    for address in [0x1193, 0x1197] {
        let mut list = Hotlist::new(&Config::default());
        let mut coins = Generator::new(1);
        list.update(address, 1, &mut coins);
        let pc = flush.pc(image, address, None)?;
        flush.hotlist(&NewHotlist {
            process,
            subject,
            pc,
            caller: Some(caller),
            parameter: "rax",
            reached: 1.0,
            unknown: 0.0,
            windows: 1,
            even: None,
            list: Estimates::from(&list),
        })?;
    }
    flush.commit()
}

/// What a profile holds of one PC of the program: interrupts, values, branches and calls by
/// address.
fn at(profile: &Profile, address: u64) -> (u64, Vec<f64>, u64, u64) {
    let is_it = |pc: usize| profile.pcs[pc].address == address;
    let cycles = profile.cycles.iter().filter(|row| is_it(row.pc));
    let lists = profile.hotlists.iter().filter(|row| is_it(row.pc));
    let branches = profile.branches.iter().filter(|row| is_it(row.pc));
    let calls = profile.calls.iter();
    (
        cycles.map(|row| row.samples).sum(),
        lists.map(|row| row.reached).collect(),
        branches.map(|row| row.taken).sum(),
        calls
            .filter(|row| row.callee.is_some_and(is_it))
            .map(|row| row.calls)
            .sum(),
    )
}

/// Who asks for one function gets all rows at it, and calls of it from elsewhere. Of the rest there
/// is what it adds up to, and all images.
#[test]
fn places() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    for minute in 0..3 {
        flush(&mut writer, minute * 60, 1000)?;
    }
    writer.close()?;
    let all = load(&path)?;
    for (image, address) in [
        (program(), 0x1193),
        (program(), 0x1197),
        (library(), 0x2000),
    ] {
        let mut places = Places::default();
        places.add(&image, address, address + 1);
        let filter = Filter {
            places: Some(places.clone()),
            ..Filter::default()
        };
        let part = Profile::load(std::slice::from_ref(&path), &filter)?;
        assert_eq!(at(&part, address), at(&all, address), "{address:#x}");
        assert_eq!(part.totals, all.totals);
        assert_eq!(part.images, all.images);
        let other = part.pcs.iter().filter(|pc| pc.address == 0x1197);
        assert!(address == 0x1197 || other.count() == 0);
        let is_there =
            |pc: usize| places.has(&part.images[part.pcs[pc].image], part.pcs[pc].address);
        assert!(part.cycles.iter().all(|row| is_there(row.pc)));
        assert!(part.hotlists.iter().all(|row| is_there(row.pc)));
        let callee = |row: &profiledb::CallRow| row.callee.is_some_and(is_there);
        assert!(
            part.calls
                .iter()
                .all(|row| is_there(row.site) || callee(row))
        );
        // Instructions come in the order that they have in all rows.
        let order: BTreeMap<(usize, u64), usize> = (0..)
            .zip(&all.pcs)
            .map(|(index, pc)| ((pc.image, pc.address), index))
            .collect();
        let found: Vec<usize> = part
            .pcs
            .iter()
            .map(|pc| order[&(pc.image, pc.address)])
            .collect();
        assert!(found.is_sorted(), "{found:?}");
    }
    Ok(())
}

/// Images and names can be had without rows.
#[test]
fn outline() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    crate::common::database(&path, 2)?;
    let outline = Profile::outline(&[path])?;
    assert_eq!(outline.images.len(), 2);
    let names: Vec<&str> = outline
        .symbols
        .iter()
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!(names, ["caller"]);
    let image = outline.symbols.first().map(|row| row.image);
    assert_eq!(image.map(|index| &outline.images[index]), Some(&library()));
    Ok(())
}

/// What the collector has not saved yet is in a view as part of the running epoch, as far as its
/// reader may see it; and once, if it was saved meanwhile.
#[test]
fn newest() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("serve"))?;
    flush(&mut writer, 0, 1000)?;
    let mut newest = Writer::in_memory(&epoch("serve"), 1 << 20)?;
    flush(&mut newest, 60, 1000)?;
    flush(&mut newest, 120, 1001)?;
    let limits = Limits {
        stop: Arc::new(AtomicBool::new(false)),
        bytes: 64 << 20,
        until: Instant::now() + Duration::from_secs(60),
    };
    let view = |viewer, newest| -> Result<Profile, Box<dyn std::error::Error>> {
        let target = folder.path().join("view");
        std::fs::write(&target, [])?;
        let sources: [PathBuf; 1] = [path.clone()];
        let selection = Selection::default();
        let left_out = write_view_with(&sources, newest, &target, viewer, &selection, &limits)?;
        assert!(left_out.is_empty());
        let profile = load(&target)?;
        assert_eq!(profile.epochs.len(), 1);
        Ok(profile)
    };
    let samples = |profile: &Profile| profile.cycles.iter().map(|row| row.samples).sum::<u64>();
    for (viewer, saved, all) in [
        (Viewer::Privileged, 40, 120),
        (Viewer::User(1000), 40, 80),
        (Viewer::User(1001), 0, 40),
        (Viewer::User(1002), 0, 0),
    ] {
        assert_eq!(samples(&view(viewer, None)?), saved, "{viewer:?}");
        let profile = view(viewer, Some(&newest))?;
        assert_eq!(samples(&profile), all, "{viewer:?}");
        assert_eq!(profile.hotlists.len() as u64, all / 20);
        let last = profile.extents.first().and_then(|extent| extent.saved);
        let ended = match viewer {
            Viewer::User(1000) => Some(120),
            Viewer::User(1002) => None,
            _ => Some(180),
        };
        assert_eq!(last, ended);
    }
    flush(&mut writer, 60, 1000)?;
    let profile = view(Viewer::Privileged, Some(&newest))?;
    assert_eq!(samples(&profile), 120);
    flush(&mut writer, 120, 1001)?;
    assert_eq!(samples(&view(Viewer::User(1001), Some(&newest))?), 40);
    // What another epoch has not saved is not the running one's.
    let mut other = epoch("serve");
    other.started += 1;
    let mut other = Writer::in_memory(&other, 1 << 20)?;
    flush(&mut other, 180, 1000)?;
    assert_eq!(samples(&view(Viewer::Privileged, Some(&other))?), 120);
    // Without room there is none.
    let mut small = Writer::in_memory(&epoch("serve"), 4096)?;
    assert!((0..1000).any(|minute| flush(&mut small, minute * 60, 1000).is_err()));
    Ok(())
}
