//! What ids of rows stand for, looked up once each.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::{Connection, Error, OptionalExtension, Result};

use crate::chunks::{quoted, reading};

/// Names of the rows of a table.
type Found<T> = RefCell<HashMap<i64, T>>;

/// Names that a question has met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    images: Found<Rc<str>>,
    parameters: Found<Rc<str>>,
    /// Pid and command.
    processes: Found<(i64, Rc<str>)>,
}

impl Names {
    /// The path of an image.
    pub(crate) fn image(&self, conn: &Connection, schema: &str, id: i64) -> Result<Rc<str>> {
        find(
            &self.images,
            conn,
            schema,
            ("image", "0, path"),
            id,
            |(_, path)| path,
        )
    }

    /// What a list was captured of.
    pub(crate) fn parameter(&self, conn: &Connection, schema: &str, id: i64) -> Result<Rc<str>> {
        let table = ("parameter", "0, name");
        find(&self.parameters, conn, schema, table, id, |(_, name)| name)
    }

    /// The pid and the command of a process.
    pub(crate) fn process(
        &self,
        conn: &Connection,
        schema: &str,
        id: i64,
    ) -> Result<(i64, Rc<str>)> {
        let table = ("process", "pid, comm");
        find(&self.processes, conn, schema, table, id, |found| found)
    }
}

fn find<T: Clone>(
    found: &Found<T>,
    conn: &Connection,
    schema: &str,
    (table, columns): (&str, &str),
    id: i64,
    name: impl Fn((i64, Rc<str>)) -> T,
) -> Result<T> {
    if let Some(known) = found.borrow().get(&id) {
        return Ok(known.clone());
    }
    let sql = format!(
        "SELECT {columns} FROM {}.{table} WHERE id = ?1",
        quoted(schema)
    );
    let row = reading(|| {
        let mut statement = conn.prepare_cached(&sql)?;
        let row = statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)));
        row.optional()
    })?;
    let Some(row) = row else {
        let text = format!("a row refers to {table} {id}, which is missing");
        return Err(Error::ModuleError(text));
    };
    let named = name(row);
    found.borrow_mut().insert(id, named.clone());
    Ok(named)
}
