//! What a writer that died has left: its log, its epoch without an end.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::open::{
    BUSY_TIMEOUT, Content, for_reading, for_writing, kind_of, set_journal_mode, unused_wal,
};
use crate::rows::Epoch;
use crate::tables::Cell;
use crate::{Error, tables};

/// What was found out about a database that nobody has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It is closed and whole.
    Well,
    /// It was not closed, and is now.
    Closed,
}

/// Checks a database whose writer has gone, and closes it where that writer did not.
pub(crate) fn recover(path: &Path) -> Result<Finding, Error> {
    let is_closed = |conn: &Connection| {
        !is_wal(conn) && epochs_without_end(conn).is_ok_and(|ids| ids.is_empty())
    };
    let closed = unused_wal(path) && for_reading(path).is_ok_and(|conn| is_closed(&conn));
    let conn = if closed {
        for_reading(path)?
    } else {
        // What was never finished is no loss, but nothing to keep, either.
        if matches!(kind_of(path)?, Content::Empty) {
            return Err(Error::not_a_database(path, "an empty file"));
        }
        for_writing(path)?
    };
    check_pages(path, &conn)?;
    if closed {
        return Ok(Finding::Well);
    }
    let failed = |e| Error::sqlite(path, e);
    cut_short(&conn, &epochs_without_end(&conn).map_err(failed)?).map_err(failed)?;
    set_journal_mode(&conn, "DELETE").map_err(failed)?;
    conn.close().map_err(|(_, e)| Error::sqlite(path, e))?;
    Ok(Finding::Closed)
}

/// Ends epochs that another writer of this database began and did not live to end. Where any
/// program has the database open they stay as they are: it may be that writer.
pub(crate) fn end_epochs_of_the_dead(path: &Path, conn: &Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    let ids = epochs_without_end(conn).map_err(failed)?;
    if ids.is_empty() {
        return Ok(());
    }
    // SQLite leaves the write-ahead log only when nobody else has the database open.
    conn.busy_timeout(Duration::ZERO).map_err(failed)?;
    let left = set_journal_mode(conn, "DELETE");
    conn.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    match left.map_err(failed) {
        Ok(()) => {}
        Err(Error::Busy { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    set_journal_mode(conn, "WAL").map_err(failed)?;
    cut_short(conn, &ids).map_err(failed)
}

/// Notes in a copy of a database that the collector was at work when it was copied, if the last
/// epoch has no end. Without that, a copy looks like what a collector left that died.
///
/// # Errors
/// If the copy cannot be written.
pub fn note_copied(copy: &Path) -> Result<(), Error> {
    let failed = |e| Error::sqlite(copy, e);
    let conn = for_writing(copy)?;
    let noted = || {
        let sql = "SELECT max(id) FROM epoch";
        let last: Option<i64> = conn.query_row(sql, [], |row| row.get(0))?;
        if let Some(last) = last
            && let Some(mut epoch) = tables::get::<Epoch>(&conn, last)?
            && epoch.ended.is_none()
        {
            epoch.settings.copied = true;
            let mut note = conn.prepare("UPDATE epoch SET settings = ?1 WHERE id = ?2")?;
            note.execute(params![epoch.settings.put(), last])?;
        }
        set_journal_mode(&conn, "DELETE")
    };
    noted().map_err(failed)?;
    conn.close().map_err(|(_, e)| Error::sqlite(copy, e))
}

fn epochs_without_end(conn: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut statement = conn.prepare("SELECT id FROM epoch WHERE ended IS NULL")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Ends these epochs where their last flush ended, and marks them.
fn cut_short(conn: &Connection, ids: &[i64]) -> rusqlite::Result<()> {
    let mut of_flushes = conn.prepare("SELECT max(ended) FROM flush WHERE epoch = ?1")?;
    let mut end = conn.prepare("UPDATE epoch SET ended = ?1, settings = ?2 WHERE id = ?3")?;
    for id in ids {
        let Some(mut epoch) = tables::get::<Epoch>(conn, *id)? else {
            continue;
        };
        let ended: Option<i64> = of_flushes.query_row([id], |row| row.get(0))?;
        // The collector of what was copied went on elsewhere.
        epoch.settings.cut_short = !epoch.settings.copied;
        let ended = ended.unwrap_or(epoch.started);
        end.execute(params![ended, epoch.settings.put(), id])?;
    }
    Ok(())
}

fn is_wal(conn: &Connection) -> bool {
    let mode = conn.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    mode.is_ok_and(|mode| mode == "wal")
}

/// Whether the pages make whole trees. What is in them is not checked.
fn check_pages(path: &Path, conn: &Connection) -> Result<(), Error> {
    let failed = |e| Error::sqlite(path, e);
    let said: String = conn
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if said == "ok" {
        Ok(())
    } else {
        Err(Error::corrupt(path, said))
    }
}
