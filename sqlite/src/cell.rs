//! What is in a row: columns, and their values.

use std::rc::Rc;

use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};

/// Columns of its own that a table has at most.
const MOST: usize = 12;

/// A value of a row.
#[derive(Clone, Debug, Default)]
pub(crate) enum Cell {
    /// Not known, or there is none.
    #[default]
    Null,
    Integer(i64),
    Real(f64),
    /// The name of a parameter, by its row.
    Parameter(i64),
    Bytes(Rc<[u8]>),
    Text(Rc<str>),
}

impl Cell {
    /// A machine word: the signed integer with the same bits.
    pub(crate) fn word(word: u64) -> Self {
        Self::Integer(word.cast_signed())
    }

    /// A number that may not be known.
    pub(crate) fn real(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::Real)
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null | Self::Parameter(_) => ToSqlOutput::Owned(Value::Null),
            Self::Integer(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Self::Real(number) => ToSqlOutput::Owned(Value::Real(*number)),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        })
    }
}

/// A row of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Row of the process.
    pub(crate) process: Option<i64>,
    /// Address of the instruction.
    pub(crate) address: u64,
    /// Image and address of the call site, or of what is called.
    pub(crate) other: Option<(i64, u64)>,
    /// The columns that only this table has.
    own: [Cell; MOST],
}

impl Line {
    /// A row with these columns of its own.
    pub(crate) fn new<const N: usize>(
        (process, address, other): (Option<i64>, u64, Option<(i64, u64)>),
        cells: [Cell; N],
    ) -> Self {
        const { assert!(N <= MOST) };
        let mut own = <[Cell; MOST]>::default();
        for (own, cell) in own.iter_mut().zip(cells) {
            *own = cell;
        }
        Self {
            process,
            address,
            other,
            own,
        }
    }

    /// One of these columns.
    pub(crate) fn own(&self, index: usize) -> Cell {
        self.own.get(index).cloned().unwrap_or_default()
    }
}

/// Where the value of a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its place in [`Line::own`].
    Own(usize),
    Address,
    OtherImage,
    OtherImageId,
    OtherAddress,
    Process,
    Pid,
    Comm,
    /// The same for all rows of a chunk: what it is in the query for chunks.
    Chunk(&'static str),
    /// Which of the attached databases is asked.
    Schema,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Its declared type, and `HIDDEN`.
    pub(crate) kind: &'static str,
    pub(crate) source: Source,
}

/// A column.
pub(crate) const fn column(name: &'static str, kind: &'static str, source: Source) -> Column {
    Column { name, kind, source }
}
