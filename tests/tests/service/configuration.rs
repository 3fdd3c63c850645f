//! Configurations.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::bench::Bench;
use crate::common::{ensure, text};
use crate::{TestResult, done};

/// Runs a command of vcpid with a configuration.
fn run(bench: &Bench, command: &str, configuration: &Path) -> io::Result<Output> {
    Command::new(&bench.programs.vcpid)
        .args([command, "--config"])
        .arg(configuration)
        .output()
}

/// What is printed as the default can be used as it is.
pub(crate) fn default_file() -> TestResult {
    let bench = Bench::new()?;
    let printed = Command::new(&bench.programs.vcpid)
        .args(["serve", "--print-config"])
        .output()?;
    ensure(printed.status.success(), || text(&printed))?;
    fs::write(bench.path("default"), &printed.stdout)?;
    let checked = run(&bench, "check", &bench.path("default"))?;
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
            let output = run(&bench, command, &path)?;
            ensure(output.status.code() == Some(status), || text(&output))?;
            ensure(text(&output).contains(complaint), || text(&output))?;
        }
    }
    for (command, status) in [("check", 1), ("serve", 78)] {
        let missing = run(&bench, command, &bench.path("missing"))?;
        ensure(missing.status.code() == Some(status), || text(&missing))?;
        let reasons = text(&missing).matches("os error 2").count();
        ensure(reasons == 1, || text(&missing))?;
    }
    done()
}

/// `check --config` and `serve` say of a directory that cannot be used what it is and what would
/// mend it; what the service makes, or does without, is only said.
pub(crate) fn wrong_places() -> TestResult {
    let bench = Bench::new()?;
    let file = bench.path("file");
    fs::write(&file, "mine")?;
    let anothers = bench.path("another's");
    fs::create_dir(&anothers)?;
    fs::set_permissions(&anothers, fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::chown(&anothers, Some(65_534), None)?;
    for (place, parts) in [
        (&file, ["is a file", "directory of their own"]),
        (&anothers, ["belongs to nobody", "`chown "]),
    ] {
        let configuration = bench.configure_in(place, "")?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure(output.status.code() == Some(status), || text(&output))?;
            for part in parts {
                ensure(text(&output).contains(part), || text(&output))?;
            }
        }
    }
    ensure(fs::read(&file)? == b"mine", || {
        "it was written to".to_owned()
    })?;
    let configuration = bench.configure("access.group = \"no-such-group\"")?;
    let output = run(&bench, "check", &configuration)?;
    ensure(output.status.success(), || text(&output))?;
    for part in ["is not there yet", "no group no-such-group", "good"] {
        ensure(text(&output).contains(part), || text(&output))?;
    }
    done()
}

/// `check --config` and `serve` say that no socket can be where one is wanted.
pub(crate) fn wrong_sockets() -> TestResult {
    let bench = Bench::new()?;
    let file = bench.path("file");
    fs::write(&file, "mine")?;
    let configuration = bench.path("vcpid.toml");
    for (socket, part) in [(file, "file"), (bench.path(&"x".repeat(200)), "SUN_LEN")] {
        let text_of = format!(
            "database.directory = {:?}\naccess.socket = {socket:?}\n",
            bench.directory()
        );
        fs::write(&configuration, text_of)?;
        for (command, status) in [("check", 1), ("serve", 125)] {
            let output = run(&bench, command, &configuration)?;
            ensure(output.status.code() == Some(status), || text(&output))?;
            ensure(text(&output).contains(part), || text(&output))?;
        }
    }
    done()
}

/// A directory that others may get into is left as it is.
pub(crate) fn refused_directories() -> TestResult {
    let bench = Bench::new()?;
    let open = bench.path("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777))?;
    let configuration = bench.configure_in(&open, "")?;
    let output = run(&bench, "serve", &configuration)?;
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
