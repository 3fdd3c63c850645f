//! Rows that are written many at a time: half of what a row costs is the statement around it.

use rusqlite::Connection;
use rusqlite::types::Value;

/// Rows of one statement. More save little more.
const ROWS: usize = 32;

/// Rows of `N` columns for one table. Those that wait are lost with it.
pub(super) struct Bulk<const N: usize> {
    one: String,
    many: String,
    waiting: Vec<[Value; N]>,
}

impl<const N: usize> Bulk<N> {
    /// For these columns of a table.
    pub(super) fn new(table: &str, columns: [&str; N]) -> Self {
        let row = format!("({})", vec!["?"; N].join(", "));
        let sql = |rows| {
            let (columns, rows) = (columns.join(", "), vec![row.as_str(); rows].join(", "));
            format!("INSERT INTO {table} ({columns}) VALUES {rows}")
        };
        Self {
            one: sql(1),
            many: sql(ROWS),
            waiting: Vec::with_capacity(ROWS),
        }
    }

    /// Adds a row, and writes all that wait if they are enough.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) fn push(&mut self, conn: &Connection, row: [Value; N]) -> rusqlite::Result<()> {
        self.waiting.push(row);
        if self.waiting.len() < ROWS {
            return Ok(());
        }
        insert(conn, &self.many, self.waiting.drain(..))
    }

    /// Writes all that wait.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) fn write(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut rows = self.waiting.drain(..);
        rows.try_for_each(|row| insert(conn, &self.one, [row]))
    }
}

/// Runs a statement for as many rows as it takes.
fn insert<const N: usize>(
    conn: &Connection,
    sql: &str,
    rows: impl IntoIterator<Item = [Value; N]>,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached(sql)?;
    for (column, value) in rows.into_iter().flatten().enumerate() {
        statement.raw_bind_parameter(column + 1, value)?;
    }
    statement.raw_execute().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many rows there are, all of them are there once, in their order.
    #[test]
    fn all_rows() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t (a INTEGER, b TEXT)")
            .unwrap();
        let mut written = 0;
        for rows in [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5] {
            let mut bulk = Bulk::new("t", ["a", "b"]);
            for _ in 0..rows {
                let row = [
                    Value::Integer(written),
                    Value::Text(format!("row {written}")),
                ];
                bulk.push(&conn, row).unwrap();
                written += 1;
            }
            bulk.write(&conn).unwrap();
        }
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut statement = conn.prepare("SELECT a, b FROM t ORDER BY rowid").unwrap();
        let rows: Vec<(i64, String)> = statement
            .query_map([], row)
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let wanted: Vec<_> = (0..written).map(|n| (n, format!("row {n}"))).collect();
        assert_eq!(rows, wanted);
    }
}
