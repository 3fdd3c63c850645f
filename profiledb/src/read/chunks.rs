//! Chunks: rows that lie many in a blob, and the encodings of their instructions.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Row;

use super::builder::push;
use super::file::File;
use super::referred::{EpochOfFile, FlushOfFile, Known, Referred};
use crate::Error;
use crate::chunk::{
    Bad, Kind, Place, decode_branches, decode_calls, decode_code, decode_cycles, decode_some_values,
};
use crate::places::is_in;
use crate::profile::{BranchRow, CallRow, CyclesRow, HotlistRow};
use crate::rows::ImageKind;

/// Bytes of memory that a row takes, about, without its values.
pub(super) const ROW: usize = 160;
/// And a value.
const VALUE: usize = 56;

/// Where the rows of a chunk belong.
pub(super) struct Chunk {
    pub(super) id: i64,
    pub(super) image: i64,
    subject: i64,
    epoch: i64,
    pub(super) cycles_per_unit: f64,
    place: Place,
    /// The last instruction looked up, and its index.
    last: Option<((i64, u64), usize)>,
    /// The addresses of its image that are asked for; `None`: all.
    ranges: Option<Vec<(u64, u64)>>,
    /// Lists of parameters that are not asked for are left out.
    narrowed: bool,
}

/// A parameter of a file.
struct Parameter {
    name: Arc<str>,
    /// Whether it is asked for.
    wanted: bool,
}

impl Chunk {
    fn wants(&self, address: u64) -> bool {
        self.ranges
            .as_ref()
            .is_none_or(|ranges| is_in(ranges, address))
    }
}

impl File<'_> {
    pub(super) fn read_chunks(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.builder.packed = true;
        let parameters = self.read_parameters()?;
        if let Some(ids) = self.asked_chunks(referred)? {
            return self.read_chunks_of(&ids, |file, row| {
                file.take_chunk(referred, row, &parameters)
            });
        }
        let sql = "SELECT id, flush, kind, image, bucket, subject, data
                   FROM chunk NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| file.take_chunk(referred, row, &parameters))
    }

    /// Reads a row of the table, if the filter lets it through.
    fn take_chunk(
        &mut self,
        referred: &mut Referred,
        row: &Row<'_>,
        parameters: &HashMap<i64, Parameter>,
    ) -> Result<(), Error> {
        let id: i64 = self.get(row, 0)?;
        let number: i64 = self.get(row, 2)?;
        let Some(kind) = Kind::of(number) else {
            return Err(self.bad_chunk(id, Bad("is of no known kind")));
        };
        let flush: i64 = self.get(row, 1)?;
        let image: i64 = self.get(row, 3)?;
        let bucket = self.word(row, 4)?;
        let subject: i64 = self.get(row, 5)?;
        let Some(&FlushOfFile {
            epoch,
            started,
            ended,
            taken,
        }) = referred.flushes.get(&flush)
        else {
            return Err(self.dangling("flush", flush));
        };
        let Some(&EpochOfFile {
            cycles_per_unit, ..
        }) = referred.epochs.get(&epoch)
        else {
            return Err(self.dangling("epoch", epoch));
        };
        let Some(known_image) = referred.images.get(&image) else {
            return Err(self.dangling("image", image));
        };
        let Some(known_subject) = referred.subjects.get(&subject) else {
            return Err(self.dangling("subject", subject));
        };
        let kinds = self.kinds;
        let is_asked = match kind {
            Kind::Cycles => kinds.cycles,
            Kind::Values | Kind::Keyed => kinds.values,
            Kind::Branches => kinds.branches,
            Kind::Calls => kinds.calls,
            Kind::Stacks => kinds.stacks,
        };
        let is_wanted = taken
            && is_asked
            && self.filter.takes_subject(&known_subject.row)
            && self.filter.takes_image(&known_image.row);
        if !is_wanted {
            return Ok(());
        }
        let data = row.get_ref(6).and_then(|data| Ok(data.as_blob()?));
        let data = data.map_err(|e| Error::sqlite(self.path, e))?;
        self.charge(data.len() as u64)?;
        let chunk = Chunk {
            id,
            image,
            subject,
            epoch,
            cycles_per_unit,
            place: Place {
                bucket,
                time: (started, ended),
            },
            last: None,
            // Of others the code of all rows tells whether a file is what was profiled.
            narrowed: known_image.row.kind != ImageKind::File || known_image.row.has_known_file(),
            ranges: self
                .filter
                .places
                .as_ref()
                .map(|places| places.of(&known_image.row).to_vec()),
        };
        self.read_chunk(referred, chunk, kind, data, parameters)
    }

    fn read_parameters(&mut self) -> Result<HashMap<i64, Parameter>, Error> {
        let mut parameters = HashMap::new();
        self.each("SELECT id, name FROM parameter NOT INDEXED", |file, row| {
            let name = file.text(row, 1)?;
            let wanted = file.filter.takes_parameter(&name);
            let name = file.builder.parameter(&name);
            parameters.insert(file.get(row, 0)?, Parameter { name, wanted });
            Ok(())
        })?;
        Ok(parameters)
    }

    fn read_chunk(
        &mut self,
        referred: &mut Referred,
        mut chunk: Chunk,
        kind: Kind,
        data: &[u8],
        parameters: &HashMap<i64, Parameter>,
    ) -> Result<(), Error> {
        let place = chunk.place;
        let bad = |file: &Self, bad| file.bad_chunk(chunk.id, bad);
        match kind {
            Kind::Cycles => {
                let rows = decode_cycles(place, data).map_err(|e| bad(self, e))?;
                self.charge_unpacked(rows.len() * ROW)?;
                for row in rows {
                    let at = (row.process, row.address, row.caller);
                    let cycles = row.weight as f64 * chunk.cycles_per_unit;
                    if !self.takes(referred, &chunk, row.process)? {
                        continue;
                    }
                    let image = self.packed_image(referred, chunk.image)?;
                    self.builder.add_total(image, row.samples, cycles);
                    if !chunk.wants(row.address) {
                        continue;
                    }
                    if let Some((process, subject, pc, caller)) =
                        self.at(referred, &mut chunk, at)?
                    {
                        let row = CyclesRow {
                            process,
                            subject,
                            pc,
                            caller,
                            samples: row.samples,
                            cycles,
                        };
                        self.builder.profile.cycles.push(row);
                    }
                }
            }
            Kind::Values | Kind::Keyed => {
                let mut passed_over = Vec::new();
                let is_keyed = kind == Kind::Keyed;
                let values =
                    decode_some_values(place, is_keyed, data, |(process, address, _), id| {
                        let known = parameters.get(&id);
                        let is_left_out =
                            chunk.narrowed && known.is_some_and(|known| !known.wanted);
                        if !is_left_out || !chunk.wants(address) {
                            return !is_left_out && chunk.wants(address);
                        }
                        let takes = |pid| self.filter.takes_pid(pid);
                        let process = referred.processes.get(&process);
                        let is_seen = process.is_some_and(|known| takes(known.row.process.pid));
                        if is_seen && passed_over.last() != Some(&address) {
                            passed_over.push(address);
                        }
                        false
                    });
                let values = values.map_err(|e| bad(self, e))?;
                if !passed_over.is_empty() {
                    let image = self.packed_image(referred, chunk.image)?;
                    for address in passed_over {
                        self.builder.pass_over(image, address);
                    }
                }
                let tuples: usize = values.rows.iter().map(|row| row.list.len()).sum();
                self.charge_unpacked(values.rows.len() * ROW + tuples * VALUE)?;
                for mut row in values.rows {
                    let at = (row.process, row.address, row.caller);
                    let Some(Parameter {
                        name: parameter, ..
                    }) = parameters.get(&row.parameter)
                    else {
                        return Err(self.dangling("parameter", row.parameter));
                    };
                    if let Some((process, subject, pc, caller)) =
                        self.at(referred, &mut chunk, at)?
                    {
                        row.weigh(values.tau);
                        let row = HotlistRow {
                            process,
                            subject,
                            pc,
                            caller,
                            parameter: Arc::clone(parameter),
                            reached: row.reached,
                            unknown: row.unknown,
                            windows: row.windows,
                            even: row.even,
                            list: row.list,
                        };
                        self.builder.profile.hotlists.push(row);
                    }
                }
            }
            Kind::Branches => {
                let rows = decode_branches(place, data).map_err(|e| bad(self, e))?;
                self.charge_unpacked(rows.len() * ROW)?;
                for row in rows {
                    if !chunk.wants(row.address) {
                        continue;
                    }
                    let at = (row.process, row.address, None);
                    if let Some((process, subject, pc, _)) = self.at(referred, &mut chunk, at)? {
                        let row = BranchRow {
                            process,
                            subject,
                            pc,
                            taken: row.seen.taken,
                            not_taken: row.seen.not_taken,
                            unknown: row.seen.unknown,
                            weights: row.seen.weights,
                            squares: row.seen.squares,
                        };
                        self.builder.profile.branches.push(row);
                    }
                }
            }
            Kind::Calls => {
                let rows = decode_calls(place, data).map_err(|e| bad(self, e))?;
                self.charge_unpacked(rows.len() * ROW)?;
                for row in rows {
                    // Who asks for a function asks who calls it as well.
                    let is_callee = || row.callee.is_some_and(|at| self.is_place(referred, at));
                    if !chunk.wants(row.address) && !is_callee() {
                        continue;
                    }
                    let at = (row.process, row.address, row.callee);
                    if let Some((process, subject, site, callee)) =
                        self.at(referred, &mut chunk, at)?
                    {
                        let row = CallRow {
                            process,
                            subject,
                            site,
                            callee,
                            calls: row.seen.times,
                            weight: row.seen.weight,
                            squares: row.seen.squares,
                        };
                        self.builder.profile.calls.push(row);
                    }
                }
            }
            Kind::Stacks => self.read_stacks(referred, &mut chunk, data)?,
        }
        Ok(())
    }

    /// The indices of the process, the subject, the PC and the other place of a row. `None`: the
    /// filter leaves the row out.
    #[expect(clippy::type_complexity, reason = "four indices, two places")]
    pub(super) fn at(
        &mut self,
        referred: &mut Referred,
        chunk: &mut Chunk,
        (process, address, other): (i64, u64, Option<(i64, u64)>),
    ) -> Result<Option<(usize, usize, usize, Option<usize>)>, Error> {
        if !self.takes(referred, chunk, process)? {
            return Ok(None);
        }
        let Some(known) = referred.processes.get_mut(&process) else {
            return Err(self.dangling("process", process));
        };
        let process = *known.index.get_or_insert_with(|| {
            push(
                &mut self.builder.profile.processes,
                known.row.process.clone(),
            )
        });
        let Some(known) = referred.subjects.get_mut(&chunk.subject) else {
            return Err(self.dangling("subject", chunk.subject));
        };
        let subject = *known
            .index
            .get_or_insert_with(|| self.builder.subject(known.row));
        let at = (chunk.image, address);
        let pc = match chunk.last {
            Some((last, index)) if last == at => index,
            _ => {
                let index = self.packed_pc(referred, at)?;
                chunk.last = Some((at, index));
                index
            }
        };
        let other = other
            .map(|other| self.packed_pc(referred, other))
            .transpose()?;
        Ok(Some((process, subject, pc, other)))
    }

    /// Whether the filter takes a process of a chunk.
    fn takes(&self, referred: &Referred, chunk: &Chunk, process: i64) -> Result<bool, Error> {
        let Some(known) = referred.processes.get(&process) else {
            return Err(self.dangling("process", process));
        };
        if known.row.epoch != chunk.epoch {
            let detail = format!(
                "chunk {} of epoch {} refers to process {process} of another",
                chunk.id, chunk.epoch
            );
            return Err(self.corrupt(detail));
        }
        Ok(self.filter.takes_pid(known.row.process.pid))
    }

    /// Whether an instruction is at a place asked for.
    pub(super) fn is_place(&self, referred: &Referred, (image, address): (i64, u64)) -> bool {
        let image = referred.images.get(&image);
        let places = self.filter.places.as_ref();
        image.is_some_and(|image| places.is_none_or(|places| places.has(&image.row, address)))
    }

    fn packed_image(&mut self, referred: &mut Referred, image: i64) -> Result<usize, Error> {
        let Some(known) = referred.images.get_mut(&image) else {
            return Err(self.dangling("image", image));
        };
        Ok(*known
            .index
            .get_or_insert_with(|| self.builder.image(&known.row)))
    }

    pub(super) fn packed_pc(
        &mut self,
        referred: &mut Referred,
        (image, address): (i64, u64),
    ) -> Result<usize, Error> {
        let image = self.packed_image(referred, image)?;
        Ok(self.builder.pc(image, address, &None))
    }

    /// The encodings of instructions that rows have referred to.
    pub(super) fn read_code(&mut self, referred: &Referred) -> Result<(), Error> {
        if let Some(ids) = self.asked_code(referred)? {
            return self.read_code_of(&ids, |file, row| file.take_code(referred, row));
        }
        let sql = "SELECT id, image, bucket, data FROM code NOT INDEXED ORDER BY id";
        self.each(sql, |file, row| file.take_code(referred, row))
    }

    fn take_code(&mut self, referred: &Referred, row: &Row<'_>) -> Result<(), Error> {
        let file = self;
        {
            let id: i64 = file.get(row, 0)?;
            let image: i64 = file.get(row, 1)?;
            let Some(Known { row: known, index }) = referred.images.get(&image) else {
                return Err(file.dangling("image", image));
            };
            let Some(index) = *index else {
                return Ok(());
            };
            let places = file.filter.places.as_ref();
            let ranges = places.map(|places| places.of(known).to_vec());
            let bucket = file.word(row, 2)?;
            let data = row.get_ref(3).and_then(|data| Ok(data.as_blob()?));
            let data = data.map_err(|e| Error::sqlite(file.path, e))?;
            file.charge(data.len() as u64)?;
            let rows = decode_code(bucket, data)
                .map_err(|bad| file.corrupt(format!("code {id}: {bad}")))?;
            for (address, bytes) in rows {
                // At a place asked for, what was only ever called from is an instruction, too.
                if ranges.as_ref().is_some_and(|ranges| is_in(ranges, address)) {
                    file.builder.pc(index, address, &None);
                }
                file.builder.encoding(index, address, &bytes);
            }
            Ok(())
        }
    }

    pub(super) fn bad_chunk(&self, id: i64, bad: Bad) -> Error {
        self.corrupt(format!("chunk {id}: {bad}"))
    }
}
