//! `cargo xtask ci`: everything a change must pass.

use std::process::Command;

use anyhow::{Context, Result};
use vcpi_tests::programs::{root, target_dir};

use crate::documents;
use crate::kernels;
use crate::layers;
use crate::process::{cargo, run as run_command};
use crate::setup::{self, Need};
use crate::tools;

/// The version of cargo-deny, which reads `deny.toml`.
const CARGO_DENY: &str = "0.20.2";

/// Formatting, set-up, lints, docs, layers, licences, the fuzz targets, the extension, then the
/// README's test command, and at last the handler on another kernel: what one verifier takes,
/// another may refuse.
pub(crate) fn run() -> Result<()> {
    run_command(&mut cargo(["fmt", "--all", "--check"]))?;
    // Linting builds what needs a compiler for the kernel's side.
    setup::run(Need::Test)?;
    run_command(&mut cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        "vcpi/look",
        "--",
        "-D",
        "warnings",
    ]))?;
    run_command(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    layers::run()?;
    documents::check_text()?;
    packages()?;
    fuzz_targets()?;
    extension()?;

    // What the README tells people is what is run, so that the two cannot drift.
    let readme = std::fs::read_to_string(root().join("README.md")).context("reading README.md")?;
    let words = test_command(&readme).context("README.md shows no `cargo xtask test`")?;
    let (program, args) = words.split_first().context("an empty command")?;
    run_command(Command::new(program).args(args).current_dir(root()))?;
    // The programs are built by now.
    documents::check_options()?;
    kernels::run_where_possible()
}

/// Licences and origins of the packages that the programs are made of, as `deny.toml` allows them.
fn packages() -> Result<()> {
    let deny = tools::installed("cargo-deny", CARGO_DENY)?;
    for manifest in ["Cargo.toml", "sqlite/Cargo.toml"] {
        run_command(
            Command::new(&deny)
                .current_dir(root())
                .args(["--locked", "--manifest-path", manifest])
                .args(["--config", "deny.toml", "check"])
                .args(["--hide-inclusion-graph", "licenses", "bans", "sources"]),
        )?;
    }
    Ok(())
}

/// Formatting and lints of the fuzz targets: they still fit what they fuzz.
fn fuzz_targets() -> Result<()> {
    // Nothing is linked: the fuzzer itself, which is C++, need not be built.
    own_workspace(
        "fuzz/Cargo.toml",
        &[("CUSTOM_LIBFUZZER_PATH", "unused/libfuzzer.a")],
    )
}

/// Formatting and lints of the extension for `sqlite3`.
fn extension() -> Result<()> {
    own_workspace("sqlite/Cargo.toml", &[])
}

/// Formatting and lints of a package that is a workspace of its own.
fn own_workspace(manifest: &str, environment: &[(&str, &str)]) -> Result<()> {
    let own = ["--manifest-path", manifest];
    run_command(cargo(["fmt", "--check"]).args(own))?;
    run_command(
        cargo(["clippy", "--locked"])
            .args(own)
            .arg("--target-dir")
            .arg(target_dir()?)
            .args(["--", "-D", "warnings"])
            .envs(environment.iter().copied()),
    )
}

/// The words of the first line in a code block that starts with `cargo xtask
/// test`, without its comment.
fn test_command(readme: &str) -> Option<Vec<String>> {
    let mut in_block = false;
    for line in readme.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let command = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = command.split_whitespace().collect();
        if in_block && words.starts_with(&["cargo", "xtask", "test"]) {
            return Some(words.into_iter().map(str::to_owned).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command is taken from a code block, without its comment, never from prose.
    #[test]
    fn command_of_a_readme() {
        let readme = "run\ncargo xtask test --prose\n```sh\ncargo xtask demo\n\
                      cargo xtask test   # all\n```\n";
        assert_eq!(test_command(readme).unwrap(), ["cargo", "xtask", "test"]);
        assert_eq!(
            test_command("```\ncargo test\n```\ncargo xtask test\n"),
            None
        );
    }

    /// The project's own README shows the command.
    #[test]
    fn command_of_our_readme() {
        let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
        assert!(test_command(&readme).is_some());
    }
}
