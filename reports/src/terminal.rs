//! What the output goes to: a terminal, with its width and colours, or anything else, which gets
//! plain text.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::sync::OnceLock;

/// How text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    /// Columns that a line should keep to; `None`: any.
    pub(crate) width: Option<usize>,
    /// Colours show what is hot.
    pub(crate) colours: bool,
    /// Reports explain themselves at length.
    pub(crate) explain: bool,
}

/// Narrower than this nothing is laid out; the terminal breaks the lines.
const LEAST_WIDTH: usize = 20;

static LOOK: OnceLock<Look> = OnceLock::new();

/// Looks at stdout and at what the environment says, once. `explain`: reports explain themselves
/// at length.
pub(crate) fn configure(explain: bool) {
    let is_terminal = is_capable();
    let _ = LOOK.set(Look {
        width: is_terminal.then(width).flatten(),
        colours: colours(io::stdout().is_terminal(), |name| env::var_os(name)),
        explain,
    });
}

/// How text on stdout looks.
pub(crate) fn look() -> Look {
    LOOK.get().copied().unwrap_or_default()
}

/// Whether stdout is a terminal that can do more than print line after line.
pub(crate) fn is_capable() -> bool {
    io::stdout().is_terminal() && !is_dumb(env::var_os("TERM"))
}

fn is_dumb(term: Option<OsString>) -> bool {
    term.is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Whether to colour: on a terminal, unless the environment says otherwise. `NO_COLOR` goes before
/// `CLICOLOR_FORCE`: whoever sets it cannot bear colours.
fn colours(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    let is_on = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    if is_set("NO_COLOR") {
        return false;
    }
    if is_on("CLICOLOR_FORCE") {
        return true;
    }
    let is_off = variable("CLICOLOR").is_some_and(|value| value == "0");
    is_terminal && !is_off && !is_dumb(variable("TERM"))
}

/// The terminal's columns: those that `COLUMNS` says, else those it has.
fn width() -> Option<usize> {
    let told = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let own = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col))
    };
    told.or_else(own).filter(|columns| *columns >= LEAST_WIDTH)
}

/// What stands out in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// Titles of columns.
    Title,
    /// What is hot.
    Hot,
    /// What is worth a look.
    Warm,
    /// What belongs beside the rest: source lines.
    Beside,
}

impl Ink {
    /// What a share of all, in percent, is written in, as users of perf know it.
    pub(crate) fn of(percent: f64) -> Option<Ink> {
        match percent {
            5.0.. => Some(Ink::Hot),
            0.5.. => Some(Ink::Warm),
            _ => None,
        }
    }

    /// Puts text into this colour.
    pub(crate) fn write(self, text: &str, out: &mut String) {
        let code = match self {
            Ink::Title => "1",
            Ink::Hot => "31",
            Ink::Warm => "32",
            Ink::Beside => "36",
        };
        out.push_str("\x1b[");
        out.push_str(code);
        out.push('m');
        out.push_str(text);
        out.push_str("\x1b[0m");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours are for terminals; the environment may forbid them, or force them on anything.
    #[test]
    fn colours_by_environment() {
        let with = |is_terminal, set: &[(&str, &str)]| {
            colours(is_terminal, |name| {
                let set = set.iter().find(|(other, _)| *other == name);
                set.map(|(_, value)| OsString::from(value))
            })
        };
        let xterm = ("TERM", "xterm");
        assert!(with(true, &[xterm]));
        assert!(!with(false, &[xterm]));
        assert!(!with(true, &[("TERM", "dumb")]));
        assert!(!with(true, &[]));
        assert!(!with(true, &[xterm, ("NO_COLOR", "1")]));
        assert!(with(true, &[xterm, ("NO_COLOR", "")]));
        assert!(with(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!with(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!with(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(!with(true, &[xterm, ("CLICOLOR", "0")]));
    }
}
