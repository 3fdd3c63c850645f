//! What to read: inputs, and the rows of them that were asked for.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use profiledb::{Filter, Profile};
use protocol::{Client, ClientError, DEFAULT_SOCKET, Kinds, Selection};

use crate::args::{Common, Report};
use crate::failure::Failure;

/// The database in the current directory that is read unless another is named.
const DEFAULT: &str = "./vcpi.db";

/// Where rows come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Databases, and directories of them.
    Files(Vec<PathBuf>),
    /// The service behind a socket.
    Service(PathBuf),
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The rows.
    pub(crate) profile: Profile,
    /// What could not be read, one sentence each.
    pub(crate) left_out: Vec<String>,
}

/// The source: what is named, else the database here, else the service.
pub(crate) fn source(common: &Common) -> Result<Source, Failure> {
    let is_socket =
        |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    match common.input.as_slice() {
        [] if Path::new(DEFAULT).exists() => Ok(Source::Files(vec![PathBuf::from(DEFAULT)])),
        [] if is_socket(Path::new(DEFAULT_SOCKET)) => {
            Ok(Source::Service(PathBuf::from(DEFAULT_SOCKET)))
        }
        [] => Err(Failure::Input(format!(
            "no -i given, there is no ./vcpi.db here and no service at {DEFAULT_SOCKET}: record a \
             profile with `vcpid record -- COMMAND`, or name one with -i FILE"
        ))),
        [socket] if is_socket(socket) => Ok(Source::Service(socket.clone())),
        inputs if inputs.iter().any(|input| is_socket(input)) => Err(Failure::Usage(
            "-i: a service's socket cannot be read together with other inputs".to_owned(),
        )),
        inputs => Ok(Source::Files(inputs.to_vec())),
    }
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

/// What images may be called that are asked for by these names: a path from the current folder,
/// or through links, is the image's own as well.
pub(crate) fn image_names(names: &[String]) -> Vec<String> {
    let mut all = names.to_vec();
    // A name without a folder is an image's wherever that is.
    let paths = names.iter().filter(|name| name.contains('/'));
    all.extend(paths.filter_map(|name| resolved(Path::new(name))));
    all
}

/// A path without links and relative parts; the file may be gone, its folder may not.
fn resolved(path: &Path) -> Option<String> {
    let whole = fs::canonicalize(path).or_else(|error| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(error),
    });
    whole.ok()?.into_os_string().into_string().ok()
}

/// Reads the rows that a report needs.
pub(crate) fn load(
    source: &Source,
    filter: &Filter,
    report: &Report,
    common: &Common,
) -> Result<Loaded, Failure> {
    match source {
        Source::Files(paths) => read(paths, filter),
        Source::Service(socket) => ask(socket, filter, report, common),
    }
}

fn read(paths: &[PathBuf], filter: &Filter) -> Result<Loaded, Failure> {
    let (profile, left_out) =
        Profile::load_readable(paths, filter).map_err(|error| Failure::Input(chain(&error)))?;
    let left_out = left_out.iter().map(|error| chain(error)).collect();
    Ok(Loaded { profile, left_out })
}

/// Has the service send a database of what we may see, and reads it.
fn ask(
    socket: &Path,
    filter: &Filter,
    report: &Report,
    common: &Common,
) -> Result<Loaded, Failure> {
    let failed = |error: ClientError| Failure::Input(chain(&error));
    let no_place = |error: std::io::Error| {
        Failure::Input(format!(
            "there is no place for what the service sends: {error}"
        ))
    };
    let client = Client::connect(socket).map_err(failed)?;
    // For our eyes only, and gone when it is read.
    let mut place = tempfile::Builder::new()
        .prefix("vcpi-")
        .tempfile()
        .map_err(no_place)?;
    let selection = selection(filter, report, common);
    let received = client
        .view(selection, place.as_file_mut())
        .map_err(failed)?;
    let mut loaded = read(&[place.path().to_owned()], filter)?;
    loaded.left_out.extend(received.notes);
    Ok(loaded)
}

/// What the report needs, as far as leaving out the rest changes nothing in it: shares are of
/// all that was collected, whatever image is shown.
fn selection(filter: &Filter, report: &Report, common: &Common) -> Selection {
    let all = Kinds::default();
    let none = Kinds {
        cycles: false,
        values: false,
        branches: false,
        calls: false,
        counters: false,
    };
    let (kinds, one_image) = match report {
        Report::Top { .. } | Report::Cg { .. } => (
            Kinds {
                cycles: true,
                ..none
            },
            false,
        ),
        Report::Branches { .. } => (
            Kinds {
                branches: true,
                ..none
            },
            true,
        ),
        Report::Targets { .. } => (
            Kinds {
                calls: true,
                ..none
            },
            true,
        ),
        Report::Status => (
            Kinds {
                counters: true,
                ..none
            },
            false,
        ),
        _ => (
            Kinds {
                counters: false,
                ..all
            },
            false,
        ),
    };
    Selection {
        since: filter.since,
        until: filter.until,
        epochs: filter.epochs.clone(),
        pids: filter.pids.clone(),
        uids: filter.uids.clone(),
        images: if one_image {
            image_names(&common.image)
        } else {
            Vec::new()
        },
        ranges: Vec::new(),
        kinds,
    }
}

/// Whether the service has told us only of what is ours.
pub(crate) fn has_counters_withheld(source: &Source, profile: &Profile) -> bool {
    let windows = ("run".to_owned(), "windows".to_owned());
    matches!(source, Source::Service(_)) && !profile.counters.contains_key(&windows)
}

/// One line that says what is being read.
pub(crate) fn describe(source: &Source, profile: &Profile) -> String {
    let names: Vec<String> = match source {
        Source::Files(paths) => paths
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        Source::Service(socket) => vec![format!("the service at {}", socket.display())],
    };
    let mut commands: Vec<&str> = Vec::new();
    for epoch in &profile.epochs {
        // Whoever may not know it gets an empty one.
        if !epoch.command.is_empty() && !commands.contains(&epoch.command.as_str()) {
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
