//! Standard output: whether what is written there arrives anywhere.

use std::io::{self, Write as _};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Asks whether standard output can be written to. The standard library takes one that is closed,
/// or open for reading alone, for one that nobody wants to read.
///
/// # Errors
/// If it cannot.
pub(crate) fn check() -> io::Result<()> {
    if !startup::had_stdout() {
        return Err(io::Error::other("standard output is closed"));
    }
    let flags = OFlag::from_bits_retain(fcntl(io::stdout(), FcntlArg::F_GETFL)?);
    match flags & OFlag::O_ACCMODE {
        OFlag::O_RDONLY => Err(io::Error::other(
            "standard output is open for reading alone",
        )),
        _ => Ok(()),
    }
}

/// Writes all of it.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    check()?;
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
