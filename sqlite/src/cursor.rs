//! What SQLite calls: the same for all tables.

#![expect(
    unsafe_code,
    reason = "SQLite takes these types for its own, by how they begin"
)]

use std::ffi::{CStr, c_int};
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::vec::IntoIter;

use profiledb::packed::Damage;
use rusqlite::vtab::{
    Context, Filters, IndexInfo, VTab, VTabConfig, VTabConnection, VTabCursor,
    eponymous_only_module, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result, ffi};

use crate::asked::{self, Asked};
use crate::cell::{Cell, Column, Line, Source};
use crate::chunks::{BlobRow, Holder, reading};
use crate::names::Names;

/// A table over packed rows.
pub(crate) trait Table: 'static {
    /// Its name in SQL.
    const NAME: &'static CStr;
    /// Where its blobs are.
    const HOLDER: Holder;
    /// Its columns, in their order.
    const COLUMNS: &'static [Column];

    /// Unpacks a blob.
    fn lines(chunk: &BlobRow) -> Result<Vec<Line>, Damage>;
}

/// Makes SQLite know a table.
pub(crate) fn register<T: Table>(conn: &Connection) -> Result<()> {
    conn.create_module(T::NAME, eponymous_only_module::<Module<T>>(), None)
}

/// A table as a connection has it.
#[repr(C)]
pub(crate) struct Module<T> {
    /// SQLite's own; it must be first.
    base: sqlite3_vtab,
    /// The connection that the table is of. It is not closed from here.
    conn: Connection,
    table: PhantomData<T>,
}

// SAFETY: `sqlite3_vtab` comes first, and the layout is C's.
unsafe impl<'vtab, T: Table> VTab<'vtab> for Module<T> {
    type Aux = ();
    type Cursor = Cursor<'vtab, T>;

    fn connect(
        db: &mut VTabConnection,
        _aux: Option<&()>,
        _args: &[&[u8]],
    ) -> Result<(String, Self)> {
        // An SQLite that knows it begins a transaction in attached databases, too; an older one
        // says that it does not know it.
        let _ = db.config(VTabConfig::UsesAllSchemas);
        // SAFETY: the connection outlives its tables: SQLite disconnects them before it closes.
        let conn = unsafe { Connection::from_handle(db.handle())? };
        let mut sql = String::from("CREATE TABLE x(");
        for (index, Column { name, kind, .. }) in T::COLUMNS.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            // Writing to a string does not fail.
            let _ = write!(sql, "{comma}{name} {kind}");
        }
        sql.push(')');
        let module = Self {
            base: sqlite3_vtab::default(),
            conn,
            table: PhantomData,
        };
        Ok((sql, module))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<()> {
        if asked::plan(T::COLUMNS, info)? {
            return Ok(());
        }
        let unusable = ffi::Error::new(ffi::SQLITE_CONSTRAINT);
        Err(Error::SqliteFailure(unusable, None))
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab, T>> {
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            conn: &self.conn,
            schema: String::new(),
            names: Names::default(),
            ids: Vec::new().into_iter(),
            chunk: None,
            lines: Vec::new().into_iter(),
            line: None,
            row: 0,
            table: PhantomData,
        })
    }
}

/// A question on its way through the chunks.
#[repr(C)]
pub(crate) struct Cursor<'vtab, T> {
    /// SQLite's own; it must be first.
    base: sqlite3_vtab_cursor,
    conn: &'vtab Connection,
    schema: String,
    names: Names,
    /// The chunks that are still to be read.
    ids: IntoIter<i64>,
    /// The chunk that the line is of.
    chunk: Option<BlobRow>,
    /// The lines of it that are still to be told.
    lines: IntoIter<Line>,
    /// The line that is told; `None`: there are no more.
    line: Option<Line>,
    row: i64,
    table: PhantomData<T>,
}

// SAFETY: `sqlite3_vtab_cursor` comes first, and the layout is C's.
unsafe impl<T: Table> VTabCursor for Cursor<'_, T> {
    fn filter(&mut self, _plan: c_int, noted: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let asked = Asked::new(T::COLUMNS, noted, args)?;
        let ids = reading(|| T::HOLDER.find(self.conn, &asked))?;
        if self.schema != asked.schema {
            self.names = Names::default();
            self.schema = asked.schema;
        }
        self.ids = ids.into_iter();
        self.lines = Vec::new().into_iter();
        self.row = 0;
        self.next()
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        loop {
            self.line = self.lines.next();
            if self.line.is_some() {
                return Ok(());
            }
            let Some(id) = self.ids.next() else {
                self.chunk = None;
                return Ok(());
            };
            let chunk = reading(|| T::HOLDER.read(self.conn, &self.schema, T::COLUMNS, id))?;
            let lines = T::lines(&chunk).map_err(|damage| T::HOLDER.damaged(id, damage))?;
            self.lines = lines.into_iter();
            self.chunk = Some(chunk);
        }
    }

    fn eof(&self) -> bool {
        self.line.is_none()
    }

    fn column(&self, context: &mut Context, index: c_int) -> Result<()> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let cell = match (&self.line, &self.chunk, T::COLUMNS.get(index)) {
            (Some(line), Some(chunk), Some(column)) => self.cell(line, chunk, index, *column)?,
            _ => Cell::Null,
        };
        context.set_result(&cell)
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.row)
    }
}

impl<T: Table> Cursor<'_, T> {
    fn cell(&self, line: &Line, chunk: &BlobRow, index: usize, column: Column) -> Result<Cell> {
        let (conn, schema) = (self.conn, self.schema.as_str());
        Ok(match column.source {
            Source::Own(own) => match line.own(own) {
                Cell::Parameter(id) => Cell::Text(self.names.parameter(conn, schema, id)?),
                cell => cell,
            },
            Source::Address => Cell::word(line.address),
            Source::OtherImage => match line.other {
                Some((id, _)) => Cell::Text(self.names.image(conn, schema, id)?),
                None => Cell::Null,
            },
            Source::OtherImageId => line.other.map_or(Cell::Null, |(id, _)| Cell::Integer(id)),
            Source::OtherAddress => line.other.map_or(Cell::Null, |other| Cell::word(other.1)),
            Source::Process => line.process.map_or(Cell::Null, Cell::Integer),
            Source::Pid | Source::Comm => match line.process {
                Some(id) => {
                    let (pid, comm) = self.names.process(conn, schema, id)?;
                    match column.source {
                        Source::Pid => Cell::Integer(pid),
                        _ => Cell::Text(comm),
                    }
                }
                None => Cell::Null,
            },
            Source::Chunk(_) => {
                let before = T::COLUMNS.iter().take(index);
                let place = before
                    .filter(|column| matches!(column.source, Source::Chunk(_)))
                    .count();
                chunk.same.get(place).cloned().unwrap_or_default()
            }
            Source::Schema => Cell::Text(schema.into()),
        })
    }
}
