//! The view being built: an empty database, and what of it is there already.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rusqlite::{CachedStatement, Connection, OpenFlags};

use super::{Limits, Stop, ViewError};
use crate::rows::{Epoch, Image, ImageKind, Subject};
use crate::tables::stored::{StoredParameter, StoredPc};
use crate::tables::{self, Record};
use crate::{Error, from_sql, open};

/// The size of a page, in bytes; that of SQLite.
const PAGE: u64 = 4096;

/// The memory for pages: negative, so in KiB.
const CACHE: i64 = -16_384;

/// Rows between two looks at the limits.
const ROWS_PER_LOOK: u32 = 256;

/// The last epoch of a source.
pub(super) struct LastEpoch {
    /// Its id in the view, and whether it is there.
    pub(super) id: i64,
    pub(super) is_there: bool,
    pub(super) epoch: Epoch,
    /// The end of its last flush, whether that was asked for or not.
    pub(super) saved: Option<i64>,
}

/// The view being built.
pub(super) struct Target {
    path: PathBuf,
    conn: Connection,
    limits: Limits,
    rows_until_look: u32,
    epochs: HashSet<i64>,
    /// Of the source that came last.
    pub(super) last_epoch: Option<LastEpoch>,
    images: HashMap<(ImageKind, String, String), i64>,
    subjects: HashMap<Subject, i64>,
    parameters: HashMap<String, i64>,
    /// Rows of another source are there already.
    has_others: bool,
}

impl Target {
    /// Begins with nothing, whatever the file holds.
    pub(super) fn create(path: &Path, limits: &Limits) -> Result<Target, Error> {
        let path = open::absolute(path)?;
        let file = OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(0))
            .map_err(|e| Error::io(&path, e))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let failed = |e| Error::sqlite(&path, e);
        let mut conn = Connection::open_with_flags(&path, flags).map_err(failed)?;
        // It is thrown away if it is not finished: nothing is ever taken back.
        open::fresh(&path, &mut conn)?;
        conn.pragma_update(None, "cache_size", CACHE)
            .map_err(failed)?;
        conn.execute_batch("BEGIN EXCLUSIVE").map_err(failed)?;
        Ok(Target {
            path,
            conn,
            limits: limits.clone(),
            rows_until_look: 0,
            epochs: HashSet::new(),
            last_epoch: None,
            images: HashMap::new(),
            subjects: HashMap::new(),
            parameters: HashMap::new(),
            has_others: false,
        })
    }

    /// Brings everything into the file and closes it.
    pub(super) fn finish(self) -> Result<(), ViewError> {
        if let Err(error) = self.conn.execute_batch("COMMIT") {
            return Err(self.error(error));
        }
        let Target { conn, path, .. } = self;
        conn.close()
            .map_err(|(_, e)| ViewError::Target(Error::sqlite(&path, e)))
    }

    /// To be called behind each source.
    pub(super) fn source_ends(&mut self) {
        self.has_others = true;
    }

    /// To be called with every row that is looked at.
    pub(super) fn look_at_limits(&mut self) -> Result<(), Stop> {
        self.look_behind(1)
    }

    /// To be called with so many rows that were looked at together.
    pub(super) fn look_behind(&mut self, rows: usize) -> Result<(), Stop> {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        if let Some(left) = self.rows_until_look.checked_sub(rows) {
            self.rows_until_look = left;
            return Ok(());
        }
        self.rows_until_look = ROWS_PER_LOOK;
        let stopped = self.limits.stop.load(Ordering::Relaxed);
        if stopped || Instant::now() > self.limits.until {
            return Err(Stop::View(ViewError::TooSlow));
        }
        let pages = self.run("PRAGMA page_count", |statement| {
            statement.query_row([], |row| row.get(0).map(from_sql))
        })?;
        if pages.saturating_mul(PAGE) > self.limits.bytes {
            let most = self.limits.bytes;
            return Err(Stop::View(ViewError::TooLarge { most }));
        }
        Ok(())
    }

    /// The id under which an epoch of a source goes here: its own unless another has it.
    pub(super) fn epoch_id(&mut self, of_source: i64) -> i64 {
        let next = || {
            self.epochs
                .iter()
                .max()
                .map_or(1, |id| id.saturating_add(1))
        };
        let id = if self.epochs.contains(&of_source) {
            next()
        } else {
            of_source
        };
        self.epochs.insert(id);
        id
    }

    /// The id of an image, which other sources may have as well.
    pub(super) fn image(&mut self, image: &Image) -> Result<i64, Stop> {
        let key = (image.kind, image.identity.clone(), image.path.clone());
        if let Some(id) = self.images.get(&key) {
            return Ok(*id);
        }
        let id = self.insert(image)?;
        self.images.insert(key, id);
        Ok(id)
    }

    /// The id of an access tag, which other sources may have as well.
    pub(super) fn subject(&mut self, subject: &Subject) -> Result<i64, Stop> {
        if let Some(id) = self.subjects.get(subject) {
            return Ok(*id);
        }
        let id = self.insert(subject)?;
        self.subjects.insert(*subject, id);
        Ok(id)
    }

    /// The id of a parameter, which other sources may have as well.
    pub(super) fn parameter(&mut self, name: &str) -> Result<i64, Stop> {
        if let Some(id) = self.parameters.get(name) {
            return Ok(*id);
        }
        let id = self.insert(&StoredParameter {
            name: name.to_owned(),
        })?;
        self.parameters.insert(name.to_owned(), id);
        Ok(id)
    }

    /// The id of an instruction, which other sources may have as well.
    pub(super) fn pc(&mut self, pc: &StoredPc) -> Result<i64, Stop> {
        match self.has_others {
            true => self.with(|conn| tables::put(conn, pc)),
            false => self.insert(pc),
        }
    }

    /// The id of the row with the same key, if it is there.
    pub(super) fn find(&self, row: &impl Record) -> Result<Option<i64>, Stop> {
        self.with(|conn| tables::find(conn, row))
    }

    /// Inserts a row and returns its id.
    pub(super) fn insert(&mut self, row: &impl Record) -> Result<i64, Stop> {
        self.with(|conn| tables::insert(conn, row))
    }

    /// Inserts a row under this id.
    pub(super) fn insert_as(&mut self, id: i64, row: &impl Record) -> Result<(), Stop> {
        self.with(|conn| tables::insert_as(conn, Some(id), row).map(drop))
    }

    /// Inserts a row of a table without ids.
    pub(super) fn add(&mut self, row: &impl Record) -> Result<(), Stop> {
        self.with(|conn| tables::add(conn, row))
    }

    /// Inserts a row, or merges it with the one that is there.
    pub(super) fn merge(&mut self, row: &impl Record) -> Result<(), Stop> {
        self.with(|conn| tables::merge(conn, row))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Stop> {
        work(&self.conn).map_err(|error| Stop::View(self.error(error)))
    }

    fn run<T>(
        &self,
        sql: &str,
        work: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Stop> {
        let done = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| work(&mut statement));
        done.map_err(|error| Stop::View(self.error(error)))
    }

    fn error(&self, error: rusqlite::Error) -> ViewError {
        ViewError::Target(Error::sqlite(&self.path, error))
    }
}
