//! The files of epochs: their order, what is kept, and what is moved aside.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, ensure_whole};

/// The file of an earlier epoch, of about so many MiB.
fn earlier(bench: &Bench, sequence: u32, mebibytes: u32) -> Result<PathBuf> {
    let name = format!("2020-01-{:02}T00-00-00-{sequence:06}.db", sequence % 28 + 1);
    let path = bench.directory().join(name);
    let epoch = profiledb::Epoch {
        started: 1,
        ended: Some(2),
        host: "host".to_owned(),
        kernel: "5".to_owned(),
        command: "serve".to_owned(),
        engine: "ring".to_owned(),
        clock: "cpu-clock".to_owned(),
        unit: "ns".to_owned(),
        cycles_per_unit: 1.0,
        period: 1_000_000,
        window: 16,
        settings: profiledb::EpochSettings::default(),
    };
    profiledb::Writer::create_epoch_as(&path, &epoch, Some(sequence.into()))?.close()?;
    Connection::open(&path)?.execute_batch(&format!(
        "CREATE TABLE ballast (x); INSERT INTO ballast VALUES (zeroblob({mebibytes} << 20))"
    ))?;
    Ok(path)
}

/// A directory such as a service leaves.
fn directory(bench: &Bench) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    Ok(fs::DirBuilder::new()
        .mode(0o700)
        .create(bench.directory())?)
}

pub(crate) const STARTS: Test = test(
    "each start is an epoch in a file of its own",
    starts,
    &[as_root],
);
/// Names say when, and in which order.
fn starts() -> Result<()> {
    let bench = Bench::new()?;
    let configuration = bench.configure("")?;
    for _ in 0..2 {
        let mut service = bench.start(&configuration)?;
        service.await_flushes(1)?;
        service.stop()?;
    }
    let databases = bench.databases()?;
    ensure!(databases.len() == 2, "{databases:?}");
    for (database, end) in databases.iter().zip(["-000001.db", "-000002.db"]) {
        ensure!(database.to_string_lossy().ends_with(end), "{databases:?}");
        ensure_whole(database)?;
    }
    Ok(())
}

pub(crate) const AGE: Test = test("old epochs go, the newest stay", age, &[as_root]);
/// Epochs that were last written years ago go with the first flush, but for the newest.
fn age() -> Result<()> {
    let bench = Bench::new()?;
    directory(&bench)?;
    let old = SystemTime::now() - Duration::from_secs(3 * 365 * 86_400);
    for sequence in 1..=5 {
        let path = earlier(&bench, sequence, 0)?;
        File::options().append(true).open(path)?.set_modified(old)?;
    }
    let mut service = bench.start(&bench.configure("database.keep_newest = 3")?)?;
    service.await_flushes(1)?;
    service.stop()?;
    let left = bench.databases()?;
    // Two of them, and the one that runs.
    ensure!(left.len() == 3, "{left:?}");
    ensure!(
        left[0].to_string_lossy().ends_with("-000004.db"),
        "{left:?}"
    );
    Ok(())
}

pub(crate) const SIZE: Test = test(
    "the oldest epochs go when all are too large",
    size,
    &[as_root],
);
/// The oldest go until the rest has room, whatever is to be kept otherwise.
fn size() -> Result<()> {
    let bench = Bench::new()?;
    directory(&bench)?;
    for sequence in 1..=5 {
        earlier(&bench, sequence, 10)?;
    }
    let mut service = bench.start(&bench.configure("database.keep_mib = 32")?)?;
    service.await_flushes(1)?;
    service.stop()?;
    let left = bench.databases()?;
    let bytes: u64 = left
        .iter()
        .map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len()))
        .sum();
    ensure!(bytes <= 32 << 20, "{bytes} bytes: {left:?}");
    // How many had to go depends on what the running epoch takes, but they are the first.
    let gone = (1..=5)
        .filter(|sequence| {
            let end = format!("-{sequence:06}.db");
            !left
                .iter()
                .any(|path| path.to_string_lossy().ends_with(&end))
        })
        .collect::<Vec<u32>>();
    let first: Vec<u32> = (1..=5).take(gone.len()).collect();
    ensure!(gone.len() >= 2 && gone == first, "{left:?}");
    Ok(())
}

pub(crate) const MOVED_ASIDE: Test = test(
    "a foreign, a newer, an older and a damaged database are moved aside",
    moved_aside,
    &[as_root],
);
/// What cannot be used is out of the way, and said with its reason; what is not an epoch's file
/// stays.
fn moved_aside() -> Result<()> {
    let bench = Bench::new()?;
    directory(&bench)?;
    fs::write(
        earlier(&bench, 1, 0)?,
        "not a database at all, but somewhat long ".repeat(30),
    )?;
    Connection::open(earlier(&bench, 2, 0)?)?.pragma_update(None, "user_version", 999_999)?;
    overwrite(&earlier(&bench, 3, 0)?, 3 * 4096, &[0xa5; 8192])?;
    Connection::open(earlier(&bench, 4, 0)?)?.pragma_update(None, "user_version", 1)?;
    let mut bytes = vec![0; 64 << 10];
    StdRng::seed_from_u64(5).fill(&mut bytes[..]);
    fs::write(earlier(&bench, 5, 0)?, bytes)?;
    fs::write(bench.directory().join("notes.db"), "mine")?;
    earlier(&bench, 6, 0)?;
    let mut service = bench.start(&bench.configure("")?)?;
    let reasons = [
        "a file of another kind",
        "999999",
        "000003",
        "of an older vcpi",
        "a file of another kind",
    ];
    for (sequence, reason) in (1..).zip(reasons) {
        let line = service.await_line(&format!("-00000{sequence}.db.damaged"))?;
        ensure!(
            line.contains("moved aside") && line.contains(reason),
            "{line}"
        );
    }
    service.stop()?;
    ensure!(
        bench.files(".damaged")?.len() == reasons.len(),
        "not all are there"
    );
    ensure!(
        service.times_said("moved aside") == reasons.len(),
        "{:?}",
        service.said
    );
    let left = bench.databases()?;
    ensure!(left.len() == 3 && left[2].ends_with("notes.db"), "{left:?}");
    Ok(())
}

pub(crate) const DAMAGED_AT_RANDOM: Test = test(
    "a database damaged at random harms nothing",
    damaged_at_random,
    &[as_root],
);
/// Whatever bytes are wrong in an earlier database, the service starts, goes on and ends well, and
/// what it writes is whole.
fn damaged_at_random() -> Result<()> {
    let bench = Bench::new()?;
    directory(&bench)?;
    let mut random = StdRng::seed_from_u64(7);
    for sequence in 1..=20 {
        let path = earlier(&bench, sequence, 0)?;
        let length = fs::metadata(&path)?.len();
        for _ in 0..random.random_range(1..50) {
            overwrite(&path, random.random_range(0..length), &[random.random()])?;
        }
        if sequence % 4 == 0 {
            File::options()
                .write(true)
                .open(&path)?
                .set_len(random.random_range(0..length))?;
        }
        if sequence % 5 == 0 {
            let mut log = path.into_os_string();
            log.push("-wal");
            fs::write(log, random.random::<[u8; 32]>())?;
        }
    }
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(2)?;
    service.stop()?;
    let newest = bench.files("-000021.db")?;
    ensure!(
        newest.len() == 1,
        "{:?}: {:?}",
        bench.databases(),
        service.said
    );
    ensure_whole(&newest[0])?;
    let left = bench.databases()?.len() + bench.files(".damaged")?.len();
    ensure!(left == 21, "{left} files are left");
    Ok(())
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    let file = File::options().write(true).open(path)?;
    Ok(file.write_all_at(bytes, at)?)
}
