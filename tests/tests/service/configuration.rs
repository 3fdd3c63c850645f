//! Configurations.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::bench::Bench;
use crate::common::{ensure, text};
use crate::{TestResult, done};

/// What is printed as the default can be used as it is.
pub(crate) fn default_file() -> TestResult {
    let bench = Bench::new()?;
    let printed = Command::new(&bench.programs.vcpid)
        .args(["serve", "--print-config"])
        .output()?;
    ensure(printed.status.success(), || text(&printed))?;
    fs::write(bench.path("default"), &printed.stdout)?;
    let checked = Command::new(&bench.programs.vcpid)
        .args(["check", "--config"])
        .arg(bench.path("default"))
        .output()?;
    ensure(checked.status.success(), || text(&checked))?;
    done()
}

/// `check --config` and `serve` name the line and the reason; `serve` ends with the status by which
/// a service manager knows that a restart mends nothing.
pub(crate) fn wrong() -> TestResult {
    let bench = Bench::new()?;
    let path = bench.path("vcpid.toml");
    for (contents, complaint) in [
        ("[sampling]\n\nrte = 5\n", ":3:1: unknown field `rte`"),
        (
            "[sampling]\nrate = 0\n",
            ":2:8: 0 is not between 1 and 100000",
        ),
        (
            "[database]\ndirectory = \"x\"\n",
            ":2:13: \"x\" does not begin with '/'",
        ),
    ] {
        fs::write(&path, contents)?;
        for (command, status) in [("check", 1), ("serve", 78)] {
            let output = Command::new(&bench.programs.vcpid)
                .args([command, "--config"])
                .arg(&path)
                .output()?;
            ensure(output.status.code() == Some(status), || text(&output))?;
            ensure(text(&output).contains(complaint), || text(&output))?;
        }
    }
    let missing = Command::new(&bench.programs.vcpid)
        .args(["serve", "--config"])
        .arg(bench.path("missing"))
        .output()?;
    ensure(missing.status.code() == Some(78), || text(&missing))?;
    done()
}

/// A directory that others may get into is left as it is.
pub(crate) fn refused_directories() -> TestResult {
    let bench = Bench::new()?;
    let open = bench.path("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777))?;
    let configuration = bench.configure_in(&open, "")?;
    let output = Command::new(&bench.programs.vcpid)
        .args(["serve", "--config"])
        .arg(&configuration)
        .output()?;
    ensure(output.status.code() == Some(125), || text(&output))?;
    ensure(text(&output).contains("others may get into it"), || {
        text(&output)
    })?;
    ensure(fs::read_dir(&open)?.next().is_none(), || {
        "it was written to".to_owned()
    })?;
    let mode = fs::metadata(&open)?.permissions().mode();
    ensure(mode & 0o7777 == 0o1777, || format!("mode {mode:o}"))?;
    done()
}
