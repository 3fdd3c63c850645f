//! What is installed, and how it does there: the units, the Debian package, and both under a real
//! systemd.
//!
//! Needs what `cargo xtask deb` makes. The live tests need root, a systemd to run (not to be
//! running), debootstrap and a mirror of Debian's packages, and say so where one is missing.

mod container;
mod installed;
mod manager;
mod package;
mod sandbox;
mod units;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::Arguments;
use vcpi_tests::harness::{self, text};
use vcpi_tests::programs::{Programs, root, target_dir};

/// A file of the project's folder `systemd`.
fn systemd_file(name: &str) -> PathBuf {
    root().join("systemd").join(name)
}

/// The Debian package; fails unless it holds the programs as they are now.
fn package_file() -> Result<PathBuf> {
    let target = target_dir()?;
    let package = target.join("debian/vcpi.deb");
    let made = package
        .metadata()
        .context("there is no Debian package: `cargo xtask deb` makes it")?
        .modified()?;
    let programs = Programs::find()?;
    for program in [programs.vcpid, programs.vcpi] {
        ensure!(
            program.metadata()?.modified()? <= made,
            "{} is newer than the Debian package",
            program.display()
        );
    }
    Ok(package)
}

/// Runs a command to its end and returns what it printed; fails if it fails.
fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", text(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles the program that keeps a processor busy; it needs no library where it runs.
fn busy_program(folder: &std::path::Path) -> Result<PathBuf> {
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
    let tests = [
        units::VERIFIED,
        units::EXPOSURE,
        units::FOLDERS,
        package::CONTENTS,
        package::CHECKED,
        package::MANUAL,
        package::CONFIGURATION,
        package::COMPLETIONS,
        sandbox::ALL_PROGRAMS,
        installed::LIFE,
    ];
    harness::run(&Arguments::from_args(), tests).exit_code()
}
