//! What databases take, and how long reports on them do.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::days;

/// The reports that are timed; `F` stands for the function that has most of the time.
pub(super) const REPORTS: [&[&str]; 9] = [
    &["status"],
    &["top"],
    &["top", "--by", "image"],
    &["top", "--by", "process"],
    &["list", "F"],
    &["args", "F"],
    &["cg", "F"],
    &["blks", "F"],
    &["args"],
];

/// How often each report runs, warm; the least is taken.
const RUNS: usize = 3;

/// How often a running report is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// How long a report takes.
#[derive(Debug)]
pub(super) struct Times {
    words: Vec<String>,
    cold: Duration,
    warm: Duration,
    /// Most resident memory, in bytes.
    memory: u64,
}

impl Times {
    /// The head of the table.
    pub(super) const HEAD: &str = "\n| report | build | cold, s | warm, s | memory, MiB |\n\
                                   |---|---|---|---|---|\n";

    /// Runs a report on all databases of a folder.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn of(vcpi: &Path, folder: &Path, report: &[&str]) -> Result<Times> {
        let mut words = Vec::new();
        for word in report {
            words.push(match *word {
                "F" => hottest(vcpi, folder)?,
                word => word.to_owned(),
            });
        }
        forget(folder)?;
        let (cold, memory) = timed(vcpi, folder, &words)?;
        let mut warm = Duration::MAX;
        for _ in 0..RUNS {
            warm = warm.min(timed(vcpi, folder, &words)?.0);
        }
        Ok(Times {
            words: report.iter().map(|word| (*word).to_owned()).collect(),
            cold,
            warm,
            memory,
        })
    }

    /// Its line of the table.
    pub(super) fn row(&self, build: &str) -> String {
        format!(
            "| {} | {build} | {:.3} | {:.3} | {:.0} |\n",
            self.words.join(" "),
            self.cold.as_secs_f64(),
            self.warm.as_secs_f64(),
            self.memory as f64 / f64::from(1 << 20),
        )
    }
}

/// What the databases of a folder take.
///
/// # Errors
/// If they cannot be looked at.
pub(super) fn bytes(name: &str, folder: &Path) -> Result<String> {
    let mut text = String::new();
    let (mib, count) = (mib(folder)?, days::files(folder)?.len());
    write!(
        text,
        "{name}: {mib:.1} MiB in {count} files, {:.1} each",
        mib / count.max(1) as f64
    )?;
    Ok(text)
}

/// The same in MiB.
///
/// # Errors
/// If they cannot be looked at.
pub(super) fn mib(folder: &Path) -> Result<f64> {
    let mut all = 0;
    for file in days::files(folder)? {
        all += std::fs::metadata(file)?.len();
    }
    Ok(all as f64 / f64::from(1 << 20))
}

/// The function that has most of the time, of those with names.
fn hottest(vcpi: &Path, folder: &Path) -> Result<String> {
    let mut command = Command::new(vcpi);
    command.args(["top", "--format", "json", "-i"]).arg(folder);
    let output = command.output().context("running vcpi")?;
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("vcpi said {}", String::from_utf8_lossy(&output.stderr)))?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let names = rows.iter().filter_map(|row| row["key"].as_str());
    let mut names = names.filter(|name| !name.contains("+0x") && !name.starts_with("kernel_"));
    names
        .next()
        .map(str::to_owned)
        .context("no function has a name")
}

/// Runs a report; how long it took, and the most memory that it had.
fn timed(vcpi: &Path, folder: &Path, words: &[String]) -> Result<(Duration, u64)> {
    let mut command = Command::new(vcpi);
    command.args(words).arg("-i").arg(folder);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn().context("running vcpi")?;
    let mut peak = 0;
    // What it had at most is told until it is waited for.
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak.max(resident(child.id()).unwrap_or(0));
        std::thread::sleep(LOOK);
    };
    let took = begun.elapsed();
    if !status.success() {
        bail!("vcpi {} failed ({status})", words.join(" "));
    }
    Ok((took, peak))
}

/// The most memory that a process has had so far.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// Has the system forget what it holds of the files of a folder.
fn forget(folder: &Path) -> Result<()> {
    for path in days::files(folder)? {
        let file = std::fs::File::open(&path)?;
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .with_context(|| format!("dropping {}", path.display()))?;
    }
    Ok(())
}
