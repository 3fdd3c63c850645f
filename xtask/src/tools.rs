//! Cargo's subcommands that are no part of Rust's own, compiled into the target folder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;
use vcpi_tests::programs::target_dir;

use crate::process::{cargo, run as run_command};

/// The program of this name and version, compiled where it is not there yet.
///
/// # Errors
/// If it cannot be had.
pub(crate) fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let target = target_dir()?;
    let folder = target.join("tools");
    let program = folder.join("bin").join(name);
    let found = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    if found.is_ok_and(|found| String::from_utf8_lossy(&found.stdout).contains(version)) {
        return Ok(program);
    }
    let words = ["install", name, "--locked", "--version", version, "--root"];
    run_command(
        cargo(words.map(OsString::from).into_iter().chain([folder.into()]))
            .env("CARGO_TARGET_DIR", target.join("tools/build"))
            // It is to be there soon; it need not be fast.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    )?;
    Ok(program)
}
