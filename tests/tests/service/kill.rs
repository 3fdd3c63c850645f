//! Services that are killed.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vcpi_tests::harness::{Test, test};
use vcpi_tests::needs::as_root;
use vcpi_tests::variable;

use crate::bench::{Bench, Burner, ensure_whole, query};

/// How many rounds, unless the environment says another number.
const USUAL_ROUNDS: u32 = 20;
const ROUNDS_VARIABLE: &str = "VCPI_KILL_ROUNDS";

pub(crate) const ROUNDS: Test = test(
    "a killed service leaves whole databases",
    rounds,
    &[as_root],
);
/// Killed at any moment, also in the middle of a flush, it leaves a database that is whole and has
/// every flush that was reported: what is lost was collected since. How long that was at worst is
/// printed; it is an interval and the time of a flush, on a machine that has the time for both.
fn rounds() -> Result<()> {
    let asked = variable(ROUNDS_VARIABLE)?;
    let rounds = asked.unwrap_or(USUAL_ROUNDS);
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    // Many samples make long flushes.
    let configuration = bench.configure("sampling.rate = 5000\ngovernor.budget_percent = 100.0")?;
    let mut random = StdRng::seed_from_u64(11);
    let mut worst = Duration::ZERO;
    for round in 1..=rounds {
        let mut service = bench.start(&configuration)?;
        let reported = random.random_range(0..3);
        service.await_flushes(reported)?;
        // Not to wait for anything: the moment of the death is what is drawn.
        std::thread::sleep(Duration::from_micros(random.random_range(0..1_100_000)));
        let died = SystemTime::now();
        service.signal(Signal::SIGKILL)?;
        service.wait()?;
        let databases = bench.databases()?;
        let killed = databases.last().context("no database")?;
        ensure_whole(killed)?;
        let flushes: i64 = query(killed, "SELECT count(*) FROM flush")?;
        ensure!(
            flushes >= i64::try_from(reported)?,
            "round {round}: {flushes} flushes of {reported} that were reported"
        );
        // Nothing between two flushes is missing.
        let gaps: i64 = query(
            killed,
            "SELECT count(*) FROM flush a JOIN flush b ON b.id = a.id + 1 WHERE b.started != a.ended",
        )?;
        ensure!(gaps == 0, "round {round}: {gaps} gaps");
        worst = worst.max(unsaved(killed, died)?);
    }
    eprintln!("killed {rounds} times; {worst:.3?} were lost at most");
    // The next one closes what the killed ones left, and moves none of it aside.
    let mut service = bench.start(&configuration)?;
    service.await_flushes(1)?;
    service.await_line("all earlier epochs were looked at")?;
    service.stop()?;
    ensure!(bench.files(".damaged")?.is_empty(), "{:?}", service.said);
    // Each ends with its last flush, and says that there was more.
    let databases = bench.databases()?;
    let (last, killed) = databases.split_last().context("no database")?;
    for database in killed {
        ensure!(is_cut_short(database)?, database.display().to_string());
    }
    ensure!(!is_cut_short(last)?, "the last one, too");
    Ok(())
}

/// Whether the epoch ends where its last flush does, or where it began if there was none, and is
/// marked for it.
fn is_cut_short(database: &Path) -> Result<bool> {
    query(
        database,
        "SELECT ended = coalesce((SELECT max(ended) FROM flush), started)
                AND coalesce(json_extract(settings, '$.cut_short'), 0) FROM epoch",
    )
}

/// How much time before it died a service had not saved.
fn unsaved(database: &Path, died: SystemTime) -> Result<Duration> {
    let saved: i64 = query(
        database,
        "SELECT coalesce((SELECT max(ended) FROM flush), (SELECT started FROM epoch))",
    )?;
    let died = died.duration_since(UNIX_EPOCH)?;
    Ok(died.saturating_sub(Duration::from_nanos(u64::try_from(saved)?)))
}
