//! Processors that come and go while the service runs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::{Missing, as_root};

use crate::bench::{Bench, Burner, Service, ensure_whole, query};

pub(crate) const LISTED: Test = test(
    "a processor that comes and goes begins a new epoch",
    listed,
    &[as_root],
);
/// The list of processors that are online changes, as when one is plugged or unplugged: sampling
/// begins anew on those that are there. The list is a file of the test's, which the service sees in
/// the place of the kernel's.
fn listed() -> Result<()> {
    let bench = Bench::new()?;
    let _burners = [Burner::start()?, Burner::start()?];
    let online = bench.path("online");
    fs::write(&online, "0\n")?;
    let script = format!(
        "mount --bind {} /sys/devices/system/cpu/online && exec \"$@\"",
        online.display()
    );
    let elsewhere = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    let mut service = bench.start_under(&elsewhere, &bench.configure("")?)?;
    service.await_flushes(1)?;
    fs::write(&online, "0-1\n")?;
    service.await_line("-000002.db")?;
    service.await_flushes(1)?;
    fs::write(&online, "0\n")?;
    service.await_line("-000003.db")?;
    service.await_flushes(1)?;
    ensure!(
        service.times_said("other processors are online") == 2,
        "{:?}",
        service.said
    );
    service.stop()?;
    let databases = bench.databases()?;
    ensure!(databases.len() == 3, "{databases:?}");
    for database in &databases {
        ensure_whole(database)?;
        let samples: i64 = query(database, "SELECT sum(samples) FROM cycles")?;
        ensure!(samples > 0, "{}: no samples", database.display());
    }
    Ok(())
}

pub(crate) const UNPLUGGED: Test = test(
    "an unplugged processor is done without, and sampled when it is back",
    unplugged,
    &[as_root, second_processor],
);
/// A processor really goes offline, and later comes back: the service goes on with the others, and
/// with all of them again. Of a processor that was away for a moment only, shorter than the service
/// looks, it notices that sampling there has ended, and begins it anew. What was collected on the
/// way is in one epoch after the other.
fn unplugged() -> Result<()> {
    let processor = Processor::find()?;
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let mut service = bench.start(&bench.configure("")?)?;
    ensure_sampled(&bench, &mut service, &processor, "before", true)?;
    processor.set_online(false)?;
    service.await_line("-000002.db")?;
    ensure_sampled(&bench, &mut service, &processor, "without", false)?;
    processor.set_online(true)?;
    service.await_line("-000003.db")?;
    ensure_sampled(&bench, &mut service, &processor, "again", true)?;
    processor.set_online(false)?;
    processor.set_online(true)?;
    service.await_line("-000004.db")?;
    ensure_sampled(&bench, &mut service, &processor, "shortly", true)?;
    service.stop()?;
    // Each is said once.
    let said = service.times_said("sampling begins anew");
    let databases = bench.databases()?;
    ensure!(
        said >= 3 && databases.len() == said + 1,
        "{databases:?}: {:?}",
        service.said
    );
    for database in &databases {
        ensure_whole(database)?;
    }
    Ok(())
}

/// Waits until the service has samples of a program of this name, which may run on this processor
/// alone, or on all others.
fn ensure_sampled(
    bench: &Bench,
    service: &mut Service,
    processor: &Processor,
    name: &str,
    on_it: bool,
) -> Result<()> {
    let program = bench.path(name);
    fs::copy("/bin/sh", &program)?;
    let _pinned = Pinned::start(&program, if on_it { processor.number } else { 0 })?;
    let sql = format!(
        "SELECT coalesce(sum(samples), 0) FROM cycles
         JOIN pc ON pc.id = cycles.pc JOIN image ON image.id = pc.image
         WHERE image.path LIKE '%/{name}'"
    );
    for _ in 0..FLUSHES {
        service.await_flushes(1)?;
        let running = bench.databases()?.pop().context("no database")?;
        if query::<i64>(&running, &sql)? > 0 {
            return Ok(());
        }
    }
    bail!("no samples of {name}: {:?}", service.all_said())
}

/// In so many flushes a program that runs all the time has samples, unless it is not sampled.
const FLUSHES: usize = 30;

/// A program that keeps one processor busy until it is dropped.
struct Pinned(Child);

impl Pinned {
    fn start(program: &Path, processor: usize) -> Result<Self> {
        let child = Command::new(program)
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()?;
        let pinned = Self(child);
        let mut set = CpuSet::new();
        set.set(processor)?;
        sched_setaffinity(Pid::from_raw(pinned.0.id().cast_signed()), &set)?;
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It ends by nothing else.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A second processor, which can be taken offline.
fn second_processor() -> Result<(), Missing> {
    Processor::find().map(drop)
}

/// A processor that can be taken offline. It is online again when this is dropped, and also when
/// the test is killed: another process waits for its end.
struct Processor {
    number: usize,
    switch: PathBuf,
    guard: Child,
}

impl Processor {
    /// The last one, unless the first has to do without it, or the reason why there is none.
    fn find() -> Result<Self, Missing> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online");
        let online = online
            .map_err(|error| Missing::new(format!("needs the list of processors: {error}")))?;
        let last = online.trim().rsplit([',', '-']).next().unwrap_or_default();
        let number = last
            .parse()
            .map_err(|_| Missing::new(format!("{online:?} is no list of processors")))?;
        if number == 0 {
            return Err(Missing::new("needs two processors"));
        }
        let switch = PathBuf::from(format!("/sys/devices/system/cpu/cpu{number}/online"));
        let needed = |error| {
            let switch = switch.display();
            Missing::new(format!(
                "needs a processor that can be taken offline: {switch}: {error}"
            ))
        };
        // It is online already.
        fs::write(&switch, "1").map_err(needed)?;
        let guard = Command::new("sh")
            .args(["-c", "read -r line; echo 1 > \"$1\"", "sh"])
            .arg(&switch)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(needed)?;
        Ok(Self {
            number,
            switch,
            guard,
        })
    }

    fn set_online(&self, online: bool) -> std::io::Result<()> {
        fs::write(&self.switch, if online { "1" } else { "0" })
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        match self.guard.wait() {
            Ok(status) if status.success() => {}
            ended => eprintln!("processor {} may be offline: {ended:?}", self.number),
        }
    }
}
