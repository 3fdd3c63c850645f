//! A disk that takes next to nothing while the service runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use nix::sys::stat::{major, minor};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{Missing, as_root};

use crate::bench::{Bench, Burner, ensure_whole, query};

/// Bytes that may be read and written in a second.
const RATE: u32 = 256 << 10;
/// How long a status, and the end, are waited for: far longer than they should take.
const PATIENCE: Duration = Duration::from_secs(10);
const LAST_PATIENCE: Duration = Duration::from_secs(45);

pub(crate) const DISK: Test = test(
    "a disk that takes next to nothing keeps neither status nor end waiting",
    disk,
    &[as_root, limits_of_disks],
);
/// While the service waits for the disk it says how it is, and it ends without waiting until the
/// disk has everything. What was not saved is counted, and the databases are whole.
fn disk() -> Result<()> {
    let bench = Bench::new()?;
    let _burners = [Burner::start()?, Burner::start()?];
    let more = "sampling.rate = 5000\ngovernor.budget_percent = 100.0";
    let mut service = bench.start(&bench.configure(more)?)?;
    service.await_flushes(1)?;
    let limit = Limit::set(&bench.directory(), service.pid())?;
    let deadline = Instant::now() + LAST_PATIENCE;
    loop {
        ensure!(
            Instant::now() < deadline,
            "it never waited for the disk while it said how it was"
        );
        if waiting(service.pid())?.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let before = waiting(service.pid())?;
        let asked = Instant::now();
        let status = bench.ctl(&["status"])?;
        ensure!(status.status.success(), text(&status));
        ensure!(
            asked.elapsed() < PATIENCE,
            "the status took {:?}",
            asked.elapsed()
        );
        let after = waiting(service.pid())?;
        if before.iter().any(|thread| after.contains(thread)) {
            break;
        }
    }
    let stopping = Instant::now();
    service.signal(Signal::SIGTERM)?;
    let status = service.wait()?;
    eprintln!("it ended {:.1?} after the signal", stopping.elapsed());
    ensure!(
        stopping.elapsed() < LAST_PATIENCE,
        "the end took {:?}",
        stopping.elapsed()
    );
    drop(limit);
    let said = service.all_said().join("\n");
    let databases = bench.databases()?;
    ensure!(databases.len() == 1, "{databases:?}");
    ensure_whole(&databases[0])?;
    let saved: u64 = query::<i64>(
        &databases[0],
        "SELECT sum(value) FROM counter WHERE kind = 'run' AND name = 'samples'",
    )?
    .cast_unsigned();
    // Everything is saved and it says so, or it says what is not.
    let all = number_before(&said, " samples, ");
    let lost = number_before(&said, " samples: ").unwrap_or(0);
    let agree = all.is_none_or(|all| all == saved + lost);
    ensure!(
        agree && status.success() == (all == Some(saved)),
        "{status}, {saved} saved: {said}"
    );
    Ok(())
}

/// The number in front of the last of these words.
fn number_before(text: &str, words: &str) -> Option<u64> {
    let (before, _) = text.rsplit_once(words)?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The threads of a process that wait for a disk, or the like, and cannot be interrupted.
fn waiting(pid: u32) -> Result<Vec<u32>> {
    let mut waiting = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?;
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        if stat
            .rsplit(") ")
            .next()
            .is_some_and(|behind| behind.starts_with('D'))
        {
            waiting.push(thread.file_name().to_string_lossy().parse()?);
        }
    }
    Ok(waiting)
}

/// A control group in which a process reads and writes slowly, taken away at the end.
struct Limit {
    group: PathBuf,
    /// Where the process was.
    before: PathBuf,
    pid: u32,
}

impl Limit {
    fn set(on: &Path, pid: u32) -> Result<Self, Missing> {
        let (root, limits) = Self::place(on)?;
        let group = root.join(format!("vcpi-test-{pid}"));
        let missing = |error| Missing::new(format!("{}: {error}", group.display()));
        fs::create_dir(&group).map_err(missing)?;
        let limit = Self {
            group: group.clone(),
            before: root,
            pid,
        };
        for (file, line) in limits {
            fs::write(group.join(file), line).map_err(missing)?;
        }
        fs::write(group.join("cgroup.procs"), pid.to_string()).map_err(missing)?;
        Ok(limit)
    }

    /// The control group of all processes, and the files of a group below it that limit a disk,
    /// with what is written to them.
    fn place(on: &Path) -> Result<(PathBuf, Vec<(String, String)>), Missing> {
        let device = disk_of(on)?;
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let mounts = text(Path::new("/proc/mounts"));
        let mounted = |kind: &str, option: &str| {
            let found = mounts
                .lines()
                .map(|line| line.split(' ').collect::<Vec<_>>());
            let mut found = found.filter(|fields| {
                fields.get(2) == Some(&kind)
                    && fields
                        .get(3)
                        .is_some_and(|all| all.split(',').any(|one| one == option))
            });
            found.find_map(|fields| fields.get(1).map(PathBuf::from))
        };
        let unified = mounted("cgroup2", "rw")
            .filter(|at| text(&at.join("cgroup.controllers")).contains("io"));
        if let Some(root) = mounted("cgroup", "blkio") {
            let limit = |what: &str| {
                let file = format!("blkio.throttle.{what}_bps_device");
                (file, format!("{device} {RATE}"))
            };
            Ok((root, vec![limit("read"), limit("write")]))
        } else if let Some(root) = unified {
            // It may be on already.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+io");
            let line = format!("{device} rbps={RATE} wbps={RATE}");
            Ok((root, vec![("io.max".to_owned(), line)]))
        } else {
            let reason = "no control groups for the disk (blkio, or io) are mounted";
            Err(Missing::new(reason))
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        // It may have ended; a group that stays is empty.
        let _ = fs::write(self.before.join("cgroup.procs"), self.pid.to_string());
        let _ = fs::remove_dir(&self.group);
    }
}

/// A disk below temporary files, and control groups that can limit it.
fn limits_of_disks() -> Result<(), Missing> {
    Limit::place(&std::env::temp_dir()).map(drop)
}

/// The disk that a folder is on, by its numbers, not the part of it.
fn disk_of(folder: &Path) -> Result<String, Missing> {
    let missing = |error: io::Error| Missing::new(error.to_string());
    let device = fs::metadata(folder).map_err(missing)?.dev();
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let place = fs::canonicalize(&place)
        .map_err(|_| Missing::new(format!("{} is on no disk of its own", folder.display())))?;
    let whole = match place.join("partition").exists() {
        true => place.parent().unwrap_or(&place).join("dev"),
        false => place.join("dev"),
    };
    let numbers = fs::read_to_string(whole).map_err(missing)?;
    Ok(numbers.trim().to_owned())
}
