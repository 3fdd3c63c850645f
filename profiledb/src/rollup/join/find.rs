//! Which files are to be joined.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Join;
use crate::directory::EpochFile;
use crate::rollup::Limits;
use crate::rollup::period::Grain;
use crate::tables::stored::CHUNK;
use crate::{Directory, Error, open, tables};

/// How long after a period its files are joined, in nanoseconds: hours come before days.
const GRACE: i64 = 600_000_000_000;

/// A closed file whose hours are rolled up.
struct Closed {
    path: PathBuf,
    /// The shortest and the longest grain of its flushes.
    grains: (i64, i64),
    /// The end of its last flush.
    ended: i64,
    /// Hours and days that it has.
    periods: u64,
}

/// Begins to join the first files that are due.
pub(in crate::rollup) fn find(
    directory: &Directory,
    files: &[EpochFile],
    now: i64,
    running: Option<&Path>,
    limits: &Limits,
) -> Result<Option<Join>, Error> {
    if limits.day == 0 {
        return Ok(None);
    }
    let mut closed = Vec::new();
    for file in files {
        if file.aside || running == Some(&file.path) || !file.path.starts_with(directory.path()) {
            continue;
        }
        match look(&file.path) {
            Ok(found) => closed.extend(found),
            // Whoever reads it finds out what is the matter with it.
            Err(error) => {
                let is_gone = matches!(&error, Error::Io { .. } | Error::Busy { .. });
                if !is_gone && !crate::is_useless(&error) {
                    return Err(error);
                }
            }
        }
    }
    for (grain, budget, shortest) in [
        (Grain::Day, limits.day, Grain::Hour),
        (Grain::Week, limits.week, Grain::Day),
    ] {
        if budget == 0 {
            continue;
        }
        let mut periods: BTreeMap<(i64, i64), Vec<&Closed>> = BTreeMap::new();
        for file in &closed {
            let period = grain.period(file.ended);
            if period.1.saturating_add(GRACE) <= now && file.grains.1 <= grain.seconds() {
                periods.entry(period).or_default().push(file);
            }
        }
        for files in periods.values() {
            let is_ready = files.iter().all(|file| file.grains.0 >= shortest.seconds());
            let is_due = files.len() > 1 || files.iter().any(|f| f.grains.0 < grain.seconds());
            if is_ready && is_due {
                let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
                let periods = files.iter().map(|file| file.periods).sum();
                let budget = part(budget, periods, grain);
                return Join::begin(&paths, grain, budget).map(Some);
            }
        }
    }
    Ok(None)
}

/// The part of a period's bytes that so many hours of a day may take, or days of a week.
fn part(budget: u64, periods: u64, grain: Grain) -> u64 {
    let all = match grain {
        Grain::Week => 7,
        _ => 24,
    };
    // What comes again is told once: half of the time takes more than half of the room.
    let periods = (2 * periods).clamp(1, all);
    (u128::from(budget) * u128::from(periods) / u128::from(all)) as u64
}

/// A file that nobody writes to, if it has something and all of it is in chunks.
fn look(path: &Path) -> Result<Option<Closed>, Error> {
    if !open::unused_wal(path) {
        return Ok(None);
    }
    let conn = open::for_reading(path)?;
    let failed = |e| Error::sqlite(path, e);
    if !tables::has(&conn, &CHUNK).map_err(failed)? || is_open(&conn).map_err(failed)? {
        return Ok(None);
    }
    let sql = "SELECT min(grain), max(grain), max(ended), count(*) FROM flush HAVING count(*) > 0";
    let mut statement = conn.prepare(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else {
        return Ok(None);
    };
    let get = |column| row.get::<_, i64>(column).map_err(failed);
    Ok(Some(Closed {
        path: path.to_owned(),
        grains: (get(0)?, get(1)?),
        ended: get(2)?,
        periods: u64::try_from(get(3)?).unwrap_or(0),
    }))
}

/// Whether an epoch has not ended, or rows are as older programs wrote them.
fn is_open(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row(
        "SELECT EXISTS (SELECT 1 FROM epoch WHERE ended IS NULL)
             OR EXISTS (SELECT 1 FROM cycles) OR EXISTS (SELECT 1 FROM hotlist)
             OR EXISTS (SELECT 1 FROM branch) OR EXISTS (SELECT 1 FROM call)",
        [],
        |row| row.get(0),
    )
}
