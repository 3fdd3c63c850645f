//! `cargo xtask soak`: what the service takes of a machine over time, and next to it a recording
//! of the whole machine: memory, processor time, growth of the databases, losses.
//!
//! Beside whatever else runs here, processes come and go, one program computes and one compresses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vcpi_tests::programs::{Programs, target_dir};

use crate::process::{Killed, processor_seconds, progress};
use crate::setup::{self, Need};
use crate::test::build;

/// The programs that run beside it, each in a loop.
const LOAD: [&str; 3] = [
    "while :; do for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; sleep 0.1; done",
    "while :; do seq 300000 | sort -n | tail -n 1 >/dev/null; sleep 0.5; done",
    "while :; do head -c 4000000 /usr/bin/perl | xz -1 >/dev/null; sleep 0.5; done",
];

/// Runs both for so many minutes each; with a `rate`, in samples per second and CPU, only the
/// recording, that often.
pub(crate) fn run(minutes: u64, rate: Option<u32>) -> Result<()> {
    setup::run(Need::Test)?;
    build()?;
    let programs = Programs::find()?;
    let folder = target_dir()?.join("soak");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let configuration = folder.join("vcpid.toml");
    let text = format!(
        "access.socket = {:?}\ndatabase.directory = {:?}\n",
        folder.join("socket"),
        folder.join("serve")
    );
    fs::write(&configuration, text).context("writing the configuration")?;
    let mut serve = Command::new(&programs.vcpid);
    serve.args(["serve", "--config"]).arg(&configuration);
    let mut record = Command::new(&programs.vcpid);
    fs::create_dir(folder.join("record")).context("creating a folder")?;
    record.args(["record", "-q", "-a", "-o"]);
    record.arg(folder.join("record/vcpi.db"));
    let mut runs = vec![("serve", serve), ("record", record)];
    if let Some(rate) = rate {
        runs.remove(0);
        let (_, record) = &mut runs[0];
        record.args(["--rate", &rate.to_string()]);
    }
    let _load: Vec<Killed> = LOAD
        .iter()
        .map(|script| Killed::start(Command::new("sh").args(["-c", script])))
        .collect::<Result<_>>()?;
    for (name, command) in runs {
        soak(name, command, &folder.join(name), &programs, minutes)?;
    }
    Ok(())
}

fn soak(
    name: &str,
    mut command: Command,
    database: &Path,
    programs: &Programs,
    minutes: u64,
) -> Result<()> {
    progress(&format!("vcpid {name} for {minutes} minutes"));
    let mut child = Killed::start(&mut command)?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let begun = Instant::now();
    println!("minute  RSS MiB  maps MiB  CPU % of the machine  database MiB  MiB per hour");
    let mut before = (begun, 0.0, 0);
    let mut peak = 0;
    for minute in 1..=minutes {
        std::thread::sleep(
            (begun + Duration::from_secs(60 * minute)).saturating_duration_since(Instant::now()),
        );
        if let Some(status) = child.0.try_wait()? {
            bail!("vcpid {name} ended with {status}");
        }
        let now = (
            Instant::now(),
            processor_seconds(child.0.id())?,
            bytes(database)?,
        );
        let wall = (now.0 - before.0).as_secs_f64();
        let resident = resident(child.0.id())?;
        peak = peak.max(resident);
        println!(
            "{minute:>6}  {:>7.1}  {:>8.1}  {:>20.2}  {:>12.1}  {:>12.1}",
            mebibytes(resident),
            mebibytes(of_maps(child.0.id())?),
            100.0 * (now.1 - before.1) / wall / cpus as f64,
            mebibytes(now.2),
            (mebibytes(now.2) - mebibytes(before.2)) / wall * 3600.0,
        );
        before = now;
    }
    kill(Pid::from_raw(child.0.id().cast_signed()), Signal::SIGTERM)?;
    let stopping = Instant::now();
    let status = child.0.wait()?;
    if !status.success() {
        bail!("vcpid {name} ended with {status}");
    }
    let report = programs.report(database, &["status"])?;
    println!(
        "{name}: most resident {:.1} MiB; ended in {:.1} s; {} samples, {} values; overhead {}",
        mebibytes(peak),
        stopping.elapsed().as_secs_f64(),
        report["samples"],
        report["value_events"],
        report["overhead"],
    );
    let lost = report["lost"]
        .as_object()
        .context("no losses in the status")?;
    for (what, count) in lost.iter().filter(|(_, count)| count.as_u64() != Some(0)) {
        println!("{name}: lost {what}: {count}");
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Resident memory in bytes.
fn resident(pid: u32) -> Result<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).context("reading its memory")?;
    let pages: u64 = statm
        .split_ascii_whitespace()
        .nth(1)
        .context("its memory")?
        .parse()?;
    Ok(pages * 4096)
}

/// What its BPF maps take in the kernel, in bytes, by the kernel's account.
fn of_maps(pid: u32) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).context("listing its descriptors")? {
        // One that was closed meanwhile is none of them.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let number = |name| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        if number("map_id:").is_some() {
            total += number("memlock:").unwrap_or(0);
        }
    }
    Ok(total)
}

/// Bytes of all files in a folder.
fn bytes(folder: &Path) -> Result<u64> {
    let paths: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    Ok(paths
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|file| file.len())
        .sum())
}
