//! Flushes: transactions that are saved whole or not at all.

mod check;
mod referred;
mod regions;
mod stacks;
mod stage;

use std::collections::BTreeMap;

use counters::CounterKey;
use hotlist::Estimates;
use rusqlite::{CachedStatement, Connection};

use self::stage::Stage;
use crate::budget::Budget;
use crate::chunk::{BranchOf, CallOf, CyclesOf, ListOf};
use crate::intern::{Caches, Generation};
use crate::tables::stored::{StoredCounter, StoredFlush, StoredParameter};
use crate::tables::{self, Record};
use crate::writer::{PcRowId, ProcessRowId, SubjectRowId, Writer};
use crate::{Calls, Directions, Error, open};

/// The hotlist of one parameter at one PC, as a flush takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewHotlist<'a> {
    /// Where it ran.
    pub process: ProcessRowId,
    /// Who may see it.
    pub subject: SubjectRowId,
    /// The instruction; for `arg0` to `arg5` the callee's entry.
    pub pc: PcRowId,
    /// The call site, where the list is keyed by it.
    pub caller: Option<PcRowId>,
    /// What was captured, for instance `eax`, `taken` or `arg0`.
    pub parameter: &'a str,
    /// How often a window came by.
    pub reached: f64,
    /// How often of these the value was unknown.
    pub unknown: f64,
    /// Distinct windows that the known values came from.
    pub windows: u64,
    /// How far these came at even distances, 0 to 1: see [`hotlist::Draws::even`]. `None`: not
    /// known.
    pub even: Option<f64>,
    /// What the list of all `reached - unknown` known values says.
    pub list: Estimates<u64>,
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
    stage: Stage,
    started: i64,
    ended: i64,
    /// As [`Ids::tau`](crate::chunk::Ids::tau), where the lists were drawn already.
    tau: f64,
    /// The writer's budget, should nothing of this be saved.
    budget_before: Option<Budget>,
    /// Bytes of the database in use when it began.
    used_before: u64,
}

impl Writer {
    /// Begins the flush of what was collected from `started` to `ended`, in nanoseconds of
    /// the Unix epoch.
    ///
    /// # Errors
    /// [`Error::Busy`] if another writer keeps the database, [`Error::NewerSchema`] and its like
    /// if another program has made something else of it, [`Error::DiskFull`] and the like.
    pub fn begin(&mut self, started: i64, ended: i64) -> Result<Flush<'_>, Error> {
        Flush::begin(self, started, ended)
    }
}

impl<'w> Flush<'w> {
    fn begin(writer: &'w mut Writer, started: i64, ended: i64) -> Result<Flush<'w>, Error> {
        writer
            .conn
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|e| Error::sqlite(&writer.path, e))?;
        let epoch = writer.epoch;
        let budget_before = writer.budget.clone();
        // From here on, dropping the flush rolls back.
        let counters = BTreeMap::new();
        let mut flush = Flush {
            writer,
            row: 0,
            failed: false,
            committed: false,
            counters,
            stage: Stage::default(),
            started,
            ended,
            tau: 0.0,
            budget_before,
            used_before: 0,
        };
        // It is read anew whenever somebody else has written to the file.
        open::check_version(&flush.writer.path, &flush.writer.conn)?;
        if flush.writer.budget.is_some() {
            flush.used_before = flush.used()?;
        }
        let row = StoredFlush {
            epoch,
            started,
            ended,
            grain: 0,
            replaced: 1,
        };
        flush.row = flush.insert(&row)?;
        Ok(flush)
    }

    /// Adds to a flush whose row is there, in a transaction that is begun.
    pub(crate) fn resume(
        writer: &'w mut Writer,
        row: i64,
        (started, ended): (i64, i64),
    ) -> Flush<'w> {
        Flush {
            writer,
            row,
            failed: false,
            committed: false,
            counters: BTreeMap::new(),
            stage: Stage::default(),
            started,
            ended,
            tau: 0.0,
            budget_before: None,
            used_before: 0,
        }
    }

    /// Adds interrupts at a PC: their number, and the sum of the sampled intervals in the
    /// epoch's unit. `caller` is the call site of the interrupted function.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn cycles(
        &mut self,
        process: ProcessRowId,
        subject: SubjectRowId,
        pc: PcRowId,
        caller: Option<PcRowId>,
        samples: u64,
        weight: u64,
    ) -> Result<(), Error> {
        self.check_all(process, subject, pc, caller)?;
        self.check_failed()?;
        let row = CyclesOf {
            process: process.row,
            address: pc.address,
            caller: place(caller),
            samples,
            weight,
        };
        self.stage.cycles.push((pc.image, subject.row, row));
        Ok(())
    }

    /// Makes room for so many value profiles that are about to be added.
    pub fn expect_hotlists(&mut self, count: usize) {
        self.stage.lists.reserve(count);
    }

    /// Adds a value profile.
    ///
    /// # Errors
    /// [`Error::Invalid`] for counts that contradict each other and estimates that no list can
    /// have; [`Error::StaleId`], and those of the database.
    pub fn hotlist(&mut self, row: NewHotlist<'_>) -> Result<(), Error> {
        self.check_all(row.process, row.subject, row.pc, row.caller)?;
        self.check_failed()?;
        check::check(&row)?;
        let parameter = self.parameter(row.parameter)?;
        let list = ListOf {
            process: row.process.row,
            address: row.pc.address,
            caller: place(row.caller),
            parameter,
            reached: row.reached,
            unknown: row.unknown,
            windows: row.windows,
            even: row.even,
            list: row.list,
        };
        self.stage.lists.push((row.pc.image, row.subject.row, list));
        Ok(())
    }

    /// The row of a parameter.
    fn parameter(&mut self, name: &str) -> Result<i64, Error> {
        if let Some(&row) = self.writer.caches.parameters.get(name) {
            return Ok(row);
        }
        let row = StoredParameter {
            name: name.to_owned(),
        };
        let row = self.put(&row)?;
        self.writer.caches.parameters.insert(name.to_owned(), row);
        Ok(row)
    }

    /// Adds directions of a conditional branch.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn branch(
        &mut self,
        process: ProcessRowId,
        subject: SubjectRowId,
        pc: PcRowId,
        directions: impl Into<Directions>,
    ) -> Result<(), Error> {
        self.check_all(process, subject, pc, None)?;
        self.check_failed()?;
        let row = BranchOf {
            process: process.row,
            address: pc.address,
            seen: directions.into(),
        };
        self.stage.branches.push((pc.image, subject.row, row));
        Ok(())
    }

    /// Adds calls that windows ran into; `callee` is the entry, where it is known.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn call(
        &mut self,
        process: ProcessRowId,
        subject: SubjectRowId,
        site: PcRowId,
        callee: Option<PcRowId>,
        calls: impl Into<Calls>,
    ) -> Result<(), Error> {
        self.check_all(process, subject, site, callee)?;
        self.check_failed()?;
        let row = CallOf {
            process: process.row,
            address: site.address,
            callee: place(callee),
            seen: calls.into(),
        };
        self.stage.calls.push((site.image, subject.row, row));
        Ok(())
    }

    /// Counts `n` more of something. Given several times in one flush, they add up.
    ///
    /// # Errors
    /// None today: counters are written by [`Flush::commit`].
    pub fn count(&mut self, what: impl Into<CounterKey>, n: u64) -> Result<(), Error> {
        let what = what.into();
        self.counter(what.group().name(), what.name(), n)
    }

    /// The same of what this version may not know: by the words of the table `counter`.
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
        self.write()?;
        self.run("COMMIT", |statement| statement.execute([]))?;
        self.committed = true;
        Ok(())
    }

    /// Writes what there is and leaves the transaction open.
    pub(crate) fn save(mut self) -> Result<(), Error> {
        self.write()?;
        self.committed = true;
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        self.write_stage()?;
        let flush = self.row;
        for ((kind, name), value) in std::mem::take(&mut self.counters) {
            self.add(&StoredCounter {
                flush,
                kind,
                name,
                value,
            })?;
        }
        self.spend()
    }

    /// Takes what the database has grown by off the budget: pages are not full, and have names,
    /// images and processes in them besides.
    fn spend(&mut self) -> Result<(), Error> {
        if self.writer.budget.is_none() {
            return Ok(());
        }
        let grown = self.used()?.saturating_sub(self.used_before);
        let seconds = self.seconds();
        if let Some(budget) = &mut self.writer.budget {
            budget.spent(seconds, grown);
        }
        Ok(())
    }

    /// Bytes of the pages of the database that are in use.
    fn used(&mut self) -> Result<u64, Error> {
        let sql = "SELECT (page_count - freelist_count) * page_size
                   FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        let used: i64 = self.run(sql, |statement| statement.query_row([], |row| row.get(0)))?;
        Ok(used.max(0).cast_unsigned())
    }

    /// The seconds that it stands for.
    fn seconds(&self) -> f64 {
        self.ended.saturating_sub(self.started).max(0) as f64 / 1e9
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
        process: ProcessRowId,
        subject: SubjectRowId,
        pc: PcRowId,
        other: Option<PcRowId>,
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

    /// As [`Flush::run`], of what needs no statement of its own.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        self.check_failed()?;
        let result = work(&self.writer.conn);
        self.note(result)
    }

    fn insert(&mut self, row: &impl Record) -> Result<i64, Error> {
        self.with(|conn| tables::insert(conn, row))
    }

    fn add(&mut self, row: &impl Record) -> Result<(), Error> {
        self.with(|conn| tables::add(conn, row))
    }

    fn put(&mut self, row: &impl Record) -> Result<i64, Error> {
        self.with(|conn| tables::put(conn, row))
    }

    fn merge(&mut self, row: &impl Record) -> Result<(), Error> {
        self.with(|conn| tables::merge(conn, row))
    }
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        // The caches hold ids of rows that are about to go.
        self.writer.caches = Caches::new();
        self.writer.budget = self.budget_before.take();
        if !self.writer.conn.is_autocommit() {
            // Should it fail, the next BEGIN fails and says why.
            let _ = self.writer.conn.execute_batch("ROLLBACK");
        }
    }
}

/// Image and address of an instruction.
fn place(pc: Option<PcRowId>) -> Option<(i64, u64)> {
    pc.map(|pc| (pc.image, pc.address))
}

#[cfg(test)]
mod tests;
