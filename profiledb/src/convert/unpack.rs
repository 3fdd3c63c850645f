//! A database written with a row for each count and value, to be asked with SQL.

use std::collections::HashMap;
use std::path::Path;

use hotlist::Estimates;
use rusqlite::{Connection, Row, params};

use super::{KEPT, copy, finished};
use crate::chunk::{
    Bad, CyclesOf, Kind, ListOf, Place, decode_branches, decode_calls, decode_code, decode_cycles,
    decode_values,
};
use crate::writer::Writer;
use crate::{Calls, Directions, Error, from_sql, open, to_sql};

/// Tables of rows that lie one by one, with the columns that the oldest schema has, and those that
/// later ones added.
const SINGLE: [(&str, &str, &str); 6] = [
    ("pc", "id, image, address, bytes", ""),
    (
        "cycles",
        "flush, process, subject, pc, caller, samples, weight",
        "",
    ),
    (
        "hotlist",
        "id, flush, process, subject, pc, caller, parameter, reached, unknown, windows, capacity, \
         by_weight, p, concise, sat_count",
        ", pairs_within, pairs_across, even",
    ),
    (
        "tuple",
        "hotlist, rank, value, counted, certain, first",
        ", pairs_within, pairs_across, variance",
    ),
    (
        "branch",
        "flush, process, subject, pc, taken, not_taken, unknown",
        ", taken_weight, not_taken_weight, unknown_weight, squares",
    ),
    (
        "call",
        "flush, process, subject, site, callee, calls",
        ", weight, squares",
    ),
];

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
    let has_chunks = open::has_chunks(&source).map_err(failed)?;
    let has_weights = open::has_weights(&source).map_err(failed)?;
    let has_variance = open::has_variance(&source).map_err(failed)?;
    let writer = Writer::bare(to)?;
    writer.all_or_nothing()?;
    for (table, columns, more) in KEPT {
        let more = if has_chunks { more } else { "" };
        copy(from, &source, &writer, table, &format!("{columns}{more}"))?;
    }
    for (table, columns, more) in SINGLE {
        let is_there = match table {
            "branch" | "call" => has_weights,
            _ => has_variance,
        };
        let more = if is_there { more } else { "" };
        copy(from, &source, &writer, table, &format!("{columns}{more}"))?;
    }
    if has_chunks {
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
struct Chunk {
    id: i64,
    flush: i64,
    image: i64,
    subject: i64,
    place: Place,
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
        unpacking.each("SELECT id, name FROM parameter NOT INDEXED", |to, row| {
            to.parameters.insert(to.get(row, 0)?, to.get(row, 1)?);
            Ok(())
        })?;
        unpacking.each(
            "SELECT id, image, address FROM pc NOT INDEXED",
            |to, row| {
                let id: i64 = to.get(row, 0)?;
                let address: i64 = to.get(row, 2)?;
                to.pcs.insert((to.get(row, 1)?, from_sql(address)), id);
                to.last_pc = to.last_pc.max(id);
                Ok(())
            },
        )?;
        unpacking.each("SELECT coalesce(max(id), 0) FROM hotlist", |to, row| {
            to.last_list = to.get(row, 0)?;
            Ok(())
        })?;
        Ok(unpacking)
    }

    fn run(mut self) -> Result<(), Error> {
        let sql = "SELECT chunk.id, flush, kind, image, bucket, subject, data, started, ended
                   FROM chunk NOT INDEXED JOIN flush ON flush.id = chunk.flush ORDER BY chunk.id";
        self.each(sql, |to, row| {
            let bucket: i64 = to.get(row, 4)?;
            let chunk = Chunk {
                id: to.get(row, 0)?,
                flush: to.get(row, 1)?,
                image: to.get(row, 3)?,
                subject: to.get(row, 5)?,
                place: Place {
                    bucket: from_sql(bucket),
                    time: (to.get(row, 7)?, to.get(row, 8)?),
                },
            };
            let kind = Kind::of(to.get(row, 2)?);
            let kind = kind.ok_or_else(|| to.bad(&chunk, Bad("is of no known kind")))?;
            let data: Vec<u8> = to.get(row, 6)?;
            to.chunk(&chunk, kind, &data)
        })?;
        let sql = "SELECT id, image, bucket, data FROM code NOT INDEXED ORDER BY id";
        self.each(sql, |to, row| {
            let (id, image): (i64, i64) = (to.get(row, 0)?, to.get(row, 1)?);
            let bucket: i64 = to.get(row, 2)?;
            let data: Vec<u8> = to.get(row, 3)?;
            let rows = decode_code(from_sql(bucket), &data)
                .map_err(|bad| Error::corrupt(to.from, format!("code {id}: {bad}")))?;
            for (address, bytes) in rows {
                let sql = "UPDATE pc SET bytes = ?1 WHERE image = ?2 AND address = ?3
                           AND bytes IS NULL";
                to.insert(sql, params![bytes, image, to_sql(address)])?;
            }
            Ok(())
        })
    }

    fn chunk(&mut self, chunk: &Chunk, kind: Kind, data: &[u8]) -> Result<(), Error> {
        let place = chunk.place;
        match kind {
            // A call stack is no row of these tables: it stays packed.
            Kind::Stacks => {
                let sql = "INSERT INTO chunk (flush, kind, image, bucket, subject, data)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
                let bucket = to_sql(place.bucket);
                let (flush, subject) = (chunk.flush, chunk.subject);
                let row = params![flush, kind.number(), chunk.image, bucket, subject, data];
                self.insert(sql, row)?;
            }
            Kind::Cycles => {
                for row in decode_cycles(place, data).map_err(|bad| self.bad(chunk, bad))? {
                    self.cycles(chunk, &row)?;
                }
            }
            Kind::Values | Kind::Keyed => {
                let values = decode_values(place, kind == Kind::Keyed, data);
                let values = values.map_err(|bad| self.bad(chunk, bad))?;
                for mut row in values.rows {
                    row.weigh(values.tau);
                    self.list(chunk, &row)?;
                }
            }
            Kind::Branches => {
                for row in decode_branches(place, data).map_err(|bad| self.bad(chunk, bad))? {
                    let pc = self.pc((chunk.image, row.address))?;
                    let Directions {
                        taken,
                        not_taken,
                        unknown,
                        weights: [w_taken, w_not_taken, w_unknown],
                        squares,
                    } = row.seen;
                    let [taken, not_taken, unknown] = [taken, not_taken, unknown].map(to_sql);
                    self.insert(
                        "INSERT INTO branch (flush, process, subject, pc, taken, not_taken,
                                             unknown, taken_weight, not_taken_weight,
                                             unknown_weight, squares)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                        params![
                            chunk.flush,
                            row.process,
                            chunk.subject,
                            pc,
                            taken,
                            not_taken,
                            unknown,
                            w_taken,
                            w_not_taken,
                            w_unknown,
                            squares,
                        ],
                    )?;
                }
            }
            Kind::Calls => {
                for row in decode_calls(place, data).map_err(|bad| self.bad(chunk, bad))? {
                    let site = self.pc((chunk.image, row.address))?;
                    let callee = row.callee.map(|callee| self.pc(callee)).transpose()?;
                    let Calls {
                        times,
                        weight,
                        squares,
                    } = row.seen;
                    self.insert(
                        "INSERT INTO call (flush, process, subject, site, callee, calls, weight,
                                           squares)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                        params![
                            chunk.flush,
                            row.process,
                            chunk.subject,
                            site,
                            callee,
                            to_sql(times),
                            weight,
                            squares,
                        ],
                    )?;
                }
            }
        }
        Ok(())
    }

    fn cycles(&mut self, chunk: &Chunk, row: &CyclesOf) -> Result<(), Error> {
        let pc = self.pc((chunk.image, row.address))?;
        let caller = row.caller.map(|caller| self.pc(caller)).transpose()?;
        let (samples, weight) = (to_sql(row.samples), to_sql(row.weight));
        self.insert(
            "INSERT INTO cycles (flush, process, subject, pc, caller, samples, weight)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                chunk.flush,
                row.process,
                chunk.subject,
                pc,
                caller,
                samples,
                weight
            ],
        )
    }

    fn list(&mut self, chunk: &Chunk, row: &ListOf) -> Result<(), Error> {
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
        let [reached, unknown] = [row.reached, row.unknown].map(|n| n.round() as i64);
        // A list of one place is none.
        let capacity = tuples.len().max(16) as i64;
        let [within, across] = [pairs.map(|pairs| pairs.0), pairs.map(|pairs| pairs.1)];
        let [within, across] = [within, across].map(|sum| sum.map(|sum| sum.round() as i64));
        self.insert(
            "INSERT INTO hotlist (id, flush, process, subject, pc, caller, parameter, reached,
                                  unknown, windows, capacity, by_weight, p, concise, sat_count,
                                  pairs_within, pairs_across, even)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1, ?12, 0, 0, ?13, ?14, ?15)",
            params![
                id,
                chunk.flush,
                row.process,
                chunk.subject,
                pc,
                caller,
                parameter,
                reached,
                unknown,
                to_sql(row.windows),
                capacity,
                p,
                within,
                across,
                row.even,
            ],
        )?;
        for (rank, tuple) in (0_i64..).zip(tuples) {
            // One event that stands for 1/p, and the rest for itself.
            let certain = (tuple.estimate - threshold).max(0.0).round() as i64;
            let variance = (*threshold > 1.0).then_some(tuple.variance);
            self.insert(
                "INSERT INTO tuple (hotlist, rank, value, counted, certain, first, pairs_within,
                                    pairs_across, variance)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8)",
                params![
                    id,
                    rank,
                    to_sql(tuple.value),
                    certain,
                    to_sql(tuple.first),
                    tuple.pairs.0.round() as i64,
                    tuple.pairs.1.round() as i64,
                    variance,
                ],
            )?;
        }
        Ok(())
    }

    fn pc(&mut self, at: (i64, u64)) -> Result<i64, Error> {
        if let Some(&id) = self.pcs.get(&at) {
            return Ok(id);
        }
        self.last_pc += 1;
        let id = self.last_pc;
        self.insert(
            "INSERT INTO pc (id, image, address) VALUES (?1, ?2, ?3)",
            params![id, at.0, to_sql(at.1)],
        )?;
        self.pcs.insert(at, id);
        Ok(id)
    }

    fn insert(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), Error> {
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

    fn get<T: rusqlite::types::FromSql>(&self, row: &Row<'_>, column: usize) -> Result<T, Error> {
        row.get(column).map_err(|e| Error::sqlite(self.from, e))
    }

    fn bad(&self, chunk: &Chunk, bad: Bad) -> Error {
        Error::corrupt(self.from, format!("chunk {}: {bad}", chunk.id))
    }
}
