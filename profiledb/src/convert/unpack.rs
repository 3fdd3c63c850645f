//! A database written with a row for each count and value, to be asked with SQL.

use std::collections::HashMap;
use std::path::Path;

use hotlist::Estimates;
use rusqlite::{Connection, Row, params};

use super::{copy_all, finished};
use crate::chunk::{
    Bad, ChunkKind, ChunkPlace, CyclesOf, ListOf, decode_branches, decode_calls, decode_code,
    decode_cycles, decode_values,
};
use crate::tables::stored::{
    CHUNK, StoredBranch, StoredCall, StoredChunk, StoredCode, StoredCycles, StoredFlush,
    StoredHotlist, StoredParameter, StoredPc, StoredTuple,
};
use crate::tables::{self, Layout, Record};
use crate::writer::Writer;
use crate::{Calls, Directions, Error, open, to_sql};

/// Writes all that is in the database `from` to `to`, which does not exist yet, with a row for each
/// count and each value in the tables `cycles`, `hotlist`, `tuple`, `branch`, `call` and `pc`. It
/// is a database like others, many times larger. Counts of lists that others were left out for are
/// rounded to whole numbers.
///
/// # Errors
/// As those of [`convert`](super::convert).
pub fn unpack(from: &Path, to: &Path) -> Result<(), Error> {
    finished(from, to, write_all)
}

fn write_all(from: &Path, to: &Path) -> Result<(), Error> {
    let source = open::for_reading(from)?;
    let failed = |e| Error::sqlite(from, e);
    let writer = Writer::bare(to)?;
    writer.all_or_nothing()?;
    copy_all(from, &source, &writer, &[Layout::Every, Layout::Single])?;
    if tables::has(&source, &CHUNK).map_err(failed)? {
        Unpacking::new(from, &source, &writer)?.run()?;
    }
    writer.commit()?;
    writer.close()
}

/// Chunks on their way into rows.
struct Unpacking<'a> {
    from: &'a Path,
    source: &'a Connection,
    writer: &'a Writer,
    parameters: HashMap<i64, String>,
    pcs: HashMap<(i64, u64), i64>,
    last_pc: i64,
    last_list: i64,
}

/// Where the rows of a chunk belong.
struct ChunkIds {
    id: i64,
    flush: i64,
    image: i64,
    subject: i64,
    place: ChunkPlace,
}

impl<'a> Unpacking<'a> {
    fn new(from: &'a Path, source: &'a Connection, writer: &'a Writer) -> Result<Self, Error> {
        let mut unpacking = Self {
            from,
            source,
            writer,
            parameters: HashMap::new(),
            pcs: HashMap::new(),
            last_pc: 0,
            last_list: 0,
        };
        unpacking.rows("", |to, id, row: StoredParameter| {
            to.parameters.insert(id, row.name);
            Ok(())
        })?;
        unpacking.rows("", |to, id, row: StoredPc| {
            to.pcs.insert((row.image, row.address), id);
            to.last_pc = to.last_pc.max(id);
            Ok(())
        })?;
        unpacking.each("SELECT coalesce(max(id), 0) FROM hotlist", |to, row| {
            to.last_list = row.get(0).map_err(|e| Error::sqlite(to.from, e))?;
            Ok(())
        })?;
        Ok(unpacking)
    }

    fn run(mut self) -> Result<(), Error> {
        let mut times = HashMap::new();
        self.rows("", |_, id, flush: StoredFlush| {
            times.insert(id, (flush.started, flush.ended));
            Ok(())
        })?;
        self.rows("ORDER BY id", |to, id, row: StoredChunk<Vec<u8>>| {
            let bad = |bad| bad_chunk(to.from, id, bad);
            let Some(&time) = times.get(&row.flush) else {
                return Err(bad(Bad("refers to a flush that is missing")));
            };
            let kind = ChunkKind::of(row.kind).ok_or_else(|| bad(Bad("is of no known kind")))?;
            let chunk = ChunkIds {
                id,
                flush: row.flush,
                image: row.image,
                subject: row.subject,
                place: ChunkPlace {
                    bucket: row.bucket,
                    time,
                },
            };
            to.chunk(&chunk, kind, row.data)
        })?;
        self.rows("ORDER BY id", |to, id, row: StoredCode<Vec<u8>>| {
            let image = row.image;
            let rows = decode_code(row.bucket, &row.data)
                .map_err(|bad| Error::corrupt(to.from, format!("code {id}: {bad}")))?;
            for (address, bytes) in rows {
                let sql = "UPDATE pc SET bytes = ?1 WHERE image = ?2 AND address = ?3
                           AND bytes IS NULL";
                to.execute(sql, params![bytes, image, to_sql(address)])?;
            }
            Ok(())
        })
    }

    fn chunk(&mut self, chunk: &ChunkIds, kind: ChunkKind, data: Vec<u8>) -> Result<(), Error> {
        let place = chunk.place;
        match kind {
            // A call stack is no row of these tables: it stays packed.
            ChunkKind::Stacks => {
                self.insert(&StoredChunk {
                    flush: chunk.flush,
                    kind: kind.number(),
                    image: chunk.image,
                    bucket: place.bucket,
                    subject: chunk.subject,
                    data,
                })?;
            }
            ChunkKind::Cycles => {
                for row in decode_cycles(place, &data).map_err(|bad| self.bad(chunk, bad))? {
                    self.cycles(chunk, &row)?;
                }
            }
            ChunkKind::Values | ChunkKind::Keyed => {
                let values = decode_values(place, kind == ChunkKind::Keyed, &data);
                let values = values.map_err(|bad| self.bad(chunk, bad))?;
                for mut row in values.rows {
                    row.weigh(values.tau);
                    self.list(chunk, &row)?;
                }
            }
            ChunkKind::Branches => {
                for row in decode_branches(place, &data).map_err(|bad| self.bad(chunk, bad))? {
                    let pc = self.pc((chunk.image, row.address))?;
                    let Directions {
                        taken,
                        not_taken,
                        unknown,
                        weights: [w_taken, w_not_taken, w_unknown],
                        squares,
                    } = row.seen;
                    self.add(&StoredBranch {
                        flush: chunk.flush,
                        process: row.process,
                        subject: chunk.subject,
                        pc,
                        taken,
                        not_taken,
                        unknown,
                        taken_weight: Some(w_taken),
                        not_taken_weight: Some(w_not_taken),
                        unknown_weight: Some(w_unknown),
                        squares,
                    })?;
                }
            }
            ChunkKind::Calls => {
                for row in decode_calls(place, &data).map_err(|bad| self.bad(chunk, bad))? {
                    let site = self.pc((chunk.image, row.address))?;
                    let callee = row.callee.map(|callee| self.pc(callee)).transpose()?;
                    let Calls {
                        times,
                        weight,
                        squares,
                    } = row.seen;
                    self.add(&StoredCall {
                        flush: chunk.flush,
                        process: row.process,
                        subject: chunk.subject,
                        site,
                        callee,
                        calls: times,
                        weight: Some(weight),
                        squares,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn cycles(&mut self, chunk: &ChunkIds, row: &CyclesOf) -> Result<(), Error> {
        let pc = self.pc((chunk.image, row.address))?;
        let caller = row.caller.map(|caller| self.pc(caller)).transpose()?;
        self.add(&StoredCycles {
            flush: chunk.flush,
            process: row.process,
            subject: chunk.subject,
            pc,
            caller,
            samples: row.samples,
            weight: row.weight,
        })
    }

    fn list(&mut self, chunk: &ChunkIds, row: &ListOf) -> Result<(), Error> {
        let Estimates {
            threshold,
            pairs,
            tuples,
            ..
        } = &row.list;
        let pc = self.pc((chunk.image, row.address))?;
        let caller = row.caller.map(|caller| self.pc(caller)).transpose()?;
        let Some(parameter) = self.parameters.get(&row.parameter).cloned() else {
            let detail = format!(
                "a row refers to parameter {}, which is missing",
                row.parameter
            );
            return Err(Error::corrupt(self.from, detail));
        };
        self.last_list += 1;
        let id = self.last_list;
        let p = 1.0 / threshold;
        let [reached, unknown] = [row.reached, row.unknown].map(|n| n.round() as u64);
        // A list of one place is none.
        let capacity = u32::try_from(tuples.len().max(16)).unwrap_or(u32::MAX);
        let [within, across] = [pairs.map(|pairs| pairs.0), pairs.map(|pairs| pairs.1)];
        let [within, across] = [within, across].map(|sum| sum.map(|sum| sum.round() as u64));
        let list = StoredHotlist {
            flush: chunk.flush,
            process: row.process,
            subject: chunk.subject,
            pc,
            caller,
            parameter,
            reached,
            unknown,
            windows: row.windows,
            capacity,
            by_weight: true,
            p,
            concise: false,
            sat_count: 0,
            pairs_within: within,
            pairs_across: across,
            even: row.even,
        };
        let inserted = tables::insert_as(&self.writer.conn, Some(id), &list);
        inserted.map_err(|e| Error::sqlite(&self.writer.path, e))?;
        for (rank, tuple) in (0_i64..).zip(tuples) {
            // One event that stands for 1/p, and the rest for itself.
            let certain = (tuple.estimate - threshold).max(0.0).round() as u64;
            let variance = (*threshold > 1.0).then_some(tuple.variance);
            self.add(&StoredTuple {
                hotlist: id,
                rank,
                value: tuple.value,
                counted: 1,
                certain,
                first: tuple.first,
                pairs_within: Some(tuple.pairs.0.round() as u64),
                pairs_across: Some(tuple.pairs.1.round() as u64),
                variance,
            })?;
        }
        Ok(())
    }

    fn pc(&mut self, at: (i64, u64)) -> Result<i64, Error> {
        if let Some(&id) = self.pcs.get(&at) {
            return Ok(id);
        }
        self.last_pc += 1;
        let id = self.last_pc;
        let pc = StoredPc {
            image: at.0,
            address: at.1,
            bytes: None,
        };
        let inserted = tables::insert_as(&self.writer.conn, Some(id), &pc);
        inserted.map_err(|e| Error::sqlite(&self.writer.path, e))?;
        self.pcs.insert(at, id);
        Ok(id)
    }

    fn insert(&self, row: &impl Record) -> Result<(), Error> {
        let inserted = tables::insert(&self.writer.conn, row).map(drop);
        inserted.map_err(|e| Error::sqlite(&self.writer.path, e))
    }

    fn add(&self, row: &impl Record) -> Result<(), Error> {
        let added = tables::add(&self.writer.conn, row);
        added.map_err(|e| Error::sqlite(&self.writer.path, e))
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), Error> {
        self.writer
            .conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(values))
            .map(drop)
            .map_err(|e| Error::sqlite(&self.writer.path, e))
    }

    fn each(
        &mut self,
        sql: &str,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (source, from) = (self.source, self.from);
        let failed = |e| Error::sqlite(from, e);
        let mut statement = source.prepare(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(self, row)?;
        }
        Ok(())
    }

    /// Gives the rows of a table of the source with their ids to `take`; `more` stands behind the
    /// table in the statement.
    fn rows<R: Record>(
        &mut self,
        more: &str,
        mut take: impl FnMut(&mut Self, i64, R) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |e| Error::sqlite(self.from, e);
        let version = tables::version(self.source).map_err(failed)?;
        let sql = format!("{} NOT INDEXED {more}", R::TABLE.select(version));
        self.each(&sql, |to, row| {
            let read = tables::read(row);
            let (id, row) = read.map_err(|e| Error::sqlite(to.from, e))?;
            take(to, id, row)
        })
    }

    fn bad(&self, chunk: &ChunkIds, bad: Bad) -> Error {
        bad_chunk(self.from, chunk.id, bad)
    }
}

fn bad_chunk(path: &Path, id: i64, bad: Bad) -> Error {
    Error::corrupt(path, format!("chunk {id}: {bad}"))
}
