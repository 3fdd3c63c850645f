//! Flushes: transactions that are saved whole or not at all.

mod bulk;

use std::collections::BTreeMap;

use hotlist::{Eviction, Parts, PartsTuple};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, OptionalExtension, params};

use self::bulk::Bulk;

use crate::intern::{Caches, Generation, KnownPc};
use crate::rows::{Image, ImageKind, Process, Subject};
use crate::writer::{ImageId, PcId, ProcessId, SubjectId, Writer};
use crate::{Error, MAX_INSTRUCTION, lists, open, to_sql};

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
    branches: Bulk<7>,
    calls: Bulk<6>,
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
                ],
            ),
            calls: Bulk::new(
                "call",
                ["flush", "process", "subject", "site", "callee", "calls"],
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

    /// The id of an image, known by kind, identity and path.
    ///
    /// # Errors
    /// Those of the database.
    pub fn image(&mut self, image: &Image) -> Result<ImageId, Error> {
        if let Some(row) = self.writer.caches.images.get(image) {
            return Ok(ImageId {
                generation: self.generation(),
                row,
            });
        }
        let kind = kind_name(image.kind);
        let found = self.select(
            "SELECT id FROM image WHERE kind = ?1 AND identity = ?2 AND path = ?3",
            params![kind, image.identity, image.path],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO image (kind, path, build_id, identity) VALUES (?1, ?2, ?3, ?4)",
                params![kind, image.path, image.build_id, image.identity],
            )?,
        };
        self.writer.caches.images.put(image.clone(), row);
        Ok(ImageId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of an access tag.
    ///
    /// # Errors
    /// Those of the database.
    pub fn subject(&mut self, subject: &Subject) -> Result<SubjectId, Error> {
        if let Some(row) = self.writer.caches.subjects.get(subject) {
            return Ok(SubjectId {
                generation: self.generation(),
                row,
            });
        }
        let Subject {
            uid,
            gid,
            euid,
            egid,
            suid,
            dumpable,
            capable,
            kernel,
        } = *subject;
        let found = self.select(
            "SELECT id FROM subject
             WHERE uid IS ?1 AND gid IS ?2 AND euid IS ?3 AND egid IS ?4 AND suid IS ?5
                   AND dumpable IS ?6 AND capable IS ?7 AND kernel = ?8",
            params![uid, gid, euid, egid, suid, dumpable, capable, kernel],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO subject (uid, gid, euid, egid, suid, dumpable, capable, kernel)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![uid, gid, euid, egid, suid, dumpable, capable, kernel],
            )?,
        };
        self.writer.caches.subjects.put(*subject, row);
        Ok(SubjectId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of a process, known by pid, start and execs; its first name stays.
    ///
    /// # Errors
    /// Those of the database.
    pub fn process(&mut self, process: &Process) -> Result<ProcessId, Error> {
        let key = (process.pid, process.started, process.execs);
        if let Some(row) = self.writer.caches.processes.get(&key) {
            return Ok(ProcessId {
                generation: self.generation(),
                row,
            });
        }
        let epoch = self.writer.epoch;
        let started = to_sql(process.started);
        let found = self.select(
            "SELECT id FROM process
             WHERE epoch = ?1 AND pid = ?2 AND started = ?3 AND execs = ?4",
            params![epoch, process.pid, started, process.execs],
        )?;
        let row = match found {
            Some(row) => row,
            None => self.insert(
                "INSERT INTO process (epoch, pid, started, execs, comm)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
                params![epoch, process.pid, started, process.execs, process.comm],
            )?,
        };
        self.writer.caches.processes.put(key, row);
        Ok(ProcessId {
            generation: self.generation(),
            row,
        })
    }

    /// The id of the instruction at `address` of an image, with its encoding where it was
    /// read. The first encoding that is given stays.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an encoding of no or more than 15 bytes, [`Error::StaleId`],
    /// and those of the database.
    pub fn pc(
        &mut self,
        image: ImageId,
        address: u64,
        bytes: Option<&[u8]>,
    ) -> Result<PcId, Error> {
        self.check(image.generation)?;
        if let Some(bytes) = bytes
            && !(1..=MAX_INSTRUCTION).contains(&bytes.len())
        {
            return Err(Error::Invalid {
                what: format!("an instruction of {} bytes", bytes.len()),
            });
        }
        let generation = image.generation;
        let key = (image.row, address);
        let known = match self.writer.caches.pcs.get(&key) {
            Some(known) => Some(known),
            None => self.find_pc(image.row, address)?.inspect(|found| {
                self.writer.caches.pcs.put(key, *found);
            }),
        };
        if let Some(KnownPc { row, has_bytes }) = known
            && (has_bytes || bytes.is_none())
        {
            return Ok(PcId { generation, row });
        }
        let row = match known {
            Some(KnownPc { row, .. }) => {
                self.execute(
                    "UPDATE pc SET bytes = ?1 WHERE id = ?2",
                    params![bytes, row],
                )?;
                row
            }
            None => self.insert(
                "INSERT INTO pc (image, address, bytes) VALUES (?1, ?2, ?3)",
                params![image.row, to_sql(address), bytes],
            )?,
        };
        let has_bytes = bytes.is_some();
        self.writer.caches.pcs.put(key, KnownPc { row, has_bytes });
        Ok(PcId { generation, row })
    }

    /// Whether an instruction is one that no flush before this one had.
    pub fn is_new(&self, pc: PcId) -> bool {
        pc.row > self.last_pc_before
    }

    fn find_pc(&mut self, image: i64, address: u64) -> Result<Option<KnownPc>, Error> {
        self.run(
            "SELECT id, bytes IS NOT NULL FROM pc WHERE image = ?1 AND address = ?2",
            |statement| {
                statement
                    .query_row(params![image, to_sql(address)], |row| {
                        Ok(KnownPc {
                            row: row.get(0)?,
                            has_bytes: row.get(1)?,
                        })
                    })
                    .optional()
            },
        )
    }

    /// Names the function at `address`; `size` is 0 where it is not known. The first name
    /// of an address stays.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn symbol(
        &mut self,
        image: ImageId,
        address: u64,
        size: u64,
        name: &str,
    ) -> Result<(), Error> {
        self.check(image.generation)?;
        self.execute(
            "INSERT INTO symbol (image, address, size, name) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
            params![image.row, to_sql(address), to_sql(size), name],
        )
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

    /// Adds directions of a conditional branch: how often windows saw it taken, not taken,
    /// and going where they could not tell.
    ///
    /// # Errors
    /// [`Error::StaleId`], and those of the database.
    pub fn branch(
        &mut self,
        process: ProcessId,
        subject: SubjectId,
        pc: PcId,
        taken: u64,
        not_taken: u64,
        unknown: u64,
    ) -> Result<(), Error> {
        self.check_all(process, subject, pc, None)?;
        let row = [
            self.row,
            process.row,
            subject.row,
            pc.row,
            to_sql(taken),
            to_sql(not_taken),
            to_sql(unknown),
        ];
        self.add(|bulks| &mut bulks.branches, row.map(Value::Integer))
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
        calls: u64,
    ) -> Result<(), Error> {
        self.check_all(process, subject, site, callee)?;
        let row = [
            Value::Integer(self.row),
            Value::Integer(process.row),
            Value::Integer(subject.row),
            Value::Integer(site.row),
            callee.map(|callee| callee.row).into(),
            Value::Integer(to_sql(calls)),
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

fn kind_name(kind: ImageKind) -> &'static str {
    match kind {
        ImageKind::File => "file",
        ImageKind::Vdso => "vdso",
        ImageKind::Kernel => "kernel",
        ImageKind::Anon => "anon",
    }
}

#[cfg(test)]
mod tests;
