//! A busy hour in short: the machine is recorded for some minutes beside a compiler, a runtime of
//! JavaScript, a database and an interpreter, each again and again, and the bytes are counted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{Killed, progress, shown};
use crate::yields::{LOADS, Size};

/// The programs that make the machine busy.
const BUSY: [&str; 4] = ["cc1", "node", "sqlite3", "python3"];
/// How long a program that was started may run on when the recording has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Records for so many minutes into a database that is not there yet.
///
/// # Errors
/// If something cannot be run, or none of the programs is there.
pub(super) fn record(vcpid: &Path, database: &Path, minutes: u64) -> Result<()> {
    let folder = database.parent().context("no folder for a database")?;
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
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for words in &commands {
            scope.spawn(|| again_and_again(words, folder, &over));
        }
        let mut command = Command::new(vcpid);
        command.args([
            "record",
            "-q",
            "-a",
            "-d",
            &(60 * minutes).to_string(),
            "-o",
        ]);
        command.arg(database).stdin(Stdio::null());
        progress(&shown(&command));
        let status = command.status();
        over.store(true, Ordering::Relaxed);
        let status = status.context("running vcpid")?;
        if !status.success() {
            bail!("vcpid record failed ({status})");
        }
        Ok(())
    })
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
