//! A disk without room.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use rusqlite::Connection;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;
use vcpi_tests::rows::Rows;

use crate::bench::{BURN, Bench};

/// A file system of its own, a few hundred KiB large, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Result<Self> {
        fs::create_dir(at)?;
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(at)
            .output()?;
        ensure!(output.status.success(), text(&output));
        Ok(Self(at))
    }

    fn fill(&self) -> Result<()> {
        // Ends with an error when the disk is full, which is meant.
        let _ = fs::write(self.0.join("ballast"), vec![1; 8 << 20]);
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.0.join("ballast"))?)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the folder is then left behind.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn record_on(bench: &Bench, disk: &Path, script: &str) -> Command {
    let mut command = Command::new(&bench.programs.vcpid);
    command
        .args(["record", "--clock", "cpu-clock", "--rate", "1000"])
        .args(["--flush", "0.2", "-o"])
        .arg(disk.join("db"))
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) const FULL_DISK: Test = test(
    "a full disk is said, and is 125 at the end",
    full_disk,
    &[as_root],
);
fn full_disk() -> Result<()> {
    let bench = Bench::new()?;
    let at = bench.path("disk");
    let disk = SmallDisk::mount(&at)?;
    let script = format!(
        "head -c 10000000 /dev/zero > {}/ballast; {BURN}; {BURN}; {BURN}",
        at.display()
    );
    let output = record_on(&bench, &at, &script).output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    let said = text(&output);
    ensure!(
        said.contains("no space left") && said.contains("what was collected could not be saved"),
        "{said}"
    );
    // How much that was stands in the last line.
    let last = said
        .lines()
        .rev()
        .find(|line| line.contains("not all of it is in"));
    ensure!(
        last.is_some_and(|line| line.contains(" samples could not be saved")),
        "{said}"
    );
    disk.empty()?;
    // What did get in is a whole database.
    let connection = Connection::open(at.join("db"))?;
    let intact: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure!(intact == "ok", "{intact}");
    Ok(())
}

pub(crate) const FULL_DISK_MENDED: Test = test(
    "a disk that is full for a while loses nothing",
    full_disk_mended,
    &[as_root],
);
fn full_disk_mended() -> Result<()> {
    let bench = Bench::new()?;
    let at = bench.path("disk");
    let disk = SmallDisk::mount(&at)?;
    disk.fill()?;
    disk.empty()?;
    let script = format!(
        "head -c 10000000 /dev/zero > {0}/ballast; {BURN}; {BURN}; rm {0}/ballast; {BURN}",
        at.display()
    );
    let output = record_on(&bench, &at, &script).output()?;
    ensure!(output.status.success(), text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(said.contains("kept in memory"), "{said}");
    let rows = Rows::of(&at.join("db"))?;
    let connection = Connection::open(rows.path())?;
    let samples: i64 =
        connection.query_row("SELECT sum(samples) FROM cycles", [], |row| row.get(0))?;
    let counted: i64 = connection.query_row(
        "SELECT sum(value) FROM counter WHERE kind = 'run' AND name = 'samples'",
        [],
        |row| row.get(0),
    )?;
    ensure!(
        samples == counted && said.contains(&format!("{samples} samples")),
        "{samples} samples in the file, {counted} counted; said: {said}"
    );
    Ok(())
}
