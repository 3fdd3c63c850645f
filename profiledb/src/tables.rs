//! The tables of the schema, each described once: its columns, what makes two rows one, how rows
//! are merged, and who may see them. Statements are made of the description, so whatever writes,
//! reads, joins or shows a table knows the same columns. `schema/0002.sql` and the files behind it
//! declare the tables and say what they mean; a test compares both.
//!
//! [`stored`] has the descriptions.

mod cell;
pub(crate) mod stored;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

pub(crate) use cell::{Cell, Later};

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// The version of the schema that brought it.
    pub(crate) since: i64,
    /// What stands in its place in older files, as SQL.
    pub(crate) before: &'static str,
}

/// Who finds a table's rows in a view that is made for them. The privileged find all but those of
/// [`Shown::Never`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Whose the access tag is: it is in the column `subject`.
    Tagged,
    /// Who is shown a row that refers to this one, or that this one refers to.
    WithOthers,
    /// Who asked for it. Settings and what was typed are for the privileged.
    Asked,
    /// Nobody else: these belong to no one user.
    Privileged,
    /// Nobody at all: these are about the file.
    Never,
}

/// What becomes of rows where files are joined, or hours rolled up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merged {
    /// Rows with the same key are one, and the first is kept.
    Same,
    /// Rows with the same key add up in this column.
    Added(&'static str),
    /// Of rows with the same key, the one is kept that is largest in this column.
    Largest(&'static str),
    /// Rows with the same key are one, from the start of the first to the end of the last.
    Spanned,
    /// Rows stay as they are, or are packed anew: readers add them up.
    Apart,
}

/// Which layout of files has rows in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All.
    Every,
    /// A row for each thing counted, which older programs wrote and `unpack` writes.
    Single,
    /// Many such rows in a blob.
    Packed,
    /// It says something of the one file.
    OfFile,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// Whether it has a column `id`, which is none of `columns`.
    pub(crate) has_id: bool,
    pub(crate) columns: &'static [Column],
    /// The columns that make two rows one.
    pub(crate) key: &'static [&'static str],
    pub(crate) merged: Merged,
    pub(crate) shown: Shown,
    pub(crate) layout: Layout,
}

/// The statements that write a table.
pub(crate) struct Statements {
    insert: String,
    insert_as: String,
    find: String,
    merge: String,
}

/// A row of a table, without its id.
pub(crate) trait Record: Sized {
    const TABLE: &'static Table;

    /// The row of a statement of [`Table::select`].
    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;

    /// What it has in the table's columns.
    fn values(&self) -> Vec<ToSqlOutput<'_>>;

    /// Bytes of its text and blobs.
    fn bytes(&self) -> u64;

    /// The statements that write it.
    fn statements() -> &'static Statements;

    /// What it has in the key's columns.
    fn key(&self) -> Vec<ToSqlOutput<'_>> {
        let mut values: Vec<_> = self.values().into_iter().map(Some).collect();
        let of_key = Self::TABLE.key_places();
        of_key.filter_map(|at| values.get_mut(at)?.take()).collect()
    }
}

/// What a row of things counted refers to: rows of these ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct References {
    pub(crate) flush: i64,
    pub(crate) process: i64,
    pub(crate) subject: i64,
    pub(crate) pc: i64,
    /// The PC of a caller or callee.
    pub(crate) other: Option<i64>,
}

/// A row of things counted at a PC.
pub(crate) trait Counted: Record {
    fn references(&self) -> References;

    /// Has it refer to other rows.
    fn refer(&mut self, to: References);
}

impl Table {
    /// Whether files of this version of the schema have it.
    pub(crate) fn is_in(&self, version: i64) -> bool {
        self.columns.iter().any(|column| column.since <= version)
    }

    /// The id and the columns, with what stands for those that this version lacks.
    fn asked(&self, version: i64) -> String {
        let name = |column: &Column| match column.since <= version {
            true => column.name,
            false => column.before,
        };
        let id = if self.has_id { "id" } else { "0" };
        let names: Vec<&str> = [id]
            .into_iter()
            .chain(self.columns.iter().map(name))
            .collect();
        names.join(", ")
    }

    /// Asks for all rows: the id, which is 0 where the table has none, and the columns behind it.
    /// What may follow in SQL follows.
    pub(crate) fn select(&self, version: i64) -> String {
        format!("SELECT {} FROM {}", self.asked(version), self.name)
    }

    /// As [`Table::select`], with one more column behind the others.
    pub(crate) fn select_with(&self, version: i64, more: &str) -> String {
        format!("SELECT {}, {more} FROM {}", self.asked(version), self.name)
    }

    /// All of a table's columns that this version has, the id among them.
    pub(crate) fn whole_columns(&self, version: i64) -> Vec<&'static str> {
        let id = self.has_id.then_some("id");
        let columns = self.columns.iter();
        let columns = columns.filter(|column| column.since <= version);
        id.into_iter()
            .chain(columns.map(|column| column.name))
            .collect()
    }

    fn key_places(&self) -> impl Iterator<Item = usize> {
        let place = |name: &&str| self.columns.iter().position(|column| column.name == *name);
        self.key.iter().filter_map(place)
    }

    /// The statements of [`Record::statements`].
    pub(crate) fn statements(&self) -> Statements {
        let name = self.name;
        let insert = |id: &[&str]| {
            let columns = self.columns.iter().map(|column| column.name);
            let columns: Vec<&str> = id.iter().copied().chain(columns).collect();
            let places: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
            let (columns, places) = (columns.join(", "), places.join(", "));
            format!("INSERT INTO {name} ({columns}) VALUES ({places})")
        };
        let equal = |(column, n): (&&str, usize)| format!("{column} IS ?{n}");
        let equal: Vec<String> = self.key.iter().zip(1..).map(equal).collect();
        let plain = insert(&[]);
        let conflict = match self.merged {
            Merged::Same | Merged::Spanned | Merged::Apart => "DO NOTHING".to_owned(),
            Merged::Added(column) => format!(
                "({}) DO UPDATE SET {column} = {column} + excluded.{column}",
                self.key.join(", ")
            ),
            Merged::Largest(column) => format!(
                "({}) DO UPDATE SET {column} = max({column}, excluded.{column})",
                self.key.join(", ")
            ),
        };
        Statements {
            merge: format!("{plain} ON CONFLICT {conflict}"),
            insert: plain,
            insert_as: insert(&["id"]),
            find: format!("SELECT id FROM {name} WHERE {}", equal.join(" AND ")),
        }
    }
}

/// The version of the schema that a database has.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<i64> {
    // Whoever looks up rows one by one asks each time.
    let mut statement = conn.prepare_cached("PRAGMA user_version")?;
    statement.query_row([], |row| row.get(0))
}

/// Whether a database has a table.
pub(crate) fn has(conn: &Connection, table: &Table) -> rusqlite::Result<bool> {
    version(conn).map(|version| table.is_in(version))
}

/// A row of a statement that begins with [`Table::select`], with its id.
pub(crate) fn read<R: Record>(row: &Row<'_>) -> rusqlite::Result<(i64, R)> {
    Ok((row.get(0)?, R::read(row)?))
}

/// The blob in the last column of a row of such a statement.
pub(crate) fn blob<'r, R: Record>(row: &'r Row<'_>) -> rusqlite::Result<&'r [u8]> {
    // The id comes first.
    let last = R::TABLE.columns.len();
    Ok(row.get_ref(last)?.as_blob()?)
}

/// Writes a row, and returns its id.
pub(crate) fn insert<R: Record>(conn: &Connection, row: &R) -> rusqlite::Result<i64> {
    let mut statement = conn.prepare_cached(&R::statements().insert)?;
    statement.insert(params_from_iter(row.values()))
}

/// Writes a row of a table without ids.
pub(crate) fn add<R: Record>(conn: &Connection, row: &R) -> rusqlite::Result<()> {
    const { assert!(!R::TABLE.has_id) };
    let mut statement = conn.prepare_cached(&R::statements().insert)?;
    statement.execute(params_from_iter(row.values())).map(drop)
}

/// Writes a row under this id; `None`: under the next.
pub(crate) fn insert_as<R: Record>(
    conn: &Connection,
    id: Option<i64>,
    row: &R,
) -> rusqlite::Result<i64> {
    const { assert!(R::TABLE.has_id) };
    let mut statement = conn.prepare_cached(&R::statements().insert_as)?;
    let mut values = row.values();
    values.insert(0, id.put());
    statement.insert(params_from_iter(values))
}

/// The id of the row with the same key, if it is there.
pub(crate) fn find<R: Record>(conn: &Connection, row: &R) -> rusqlite::Result<Option<i64>> {
    const { assert!(R::TABLE.has_id && !R::TABLE.key.is_empty()) };
    let mut statement = conn.prepare_cached(&R::statements().find)?;
    statement
        .query_row(params_from_iter(row.key()), |row| row.get(0))
        .optional()
}

/// The id of the row with the same key, which is written if it is not there yet.
pub(crate) fn put<R: Record>(conn: &Connection, row: &R) -> rusqlite::Result<i64> {
    match find(conn, row)? {
        Some(id) => Ok(id),
        None => insert(conn, row),
    }
}

/// Writes a row, or merges it with the one that is there, as the table's rows are.
pub(crate) fn merge<R: Record>(conn: &Connection, row: &R) -> rusqlite::Result<()> {
    const {
        assert!(!matches!(R::TABLE.merged, Merged::Spanned | Merged::Apart));
    }
    let mut statement = conn.prepare_cached(&R::statements().merge)?;
    statement.execute(params_from_iter(row.values())).map(drop)
}

/// The row with this id.
pub(crate) fn get<R: Record>(conn: &Connection, id: i64) -> rusqlite::Result<Option<R>> {
    const { assert!(R::TABLE.has_id) };
    let version = version(conn)?;
    let sql = format!("{} WHERE id = ?1", R::TABLE.select(version));
    let mut statement = conn.prepare_cached(&sql)?;
    statement.query_row([id], R::read).optional()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::open;

    /// The columns that a database has.
    fn columns_in(conn: &Connection, table: &str) -> Vec<String> {
        let mut statement = conn
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .expect("is SQL");
        let names = statement.query_map([table], |row| row.get(0));
        names
            .expect("reads")
            .map(|name| name.expect("is text"))
            .collect()
    }

    /// Every table of the schema is described, with the columns that it has, since the version that
    /// brought them: a new one cannot be written, shown or merged before somebody has said how.
    #[test]
    fn descriptions_are_those_of_the_schema() {
        for version in open::versions() {
            let conn = open::of_version(version).expect("is made");
            let mut statement = conn
                .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
                .expect("is SQL");
            let names = statement.query_map([], |row| row.get(0)).expect("reads");
            let names: Vec<String> = names.map(|name| name.expect("is text")).collect();
            let mut described: Vec<&str> = stored::ALL
                .iter()
                .filter(|table| table.is_in(version))
                .map(|table| table.name)
                .collect();
            described.sort_unstable();
            assert_eq!(names, described, "version {version}");
            for table in stored::ALL.iter().filter(|table| table.is_in(version)) {
                let mut found = columns_in(&conn, table.name);
                let mut said = table.whole_columns(version);
                found.sort_unstable();
                said.sort_unstable();
                assert_eq!(found, said, "{} of version {version}", table.name);
                conn.prepare(&table.select(version)).expect("is SQL");
            }
        }
    }

    /// All statements are such as the schema takes, and a key has columns of its table.
    #[test]
    fn statements_are_sql() {
        let mut conn = Connection::open_in_memory().expect("opens");
        open::fresh(Path::new("memory"), &mut conn).expect("is made");
        for table in stored::ALL {
            assert_eq!(
                table.key_places().count(),
                table.key.len(),
                "{}",
                table.name
            );
            let statements = table.statements();
            let of_ids = [&statements.insert_as, &statements.find];
            let of_ids = of_ids.into_iter().filter(|_| table.has_id);
            let merges = !matches!(table.merged, Merged::Spanned | Merged::Apart);
            let merge = merges.then_some(&statements.merge);
            for sql in of_ids.chain([&statements.insert]).chain(merge) {
                if table.key.is_empty() && *sql == statements.find {
                    continue;
                }
                if let Err(error) = conn.prepare(sql) {
                    panic!("{sql}: {error}");
                }
            }
        }
    }
}
