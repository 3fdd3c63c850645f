//! A busy hour in short: the service runs for some minutes beside a compiler, a runtime of
//! JavaScript, a database and an interpreter, each again and again, and the bytes are counted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::{Killed, processor_seconds, progress, shown};
use crate::yields::{LOADS, Size};

/// The programs that make the machine busy.
const BUSY: [&str; 4] = ["cc1", "node", "sqlite3", "python3"];
/// How long a program that was started may run on when the service has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the service with its defaults for so many minutes, into a folder that is not there yet.
///
/// # Errors
/// If something cannot be run, or none of the programs is there.
pub(super) fn serve(vcpid: &Path, rows: &Path, minutes: u64) -> Result<()> {
    let folder = rows.parent().context("no folder for databases")?;
    let mut commands = Vec::new();
    for load in LOADS.iter().filter(|load| BUSY.contains(&load.name)) {
        match load.lacks() {
            Some(reason) => println!("skipped: {}: {reason}", load.name),
            None => commands.push(load.prepare(folder, Size::Seconds)?),
        }
    }
    if commands.is_empty() {
        bail!("none of the programs that make a machine busy is here");
    }
    let configuration = folder.join("vcpid.toml");
    // What is flushed is measured first, and rolled up afterwards.
    let text = format!(
        "access.socket = {:?}\ndatabase.directory = {rows:?}\ndatabase.rolled_hour_mib = 0\n",
        folder.join("socket"),
    );
    std::fs::write(&configuration, text).context("writing the configuration")?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for words in &commands {
            scope.spawn(|| again_and_again(words, folder, &over));
        }
        let served = serve_for(vcpid, &configuration, Duration::from_secs(60 * minutes));
        over.store(true, Ordering::Relaxed);
        served
    })
}

fn serve_for(vcpid: &Path, configuration: &Path, time: Duration) -> Result<()> {
    let mut command = Command::new(vcpid);
    command.args(["serve", "--config"]).arg(configuration);
    command.stdin(Stdio::null());
    progress(&shown(&command));
    let begun = Instant::now();
    let mut service = Killed::start(&mut command)?;
    while begun.elapsed() < time {
        if let Some(status) = service.0.try_wait()? {
            bail!("vcpid serve ended ({status})");
        }
        std::thread::sleep(LOOK);
    }
    let took = processor_seconds(service.0.id())?;
    kill(Pid::from_raw(service.0.id().cast_signed()), Signal::SIGTERM)?;
    let status = service.0.wait()?;
    if !status.success() {
        bail!("vcpid serve failed ({status})");
    }
    let all = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let share = 100.0 * took / begun.elapsed().as_secs_f64() / all;
    println!("vcpid took {took:.1} s, {share:.2} % of the processors' time");
    Ok(())
}

fn again_and_again(words: &[String], folder: &Path, over: &AtomicBool) {
    let Some((program, args)) = words.split_first() else {
        return;
    };
    while !over.load(Ordering::Relaxed) {
        let mut command = Command::new(program);
        command.args(args).current_dir(folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = Killed::start(&mut command) else {
            return;
        };
        while !over.load(Ordering::Relaxed) && matches!(child.0.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
    }
}
