//! Where the programs under test are, and how to call them.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The project's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// The two programs, built for release.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The collector.
    pub vcpid: PathBuf,
    /// The reports.
    pub vcpi: PathBuf,
}

impl Programs {
    /// Finds both programs beside the profile folder (`debug`, `release`) that
    /// the calling program was built into.
    ///
    /// # Errors
    /// If either does not exist; the message says how to build it.
    pub fn find() -> Result<Programs> {
        let release = target_dir()?.join("release");
        let find = |name: &str| {
            let path = release.join(name);
            if !path.is_file() {
                bail!(
                    "{} is missing: `cargo build --release` builds it",
                    path.display()
                );
            }
            Ok(path)
        };
        Ok(Programs {
            vcpid: find("vcpid")?,
            vcpi: find("vcpi")?,
        })
    }

    /// Runs `vcpi ARGS -i DATABASE --format json`. Exit code 1, "nothing
    /// matched", is an empty array.
    ///
    /// # Errors
    /// If it cannot be run, fails, or prints something else than JSON.
    pub fn report(&self, database: &Path, args: &[&str]) -> Result<Value> {
        let output = Command::new(&self.vcpi)
            .args(args)
            .arg("-i")
            .arg(database)
            .args(["--format", "json"])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {}", self.vcpi.display()))?;
        let what = format!("vcpi {}", args.join(" "));
        if output.status.code() == Some(1) {
            return Ok(Value::Array(Vec::new()));
        }
        check(&what, &output)?;
        serde_json::from_slice(&output.stdout).with_context(|| format!("the output of {what}"))
    }
}

/// The folder that cargo builds into.
///
/// # Errors
/// If the calling program does not lie in one.
pub fn target_dir() -> Result<PathBuf> {
    let own = std::env::current_exe().context("asking for the own path")?;
    own.ancestors()
        .find(|path| {
            matches!(
                path.file_name().and_then(OsStr::to_str),
                Some("debug" | "release")
            )
        })
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .with_context(|| format!("{} is not in cargo's target folder", own.display()))
}

/// The extension for `sqlite3`, built for release.
///
/// # Errors
/// If it does not exist; the message says how to build it.
pub fn extension() -> Result<PathBuf> {
    let path = target_dir()?.join("release/libvcpi_sqlite.so");
    if !path.is_file() {
        bail!("{} is missing: `cargo xtask deb` builds it", path.display());
    }
    Ok(path)
}

/// Removes a database of an earlier run, with what SQLite left beside it.
///
/// # Errors
/// If it is there and cannot be removed.
pub fn remove_database(database: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Turns a failed run into an error that shows what the program said.
pub(crate) fn check(what: &str, output: &Output) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    bail!(
        "{what} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
}
