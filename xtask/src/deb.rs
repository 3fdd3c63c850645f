//! `cargo xtask deb`: the Debian package of both programs and the extension.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use vcpi_tests::programs::{Programs, root, target_dir};

use crate::process::{cargo, progress, run as run_command};
use crate::{setup, test};

/// The version of cargo-deb, which makes the package.
const CARGO_DEB: &str = "3.8.0";

/// Sets up, builds for release, and makes the package; returns where it is.
pub(crate) fn run() -> Result<PathBuf> {
    setup::run(setup::Need::Test)?;
    test::build()?;
    test::build_extension()?;
    let target = target_dir()?;
    let programs = Programs::find()?;
    document(&programs, &target.join("release/package"))?;
    let cargo_deb = cargo_deb(&target)?;
    let package = target.join("debian/vcpi.deb");
    progress("making the Debian package");
    run_command(
        Command::new(cargo_deb)
            .current_dir(root())
            // Cargo calls its subcommands so.
            .args([
                "deb",
                "--package",
                "vcpid",
                "--no-build",
                "--strip",
                "--output",
            ])
            .arg(&package)
            .env("CARGO_TARGET_DIR", &target),
    )?;
    println!("{}", package.display());
    Ok(package)
}

/// Has both programs write their manual pages and completions to a folder.
fn document(programs: &Programs, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for program in [&programs.vcpid, &programs.vcpi] {
        run_command(Command::new(program).arg("__document").arg(folder))?;
    }
    // Manual pages are to be compressed, without a time of day in them.
    let mut gzip = Command::new("gzip");
    gzip.arg("-9n");
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            gzip.arg(path);
        }
    }
    run_command(&mut gzip)
}

/// cargo-deb, compiled into the target folder where it is not there yet.
fn cargo_deb(target: &Path) -> Result<PathBuf> {
    let folder = target.join("tools");
    let program = folder.join("bin/cargo-deb");
    let found = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    if found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains(CARGO_DEB)) {
        return Ok(program);
    }
    let words = [
        "install",
        "cargo-deb",
        "--locked",
        "--version",
        CARGO_DEB,
        "--root",
    ];
    run_command(
        cargo(words.map(OsString::from).into_iter().chain([folder.into()]))
            .env("CARGO_TARGET_DIR", target.join("tools/build"))
            // It is to be there soon; it need not be fast.
            .env("CARGO_PROFILE_RELEASE_LTO", "off"),
    )?;
    Ok(program)
}
