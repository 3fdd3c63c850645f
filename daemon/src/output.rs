//! Standard output that may be a closed pipe.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints text. That nobody reads on (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
