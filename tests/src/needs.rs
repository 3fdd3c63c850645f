//! What live tests need of the machine. Where it is missing, they are skipped for that reason.

use std::fmt::{self, Display, Formatter};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::programs::Programs;

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

/// The engine `bpf` with the software clock. It is asked for once in a test program.
///
/// # Errors
/// Its handler cannot be loaded into the kernel. Whatever else may be wrong, the test itself shows.
pub fn bpf() -> Result<(), Missing> {
    static TRIED: OnceLock<Result<(), Missing>> = OnceLock::new();
    let is_refused = || -> anyhow::Result<bool> {
        let tried = Command::new(Programs::find()?.vcpid)
            .args(["record", "--engine=bpf", "--clock=cpu-clock", "-o"])
            .arg(tempfile::tempdir()?.path().join("vcpi.db"))
            .args(["--", "true"])
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&tried.stderr);
        Ok(said.contains("cannot load the handler"))
    };
    let tried = TRIED.get_or_init(|| match is_refused() {
        Ok(true) => Err(Missing::new("needs the engine bpf")),
        _ => Ok(()),
    });
    tried.clone()
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
