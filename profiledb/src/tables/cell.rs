//! What stands in a column, as SQLite has it and as the program does.

use std::borrow::Cow;

use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, Type, Value, ValueRef};

use crate::rows::ImageKind;
use crate::settings::EpochSettings;
use crate::{from_sql, to_sql};

/// Nothing in a column.
const NULL: ToSqlOutput<'static> = ToSqlOutput::Borrowed(ValueRef::Null);

/// A type of columns.
pub(crate) trait Cell: Sized {
    /// What a column has.
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self>;

    /// What is to be written into it.
    fn put(&self) -> ToSqlOutput<'_>;

    /// Its bytes, of text and blobs.
    fn bytes(&self) -> u64 {
        0
    }
}

/// What is read when it is needed, from the column itself; it is never written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Later;

impl Cell for Later {
    fn get(_: &Row<'_>, _: usize) -> rusqlite::Result<Self> {
        Ok(Later)
    }

    fn put(&self) -> ToSqlOutput<'_> {
        NULL
    }
}

/// Types that SQLite's are the same as.
macro_rules! plain {
    ($($type:ty),+) => {$(
        impl Cell for $type {
            fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
                row.get(column)
            }

            fn put(&self) -> ToSqlOutput<'_> {
                (*self).into()
            }
        }
    )+};
}

plain!(i64, u32, f64, bool);

/// A machine word: the signed integer with the same bits.
impl Cell for u64 {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        row.get(column).map(from_sql)
    }

    fn put(&self) -> ToSqlOutput<'_> {
        to_sql(*self).into()
    }
}

impl Cell for String {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        row.get(column)
    }

    fn put(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Text(self.as_bytes()))
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Cell for Vec<u8> {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        row.get(column)
    }

    fn put(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Blob(self))
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl Cell for Cow<'_, [u8]> {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        row.get(column).map(Cow::Owned)
    }

    fn put(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Blob(self))
    }

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

impl<T: Cell> Cell for Option<T> {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        match row.get_ref(column)? {
            ValueRef::Null => Ok(None),
            _ => T::get(row, column).map(Some),
        }
    }

    fn put(&self) -> ToSqlOutput<'_> {
        self.as_ref().map_or(NULL, T::put)
    }

    fn bytes(&self) -> u64 {
        self.as_ref().map_or(0, T::bytes)
    }
}

impl Cell for ImageKind {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        let name: String = row.get(column)?;
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            let what = format!("an image is of no known kind: {name:?}");
            rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
        })
    }

    fn put(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Text(self.name().as_bytes()))
    }
}

/// A JSON object.
impl Cell for EpochSettings {
    fn get(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        let text: String = row.get(column)?;
        serde_json::from_str(&text).map_err(|error| {
            let what = format!("settings that cannot be: {error}");
            rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
        })
    }

    fn put(&self) -> ToSqlOutput<'_> {
        // Their types cannot fail to be JSON.
        let text = serde_json::to_string(self).unwrap_or_default();
        ToSqlOutput::Owned(Value::Text(text))
    }
}
