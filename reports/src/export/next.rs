//! Commands that use an export, as a shell takes them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::STDOUT;
use crate::shell::{quoted, rust_flags};
use crate::toolchain::{self, Tool};

/// What steps of `vcpi pgo` have in their environment. They say nothing of what comes next: other
/// steps do that.
pub(crate) const STEP: &str = "VCPI_PGO_STEP";

/// Whether this export is a step of `vcpi pgo`.
pub(super) fn is_step() -> bool {
    std::env::var_os(STEP).is_some()
}

/// What the file is called in commands.
pub(super) fn file(output: Option<&PathBuf>) -> String {
    let named = output.filter(|path| path.as_path() != Path::new(STDOUT));
    named.map_or_else(|| "FILE".to_owned(), |path| path.display().to_string())
}

/// What the names of tools end in: the newest version that has all of them, or as many of the first
/// ones as there are; nothing without any.
pub(super) fn version(tools: &[Tool]) -> String {
    let fewer = (1..=tools.len()).rev();
    let mut found = fewer.filter_map(|count| toolchain::version(tools.get(..count)?).ok());
    found.next().unwrap_or_default()
}

/// A command of these words.
pub(super) fn command<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let words = words.into_iter().map(|word| quoted(word.as_ref()));
    words.collect::<Vec<_>>().join(" ")
}

/// A build by cargo with these flags of rustc.
pub(super) fn cargo<W: Into<OsString>>(flags: impl IntoIterator<Item = W>) -> String {
    let flags: Vec<OsString> = flags.into_iter().map(Into::into).collect();
    let (variable, value) = rust_flags(&flags, false);
    format!("{variable}={} cargo build --release", quoted(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names are as a shell takes them, and what goes to standard output has none.
    #[test]
    fn commands() {
        let file = file(Some(&PathBuf::from("a b")));
        assert_eq!(command(["go", &format!("-pgo={file}")]), "go '-pgo=a b'");
        assert_eq!(super::file(Some(&PathBuf::from("-"))), "FILE");
        assert_eq!(super::file(None), "FILE");
        assert_eq!(
            cargo(["-Ca", "-Cb=c"]),
            "RUSTFLAGS='-Ca -Cb=c' cargo build --release"
        );
        let spaced = cargo(["-Ca", "-Cb=c d"]);
        assert!(spaced.starts_with("CARGO_ENCODED_RUSTFLAGS="), "{spaced}");
    }
}
