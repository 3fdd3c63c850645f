//! Other programs: running them, visibly, and what they take.

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use vcpi_tests::programs::root;

/// Prints a line of progress, apart from what programs print.
pub(crate) fn progress(text: &str) {
    eprintln!("==> {text}");
}

/// Cargo, as the one that runs this program, in the project's root folder.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_owned()));
    command.args(args).current_dir(root());
    command
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            let plain = !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c));
            if plain {
                word.into_owned()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Shows the command, runs it to its end, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    progress(&shown(command));
    let status = command
        .status()
        .with_context(|| format!("running {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// A program without input, which is killed when this is dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    /// Starts it.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Self(
            child.with_context(|| format!("running {}", shown(command)))?,
        ))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time of a process so far, in seconds: of all its threads, to the nanosecond.
pub(crate) fn processor_seconds(pid: u32) -> Result<f64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed()))
        .and_then(clock_gettime)
        .with_context(|| format!("reading the processor time of process {pid}"))?;
    Ok(Duration::from(clock).as_secs_f64())
}
