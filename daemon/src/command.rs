//! Starting the command to be profiled, so that not one of its instructions is missed: this
//! program starts itself as a stand-in, which stops, is equipped with events that begin at the
//! next exec, and then becomes the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Exit status for a command that was not found, as of a shell.
pub(crate) const NOT_FOUND: u8 = 127;
/// Exit status for a command that cannot be executed, as of a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;

/// Why a command cannot be run: a message and an exit status.
#[derive(Debug)]
pub(crate) struct CannotRun {
    pub(crate) message: String,
    pub(crate) status: u8,
}

/// Finds the file that a command name means, as a shell does.
pub(crate) fn resolve(name: &OsStr) -> Result<PathBuf, CannotRun> {
    let shown = Path::new(name).display();
    if name.as_encoded_bytes().contains(&b'/') {
        return match executable(Path::new(name)) {
            Ok(()) => Ok(name.into()),
            Err(error) => Err(CannotRun {
                status: if error.kind() == std::io::ErrorKind::NotFound {
                    NOT_FOUND
                } else {
                    NOT_EXECUTABLE
                },
                message: format!("cannot run '{shown}': {error}"),
            }),
        };
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| executable(file).is_ok())
        .ok_or_else(|| CannotRun {
            status: NOT_FOUND,
            message: format!("cannot run '{shown}': there is no such command in PATH"),
        })
}

fn executable(file: &Path) -> std::io::Result<()> {
    let metadata = fs::metadata(file)?;
    if metadata.is_dir() {
        return Err(std::io::Error::other("is a directory"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            "not executable",
        ));
    }
    Ok(())
}

/// A stand-in that waits to become the command.
#[derive(Debug)]
pub(crate) struct Waiting(Child);

/// The running command.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Waiting {
    /// Starts the stand-in and waits until it has stopped.
    pub(crate) fn spawn(command: &[OsString]) -> Result<Self> {
        let own = env::current_exe().context("cannot find the path of vcpid itself")?;
        let child = Command::new(own)
            .arg("__exec")
            .arg("--")
            .args(command)
            .spawn()
            .context("cannot start a process")?;
        let waiting = Self(child);
        match waitpid(waiting.pid(), Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(_, Signal::SIGSTOP)) => Ok(waiting),
            other => bail!("the stand-in of the command did not stop as it should: {other:?}"),
        }
    }

    /// Its process id, which the command will have.
    pub(crate) fn pid(&self) -> Pid {
        nix_pid(&self.0)
    }

    /// Lets the stand-in become the command.
    pub(crate) fn go(self) -> Result<Running> {
        kill(self.pid(), Signal::SIGCONT).context("cannot let the command run")?;
        Ok(Running(self.0))
    }

    /// Ends the stand-in: the command is not to be run after all.
    pub(crate) fn abandon(mut self) {
        // It is stopped and ours; there is nothing to be done if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// The exit status, if the command has ended.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("cannot wait for the command")
    }

    /// Asks the command to end.
    pub(crate) fn terminate(&self) {
        // A command that has ended meanwhile needs no asking.
        let _ = kill(nix_pid(&self.0), Signal::SIGTERM);
    }
}

fn nix_pid(child: &Child) -> Pid {
    // Process ids are positive and below 2^22.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Status to exit with for a command that ended so: its own, or 128 + signal number.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok())
        .unwrap_or(1)
}

/// The stand-in: stops, and when it is continued becomes the command. Returns only on failure.
pub(crate) fn stand_in(command: &[OsString]) -> CannotRun {
    // Without its parent nobody would ever continue it.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let stopped = raise(Signal::SIGSTOP);
    let _ = prctl::set_pdeathsig(None);
    let Some((name, arguments)) = command.split_first() else {
        return CannotRun {
            message: "no command".to_owned(),
            status: NOT_FOUND,
        };
    };
    if let Err(error) = stopped {
        return CannotRun {
            message: format!("cannot stop: {error}"),
            status: NOT_EXECUTABLE,
        };
    }
    let error = Command::new(name).args(arguments).exec();
    let shown = Path::new(name).display();
    CannotRun {
        message: format!("cannot run '{shown}': {error}"),
        status: NOT_EXECUTABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are looked up as a shell does, with its exit statuses for what cannot be run.
    #[test]
    fn resolves_like_a_shell() {
        assert!(resolve(OsStr::new("sh")).is_ok());
        let status = |name: &str| resolve(OsStr::new(name)).err().map(|error| error.status);
        assert_eq!(status("no-such-command-anywhere"), Some(NOT_FOUND));
        assert_eq!(status("/no/such/file"), Some(NOT_FOUND));
        assert_eq!(status("/proc/self/status"), Some(NOT_EXECUTABLE));
        assert_eq!(status("/"), Some(NOT_EXECUTABLE));
    }

    /// A status is passed on as a shell would: the code, or 128 + the signal.
    #[test]
    fn statuses() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
