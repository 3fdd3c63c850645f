//! The service under test: in a directory of its own, sampling this machine.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use vcpi_tests::harness::text;
use vcpi_tests::needs::{Missing, Need, as_root, gcc, program};
use vcpi_tests::programs::Programs;

use crate::reader::{Reader, unpacked};

/// How long the service may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running service; dropped, it is ended.
pub(crate) struct Service {
    folder: TempDir,
    child: Child,
}

impl Service {
    /// Starts it, with further lines for the section `[access]`, and waits until it samples.
    pub(crate) fn start(access: &str) -> Result<Service> {
        Self::start_with("bpf", access)
    }

    /// As [`Service::start`], with another engine.
    pub(crate) fn start_with(engine: &str, access: &str) -> Result<Service> {
        let programs = Programs::find()?;
        let folder = TempDir::new()?;
        let path = |name: &str| folder.path().join(name);
        // Other users have to get to their programs and to the socket.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        for (from, to) in [
            (std::env::current_exe()?, "reader"),
            (programs.vcpi, "vcpi"),
        ] {
            fs::copy(from, path(to))?;
            fs::set_permissions(path(to), Permissions::from_mode(0o755))?;
        }
        let mut config = String::new();
        writeln!(
            config,
            "[sampling]\nengine = {engine:?}\nclock = \"cpu-clock\"\nrate = 1000"
        )?;
        writeln!(config, "[collection]\nflush_seconds = 3600")?;
        writeln!(config, "[database]\ndirectory = {:?}", path("databases"))?;
        // Values that were met a few times are looked for, on a machine that does more than this.
        writeln!(config, "hour_mib = 1048576")?;
        writeln!(config, "[governor]\nbudget_percent = 100.0")?;
        writeln!(
            config,
            "[access]\nsocket = {:?}\ngroup = \"daemon\"\nanswer_seconds = 300\n{access}",
            path("socket")
        )?;
        fs::write(path("vcpid.toml"), config)?;
        let manager = UnixDatagram::bind(path("notify"))?;
        manager.set_read_timeout(Some(PATIENCE))?;
        let child = Command::new(&programs.vcpid)
            .arg("serve")
            .arg("--config")
            .arg(path("vcpid.toml"))
            .env("NOTIFY_SOCKET", path("notify"))
            .stderr(fs::File::create(path("journal"))?)
            .spawn()?;
        let mut service = Service { folder, child };
        let mut buffer = [0; 4096];
        loop {
            let received = manager.recv(&mut buffer);
            let said = match &received {
                Ok(length) => String::from_utf8_lossy(&buffer[..*length]),
                Err(_) => "".into(),
            };
            if said.lines().any(|line| line == "READY=1") {
                // It may speak on, to nobody.
                return Ok(service);
            }
            if received.is_err() || service.child.try_wait()?.is_some() {
                bail!("the service does not start: {}", service.journal());
            }
        }
    }

    /// What it has said.
    pub(crate) fn journal(&self) -> String {
        fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default()
    }

    /// A file of the test that everybody can get at.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    pub(crate) fn databases(&self) -> PathBuf {
        self.path("databases")
    }

    /// This program where other users can run it.
    pub(crate) fn helper(&self) -> PathBuf {
        self.path("reader")
    }

    /// `vcpid ctl` with these words.
    pub(crate) fn control(&self, word: &str) -> Result<Output> {
        Ok(Command::new(Programs::find()?.vcpid)
            .args(["ctl", word, "--socket"])
            .arg(self.socket())
            .output()?)
    }

    /// Has it write all that it has.
    pub(crate) fn flush(&self) -> Result<()> {
        let output = self.control("flush")?;
        if output.status.success() {
            Ok(())
        } else {
            bail!(text(&output))
        }
    }

    /// `vcpi` with these words on the service's socket, as this reader, in a folder without
    /// databases.
    pub(crate) fn report(&self, reader: Reader, words: &[&str]) -> io::Result<Output> {
        reader
            .command(&self.path("vcpi"))
            .arg("-i")
            .arg(self.socket())
            .args(words)
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
    }

    /// The bytes of all files in the directory of databases, and those of what is packed in them.
    pub(crate) fn all_bytes(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.databases())? {
            let path = entry?.path();
            files.push((path.clone(), fs::read(&path)?));
            if path.extension().is_some_and(|extension| extension == "db") {
                files.push((path.clone(), unpacked(&path)?));
            }
        }
        Ok(files)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).unwrap_or(0);
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGTERM,
        );
        let _ = self.child.wait();
    }
}

/// The id of the group that the service is configured with: one that every system has.
pub(crate) fn group() -> Result<u32> {
    let group = nix::unistd::Group::from_name("daemon")?;
    Ok(group.context("there is no group 'daemon'")?.gid.as_raw())
}

/// What tests of several people need: users, programs with rights of their own, and a service that
/// samples with the engine `bpf`.
pub(crate) const PEOPLE: &[Need] = &[as_root, gcc, setpriv, setcap, service];

fn setpriv() -> Result<(), Missing> {
    program("setpriv", "--version")
}

fn setcap() -> Result<(), Missing> {
    program("setcap", "-h")
}

fn service() -> Result<(), Missing> {
    static TRIED: OnceLock<Result<(), Missing>> = OnceLock::new();
    let tried = || match Service::start("") {
        Ok(_) => Ok(()),
        Err(error) => Err(Missing(format!(
            "needs the engine bpf with the clock cpu-clock: {error:#}"
        ))),
    };
    TRIED.get_or_init(tried).clone()
}
