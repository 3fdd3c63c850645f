//! Flushes: transactions that are saved whole or not at all.

use std::collections::BTreeMap;

use hotlist::{Eviction, Parts, PartsTuple};
use rusqlite::{CachedStatement, OptionalExtension, params};

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
        };
        // It is read anew whenever somebody else has written to the file.
        open::check_version(&flush.writer.path, &flush.writer.conn)?;
        flush.row = flush.insert(
            "INSERT INTO flush (epoch, started, ended) VALUES (?1, ?2, ?3)",
            params![epoch, started, ended],
        )?;
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
            None => self.find_pc(image.row, address)?,
        };
        let row = match known {
            Some(KnownPc { row, has_bytes }) => {
                if bytes.is_some() && !has_bytes {
                    self.execute(
                        "UPDATE pc SET bytes = ?1 WHERE id = ?2",
                        params![bytes, row],
                    )?;
                }
                row
            }
            None => self.insert(
                "INSERT INTO pc (image, address, bytes) VALUES (?1, ?2, ?3)",
                params![image.row, to_sql(address), bytes],
            )?,
        };
        let has_bytes = bytes.is_some() || known.is_some_and(|known| known.has_bytes);
        self.writer.caches.pcs.put(key, KnownPc { row, has_bytes });
        Ok(PcId { generation, row })
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
        let flush = self.row;
        self.execute(
            "INSERT INTO cycles (flush, process, subject, pc, caller, samples, weight)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                flush,
                process.row,
                subject.row,
                pc.row,
                caller.map(|caller| caller.row),
                to_sql(samples),
                to_sql(weight),
            ],
        )
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
        let flush = self.row;
        let parts = &row.parts;
        let hotlist = self.insert(
            "INSERT INTO hotlist (flush, process, subject, pc, caller, parameter, reached,
                                  unknown, windows, capacity, by_weight, p, concise, sat_count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            params![
                flush,
                row.process.row,
                row.subject.row,
                row.pc.row,
                row.caller.map(|caller| caller.row),
                row.parameter,
                to_sql(row.reached),
                to_sql(row.unknown),
                to_sql(row.windows),
                // At most `Config::MAX_CAPACITY`.
                parts.config.capacity() as i64,
                parts.config.evictions() == Eviction::ByWeight,
                parts.p,
                parts.concise,
                parts.sat_count,
            ],
        )?;
        // Most rows of a profile are these: the statement is looked up once for all of a list.
        self.run(
            "INSERT INTO tuple (hotlist, rank, value, counted, certain, first)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            |statement| {
                for (rank, tuple) in (0_i64..).zip(&parts.tuples) {
                    let &PartsTuple {
                        value,
                        counted,
                        certain,
                        first,
                    } = tuple;
                    let [value, counted, certain, first] =
                        [value, counted, certain, first].map(to_sql);
                    statement.execute(params![hotlist, rank, value, counted, certain, first])?;
                }
                Ok(())
            },
        )
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
        let flush = self.row;
        self.execute(
            "INSERT INTO branch (flush, process, subject, pc, taken, not_taken, unknown)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                flush,
                process.row,
                subject.row,
                pc.row,
                to_sql(taken),
                to_sql(not_taken),
                to_sql(unknown),
            ],
        )
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
        let flush = self.row;
        self.execute(
            "INSERT INTO call (flush, process, subject, site, callee, calls)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                flush,
                process.row,
                subject.row,
                site.row,
                callee.map(|callee| callee.row),
                to_sql(calls),
            ],
        )
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
        if self.failed {
            return Err(Error::FlushFailed {
                path: self.writer.path.clone(),
            });
        }
        let result = self
            .writer
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| work(&mut statement));
        result.map_err(|e| {
            self.failed = true;
            Error::sqlite(&self.writer.path, e)
        })
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
