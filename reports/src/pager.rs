//! The way of a report to stdout: straight, or on a terminal through a pager.

use std::env;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::{stdout, terminal};

/// What a pager is asked for: leave when all fits on a screen, pass colours, leave the screen as
/// it is.
const LESS: &str = "FRX";

/// The pager unless another is named.
const DEFAULT: &str = "less";

/// Writes a report.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(text: &str, may_page: bool) -> io::Result<()> {
    if may_page
        && terminal::is_capable()
        && let Some(pager) = chosen(|name| env::var(name).ok())
        && page(text, &pager)
    {
        return Ok(());
    }
    // Whoever has nothing to print needs no standard output.
    match text.is_empty() {
        true => Ok(()),
        false => stdout::write(text.as_bytes()),
    }
}

/// The pager that the environment names; an empty one and `cat` mean none.
fn chosen(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let named = variable("VCPI_PAGER").or_else(|| variable("PAGER"));
    let pager = named.unwrap_or_else(|| DEFAULT.to_owned());
    let pager = pager.trim();
    (!pager.is_empty() && pager != "cat").then(|| pager.to_owned())
}

/// Shows text in a pager; `false`: there is no such pager.
fn page(text: &str, pager: &str) -> bool {
    let mut command = Command::new("sh");
    // The shell says by its exit whether it found the pager, before anything is written.
    command
        .arg("-c")
        .arg(format!("command -v {} >/dev/null 2>&1", first_word(pager)));
    if !command.status().is_ok_and(|status| status.success()) {
        return false;
    }
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    for (name, value) in [("LESS", LESS), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let Ok(mut child) = command.spawn() else {
        return false;
    };
    // What interrupts is for the pager, which may only leave a search by it.
    for signal in [SIGINT, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    if let Some(mut input) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok()
}

/// The program in a pager's command, as the shell would take it; a word that only a shell
/// understands is left to it.
fn first_word(pager: &str) -> String {
    let word = pager.split_whitespace().next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => "sh".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's own variable goes before the general one; both may say that there is none.
    #[test]
    fn pagers() {
        let with = |set: &[(&str, &str)]| {
            chosen(|name| {
                let set = set.iter().find(|(other, _)| *other == name);
                set.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(with(&[]).as_deref(), Some("less"));
        assert_eq!(with(&[("PAGER", "more")]).as_deref(), Some("more"));
        let both = [("PAGER", "more"), ("VCPI_PAGER", "less -S")];
        assert_eq!(with(&both).as_deref(), Some("less -S"));
        assert_eq!(with(&[("PAGER", "more"), ("VCPI_PAGER", "")]), None);
        assert_eq!(with(&[("PAGER", "cat")]), None);
        assert_eq!(first_word("less -S"), "less");
        assert_eq!(first_word("$HOME/x"), "sh");
    }
}
