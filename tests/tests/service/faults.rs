//! What goes wrong with the disk while the service runs.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, Burner, SmallDisk, ensure_whole, query};

pub(crate) const FULL_DISK: Test = test(
    "a full disk is said once, and nothing is lost when it has room again",
    full_disk,
    &[as_root],
);
/// A full disk keeps nothing from being collected; what could not be written is written when there
/// is room again.
fn full_disk() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let disk = SmallDisk::mount(&bench.directory())?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(1)?;
    disk.fill()?;
    service.await_line("no space left on the device")?;
    service.await_flushes(3)?;
    disk.empty()?;
    service.await_line("works again")?;
    service.await_flushes(1)?;
    service.stop()?;
    ensure!(
        service.times_said("no space left") == 1,
        "{:?}",
        service.said
    );
    let databases = bench.databases()?;
    ensure!(databases.len() == 1, "{databases:?}");
    ensure_whole(&databases[0])?;
    let gaps: i64 = query(
        &databases[0],
        "SELECT count(*) FROM flush a JOIN flush b ON b.id = a.id + 1 WHERE b.started != a.ended",
    )?;
    ensure!(gaps == 0, "{gaps} gaps");
    Ok(())
}

pub(crate) const FULL_DISK_FOR_READERS: Test = test(
    "readers of a service with a full disk are told what to do",
    full_disk_for_readers,
    &[as_root],
);
/// Readers of a service whose disk is full are told so, and what is to be done; the status shows it
/// until there is room again.
fn full_disk_for_readers() -> Result<()> {
    let bench = Bench::new()?;
    let disk = SmallDisk::mount(&bench.directory())?;
    // No flush but the one that is asked for: it is the readers who find out.
    let mut service = bench.start(&bench.configure("collection.flush_seconds = 3600")?)?;
    let flush = bench.ctl(&["flush"])?;
    ensure!(flush.status.success(), text(&flush));
    disk.fill()?;
    let ask = || {
        let mut reader = Command::new(&bench.programs.vcpi);
        reader.args(["top", "-i"]).arg(bench.path("socket"));
        reader.output()
    };
    for _ in 0..3 {
        let output = ask()?;
        ensure!(!output.status.success(), text(&output));
        for part in ["is full", "make room"] {
            ensure!(text(&output).contains(part), text(&output));
        }
    }
    service.await_line("answering readers: ")?;
    let status = text(&bench.ctl(&["status"])?);
    ensure!(status.contains("trouble   answering readers: "), "{status}");
    disk.empty()?;
    service.await_line("answering readers: works again")?;
    // By now there is something to tell: those who asked were sampled, too.
    let flush = bench.ctl(&["flush"])?;
    ensure!(flush.status.success(), text(&flush));
    let output = ask()?;
    ensure!(output.status.success(), text(&output));
    let said = service.times_said("is full");
    ensure!(said == 1, "{:?}", service.said);
    service.stop()?;
    Ok(())
}

pub(crate) const READ_ONLY: Test = test(
    "a read-only disk is said once, and used when it is writable",
    read_only,
    &[as_root],
);
/// A service on a file system that cannot be written collects, and writes when it can.
fn read_only() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let disk = SmallDisk::mount(&bench.directory())?;
    disk.remount("ro")?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(3)?;
    ensure!(bench.databases()?.is_empty(), "written to");
    ensure!(
        service.times_said("saving what was collected") == 1,
        "{:?}",
        service.said
    );
    disk.remount("rw")?;
    service.await_line("works again")?;
    service.stop()?;
    ensure_whole(&bench.databases()?[0])?;
    Ok(())
}

pub(crate) const VANISHED: Test = test(
    "a database that vanishes gives way to a new epoch",
    vanished,
    &[as_root],
);
/// Somebody removes the file that is written to: the next flush begins a new one.
fn vanished() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(1)?;
    for end in [".db", ".db-wal", ".db-shm"] {
        for path in bench.files(end)? {
            fs::remove_file(path)?;
        }
    }
    service.await_line("is gone")?;
    service.await_flushes(2)?;
    service.stop()?;
    let databases = bench.databases()?;
    ensure!(databases.len() == 1, "{databases:?}");
    ensure_whole(&databases[0])?;
    Ok(())
}

pub(crate) const LOCKS_ARE_KEPT: Test = test(
    "the locks of its own database are kept",
    locks_are_kept,
    &[as_root],
);
/// The service sees that its own database's log index is mapped, by itself and by others. If it
/// opened and closed that file, it would lose the locks by which others know that it is in use.
fn locks_are_kept() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(2)?;
    let database = bench.databases()?.pop().context("no database")?;
    query::<i64>(&database, "SELECT count(*) FROM flush")?;
    service.await_flushes(2)?;
    let index = bench.files(".db-shm")?.pop().context("no log index")?;
    let inode = format!(":{} ", fs::metadata(index)?.ino());
    let owner = format!(" {} ", service.pid());
    let locks = fs::read_to_string("/proc/locks")?;
    let is_locked = locks
        .lines()
        .any(|lock| lock.contains(&owner) && lock.contains(&inode));
    ensure!(is_locked, "no lock on {inode}: {locks}");
    service.stop()?;
    Ok(())
}

pub(crate) const DAMAGED_WHILE_RUNNING: Test = test(
    "a running database that is damaged is moved aside",
    damaged_while_running,
    &[as_root],
);
/// Pages of the running database are overwritten, or all of it is random bytes. Whether the service
/// meets them, and begins a new one at once, depends on what SQLite has in its cache; at the latest
/// the next service moves it aside. Until then flushes go on, and what another epoch has is whole.
fn damaged_while_running() -> Result<()> {
    damage_running(|file, length| {
        for at in (4096..length).step_by(512) {
            file.write_all_at(&[0xa5; 64], at)?;
        }
        Ok(())
    })?;
    damage_running(|file, length| {
        let mut bytes = vec![0; usize::try_from(length)?];
        StdRng::seed_from_u64(3).fill(&mut bytes[..]);
        Ok(file.write_all_at(&bytes, 0)?)
    })?;
    Ok(())
}

fn damage_running(damage: impl Fn(&File, u64) -> Result<()>) -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let configuration = bench.configure("")?;
    let mut service = bench.start(&configuration)?;
    service.await_flushes(2)?;
    let damaged = bench.databases()?.pop().context("no database")?;
    // All that may hold pages: what is in the log, and what has been brought into the file.
    for end in [".db", ".db-wal"] {
        for path in bench.files(end)? {
            let length = fs::metadata(&path)?.len();
            damage(&File::options().write(true).open(&path)?, length)?;
        }
    }
    service.await_flushes(2)?;
    // With what it could not save it may end unsuccessfully.
    service.signal(nix::sys::signal::Signal::SIGTERM)?;
    service.wait()?;
    let mut next = bench.start(&configuration)?;
    next.await_flushes(1)?;
    if service.times_said("moved aside") == 0 {
        next.await_line("moved aside")?;
    }
    next.stop()?;
    ensure!(!damaged.exists(), "it was not moved aside");
    for database in bench.databases()? {
        ensure_whole(&database)?;
    }
    Ok(())
}

pub(crate) const OTHER_SCHEMA_WHILE_RUNNING: Test = test(
    "a running database that is given another schema is moved aside",
    other_schema_while_running,
    &[as_root],
);
/// Another program makes a newer schema of the running database, or an older one: it is moved aside
/// with what it has, and what was collected since then is in the one that begins.
fn other_schema_while_running() -> Result<()> {
    for version in [999_999, 1] {
        let bench = Bench::new()?;
        let _burner = Burner::start()?;
        let mut service = bench.start(&bench.configure("")?)?;
        service.await_flushes(2)?;
        let running = bench.databases()?.pop().context("no database")?;
        Connection::open(&running)?.pragma_update(None, "user_version", version)?;
        service.await_line("moved aside")?;
        service.await_flushes(1)?;
        service.stop()?;
        ensure!(
            service.times_said("moved aside") == 1 && service.times_said("000002.db") == 1,
            "{:?}",
            service.said
        );
        let (aside, next) = (bench.files(".damaged")?, bench.databases()?);
        ensure!(aside.len() == 1 && next.len() == 1, "{aside:?}, {next:?}");
        // Nothing else has been changed.
        let version = |row: &rusqlite::Row<'_>| row.get(0);
        let schema: i64 =
            Connection::open(&next[0])?.query_row("PRAGMA user_version", [], version)?;
        Connection::open(&aside[0])?.pragma_update(None, "user_version", schema)?;
        for database in [&aside[0], &next[0]] {
            ensure_whole(database)?;
        }
        let until: i64 = query(&aside[0], "SELECT max(ended) FROM flush")?;
        let since: i64 = query(&next[0], "SELECT min(started) FROM flush")?;
        ensure!(until == since, "{until} to {since} is missing");
    }
    Ok(())
}

pub(crate) const NO_BPF: Test = test(
    "without the right to use BPF it goes on with what remains",
    no_bpf,
    &[as_root],
);
/// The engine that is configured is not permitted: samples come by the plainer one, which is said.
fn no_bpf() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let without = ["setpriv", "--bounding-set", "-bpf,-sys_admin"];
    let configuration = bench.configure("sampling.engine = \"bpf\"")?;
    let mut service = bench.start_under(&without, &configuration)?;
    service.await_line("it is done without")?;
    service.await_flushes(2)?;
    service.stop()?;
    let database = &bench.databases()?[0];
    ensure_whole(database)?;
    let engine: String = query(database, "SELECT engine FROM epoch")?;
    let samples: i64 = query(database, "SELECT sum(samples) FROM cycles")?;
    ensure!(
        engine == "ring" && samples > 0,
        "{samples} samples by {engine}"
    );
    Ok(())
}

pub(crate) const NO_CLOCK: Test = test(
    "without the clock that is configured it takes another",
    no_clock,
    &[as_root],
);
/// Where there is no hardware counter, the software's clock is taken, which is said; where there
/// is one, it is used.
fn no_clock() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let mut service = bench.start(&bench.configure("sampling.clock = \"cycles\"")?)?;
    service.await_flushes(1)?;
    service.stop()?;
    let clock: String = query(&bench.databases()?[0], "SELECT clock FROM epoch")?;
    let said = service.times_said("it is done without") == 1;
    ensure!(said == (clock != "cycles"), "{clock}: {:?}", service.said);
    Ok(())
}
