//! What can go wrong, told apart as far as the one who reads it can act on it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi;

/// What a file is that SQLite does not know.
pub(crate) const NO_SQLITE: &str = "a file of another kind";

/// What a database of a service is to those who may not see its folder.
const NO_PLACE: &str = "a database of the service";

/// Why a profile database could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No space is left where the database lies.
    #[error("{}: no space left on the device", path.display())]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The database, or the directory it lies in, cannot be written.
    #[error("{}: is read-only", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// There is something else under that name; it was left as it is.
    #[error("{}: is {found}, not a vcpi database", path.display())]
    NotADatabase {
        /// What was looked at.
        path: PathBuf,
        /// What it is instead, with its article.
        found: String,
    },
    /// A newer version of this program has written the database.
    #[error(
        "{}: has schema version {found}, this program knows up to {known}; use a newer vcpi, of \
         the version that wrote it or later", path.display()
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
        /// Newest version that this program knows.
        known: i64,
    },
    /// An older version of this program has written the database, in a form from which what
    /// is recorded today cannot be made.
    #[error(
        "{}: has schema version {found} of an older vcpi, this program knows {known} and newer; \
         record it again", path.display()
    )]
    OlderSchema {
        /// The database.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
        /// Oldest version that this program knows.
        known: i64,
    },
    /// The database is damaged, or was not written by this program.
    #[error("{}: is damaged: {detail}", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What is wrong, and where.
        detail: String,
    },
    /// A service has moved the database aside, since it could not be used.
    #[error(
        "{}: could not be used, and the service moved it aside: what it holds is missing here; \
         `sqlite3 FILE .recover` may save some of it, and this is said until the file is removed",
        path.display()
    )]
    SetAside {
        /// The file, by its new name.
        path: PathBuf,
    },
    /// Somebody else kept the database locked.
    #[error("{}: is in use by another program", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// A write was cut short, and only a writer can take it back.
    #[error(
        "{}: a write was cut short; open it once where it can be written, \
         for instance with `sqlite3 FILE .schema`", path.display()
    )]
    Unrecovered {
        /// The database.
        path: PathBuf,
    },
    /// The last flushes are in the `-wal` file, which cannot be read where it is.
    #[error(
        "{}: its last flushes are in the -wal file beside it, which cannot be read in a \
         directory that cannot be written; copy both files elsewhere", path.display()
    )]
    WalUnreadable {
        /// The database.
        path: PathBuf,
    },
    /// A directory without any database in it.
    #[error("{}: holds no profile database (*.db)", path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// A database was to be made where something is already.
    #[error("{}: is there already", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}", path.display())]
    Io {
        /// What was to be opened, read or written.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// SQLite failed in another way.
    #[error("{}: {detail}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// SQLite's words.
        detail: String,
    },
    /// A row that contradicts itself; it was not recorded, the flush goes on.
    #[error("not recorded: {what}")]
    Invalid {
        /// The contradiction.
        what: String,
    },
    /// An id from before a rollback, or from another writer; the flush goes on.
    #[error("not recorded: an id from another database or a flush that was not saved")]
    StaleId,
    /// Something of this flush could not be written, therefore nothing of it is.
    #[error("{}: an earlier write of this flush failed, nothing of it is saved", path.display())]
    FlushFailed {
        /// The database.
        path: PathBuf,
    },
}

/// The same errors under the name that readers use.
pub type ReadError = Error;

/// The path in an error, if it has one: to be read, or to be changed.
macro_rules! place_of {
    ($error:expr) => {
        match $error {
            Error::DiskFull { path }
            | Error::ReadOnly { path }
            | Error::NotADatabase { path, .. }
            | Error::NewerSchema { path, .. }
            | Error::OlderSchema { path, .. }
            | Error::Corrupt { path, .. }
            | Error::SetAside { path }
            | Error::Busy { path }
            | Error::Unrecovered { path }
            | Error::WalUnreadable { path }
            | Error::NoDatabase { path }
            | Error::Exists { path }
            | Error::Io { path, .. }
            | Error::Sqlite { path, .. }
            | Error::FlushFailed { path } => Some(path),
            Error::Invalid { .. } | Error::StaleId => None,
        }
    };
}

impl Error {
    /// The file or the directory that it is about; `None`: what was to be written contradicts
    /// itself.
    pub fn path(&self) -> Option<&Path> {
        place_of!(self).map(PathBuf::as_path)
    }

    /// As it is told to those who may not know what is in the folder of a service.
    #[must_use]
    pub fn without_place(mut self) -> Error {
        if let Some(path) = place_of!(&mut self) {
            *path = NO_PLACE.into();
        }
        self
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::DiskFull {
                path: path.to_owned(),
            },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly {
                path: path.to_owned(),
            },
            _ => Error::Io {
                path: path.to_owned(),
                source,
            },
        }
    }

    pub(crate) fn corrupt(path: &Path, detail: impl Into<String>) -> Error {
        Error::Corrupt {
            path: path.to_owned(),
            detail: detail.into(),
        }
    }

    pub(crate) fn not_a_database(path: &Path, found: impl Into<String>) -> Error {
        Error::NotADatabase {
            path: path.to_owned(),
            found: found.into(),
        }
    }

    /// Sorts SQLite's errors by what they mean to the one who chose the file.
    pub(crate) fn sqlite(path: &Path, error: rusqlite::Error) -> Error {
        let path_of = || path.to_owned();
        let Some(&failure) = error.sqlite_error() else {
            // The rest is about values that have another type or range than their column.
            return Error::corrupt(path, error.to_string());
        };
        match (failure.code, failure.extended_code) {
            (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => {
                Error::DiskFull { path: path_of() }
            }
            (_, ffi::SQLITE_READONLY_ROLLBACK) => Error::Unrecovered { path: path_of() },
            (ErrorCode::ReadOnly | ErrorCode::PermissionDenied, _) => {
                Error::ReadOnly { path: path_of() }
            }
            (ErrorCode::NotADatabase, _) => Error::not_a_database(path, NO_SQLITE),
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
                Error::Busy { path: path_of() }
            }
            // `Unknown` is SQL that does not fit the tables of the file.
            (
                ErrorCode::DatabaseCorrupt
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch
                | ErrorCode::TooBig
                | ErrorCode::SchemaChanged
                | ErrorCode::Unknown,
                _,
            ) => Error::corrupt(path, error.to_string()),
            (ErrorCode::SystemIoFailure, _) => Error::Io {
                path: path_of(),
                source: io::Error::other(error.to_string()),
            },
            (ErrorCode::OutOfMemory, _) => Error::Io {
                path: path_of(),
                source: io::ErrorKind::OutOfMemory.into(),
            },
            (ErrorCode::CannotOpen, _) => Error::Sqlite {
                path: path_of(),
                detail: "cannot be opened, or its journal cannot be made beside it".to_owned(),
            },
            _ => Error::Sqlite {
                path: path_of(),
                detail: error.to_string(),
            },
        }
    }
}
