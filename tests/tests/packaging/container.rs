//! A Debian with its own systemd in a container, thrown away at the end.

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use vcpi_tests::harness::text;
use vcpi_tests::needs::Missing;
use vcpi_tests::programs::target_dir;

use crate::run;

/// How long booting may take, and how long anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// Seconds after which a command in the container is ended.
const COMMAND_SECONDS: &str = "90";
/// Seconds that fetching a Debian may take.
const FETCH_SECONDS: &str = "400";
/// Besides what a minimal Debian has: systemd, and what the package depends on.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,libelf1,init-system-helpers,passwd";
/// What profiling needs inside; nspawn leaves these out by itself.
const CAPABILITIES: &str =
    "CAP_PERFMON,CAP_BPF,CAP_SYS_PTRACE,CAP_SYSLOG,CAP_CHECKPOINT_RESTORE,CAP_DAC_READ_SEARCH";

/// A running container.
pub(crate) struct Container {
    nspawn: Child,
    leader: u32,
    _folder: TempDir,
}

/// What runs a container.
pub(crate) fn nspawn() -> Result<(), Missing> {
    let programs = ["apt-get", "debootstrap", "nsenter", "systemd-nspawn"];
    let missing = programs.iter().find(|program| !is_program(program));
    missing.map_or(Ok(()), |program| Err(Missing(format!("needs {program}"))))
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .any(|folder| folder.join(name).is_file())
}

/// The root folder of a minimal Debian as this machine's is, fetched once.
pub(crate) fn debian() -> Result<PathBuf> {
    let release = fs::read_to_string("/etc/os-release")?;
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let Some(codename) = codename else {
        bail!(Missing::new("needs Debian or one of its descendants"));
    };
    let target = target_dir()?;
    let folder = target.join("packaging");
    let root = folder.join(codename);
    if root.is_dir() {
        return Ok(root);
    }
    let mirrors = run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        &format!("Codename: {codename}"),
        "Component: main",
        "Created-By: Packages",
    ]))?;
    let Some(mirror) = mirrors.lines().next() else {
        bail!(Missing::new("needs a mirror of packages"));
    };
    fs::create_dir_all(&folder)?;
    let unfinished = tempfile::tempdir_in(&folder)?;
    let output = Command::new("timeout")
        .args([FETCH_SECONDS, "debootstrap", "--variant=minbase"])
        .arg(format!("--include={PACKAGES}"))
        .arg(codename)
        .arg(unfinished.path())
        .arg(mirror)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let all = text(&output);
        let last = all.trim_end().lines().next_back().unwrap_or_default();
        bail!(Missing(format!("needs a mirror of packages: {last}")));
    }
    fs::rename(unfinished.keep(), &root)?;
    Ok(root)
}

impl Container {
    /// Boots; `shared` is to be seen inside at `/mnt`.
    pub(crate) fn boot(root: &Path, shared: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("notify");
        let manager = UnixDatagram::bind(&socket)?;
        manager.set_read_timeout(Some(Duration::from_secs(1)))?;
        let console = folder.path().join("console");
        let output = File::create(&console)?;
        let mut nspawn = Command::new("systemd-nspawn")
            .args(["--quiet", "--boot", "--register=no", "--keep-unit"])
            .args(["--settings=no", "--link-journal=no", "--console=pipe"])
            // Nothing that happens inside stays.
            .args(["--volatile=overlay", "--notify-ready=yes"])
            .args(["--private-network", "--resolv-conf=off", "--timezone=off"])
            .arg(format!("--machine=vcpi-{}", std::process::id()))
            .arg(format!("--capability={CAPABILITIES}"))
            .arg("--system-call-filter=perf_event_open bpf")
            .arg(format!("--bind-ro={}:/mnt", shared.display()))
            .arg("--directory")
            .arg(root)
            .env("NOTIFY_SOCKET", &socket)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .spawn()?;
        let leader = await_ready(&manager, &mut nspawn).inspect_err(|_| {
            // It may have ended.
            let _ = nspawn.kill();
            let _ = nspawn.wait();
        });
        let leader = match leader {
            Ok(leader) => leader,
            Err(error) => {
                let said = fs::read_to_string(&console).unwrap_or_default();
                bail!("{error:#}\n{said}");
            }
        };
        Ok(Self {
            nspawn,
            leader,
            _folder: folder,
        })
    }

    /// A command that will run inside.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args([COMMAND_SECONDS, "nsenter", "--target"])
            .arg(self.leader.to_string())
            .args([
                "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd=/",
            ])
            .arg("--")
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command inside.
    pub(crate) fn output(&self, words: &[&str]) -> Result<Output> {
        Ok(self.command(words).output()?)
    }

    /// Runs a command inside and returns what it printed; fails if it fails.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        let output = self.output(words)?;
        ensure!(
            output.status.success(),
            "{words:?}: {}\n{}",
            text(&output),
            self.journal()
        );
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Runs a command until what it gives pleases; fails after a while.
    pub(crate) fn until(
        &self,
        words: &[&str],
        pleases: impl Fn(&Output) -> bool,
    ) -> Result<Output> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.output(words)?;
            if pleases(&output) {
                return Ok(output);
            }
            ensure!(
                Instant::now() < deadline,
                "{words:?}: {}\n{}",
                text(&output),
                self.journal()
            );
        }
    }

    /// What the service has said inside.
    pub(crate) fn journal(&self) -> String {
        let words = ["journalctl", "--no-pager", "--lines=40", "--unit=vcpid*"];
        self.output(&words)
            .map_or_else(|_| String::new(), |output| text(&output))
    }
}

/// Waits until it has booted; returns the id of its first process.
fn await_ready(manager: &UnixDatagram, nspawn: &mut Child) -> Result<u32> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = nspawn.try_wait()? {
            bail!("the container ended with {status}");
        }
        let mut message = [0; 4096];
        let Ok(length) = manager.recv(&mut message) else {
            continue;
        };
        if String::from_utf8_lossy(&message[..length]).contains("READY=1") {
            // The first process is nspawn's only child.
            let pid = nspawn.id();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
            let first = children.split_whitespace().next();
            return Ok(first.context("the container is empty")?.parse()?);
        }
    }
    bail!("the container did not boot")
}

impl Drop for Container {
    fn drop(&mut self) {
        // The first process takes all others with it, and nspawn ends. Both may be gone.
        let _ = kill(Pid::from_raw(self.leader.cast_signed()), Signal::SIGKILL);
        let _ = self.nspawn.kill();
        let _ = self.nspawn.wait();
    }
}
