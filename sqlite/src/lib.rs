//! An extension for `sqlite3` with tables over what profile databases have packed: `.load
//! libvcpi_sqlite`, then `SELECT * FROM vcpi_values`. `docs/sql.md` describes it to who asks.
//!
//! Responsible for the tables' columns and for which chunks a question needs. The form of chunks is
//! `profiledb`'s; the rest of the database are tables that SQLite reads itself.
//!
//! A file is not trusted. A blob that cannot be is an error that names its chunk.
//!
//! What makes it fast: chunks that a question is not about are left out by their index, and names
//! are looked up when their column is asked for, once each.

mod asked;
mod cell;
mod chunks;
mod cursor;
mod names;
mod tables;

use std::os::raw::{c_char, c_int};

use rusqlite::{Connection, Result, ffi};

use crate::tables::{Branches, Calls, Code, Cycles, Lists, Stacks, Values};

/// What SQLite calls when it loads the library.
///
/// # Safety
/// SQLite alone may call it, as its documentation of loadable extensions says.
#[expect(
    unsafe_code,
    reason = "SQLite finds the function by its name, and passes pointers"
)]
// SAFETY: nothing else in this library has the name, and SQLite looks for it in this library alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the arguments are SQLite's own, and `register` only registers.
    unsafe { Connection::extension_init2(db, message, api, register) }
}

/// Adds the tables to a connection. They stay as long as it does.
fn register(conn: Connection) -> Result<bool> {
    cursor::register::<Values>(&conn)?;
    cursor::register::<Lists>(&conn)?;
    cursor::register::<Cycles>(&conn)?;
    cursor::register::<Branches>(&conn)?;
    cursor::register::<Calls>(&conn)?;
    cursor::register::<Stacks>(&conn)?;
    cursor::register::<Code>(&conn)?;
    Ok(false)
}
