//! What the service says: to the journal, each line with its urgency, and each trouble once.

use std::collections::BTreeMap;
use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lines on standard error: for the journal with the urgency in front as sd-daemon(3) describes
/// it, otherwise with the program's name.
struct Lines {
    to_journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let urgency = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        if self.to_journal {
            write!(line, "<{urgency}>")?;
        } else {
            write!(line, "vcpid: ")?;
        }
        context.format_fields(line.by_ref(), event)?;
        writeln!(line)
    }
}

/// Sends what is traced to standard error. What others are told of, such as each refused record,
/// is not for the journal.
pub(super) fn start() {
    let lines = Lines {
        to_journal: std::env::var_os("JOURNAL_STREAM").is_some(),
    };
    let started = tracing_subscriber::fmt()
        .with_max_level(Level::INFO)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .event_format(lines)
        .try_init();
    if let Err(error) = started {
        eprintln!("vcpid: nothing will be said: {error}");
    }
}

/// What is wrong now. Each trouble is said when it begins, when its reason changes, and when it
/// is over.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    now: BTreeMap<&'static str, String>,
}

impl Troubles {
    /// `what` does not work, for this reason.
    pub(super) fn begin(&mut self, what: &'static str, reason: impl fmt::Display) {
        let reason = reason.to_string();
        if self.now.get(what) != Some(&reason) {
            tracing::warn!("{what}: {reason}");
            self.now.insert(what, reason);
        }
    }

    /// `what` works.
    pub(super) fn end(&mut self, what: &'static str) {
        if self.now.remove(what).is_some() {
            tracing::info!("{what}: works again");
        }
    }

    /// All that is wrong now, and why.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.now
            .iter()
            .map(|(what, reason)| (*what, reason.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What works is not in the list, and what fails is there once, with its last reason.
    #[test]
    fn troubles() {
        let mut troubles = Troubles::default();
        troubles.end("database");
        troubles.begin("database", "full");
        troubles.begin("database", "read-only");
        let all: Vec<_> = troubles.all().collect();
        assert_eq!(all, [("database", "read-only")]);
        troubles.end("database");
        assert_eq!(troubles.all().count(), 0);
    }
}
