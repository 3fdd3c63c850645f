//! What to read: inputs, and the rows of them that were asked for.

use std::cell::LazyCell;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Zoned;
use profiledb::{Apart, Filter, Outline, Places, Profile, ReadError};
use protocol::{Client, ClientError, DEFAULT_SOCKET, Kinds, Range, Selection};

use crate::args::Common;
use crate::asked;
use crate::bundle;
use crate::epochs;
use crate::failure::Failure;
use crate::images;
use crate::needs::{NO_ROWS, Needs};
use crate::render::{MAX_WIDTH, brief, counted};
use crate::time;

/// The database in the current directory that is read unless another is named.
const DEFAULT: &str = "./vcpi.db";

/// What gives something to read.
pub(crate) const TO_DO: &str = "record a profile with `vcpid record -- COMMAND`, start the service \
    with `systemctl start vcpid`, or name a database, a directory or a socket with -i";

/// Where rows come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Databases, and directories of them.
    Files(Vec<PathBuf>),
    /// The service behind a socket.
    Service(PathBuf),
}

impl Source {
    /// Whether a running service answers.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self, Source::Service(_))
    }
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
            "nothing to read: there is neither {DEFAULT} nor the service's socket \
             {DEFAULT_SOCKET}\n{TO_DO}"
        ))),
        [socket] if is_socket(socket) => Ok(Source::Service(socket.clone())),
        inputs if inputs.iter().any(|input| is_socket(input)) => Err(Failure::Usage(
            "-i: a service's socket cannot be read together with other inputs".to_owned(),
        )),
        inputs => {
            let taken_apart = |path: &PathBuf| match bundle::is_bundle(path) {
                true => bundle::open(path),
                false => Ok(path.clone()),
            };
            let paths: Result<Vec<PathBuf>, Failure> = inputs.iter().map(taken_apart).collect();
            Ok(Source::Files(paths?))
        }
    }
}

/// All that the service lets us see, in a file.
pub(crate) fn everything(socket: &Path) -> Result<tempfile::NamedTempFile, Failure> {
    Ok(fetch(socket, Selection::default())?.0)
}

/// The rows asked for. Images are not among the filter's conditions: rows of other images still
/// tell who called.
pub(crate) fn filter(common: &Common, needs: &Needs<'_>) -> Result<Filter, Failure> {
    // Which zone this is takes a look at all zones.
    let now = LazyCell::new(Zoned::now);
    let time = |option: &str, text: &Option<String>| {
        let parsed = text.as_deref().map(|text| time::parse(text, &now));
        let refused = |error| Failure::Usage(format!("{option}: {error}"));
        parsed.transpose().map_err(refused)
    };
    let since = time("--since", &common.since)?;
    let until = time("--until", &common.until)?;
    if let (Some(since), Some(until)) = (since, until)
        && since >= until
    {
        return Err(Failure::Usage(format!(
            "--since ({}) is not before --until ({})",
            time::local(since),
            time::local(until)
        )));
    }
    let by_function = needs.function.is_some() || common.only_function.is_some();
    Ok(Filter {
        epochs: common.epoch.clone(),
        pids: common.pid.clone(),
        uids: common
            .user
            .iter()
            .map(|user| uid(user))
            .collect::<Result<_, _>>()?,
        since,
        until,
        images: Vec::new(),
        details: needs.details.cloned(),
        detailed: needs
            .detailed
            .iter()
            .map(|&start| start.to_owned())
            .collect(),
        places: None,
        only_places: needs.only_places,
        apart: apart(common, needs),
        by_flush: needs.by_flush,
        // Lists of all functions, one for each flush, would be too many.
        added_up: !(needs.trends > 0 && by_function),
        // A name may be told by any instruction.
        parameters: match by_function {
            true => Vec::new(),
            false => parameters(needs),
        },
    })
}

/// How parameters begin that are asked for.
pub(crate) fn parameters(needs: &Needs<'_>) -> Vec<String> {
    let starts = needs.parameters.iter();
    starts.map(|&start| start.to_owned()).collect()
}

/// How far interrupts are told apart: where images or a function are asked for, what calls from
/// elsewhere is still known.
fn apart(common: &Common, needs: &Needs<'_>) -> Apart {
    let by_function = needs.function.or(common.only_function.as_deref()).is_some();
    match needs.apart {
        of_all if !by_function && common.image.is_empty() => of_all,
        Apart::Calls | Apart::Pcs | Apart::Instructions => Apart::Calls,
        Apart::Programs => Apart::Programs,
        Apart::Rows | Apart::Images => Apart::Rows,
    }
}

/// What is known of a function's place before any row is read.
pub(crate) enum Whereabouts {
    /// It can be nowhere else.
    Places(Places),
    /// The images do not tell; all rows do.
    Untold,
    /// It makes no difference: there is little to read.
    Unasked,
}

/// Where a function may be that is asked for by name.
pub(crate) fn whereabouts(
    source: &Source,
    name: &str,
    needs: &Needs<'_>,
    common: &Common,
) -> Whereabouts {
    let look = |paths: &[PathBuf]| {
        let places = asked::places(paths, name, &common.image, needs.stubs);
        places.map_or(Whereabouts::Untold, Whereabouts::Places)
    };
    in_images(source, look).unwrap_or(Whereabouts::Unasked)
}

/// Where all functions may be whose names this is a part of; `None`: the images do not tell, or
/// there is little to read.
pub(crate) fn whereabouts_of_part(source: &Source, name: &str, common: &Common) -> Option<Places> {
    in_images(source, |paths| {
        asked::places_of_part(paths, name, &common.image)
    })?
}

/// What `look` finds in databases that hold images and names at least; `None`: it has none to look
/// at.
fn in_images<T>(source: &Source, look: impl Fn(&[PathBuf]) -> T) -> Option<T> {
    match source {
        Source::Files(paths) => Some(look(paths)),
        Source::Service(socket) => {
            let (place, _) = fetch(socket, outline()).ok()?;
            let paths = [place.path().to_owned()];
            // Whoever is not privileged gets no outline, and has little to read.
            let is_bare = |outline: Outline| outline.images.is_empty();
            match Profile::outline(&paths).is_ok_and(is_bare) {
                true => None,
                false => Some(look(&paths)),
            }
        }
    }
}

/// Images and names alone.
fn outline() -> Selection {
    Selection {
        kinds: NO_ROWS,
        ..Selection::default()
    }
}

/// Reads the rows that a report needs.
pub(crate) fn load(
    source: &Source,
    filter: &Filter,
    needs: &Needs<'_>,
    common: &Common,
) -> Result<Loaded, Failure> {
    match source {
        Source::Files(paths) => {
            let wanted = selection(filter, needs, common);
            // What other images there are is in all tables, and tells what may have been meant.
            let kinds = match wanted.images.as_slice() {
                [] => wanted.kinds,
                _ => Kinds::default(),
            };
            read(paths, filter, kinds).map_err(|error| cannot_read(&error, TO_DO))
        }
        Source::Service(socket) => ask(socket, filter, needs, common),
    }
}

fn read(paths: &[PathBuf], filter: &Filter, kinds: Kinds) -> Result<Loaded, ReadError> {
    let (profile, left_out) = Profile::load_kinds(paths, filter, kinds)?;
    let left_out = left_out.iter().map(|error| chain(error)).collect();
    Ok(Loaded { profile, left_out })
}

/// Has the service send a database of what we may see, and reads it.
fn ask(
    socket: &Path,
    filter: &Filter,
    needs: &Needs<'_>,
    common: &Common,
) -> Result<Loaded, Failure> {
    let wanted = selection(filter, needs, common);
    let of_all_images = Selection {
        images: Vec::new(),
        ..wanted.clone()
    };
    let one_image = !wanted.images.is_empty();
    let loaded = receive(socket, wanted, filter)?;
    if one_image && loaded.profile.images.is_empty() {
        // What others there are tells what may have been meant.
        return Ok(receive(socket, of_all_images, filter).unwrap_or(loaded));
    }
    Ok(loaded)
}

/// One request to the service.
fn receive(socket: &Path, selection: Selection, filter: &Filter) -> Result<Loaded, Failure> {
    let (place, notes) = fetch(socket, selection)?;
    let loaded = read(&[place.path().to_owned()], filter, Kinds::default());
    let mut loaded = loaded.map_err(|error| Failure::Input(chain(&error)))?;
    loaded.left_out.extend(notes);
    Ok(loaded)
}

/// What the service sends, in a file, and what it says of it.
fn fetch(
    socket: &Path,
    selection: Selection,
) -> Result<(tempfile::NamedTempFile, Vec<String>), Failure> {
    let failed = |error: ClientError| Failure::Input(chain(&error));
    let no_place = |error: std::io::Error| {
        Failure::Input(format!(
            "there is no place for what the service sends, in {}: {error}; TMPDIR names another",
            std::env::temp_dir().display()
        ))
    };
    let client = Client::connect(socket).map_err(|error| nobody_answers(socket, &error))?;
    let client = client.with_notice(say_waiting);
    // For our eyes only, and gone when it is read.
    let mut place = tempfile::Builder::new()
        .prefix("vcpi-")
        .tempfile()
        .map_err(no_place)?;
    let received = client.view(selection, place.as_file_mut());
    let received = received.map_err(|error| match error {
        ClientError::Store(error) => no_place(error),
        error => failed(error),
    })?;
    Ok((place, received.notes))
}

/// Says what is waited for.
fn say_waiting(socket: &Path, left: Duration) {
    crate::messages::say(&format!(
        "the service at {} has not answered yet (it may have much to read for this, or others to \
         serve first); it is waited for, another {} s at most",
        socket.display(),
        left.as_secs()
    ));
}

/// Why a file that was named, or is here, gives no profile, and what to do; `other` is that where
/// there is no database.
pub(crate) fn cannot_read(error: &ReadError, other: &str) -> Failure {
    use std::io::ErrorKind;
    let to_do = match error {
        ReadError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "read it as its owner or as root; of what the service collected it shows everybody \
             what is theirs"
        }
        ReadError::Io { source, .. } if source.kind() != ErrorKind::NotFound => "",
        ReadError::Io { .. } | ReadError::NotADatabase { .. } | ReadError::NoDatabase { .. } => {
            other
        }
        ReadError::Corrupt { .. } => {
            "if it is a copy, copy it again (a database that is being written has files with -wal \
             and -shm behind its name, which belong to it); else record anew"
        }
        // The others say it themselves.
        _ => "",
    };
    let mut text = chain(error);
    if !to_do.is_empty() {
        text.push('\n');
        text.push_str(to_do);
    }
    Failure::Input(text)
}

/// That nobody answers at a socket, and what to do if it was our own idea to ask there.
fn nobody_answers(socket: &Path, error: &ClientError) -> Failure {
    let mut text = chain(error);
    if socket == Path::new(DEFAULT_SOCKET) {
        text.push_str(&format!(" (and there is no {DEFAULT})\n{TO_DO}"));
    }
    Failure::Input(text)
}

/// What the report needs, as far as leaving out the rest changes nothing in it: shares are of
/// all that was collected, whatever image is shown.
fn selection(filter: &Filter, needs: &Needs<'_>, common: &Common) -> Selection {
    // Counters are those of all processes.
    let by_process = !needs.is_of_counters();
    let of_process = |ids: &[u32]| if by_process { ids.to_vec() } else { Vec::new() };
    Selection {
        since: filter.since,
        until: filter.until,
        epochs: filter.epochs.clone(),
        pids: of_process(&filter.pids),
        uids: of_process(&filter.uids),
        images: if needs.one_image {
            images::spellings(&common.image)
        } else {
            Vec::new()
        },
        ranges: filter.places.as_ref().map(ranges).unwrap_or_default(),
        kinds: needs.kinds,
    }
}

/// Places as the service is asked for them.
fn ranges(places: &Places) -> Vec<Range> {
    let range = |(path, start, end): (&str, u64, u64)| Range {
        image: path.to_owned(),
        start,
        end,
    };
    places.iter().map(range).collect()
}

impl Source {
    /// What it is called in what is said of it.
    pub(crate) fn named(&self) -> String {
        match self {
            Source::Files(paths) => {
                let names = paths.iter();
                let names = names.map(|path| bundle::named(path).display().to_string());
                let mut names: Vec<String> = names.collect();
                names.dedup();
                names.join(", ")
            }
            Source::Service(socket) => format!("the service at {}", socket.display()),
        }
    }
}

/// One line that says what is being read.
pub(crate) fn describe(source: &Source, profile: &Profile) -> String {
    let mut commands: Vec<&str> = Vec::new();
    for epoch in &profile.epochs {
        // Whoever may not know it gets an empty one.
        if !epoch.command.is_empty() && !commands.contains(&epoch.command.as_str()) {
            commands.push(&epoch.command);
        }
    }
    let epochs = counted(profile.epochs.len() as u64, "epoch");
    let shown = epochs::of(profile, matches!(source, Source::Service(_)));
    let cut_short = shown.iter().filter(|shown| shown.is_cut_short()).count();
    let copied = shown.iter().filter(|shown| shown.is_copied()).count();
    let end = match (cut_short, copied, shown.len()) {
        (0, 0, _) => "",
        (0, _, 1) => "; it was running when it was copied",
        (0, _, _) => "; some were running when they were copied, as vcpi status shows",
        (_, _, 1) => {
            "; cut short: its collector died, or could write no more; what it had not saved is lost"
        }
        _ => "; some were cut short, as vcpi status shows",
    };
    let commands = match commands.as_slice() {
        [] => String::new(),
        [one] => format!(": {}", brief(one, MAX_WIDTH)),
        [one, rest @ ..] => format!(": {}, and {} more", brief(one, MAX_WIDTH), rest.len()),
    };
    format!("reading {} ({epochs}{commands}{end})", source.named())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Users go by number or name.
    #[test]
    fn users() {
        assert_eq!(uid("1234").ok(), Some(1234));
        assert_eq!(uid("root").ok(), Some(0));
        assert!(matches!(uid("no such user"), Err(Failure::Usage(_))));
    }
}
