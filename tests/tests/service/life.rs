//! From the start to the end of a service.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::{Bench, Burner, ensure_whole, query};

pub(crate) const WHOLE: Test = test(
    "it is ready, alive, and ends at SIGTERM with all saved",
    whole,
    &[as_root],
);
/// The manager hears that it is ready, that it is alive, and that it stops; the database is then
/// closed and has everything.
fn whole() -> Result<()> {
    let bench = Bench::new()?;
    let _burner = Burner::start()?;
    let configuration = bench.configure("")?;
    // Half a second: told of progress four times a second.
    let mut service = bench.spawn(&configuration, &[("WATCHDOG_USEC", "500000")])?;
    service.await_told("READY=1")?;
    for _ in 0..4 {
        service.await_told("WATCHDOG=1")?;
    }
    let told = service.await_told("STATUS=")?;
    ensure!(told.contains("samples"), "{told}");
    let took = service.stop()?;
    ensure!(took < Duration::from_secs(5), "it took {took:?}");
    let databases = bench.databases()?;
    ensure!(databases.len() == 1, "{databases:?}");
    ensure_whole(&databases[0])?;
    ensure!(bench.files("-wal")?.is_empty(), "a log is left");
    let closed: i64 = query(
        &databases[0],
        "SELECT count(*) FROM epoch WHERE ended IS NOT NULL",
    )?;
    let samples: i64 = query(&databases[0], "SELECT sum(samples) FROM cycles")?;
    let command: String = query(&databases[0], "SELECT command FROM epoch")?;
    ensure!(
        closed == 1 && samples > 100 && command == "serve",
        "{closed} closed, {samples} samples of {command:?}"
    );
    ensure!(!bench.path("socket").exists(), "the socket is left");
    let last = format!("{samples} samples, ");
    ensure!(
        service
            .said
            .iter()
            .any(|line| line.contains(&last) && line.contains("written to")),
        "{:?}",
        service.said
    );
    let status = bench.programs.report(&bench.directory(), &["status"])?;
    ensure!(status["samples"].as_i64() == Some(samples), "{status}");
    Ok(())
}

pub(crate) const CLOSED_TO_OTHERS: Test = test(
    "what it writes is closed to others",
    closed_to_others,
    &[as_root],
);
/// Directory and files are for root alone; the socket is for all, who are told apart there.
fn closed_to_others() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    service.await_flushes(1)?;
    let mode = |path: &std::path::Path| -> Result<u32, std::io::Error> {
        Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
    };
    let directory = mode(&bench.directory())?;
    ensure!(directory == 0o700, "directory {directory:o}");
    let mut files = 0;
    for entry in fs::read_dir(bench.directory())? {
        let path = entry?.path();
        let mode = mode(&path)?;
        ensure!(mode == 0o600, "{} {mode:o}", path.display());
        files += 1;
    }
    ensure!(files >= 2, "{files} files");
    let socket = fs::metadata(bench.path("socket"))?;
    ensure!(
        socket.file_type().is_socket() && mode(&bench.path("socket"))? == 0o666,
        "{socket:?}"
    );
    service.stop()?;
    Ok(())
}

pub(crate) const CHANGED_RIGHTS: Test = test(
    "rights that change under it are put right or said",
    changed_rights,
    &[as_root],
);
/// A directory that is opened to others is closed again, and a socket that is closed to them
/// opened; what only its owner can mend is said, once, for as long as it lasts. Databases are
/// closed by their own mode all along.
fn changed_rights() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    let directory = bench.directory();
    let socket = bench.path("socket");
    let mode = |path: &Path| -> Result<u32, io::Error> {
        Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
    };
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set(&directory, 0o755)?;
    set(&socket, 0o600)?;
    service.await_line("had got mode 755")?;
    service.await_line("it is open again")?;
    let modes = (mode(&directory)?, mode(&socket)?);
    ensure!(modes == (0o700, 0o666), "{:o} {:o}", modes.0, modes.1);
    chown(&directory, Some(65_534), None)?;
    set(&bench.path(""), 0o777)?;
    service.await_line("keeping others out of the databases: ")?;
    service.await_line("listening to readers: ")?;
    let database = mode(&bench.databases()?[0])?;
    ensure!(database == 0o600, "{database:o}");
    chown(&directory, Some(0), None)?;
    set(&bench.path(""), 0o700)?;
    service.await_line("keeping others out of the databases: works again")?;
    service.await_line("listening to readers: works again")?;
    for trouble in ["belongs to nobody", "has mode 777"] {
        let times = service.times_said(trouble);
        ensure!(times == 1, "{trouble:?} was said {times} times");
    }
    service.stop()?;
    Ok(())
}

pub(crate) const ONE_AT_A_TIME: Test = test(
    "a second service in the directory is refused",
    one_at_a_time,
    &[as_root],
);
/// Two services in one directory would remove each other's epochs.
fn one_at_a_time() -> Result<()> {
    let bench = Bench::new()?;
    let configuration = bench.configure("")?;
    let _service = bench.start(&configuration)?;
    let second = Command::new(&bench.programs.vcpid)
        .args(["serve", "--config"])
        .arg(&configuration)
        .stdin(Stdio::null())
        .output()?;
    ensure!(second.status.code() == Some(125), text(&second));
    for words in ["another service", "[database]"] {
        ensure!(text(&second).contains(words), text(&second));
    }
    Ok(())
}

pub(crate) const REMOVED_SOCKET: Test = test(
    "a socket that was removed is made anew",
    removed_socket,
    &[as_root],
);
/// Readers find a service whose socket was removed, or taken away with its folder, after its next
/// look; it ends with nothing left.
fn removed_socket() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    let socket = bench.path("socket");
    for times in 1..=2 {
        fs::remove_file(&socket)?;
        service.await_times(times, "it is made anew")?;
        let status = bench.ctl(&["status"])?;
        ensure!(status.status.success(), text(&status));
        let mode = fs::metadata(&socket)?.permissions().mode() & 0o7777;
        ensure!(mode == 0o666, "{mode:o}");
    }
    service.stop()?;
    ensure!(!socket.exists(), "the socket is left");
    Ok(())
}

pub(crate) const REMOVED_SOCKET_OF_THE_MANAGER: Test = test(
    "a socket of the manager's that was removed is a trouble",
    removed_socket_of_the_manager,
    &[as_root],
);
/// The service cannot make the manager's socket: it says how that is mended, and goes on sampling.
/// The socket that it was handed is put back by its other name.
fn removed_socket_of_the_manager() -> Result<()> {
    let bench = Bench::new()?;
    let configuration = bench.configure("")?;
    let (socket, other) = (bench.path("socket"), bench.path("other-name"));
    let listener = UnixListener::bind(&socket)?;
    fcntl(&listener, FcntlArg::F_SETFD(FdFlag::empty()))?;
    let number = listener.as_raw_fd().to_string();
    let handed = [("LISTEN_FDS", "1"), ("LISTEN_FDS_FIRST_FD", &number)];
    let mut service = bench.spawn(&configuration, &handed)?;
    service.await_told("READY=1")?;
    fs::rename(&socket, &other)?;
    let line = service.await_line("listening to readers: ")?;
    ensure!(line.contains("systemctl restart vcpid"), "{line}");
    fs::rename(&other, &socket)?;
    service.await_line("listening to readers: works again")?;
    let status = bench.ctl(&["status"])?;
    ensure!(status.status.success(), text(&status));
    ensure!(
        service.times_said("systemctl restart vcpid") == 1,
        "{:?}",
        service.said
    );
    service.stop()?;
    ensure!(socket.exists(), "it removed the manager's socket");
    Ok(())
}

pub(crate) const RELOAD: Test = test(
    "a signal has the configuration read again",
    reload,
    &[as_root],
);
/// What can be applied is, in a new epoch where that is needed; what cannot is said; what is wrong
/// changes nothing.
fn reload() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("")?)?;
    bench.configure("sampling.window = 0")?;
    service.signal(Signal::SIGHUP)?;
    service.await_told("RELOADING=1")?;
    service.await_told("READY=1")?;
    let line = service.await_line("stays as it was")?;
    ensure!(line.contains(":5:19: 0 is not between"), "{line}");
    bench.configure_in(&bench.path("elsewhere"), "")?;
    service.signal(Signal::SIGHUP)?;
    service.await_line("until vcpid is restarted")?;
    ensure!(bench.databases()?.len() == 1, "a new epoch");
    bench.configure("sampling.window = 7")?;
    service.signal(Signal::SIGHUP)?;
    service.await_line("sampling begins anew")?;
    service.await_line("000002.db")?;
    service.stop()?;
    let databases = bench.databases()?;
    ensure!(databases.len() == 2, "{databases:?}");
    for (database, expected) in databases.iter().zip([256, 7]) {
        ensure_whole(database)?;
        let window: i64 = query(database, "SELECT window FROM epoch")?;
        ensure!(window == expected, "window {window}");
    }
    Ok(())
}

pub(crate) const PER_PROCESS: Test = test(
    "processes are told apart only if configured",
    per_process,
    &[as_root],
);
/// Without per-process detail there is one process for all; images and owners stay apart.
fn per_process() -> Result<()> {
    let bench = Bench::new()?;
    let _burners = [Burner::start()?, Burner::start()?];
    let mut service = bench.start(&bench.configure("collection.per_process = false")?)?;
    service.await_flushes(2)?;
    service.stop()?;
    let database = &bench.databases()?[0];
    ensure_whole(database)?;
    let processes: i64 = query(database, "SELECT count(*) FROM process")?;
    let images: i64 = query(database, "SELECT count(*) FROM image")?;
    let subjects: i64 = query(database, "SELECT count(*) FROM subject")?;
    ensure!(
        processes == 1 && images > 1 && subjects > 1,
        "{processes} processes, {images} images, {subjects} subjects"
    );
    Ok(())
}

pub(crate) const MANY_PROCESSES: Test = test(
    "ten thousand processes come and go in bounded memory",
    many_processes,
    &[as_root],
);
/// The memory that ten thousand processes leave behind is that of what is kept of them, which is
/// bounded.
fn many_processes() -> Result<()> {
    let bench = Bench::new()?;
    let mut service = bench.start(&bench.configure("collection.memory_mib = 16")?)?;
    service.await_flushes(1)?;
    let start = |count: u32| -> Result<()> {
        let script = format!("i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done");
        let status = Command::new("sh").args(["-c", &script]).status()?;
        ensure!(status.success(), "{status}");
        Ok(())
    };
    start(2000)?;
    service.await_flushes(2)?;
    let before = service.memory("VmRSS:")?;
    start(8000)?;
    service.await_flushes(2)?;
    let after = service.memory("VmRSS:")?;
    // Exited processes are kept for late samples, 4096 of them.
    ensure!(
        after < before + 64 * 1024,
        "{before} kB after 2000 processes, {after} kB after 10,000"
    );
    service.stop()?;
    let database = &bench.databases()?[0];
    ensure_whole(database)?;
    Ok(())
}
