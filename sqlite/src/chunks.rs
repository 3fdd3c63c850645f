//! The rows of the database that blobs are in.

use std::cell::Cell as Flag;

use profiledb::packed::{self, Damage};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params_from_iter};

use crate::asked::Asked;
use crate::cell::{Cell, Column, Source};

/// The application id of profile databases.
const APPLICATION_ID: i64 = 0x7663_7069;
/// The first schema that has chunks.
const FIRST: i64 = 5;

/// A row with a blob, and what is the same for all that is packed in it.
#[derive(Debug)]
pub(crate) struct BlobRow {
    pub(crate) kind: i64,
    pub(crate) bucket: u64,
    /// Begin and end of its flush.
    pub(crate) time: (i64, i64),
    pub(crate) cycles_per_unit: f64,
    pub(crate) data: Vec<u8>,
    /// The columns whose source is [`Source::Chunk`], in their order.
    pub(crate) same: Vec<Cell>,
}

/// Tables that hold blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Counts and lists, of these kinds.
    Chunk(&'static [i64]),
    /// Encodings.
    Code,
}

/// What is joined to a table with blobs, by the names that columns have it under.
const JOINS: [(&str, &str); 4] = [
    ("flush", "flush.id = held.flush"),
    ("epoch", "epoch.id = flush.epoch"),
    ("image", "image.id = held.image"),
    ("subject", "subject.id = held.subject"),
];

impl Holder {
    fn table(self) -> &'static str {
        match self {
            Self::Chunk(_) => "chunk",
            Self::Code => "code",
        }
    }

    /// Bits of an address within its bucket. All kinds of a table have the same.
    fn bits(self) -> u32 {
        match self {
            Self::Chunk(kinds) => kinds.first().and_then(|kind| packed::bits(*kind)),
            Self::Code => Some(packed::CODE_BITS),
        }
        .unwrap_or(0)
    }

    /// The joins among [`JOINS`] that there are.
    fn joins(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        JOINS
            .into_iter()
            .filter(move |(name, _)| self != Self::Code || *name == "image")
    }

    fn from(self, schema: &str, is_joined: impl Fn(&str) -> bool) -> String {
        let mut sql = format!("FROM {schema}.{} AS held", self.table());
        for (name, condition) in self.joins().filter(|(name, _)| is_joined(name)) {
            sql.push_str(&format!(" JOIN {schema}.{name} AS {name} ON {condition}"));
        }
        sql
    }

    /// The ids of the rows that may have what is asked for.
    pub(crate) fn find(self, conn: &Connection, asked: &Asked) -> Result<Vec<i64>> {
        let schema = quoted(&asked.schema);
        check(conn, &asked.schema, &schema)?;
        let is_asked = |name: &str| {
            let mut columns = asked.conditions.iter();
            columns.any(|(column, ..)| column.split('.').next() == Some(name))
        };
        let mut sql = format!("SELECT held.id {} WHERE true", self.from(&schema, is_asked));
        if let Self::Chunk(kinds) = self {
            let kinds: Vec<String> = kinds.iter().map(i64::to_string).collect();
            sql.push_str(&format!(" AND held.kind IN ({})", kinds.join(", ")));
        }
        if let Some((first, last)) = asked.buckets(self.bits()) {
            sql.push_str(&format!(" AND held.bucket BETWEEN {first} AND {last}"));
        }
        for (column, operator, _) in &asked.conditions {
            sql.push_str(&format!(" AND {column} {operator} ?"));
        }
        sql.push_str(" ORDER BY held.id");
        let values = asked.conditions.iter().map(|(.., value)| value);
        let mut statement = conn.prepare_cached(&sql)?;
        let ids = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        ids.collect()
    }

    /// Reads one of these rows.
    pub(crate) fn read(
        self,
        conn: &Connection,
        schema: &str,
        columns: &[Column],
        id: i64,
    ) -> Result<BlobRow> {
        let own = match self {
            Self::Chunk(_) => "held.kind, flush.started, flush.ended, epoch.cycles_per_unit",
            Self::Code => "0, 0, 0, 1.0",
        };
        let mut sql = format!("SELECT held.bucket, held.data, {own}");
        for column in columns {
            if let Source::Chunk(name) = column.source {
                sql.push_str(&format!(", {name}"));
            }
        }
        let from = self.from(&quoted(schema), |_| true);
        sql.push_str(&format!(" {from} WHERE held.id = ?1"));
        let mut statement = conn.prepare_cached(&sql)?;
        let found = statement.query_row([id], |row| {
            Ok(BlobRow {
                bucket: row.get::<_, i64>(0)?.cast_unsigned(),
                data: row.get(1)?,
                kind: row.get(2)?,
                time: (row.get(3)?, row.get(4)?),
                cycles_per_unit: row.get(5)?,
                same: same(row, 6)?,
            })
        });
        found.optional()?.ok_or_else(|| {
            let what = match self {
                Self::Chunk(_) => "a flush, an image or a subject",
                Self::Code => "an image",
            };
            self.bad(id, &format!("refers to {what} that is missing"))
        })
    }

    /// The error for a blob that is damaged.
    pub(crate) fn damaged(self, id: i64, damage: Damage) -> Error {
        Error::ModuleError(format!("{} {id}: {damage}", self.table()))
    }

    fn bad(self, id: i64, text: &str) -> Error {
        Error::ModuleError(format!("{} {id}: it {text}", self.table()))
    }
}

/// The columns of a row from this one on.
fn same(row: &Row<'_>, first: usize) -> Result<Vec<Cell>> {
    let count = row.as_ref().column_count();
    (first..count)
        .map(|index| {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Real(number) => Cell::Real(number),
                ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into()),
                ValueRef::Blob(bytes) => Cell::Bytes(bytes.into()),
            })
        })
        .collect()
}

/// The name of an attached database as SQL has it.
pub(crate) fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

/// Whether the attached database is one of ours that has chunks.
fn check(conn: &Connection, name: &str, schema: &str) -> Result<()> {
    let number = |pragma: &str| {
        let sql = format!("PRAGMA {schema}.{pragma}");
        conn.prepare_cached(&sql)?
            .query_row([], |row| row.get::<_, i64>(0))
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    let problem = if application != APPLICATION_ID {
        "is no vcpi database".to_owned()
    } else if version < FIRST {
        format!("has schema version {version}, which packs nothing: `vcpi convert` it first")
    } else if version > packed::SCHEMA {
        let known = packed::SCHEMA;
        format!("has schema version {version}, this extension knows up to {known}")
    } else {
        return Ok(());
    };
    Err(Error::ModuleError(format!("{name}: it {problem}")))
}

thread_local! {
    /// Whether a query of this extension runs.
    static IS_READING: Flag<bool> = const { Flag::new(false) };
}

/// Runs queries on tables of the file. A file whose tables are views that ask this extension again
/// is refused, where it would go on until the stack is full.
pub(crate) fn reading<T>(queries: impl FnOnce() -> Result<T>) -> Result<T> {
    if IS_READING.replace(true) {
        let text = "a table of the database asks this extension itself";
        return Err(Error::ModuleError(text.to_owned()));
    }
    let result = queries();
    IS_READING.set(false);
    result
}
