//! An hour rolled up within its file, in small transactions. The file may be written to meanwhile.
//!
//! A piece is read and added up without a lock. Nobody else changes rows of flushes that are past,
//! so one short transaction can then write what came of it and remove what it was made of.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use hotlist::Generator;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::bucket::{Bucket, ChunkRefusal};
use super::budget::Spending;
use super::fold::{SeenBetween, folded, short_lived};
use super::ids::Ids;
use super::period::Grain;
use super::rolled::{Rolled, RolledChunk};
use super::{Identity, MOST_VALUES, PIECE, SAMPLE};
use crate::chunk::{ChunkKind, ChunkPlace, decode_cycles};
use crate::tables::stored::{
    CHUNK, COUNTER, FLUSH, REGION, StoredChunk, StoredCounter, StoredFlush, StoredProcess,
};
use crate::tables::{self, Record};
use crate::{Error, from_sql, log, open};

/// How long after an hour it is rolled up, in nanoseconds: a flush that fails is tried again.
const GRACE: i64 = 300_000_000_000;

/// Image, bucket, and its chunks with their bytes.
type Todo = (i64, i64, Vec<(i64, u64)>);

/// An hour of a file on its way.
pub(crate) struct Hour {
    pub(crate) identity: Identity,
    /// A collector writes to the file.
    is_running: bool,
    epoch: i64,
    /// The flushes, by their ids: begin and end.
    flushes: HashMap<i64, (i64, i64)>,
    /// The row of the hour.
    target: i64,
    time: (i64, i64),
    /// What is left to do, the last first.
    left: Vec<Todo>,
    /// Processes that are joined, and with which.
    folded: HashMap<i64, i64>,
    spending: Spending,
    /// Bytes of input whose lists `spending` knows.
    seen: u64,
    coins: Generator,
    rolled: (u64, u64),
}

/// What was found in a file.
pub(crate) enum Found {
    /// An hour to roll up.
    Hour(Box<Hour>),
    /// None.
    Nothing,
}

/// Opens a database to roll up in it: for a moment, since who wants to close it must be alone.
pub(crate) fn connect(path: &Path) -> Result<Connection, Error> {
    let failed = |e| Error::sqlite(path, e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    open::harden(&conn).map_err(failed)?;
    open::check_version(path, &conn)?;
    conn.pragma_update(None, "foreign_keys", false)
        .map_err(failed)?;
    conn.pragma_update(None, "synchronous", "NORMAL")
        .map_err(failed)?;
    // The end of the log is its writer's part.
    log::leave_log(&conn).map_err(failed)?;
    Ok(conn)
}

/// Merges the log of a file that nobody writes to, and does without one from then on. While a
/// reader is at work that cannot be; then it is tried again later.
fn end_log(conn: &Connection) {
    let _ = open::set_journal_mode(conn, "DELETE");
}

impl Hour {
    /// Looks for an hour that is over, and settles what becomes of its processes.
    pub(crate) fn find(
        path: &Path,
        now: i64,
        budget: u64,
        seed: u64,
        is_running: bool,
    ) -> Result<Found, Error> {
        let identity = Identity::of(path)?;
        let mut conn = connect(path)?;
        let failed = |e| Error::sqlite(path, e);
        if !tables::has(&conn, &CHUNK).map_err(failed)? {
            return Ok(Found::Nothing);
        }
        let Some((epoch, flushes)) = past_hour(path, &conn, now)? else {
            if !is_running {
                end_log(&conn);
            }
            return Ok(Found::Nothing);
        };
        // With a log, what a crash leaves can be read at once. The journal of a closed file would
        // have to be rolled back first, by somebody who may write.
        open::set_journal_mode(&conn, "WAL").map_err(failed)?;
        let began = flushes.values().map(|time| time.0).min().unwrap_or(0);
        let ended = flushes.values().map(|time| time.1).max().unwrap_or(0);
        let mut coins = Generator::new(seed ^ ended.cast_unsigned());
        let mut left = places(path, &conn, &flushes)?;
        left.reverse();
        let input = left.iter().flat_map(|(.., chunks)| chunks);
        let input: u64 = input.map(|(_, bytes)| bytes).sum();
        let folds = folds(path, &conn, &flushes)?;

        let transaction = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let hour = Grain::Hour.seconds();
        let (from, to) = Grain::Hour.period(ended);
        // One that an interrupted roll-up began goes on.
        let begun = transaction.query_row(
            "SELECT id, started, ended FROM flush
             WHERE epoch = ?1 AND grain = ?2 AND ended > ?3 AND ended <= ?4",
            params![epoch, hour, from, to],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        );
        let (target, time, is_new) = match begun {
            Ok((id, b, e)) => (id, (began.min(b), ended.max(e)), false),
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                let row = StoredFlush {
                    epoch,
                    started: began,
                    ended,
                    grain: hour,
                    replaced: 0,
                };
                let id = tables::insert(&transaction, &row).map_err(failed)?;
                (id, (began, ended), true)
            }
            Err(error) => return Err(failed(error)),
        };
        let mut folded_into = HashMap::new();
        // What an interrupted roll-up left of an hour does not tell who lived through it.
        if is_new {
            for (id, comm) in folds {
                let row = fold(&transaction, epoch, &comm).map_err(failed)?;
                folded_into.insert(id, row);
            }
        }
        transaction
            .execute(
                "UPDATE flush SET started = ?1, ended = ?2 WHERE id = ?3",
                params![time.0, time.1, target],
            )
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
        let mut hour = Hour {
            identity,
            is_running,
            epoch,
            flushes,
            target,
            time,
            left,
            folded: folded_into,
            spending: Spending::new(budget, input),
            seen: 0,
            coins: Generator::new(coins.next_u64()),
            rolled: (0, 0),
        };
        hour.sample(path, &conn)?;
        Ok(Found::Hour(Box::new(hour)))
    }

    /// Looks at buckets from all over the hour: what lists are like is to be known before the first
    /// is thinned.
    fn sample(&mut self, path: &Path, conn: &Connection) -> Result<(), Error> {
        let every = (self.left.len() / SAMPLE).max(1);
        for index in (every / 2..self.left.len()).step_by(every) {
            let Some((_, bucket, chunks)) = self.left.get(index).cloned() else {
                break;
            };
            let sum = self.gather(path, conn, bucket, &chunks)?;
            sum.measure(&mut self.spending, &mut self.coins);
            self.seen += chunks.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        Ok(())
    }

    fn gather(
        &mut self,
        path: &Path,
        conn: &Connection,
        bucket: i64,
        chunks: &[(i64, u64)],
    ) -> Result<Bucket, Error> {
        let failed = |e| Error::sqlite(path, e);
        let mut sum = Bucket::new(MOST_VALUES);
        for (id, _) in chunks {
            let read = tables::get(conn, *id).map_err(failed)?;
            let read: Option<StoredChunk<Vec<u8>>> = read;
            let missing = || Error::corrupt(path, format!("chunk {id} is missing"));
            let StoredChunk {
                flush,
                kind,
                subject,
                data,
                ..
            } = read.ok_or_else(missing)?;
            let bad = |what: &str| Error::corrupt(path, format!("chunk {id}: {what}"));
            let kind = ChunkKind::of(kind).ok_or_else(|| bad("it is of no known kind"))?;
            let time = self.flushes.get(&flush).copied();
            let chunk = RolledChunk {
                kind,
                subject,
                target: self.target,
                place: ChunkPlace {
                    bucket: from_sql(bucket),
                    time: time.ok_or_else(|| bad("it changed its flush"))?,
                },
                data,
            };
            let added = sum.add(&chunk, &mut Folded(&self.folded), &mut self.coins);
            added.map_err(|refusal| match refusal {
                ChunkRefusal::Bad(what) => bad(&what.to_string()),
                ChunkRefusal::Ids(error) => error,
            })?;
        }
        Ok(sum)
    }

    /// Rolls up a piece; whether that was the last.
    pub(crate) fn piece(&mut self, path: &Path) -> Result<bool, Error> {
        let failed = |e| Error::sqlite(path, e);
        let mut conn = connect(path)?;
        let asked_alone = super::asked_alone(&conn).map_err(failed)?;
        let (mut done, mut written, mut input) = (Vec::new(), Vec::new(), 0);
        let mut remaining = self.left.len();
        while input < PIECE && remaining > 0 {
            remaining -= 1;
            let Some((image, bucket, chunks)) = self.left.get(remaining).cloned() else {
                break;
            };
            let sum = self.gather(path, &conn, bucket, &chunks)?;
            let bytes: u64 = chunks.iter().map(|(_, bytes)| bytes).sum();
            let rolled = self.settle(sum, from_sql(bucket), bytes, &asked_alone);
            self.rolled.0 += rolled.left_out.0;
            self.rolled.1 += rolled.all.0;
            written.push((image, bucket, rolled));
            done.extend(chunks.into_iter().map(|(id, _)| id));
            input += bytes;
        }
        let transaction = conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        for (image, bucket, rolled) in &written {
            super::insert(&transaction, *image, from_sql(*bucket), &rolled.chunks)
                .map_err(failed)?;
        }
        super::count(
            &transaction,
            self.target,
            written.iter().map(|(.., rolled)| rolled),
        )
        .map_err(failed)?;
        {
            let mut delete = transaction
                .prepare_cached("DELETE FROM chunk WHERE id = ?1")
                .map_err(failed)?;
            for id in &done {
                delete.execute([id]).map_err(failed)?;
            }
        }
        if remaining == 0 {
            self.end(&transaction).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        self.left.truncate(remaining);
        if remaining == 0 && !self.is_running {
            end_log(&conn);
        }
        Ok(remaining == 0)
    }

    fn settle(
        &mut self,
        sum: Bucket,
        bucket: u64,
        bytes: u64,
        asked_alone: &HashSet<i64>,
    ) -> Rolled {
        let time = self.time;
        let tau = self.spending.threshold(self.seen);
        let rolled = sum.finish(bucket, |_| time, tau, asked_alone, &mut self.coins);
        self.spending.took(bytes, &rolled);
        rolled
    }

    /// The hour's counters, and the end of its flushes.
    fn end(&self, conn: &Connection) -> rusqlite::Result<()> {
        let mut sums: HashMap<(String, String), u64> = HashMap::new();
        for id in self.flushes.keys() {
            let sql = format!(
                "{} WHERE flush = ?1",
                COUNTER.select(tables::version(conn)?)
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query([id])?;
            while let Some(row) = rows.next()? {
                let row = StoredCounter::read(row)?;
                let sum = sums.entry((row.kind, row.name)).or_insert(0);
                *sum = sum.saturating_add(row.value);
            }
            drop(rows);
            conn.prepare_cached("DELETE FROM counter WHERE flush = ?1")?
                .execute([id])?;
            conn.prepare_cached("DELETE FROM flush WHERE id = ?1")?
                .execute([id])?;
        }
        super::add_counters(conn, self.target, &sums)?;
        // A file that an older program began may not have them yet.
        if tables::has(conn, &REGION)? {
            let mut delete = conn.prepare_cached("DELETE FROM region WHERE process = ?1")?;
            for process in self.folded.keys() {
                delete.execute([process])?;
            }
        }
        conn.execute(
            "UPDATE flush SET replaced = replaced + ?1 WHERE id = ?2",
            params![self.flushes.len() as i64, self.target],
        )?;
        Ok(())
    }

    /// What there is to say of it in the end.
    pub(crate) fn told(&self) -> String {
        format!(
            "an hour of epoch {} is rolled up: {} flushes, {} lists, of which {} were left out",
            self.epoch,
            self.flushes.len(),
            self.rolled.1,
            self.rolled.0
        )
    }
}

/// Ids of the file itself, but for processes that are joined.
struct Folded<'a>(&'a HashMap<i64, i64>);

impl Ids for Folded<'_> {
    fn image(&mut self, id: i64) -> Result<i64, Error> {
        Ok(id)
    }

    fn process(&mut self, id: i64, _target: i64) -> Result<i64, Error> {
        Ok(self.0.get(&id).copied().unwrap_or(id))
    }

    fn parameter(&mut self, id: i64) -> Result<i64, Error> {
        Ok(id)
    }
}

/// Flushes by their ids: begin and end.
type Flushes = HashMap<i64, (i64, i64)>;

/// The flushes of the first hour that is over and not rolled up, and their epoch.
fn past_hour(path: &Path, conn: &Connection, now: i64) -> Result<Option<(i64, Flushes)>, Error> {
    let failed = |e| Error::sqlite(path, e);
    // What older programs wrote stays as it is.
    let older = ["cycles", "hotlist", "branch", "call"].map(|table| {
        let sql = format!("SELECT max(flush) FROM {table}");
        conn.query_row(&sql, [], |row| row.get::<_, Option<i64>>(0))
    });
    let mut last_old = 0;
    for older in older {
        last_old = last_old.max(older.map_err(failed)?.unwrap_or(0));
    }
    let select = FLUSH.select(tables::version(conn).map_err(failed)?);
    let sql = format!("{select} WHERE grain = 0 AND id > ?1 ORDER BY id");
    let mut statement = conn.prepare(&sql).map_err(failed)?;
    let mut rows = statement.query([last_old]).map_err(failed)?;
    let mut first: Option<(i64, i64)> = None;
    let mut flushes = Flushes::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let (id, flush) = tables::read::<StoredFlush>(row).map_err(failed)?;
        let StoredFlush {
            epoch,
            started,
            ended,
            ..
        } = flush;
        let (_, until) = Grain::Hour.period(ended);
        if until.saturating_add(GRACE) > now {
            continue;
        }
        if *first.get_or_insert((epoch, until)) == (epoch, until) {
            flushes.insert(id, (started, ended));
        }
    }
    Ok(first.map(|(epoch, _)| (epoch, flushes)))
}

/// What these flushes have, in the order of places.
fn places(path: &Path, conn: &Connection, flushes: &Flushes) -> Result<Vec<Todo>, Error> {
    let failed = |e| Error::sqlite(path, e);
    let mut all = Vec::new();
    let sql = "SELECT image, bucket, id, length(data) FROM chunk WHERE flush = ?1";
    let mut statement = conn.prepare(sql).map_err(failed)?;
    for flush in flushes.keys() {
        let mut rows = statement.query([flush]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let get = |column| row.get::<_, i64>(column).map_err(failed);
            let bytes = from_sql(get(3)?).saturating_add(super::ROW as u64);
            all.push((get(0)?, get(1)?, get(2)?, bytes));
        }
    }
    all.sort_unstable();
    let pieces = all.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    let piece = |rows: &[(i64, i64, i64, u64)]| {
        let (image, bucket, ..) = rows[0];
        let chunks = rows.iter().map(|&(.., id, bytes)| (id, bytes)).collect();
        (image, bucket, chunks)
    };
    Ok(pieces.map(piece).collect())
}

/// The processes of these flushes that lived for seconds, with their commands.
fn folds(path: &Path, conn: &Connection, flushes: &Flushes) -> Result<Vec<(i64, String)>, Error> {
    let failed = |e| Error::sqlite(path, e);
    let mut seen: HashMap<i64, SeenBetween> = HashMap::new();
    let sql = "SELECT id, bucket, data FROM chunk WHERE flush = ?1 AND kind = ?2";
    let mut statement = conn.prepare(sql).map_err(failed)?;
    for (flush, &(started, ended)) in flushes {
        let mut rows = statement
            .query(params![flush, ChunkKind::Cycles.number()])
            .map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let id: i64 = row.get(0).map_err(failed)?;
            let place = ChunkPlace {
                bucket: from_sql(row.get(1).map_err(failed)?),
                time: (started, ended),
            };
            let data: Vec<u8> = row.get(2).map_err(failed)?;
            let rows = decode_cycles(place, &data)
                .map_err(|bad| Error::corrupt(path, format!("chunk {id}: {bad}")))?;
            for row in rows {
                let process = seen.entry(row.process).or_insert(SeenBetween {
                    first: ended,
                    last: ended,
                });
                process.first = process.first.min(ended);
                process.last = process.last.max(ended);
            }
        }
    }
    let mut processes = HashMap::new();
    for id in seen.keys() {
        let process = tables::get::<StoredProcess>(conn, *id).map_err(failed)?;
        let missing = || Error::corrupt(path, format!("process {id} is missing"));
        processes.insert(*id, process.ok_or_else(missing)?.process());
    }
    let short = short_lived(&seen, &processes);
    let with_command = |id: i64| Some((id, processes.get(&id)?.comm.clone()));
    Ok(short.into_iter().filter_map(with_command).collect())
}

/// The row of the process that stands for those of a command.
fn fold(conn: &Connection, epoch: i64, comm: &str) -> rusqlite::Result<i64> {
    tables::put(conn, &StoredProcess::new(epoch, folded(comm)))
}
