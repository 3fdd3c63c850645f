//! Rows at some places alone, and what a collector has not saved yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::view::{Limits, Viewer, write_view_with};
use profiledb::{Apart, Error, Filter, Image, NewHotlist, Places, Profile, Writer};
use selection::Selection;
use tempfile::tempdir;

use crate::common::{
    epoch, fill, instructions, library, load, process, program, user, whole_and_bare,
};

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
        flush.hotlist(NewHotlist {
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

/// Who asks only where rows are gets all places that whole rows name, of the processes asked for,
/// and none of the rows.
#[test]
fn only_places() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    for minute in 0..3 {
        flush(&mut writer, minute * 60, 1000)?;
    }
    writer.close()?;
    for pids in [vec![], vec![42], vec![1]] {
        let (whole, mut bare) = whole_and_bare(&path, pids)?;
        assert!(bare.pcs.is_empty() && bare.cycles.is_empty() && bare.hotlists.is_empty());
        assert!(bare.branches.is_empty() && bare.calls.is_empty());
        assert_eq!(bare.totals, whole.totals);
        bare.recall_all();
        assert_eq!(instructions(&bare), instructions(&whole));
    }
    Ok(())
}

/// Address, call site and parameter of a list.
type ListKey = (usize, Option<usize>, String);

/// What need not be told apart becomes one row, and adds up to the same; also over files that are
/// read side by side.
#[test]
fn apart() -> Outcome {
    let folder = tempdir()?;
    let paths = ["a.db", "b.db"].map(|name| folder.path().join(name));
    for path in &paths {
        let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
        for minute in 0..3 {
            flush(&mut writer, minute * 60, 1000)?;
        }
        writer.close()?;
    }
    let all = Profile::load(&paths, &Filter::default())?;
    let samples = |profile: &Profile| {
        let mut sums: BTreeMap<(usize, Option<u64>), u64> = BTreeMap::new();
        for row in &profile.cycles {
            let pc = &profile.pcs[row.pc];
            *sums.entry((pc.image, Some(pc.address))).or_default() += row.samples;
            *sums.entry((pc.image, None)).or_default() += row.samples;
        }
        sums
    };
    let lists = |profile: &Profile| {
        let mut sums: BTreeMap<ListKey, (f64, f64, u64)> = BTreeMap::new();
        for row in &profile.hotlists {
            let address = usize::try_from(profile.pcs[row.pc].address).unwrap_or(0);
            let key = (address, row.caller, row.parameter.to_string());
            let sum = sums.entry(key).or_default();
            let told: f64 = row.list.tuples().map(|tuple| tuple.estimate).sum();
            *sum = (sum.0 + row.reached, sum.1 + told, sum.2 + row.windows);
        }
        sums
    };
    let transfers = |profile: &Profile| {
        let taken: u64 = profile.branches.iter().map(|row| row.taken).sum();
        let weight: f64 = profile.branches.iter().map(|row| row.weights[1]).sum();
        let calls: u64 = profile.calls.iter().map(|row| row.calls).sum();
        (taken, weight, calls)
    };
    for apart in [
        Apart::Programs,
        Apart::Calls,
        Apart::Pcs,
        Apart::Instructions,
        Apart::Images,
    ] {
        let filter = Filter {
            apart,
            added_up: true,
            ..Filter::default()
        };
        let part = Profile::load(&paths, &filter)?;
        assert_eq!(part.totals, all.totals, "{apart:?}");
        let places: BTreeSet<_> = part.cycles.iter().map(|row| row.pc).collect();
        match apart {
            Apart::Images => {
                let of_image = |sums: BTreeMap<(usize, Option<u64>), u64>| {
                    let sums = sums
                        .into_iter()
                        .filter(|((_, address), _)| address.is_none());
                    sums.collect::<Vec<_>>()
                };
                assert_eq!(of_image(samples(&part)), of_image(samples(&all)));
            }
            _ => assert_eq!(samples(&part), samples(&all), "{apart:?}"),
        }
        if matches!(apart, Apart::Pcs | Apart::Instructions) {
            assert_eq!(places.len(), part.cycles.len());
            assert!(part.cycles.iter().all(|row| row.caller.is_none()));
        }
        let (one, many) = (lists(&part), lists(&all));
        assert_eq!(one.len(), part.hotlists.len());
        assert!(part.hotlists.len() < all.hotlists.len());
        let has_code = matches!(apart, Apart::Programs | Apart::Calls | Apart::Pcs);
        if matches!(apart, Apart::Programs | Apart::Calls) {
            assert_eq!(one, many);
        }
        let coded = |profile: &Profile| profile.pcs.iter().any(|pc| pc.bytes.is_some());
        assert_eq!(coded(&part), has_code);
        assert_eq!(transfers(&part), transfers(&all), "{apart:?}");
        // One of each, with its entry and without.
        assert_eq!((part.branches.len(), part.calls.len()), (1, 2), "{apart:?}");
    }
    Ok(())
}

/// By program, processes of one name are one, and others stay apart; call sites are told.
#[test]
fn programs() -> Outcome {
    let folder = tempdir()?;
    let paths = ["a.db", "b.db"].map(|name| folder.path().join(name));
    for path in &paths {
        let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
        let mut flush = writer.begin(0, 60)?;
        let image = flush.image(&program())?;
        let subject = flush.subject(&user(1000))?;
        let (pc, caller) = (
            flush.pc(image, 0x1193, None)?,
            flush.pc(image, 0x2000, None)?,
        );
        for (pid, name) in [(1, "sh"), (2, "cc1"), (3, "sh")] {
            let process = flush.process(&profiledb::Process {
                comm: name.to_owned(),
                ..process(pid)
            })?;
            flush.cycles(process, subject, pc, Some(caller), 3, 300)?;
            flush.cycles(process, subject, pc, None, 1, 100)?;
        }
        flush.commit()?;
        writer.close()?;
    }
    let filter = Filter {
        apart: Apart::Programs,
        ..Filter::default()
    };
    let profile = Profile::load(&paths, &filter)?;
    let mut rows: Vec<(&str, bool, u64)> = profile
        .cycles
        .iter()
        .map(|row| {
            let name = profile.processes[row.process].comm.as_str();
            (name, row.caller.is_some(), row.samples)
        })
        .collect();
    rows.sort_unstable();
    let expected = [
        ("cc1", false, 2),
        ("cc1", true, 6),
        ("sh", false, 4),
        ("sh", true, 12),
    ];
    assert_eq!(rows, expected);
    Ok(())
}

/// Where details are asked for at some instructions, call sites of interrupts are told there alone;
/// nothing else changes in what they add up to.
#[test]
fn call_sites_where_details_are() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    let image = flush.image(&program())?;
    let (process, subject) = (flush.process(&process(42))?, flush.subject(&user(1000))?);
    let caller = flush.pc(image, 0x2000, None)?;
    for address in [0x1193, 0x1197, 0x119b] {
        let pc = flush.pc(image, address, None)?;
        flush.cycles(process, subject, pc, Some(caller), 3, 300)?;
    }
    flush.commit()?;
    writer.close()?;
    let read = |details: Option<Places>, apart: Apart| {
        let filter = Filter {
            apart,
            details,
            ..Filter::default()
        };
        Profile::load(std::slice::from_ref(&path), &filter)
    };
    let all = read(None, Apart::Calls)?;
    let called = |profile: &Profile| {
        let rows = profile.cycles.iter().filter(|row| row.caller.is_some());
        let places = rows.map(|row| profile.pcs[row.pc].address);
        places.collect::<BTreeSet<u64>>()
    };
    let samples = |profile: &Profile| {
        let rows = profile.cycles.iter();
        rows.map(|row| row.samples).sum::<u64>()
    };
    assert_eq!(called(&all), BTreeSet::from([0x1193, 0x1197, 0x119b]));
    let mut places = Places::default();
    places.add(&program(), 0x1197, 0x119b);
    let some = read(Some(places), Apart::Calls)?;
    assert_eq!(called(&some), BTreeSet::from([0x1197]));
    let nowhere = || Some(Places::default());
    assert_eq!(called(&read(nowhere(), Apart::Calls)?), BTreeSet::new());
    assert_eq!(called(&read(nowhere(), Apart::Rows)?), called(&all));
    assert_eq!(samples(&some), samples(&all));
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

/// Who asks for some parameters gets their lists, those of executions as well, and no other list is
/// kept: of those there is where they are. A file that its code alone tells is read whole.
#[test]
fn parameters() -> Outcome {
    let folder = tempdir()?;
    let path = folder.path().join("a.db");
    let mut writer = Writer::create_epoch(&path, &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    let (process, subject) = (flush.process(&process(42))?, flush.subject(&user(1000))?);
    let nameless = Image {
        build_id: None,
        identity: "8:1".to_owned(),
        ..program()
    };
    let lists = [
        (program(), 0x2000, "rax"),
        (program(), 0x1000, "arg0"),
        (program(), 0x1000, "rsp"),
        (program(), 0x1008, "x:arg1"),
        (program(), 0x1010, "x:rax"),
        (nameless.clone(), 0x3000, "rax"),
    ];
    for (image, address, parameter) in &lists {
        let image = flush.image(image)?;
        let pc = flush.pc(image, *address, None)?;
        let mut list = Hotlist::new(&Config::default());
        list.update(7, 1, &mut Generator::new(1));
        flush.hotlist(NewHotlist {
            process,
            subject,
            pc,
            caller: None,
            parameter,
            reached: 1.0,
            unknown: 0.0,
            windows: 1,
            even: None,
            list: Estimates::from(&list),
        })?;
    }
    flush.commit()?;
    writer.close()?;
    let filter = Filter {
        parameters: vec!["arg".to_owned()],
        ..Filter::default()
    };
    let mut profile = Profile::load(std::slice::from_ref(&path), &filter)?;
    let read: BTreeSet<(u64, &str)> = profile
        .hotlists
        .iter()
        .map(|row| (profile.pcs[row.pc].address, &*row.parameter))
        .collect();
    assert_eq!(
        read,
        BTreeSet::from([(0x1000, "arg0"), (0x1008, "x:arg1"), (0x3000, "rax")])
    );
    let of = |image: &Image| profile.images.iter().position(|other| other == image);
    let (known, other) = (of(&program()), of(&nameless));
    let (Some(known), Some(other)) = (known, other) else {
        return Err("an image is missing".into());
    };
    assert_eq!(profile.passed_over[known], [0x1010, 0x2000]);
    assert!(profile.passed_over[other].is_empty());
    // One of these is called for, and comes to its place among the others.
    profile.recall([(known, 0x1010), (known, 0x5000)]);
    assert_eq!(profile.passed_over[known], [0x2000]);
    let places: Vec<(usize, u64)> = profile
        .pcs
        .iter()
        .map(|pc| (pc.image, pc.address))
        .collect();
    assert_eq!(places.len(), 4);
    assert!(places.is_sorted() && places.contains(&(known, 0x1010)));
    let read = profile
        .hotlists
        .iter()
        .map(|row| profile.pcs[row.pc].address);
    assert_eq!(
        read.collect::<BTreeSet<u64>>(),
        BTreeSet::from([0x1000, 0x1008, 0x3000])
    );
    // Of some places all lists are asked for.
    let mut places = Places::default();
    places.add(&program(), 0x1010, 0x1011);
    let detailed = Filter {
        details: Some(places),
        ..filter.clone()
    };
    let profile = Profile::load(std::slice::from_ref(&path), &detailed)?;
    let read = profile.hotlists.iter();
    let read: BTreeSet<(u64, &str)> = read
        .map(|row| (profile.pcs[row.pc].address, &*row.parameter))
        .collect();
    let expected = [
        (0x1000, "arg0"),
        (0x1008, "x:arg1"),
        (0x1010, "x:rax"),
        (0x3000, "rax"),
    ];
    assert_eq!(read, BTreeSet::from(expected));
    assert_eq!(profile.passed_over[known], [0x2000]);
    // Or those of some parameters.
    let mut places = Places::default();
    places.add(&program(), 0x1000, 0x1011);
    let some = Filter {
        details: Some(places),
        detailed: vec!["rs".to_owned()],
        ..filter.clone()
    };
    let profile = Profile::load(std::slice::from_ref(&path), &some)?;
    let read = profile.hotlists.iter();
    let read: BTreeSet<(u64, &str)> = read
        .map(|row| (profile.pcs[row.pc].address, &*row.parameter))
        .collect();
    let expected = [
        (0x1000, "arg0"),
        (0x1000, "rsp"),
        (0x1008, "x:arg1"),
        (0x3000, "rax"),
    ];
    assert_eq!(read, BTreeSet::from(expected));
    // Another process' lists are nowhere.
    let filter = Filter {
        pids: vec![43],
        ..detailed
    };
    let none = Profile::load(&[path], &filter)?;
    assert!(none.hotlists.is_empty() && none.passed_over.iter().all(Vec::is_empty));
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
