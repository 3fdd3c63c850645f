//! The package's whole life under a systemd: what an administrator and two users see of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};

use anyhow::{Result, ensure};
use serde_json::Value;
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::{as_root, gcc};

use crate::container::{self, Container, nspawn};
use crate::{busy_program, package_file, run};

/// Where the package's databases are.
const DATABASES: &str = "/var/lib/vcpi";

pub(crate) const LIFE: Test = test(
    "installed: start, readers, reload, failure, stop, upgrade, purge",
    life,
    &[as_root, gcc, nspawn],
);
/// Installed it runs at once, its readers are told apart, and it survives what happens to services;
/// purged, nothing of it is left.
fn life() -> Result<()> {
    let root = container::debian()?;
    let shared = tempfile::tempdir()?;
    fs::copy(package_file()?, shared.path().join("vcpi.deb"))?;
    newer(shared.path())?;
    busy_program(shared.path())?;

    let container = Container::boot(&root, shared.path())?;
    container.run(&["dpkg", "-i", "/mnt/vcpi.deb"])?;
    started(&container)?;
    let _busy = Busy(container.command(&["/mnt/busy"]).spawn()?);
    readers(&container)?;
    reload(&container)?;
    failure(&container)?;
    stop(&container)?;
    upgrade(&container)?;
    purge(&container)?;
    Ok(())
}

/// A program that runs inside until it is dropped.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended with the container.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the package again as its next version.
fn newer(shared: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    run(Command::new("dpkg-deb")
        .arg("-R")
        .arg(shared.join("vcpi.deb"))
        .arg(folder.path()))?;
    let control = folder.path().join("DEBIAN/control");
    let text = fs::read_to_string(&control)?;
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.strip_prefix("Version: ") {
            Some(version) => format!("Version: {version}+1"),
            None => line.to_owned(),
        })
        .collect();
    fs::write(&control, lines.join("\n") + "\n")?;
    run(Command::new("dpkg-deb")
        .args(["-Znone", "--root-owner-group", "-b"])
        .arg(folder.path())
        .arg(shared.join("newer.deb")))?;
    Ok(())
}

/// A property of the service.
fn shown(container: &Container, property: &str) -> Result<String> {
    container.run(&[
        "systemctl",
        "show",
        "--value",
        "-p",
        property,
        "vcpid.service",
    ])
}

/// Whether a unit is active.
fn state(container: &Container, unit: &str) -> Result<String> {
    let output = container.output(&["systemctl", "is-active", unit])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn ensure_state(container: &Container, unit: &str, expected: &str) -> Result<()> {
    let found = state(container, unit)?;
    ensure!(
        found == expected,
        "{unit} is {found}, not {expected}\n{}",
        container.journal()
    );
    Ok(())
}

/// The files of the database directory.
fn databases(container: &Container) -> Result<Vec<String>> {
    let list = container.run(&["ls", DATABASES])?;
    let files = list.lines().filter(|name| name.ends_with(".db"));
    Ok(files.map(str::to_owned).collect())
}

/// It is enabled, has said that it is ready, runs as its own user, and samples arrive.
fn started(container: &Container) -> Result<()> {
    for unit in ["vcpid.service", "vcpid.socket"] {
        ensure_state(container, unit, "active")?;
        container.run(&["systemctl", "is-enabled", unit])?;
    }
    let pid = shown(container, "MainPID")?;
    let status = container.run(&["cat", &format!("/proc/{pid}/status")])?;
    let root = status.lines().find(|line| line.starts_with("Uid:\t0"));
    ensure!(root.is_none(), "{status}");
    let modes = container.run(&[
        "stat",
        "-c",
        "%a %U",
        DATABASES,
        "/run/vcpi",
        "/run/vcpi/vcpid.sock",
    ])?;
    ensure!(modes == "700 vcpi\n755 vcpi\n666 root", "{modes}");
    container.until(&["vcpid", "ctl", "status", "--format", "json"], |output| {
        let status: Result<Value, _> = serde_json::from_slice(&output.stdout);
        status.is_ok_and(|status| status["samples"].as_u64() > Some(100))
    })?;
    Ok(())
}

/// The report that readers ask for here.
const TOP: [&str; 4] = ["vcpi", "top", "--format", "json"];

/// What comes of a command of a user who is in these groups.
fn by_user(container: &Container, groups: &str, command: &[&str]) -> Result<Output> {
    let user = ["setpriv", "--reuid=4321", "--regid=4321", groups];
    container.output(&[&user, command].concat())
}

/// The group sees the program by its function's name. A stranger sees nothing of it: without BPF,
/// which is not for containers, nothing says whose a sample was at its moment. Strangers do not
/// learn how the service is, and the group does not command it.
fn readers(container: &Container) -> Result<()> {
    let flush = ["vcpid", "ctl", "flush"];
    let has_name = |output: &Output| text(output).contains("busy_function");
    let (member, stranger) = ("--groups=vcpi", "--clear-groups");
    let by = |groups, command: &[&str]| by_user(container, groups, command);
    container.run(&flush)?;
    container.until(&["sh", "-c", "vcpid ctl flush && vcpi top"], has_name)?;
    let seen = by(member, &TOP)?;
    ensure!(seen.status.success() && has_name(&seen), text(&seen));
    let seen = by(stranger, &TOP)?;
    ensure!(!has_name(&seen), text(&seen));
    let status = ["vcpid", "ctl", "status"];
    let refused = by(stranger, &status)?;
    ensure!(!refused.status.success(), text(&refused));
    let told = by(member, &status)?;
    ensure!(told.status.success(), text(&told));
    let refused = by(member, &["vcpid", "ctl", "epoch"])?;
    ensure!(!refused.status.success(), text(&refused));
    Ok(())
}

/// Changes a line of the configuration.
fn configure(container: &Container, edit: &str) -> Result<()> {
    container.run(&["sed", "-i", edit, "/etc/vcpi/vcpid.toml"])?;
    Ok(())
}

/// A good configuration is applied, a wrong one is refused and the service goes on.
fn reload(container: &Container) -> Result<()> {
    configure(container, "s/^window = .*/window = 8/")?;
    container.run(&["systemctl", "reload", "vcpid.service"])?;
    container.until(&["ls", DATABASES], |output| {
        text(output).matches(".db\n").count() > 1
    })?;
    configure(container, "s/^window = .*/window = 0/")?;
    let refused = container.output(&["systemctl", "reload", "vcpid.service"])?;
    ensure!(!refused.status.success(), text(&refused));
    ensure_state(container, "vcpid.service", "active")
}

/// Killed, it comes back by itself; with a wrong configuration it does not begin, and is not tried
/// again and again.
fn failure(container: &Container) -> Result<()> {
    configure(container, "s/^window = .*/window = 16/")?;
    let killed = shown(container, "MainPID")?;
    container.run(&["sh", "-c", &format!("kill -9 {killed}")])?;
    let show = [
        "systemctl",
        "show",
        "-p",
        "NRestarts,SubState",
        "vcpid.service",
    ];
    container.until(&show, |output| {
        let text = text(output);
        text.contains("NRestarts=1") && text.contains("SubState=running")
    })?;
    container.run(&["vcpid", "ctl", "flush"])?;
    configure(container, "s/^window = .*/window = 0/")?;
    let refused = container.output(&["systemctl", "restart", "vcpid.service"])?;
    ensure!(!refused.status.success(), text(&refused));
    ensure_state(container, "vcpid.service", "failed")?;
    let status = shown(container, "ExecMainStatus")?;
    ensure!(status == "78", "exit status {status}");
    configure(container, "s/^window = .*/window = 12/")?;
    container.run(&["systemctl", "restart", "vcpid.service"])?;
    ensure_state(container, "vcpid.service", "active")
}

/// Stopped, it stays stopped whoever asks, and all databases are closed.
fn stop(container: &Container) -> Result<()> {
    container.run(&["systemctl", "stop", "vcpid.service"])?;
    ensure_state(container, "vcpid.service", "inactive")?;
    // The socket follows, by a job of its own that nobody here waits for.
    container.until(&["systemctl", "is-active", "vcpid.socket"], |output| {
        output.stdout == b"inactive\n"
    })?;
    let refused = by_user(container, "--clear-groups", &TOP)?;
    ensure!(!refused.status.success(), text(&refused));
    ensure_state(container, "vcpid.service", "inactive")?;
    let result = shown(container, "Result")?;
    ensure!(result == "success", "{result}");
    let list = container.run(&["ls", DATABASES])?;
    ensure!(!list.contains("-wal"), "{list}");
    Ok(())
}

/// A new version runs in place of the old one, with its databases and its configuration; one that
/// was stopped stays stopped.
fn upgrade(container: &Container) -> Result<()> {
    container.run(&["systemctl", "start", "vcpid.service"])?;
    let old = shown(container, "MainPID")?;
    let before = databases(container)?;
    container.run(&["dpkg", "-i", "/mnt/newer.deb"])?;
    ensure_state(container, "vcpid.service", "active")?;
    ensure!(shown(container, "MainPID")? != old, "the old version runs");
    let after = databases(container)?;
    ensure!(
        before.iter().all(|file| after.contains(file)),
        "{before:?}, then {after:?}"
    );
    container.run(&["grep", "-q", "^window = 12", "/etc/vcpi/vcpid.toml"])?;
    container.run(&["systemctl", "stop", "vcpid.service"])?;
    container.run(&["dpkg", "-i", "/mnt/newer.deb"])?;
    ensure_state(container, "vcpid.service", "inactive")?;
    container.run(&["systemctl", "start", "vcpid.service"])?;
    Ok(())
}

/// Removed, its data is still there; purged, nothing is: no file, no user, no group, no unit.
fn purge(container: &Container) -> Result<()> {
    container.run(&["dpkg", "-r", "vcpi"])?;
    ensure_state(container, "vcpid.service", "inactive")?;
    ensure!(!databases(container)?.is_empty(), "removing took the data");
    container.run(&["dpkg", "-P", "vcpi"])?;
    let paths = ["/etc/vcpi", DATABASES, "/run/vcpi", "/usr/bin/vcpid"];
    for path in paths {
        let output = container.output(&["test", "-e", path])?;
        ensure!(!output.status.success(), "{path} is left");
    }
    for table in ["passwd", "group"] {
        let output = container.output(&["getent", table, "vcpi"])?;
        ensure!(!output.status.success(), text(&output));
    }
    let units = container.run(&["systemctl", "list-unit-files", "--no-legend"])?;
    ensure!(!units.contains("vcpid"), "{units}");
    Ok(())
}
