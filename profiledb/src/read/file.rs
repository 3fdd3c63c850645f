//! One file being read: its columns as types, and its size as a limit.

use std::path::Path;

use rusqlite::{Connection, Row};

use super::builder::Builder;
use super::referred::Referred;
use super::source::{Slice, Table};
use crate::Error;
use crate::filter::Filter;
use crate::tables::stored::{CHUNK, REGION};
use crate::tables::{self, Record};
use selection::Kinds;

/// What may still be read of a file before it is known to contradict its size.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Bytes of the file: no row takes less than [`ROW`] of them, and text takes its own.
    pub(super) left: u64,
    /// Bytes of memory for hotlists, whose room is stated and not filled.
    pub(super) lists: u64,
    /// Bytes of memory for what chunks hold, which is packed far more tightly.
    pub(super) unpacked: u64,
}

impl Budget {
    /// For a file of so many bytes.
    pub(super) fn of(size: u64) -> Budget {
        Budget {
            left: size,
            lists: size.saturating_mul(64).saturating_add(64 << 20),
            unpacked: size.saturating_mul(1024).saturating_add(64 << 20),
        }
    }
}

/// The least that a row takes in a file: its place in the page, its length and types.
const ROW: u64 = 4;

/// One file being read.
pub(crate) struct File<'a> {
    pub(crate) path: &'a Path,
    pub(crate) conn: &'a Connection,
    pub(crate) filter: &'a Filter,
    pub(super) kinds: Kinds,
    pub(crate) builder: &'a mut Builder,
    pub(super) budget: Budget,
    /// The one flush whose rows are read; `None`: all.
    pub(super) slice: Option<Slice>,
    /// Epochs that are read in another file.
    pub(super) without: &'a [i64],
}

impl File<'_> {
    pub(super) fn read(mut self) -> Result<(), Error> {
        let mut referred = Referred::default();
        let kinds = self.kinds;
        let with_pcs = kinds.cycles || kinds.values || kinds.branches || kinds.calls;
        self.read_referred(&mut referred, with_pcs)?;
        if kinds.cycles {
            self.read_cycles(&mut referred)?;
        }
        if kinds.values {
            self.read_hotlists(&mut referred)?;
        }
        if kinds.branches {
            self.read_branches(&mut referred)?;
        }
        if kinds.calls {
            self.read_calls(&mut referred)?;
        }
        let version = self.version()?;
        if CHUNK.is_in(version) {
            self.read_chunks(&mut referred)?;
            self.read_code(&referred)?;
        }
        if kinds.values && REGION.is_in(version) {
            self.read_regions(&referred)?;
        }
        self.read_counters(&referred)?;
        self.read_symbols(&referred)
    }

    /// Reads what rows refer to.
    pub(super) fn read_referred(
        &mut self,
        referred: &mut Referred,
        with_pcs: bool,
    ) -> Result<(), Error> {
        self.read_epochs(referred)?;
        self.read_images(referred)?;
        self.read_subjects(referred)?;
        self.read_processes(referred)?;
        match with_pcs {
            true => self.read_pcs(referred),
            false => Ok(()),
        }
    }

    /// Which rows of a table are read, as a clause of SQL.
    pub(crate) fn rows_of(&self, table: Table) -> String {
        self.slice
            .as_ref()
            .map_or_else(String::new, |slice| slice.rows_of(table))
    }

    /// Gives a query's rows to `take`, one by one.
    pub(crate) fn each(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let mut statement = conn.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            self.charge_row()?;
            take(self, row)?;
        }
        Ok(())
    }

    /// Gives a table's rows with their ids to `take`, one by one; `more` stands behind the table in
    /// the statement.
    pub(crate) fn rows<R: Record>(
        &mut self,
        more: &str,
        mut take: impl FnMut(&mut Self, i64, R) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let sql = format!("{} NOT INDEXED {more}", R::TABLE.select(self.version()?));
        self.each(&sql, |file, row| {
            let (id, row) = file.record(row)?;
            take(file, id, row)
        })
    }

    /// A row of a statement that begins with [`Table::select`](crate::tables::Table::select).
    pub(crate) fn record<R: Record>(&mut self, row: &Row<'_>) -> Result<(i64, R), Error> {
        let read = tables::read::<R>(row);
        let (id, row) = read.map_err(|e| Error::sqlite(self.path, e))?;
        self.charge(row.bytes())?;
        Ok((id, row))
    }

    /// The version of the file's schema.
    pub(crate) fn version(&self) -> Result<i64, Error> {
        tables::version(self.conn).map_err(|e| Error::sqlite(self.path, e))
    }

    pub(crate) fn charge_row(&mut self) -> Result<(), Error> {
        self.charge(ROW)
    }

    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), Error> {
        match self.budget.left.checked_sub(bytes) {
            Some(left) => {
                self.budget.left = left;
                Ok(())
            }
            None => Err(self.corrupt("it contains more than fits into its size")),
        }
    }

    /// Takes memory for a hotlist.
    pub(crate) fn charge_list(&mut self, bytes: u64) -> Result<(), Error> {
        match self.budget.lists.checked_sub(bytes) {
            Some(left) => {
                self.budget.lists = left;
                Ok(())
            }
            None => Err(self.corrupt("its hotlists have room for far more than they hold")),
        }
    }

    /// Takes memory for what chunks hold.
    pub(super) fn charge_unpacked(&mut self, bytes: usize) -> Result<(), Error> {
        match self.budget.unpacked.checked_sub(bytes as u64) {
            Some(left) => {
                self.budget.unpacked = left;
                Ok(())
            }
            None => Err(self.corrupt("its chunks hold far more than fits into its size")),
        }
    }

    pub(crate) fn corrupt(&self, detail: impl Into<String>) -> Error {
        Error::corrupt(self.path, detail)
    }

    pub(super) fn dangling(&self, table: &str, id: i64) -> Error {
        self.corrupt(format!("a row refers to {table} {id}, which is missing"))
    }

    /// A column of a plain type.
    pub(crate) fn get<T: rusqlite::types::FromSql>(
        &self,
        row: &Row<'_>,
        column: usize,
    ) -> Result<T, Error> {
        row.get(column).map_err(|e| Error::sqlite(self.path, e))
    }
}
