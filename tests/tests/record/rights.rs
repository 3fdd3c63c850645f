//! A user without privileges: what they may record, and what they are told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;

use crate::bench::Bench;

/// `command` as the user `nobody`, who has no privileges at all.
fn as_nobody(command: &Command) -> Command {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    other.arg(command.get_program()).args(command.get_args());
    other
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    other
}

/// The program where anybody may execute it, and a folder where anybody may write.
fn open_to_all(bench: &mut Bench) -> Result<()> {
    fs::set_permissions(bench.folder.path(), fs::Permissions::from_mode(0o777))?;
    let copy = bench.path("vcpid");
    fs::copy(&bench.programs.vcpid, &copy)?;
    bench.programs.vcpid = copy;
    Ok(())
}

pub(crate) const UNPRIVILEGED: Test = test(
    "an unprivileged user records an own command",
    unprivileged,
    &[as_root],
);
fn unprivileged() -> Result<()> {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output =
        as_nobody(&bench.record(&["--", "xz", "-9", "--stdout", "/usr/bin/gcc"])).output()?;
    ensure!(output.status.success(), text(&output));
    let status = bench.status()?;
    ensure!(status["samples"].as_u64() > Some(20), "{status}");
    ensure!(status["value_events"].as_u64() > Some(20), "{status}");
    let kernel: i64 = bench.query(
        "SELECT count(*) FROM cycles JOIN subject ON subject.id = cycles.subject WHERE subject.kernel",
    )?;
    ensure!(kernel == 0, "{kernel} rows of the kernel");
    let others: i64 = bench.query("SELECT count(*) FROM subject WHERE uid IS NOT 65534")?;
    ensure!(others == 0, "rows of another user");
    Ok(())
}

pub(crate) const NO_PERMISSION: Test = test(
    "without permission the message says what would do",
    no_permission,
    &[as_root],
);
fn no_permission() -> Result<()> {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output = as_nobody(&bench.record(&["-a", "-d", "1"])).output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    let said = text(&output);
    for word in ["perf_event_paranoid", "CAP_PERFMON"] {
        ensure!(said.contains(word), "{said}");
    }
    Ok(())
}

pub(crate) const REFUSED: Test = test(
    "nothing is written where sampling is refused",
    refused,
    &[as_root],
);
fn refused() -> Result<()> {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output = as_nobody(&bench.record(&["-a", "-d", "1"])).output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    ensure!(!bench.path("db").exists(), "a database was made");
    Ok(())
}

pub(crate) const ANOTHER_USERS_PROCESS: Test = test(
    "another user's process is refused with what is true",
    another_users_process,
    &[as_root],
);
/// A setting that allows what is asked for is not what is blamed, and nothing is said twice.
fn another_users_process() -> Result<()> {
    let mut bench = Bench::new()?;
    open_to_all(&mut bench)?;
    let output = as_nobody(&bench.record(&["-p", "1", "-d", "1"])).output()?;
    ensure!(output.status.code() == Some(125), text(&output));
    let said = text(&output);
    let paranoid: i32 = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")?
        .trim()
        .parse()?;
    let reason = match paranoid {
        ..=2 => "another user's process",
        _ => "perf_event_paranoid to 2",
    };
    for word in [reason, "CAP_PERFMON"] {
        ensure!(said.contains(word), "{said}");
    }
    ensure!(said.matches("cannot sample").count() == 1, "{said}");
    ensure!(!bench.path("db").exists(), "a database was made");
    Ok(())
}
