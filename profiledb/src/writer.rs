//! The collector's side: epochs, and the ids of what their rows refer to.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use crate::budget::Budget;
use crate::intern::{Caches, Generation};
use crate::rows::Epoch;
use crate::{Error, log, open, recover, tables, to_sql};

/// Defines the id of a table's row. Ids serve the writer that gave them, until a
/// flush of it is dropped without being saved.
macro_rules! id {
    ($name:ident, $what:literal) => {
        #[doc = concat!("Stands for ", $what, " in the rows of a writer.")]
        ///
        /// Good until a flush of that writer is lost; asked for again after that, since
        /// the row it stood for may be gone. A stale one is refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            pub(crate) generation: Generation,
            pub(crate) row: i64,
        }
    };
}

id!(ImageRowId, "an image");
id!(SubjectRowId, "an access tag");
id!(ProcessRowId, "a process of the epoch");

/// Stands for an instruction in the rows of a writer. Good as long as its image's id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PcRowId {
    pub(crate) generation: Generation,
    pub(crate) image: i64,
    pub(crate) address: u64,
}

/// Appends one epoch to a profile database.
///
/// Dropped without [`Writer::close`], everything committed is still readable; a `-wal`
/// file may stay beside the database.
pub struct Writer {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    pub(crate) epoch: i64,
    pub(crate) caches: Caches,
    pub(crate) budget: Option<Budget>,
}

impl Writer {
    /// Opens the database at `path`, or creates it for its owner alone (mode 0600), and
    /// appends `epoch`. An empty file is taken for a database yet to be created. Epochs whose
    /// writers died are ended first ([`Epoch::is_cut_short`]).
    ///
    /// # Errors
    /// [`Error::NotADatabase`] and [`Error::NewerSchema`] leave the file as it was, byte
    /// for byte. [`Error::Invalid`] where `cycles_per_unit` is no positive number. Else
    /// what the file system says.
    pub fn create_epoch(path: &Path, epoch: &Epoch) -> Result<Writer, Error> {
        Self::create_epoch_as(path, epoch, None)
    }

    /// As [`Writer::create_epoch`] does, under an id of the caller's choice: that of one among the
    /// epochs of a [`Directory`](crate::Directory).
    ///
    /// # Errors
    /// As there.
    pub fn create_epoch_as(path: &Path, epoch: &Epoch, id: Option<u64>) -> Result<Writer, Error> {
        if !(epoch.cycles_per_unit.is_finite() && epoch.cycles_per_unit > 0.0) {
            let what = format!("{} cycles per {}", epoch.cycles_per_unit, epoch.unit);
            return Err(Error::Invalid { what });
        }
        let path = open::absolute(path)?;
        let conn = open::for_writing(&path)?;
        recover::end_epochs_of_the_dead(&path, &conn)?;
        Self::begin_epoch(path, conn, epoch, id)
    }

    /// A database in memory, of no more than so many bytes, with this epoch.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn in_memory(epoch: &Epoch, most: u64) -> Result<Writer, Error> {
        let conn = open::in_memory(most)?;
        Self::begin_epoch(PathBuf::from(open::IN_MEMORY), conn, epoch, None)
    }

    fn begin_epoch(
        path: PathBuf,
        conn: Connection,
        epoch: &Epoch,
        id: Option<u64>,
    ) -> Result<Writer, Error> {
        let epoch = tables::insert_as(&conn, id.map(to_sql), epoch);
        let epoch = epoch.map_err(|e| Error::sqlite(&path, e))?;
        Ok(Writer {
            conn,
            path,
            epoch,
            caches: Caches::new(),
            budget: None,
        })
    }

    /// Opens or creates the database without an epoch: whoever asks puts one there.
    pub(crate) fn bare(path: &Path) -> Result<Writer, Error> {
        let path = open::absolute(path)?;
        let conn = open::for_writing(&path)?;
        Ok(Writer {
            conn,
            path,
            epoch: 0,
            caches: Caches::new(),
            budget: None,
        })
    }

    /// Begins one transaction around all that follows, of a file that is of no use before its end.
    pub(crate) fn all_or_nothing(&self) -> Result<(), Error> {
        self.conn
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|e| Error::sqlite(&self.path, e))
    }

    /// Ends that transaction.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        self.conn
            .execute_batch("COMMIT")
            .map_err(|e| Error::sqlite(&self.path, e))
    }

    /// Has flushes write so many bytes an hour, about; `None`: all that there is. What lists are
    /// left out then is drawn; `seed` is what the draws begin with.
    pub fn set_budget(&mut self, bytes_per_hour: Option<u64>, seed: u64) {
        self.budget = bytes_per_hour.map(|bytes| Budget::new(bytes, seed));
    }

    /// The database, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes the end of the epoch, in nanoseconds of the Unix epoch.
    ///
    /// # Errors
    /// As for [`Writer::begin`].
    pub fn end_epoch(&mut self, ended: i64) -> Result<(), Error> {
        self.conn
            .execute(
                "UPDATE epoch SET ended = ?1 WHERE id = ?2",
                params![ended, self.epoch],
            )
            .map_err(|e| Error::sqlite(&self.path, e))?;
        Ok(())
    }

    /// Closes the database and leaves the log beside it, which is part of it: readers see all of
    /// it, and whoever opens it for writing merges it. Nothing waits for the disk.
    ///
    /// # Errors
    /// Those of the database; what was committed is safe.
    pub fn leave(self) -> Result<(), Error> {
        let Writer { conn, path, .. } = self;
        let left = log::leave_log(&conn);
        left.map_err(|e| Error::sqlite(&path, e))?;
        conn.close().map_err(|(_, e)| Error::sqlite(&path, e))
    }

    /// Brings everything into the one file and closes it. If a reader is at work, a `-wal`
    /// file stays beside it, which is part of the database; that is no error.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and the like. What was committed is safe in the `-wal` file
    /// even then.
    pub fn close(self) -> Result<(), Error> {
        let Writer { conn, path, .. } = self;
        // A database that is not in WAL mode can be read where nothing can be written.
        let closed = open::set_journal_mode(&conn, "DELETE");
        match closed.map_err(|e| Error::sqlite(&path, e)) {
            Ok(()) | Err(Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        conn.close().map_err(|(_, e)| Error::sqlite(&path, e))
    }
}
