//! Views: what each viewer is given, and that there is nothing else in the file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use counters::{Counter, Loss};
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::view::{Limits, ViewError, Viewer, write_view};
use profiledb::{
    EpochSettings, Error, Filter, Image, ImageKind, NewHotlist, Process, Profile, Subject, Writer,
};
use selection::{Kinds, Range, Selection};
use tempfile::tempdir;

use crate::common::{database, epoch, process, user};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Who the rows of [`populated`] belong to, with a word for each.
fn subjects() -> Vec<(&'static str, Subject)> {
    let own = |uid, change: fn(&mut Subject)| {
        let mut subject = user(uid);
        change(&mut subject);
        subject
    };
    vec![
        ("alice", user(1000)),
        ("bob", user(1001)),
        ("root", user(0)),
        ("setuid", own(1000, |s| s.euid = Some(0))),
        ("dropped", own(1000, |s| s.dumpable = Some(false))),
        ("saved", own(1000, |s| s.suid = Some(0))),
        ("capable", own(1000, |s| s.capable = Some(true))),
        ("kernel", own(1000, |s| s.kernel = true)),
        ("no_suid", own(1000, |s| s.suid = None)),
        ("no_dumpable", own(1000, |s| s.dumpable = None)),
        ("no_capable", own(1000, |s| s.capable = None)),
        ("unknown", Subject::default()),
    ]
}

fn image(kind: ImageKind, path: &str) -> Image {
    Image {
        kind,
        path: path.to_owned(),
        build_id: None,
        identity: format!("id of {path}"),
    }
}

/// A database in which each of [`subjects`] has a process, an image and rows of every kind,
/// all called after it, and rows that touch the kernel.
fn populated(path: &Path) -> Result<(), Error> {
    let mut writer = Writer::create_epoch(path, &epoch("secret command line"))?;
    for minute in 0..3 {
        let mut flush = writer.begin(minute * 60, (minute + 1) * 60)?;
        let kernel = flush.image(&image(ImageKind::Kernel, "[kernel]"))?;
        let in_kernel = flush.pc(kernel, 0x500, None)?;
        flush.symbol(kernel, 0x4f0, 0, "kernel_function")?;
        for (number, (name, subject)) in (0_u32..).zip(subjects()) {
            let process = flush.process(&Process {
                pid: 100 + number,
                started: 1,
                execs: 0,
                comm: format!("comm_{name}"),
            })?;
            let tag = flush.subject(&subject)?;
            let image = flush.image(&image(ImageKind::File, &format!("/bin/{name}")))?;
            flush.symbol(image, 0x1000, 0x100, &format!("hot_{name}"))?;
            flush.symbol(image, 0x9000, 0, &format!("cold_{name}"))?;
            let hot = flush.pc(image, 0x1010, Some(&[0x90]))?;
            let site = flush.pc(image, 0x1020, None)?;
            flush.cycles(process, tag, hot, Some(site), 10, 1000)?;
            flush.cycles(process, tag, hot, Some(in_kernel), 5, 500)?;
            flush.cycles(process, tag, in_kernel, Some(site), 3, 300)?;
            let mut list = Hotlist::new(&Config::default());
            let mut coins = Generator::new(1);
            for _ in 0..7 {
                list.update(0x5ec_0000 + u64::from(number), 1, &mut coins);
            }
            for at in [hot, in_kernel] {
                flush.hotlist(NewHotlist {
                    process,
                    subject: tag,
                    pc: at,
                    caller: Some(in_kernel),
                    parameter: "rax",
                    reached: 9.0,
                    unknown: 2.0,
                    windows: 7,
                    even: None,
                    list: Estimates::from(&list),
                })?;
            }
            flush.branch(process, tag, hot, [1, 2, 3])?;
            flush.branch(process, tag, in_kernel, [1, 2, 3])?;
            flush.call(process, tag, site, Some(hot), 4)?;
            flush.call(process, tag, site, Some(in_kernel), 4)?;
        }
        flush.count(Counter::Samples, 1_000_000)?;
        flush.count(Loss::RingRecords, 17)?;
        flush.commit()?;
    }
    writer.close()
}

fn limits() -> Limits {
    Limits {
        stop: Arc::new(AtomicBool::new(false)),
        bytes: 64 << 20,
        until: Instant::now() + Duration::from_secs(60),
    }
}

/// A view, the bytes of its file, and what was left out of it.
type Viewed = (Profile, Vec<u8>, Vec<Error>);

/// The view of some databases, as a profile and as the bytes of its file.
fn view_of(
    sources: &[PathBuf],
    viewer: Viewer,
    selection: &Selection,
) -> Result<Viewed, Box<dyn std::error::Error>> {
    let dir = tempdir()?;
    let target = dir.path().join("view");
    File::create(&target)?;
    let left_out = write_view(sources, &target, viewer, selection, &limits())?;
    let profile = Profile::load(std::slice::from_ref(&target), &Filter::default())?;
    Ok((profile, fs::read(&target)?, left_out))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
}

/// An ordinary user gets the rows that were theirs in every respect, without the kernel in
/// them; of everything else not even a name is in the file.
#[test]
fn ordinary_users_see_their_own() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    populated(&source)?;
    for (uid, name) in [(1000, "alice"), (1001, "bob")] {
        let (view, bytes, _) = view_of(
            std::slice::from_ref(&source),
            Viewer::User(uid),
            &Selection::default(),
        )?;
        assert_eq!(view.subjects, [user(uid)]);
        let paths: Vec<&str> = view.images.iter().map(|image| &*image.path).collect();
        assert_eq!(paths, [format!("/bin/{name}")]);
        assert_eq!(view.cycles.len(), 2 * 3);
        let with_callers = view.cycles.iter().filter(|row| row.caller.is_some());
        assert_eq!(with_callers.count(), 3);
        assert_eq!(view.hotlists.len(), 3);
        assert!(view.hotlists.iter().all(|row| row.caller.is_none()));
        assert_eq!(view.branches.len(), 3);
        let callees: Vec<bool> = view.calls.iter().map(|row| row.callee.is_some()).collect();
        assert_eq!(callees, [false, true, false, true, false, true]);
        let names: Vec<&str> = view.symbols.iter().map(|symbol| &*symbol.name).collect();
        assert_eq!(names, [format!("hot_{name}")]);
        let counters: Vec<_> = view.counters.into_iter().collect();
        assert_eq!(
            counters,
            [(("run".to_owned(), "samples".to_owned()), 3 * 15)]
        );
        for (other, _) in subjects() {
            let names = [
                format!("/bin/{other}"),
                format!("comm_{other}"),
                format!("hot_{other}"),
            ];
            for text in names {
                assert_eq!(contains(&bytes, &text), other == name, "{text} for {name}");
            }
        }
        for text in [
            "secret command",
            "kernel_function",
            "ring_records",
            "cold_",
            "[kernel]",
        ] {
            assert!(!contains(&bytes, text), "{text} for {name}");
        }
    }
    Ok(())
}

/// The values of others are not in the file in any form: of all hotlists' values only the
/// own one is.
#[test]
fn values_of_others_are_not_in_the_file() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    populated(&source)?;
    let (view, bytes, _) = view_of(&[source], Viewer::User(1001), &Selection::default())?;
    for (number, (name, _)) in (0_u32..).zip(subjects()) {
        let value = 0x5ec_0000 + number;
        // A blob this small is not compressed: seven bits a byte, the lowest first.
        let sevens = [0, 7, 14, 21].map(|shift| (value >> shift) as u8 & 0x7f);
        let packed = [
            sevens[0] | 0x80,
            sevens[1] | 0x80,
            sevens[2] | 0x80,
            sevens[3],
        ];
        for stored in [value.to_be_bytes(), value.to_le_bytes(), packed] {
            let found = bytes.windows(4).any(|window| window == stored);
            assert_eq!(found, name == "bob" && stored == packed, "{name}");
        }
    }
    let lists = view.hotlists.iter();
    let values: Vec<u64> = lists
        .flat_map(|row| row.list.tuples())
        .map(|tuple| tuple.value)
        .collect();
    let bobs = subjects().iter().position(|(name, _)| *name == "bob");
    let wanted = bobs.map(|number| 0x5ec_0000 + number as u64);
    assert!(!values.is_empty());
    assert!(values.iter().all(|value| Some(*value) == wanted));
    Ok(())
}

/// Who owns nothing gets the epochs, and neither rows nor anything they refer to.
#[test]
fn strangers_see_nothing() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    populated(&source)?;
    let (view, _, _) = view_of(&[source], Viewer::User(77), &Selection::default())?;
    assert_eq!(view.epochs.len(), 1);
    assert_eq!(
        (view.epochs[0].command.as_str(), &view.epochs[0].settings),
        ("", &epoch("").settings.withheld())
    );
    assert!(view.images.is_empty() && view.subjects.is_empty() && view.processes.is_empty());
    assert!(view.cycles.is_empty() && view.counters.is_empty() && view.symbols.is_empty());
    Ok(())
}

/// Of the settings of an epoch, everybody may know that it was cut short.
#[test]
fn cut_short_is_no_secret() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    let mut dead = epoch("secret command line");
    dead.settings.seed = Some(7);
    dead.settings.cut_short = true;
    Writer::create_epoch(&source, &dead)?.close()?;
    let (view, _, _) = view_of(&[source], Viewer::User(77), &Selection::default())?;
    let shown = EpochSettings {
        withheld: true,
        cut_short: true,
        ..EpochSettings::default()
    };
    assert_eq!(view.epochs[0].settings, shown);
    Ok(())
}

/// A profile's rows in words, so that ids do not matter.
fn words(profile: &Profile) -> BTreeSet<String> {
    let pc = |index: usize| {
        let pc = &profile.pcs[index];
        format!(
            "{}+{:x}{:?}",
            profile.images[pc.image].path, pc.address, pc.bytes
        )
    };
    let at = |process: usize, subject: usize, at: usize, other: Option<usize>| {
        format!(
            "{:?} {:?} {} {:?}",
            profile.processes[process],
            profile.subjects[subject],
            pc(at),
            other.map(pc)
        )
    };
    let cycles = profile.cycles.iter().map(|row| {
        let at = at(row.process, row.subject, row.pc, row.caller);
        format!("cycles {at} {} {}", row.samples, row.cycles)
    });
    let lists = profile.hotlists.iter().map(|row| {
        let at = at(row.process, row.subject, row.pc, row.caller);
        let counts = (row.reached, row.unknown, row.windows);
        format!("list {at} {} {counts:?} {:?}", row.parameter, row.list)
    });
    let branches = profile.branches.iter().map(|row| {
        let at = at(row.process, row.subject, row.pc, None);
        format!(
            "branch {at} {} {} {}",
            row.taken, row.not_taken, row.unknown
        )
    });
    let calls = profile.calls.iter().map(|row| {
        let at = at(row.process, row.subject, row.site, row.callee);
        format!("call {at} {}", row.calls)
    });
    cycles.chain(lists).chain(branches).chain(calls).collect()
}

/// The privileged get everything, over several databases, epochs and flushes.
#[test]
fn the_privileged_see_everything() -> Outcome {
    let dir = tempdir()?;
    let sources = ["a.db", "b.db"].map(|name| dir.path().join(name));
    populated(&sources[0])?;
    database(&sources[1], 2)?;
    let whole = Profile::load(&sources, &Filter::default())?;
    let (view, _, left_out) = view_of(&sources, Viewer::Privileged, &Selection::default())?;
    assert!(left_out.is_empty());
    assert_eq!(words(&view), words(&whole));
    assert_eq!(view.cycles.len(), whole.cycles.len());
    assert_eq!(view.epochs, whole.epochs);
    assert_eq!(view.counters, whole.counters);
    assert_eq!(view.processes.len(), whole.processes.len());
    Ok(())
}

/// A selection narrows a view as the same filter narrows the reading of a file, and by
/// addresses and tables besides.
#[test]
fn selections() -> Outcome {
    let dir = tempdir()?;
    let sources = [dir.path().join("a.db")];
    populated(&sources[0])?;
    let selections = [
        Selection {
            since: Some(60),
            ..Selection::default()
        },
        Selection {
            until: Some(60),
            ..Selection::default()
        },
        Selection {
            since: Some(500),
            ..Selection::default()
        },
        Selection {
            pids: vec![100, 103],
            ..Selection::default()
        },
        Selection {
            uids: vec![1001],
            ..Selection::default()
        },
        Selection {
            epochs: vec![1],
            ..Selection::default()
        },
        Selection {
            epochs: vec![2],
            ..Selection::default()
        },
        Selection {
            images: vec!["bob".to_owned()],
            ..Selection::default()
        },
    ];
    for selection in selections {
        let whole = Profile::load(&sources, &Filter::from(&selection))?;
        let (view, _, _) = view_of(&sources, Viewer::Privileged, &selection)?;
        assert_eq!(words(&view), words(&whole), "{selection:?}");
        assert_eq!(view.epochs, whole.epochs, "{selection:?}");
        assert_eq!(view.counters, whole.counters, "{selection:?}");
    }
    let range = |start, end| Range {
        image: "/bin/alice".to_owned(),
        start,
        end,
    };
    let at = |ranges: Vec<Range>| Selection {
        ranges,
        ..Selection::default()
    };
    let (view, _, _) = view_of(
        &sources,
        Viewer::Privileged,
        &at(vec![range(0x1011, 0x1021)]),
    )?;
    // Cycles are there of all places, those elsewhere in one row of an image, tag and flush; calls
    // by their sites and by what they call.
    let samples = |of: &Profile| of.cycles.iter().map(|row| row.samples).sum::<u64>();
    let cycles = |of: &Profile| of.cycles.iter().map(|row| row.cycles).sum::<f64>();
    let whole = whole_of(&sources)?;
    assert_eq!((samples(&view), view.calls.len()), (samples(&whole), 6));
    assert!((cycles(&view) - cycles(&whole)).abs() < 1e-6 * cycles(&whole));
    assert!(view.hotlists.is_empty() && view.branches.is_empty());
    let (view, _, _) = view_of(&sources, Viewer::User(1000), &at(vec![range(0, 0x1011)]))?;
    assert_eq!((view.cycles.len(), view.calls.len()), (6, 3));
    assert_eq!((view.hotlists.len(), view.branches.len()), (3, 3));
    let (view, _, _) = view_of(&sources, Viewer::User(1000), &at(vec![range(0, 0x1010)]))?;
    assert_eq!((view.hotlists.len(), view.calls.len()), (0, 0));
    let none = Kinds {
        cycles: false,
        values: false,
        branches: false,
        calls: false,
        stacks: false,
        counters: false,
    };
    let only_calls = Selection {
        kinds: Kinds {
            calls: true,
            ..none
        },
        ..Selection::default()
    };
    let (view, _, _) = view_of(&sources, Viewer::User(1000), &only_calls)?;
    assert_eq!(
        (view.cycles.len(), view.hotlists.len(), view.calls.len()),
        (0, 0, 6)
    );
    assert!(view.counters.is_empty());
    Ok(())
}

fn whole_of(sources: &[PathBuf]) -> Result<Profile, Error> {
    Profile::load(sources, &Filter::default())
}

/// The privileged can have all images and names without a row; others get nothing of these.
#[test]
fn outline() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    populated(&source)?;
    let none = Kinds {
        cycles: false,
        values: false,
        branches: false,
        calls: false,
        stacks: false,
        counters: false,
    };
    let selection = Selection {
        kinds: none,
        ..Selection::default()
    };
    for (viewer, images) in [(Viewer::Privileged, 13), (Viewer::User(1000), 0)] {
        let (view, _, _) = view_of(std::slice::from_ref(&source), viewer, &selection)?;
        assert!(view.cycles.is_empty() && view.hotlists.is_empty());
        let target = dir.path().join("view");
        File::create(&target)?;
        write_view(
            std::slice::from_ref(&source),
            &target,
            viewer,
            &selection,
            &limits(),
        )?;
        let outline = Profile::outline(&[target])?;
        assert_eq!(outline.images.len(), images, "{viewer:?}");
        assert_eq!(outline.symbols.is_empty(), images == 0);
    }
    Ok(())
}

/// A view is no database in WAL mode, and nothing lies beside it or in its free pages.
#[test]
fn the_file_is_plain() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    populated(&source)?;
    let inside = tempdir()?;
    let target = inside.path().join("view");
    File::create(&target)?;
    write_view(
        &[source],
        &target,
        Viewer::User(1000),
        &Selection::default(),
        &limits(),
    )?;
    assert_eq!(fs::read_dir(inside.path())?.count(), 1);
    let conn = rusqlite::Connection::open(&target)?;
    let text = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, String>(0));
    assert_eq!(text("journal_mode")?, "delete");
    assert_eq!(text("integrity_check")?, "ok");
    let free: i64 = conn.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    // Those of the two indices, which were never filled.
    assert!(free <= 2, "{free} free pages");
    Ok(())
}

/// A database that is damaged in the middle, one of another schema and one that vanished
/// leave the others as they are; the first two are named to the privileged. Others learn why they
/// lack something, and not what is in a folder that is not theirs.
#[test]
fn bad_databases_are_left_out() -> Outcome {
    let dir = tempdir()?;
    let names = ["a.db", "b.db", "c.db", "gone.db", "d.db"];
    let sources = names.map(|name| dir.path().join(name));
    populated(&sources[0])?;
    populated(&sources[1])?;
    database(&sources[2], 1)?;
    database(&sources[4], 1)?;
    // Cycles come before calls: part of this one is in the view when its end is reached.
    let conn = rusqlite::Connection::open(&sources[1])?;
    conn.pragma_update(None, "foreign_keys", false)?;
    let damaged = conn.execute(
        "UPDATE chunk SET data = zeroblob(40) WHERE id = (SELECT max(id) FROM chunk WHERE kind = 5)",
        [],
    )?;
    assert_eq!(damaged, 1);
    drop(conn);
    rusqlite::Connection::open(&sources[2])?.pragma_update(None, "user_version", 99)?;
    let (view, _, left_out) = view_of(&sources, Viewer::Privileged, &Selection::default())?;
    let good = [sources[0].clone(), sources[4].clone()];
    assert_eq!(
        words(&view),
        words(&Profile::load(&good, &Filter::default())?)
    );
    let left_out: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 2, "{left_out:?}");
    assert!(
        left_out
            .iter()
            .any(|text| text.contains("b.db: is damaged"))
    );
    assert!(
        left_out
            .iter()
            .any(|text| text.contains("c.db: has schema version 99"))
    );
    let (.., left_out) = view_of(&sources, Viewer::User(1000), &Selection::default())?;
    assert!(!left_out.is_empty());
    for error in &left_out {
        let text = error.to_string();
        assert!(text.starts_with("a database of the service: "), "{text}");
        assert!(!format!("{error:?}").contains(".db"), "{error:?}");
    }
    Ok(())
}

/// Size and time are limits.
#[test]
fn limits_hold() -> Outcome {
    let dir = tempdir()?;
    let source = [dir.path().join("a.db")];
    let mut writer = Writer::create_epoch(&source[0], &epoch("demo"))?;
    let mut flush = writer.begin(0, 60)?;
    let image = flush.image(&image(ImageKind::File, "/bin/alice"))?;
    let process = flush.process(&process(1))?;
    let subject = flush.subject(&user(1000))?;
    for number in 0..100_000_u64 {
        // Nothing to be packed tightly.
        let address = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30;
        let pc = flush.pc(image, address, None)?;
        flush.cycles(process, subject, pc, None, 1, address)?;
    }
    flush.commit()?;
    writer.close()?;
    let target = dir.path().join("view");
    File::create(&target)?;
    let write = |limits: Limits| {
        let viewer = Viewer::User(1000);
        write_view(&source, &target, viewer, &Selection::default(), &limits)
    };
    let small = write(Limits {
        bytes: 200 << 10,
        ..limits()
    });
    assert!(
        matches!(small, Err(ViewError::TooLarge { .. })),
        "{small:?}"
    );
    assert!(fs::metadata(&target)?.len() <= 300 << 10);
    let late = write(Limits {
        until: Instant::now(),
        ..limits()
    });
    assert!(matches!(late, Err(ViewError::TooSlow)), "{late:?}");
    write(limits())?;
    Ok(())
}

/// What stands in names is only ever a value: SQL in them does nothing, here or there.
#[test]
fn sql_in_names() -> Outcome {
    let dir = tempdir()?;
    let source = dir.path().join("a.db");
    let evil = "'); DROP TABLE cycles; ATTACH '/etc/passwd' AS x; --";
    let mut writer = Writer::create_epoch(&source, &epoch(evil))?;
    let mut flush = writer.begin(0, 1)?;
    let image = flush.image(&image(ImageKind::File, evil))?;
    let process = flush.process(&Process {
        pid: 1,
        started: 1,
        execs: 0,
        comm: evil.to_owned(),
    })?;
    let subject = flush.subject(&user(1000))?;
    let pc = flush.pc(image, 1, None)?;
    flush.symbol(image, 0, 0, evil)?;
    flush.cycles(process, subject, pc, None, 1, 1)?;
    flush.commit()?;
    writer.close()?;
    let selection = Selection {
        images: vec![evil.to_owned()],
        ..Selection::default()
    };
    let (view, _, _) = view_of(&[source], Viewer::User(1000), &selection)?;
    assert_eq!(
        (
            view.images[0].path.as_str(),
            view.processes[0].comm.as_str()
        ),
        (evil, evil)
    );
    assert_eq!(
        (view.symbols[0].name.as_str(), view.cycles.len()),
        (evil, 1)
    );
    Ok(())
}
