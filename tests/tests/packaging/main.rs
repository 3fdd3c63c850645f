//! What is installed, and how it does there: the units, the Debian package, and both under a real
//! systemd.
//!
//! Needs what `cargo xtask deb` makes. The live tests need root, a systemd to run (not to be
//! running), debootstrap and a mirror of Debian's packages, and say so where one is missing.

#[path = "../common/mod.rs"]
mod common;
mod container;
mod installed;
mod manager;
mod package;
mod sandbox;
#[path = "../common/trial.rs"]
mod trial;
mod units;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use common::{ensure, text};
use libtest_mimic::{Arguments, Failed};
use trial::{Test, TestResult, done, trials};
use vcpi_tests::programs::{Programs, root, target_dir};

/// A file of the project's folder `systemd`.
fn systemd_file(name: &str) -> PathBuf {
    root().join("systemd").join(name)
}

fn programs() -> Result<Programs, Failed> {
    Ok(Programs::find().map_err(|error| format!("{error:#}"))?)
}

/// The Debian package; fails unless it holds the programs as they are now.
fn package_file() -> Result<PathBuf, Failed> {
    let target = target_dir().map_err(|error| format!("{error:#}"))?;
    let package = target.join("debian/vcpi.deb");
    let made = package
        .metadata()
        .map_err(|_| "there is no Debian package: `cargo xtask deb` makes it")?
        .modified()?;
    let programs = programs()?;
    for program in [programs.vcpid, programs.vcpi] {
        ensure(program.metadata()?.modified()? <= made, || {
            format!("{} is newer than the Debian package", program.display())
        })?;
    }
    Ok(package)
}

/// Runs a command to its end and returns what it printed; fails if it fails.
fn run(command: &mut Command) -> Result<String, Failed> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    ensure(output.status.success(), || {
        format!("{command:?}: {}", text(&output))
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles the program that keeps a processor busy; it needs no library where it runs.
fn busy_program(folder: &std::path::Path) -> Result<PathBuf, Failed> {
    let program = folder.join("busy");
    let source = root().join("tests/tests/packaging/busy.c");
    let mut gcc = Command::new("gcc");
    run(gcc
        .args(["-O1", "-g", "-static", "-o"])
        .arg(&program)
        .arg(source))?;
    Ok(program)
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [(&str, Test); 10] = [
        (
            "systemd finds nothing wrong with the units",
            units::verified,
        ),
        ("the sandbox is as strict as was measured", units::exposure),
        (
            "user, group and folders are made as the units need them",
            units::folders,
        ),
        (
            "the package has what it should, and nothing is writable",
            package::contents,
        ),
        ("lintian finds no error in the package", package::checked),
        ("each command has its manual page", package::manual),
        (
            "the configuration is the default one, and kept",
            package::configuration,
        ),
        ("completions are good shell", package::completions),
        (
            "in the sandbox, programs in homes, deleted ones and those of containers have values and names",
            sandbox::all_programs,
        ),
        (
            "installed: start, readers, reload, failure, stop, upgrade, purge",
            installed::life,
        ),
    ];
    libtest_mimic::run(&arguments, trials(tests)).exit_code()
}
