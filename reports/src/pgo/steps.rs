//! Steps of a build: other programs, and the plain commands that run them.

use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGINT;

use super::unread::Unread;
use crate::export::next::STEP;
use crate::failure::Failure;
use crate::shell::quoted;
use crate::toolchain;

/// A command with what it is told in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildStep {
    /// Variables that it has besides those that all have.
    pub(super) variables: Vec<(&'static str, OsString)>,
    /// The program, and what it is told.
    pub(super) words: Vec<OsString>,
    /// A file that it writes, and what it lacked where that has nothing in it.
    pub(super) writes: Option<(PathBuf, &'static str)>,
    /// Files of which it is to read one.
    pub(super) reads: Vec<PathBuf>,
    /// Whether it is told that other steps follow, and says nothing of them.
    pub(super) is_followed: bool,
}

impl BuildStep {
    /// A command of these words.
    pub(super) fn new<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> BuildStep {
        BuildStep {
            variables: Vec::new(),
            words: words.into_iter().map(Into::into).collect(),
            writes: None,
            reads: Vec::new(),
            is_followed: false,
        }
    }

    /// Why nothing comes of it.
    pub(super) fn failed(&self, why: &str) -> Failure {
        Failure::Program(format!("{why}: {self}"))
    }

    /// Runs it, and waits for its end: how it ended.
    ///
    /// # Errors
    /// If it cannot be run.
    pub(super) fn status(&self) -> Result<ExitStatus, Failure> {
        let Some((program, rest)) = self.words.split_first() else {
            return Err(self.failed("no command"));
        };
        let mut command = Command::new(program);
        command.args(rest);
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        if self.is_followed {
            command.env(STEP, "1");
        }
        // Ctrl-C is for the step, which may have something to save: its status tells how to go on.
        // A handler, other than ignoring, does not pass on to the step.
        let _ = signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)));
        command.status().map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.failed(&toolchain::missing(program)),
            _ => self.failed(&format!("cannot run this step ({error})")),
        })
    }

    /// Runs it, and waits for its end.
    ///
    /// # Errors
    /// If it cannot be run, fails, leaves an empty file behind, or does not look at what it is for.
    pub(super) fn run(&self) -> Result<(), Failure> {
        let profiles = self.reads.iter();
        let profiles: Option<Vec<Unread>> = profiles.map(|file| Unread::since_now(file)).collect();
        let status = self.status()?;
        if !status.success() {
            return Err(self.failed(&format!("this step failed ({status})")));
        }
        if let Some([first, rest @ ..]) = profiles.as_deref()
            && first.is_still()
            && rest.iter().all(Unread::is_still)
        {
            return Err(self.failed(&format!(
                "this step ended well, but no compiler read {}: remove what was compiled before, or \
                 have the build heed CC and CXX (cargo: RUSTFLAGS)",
                first.file().display()
            )));
        }
        let Some((file, lacked)) = &self.writes else {
            return Ok(());
        };
        match file.metadata() {
            Ok(written) if written.len() > 0 => Ok(()),
            _ => {
                let file = file.display();
                Err(self.failed(&format!("this step left {file} empty ({lacked})")))
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
    use std::ffi::OsStr;

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
        for (program, named) in [
            ("/nowhere/program", "there is no program /nowhere/program: "),
            (
                "no-such-builder",
                "no folder of PATH has a program no-such-builder: ",
            ),
        ] {
            let failure = BuildStep::new([program])
                .run()
                .expect_err("it is not there");
            assert_eq!(failure.code(), 5);
            assert!(failure.to_string().starts_with(named), "{failure}");
        }
        let cmake = toolchain::missing(OsStr::new("cmake"));
        assert!(cmake.ends_with(" cmake (Debian: cmake)"), "{cmake}");
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let mut step = BuildStep::new(["true"]);
        step.writes = Some((empty.path().to_owned(), "no lines"));
        let failure = step.run().expect_err("it wrote nothing");
        assert!(
            failure.to_string().contains("empty (no lines)"),
            "{failure}"
        );
    }
}
