//! A new file that days and weeks are joined into: what rows refer to is found in it by what it
//! says.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::bucket::Ids;
use crate::{Error, open};

/// The columns of a table that say what a row is.
const IMAGE: &str = "kind, path, build_id, identity";
const SUBJECT: &str = "uid, gid, euid, egid, suid, dumpable, capable, kernel";
const PROCESS: &str = "pid, started, execs, comm";

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
    pub(super) known: &'a mut Known,
    /// The epoch of each roll-up.
    pub(super) epochs: &'a HashMap<i64, i64>,
}

/// Those that were met so far.
#[derive(Default)]
pub(super) struct Known {
    images: HashMap<i64, i64>,
    subjects: HashMap<i64, i64>,
    /// By the epoch in the new file, too.
    processes: HashMap<(i64, i64), i64>,
    parameters: HashMap<i64, i64>,
}

impl Mapped<'_> {
    /// The row that is the same as one of a table of the input; one is made if there is none.
    fn row(&self, table: &str, columns: &str, id: i64, epoch: Option<i64>) -> Result<i64, Error> {
        let (in_target, in_input) = (self.paths.0, self.paths.1);
        let failed = |e| Error::sqlite(in_input, e);
        let count = columns.split(',').count();
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Vec<rusqlite::types::Value>> {
            (0..count).map(|column| row.get(column)).collect()
        };
        let sql = format!("SELECT {columns} FROM {table} WHERE id = ?1");
        let mut statement = self.input.prepare_cached(&sql).map_err(failed)?;
        let found = statement.query_row([id], read).optional().map_err(failed)?;
        let Some(mut values) = found else {
            let what = format!("a row refers to {table} {id}, which is missing");
            return Err(Error::corrupt(in_input, what));
        };
        let mut names: Vec<&str> = columns.split(", ").collect();
        // Two of a process's or an image's columns may have come to be known later.
        let keys = match table {
            "image" => vec![("kind", 0), ("path", 1), ("identity", 3)],
            "process" => vec![("pid", 0), ("started", 1), ("execs", 2)],
            _ => names.iter().copied().zip(0..).collect(),
        };
        let mut wanted: Vec<_> = keys
            .iter()
            .filter_map(|&(_, column)| values.get(column).cloned())
            .collect();
        let mut clauses: Vec<String> = keys
            .iter()
            .zip(1..)
            .map(|((name, _), number)| format!("{name} IS ?{number}"))
            .collect();
        if let Some(epoch) = epoch {
            wanted.push(epoch.into());
            clauses.push(format!("epoch = ?{}", wanted.len()));
            names.push("epoch");
            values.push(epoch.into());
        }
        let failed = |e| Error::sqlite(in_target, e);
        let sql = format!("SELECT id FROM {table} WHERE {}", clauses.join(" AND "));
        let mut statement = self.target.prepare_cached(&sql).map_err(failed)?;
        let found = statement
            .query_row(params_from_iter(wanted), |row| row.get(0))
            .optional();
        if let Some(id) = found.map_err(failed)? {
            return Ok(id);
        }
        let places: Vec<String> = (1..=values.len()).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "INSERT INTO {table} ({}) VALUES ({})",
            names.join(", "),
            places.join(", ")
        );
        let mut statement = self.target.prepare_cached(&sql).map_err(failed)?;
        statement.insert(params_from_iter(values)).map_err(failed)
    }

    pub(super) fn subject(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.subjects.get(&id) {
            return Ok(*known);
        }
        let row = self.row("subject", SUBJECT, id, None)?;
        self.known.subjects.insert(id, row);
        Ok(row)
    }

    /// Brings the names of an image's functions.
    fn symbols(&self, id: i64, image: i64) -> Result<(), Error> {
        let failed = |e| Error::sqlite(self.paths.1, e);
        let sql = "SELECT address, size, name FROM symbol WHERE image = ?1";
        let mut statement = self.input.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        let sql = "INSERT OR IGNORE INTO symbol (image, address, size, name)
                   VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self
            .target
            .prepare_cached(sql)
            .map_err(|e| Error::sqlite(self.paths.0, e))?;
        while let Some(row) = rows.next().map_err(failed)? {
            let get = |column| row.get::<_, i64>(column).map_err(failed);
            let name: String = row.get(2).map_err(failed)?;
            insert
                .execute(params![image, get(0)?, get(1)?, name])
                .map_err(|e| Error::sqlite(self.paths.0, e))?;
        }
        Ok(())
    }
}

impl Mapped<'_> {
    /// Brings what lay where in the memory of a process.
    fn regions(&mut self, id: i64, process: i64) -> Result<(), Error> {
        let failed = |e| Error::sqlite(self.paths.1, e);
        if !open::has_regions(self.input).map_err(failed)? {
            return Ok(());
        }
        let sql = "SELECT subject, image, first, kind, pages, shown FROM region WHERE process = ?1";
        let mut statement = self.input.prepare_cached(sql).map_err(failed)?;
        let read = |row: &rusqlite::Row<'_>| {
            let of: (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            let what: [Option<i64>; 4] = [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
            Ok((of, what))
        };
        let rows = statement.query_map([id], read).map_err(failed)?;
        let rows: Result<Vec<_>, _> = rows.collect();
        for ((subject, image), [first, kind, pages, shown]) in rows.map_err(failed)? {
            let subject = self.subject(subject)?;
            let image = image.map(|image| self.image(image)).transpose()?;
            let row = params![process, subject, first, kind, pages, image, shown];
            let failed = |e| Error::sqlite(self.paths.0, e);
            let insert = self.target.prepare_cached(crate::regions::INSERT);
            insert.map_err(failed)?.execute(row).map_err(failed)?;
        }
        Ok(())
    }
}

impl Ids for Mapped<'_> {
    fn image(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.images.get(&id) {
            return Ok(*known);
        }
        let row = self.row("image", IMAGE, id, None)?;
        self.symbols(id, row)?;
        self.known.images.insert(id, row);
        Ok(row)
    }

    fn process(&mut self, id: i64, target: i64) -> Result<i64, Error> {
        let epoch = self.epochs.get(&target).copied().unwrap_or_default();
        if let Some(known) = self.known.processes.get(&(epoch, id)) {
            return Ok(*known);
        }
        let row = self.row("process", PROCESS, id, Some(epoch))?;
        self.regions(id, row)?;
        self.known.processes.insert((epoch, id), row);
        Ok(row)
    }

    fn parameter(&mut self, id: i64) -> Result<i64, Error> {
        if let Some(known) = self.known.parameters.get(&id) {
            return Ok(*known);
        }
        let row = self.row("parameter", "name", id, None)?;
        self.known.parameters.insert(id, row);
        Ok(row)
    }
}
