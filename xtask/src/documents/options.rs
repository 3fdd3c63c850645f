//! Options that documents name exist in the help of the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::CommandFactory;
use vcpi_tests::programs::Programs;

use super::{File, Finding, prose, spans};

/// The options of each command, as `vcpid record`, `vcpi` or `cargo xtask hunt`.
#[derive(Debug, Default)]
pub(super) struct CommandOptions(BTreeMap<String, BTreeSet<String>>);

impl CommandOptions {
    /// Asks the programs for their help.
    pub(super) fn of_programs() -> Result<CommandOptions> {
        let programs = Programs::find()?;
        let mut known = CommandOptions::default();
        for (name, path) in [("vcpid", &programs.vcpid), ("vcpi", &programs.vcpi)] {
            let text = help(path, &["--help"])?;
            for command in subcommands(&text) {
                let own = help(path, &[command, "--help"])?;
                let mut of_command = options(&own);
                // Kinds of a command have options of their own.
                for kind in subcommands(&own) {
                    of_command.extend(options(&help(path, &[command, kind, "--help"])?));
                }
                known.0.insert(format!("{name} {command}"), of_command);
            }
            // It has no help of its own.
            known.0.insert(format!("{name} help"), BTreeSet::new());
            known.0.insert(name.to_owned(), options(&text));
        }
        let own = crate::Args::command();
        known.0.insert(XTASK.to_owned(), BTreeSet::new());
        for command in own.get_subcommands() {
            let long = command.get_arguments().filter_map(|arg| arg.get_long());
            let options = long.map(|name| format!("--{name}")).collect();
            known
                .0
                .insert(format!("{XTASK} {}", command.get_name()), options);
        }
        Ok(known)
    }

    /// The options of this command of this program, if there is one.
    fn of(&self, program: &str, command: Option<&str>) -> Option<&BTreeSet<String>> {
        match command {
            Some(command) => self.0.get(&format!("{program} {command}")),
            None => self.0.get(program),
        }
    }

    /// Whether any command has this option.
    fn anywhere(&self, option: &str) -> bool {
        self.0.values().any(|options| options.contains(option))
    }

    /// Whether a program has a command of this name.
    fn is_command(&self, name: &str) -> bool {
        let mut names = self.0.keys().filter_map(|key| key.rsplit_once(' '));
        names.any(|(_, command)| command == name)
    }
}

/// The front door's name.
const XTASK: &str = "cargo xtask";

/// What a program prints about itself.
fn help(program: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    String::from_utf8(output.stdout).context("help that is no text")
}

/// The commands that a help text lists.
fn subcommands(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// The options in a help text.
fn options(help: &str) -> BTreeSet<String> {
    help.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'))
        .filter(|word| word.starts_with('-') && word.len() > 1)
        .map(str::to_owned)
        .collect()
}

/// The commands and options of a document that do not exist.
pub(super) fn check(file: &File, known: &CommandOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (i, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            let line = line.trim_start();
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.split(" #").next().unwrap_or(line);
            for command in line.split([';', '|']) {
                let complaint = wrong(command, known, false);
                findings.extend(complaint.map(|what| Finding::new(file, i + 1, what)));
            }
        }
    }
    for (number, line) in prose(&file.text) {
        for span in spans(line) {
            let complaint = wrong(span, known, true);
            findings.extend(complaint.map(|what| Finding::new(file, number, what)));
        }
    }
    findings
}

/// What is wrong with a command line, or with what a sentence says of one (`record --rate`).
fn wrong(text: &str, known: &CommandOptions, is_sentence: bool) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (program, rest) = match words.as_slice() {
        ["cargo", "xtask", rest @ ..] => (XTASK, rest),
        [program @ ("vcpi" | "vcpid"), rest @ ..] => (*program, rest),
        [first, ..] if is_sentence && (first.starts_with("--") || known.is_command(first)) => {
            let options = given(&words);
            return options
                .into_iter()
                .find(|option| !known.anywhere(option))
                .map(|option| format!("no program has {option}"));
        }
        _ => return None,
    };
    let command = rest.first().filter(|word| is_name(word)).copied();
    let Some(options) = known.of(program, command) else {
        return Some(format!("{program} has no command {}", command?));
    };
    let unknown = given(rest)
        .into_iter()
        .find(|option| !options.contains(*option))?;
    Some(format!(
        "{program} {} has no {unknown}",
        command.unwrap_or_default()
    ))
}

/// Whether a word is the name of a command, and not a placeholder or an option.
fn is_name(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '-')
}

/// The options among the words, up to `--`, behind which they are another program's.
fn given<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let own = words.iter().take_while(|word| **word != "--");
    own.filter(|word| {
        let name = word.trim_start_matches('-');
        word.starts_with('-') && name.starts_with(|letter: char| letter.is_ascii_alphabetic())
    })
    // A time such as -10min is none.
    .filter(|word| word.starts_with("--") || word.len() == 2)
    .filter_map(|word| word.split('=').next())
    .map(|word| word.trim_end_matches([',', '.', ')']))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;

    const HELP: &str = "Usage: vcpid\n\nCommands:\n  record  Profile\n          a program\n  \
                        help    Print\n\nOptions:\n  -a, --all <X>  All\n";

    fn known() -> CommandOptions {
        let mut known = CommandOptions::default();
        known.0.insert("vcpid".to_owned(), options(HELP));
        let record = options("-o, --output <FILE>\n --rate <HZ>");
        known.0.insert("vcpid record".to_owned(), record);
        known
    }

    fn findings(text: &str) -> Vec<String> {
        let found = check(&document(text), &known());
        found.into_iter().map(|finding| finding.what).collect()
    }

    /// Commands and options are read from a help text.
    #[test]
    fn help_text() {
        assert_eq!(subcommands(HELP), ["record"]);
        assert!(options(HELP).contains("--all") && options(HELP).contains("-a"));
    }

    /// What exists is let be, in code and in sentences; behind `--` and in other programs' lines,
    /// anything is.
    #[test]
    fn what_exists() {
        let text = "`vcpid record --rate 5`, `--rate`, `record -o FILE`, `git --no-pager`\n\
                    ```\nvcpid record -o A -- ls --color   # --comment\ncargo fuzz run\n```\n";
        assert_eq!(findings(text), [""; 0]);
    }

    /// A command or option that no help has is told.
    #[test]
    fn what_does_not() {
        assert_eq!(findings("`--speed`"), ["no program has --speed"]);
        assert_eq!(findings("`vcpid replay`"), ["vcpid has no command replay"]);
        let line = "```sh\nvcpid record --speed 5\n```\n";
        assert_eq!(findings(line), ["vcpid record has no --speed"]);
    }
}
