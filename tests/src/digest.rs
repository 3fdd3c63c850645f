//! What a database says, in a few numbers: equal contents have equal digests, whatever the bytes,
//! the ids and the order of their rows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::rows::Rows;

/// Of each kind of rows, how many there are and the sum of their hashes.
pub type Digest = BTreeMap<&'static str, (u64, u64)>;

/// A process, an access tag and a PC without the ids that a file gives them.
const WHO: &str = "process.pid, process.execs, process.comm, \
    subject.uid, subject.gid, subject.euid, subject.egid, subject.suid, subject.dumpable, \
    subject.capable, subject.kernel";

/// The kinds of rows. Counters of what the collection cost differ from run to run.
fn kinds() -> [(&'static str, String); 6] {
    let pc = |name: &str| format!("{name}_image.kind, {name}_image.identity, {name}.address");
    let join = |of: &str, name: &str, column: &str| {
        format!(
            " LEFT JOIN pc {name} ON {name}.id = {of}.{column} \
              LEFT JOIN image {name}_image ON {name}_image.id = {name}.image"
        )
    };
    let who = |of: &str| {
        format!(
            " JOIN process ON process.id = {of}.process JOIN subject ON subject.id = {of}.subject"
        )
    };
    let all = |of: &'static str, first: &str, second: &str, more: &str| {
        let joins = who(of) + &join(of, "one", first) + &join(of, "two", second);
        format!(
            "SELECT {of}.flush, {WHO}, {}, {}, {more} FROM {of}{joins}",
            pc("one"),
            pc("two")
        )
    };
    let lists = who("hotlist") + &join("hotlist", "one", "pc") + &join("hotlist", "two", "caller");
    [
        ("cycles", all("cycles", "pc", "caller", "samples, weight")),
        (
            "hotlists",
            all(
                "hotlist",
                "pc",
                "caller",
                "parameter, reached, unknown, windows, p, concise, sat_count, \
                 round(1e6 * even), pairs_within, pairs_across",
            ),
        ),
        (
            "tuples",
            format!(
                "SELECT hotlist.flush, {WHO}, {}, {}, parameter, value, counted, certain, \
                 tuple.pairs_within, tuple.pairs_across \
                 FROM tuple JOIN hotlist ON hotlist.id = tuple.hotlist{lists}",
                pc("one"),
                pc("two")
            ),
        ),
        (
            "branches",
            all(
                "branch",
                "pc",
                "pc",
                "taken, not_taken, unknown, round(1e3 * taken_weight), \
                 round(1e3 * not_taken_weight), round(1e3 * unknown_weight), round(1e3 * squares)",
            ),
        ),
        (
            "calls",
            all(
                "call",
                "site",
                "callee",
                "calls, round(1e3 * weight), round(1e3 * squares)",
            ),
        ),
        (
            "counters",
            "SELECT flush, kind, name, value FROM counter WHERE kind <> 'overhead'".to_owned(),
        ),
    ]
}

/// The digest of a database.
///
/// # Errors
/// It cannot be read.
pub fn digest(database: &Path) -> Result<Digest> {
    let rows = Rows::of(database)?;
    let connection = Connection::open_with_flags(rows.path(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut digest = Digest::new();
    for (kind, sql) in kinds() {
        let mut statement = connection.prepare(&sql).context(kind)?;
        let columns = statement.column_count();
        let mut found = statement.query([])?;
        let (mut count, mut sum) = (0, 0_u64);
        while let Some(row) = found.next()? {
            count += 1;
            sum = sum.wrapping_add(hash(row, columns)?);
        }
        digest.insert(kind, (count, sum));
    }
    Ok(digest)
}

/// A hash of a row: 64-bit FNV-1a over its values as text.
fn hash(row: &Row<'_>, columns: usize) -> Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for column in 0..columns {
        match row.get_ref(column)? {
            ValueRef::Null => add(b"NULL"),
            ValueRef::Integer(value) => add(value.to_string().as_bytes()),
            ValueRef::Real(value) => add(value.to_string().as_bytes()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => add(bytes),
        }
        add(&[0]);
    }
    Ok(hash)
}
