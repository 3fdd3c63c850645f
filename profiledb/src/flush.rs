//! Flushes: transactions that are saved whole or not at all.

mod bulk;
mod referred;

use std::collections::BTreeMap;

use hotlist::{Eviction, Parts, PartsTuple};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, OptionalExtension, params};

use self::bulk::Bulk;

use crate::intern::{Caches, Generation};
use crate::writer::{PcId, ProcessId, SubjectId, Writer};
use crate::{Calls, Directions, Error, lists, open, to_sql};

/// The hotlist of one parameter at one PC, as a flush takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewHotlist<'a> {
    /// Where it ran.
    pub process: ProcessId,
    /// Who may see it.
    pub subject: SubjectId,
    /// The instruction; for `arg0` to `arg5` the callee's entry.
    pub pc: PcId,
    /// The call site, where the list is keyed by it.
    pub caller: Option<PcId>,
    /// What was captured, for instance `eax`, `taken` or `arg0`.
    pub parameter: &'a str,
    /// How often a window came by.
    pub reached: u64,
    /// How often of these the value was unknown.
    pub unknown: u64,
    /// Distinct windows that the known values came from.
    pub windows: u64,
    /// How far these came at even distances, 0 to 1: see [`hotlist::Draws::even`]. `None`: not
    /// known.
    pub even: Option<f64>,
    /// The list, of all `reached - unknown` known values.
    pub parts: Parts<u64>,
}

/// One transaction of a [`Writer`]. Dropped without [`Flush::commit`], nothing of it is
/// saved.
///
/// After an error of the database every further call fails with [`Error::FlushFailed`].
/// [`Error::Invalid`] and [`Error::StaleId`] only concern the row at hand.
pub struct Flush<'w> {
    writer: &'w mut Writer,
    row: i64,
    failed: bool,
    committed: bool,
    counters: BTreeMap<(String, String), u64>,
    bulks: Bulks,
    /// The last id of a hotlist, and what that of a PC was when this began.
    last_hotlist: i64,
    last_pc_before: i64,
}

/// The tables that most rows go to.
struct Bulks {
    cycles: Bulk<7>,
    hotlists: Bulk<18>,
    tuples: Bulk<9>,
    branches: Bulk<11>,
    calls: Bulk<8>,
}

impl Bulks {
    fn new() -> Self {
        Self {
            cycles: Bulk::new(
                "cycles",
                [
                    "flush", "process", "subject", "pc", "caller", "samples", "weight",
                ],
            ),
            hotlists: Bulk::new(
                "hotlist",
                [
                    "id",
                    "flush",
                    "process",
                    "subject",
                    "pc",
                    "caller",
                    "parameter",
                    "reached",
                    "unknown",
                    "windows",
                    "capacity",
                    "by_weight",
                    "p",
                    "concise",
                    "sat_count",
                    "pairs_within",
                    "pairs_across",
                    "even",
                ],
            ),
            tuples: Bulk::new(
                "tuple",
                [
                    "hotlist",
                    "rank",
                    "value",
                    "counted",
                    "certain",
                    "first",
                    "pairs_within",
                    "pairs_across",
                    "variance",
                ],
            ),
            branches: Bulk::new(
                "branch",
                [
                    "flush",
                    "process",
                    "subject",
                    "pc",
                    "taken",
                    "not_taken",
                    "unknown",
                    "taken_weight",
                    "not_taken_weight",
                    "unknown_weight",
                    "squares",
                ],
            ),
            calls: Bulk::new(
                "call",
                [
                    "flush", "process", "subject", "site", "callee", "calls", "weight", "squares",
                ],
            ),
        }
    }
}

impl<'w> Flush<'w> {
    pub(crate) fn begin(
        writer: &'w mut Writer,
        started: i64,
        ended: i64,
    ) -> Result<Flush<'w>, Error> {
        writer
            .conn
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|e| Error::sqlite(&writer.path, e))?;
        let epoch = writer.epoch;
        // From here on, dropping the flush rolls back.
        let counters = BTreeMap::new();
        let mut flush = Flush {
            writer,
            row: 0,
            failed: false,
            committed: false,
            counters,
            bulks: Bulks::new(),
            last_hotlist: 0,
            last_pc_before: 0,
        };
        // It is read anew whenever somebody else has written to the file.
        open::check_version(&flush.writer.path, &flush.writer.conn)?;
        flush.row = flush.insert(
            "INSERT INTO flush (epoch, started, ended) VALUES (?1, ?2, ?3)",
            params![epoch, started, ended],
        )?;
        flush.last_hotlist = flush.last_id("SELECT max(id) FROM hotlist")?;
        flush.last_pc_before = flush.last_id("SELECT max(id) FROM pc")?;
        Ok(flush)
    }

    /// Adds interrupts at a PC: their number, and the sum of the sampled intervals in the
    /// epoch's unit. `caller` is the call site of the interrupted function.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn cycles(
        &mut self,
        process: ProcessId,
        subject: SubjectId,
        pc: PcId,
        caller: Option<PcId>,
        samples: u64,
        weight: u64,
    ) -> Result<(), Error> {
        self.check_all(process, subject, pc, caller)?;
        let row = [
            Value::Integer(self.row),
            Value::Integer(process.row),
            Value::Integer(subject.row),
            Value::Integer(pc.row),
            caller.map(|caller| caller.row).into(),
            Value::Integer(to_sql(samples)),
            Value::Integer(to_sql(weight)),
        ];
        self.add(|bulks| &mut bulks.cycles, row)
    }

    /// Adds a value profile.
    ///
    /// # Errors
    /// [`Error::Invalid`] for counts that contradict each other, parts that no list can
    /// have, and settings other than N that are not the usual ones (which are not stored);
    /// [`Error::StaleId`], and those of the database.
    pub fn hotlist(&mut self, row: &NewHotlist<'_>) -> Result<(), Error> {
        self.check_all(row.process, row.subject, row.pc, row.caller)?;
        lists::check(row)?;
        self.last_hotlist += 1;
        let hotlist = self.last_hotlist;
        let parts = &row.parts;
        let values = [
            Value::Integer(hotlist),
            Value::Integer(self.row),
            Value::Integer(row.process.row),
            Value::Integer(row.subject.row),
            Value::Integer(row.pc.row),
            row.caller.map(|caller| caller.row).into(),
            Value::Text(row.parameter.to_owned()),
            Value::Integer(to_sql(row.reached)),
            Value::Integer(to_sql(row.unknown)),
            Value::Integer(to_sql(row.windows)),
            // At most `Config::MAX_CAPACITY`.
            Value::Integer(parts.config.capacity() as i64),
            (parts.config.evictions() == Eviction::ByWeight).into(),
            Value::Real(parts.p),
            parts.concise.into(),
            parts.sat_count.into(),
            parts.pairs.map(|pairs| to_sql(pairs.within)).into(),
            parts.pairs.map(|pairs| to_sql(pairs.across)).into(),
            row.even.into(),
        ];
        self.add(|bulks| &mut bulks.hotlists, values)?;
        for (rank, tuple) in (0_i64..).zip(&parts.tuples) {
            let &PartsTuple {
                value,
                counted,
                certain,
                first,
                variance,
                pairs,
            } = tuple;
            let [value, counted, certain, first] = [value, counted, certain, first].map(to_sql);
            let [within, across] =
                [pairs.within, pairs.across].map(|sum| parts.pairs.map(|_| to_sql(sum)).into());
            let variance = variance.map(f64::from).into();
            let [hotlist, rank, value, counted, certain, first] =
                [hotlist, rank, value, counted, certain, first].map(Value::Integer);
            let values = [
                hotlist, rank, value, counted, certain, first, within, across, variance,
            ];
            self.add(|bulks| &mut bulks.tuples, values)?;
        }
        Ok(())
    }

    /// Adds directions of a conditional branch.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn branch(
        &mut self,
        process: ProcessId,
        subject: SubjectId,
        pc: PcId,
        directions: impl Into<Directions>,
    ) -> Result<(), Error> {
        self.check_all(process, subject, pc, None)?;
        let seen = directions.into();
        let [taken, not_taken, unknown] = seen.weights;
        let row = [
            Value::Integer(self.row),
            Value::Integer(process.row),
            Value::Integer(subject.row),
            Value::Integer(pc.row),
            Value::Integer(to_sql(seen.taken)),
            Value::Integer(to_sql(seen.not_taken)),
            Value::Integer(to_sql(seen.unknown)),
            Value::Real(taken),
            Value::Real(not_taken),
            Value::Real(unknown),
            seen.squares.into(),
        ];
        self.add(|bulks| &mut bulks.branches, row)
    }

    /// Adds calls that windows ran into; `callee` is the entry, where it is known.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn call(
        &mut self,
        process: ProcessId,
        subject: SubjectId,
        site: PcId,
        callee: Option<PcId>,
        calls: impl Into<Calls>,
    ) -> Result<(), Error> {
        self.check_all(process, subject, site, callee)?;
        let calls = calls.into();
        let row = [
            Value::Integer(self.row),
            Value::Integer(process.row),
            Value::Integer(subject.row),
            Value::Integer(site.row),
            callee.map(|callee| callee.row).into(),
            Value::Integer(to_sql(calls.times)),
            Value::Real(calls.weight),
            calls.squares.into(),
        ];
        self.add(|bulks| &mut bulks.calls, row)
    }

    /// Counts `value` more of what has no PC. Given several times in one flush, the values
    /// add up.
    ///
    /// # Errors
    /// None today: counters are written by [`Flush::commit`].
    pub fn counter(&mut self, kind: &str, name: &str, value: u64) -> Result<(), Error> {
        let sum = self
            .counters
            .entry((kind.to_owned(), name.to_owned()))
            .or_insert(0);
        *sum = sum.saturating_add(value);
        Ok(())
    }

    /// Saves the flush.
    ///
    /// # Errors
    /// Those of the database; nothing of the flush is saved then.
    pub fn commit(mut self) -> Result<(), Error> {
        self.write_bulks()?;
        let flush = self.row;
        for ((kind, name), value) in std::mem::take(&mut self.counters) {
            self.execute(
                "INSERT INTO counter (flush, kind, name, value) VALUES (?1, ?2, ?3, ?4)",
                params![flush, kind, name, to_sql(value)],
            )?;
        }
        self.run("COMMIT", |statement| statement.execute([]))?;
        self.committed = true;
        Ok(())
    }

    fn generation(&self) -> Generation {
        self.writer.caches.generation
    }

    fn check(&self, generation: Generation) -> Result<(), Error> {
        if generation == self.generation() {
            Ok(())
        } else {
            Err(Error::StaleId)
        }
    }

    fn check_all(
        &self,
        process: ProcessId,
        subject: SubjectId,
        pc: PcId,
        other: Option<PcId>,
    ) -> Result<(), Error> {
        self.check(process.generation)?;
        self.check(subject.generation)?;
        self.check(pc.generation)?;
        other.map_or(Ok(()), |other| self.check(other.generation))
    }

    /// Runs one statement. SQLite may have rolled back after an error, and would then save
    /// each further row by itself: therefore none is let through.
    fn run<T>(
        &mut self,
        sql: &str,
        work: impl FnOnce(&mut CachedStatement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        self.check_failed()?;
        let result = self
            .writer
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| work(&mut statement));
        self.note(result)
    }

    /// Adds a row to one of the tables that most of them go to.
    fn add<const N: usize>(
        &mut self,
        table: impl FnOnce(&mut Bulks) -> &mut Bulk<N>,
        row: [Value; N],
    ) -> Result<(), Error> {
        self.check_failed()?;
        let result = table(&mut self.bulks).push(&self.writer.conn, row);
        self.note(result)
    }

    /// Writes the last rows of these.
    fn write_bulks(&mut self) -> Result<(), Error> {
        self.check_failed()?;
        let conn = &self.writer.conn;
        let Bulks {
            cycles,
            hotlists,
            tuples,
            branches,
            calls,
        } = &mut self.bulks;
        let result = cycles
            .write(conn)
            .and_then(|()| hotlists.write(conn))
            .and_then(|()| tuples.write(conn))
            .and_then(|()| branches.write(conn))
            .and_then(|()| calls.write(conn));
        self.note(result)
    }

    fn check_failed(&self) -> Result<(), Error> {
        match self.failed {
            true => Err(Error::FlushFailed {
                path: self.writer.path.clone(),
            }),
            false => Ok(()),
        }
    }

    fn note<T>(&mut self, result: rusqlite::Result<T>) -> Result<T, Error> {
        result.map_err(|e| {
            self.failed = true;
            Error::sqlite(&self.writer.path, e)
        })
    }

    /// The result of such a query; 0 for an empty table.
    fn last_id(&mut self, sql: &str) -> Result<i64, Error> {
        let last = self.run(sql, |statement| {
            statement.query_row([], |row| row.get::<_, Option<i64>>(0))
        });
        Ok(last?.unwrap_or(0))
    }

    fn execute(&mut self, sql: &str, params: impl rusqlite::Params) -> Result<(), Error> {
        self.run(sql, |statement| statement.execute(params))
            .map(drop)
    }

    fn insert(&mut self, sql: &str, params: impl rusqlite::Params) -> Result<i64, Error> {
        self.run(sql, |statement| statement.insert(params))
    }

    fn select(&mut self, sql: &str, params: impl rusqlite::Params) -> Result<Option<i64>, Error> {
        self.run(sql, |statement| {
            statement.query_row(params, |row| row.get(0)).optional()
        })
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        // The caches hold ids of rows that are about to go.
        self.writer.caches = Caches::new();
        if !self.writer.conn.is_autocommit() {
            // Should it fail, the next BEGIN fails and says why.
            let _ = self.writer.conn.execute_batch("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests;
