//! Whether the service can use a configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Result;
use nix::unistd::User;
use serde_json::json;

use crate::output;
use crate::serve;
use crate::settings::args::FormatArg;
use crate::settings::config::{self, Config, ConfigError};

/// The user as whom the package's service runs.
const PACKAGE_USER: &str = "vcpi";

/// Says whether the service can use this configuration: exit status 0, or 1 and why not. What it
/// does without, or makes itself, is said.
pub(super) fn check_config(path: &Path, format: FormatArg) -> Result<u8> {
    let checked = check(path);
    if format == FormatArg::Json {
        let said = match &checked {
            Ok(warnings) => json!({ "config": path, "good": true, "warnings": warnings }),
            Err(error) => json!({ "config": path, "good": false, "error": error }),
        };
        output::print(&format!("{said:#}\n"))?;
    }
    match checked {
        Ok(warnings) => {
            if format == FormatArg::Text {
                warnings
                    .iter()
                    .for_each(|warning| eprintln!("vcpid: {warning}"));
                output::print(&format!("{}: good\n", path.display()))?;
            }
            Ok(0)
        }
        Err(error) => {
            eprintln!("vcpid: {error}");
            Ok(1)
        }
    }
}

/// What is to be said of a configuration that can be used, or why it cannot.
fn check(path: &Path) -> Result<Vec<String>, String> {
    let config = Config::read(path).map_err(|error| output::chain(&error))?;
    let users = users();
    if let Some(refusal) = serve::place::socket_refusal(&config.access.socket.0, &users) {
        return Err(at(path, "access", "socket", &refusal));
    }
    let directory = check_directory(&config.database.directory.0, &users)
        .map_err(|refusal| at(path, "database", "directory", &refusal))?;
    let group = serve::group(&config.access.group).err();
    Ok(directory.into_iter().chain(group).collect())
}

/// A refusal of what a key says, with the place where the file says it.
fn at(path: &Path, section: &str, key: &str, refusal: &str) -> String {
    let reason = refusal.to_owned();
    let Some((line, column)) = config::place_of(path, section, key) else {
        // It is the default.
        return reason;
    };
    let path = path.to_owned();
    let wrong = ConfigError::Wrong {
        path,
        line,
        column,
        reason,
    };
    wrong.to_string()
}

/// As whom the service may run: the package's as a user of its own, without a package as root.
fn users() -> Vec<u32> {
    let package = User::from_name(PACKAGE_USER).ok().flatten();
    let package = package.map(|user| user.uid.as_raw()).into_iter();
    package
        .chain([nix::unistd::geteuid().as_raw(), 0])
        .collect()
}

/// Whether the service can have its databases there, with what is to be said of it where it can.
fn check_directory(path: &Path, users: &[u32]) -> Result<Option<String>, String> {
    if let Some(refusal) = serve::place::kernels_own(path) {
        return Err(refusal);
    }
    match fs::metadata(path) {
        Ok(metadata) => serve::place::refusal(path, &metadata, users).map_or(Ok(None), Err),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let warning = format!("{} is not there yet; the service makes it", path.display());
            serve::place::cannot_be_made(path).map_or(Ok(Some(warning)), Err)
        }
        Err(error) => Ok(Some(format!(
            "{} cannot be looked at ({error}), so whether the service can use it is not known",
            path.display()
        ))),
    }
}
