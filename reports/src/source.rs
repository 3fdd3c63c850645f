//! What to read: inputs, and the rows of them that were asked for.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use profiledb::{Filter, Profile};

use crate::args::Common;
use crate::failure::Failure;

/// The database in the current directory that is read unless another is named.
const DEFAULT: &str = "./vcpi.db";

/// The inputs: those named, else the default.
pub(crate) fn inputs(common: &Common) -> Result<Vec<PathBuf>, Failure> {
    if !common.input.is_empty() {
        return Ok(common.input.clone());
    }
    if Path::new(DEFAULT).exists() {
        return Ok(vec![PathBuf::from(DEFAULT)]);
    }
    Err(Failure::Input(
        "no -i given and there is no ./vcpi.db here: record a profile with \
         `vcpid record -- COMMAND`, or name one with -i FILE"
            .to_owned(),
    ))
}

/// The rows asked for. Images are not among the filter's conditions: rows of
/// other images still tell who called.
pub(crate) fn filter(common: &Common) -> Result<Filter, Failure> {
    let now = Zoned::now();
    Ok(Filter {
        epochs: common.epoch.clone(),
        pids: common.pid.clone(),
        uids: common
            .user
            .iter()
            .map(|user| uid(user))
            .collect::<Result<_, _>>()?,
        since: common
            .since
            .as_deref()
            .map(|text| time(text, &now))
            .transpose()?,
        until: common
            .until
            .as_deref()
            .map(|text| time(text, &now))
            .transpose()?,
        images: Vec::new(),
    })
}

/// Reads the inputs.
pub(crate) fn load(paths: &[PathBuf], filter: &Filter) -> Result<Profile, Failure> {
    Profile::load(paths, filter).map_err(|error| Failure::Input(chain(&error)))
}

/// One line that says what is being read.
pub(crate) fn describe(paths: &[PathBuf], profile: &Profile) -> String {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut commands: Vec<&str> = Vec::new();
    for epoch in &profile.epochs {
        if !commands.contains(&epoch.command.as_str()) {
            commands.push(&epoch.command);
        }
    }
    let epochs = match profile.epochs.len() {
        1 => "1 epoch".to_owned(),
        number => format!("{number} epochs"),
    };
    let commands = match commands.as_slice() {
        [] => String::new(),
        [one] => format!(": {one}"),
        [one, rest @ ..] => format!(": {one}, and {} more", rest.len()),
    };
    format!("reading {} ({epochs}{commands})", names.join(", "))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause in their own text.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn uid(user: &str) -> Result<u32, Failure> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(user) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(Failure::Usage(format!(
            "--user {user}: there is no such user here"
        ))),
        Err(error) => Err(Failure::Usage(format!("--user {user}: {error}"))),
    }
}

/// A point in time as nanoseconds of the Unix epoch: `now`, relative (`-5min`,
/// `2h ago`), with an offset, or local time (`2026-05-01`, `2026-05-01 12:30`).
fn time(text: &str, now: &Zoned) -> Result<i64, Failure> {
    let bad = || {
        Failure::Usage(format!(
            "{text:?} is no time: write `2026-05-01 12:00`, `2026-05-01T12:00Z`, `now`, or `-5min`"
        ))
    };
    let text = text.trim();
    let instant = if text == "now" {
        now.timestamp()
    } else if let Ok(instant) = text.parse::<Timestamp>() {
        instant
    } else if let Ok(local) = text.parse::<DateTime>() {
        TimeZone::system().to_timestamp(local).map_err(|_| bad())?
    } else if text.starts_with(['-', '+']) || text.ends_with("ago") {
        let span: Span = text.parse().map_err(|_| bad())?;
        now.checked_add(span).map_err(|_| bad())?.timestamp()
    } else {
        return Err(bad());
    };
    i64::try_from(instant.as_nanosecond()).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-05-01T12:00:00+00:00[UTC]".parse().expect("is a time")
    }

    fn seconds(text: &str) -> Option<i64> {
        time(text, &now())
            .ok()
            .map(|nanoseconds| nanoseconds / 1_000_000_000)
    }

    /// Relative times count from now, absolute ones with an offset stand for themselves.
    #[test]
    fn times() {
        let noon = seconds("now").expect("is a time");
        assert_eq!(seconds("-5min"), Some(noon - 300));
        assert_eq!(seconds("-2h"), Some(noon - 7200));
        assert_eq!(seconds("1 day ago"), Some(noon - 86_400));
        assert_eq!(seconds("2026-05-01T12:00:00Z"), Some(noon));
        assert_eq!(seconds("2026-05-01T14:00:00+02:00"), Some(noon));
        assert!(seconds("2026-05-01 12:00").is_some());
        assert!(seconds("2026-05-01").is_some());
    }

    /// What is no time, or none that the database could hold, is a usage error.
    #[test]
    fn bad_times() {
        for text in [
            "",
            "yesterday-ish",
            "5min",
            "-",
            "-9999999999999y",
            "9999-12-30",
        ] {
            assert!(
                matches!(time(text, &now()), Err(Failure::Usage(_))),
                "{text}"
            );
        }
    }

    /// Users go by number or name.
    #[test]
    fn users() {
        assert_eq!(uid("1234").ok(), Some(1234));
        assert_eq!(uid("root").ok(), Some(0));
        assert!(matches!(uid("no such user"), Err(Failure::Usage(_))));
    }
}
