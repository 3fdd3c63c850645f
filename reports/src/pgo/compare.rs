//! Two builds that run in turn.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::How;
use super::steps::BuildStep;
use crate::args::Common;
use crate::failure::Failure;
use crate::messages::say;
use crate::stdout;
use crate::trial::{self, Candidate};

/// The program that a build is: the file of that name here, if there is one, before what the search
/// path has.
fn program(build: &OsStr) -> OsString {
    let path = Path::new(build);
    match path.components().count() == 1 && path.is_file() {
        true => Path::new(".").join(path).into_os_string(),
        false => build.to_owned(),
    }
}

/// The command that runs a build.
fn candidate(build: &OsStr, command: &[OsString]) -> Candidate {
    let is_whole = |word: &OsString| word.to_string_lossy().contains("{}");
    let words: Vec<OsString> = match command.iter().any(is_whole) {
        true => command
            .iter()
            .map(|word| match is_whole(word) {
                true => word
                    .to_string_lossy()
                    .replace("{}", &build.to_string_lossy())
                    .into(),
                false => word.clone(),
            })
            .collect(),
        false => std::iter::once(build.to_owned())
            .chain(command.iter().cloned())
            .collect(),
    };
    Candidate {
        text: BuildStep::new(words.iter().cloned()).to_string(),
        words,
    }
}

/// Runs both builds, and prints which one takes less.
///
/// # Errors
/// If one cannot be run, or fails.
pub(super) fn run(
    common: &Common,
    builds: [&OsStr; 2],
    rounds: u16,
    how: How,
    command: &[OsString],
) -> Result<(), Failure> {
    let commands = builds.map(|build| candidate(&program(build), command));
    if how.dry_run {
        for command in &commands {
            stdout::write(format!("{}\n", command.text).as_bytes())?;
        }
        return Ok(());
    }
    for command in &commands {
        say(&format!("$ {}", command.text));
    }
    let trial = trial::run(&commands, rounds)?;
    let text = common.format.renderer().render(&trial, common.names())?;
    Ok(stdout::write(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// Builds are told the words of a command, or stand in it where it says so.
    #[test]
    fn commands() {
        let of = |command| candidate(OsStr::new("./a"), &words(command)).text;
        assert_eq!(of("bench.lua 10"), "./a bench.lua 10");
        assert_eq!(of("nice {} --x"), "nice ./a --x");
        assert_eq!(candidate(OsStr::new("./a"), &[]).text, "./a");
    }
}
