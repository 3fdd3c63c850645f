//! Steps of a build: other programs, and the plain commands that run them.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// A command with what it is told in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildStep {
    /// Variables that it has besides those that all have.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// The program, and what it is told.
    pub(super) words: Vec<OsString>,
    /// A file that it writes, and what it lacked where that has nothing in it.
    pub(super) writes: Option<(PathBuf, &'static str)>,
}

impl BuildStep {
    /// A command of these words.
    pub(super) fn new<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> BuildStep {
        BuildStep {
            variables: Vec::new(),
            words: words.into_iter().map(Into::into).collect(),
            writes: None,
        }
    }

    /// Runs it, and waits for its end.
    ///
    /// # Errors
    /// If it cannot be run, fails, or leaves an empty file behind.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let failed = |why: String| Failure::Program(format!("{why}: {self}"));
        let Some((program, rest)) = self.words.split_first() else {
            return Err(failed("no command".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(rest);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        let status = command.status();
        let status = status.map_err(|error| failed(format!("cannot run this step ({error})")))?;
        if !status.success() {
            return Err(failed(format!("this step failed ({status})")));
        }
        let Some((file, lacked)) = &self.writes else {
            return Ok(());
        };
        match file.metadata() {
            Ok(written) if written.len() > 0 => Ok(()),
            _ => {
                let file = file.display();
                Err(failed(format!("this step left {file} empty ({lacked})")))
            }
        }
    }
}

impl fmt::Display for BuildStep {
    /// The command as a shell takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| quoted(word));
        let all: Vec<String> = variables.chain(words).collect();
        f.write_str(&all.join(" "))
    }
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A program of others, and the package of Debian that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Compiles, with profiles.
pub(super) const CLANG: Tool = Tool {
    name: "clang",
    package: "clang-22",
};
/// Turns counts of addresses into counts of lines.
pub(super) const PROFGEN: Tool = Tool {
    name: "llvm-profgen",
    package: "llvm-22",
};
/// Turns counters as text into what compilers read.
pub(super) const PROFDATA: Tool = Tool {
    name: "llvm-profdata",
    package: "llvm-22",
};
/// Links in an order that is told.
pub(super) const LLD: Tool = Tool {
    name: "ld.lld",
    package: "lld-22",
};
/// Compiles, with counts of lines.
pub(super) const GCC: Tool = Tool {
    name: "gcc",
    package: "gcc",
};
/// Reads counts for BOLT.
pub(super) const PERF2BOLT: Tool = Tool {
    name: "perf2bolt",
    package: "bolt-22",
};
/// Lays out a program anew.
pub(super) const BOLT: Tool = Tool {
    name: "llvm-bolt",
    package: "bolt-22",
};

/// Versions that the names of tools end in, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 15..=40;

/// What the names of some tools end in: the newest version that has all of them, or nothing.
///
/// # Errors
/// If no version has all of them.
pub(super) fn version(tools: &[Tool]) -> Result<String, Failure> {
    let versions = VERSIONS.rev().map(|number| format!("-{number}"));
    let mut versions = versions.chain([String::new()]);
    let has = |tool: &Tool, version: &str| find(&format!("{}{version}", tool.name)).is_some();
    let all = versions.find(|version| tools.iter().all(|tool| has(tool, version)));
    all.ok_or_else(|| {
        let is_anywhere = |tool: &&Tool| {
            let mut endings = VERSIONS.map(|number| format!("-{number}"));
            has(tool, "") || endings.any(|ending| has(tool, &ending))
        };
        let missing: Vec<&Tool> = tools.iter().filter(|tool| !is_anywhere(tool)).collect();
        let named = |tool: &Tool| format!("{} (Debian: {})", tool.name, tool.package);
        let (of, what) = match missing.is_empty() {
            true => (tools.iter().collect(), "not in one version"),
            false => (missing, "missing programs"),
        };
        let of: Vec<String> = of.into_iter().map(named).collect();
        Failure::Program(format!("{what}: {}", of.join(", ")))
    })
}

impl Tool {
    /// Its name in a version.
    pub(super) fn of(self, version: &str) -> String {
        format!("{}{version}", self.name)
    }
}

/// A program of the search path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

/// This program.
pub(super) fn vcpi() -> OsString {
    std::env::current_exe().map_or_else(|_| OsString::from("vcpi"), PathBuf::into_os_string)
}

/// The collector: the one beside this program, else that of the search path.
pub(super) fn vcpid() -> OsString {
    let beside = Path::new(&vcpi()).with_file_name("vcpid");
    match beside.is_file() {
        true => beside.into_os_string(),
        false => OsString::from("vcpid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step is printed as a shell takes it, whatever its words are.
    #[test]
    fn plain_commands() {
        let mut step = BuildStep::new(["make", "CC=clang -g1", "it's", ""]);
        step.variables
            .push(("RUSTFLAGS", OsString::from("-C debuginfo=1")));
        assert_eq!(
            step.to_string(),
            r"RUSTFLAGS='-C debuginfo=1' make 'CC=clang -g1' 'it'\''s' ''"
        );
    }

    /// A step that fails, or cannot be run, is named with the reason.
    #[test]
    fn failures() {
        assert!(BuildStep::new(["true"]).run().is_ok());
        let failure = BuildStep::new(["false"]).run().expect_err("it fails");
        assert_eq!(failure.code(), 5);
        assert!(failure.to_string().ends_with(": false"), "{failure}");
        assert!(BuildStep::new(["/nowhere/program"]).run().is_err());
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let mut step = BuildStep::new(["true"]);
        step.writes = Some((empty.path().to_owned(), "no lines"));
        let failure = step.run().expect_err("it wrote nothing");
        assert!(
            failure.to_string().contains("empty (no lines)"),
            "{failure}"
        );
    }

    /// Tools that are missing are named with the package that has them.
    #[test]
    fn missing_tools() {
        let no_such = Tool {
            name: "no-such-tool-of-llvm",
            package: "llvm-22",
        };
        let failure = version(&[no_such]).expect_err("it is missing");
        let expected = "missing programs: no-such-tool-of-llvm (Debian: llvm-22)";
        assert_eq!(failure.to_string(), expected);
    }
}
