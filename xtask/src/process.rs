//! Running other programs, visibly.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context, Result, bail};
use vcpi_tests::programs::root;

/// Prints a line of progress, apart from what programs print.
pub(crate) fn progress(text: &str) {
    eprintln!("==> {text}");
}

/// Cargo, as the one that runs this program, in the project's root folder.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_owned()));
    command.args(args).current_dir(root());
    command
}

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| {
            let word = word.to_string_lossy();
            let plain = !word.is_empty()
                && word
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c));
            if plain {
                word.into_owned()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Shows the command, runs it to its end, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    progress(&shown(command));
    let status = command
        .status()
        .with_context(|| format!("running {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}
