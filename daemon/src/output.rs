//! Standard output that may be a closed pipe, and words for what is printed often.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

use pipeline::collector::Totals;

/// What `-o` names cannot be had.
pub(crate) const CANNOT_WRITE: &str = "cannot write the database (-o names another file)";

/// Prints text. That nobody reads on (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// An error with all its reasons.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let reasons: Vec<String> = anyhow::Chain::new(error).map(ToString::to_string).collect();
    reasons.join(": ")
}

/// So many of something: "1 file", "2 files".
pub(crate) fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let end = match noun {
        _ if number == "1" => "",
        "flush" => "es",
        _ => "s",
    };
    format!("{number} {noun}{end}")
}

/// What was collected, in a line.
pub(crate) fn collected(totals: &Totals) -> String {
    let samples = count(totals.samples, "sample");
    let values = count(totals.values, "value");
    format!("{samples}, {values}, {} lost", totals.lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One is one, and all else is many.
    #[test]
    fn counts() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "flush"), "0 flushes");
        assert_eq!(count(2_u64, "CPU"), "2 CPUs");
    }
}
