//! A small database that the tests of this crate share.

use std::path::{Path, PathBuf};

use counters::Counter;
use hotlist::Hotlist;
use profiledb::{
    Epoch, EpochSettings, Error, Filter, Flush, Image, ImageKind, Process, Profile, Subject, Writer,
};
use rusqlite::Connection;

/// An epoch of a nanosecond clock on a machine of 2.5 GHz.
pub(crate) fn epoch(command: &str) -> Epoch {
    Epoch {
        started: 1_000,
        ended: None,
        host: "host".to_owned(),
        kernel: "6.1.0".to_owned(),
        command: command.to_owned(),
        engine: "ring".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 2.5,
        period: 1_000_000,
        window: 16,
        settings: EpochSettings::default(),
    }
}

/// A file with a build id.
pub(crate) fn program() -> Image {
    Image {
        kind: ImageKind::File,
        path: "/usr/bin/program".to_owned(),
        build_id: Some("ab12cd34".to_owned()),
        identity: "ab12cd34".to_owned(),
    }
}

/// A file without a build id.
pub(crate) fn library() -> Image {
    Image {
        kind: ImageKind::File,
        path: "/usr/lib/library.so".to_owned(),
        build_id: None,
        identity: "8:1:77".to_owned(),
    }
}

/// User code of one uid.
pub(crate) fn user(uid: u32) -> Subject {
    Subject {
        uid: Some(uid),
        gid: Some(uid),
        euid: Some(uid),
        egid: Some(uid),
        suid: Some(uid),
        dumpable: Some(true),
        capable: Some(false),
        kernel: false,
    }
}

/// The first program of a process.
pub(crate) fn process(pid: u32) -> Process {
    Process {
        pid,
        started: 5_000,
        execs: 0,
        comm: format!("program {pid}"),
    }
}

/// Interrupts at two PCs of the program, called from the library; a branch, calls, names
/// and counters with them.
pub(crate) fn fill(flush: &mut Flush<'_>, pid: u32, uid: u32) -> Result<(), Error> {
    let program = flush.image(&program())?;
    let library = flush.image(&library())?;
    let process = flush.process(&process(pid))?;
    let subject = flush.subject(&user(uid))?;
    let hot = flush.pc(program, 0x1193, Some(&[0x48, 0x8b, 0x47, 0x08]))?;
    let warm = flush.pc(program, 0x1197, None)?;
    let site = flush.pc(library, 0x2000, None)?;
    flush.cycles(process, subject, hot, Some(site), 30, 30_000)?;
    flush.cycles(process, subject, warm, None, 10, 10_000)?;
    flush.branch(process, subject, warm, [9, 1, 2])?;
    flush.call(process, subject, site, Some(hot), 7)?;
    flush.call(process, subject, site, None, 1)?;
    flush.symbol(library, 0x2000, 64, "caller")?;
    flush.count(Counter::Samples, 40)?;
    flush.counter("lost", "ring", 0)
}

/// A database of one epoch with `flushes` flushes of a minute each, closed.
pub(crate) fn database(path: &Path, flushes: i64) -> Result<(), Error> {
    let mut writer = Writer::create_epoch(path, &epoch("demo"))?;
    for number in 0..flushes {
        let mut flush = writer.begin(number * 60, (number + 1) * 60)?;
        fill(&mut flush, 42, 1000)?;
        flush.commit()?;
    }
    writer.end_epoch(flushes * 60)?;
    writer.close()
}

/// Everything in one file.
pub(crate) fn load(path: &Path) -> Result<Profile, Error> {
    Profile::load(&[PathBuf::from(path)], &Filter::default())
}

/// What there is of processes in one file, and the same with nothing but where rows are.
pub(crate) fn whole_and_bare(path: &Path, pids: Vec<u32>) -> Result<(Profile, Profile), Error> {
    let path = [PathBuf::from(path)];
    let filter = Filter {
        pids,
        ..Filter::default()
    };
    let whole = Profile::load(&path, &filter)?;
    let filter = Filter {
        only_places: true,
        ..filter
    };
    Ok((whole, Profile::load(&path, &filter)?))
}

/// Where the instructions of a profile are, in its order.
pub(crate) fn instructions(profile: &Profile) -> Vec<(Image, u64)> {
    let pcs = profile.pcs.iter();
    pcs.map(|pc| (profile.images[pc.image].clone(), pc.address))
        .collect()
}

/// Adds rows as older programs wrote them, with what they refer to: those of [`fill`], and a list.
pub(crate) fn add_old_rows(
    path: &Path,
    list: &Hotlist<u64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let conn = Connection::open(path)?;
    conn.execute_batch(
        "INSERT INTO pc VALUES (1, 1, 0x1193, x'488b4708'), (2, 1, 0x1197, NULL),
                               (3, 2, 0x2000, NULL);
         INSERT INTO cycles VALUES (1, 1, 1, 1, 3, 30, 30000), (1, 1, 1, 2, NULL, 10, 10000);
         INSERT INTO branch VALUES (1, 1, 1, 2, 9, 1, 2, 9, 1, 2, NULL);
         INSERT INTO call VALUES (1, 1, 1, 3, 1, 7, 7, NULL), (1, 1, 1, 3, NULL, 1, 1, NULL);",
    )?;
    let parts = list.to_parts();
    conn.execute(
        "INSERT INTO hotlist VALUES (1, 1, 1, 1, 1, NULL, 'rax', ?1, 10, ?2, ?3, 0, ?4, ?5, ?6,
                                     NULL, NULL, NULL)",
        (
            parts.events as i64 + 10,
            parts.events as i64 - 100,
            parts.config.capacity() as i64,
            parts.p,
            parts.concise,
            parts.sat_count,
        ),
    )?;
    for (rank, tuple) in parts.tuples.iter().enumerate() {
        conn.execute(
            "INSERT INTO tuple VALUES (1, ?1, ?2, ?3, ?4, ?5, NULL, NULL, NULL)",
            [
                rank as u64,
                tuple.value,
                tuple.counted,
                tuple.certain,
                tuple.first,
            ]
            .map(|word| word.cast_signed()),
        )?;
    }
    Ok(())
}
