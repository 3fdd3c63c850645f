//! Writing a database anew: `vcpi convert`.

use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;
use profiledb::ReadError;

use crate::args::Common;
use crate::epochs;
use crate::failure::Failure;
use crate::source;

/// What to do where the old database is none.
const TO_DO: &str = "name the database that is to be converted";

/// Writes all that is in a database to a new one.
///
/// # Errors
/// If an option is given that it makes nothing of, the old one cannot be read, or the new one
/// cannot be written; nothing is left then.
pub(crate) fn write(old: &Path, new: &Path, unpack: bool, common: &Common) -> Result<(), Failure> {
    let input = ("--input", !common.input.is_empty());
    let lines = ("--lines", common.lines.is_some());
    let given = [input, lines].into_iter().chain(common.choices());
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::Usage(format!(
            "convert: {option} is for reports; the database that is named is converted whole"
        )));
    }
    let done = copy(old, new, |old, new| match unpack {
        true => profiledb::unpack(old, new),
        false => profiledb::convert(old, new),
    });
    done.map_err(|error| failed(error, old, new))
}

/// Has `write` write a copy of a database. In that of one whose collector is at work it is noted.
pub(crate) fn copy(
    old: &Path,
    new: &Path,
    write: impl Fn(&Path, &Path) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    // Reading it makes this process one that has it open.
    let runs = epochs::is_open(old);
    write(old, new)?;
    match runs {
        true => profiledb::note_copied(new),
        false => Ok(()),
    }
}

/// Which of the two databases is in the way, and why.
fn failed(error: ReadError, old: &Path, new: &Path) -> Failure {
    let absolute = std::path::absolute(old);
    let is_of_old = absolute.is_ok_and(|old| error.path() == Some(old.as_path()));
    match error {
        ReadError::Exists { .. } => Failure::Usage(format!(
            "{} is there already; what is converted takes the place of nothing",
            new.display()
        )),
        error if is_of_old => source::cannot_read(&error, TO_DO),
        error => Failure::File {
            // A name that it had until it was whole says nothing to the one who named another.
            path: new.to_owned(),
            source: reason(error),
        },
    }
}

/// Why a database cannot be written, without its name.
pub(crate) fn reason(error: ReadError) -> io::Error {
    match error {
        ReadError::DiskFull { .. } => Errno::ENOSPC.into(),
        ReadError::ReadOnly { .. } => ErrorKind::ReadOnlyFilesystem.into(),
        ReadError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}
