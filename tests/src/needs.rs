//! What live tests need of the machine. Where it is missing, they are skipped for that reason.

use std::fmt::{self, Display, Formatter};
use std::process::{Command, Stdio};

/// What a live test needs: an error with the reason where it is not there.
pub type Need = fn() -> Result<(), Missing>;

/// What is missing on this machine. As the error of a test, it has the test skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl Missing {
    /// This is missing: a reason like "needs root".
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// The test runs as root.
///
/// # Errors
/// As another user.
pub fn as_root() -> Result<(), Missing> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err(Missing::new("needs root")),
    }
}

/// The compiler that fixtures are built with.
///
/// # Errors
/// There is none.
pub fn gcc() -> Result<(), Missing> {
    program("gcc", "--version")
}

/// A program, which an argument without consequences is tried with.
///
/// # Errors
/// There is none of this name.
pub fn program(name: &str, argument: &str) -> Result<(), Missing> {
    let mut command = Command::new(name);
    match command.arg(argument).stdin(Stdio::null()).output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Missing::new(format!("needs {name}"))),
    }
}
