//! Opening: what is a vcpi database, what is not, and the pragmas of both sides.
//!
//! Whether a file is ours is found out through SQLite with `immutable=1`, which reads
//! the main file alone, locks nothing and leaves nothing behind. It is not read
//! directly: closing a file drops every lock that the process holds on it, those of
//! a writer in another thread included.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, ffi};

use crate::Error;
use crate::error::NO_SQLITE;
use crate::tables::stored::{JOINED, StoredJoined};
use crate::tables::{self, Record};

/// SQLite's application id of a profile database: "vcpi".
const APPLICATION_ID: i64 = 0x7663_7069;

/// The version of the first of [`MIGRATIONS`], which makes a schema out of nothing. What is
/// older lacks what nobody can add afterwards: the access tags of their moment.
const OLDEST: i64 = 2;

/// Schema changes in their order, each to the version that its file is named by.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
];

/// How long another program may hold a lock before it counts as an error.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a `-wal` file is cut back to after a large flush, in bytes.
const WAL_LIMIT: i64 = 16 << 20;

/// What a writer keeps of the database in memory, in KiB, which SQLite wants as a negative number.
/// A large flush touches pages all over the indices: with SQLite's usual 2 MiB most of its time
/// goes into reading them again.
const WRITER_CACHE: i64 = -(32 << 10);

/// Bytes of the smallest SQLite database: one page of the smallest size.
const SMALLEST: u64 = 512;

/// What errors call a database in memory.
pub(crate) const IN_MEMORY: &str = "(in memory)";

/// For URIs of [`immutable_uri`].
const IMMUTABLE: OpenFlags = OpenFlags::SQLITE_OPEN_READ_ONLY
    .union(OpenFlags::SQLITE_OPEN_NO_MUTEX)
    .union(OpenFlags::SQLITE_OPEN_URI);

fn newest() -> i64 {
    OLDEST + to_newest(OLDEST).len() as i64
}

/// The schema changes that a file of this version lacks; one of version 0 is empty.
fn to_newest(version: i64) -> &'static [&'static str] {
    let applied = version.saturating_add(1).saturating_sub(OLDEST).max(0);
    let applied = usize::try_from(applied).unwrap_or(usize::MAX);
    MIGRATIONS.get(applied..).unwrap_or_default()
}

/// Path without special meanings to SQLite (`:memory:`, the empty name, `file:`).
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|e| Error::io(path, e))
}

/// Opens or creates the database, brings its schema up to date and sets it up for a
/// writer. Whatever is not a vcpi database is left as it was.
pub(crate) fn for_writing(path: &Path) -> Result<Connection, Error> {
    let created = match kind_of(path) {
        Ok(Content::Empty) => false,
        Ok(Content::Some) => {
            probe(path)?;
            false
        }
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            // Values are as secret as the memory they come from: for the owner alone.
            // SQLite gives its journals the same mode.
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .open(path)
                .map_err(|e| Error::io(path, e))?;
            true
        }
        Err(error) => return Err(error),
    };
    let opened = set_up_writer(path);
    if opened.is_err() && created {
        // Nothing but an empty file that was not there before. If it stays, the next
        // run takes it as it takes any empty file.
        let _ = fs::remove_file(path);
    }
    opened
}

/// Makes the empty file that `conn` has open a database that is written once and kept only
/// if all of it could be: nothing is ever rolled back.
pub(crate) fn fresh(path: &Path, conn: &mut Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    // A hardened connection would not let itself be told so.
    set_journal_mode(conn, "OFF").map_err(failed)?;
    harden(conn).map_err(failed)?;
    conn.pragma_update(None, "synchronous", "OFF")
        .map_err(failed)?;
    migrate(path, conn)
}

/// A database in memory that takes no more than so many bytes.
pub(crate) fn in_memory(most: u64) -> Result<Connection, Error> {
    let path = Path::new(IN_MEMORY);
    let failed = |e| Error::sqlite(path, e);
    let mut conn = Connection::open_in_memory().map_err(failed)?;
    fresh(path, &mut conn)?;
    let page = number(&conn, "page_size").map_err(failed)?;
    let pages = i64::try_from(most).unwrap_or(i64::MAX) / page.max(1);
    conn.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))
        .map_err(failed)?;
    Ok(conn)
}

/// Changes the journal mode; to leave the write-ahead log, nobody else may have the database open.
pub(crate) fn set_journal_mode(conn: &Connection, mode: &str) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))
}

fn set_up_writer(path: &Path) -> Result<Connection, Error> {
    let failed = |e| Error::sqlite(path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    harden(&conn).map_err(failed)?;
    if conn.is_readonly("main").map_err(failed)? {
        return Err(Error::ReadOnly {
            path: path.to_owned(),
        });
    }
    // Rows refer to rows that this writer made or found itself; to have SQLite look each of them
    // up again would make a flush a quarter dearer.
    conn.pragma_update(None, "foreign_keys", false)
        .map_err(failed)?;
    migrate(path, &mut conn)?;
    check_schema(path, &conn)?;
    // Only now: the application id has to be in the main file, not in its -wal.
    set_journal_mode(&conn, "WAL").map_err(failed)?;
    conn.pragma_update(None, "synchronous", "NORMAL")
        .map_err(failed)?;
    conn.pragma_update(None, "cache_size", WRITER_CACHE)
        .map_err(failed)?;
    conn.pragma_update_and_check(None, "journal_size_limit", WAL_LIMIT, |_| Ok(()))
        .map_err(failed)?;
    // Merging waits for the disk. A commit does not: see `log`.
    conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
        .map_err(failed)?;
    Ok(conn)
}

/// Opens the database for reading and starts the transaction that sees one state of it.
pub(crate) fn for_reading(path: &Path) -> Result<Connection, Error> {
    match kind_of(path)? {
        Content::Empty => return Err(Error::not_a_database(path, "an empty file")),
        Content::Some => match probe(path) {
            // Into the main file its writer merges the log at any time, the first page first.
            Err(Error::Corrupt { .. }) if !unused_wal(path) => {}
            // The last of the log may have been merged while it was looked at, and the log be gone.
            Err(Error::Corrupt { .. }) => probe(path)?,
            probed => probed?,
        },
    }
    let conn = match open_read_only(path) {
        // A directory that cannot be written, in which SQLite cannot make the -shm file
        // of a database in WAL mode. Without a -wal there is nothing to share.
        Err(error) if lacks_shm(&error) && unused_wal(path) => open_immutable(path),
        Err(error) if lacks_shm(&error) => {
            return Err(Error::WalUnreadable {
                path: path.to_owned(),
            });
        }
        other => other,
    };
    let conn = conn.map_err(|e| Error::sqlite(path, e))?;
    check_version(path, &conn)?;
    check_schema(path, &conn)?;
    check_end(path, &conn)?;
    Ok(conn)
}

/// SQLite fills up a last page that was cut off with zeros, and says nothing. With a
/// write-ahead log such a page may be a checkpoint that the log still has in full.
fn check_end(path: &Path, conn: &Connection) -> Result<(), Error> {
    let page = number(conn, "page_size").map_err(|e| Error::sqlite(path, e))?;
    let length = fs::metadata(path).map_err(|e| Error::io(path, e))?.len();
    let whole = u64::try_from(page).is_ok_and(|page| length.is_multiple_of(page));
    if whole || !unused_wal(path) {
        return Ok(());
    }
    Err(Error::corrupt(path, "it ends in the middle of a page"))
}

fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    start_reading(Connection::open_with_flags(path, flags)?)
}

fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    start_reading(Connection::open_with_flags(immutable_uri(path), IMMUTABLE)?)
}

/// Whether SQLite failed because it could neither find nor make a -shm file.
fn lacks_shm(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        let other_cause = error.extended_code == ffi::SQLITE_READONLY_ROLLBACK;
        matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly) && !other_cause
    })
}

fn start_reading(conn: Connection) -> rusqlite::Result<Connection> {
    harden(&conn)?;
    conn.pragma_update(None, "query_only", true)?;
    conn.execute_batch("BEGIN")?;
    // The transaction begins, and the first page is looked at, with the first read.
    number(&conn, "schema_version")?;
    Ok(conn)
}

/// A file may come from anybody: nothing in its schema gets to run.
pub(crate) fn harden(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(64);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    conn.pragma_update(None, "cell_size_check", true)
}

pub(crate) enum Content {
    Empty,
    Some,
}

/// Tells a file with something in it from everything that cannot be a database.
pub(crate) fn kind_of(path: &Path) -> Result<Content, Error> {
    let metadata = fs::metadata(path).map_err(|e| Error::io(path, e))?;
    let kind = metadata.file_type();
    let found = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else if metadata.len() == 0 {
        return Ok(Content::Empty);
    } else if metadata.len() < SMALLEST {
        // SQLite itself takes a very short file for an empty database.
        NO_SQLITE
    } else {
        return Ok(Content::Some);
    };
    Err(Error::not_a_database(path, found))
}

/// Whether the main file says that it is a vcpi database of a version known here.
fn probe(path: &Path) -> Result<(), Error> {
    let conn = Connection::open_with_flags(immutable_uri(path), IMMUTABLE)
        .map_err(|e| cannot_open(path, e))?;
    check_version(path, &conn)
}

/// SQLite does not say why a file cannot be opened; the file system does.
fn cannot_open(path: &Path, error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) {
        // Nobody of this process can have a file open that it may not open.
        if let Err(source) = OpenOptions::new().read(true).open(path) {
            return Error::io(path, source);
        }
    }
    Error::sqlite(path, error)
}

fn number(conn: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Whether the header says that it is a vcpi database of a version known here.
pub(crate) fn check_version(path: &Path, conn: &Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    let application = number(conn, "application_id").map_err(failed)?;
    let version = number(conn, "user_version").map_err(failed)?;
    if application != APPLICATION_ID {
        let found = match application {
            0 => "an SQLite database of another program".to_owned(),
            id => format!("an SQLite database of another program (application id {id:#x})"),
        };
        return Err(Error::not_a_database(path, found));
    }
    if version > newest() {
        return Err(Error::NewerSchema {
            path: path.to_owned(),
            found: version,
            known: newest(),
        });
    }
    if version < 1 {
        return Err(Error::corrupt(path, format!("schema version {version}")));
    }
    if version < OLDEST {
        return Err(Error::OlderSchema {
            path: path.to_owned(),
            found: version,
            known: OLDEST,
        });
    }
    Ok(())
}

/// Names of the files that this one was made of.
pub(crate) fn joined(path: &Path, conn: &Connection) -> Result<Vec<String>, Error> {
    names_of_joined(conn).map_err(|e| Error::sqlite(path, e))
}

/// As [`joined`].
pub(crate) fn names_of_joined(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let version = tables::version(conn)?;
    if !JOINED.is_in(version) {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare(&JOINED.select(version))?;
    let rows = statement.query_map([], StoredJoined::read)?;
    rows.map(|row| row.map(|joined| joined.name)).collect()
}

/// Applies the migrations that the file lacks, all or none.
fn migrate(path: &Path, conn: &mut Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    let transaction = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    let fresh = tables == 0 && number(&transaction, "application_id").map_err(failed)? == 0;
    let applied = if fresh {
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(failed)?;
        0
    } else {
        check_version(path, &transaction)?;
        number(&transaction, "user_version").map_err(failed)?
    };
    for migration in to_newest(applied) {
        transaction.execute_batch(migration).map_err(failed)?;
    }
    if applied < newest() {
        transaction
            .pragma_update(None, "user_version", newest())
            .map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// An empty database in memory, with the tables that this version of the schema has.
pub(crate) fn of_version(version: i64) -> rusqlite::Result<Connection> {
    let conn = Connection::open_in_memory()?;
    let later = to_newest(version).len();
    for migration in &MIGRATIONS[..MIGRATIONS.len() - later] {
        conn.execute_batch(migration)?;
    }
    Ok(conn)
}

/// All versions of the schema that are known here.
#[cfg(test)]
pub(crate) fn versions() -> std::ops::RangeInclusive<i64> {
    OLDEST..=newest()
}

/// Compares the declarations of all tables with those of a database made here. Views,
/// generated columns and missing constraints under the names of tables are found so.
fn check_schema(path: &Path, conn: &Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    let version = number(conn, "user_version").map_err(failed)?;
    let expected = expected_tables(version).map_err(failed)?;
    let found = tables(conn).map_err(failed)?;
    for (name, declaration) in expected.iter() {
        match found.iter().find(|(found_name, _)| found_name == name) {
            None => return Err(Error::corrupt(path, format!("table {name} is missing"))),
            Some((_, found)) if found != declaration => {
                return Err(Error::corrupt(
                    path,
                    format!("table {name} is declared differently"),
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The tables of a version of the schema. They are made once: a database of every file took longer
/// to make than a report takes to read some.
fn expected_tables(version: i64) -> rusqlite::Result<Arc<Tables>> {
    static KNOWN: Mutex<BTreeMap<i64, Arc<Tables>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tables) = known.get(&version) {
        return Ok(Arc::clone(tables));
    }
    let made = Arc::new(tables(&of_version(version)?)?);
    known.insert(version, Arc::clone(&made));
    Ok(made)
}

/// Names and declarations of tables, without comments.
type Tables = Vec<(String, String)>;

fn tables(conn: &Connection) -> rusqlite::Result<Tables> {
    let mut statement = conn
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL")?;
    let rows = statement.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            without_comments(&row.get::<_, String>(1)?),
        ))
    })?;
    rows.collect()
}

/// Comments may be reworded without making old files unreadable. Cutting at `--` even
/// inside quotes cannot make another declaration look like ours: a line end stays a
/// space, and ours has no space inside quotes.
fn without_comments(sql: &str) -> String {
    let mut words = Vec::new();
    for line in sql.lines() {
        let code = line.split_once("--").map_or(line, |(code, _)| code);
        words.extend(code.split_ascii_whitespace());
    }
    words.join(" ")
}

/// Whether there is no `-wal` file, or nothing in it.
pub(crate) fn unused_wal(path: &Path) -> bool {
    match fs::metadata(wal_of(path)) {
        Ok(metadata) => metadata.len() == 0,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The name of the write-ahead log of a database.
pub(crate) fn wal_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// The URI under which SQLite reads the main file alone. Every byte that could mean
/// something in a URI is escaped.
fn immutable_uri(path: &Path) -> PathBuf {
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(byte),
            _ => uri.extend(format!("%{byte:02X}").bytes()),
        }
    }
    uri.extend(b"?immutable=1");
    PathBuf::from(OsString::from_vec(uri))
}

#[cfg(test)]
mod tests {
    /// Those who read blobs without this module know the same schema.
    #[test]
    fn newest_schema() {
        assert_eq!(super::newest(), crate::packed::SCHEMA);
    }
}
