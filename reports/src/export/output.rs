//! The file that an export goes to, which is whole or not there.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::stdout;

/// Names of standard output. One that is closed has `/dev/null` there, which takes everything.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Writes a file in place of what is there. The file's owner alone may read a new one, as with
/// databases; one that was there keeps who may read it. What goes to standard output by its name is
/// written there, as without a name.
///
/// # Errors
/// If it cannot be written. What was there is left alone then, and nothing else is left behind.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if STDOUT.iter().any(|name| path == Path::new(name)) {
        return Ok(stdout::write(bytes)?);
    }
    let written = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(there) if there.is_file() => replace(path, Some(&there), bytes),
        // A pipe or a device is no file that could be replaced.
        Ok(_) => append(path, bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(path, None, bytes),
        Err(error) => Err(error),
    };
    written.map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })
}

/// Whether two names lead to one file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| fs::metadata(path).map(|at| (at.dev(), at.ino())).ok();
    one == other || file(one).is_some_and(|found| file(other) == Some(found))
}

/// Writes a new file beside the old one, and gives it its name when it is whole.
fn replace(path: &Path, old: Option<&Metadata>, bytes: &[u8]) -> io::Result<()> {
    // A link stays one, and what it leads to is replaced.
    let path = match old {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    if old.is_some() {
        // Nobody replaces by a new name what they may not write to.
        OpenOptions::new().write(true).open(&path)?;
    }
    // Errors of a file that is made and written so do not have its name, which nobody asked for.
    let mut new = tempfile::Builder::new()
        .prefix(".vcpi-export-")
        .make_in(folder(&path), create)?;
    new.as_file_mut().write_all(bytes)?;
    if let Some(old) = old {
        new.as_file().set_permissions(old.permissions())?;
    }
    new.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

/// A new file that its owner alone may read.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).open(path)?;
    file.write_all(bytes)?;
    file.flush()
}

/// The folder of a path.
fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
