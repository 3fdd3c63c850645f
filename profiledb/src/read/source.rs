//! A database read flush by flush.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::builder::Builder;
use super::file::{Budget, File};
use super::referred::Referred;
use super::size;
use crate::Error;
use crate::filter::Filter;
use crate::profile::Profile;
use selection::Kinds;

/// The tables that have a row for each thing counted in a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Cycles,
    Lists,
    /// Rows here are chosen by those of their lists.
    Tuples,
    Branches,
    Calls,
}

/// The first and last row of a flush in each table; `None`: it has none there.
type Ranges = [Option<(i64, i64)>; 4];

/// Where the rows of each flush lie.
pub(crate) struct Slices(BTreeMap<i64, Ranges>);

/// Where those of one flush lie.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    flush: i64,
    ranges: Ranges,
}

impl Slices {
    pub(crate) fn of(conn: &Connection) -> rusqlite::Result<Self> {
        let mut slices: BTreeMap<i64, Ranges> = BTreeMap::new();
        for (index, table) in ["cycles", "hotlist", "branch", "call"]
            .into_iter()
            .enumerate()
        {
            let sql = format!(
                "SELECT flush, min(rowid), max(rowid) FROM {table} NOT INDEXED GROUP BY flush"
            );
            let mut statement = conn.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let ranges = slices.entry(row.get(0)?).or_default();
                ranges[index] = Some((row.get(1)?, row.get(2)?));
            }
        }
        Ok(Self(slices))
    }

    /// The flushes that have any.
    pub(crate) fn flushes(&self) -> impl Iterator<Item = i64> {
        self.0.keys().copied()
    }
}

impl Slice {
    pub(super) fn rows_of(&self, table: Table) -> String {
        let [cycles, lists, branches, calls] = self.ranges;
        let range = match table {
            Table::Cycles => cycles,
            Table::Lists | Table::Tuples => lists,
            Table::Branches => branches,
            Table::Calls => calls,
        };
        let flush = self.flush;
        match (range, table) {
            (None, _) => "WHERE 0".to_owned(),
            (Some((first, last)), Table::Tuples) => {
                format!("WHERE hotlist BETWEEN {first} AND {last}")
            }
            (Some((first, last)), _) => {
                format!("WHERE rowid BETWEEN {first} AND {last} AND flush = {flush}")
            }
        }
    }
}

/// What is known of a flush.
pub(crate) struct FlushPlace {
    pub(crate) epoch: i64,
    pub(crate) time: (i64, i64),
    pub(crate) cycles_per_unit: f64,
}

/// A database whose flushes are asked for one by one: what they refer to is read once.
pub(crate) struct Source<'a> {
    path: &'a Path,
    conn: &'a Connection,
    filter: Filter,
    budget: Budget,
    referred: Referred,
}

impl<'a> Source<'a> {
    pub(crate) fn open(path: &'a Path, conn: &'a Connection) -> Result<Self, Error> {
        let mut source = Self {
            path,
            conn,
            filter: Filter::default(),
            budget: Budget::of(size(path)?),
            referred: Referred::default(),
        };
        source.with(None, |file, referred| file.read_referred(referred, true))?;
        Ok(source)
    }

    /// The rows of a flush in tables of their own; what lies in chunks is not among them.
    pub(crate) fn flush(
        &mut self,
        flush: i64,
        slices: &Slices,
    ) -> Result<(Profile, FlushPlace), Error> {
        let slice = slices.0.get(&flush).map(|ranges| Slice {
            flush,
            ranges: *ranges,
        });
        let profile = self.with(slice, |file, referred| {
            file.read_cycles(referred)?;
            file.read_hotlists(referred)?;
            file.read_branches(referred)?;
            file.read_calls(referred)
        })?;
        let missing = |table, id| {
            let detail = format!("a row refers to {table} {id}, which is missing");
            Error::corrupt(self.path, detail)
        };
        let of_file = self
            .referred
            .flushes
            .get(&flush)
            .ok_or_else(|| missing("flush", flush))?;
        let epoch = self.referred.epochs.get(&of_file.epoch);
        let epoch = epoch.ok_or_else(|| missing("epoch", of_file.epoch))?;
        let place = FlushPlace {
            epoch: of_file.epoch,
            time: (of_file.started, of_file.ended),
            cycles_per_unit: epoch.cycles_per_unit,
        };
        self.referred.forget_indices();
        Ok((profile, place))
    }

    fn with(
        &mut self,
        slice: Option<Slice>,
        read: impl FnOnce(&mut File<'_>, &mut Referred) -> Result<(), Error>,
    ) -> Result<Profile, Error> {
        let mut builder = Builder::default();
        let mut file = File {
            path: self.path,
            conn: self.conn,
            filter: &self.filter,
            kinds: Kinds::default(),
            builder: &mut builder,
            budget: self.budget,
            slice,
            without: &[],
        };
        read(&mut file, &mut self.referred)?;
        self.budget = file.budget;
        Ok(builder.finish())
    }
}
