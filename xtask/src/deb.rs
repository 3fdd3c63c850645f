//! `cargo xtask deb`: the Debian package of both programs and the extension.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use vcpi_tests::programs::{Programs, root, target_dir};

use crate::process::{progress, run as run_command};
use crate::{setup, test, tools};

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
    let cargo_deb = tools::installed("cargo-deb", CARGO_DEB)?;
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
