//! The units, and what makes the user and the folders, as systemd's own tools see them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use vcpi_tests::harness::{Test, test, text};
use vcpi_tests::needs::as_root;
use vcpi_tests::programs::Programs;

use crate::{run, systemd_file};

/// How exposed the service may be, of 10.
const MOST_EXPOSED: f64 = 3.0;

pub(crate) const VERIFIED: Test = test("systemd finds nothing wrong with the units", verified, &[]);
/// No unknown key, no value that systemd does not take, no unit that is not there.
fn verified() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let vcpid = Programs::find()?.vcpid;
    for unit in ["vcpid.service", "vcpid.socket"] {
        let text = fs::read_to_string(systemd_file(unit))?;
        // It looks for the program as well, which is not installed here.
        let text = text.replace("/usr/bin/vcpid", &vcpid.display().to_string());
        fs::write(folder.path().join(unit), text)?;
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(folder.path().join("vcpid.service"))
        .arg(folder.path().join("vcpid.socket"))
        .output()?;
    ensure!(
        output.status.success() && output.stderr.is_empty(),
        text(&output)
    );
    Ok(())
}

pub(crate) const EXPOSURE: Test = test("the sandbox is as strict as was measured", exposure, &[]);
/// systemd's own measure of what a service could do if it were taken over.
fn exposure() -> Result<()> {
    let text = run(Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(systemd_file("vcpid.service")))?;
    let level = text
        .split_once("Overall exposure level for vcpid.service: ")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
        .with_context(|| text.clone())?;
    ensure!(level <= MOST_EXPOSED, "{level}:\n{text}");
    println!("exposure level {level}");
    Ok(())
}

pub(crate) const FOLDERS: Test = test(
    "user, group and folders are made as the units need them",
    folders,
    &[as_root],
);
/// The databases are for nobody but the service, and the socket's folder is for all.
fn folders() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("etc"))?;
    let root = format!("--root={}", folder.path().display());
    run(Command::new("systemd-sysusers")
        .arg(&root)
        .arg(systemd_file("sysusers.conf")))?;
    run(Command::new("systemd-tmpfiles")
        .args([&root, "--create"])
        .arg(systemd_file("tmpfiles.conf")))?;
    let group = fs::read_to_string(folder.path().join("etc/group"))?;
    let id: u32 = group
        .lines()
        .find_map(|line| {
            line.strip_prefix("vcpi:x:")?
                .split(':')
                .next()?
                .parse()
                .ok()
        })
        .with_context(|| group.clone())?;
    for (path, mode) in [("run/vcpi", 0o755), ("var/lib/vcpi", 0o700)] {
        let metadata = fs::metadata(folder.path().join(path))?;
        let found = metadata.permissions().mode() & 0o7777;
        ensure!(
            found == mode && metadata.gid() == id,
            "{path}: mode {found:o}, group {}",
            metadata.gid()
        );
    }
    Ok(())
}
