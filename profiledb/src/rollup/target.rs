//! A new file that days and weeks are joined into: what rows refer to is found in it by what it
//! says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::ids::Ids;
use crate::rows::{Image, Subject};
use crate::tables::stored::{StoredParameter, StoredProcess, StoredRegion, StoredSymbol};
use crate::tables::{self, Merged, Record};
use crate::{Error, open};

/// The file that is being made.
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) conn: Connection,
}

impl Target {
    /// Makes the file for its owner alone, or begins it anew.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::OpenOptionsExt;
        let created = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path);
        created.map_err(|e| Error::io(path, e))?;
        let mut conn = Connection::open(path).map_err(|e| Error::sqlite(path, e))?;
        open::fresh(path, &mut conn)?;
        conn.pragma_update(None, "foreign_keys", false)
            .map_err(|e| Error::sqlite(path, e))?;
        let path = path.to_owned();
        Ok(Self { path, conn })
    }

    pub(super) fn failed(&self, error: rusqlite::Error) -> Error {
        Error::sqlite(&self.path, error)
    }
}

/// What the ids of one input are in the file that is made.
pub(super) struct Mapped<'a> {
    pub(super) target: &'a Connection,
    pub(super) input: &'a Connection,
    pub(super) paths: (&'a Path, &'a Path),
    pub(super) known: &'a mut MetIds,
    /// The epoch of each roll-up.
    pub(super) epochs: &'a HashMap<i64, i64>,
}

/// Those that were met so far.
#[derive(Default)]
pub(super) struct MetIds {
    images: HashMap<i64, i64>,
    subjects: HashMap<i64, i64>,
    /// By the epoch in the new file, too.
    processes: HashMap<(i64, i64), i64>,
    parameters: HashMap<i64, i64>,
}

impl Mapped<'_> {
    /// A row of the input.
    fn get<R: Record>(&self, id: i64) -> Result<R, Error> {
        let in_input = self.paths.1;
        let row = tables::get(self.input, id).map_err(|e| Error::sqlite(in_input, e))?;
        row.ok_or_else(|| {
            let what = format!("a row refers to {} {id}, which is missing", R::TABLE.name);
            Error::corrupt(in_input, what)
        })
    }

    /// The id of the row that is the same as this one; one is made if there is none.
    fn put<R: Record>(&self, row: &R) -> Result<i64, Error> {
        const { assert!(matches!(R::TABLE.merged, Merged::Same)) };
        tables::put(self.target, row).map_err(|e| Error::sqlite(self.paths.0, e))
    }

    pub(super) fn subject(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.subjects.get(&id) {
            return Ok(*known);
        }
        let row = self.put(&self.get::<Subject>(id)?)?;
        self.known.subjects.insert(id, row);
        Ok(row)
    }

    /// Brings the names of an image's functions.
    fn symbols(&self, id: i64, image: i64) -> Result<(), Error> {
        for symbol in self.rows_of::<StoredSymbol>("image", id)? {
            let merged = tables::merge(self.target, &StoredSymbol { image, ..symbol });
            merged.map_err(|e| Error::sqlite(self.paths.0, e))?;
        }
        Ok(())
    }
}

impl Mapped<'_> {
    /// Brings what lay where in the memory of a process.
    fn regions(&mut self, id: i64, process: i64) -> Result<(), Error> {
        for region in self.rows_of::<StoredRegion>("process", id)? {
            let row = StoredRegion {
                process,
                subject: self.subject(region.subject)?,
                image: region.image.map(|image| self.image(image)).transpose()?,
                ..region
            };
            let merged = tables::merge(self.target, &row);
            merged.map_err(|e| Error::sqlite(self.paths.0, e))?;
        }
        Ok(())
    }

    /// The rows of a table of the input that have this id in a column.
    fn rows_of<R: Record>(&self, column: &str, id: i64) -> Result<Vec<R>, Error> {
        let failed = |e| Error::sqlite(self.paths.1, e);
        let version = tables::version(self.input).map_err(failed)?;
        if !R::TABLE.is_in(version) {
            return Ok(Vec::new());
        }
        let sql = format!("{} WHERE {column} = ?1", R::TABLE.select(version));
        let mut statement = self.input.prepare_cached(&sql).map_err(failed)?;
        let rows = statement.query_map([id], R::read).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

impl Ids for Mapped<'_> {
    fn image(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.images.get(&id) {
            return Ok(*known);
        }
        let row = self.put(&self.get::<Image>(id)?)?;
        self.symbols(id, row)?;
        self.known.images.insert(id, row);
        Ok(row)
    }

    fn process(&mut self, id: i64, target: i64) -> Result<i64, Error> {
        let epoch = self.epochs.get(&target).copied().unwrap_or_default();
        if let Some(known) = self.known.processes.get(&(epoch, id)) {
            return Ok(*known);
        }
        let mut process: StoredProcess = self.get(id)?;
        process.epoch = epoch;
        let row = self.put(&process)?;
        self.regions(id, row)?;
        self.known.processes.insert((epoch, id), row);
        Ok(row)
    }

    fn parameter(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.parameters.get(&id) {
            return Ok(*known);
        }
        let row = self.put(&self.get::<StoredParameter>(id)?)?;
        self.known.parameters.insert(id, row);
        Ok(row)
    }
}
