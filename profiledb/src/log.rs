//! The write-ahead log of a running epoch, and how it gets into the database.
//!
//! What is committed is in the log, and safe from the end of its writer. To merge it into the
//! database is to wait until the disk has all of it, twice. So it is not the writer that does it,
//! but whoever has the time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::Error;
use crate::open::{harden, wal_of};

/// How much of a log a checkpoint merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// All of it: the next flush begins it anew.
    Whole,
    /// A part: a reader needs the rest, or the writer has added to it meanwhile.
    Part,
}

/// Makes a checkpoint: merges the log of a database that its writer has open, as far as that is
/// possible without waiting for anybody but the disk. The writer may go on writing.
///
/// # Errors
/// Those of the database.
pub fn checkpoint(path: &Path) -> Result<Checkpoint, Error> {
    let failed = |e| Error::sqlite(path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    harden(&conn).map_err(failed)?;
    conn.busy_timeout(Duration::ZERO).map_err(failed)?;
    // To end the log is the writer's part.
    leave_log(&conn).map_err(failed)?;
    let (frames, merged): (i64, i64) = conn
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get(1)?, row.get(2)?))
        })
        .map_err(failed)?;
    conn.close().map_err(|(_, e)| failed(e))?;
    Ok(if merged >= frames {
        Checkpoint::Whole
    } else {
        Checkpoint::Part
    })
}

/// Bytes of the log beside a database, merged or not.
pub fn log_bytes(path: &Path) -> u64 {
    fs::metadata(wal_of(path)).map_or(0, |metadata| metadata.len())
}

/// Has a connection leave the log as it is when it is closed.
pub(crate) fn leave_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}
