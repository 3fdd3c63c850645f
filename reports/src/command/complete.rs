//! What shells complete a command line with that only a profile knows: names of functions.
//!
//! The completions for the shells are written from the command line's definition. What is added
//! to them here has this program name the functions of the profile that is asked for on the very
//! line that is completed.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, parse};
use crate::reading;

/// The most names that a shell gets.
const MOST: usize = 2000;

/// How an argument that names a function begins in completions for zsh, and how it ends.
const OF_FUNCTION: &str = "'::function -- ";
const DEFAULT: &str = ":_default'";

/// A shell's completions, with names of functions added.
pub(super) fn with_names(shell: Shell, own: String) -> String {
    match shell {
        Shell::Bash => own + include_str!("complete/names.bash"),
        Shell::Fish => own + include_str!("complete/names.fish"),
        Shell::Zsh => {
            // An argument says itself what completes it.
            let lines = own.lines().map(|line| match line.contains(OF_FUNCTION) {
                true => line.replace(DEFAULT, ":_vcpi_functions'"),
                false => line.to_owned(),
            });
            let mut lines: Vec<String> = lines.collect();
            // The first line says what it is for.
            lines.insert(
                lines.len().min(1),
                include_str!("complete/names.zsh").to_owned(),
            );
            lines.join("\n") + "\n"
        }
        _ => own,
    }
}

/// The names of functions that may stand in place of the last of these words, one a line; none
/// where no name is asked for, or there is no profile. The words begin behind the program's name.
pub(super) fn names(words: &[OsString]) -> String {
    let Some((last, before)) = words.split_last() else {
        return String::new();
    };
    let last = last.to_string_lossy();
    if last.starts_with('-') || !takes_function(before) {
        return String::new();
    }
    // The rest of the line may be unfinished: what says where to read counts alone.
    let line = ["vcpi", "top"].map(OsString::from);
    let line = line.into_iter().chain(sources(before)).collect();
    let Ok(cli) = parse(line) else {
        return String::new();
    };
    let names = reading::functions(&cli.common).unwrap_or_default();
    let fitting = names.iter().filter(|name| name.starts_with(&*last));
    fitting.take(MOST).map(|name| format!("{name}\n")).collect()
}

/// Whether the word behind these names a function.
fn takes_function(before: &[OsString]) -> bool {
    let Some(previous) = before.last() else {
        return false;
    };
    if previous == "--function" {
        return true;
    }
    let command = Cli::command();
    let mut reports = before
        .iter()
        .filter_map(|word| command.find_subcommand(word));
    let Some(report) = reports.next() else {
        return false;
    };
    let of_function = |argument: &clap::Arg| argument.get_id() == "function";
    let mut arguments = command.get_arguments().chain(report.get_arguments());
    report.get_positionals().any(of_function)
        && !arguments.any(|argument| has_value(argument) && is_option(argument, previous))
}

fn has_value(argument: &clap::Arg) -> bool {
    argument.get_action().takes_values()
}

/// Whether a word is this option.
fn is_option(argument: &clap::Arg, word: &OsStr) -> bool {
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    [long, short]
        .iter()
        .flatten()
        .any(|option| word == option.as_str())
}

/// The options that say where to read, with their values.
fn sources(words: &[OsString]) -> Vec<OsString> {
    const OPTIONS: [&str; 3] = ["-i", "--input", "--image"];
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if OPTIONS.iter().any(|option| word == option) {
            found.extend(words.get(index..index + 2).unwrap_or_default().to_vec());
        } else if word.to_string_lossy().starts_with("--input=") {
            found.push(word.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is asked for behind a report that takes one, and behind the option; not where an
    /// option's value stands.
    #[test]
    fn where_names_stand() {
        let takes = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            takes_function(&words)
        };
        assert!(takes("list"));
        assert!(takes("-i other.db list --by-caller"));
        assert!(takes("top --function"));
        assert!(!takes("top"));
        assert!(!takes("list --image"));
        assert!(!takes("list -i"));
        assert!(!takes("-i"));
    }

    /// What says where to read is found in an unfinished line.
    #[test]
    fn where_to_read() {
        let words: Vec<OsString> = "-i a.db list --input=b.db --values"
            .split(' ')
            .map(OsString::from)
            .collect();
        assert_eq!(sources(&words), ["-i", "a.db", "--input=b.db"]);
    }

    /// Each shell asks the program for names; what is added is good shell.
    #[test]
    fn shells_ask() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let own = "#compdef vcpi\n'::function -- A name:_default' \\\n".to_owned();
            let text = with_names(shell, own);
            assert!(text.contains(" __complete -- "), "{text}");
        }
    }
}
