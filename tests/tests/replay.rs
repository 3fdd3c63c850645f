//! Raw recordings from outside: a replay gives what the recording gave, and bad files are said.
//!
//! Needs the release build of both programs and root; all of it runs on the software clock.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Arguments;
use rusqlite::{Connection, OpenFlags};
use vcpi_tests::harness::{Test, run, test, text};
use vcpi_tests::needs::bpf;
use vcpi_tests::programs::Programs;
use vcpi_tests::rows::Rows;

fn main() -> ExitCode {
    let tests = [SAME_BY_RING, SAME_BY_BPF, CUT_SHORT, FOREIGN, ONE_FILE];
    run(&Arguments::from_args(), tests).exit_code()
}

/// A loop of the shell's, a pipe and two processes: code of several images, and system calls.
const BURN: &str =
    "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; seq 200000 | sort -n | tail -1";

/// A folder of its own, and the programs.
struct Bench {
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Bench {
    fn new() -> Result<Self> {
        let programs = Programs::find()?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            programs,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Records the loop into `db` and `raw`.
    fn record(&self, engine: &str) -> Result<Output> {
        let output = Command::new(&self.programs.vcpid)
            .args([
                "record",
                "--clock",
                "cpu-clock",
                "--rate",
                "4000",
                "--engine",
                engine,
            ])
            .arg("-o")
            .arg(self.path("db"))
            .arg("--raw")
            .arg(self.path("raw"))
            .args(["--", "sh", "-c", BURN])
            .stdin(Stdio::null())
            .output()?;
        Ok(output)
    }

    fn replay(&self, raw: &Path, to: &str) -> Result<Output> {
        let mut command = Command::new(&self.programs.vcpid);
        command.arg("replay").arg(raw).arg("-o").arg(self.path(to));
        Ok(command.output()?)
    }

    /// What a database holds: cycles, branches and calls by place, and what the lists were fed.
    fn contents(&self, name: &str) -> Result<Vec<i64>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let rows = Rows::of(&self.path(name))?;
        let connection = Connection::open_with_flags(rows.path(), flags)?;
        let mut figures = Vec::new();
        for sql in [
            "SELECT sum(samples) FROM cycles",
            "SELECT sum(weight) FROM cycles",
            "SELECT count(*) FROM cycles",
            "SELECT sum(taken) + 3 * sum(not_taken) + 7 * sum(unknown) FROM branch",
            "SELECT sum(calls) FROM call",
            "SELECT sum(reached) FROM hotlist",
            "SELECT sum(unknown) FROM hotlist",
            "SELECT count(*) FROM hotlist",
        ] {
            figures.push(connection.query_row(sql, [], |row| row.get(0))?);
        }
        Ok(figures)
    }
}

const SAME_BY_RING: Test = test(
    "a replay of the engine ring gives the same",
    || same("ring"),
    &[],
);
const SAME_BY_BPF: Test = test(
    "a replay of the engine bpf gives the same",
    || same("bpf"),
    &[bpf],
);
/// The same samples, values, branches and calls come out again, though the processes are gone;
/// and nobody else can read the recording.
fn same(engine: &str) -> Result<()> {
    let bench = Bench::new()?;
    let recorded = bench.record(engine)?;
    ensure!(recorded.status.success(), text(&recorded));
    let mode = fs::metadata(bench.path("raw"))?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "mode {mode:o}");
    let replayed = bench.replay(&bench.path("raw"), "again")?;
    ensure!(replayed.status.success(), text(&replayed));
    let (first, second) = (bench.contents("db")?, bench.contents("again")?);
    ensure!(
        first == second && first[0] > 100,
        "recorded {first:?}, replayed {second:?}"
    );
    // A recording is not written over.
    let over = bench.record(engine)?;
    ensure!(!over.status.success(), "it was written over");
    Ok(())
}

const CUT_SHORT: Test = test("a recording cut short is replayed so far", cut_short, &[]);
/// What stands before the damage is in the database, and the exit status says that it is not all.
fn cut_short() -> Result<()> {
    let bench = Bench::new()?;
    let recorded = bench.record("ring")?;
    ensure!(recorded.status.success(), text(&recorded));
    let raw = fs::read(bench.path("raw"))?;
    fs::write(bench.path("half"), &raw[..raw.len() / 2])?;
    let replayed = bench.replay(&bench.path("half"), "again")?;
    ensure!(replayed.status.code() == Some(125), text(&replayed));
    let said = text(&replayed);
    ensure!(said.contains("the rest is missing"), "{said}");
    // Short-lived processes may be gone before they are looked at: that is lost, too, and was
    // before.
    let report = bench.programs.report(&bench.path("again"), &["status"])?;
    let lost = &report["lost"];
    ensure!(lost["rest_of_a_damaged_recording"] == 1, "{lost}");
    let total: Option<u64> = lost
        .as_object()
        .and_then(|lost| lost.values().map(serde_json::Value::as_u64).sum());
    let total = total.context("losses are no numbers")?;
    ensure!(said.contains(&format!(", {total} lost;")), "{said}: {lost}");
    let (all, half) = (bench.contents("db")?, bench.contents("again")?);
    ensure!(half[0] > 0 && half[0] < all[0], "{half:?} of {all:?}");
    Ok(())
}

const ONE_FILE: Test = test("one file is not both", one_file, &[]);
/// The database and the raw recording are not written into each other: nothing is run, and nothing
/// left.
fn one_file() -> Result<()> {
    let bench = Bench::new()?;
    let (database, raw) = (bench.path("one"), bench.folder.path().join("./one"));
    let recorded = Command::new(&bench.programs.vcpid)
        .arg("record")
        .arg("-o")
        .arg(&database)
        .arg("--raw")
        .arg(raw)
        .args(["--", "touch"])
        .arg(bench.path("ran"))
        .stdin(Stdio::null())
        .output()?;
    ensure!(recorded.status.code() == Some(125), text(&recorded));
    ensure!(text(&recorded).contains("name two files"), text(&recorded));
    ensure!(
        !database.exists() && !bench.path("ran").exists(),
        "something is left"
    );
    Ok(())
}

const FOREIGN: Test = test("what is no recording is refused", foreign, &[]);
/// A database, an empty file and no file at all are no recordings.
fn foreign() -> Result<()> {
    let bench = Bench::new()?;
    fs::write(bench.path("empty"), "")?;
    fs::write(
        bench.path("text"),
        "SQLite format 3 and more than eight bytes",
    )?;
    for name in ["empty", "text", "missing"] {
        let replayed = bench.replay(&bench.path(name), "again")?;
        ensure!(replayed.status.code() == Some(125), text(&replayed));
        ensure!(text(&replayed).contains(name), text(&replayed));
        ensure!(!bench.path("again").exists(), "a database was made");
    }
    Ok(())
}
