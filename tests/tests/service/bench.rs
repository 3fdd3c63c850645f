//! A service under test, and what it says to its manager and to the journal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};
use vcpi_tests::harness::text;
use vcpi_tests::programs::Programs;
use vcpi_tests::rows::Rows;

/// How long anything is waited for before the test fails.
const PATIENCE: Duration = Duration::from_secs(90);

/// A folder of its own, and the programs.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    pub(crate) programs: Programs,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let programs = Programs::find()?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            programs,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the service keeps its databases unless a test says otherwise.
    pub(crate) fn directory(&self) -> PathBuf {
        self.path("db")
    }

    /// Writes a configuration: places in the folder, what `more` says in its fifth line, and,
    /// unless that says otherwise, a flush each second.
    pub(crate) fn configure(&self, more: &str) -> Result<PathBuf> {
        self.configure_in(&self.directory(), more)
    }

    /// As [`configure`](Self::configure) with databases elsewhere.
    pub(crate) fn configure_in(&self, directory: &Path, more: &str) -> Result<PathBuf> {
        let flush = match more.contains("flush_seconds") {
            true => "",
            false => "collection.flush_seconds = 1",
        };
        let clock = match more.contains("sampling.clock") {
            true => "",
            false => "sampling.clock = \"cpu-clock\"",
        };
        let text = format!(
            "access.socket = {:?}\n{clock}\n\
             database.directory = {directory:?}\n{flush}\n{more}\n",
            self.path("socket"),
        );
        let path = self.path("vcpid.toml");
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Starts the service and waits until it is ready.
    pub(crate) fn start(&self, configuration: &Path) -> Result<Service> {
        let mut service = self.spawn(configuration, &[])?;
        service.await_told("READY=1")?;
        Ok(service)
    }

    /// Starts it as `start` does, under another program that becomes it.
    pub(crate) fn start_under(&self, words: &[&str], configuration: &Path) -> Result<Service> {
        let mut command = Command::new(words.first().context("no program")?);
        command.args(words.get(1..).unwrap_or_default());
        command.arg(&self.programs.vcpid);
        let mut service = self.spawn_as(command, configuration, &[])?;
        service.await_told("READY=1")?;
        Ok(service)
    }

    /// Starts the service.
    pub(crate) fn spawn(
        &self,
        configuration: &Path,
        environment: &[(&str, &str)],
    ) -> Result<Service> {
        let command = Command::new(&self.programs.vcpid);
        self.spawn_as(command, configuration, environment)
    }

    fn spawn_as(
        &self,
        mut command: Command,
        configuration: &Path,
        environment: &[(&str, &str)],
    ) -> Result<Service> {
        let socket = self.path("manager");
        // That of a service before.
        let _ = fs::remove_file(&socket);
        let manager = listen(UnixDatagram::bind(&socket)?);
        let mut child = command
            .args(["serve", "--config"])
            .arg(configuration)
            .env("NOTIFY_SOCKET", &socket)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines = follow(child.stderr.take().context("no standard error")?);
        Ok(Service {
            child,
            manager,
            lines,
            said: Vec::new(),
        })
    }

    /// Runs `vcpid ctl`.
    pub(crate) fn ctl(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.programs.vcpid);
        command.arg("ctl").args(args);
        command.arg("--socket").arg(self.path("socket"));
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// The databases in their order.
    pub(crate) fn databases(&self) -> Result<Vec<PathBuf>> {
        self.files(".db")
    }

    /// Files of the directory whose names end so, in their order.
    pub(crate) fn files(&self, end: &str) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.directory())? {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(end) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The lines of a program, as they come.
fn follow(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // The test may be over.
            let _ = sender.send(line);
        }
    });
    lines
}

/// What comes to a manager's socket. It is always read, since few messages have room there.
fn listen(socket: UnixDatagram) -> Receiver<String> {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        let mut message = [0; 4096];
        while let Ok(length) = socket.recv(&mut message) {
            let text = String::from_utf8_lossy(&message[..length]).into_owned();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    messages
}

/// A running service.
pub(crate) struct Service {
    child: Child,
    manager: Receiver<String>,
    lines: Receiver<String>,
    /// Lines that have been looked at.
    pub(crate) said: Vec<String>,
}

impl Service {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the manager is told something with this in it, and returns that.
    pub(crate) fn await_told(&mut self, part: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}: {:?}", self.all_said());
            }
            // A short time, so that a service that has ended is noticed.
            match self.manager.recv_timeout(Duration::from_millis(500)) {
                Ok(message) if message.contains(part) => return Ok(message),
                _ => {}
            }
        }
        bail!("the manager was not told {part:?}: {:?}", self.all_said())
    }

    /// Waits for so many flushes from now on.
    pub(crate) fn await_flushes(&mut self, flushes: usize) -> Result<()> {
        while self.manager.try_recv().is_ok() {}
        for _ in 0..flushes {
            self.await_told("STATUS=")?;
        }
        Ok(())
    }

    /// Waits for a line with this in it, which may have been said before.
    pub(crate) fn await_line(&mut self, part: &str) -> Result<String> {
        let found = |said: &[String]| said.iter().find(|line| line.contains(part)).cloned();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(line) = found(&self.said) {
                return Ok(line);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                Err(_) => bail!("not said: {part:?}; said: {:?}", self.said),
            }
        }
    }

    /// Waits until so many lines with this in them have been said.
    pub(crate) fn await_times(&mut self, times: usize, part: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.times_said(part) < times {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                Err(_) => bail!("not said {times} times: {:?}", self.said),
            }
        }
        Ok(())
    }

    /// Everything it has said so far.
    pub(crate) fn all_said(&mut self) -> &[String] {
        self.said.extend(self.lines.try_iter());
        &self.said
    }

    /// How many lines so far have this in them.
    pub(crate) fn times_said(&mut self, part: &str) -> usize {
        let said = self.all_said().iter();
        said.filter(|line| line.contains(part)).count()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        Ok(kill(pid, signal)?)
    }

    /// Has it end; fails unless it does so successfully, and returns how long it took.
    pub(crate) fn stop(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.signal(Signal::SIGTERM)?;
        let status = self.wait()?;
        let took = begun.elapsed();
        // What it said last.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.said.push(line);
        }
        ensure!(status.success(), "{status}: {:?}", self.said);
        Ok(took)
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
    }

    /// A line of its `/proc/PID/status`, in kB.
    pub(crate) fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let figure = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        figure.context("no such line")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a query gives of a database that nobody writes to.
pub(crate) fn query<T: FromSql>(database: &Path, sql: &str) -> Result<T> {
    let rows = Rows::of(database)?;
    let connection = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Fails unless SQLite finds the database whole, and every flush in it: the samples per PC are
/// those that were counted for the flush, but for what was counted as lost.
pub(crate) fn ensure_whole(database: &Path) -> Result<()> {
    let connection = Connection::open(database)?;
    let found: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    ensure!(found == "ok", "{}: {found}", database.display());
    let rows = Rows::of(database)?;
    let connection = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let broken: i64 = connection.query_row(
        "SELECT count(*) FROM flush WHERE
           (SELECT coalesce(sum(samples), 0) FROM cycles WHERE flush = flush.id) !=
           (SELECT coalesce(sum(value), 0) FROM counter
            WHERE flush = flush.id AND kind = 'run' AND name = 'samples') -
           (SELECT coalesce(sum(value), 0) FROM counter
            WHERE flush = flush.id AND kind = 'lost' AND name = 'table_full_samples')",
        [],
        |row| row.get(0),
    )?;
    ensure!(
        broken == 0,
        "{}: {broken} flushes are not whole",
        database.display()
    );
    Ok(())
}

/// A file system of its own, a few MiB large, unmounted at the end.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: &Path) -> Result<Self> {
        fs::create_dir(at)?;
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs"],
            at,
        )?;
        Ok(Self(at.to_owned()))
    }

    /// Mounts it anew with these options.
    pub(crate) fn remount(&self, options: &str) -> Result<()> {
        run("mount", &["-o", &format!("remount,{options}")], &self.0)
    }

    pub(crate) fn fill(&self) -> Result<()> {
        // Ends with an error when the disk is full, which is meant.
        let _ = fs::write(self.0.join("ballast"), vec![1; 48 << 20]);
        Ok(())
    }

    /// Fills it but for so many bytes.
    pub(crate) fn fill_but(&self, room: u64) -> Result<()> {
        self.fill()?;
        let ballast = fs::OpenOptions::new()
            .write(true)
            .open(self.0.join("ballast"))?;
        let length = ballast.metadata()?.len();
        Ok(ballast.set_len(length.saturating_sub(room))?)
    }

    pub(crate) fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.0.join("ballast"))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the folder is then left behind.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(program: &str, args: &[&str], path: &Path) -> Result<()> {
    let output = Command::new(program).args(args).arg(path).output()?;
    ensure!(output.status.success(), text(&output));
    Ok(())
}

/// A process that keeps a processor busy until it is dropped.
pub(crate) struct Burner(Child);

impl Burner {
    pub(crate) fn start() -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It ends by nothing else.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
