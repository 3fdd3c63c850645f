//! The view being built: an empty database, and what of it is there already.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OpenFlags, OptionalExtension, Params};

use super::{Limits, Stop, ViewError};
use crate::rows::{Image, ImageKind, Subject};
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
    /// Its columns behind the id.
    pub(super) columns: Vec<Value>,
    pub(super) started: i64,
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
    pub(super) fn image(&mut self, image: &Image, kind: &str) -> Result<i64, Stop> {
        let key = (image.kind, image.identity.clone(), image.path.clone());
        if let Some(id) = self.images.get(&key) {
            return Ok(*id);
        }
        let id = self.insert(
            "INSERT INTO image (kind, path, build_id, identity) VALUES (?1, ?2, ?3, ?4)",
            (kind, &image.path, &image.build_id, &image.identity),
        )?;
        self.images.insert(key, id);
        Ok(id)
    }

    /// The id of an access tag, which other sources may have as well.
    pub(super) fn subject(&mut self, subject: &Subject) -> Result<i64, Stop> {
        if let Some(id) = self.subjects.get(subject) {
            return Ok(*id);
        }
        let Subject {
            uid,
            gid,
            euid,
            egid,
            suid,
            dumpable,
            capable,
            kernel,
        } = *subject;
        let id = self.insert(
            "INSERT INTO subject (uid, gid, euid, egid, suid, dumpable, capable, kernel)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (uid, gid, euid, egid, suid, dumpable, capable, kernel),
        )?;
        self.subjects.insert(*subject, id);
        Ok(id)
    }

    /// The id of a process that is there, by its epoch, pid, start and execs.
    pub(super) fn process(&mut self, key: (i64, i64, i64, i64)) -> Result<Option<i64>, Stop> {
        let sql = "SELECT id FROM process
                   WHERE epoch = ?1 AND pid = ?2 AND started = ?3 AND execs = ?4";
        self.run(sql, |statement| {
            statement.query_row(key, |row| row.get(0)).optional()
        })
    }

    /// The id of a parameter, which other sources may have as well.
    pub(super) fn parameter(&mut self, name: &str) -> Result<i64, Stop> {
        if let Some(id) = self.parameters.get(name) {
            return Ok(*id);
        }
        let id = self.insert("INSERT INTO parameter (name) VALUES (?1)", [name])?;
        self.parameters.insert(name.to_owned(), id);
        Ok(id)
    }

    /// The id of an instruction, which other sources may have as well.
    pub(super) fn pc(
        &mut self,
        image: i64,
        address: i64,
        bytes: Option<&[u8]>,
    ) -> Result<i64, Stop> {
        let sql = "SELECT id FROM pc WHERE image = ?1 AND address = ?2";
        let known = match self.has_others {
            true => self.run(sql, |statement| {
                statement
                    .query_row((image, address), |row| row.get(0))
                    .optional()
            })?,
            false => None,
        };
        match known {
            Some(id) => Ok(id),
            None => self.insert(
                "INSERT INTO pc (image, address, bytes) VALUES (?1, ?2, ?3)",
                (image, address, bytes),
            ),
        }
    }

    /// Inserts a row and returns its id.
    pub(super) fn insert(&mut self, sql: &str, values: impl Params) -> Result<i64, Stop> {
        self.run(sql, |statement| statement.insert(values))
    }

    /// Inserts a row of a table without ids.
    pub(super) fn add(&mut self, sql: &str, values: impl Params) -> Result<(), Stop> {
        self.run(sql, |statement| statement.execute(values))
            .map(drop)
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
