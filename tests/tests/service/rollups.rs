//! What is past is rolled up by the service, and what a full disk does to that.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use counters::Counter;
use hotlist::{Config, Estimates, Generator, Hotlist};
use profiledb::rollup::{Limits, RollUpStep, RollUps};
use profiledb::{
    Directory, Epoch, Filter, Image, ImageKind, NewHotlist, Process, Profile, Subject, Writer,
};
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, SmallDisk};

/// A minute, a day, and a Monday at midnight, in nanoseconds.
const MINUTE: i64 = 60_000_000_000;
const DAY: i64 = 1_440 * MINUTE;
const MONDAY: i64 = 1_577_664_000_000_000_000 + 7 * DAY;

/// Writes a day of flushes, one an hour and a half, with lists of so many instructions.
fn day(folder: &Path, number: i64, instructions: u64) -> Result<()> {
    let started = MONDAY + number * DAY;
    let (path, sequence) = Directory::new(folder)?.next(started)?;
    let epoch = Epoch {
        started,
        ended: None,
        host: "host".to_owned(),
        kernel: "6".to_owned(),
        command: "serve".to_owned(),
        engine: "bpf".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 1.0,
        period: 1_000_000,
        window: 256,
        settings: profiledb::EpochSettings::default(),
    };
    let mut writer = Writer::create_epoch_as(&path, &epoch, Some(sequence))?;
    let mut coins = Generator::new(started.unsigned_abs());
    for flush in 0..48 {
        let begin = started + flush * 30 * MINUTE;
        let mut flush = writer.begin(begin, begin + MINUTE)?;
        let image = flush.image(&Image {
            kind: ImageKind::File,
            path: "/usr/bin/program".to_owned(),
            build_id: Some("ab12cd34".to_owned()),
            identity: "ab12cd34".to_owned(),
        })?;
        let subject = flush.subject(&Subject::default())?;
        let process = flush.process(&Process {
            pid: 10,
            started: 5,
            execs: 0,
            comm: "server".to_owned(),
        })?;
        for at in 0..instructions {
            let pc = flush.pc(image, 0x1_0000 + 16 * at, None)?;
            flush.cycles(process, subject, pc, None, 1, 1_000)?;
            let mut list = Hotlist::new(&Config::default().precise());
            for time in 0..6 {
                // Nothing that would take little room, and no more values than a roll-up keeps.
                let value = Generator::new((at << 8) + coins.next_u64() % 50).next_u64() >> 20;
                list.update(value, time, &mut coins);
            }
            flush.hotlist(NewHotlist {
                process,
                subject,
                pc,
                caller: None,
                parameter: "rax",
                reached: 6.0,
                unknown: 0.0,
                windows: 6,
                even: None,
                list: Estimates::from(&list),
            })?;
        }
        flush.count(Counter::Samples, instructions)?;
        flush.commit()?;
    }
    writer.end_epoch(started + DAY)?;
    writer.close()?;
    Ok(())
}

/// Samples and values of all databases of a folder.
fn sums(folder: &Path) -> Result<(u64, f64, f64)> {
    let profile = Profile::load(&[folder.to_owned()], &Filter::default())?;
    let samples = profile.cycles.iter().map(|row| row.samples).sum();
    let reached = profile.hotlists.iter().map(|row| row.reached).sum();
    let tuples = profile.hotlists.iter().flat_map(|row| row.list.tuples());
    Ok((samples, reached, tuples.map(|tuple| tuple.estimate).sum()))
}

pub(crate) const FULL_DISK: Test = test(
    "a full disk harms no roll-up, and it goes on when there is room",
    full_disk,
    &[as_root],
);
/// A disk that is full, or becomes so at any moment of a piece of the work, fails the piece. All
/// that there was is still there, and once there is room the rest is done.
fn full_disk() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = SmallDisk::mount(&folder.path().join("disk"))?;
    let place = folder.path().join("disk");
    day(&place, 0, 800)?;
    day(&place, 1, 800)?;
    let before = sums(&place)?;
    let limits = Limits {
        hour: 1 << 30,
        day: 1 << 30,
        week: 1 << 30,
    };
    let now = MONDAY + 100 * DAY;
    let mut rollups = RollUps::new(Directory::new(&place)?);
    let (mut pieces, mut failures, mut midway) = (0, 0, 0);
    loop {
        // Each second piece meets a full disk: some from the beginning, others on the way.
        let is_full = pieces % 2 == 1 && failures < 20;
        let room = if pieces % 4 == 1 {
            0
        } else {
            (pieces % 64) << 12
        };
        if is_full {
            disk.fill_but(room)?;
        }
        let step = rollups.step(now, None, &limits);
        if is_full {
            disk.empty()?;
        }
        pieces += 1;
        match step {
            Ok(RollUpStep::Idle) => break,
            Ok(_) => {}
            Err(profiledb::Error::DiskFull { .. } | profiledb::Error::Io { .. }) => {
                failures += 1;
                midway += u64::from(room > 0);
            }
            Err(error) => bail!("{error}"),
        }
        let after = sums(&place)?;
        // Of rare values some stand for others, by lot.
        let is_same = (after.0, after.1) == (before.0, before.1)
            && (after.2 - before.2).abs() < before.2 / 100.0;
        ensure!(
            is_same,
            "{after:?} and not {before:?} after {pieces} pieces"
        );
    }
    ensure!(
        failures > 3 && midway > 3,
        "{failures} failures, {midway} of them on the way"
    );
    let files = Directory::new(&place)?.list()?;
    ensure!(files.len() == 1, "{files:?}");
    Ok(())
}

pub(crate) const EARLIER_EPOCHS: Test =
    test("earlier epochs are rolled up", earlier_epochs, &[as_root]);
/// The service rolls up what earlier epochs left, and says so; nothing of it is lost.
fn earlier_epochs() -> Result<()> {
    let bench = Bench::new()?;
    fs::DirBuilder::new()
        .mode(0o700)
        .create(bench.directory())?;
    day(&bench.directory(), 0, 20)?;
    day(&bench.directory(), 1, 20)?;
    let before = sums(&bench.directory())?;
    let configuration =
        bench.configure("governor.budget_percent = 50.0\ndatabase.keep_days = 30000")?;
    let mut service = bench.start(&configuration)?;
    service.await_line("rolled up to a week")?;
    service.stop()?;
    let earlier = Filter {
        until: Some(MONDAY + 3 * DAY),
        ..Filter::default()
    };
    let profile = Profile::load(&[bench.directory()], &earlier)?;
    let samples: u64 = profile.cycles.iter().map(|row| row.samples).sum();
    let reached: f64 = profile.hotlists.iter().map(|row| row.reached).sum();
    ensure!(
        (samples, reached) == (before.0, before.1),
        "{samples} samples, {reached} values and not {before:?}"
    );
    let files = bench.databases()?;
    ensure!(files.len() == 2, "{files:?}");
    Ok(())
}
