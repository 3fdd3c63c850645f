//! From the rows of chunks to those of the profile.

use std::sync::Arc;

use foldhash::HashMap;

use super::builder::push;
use super::chunks::{ChunkOfFile, Parameter};
use super::file::File;
use super::instructions::First;
use super::referred::Referred;
use super::unpacked::{PackedList, Rows, Unpacked};
use crate::chunk::{At, Bad, CyclesOf};
use crate::filter::Apart;
use crate::profile::{BranchRow, CallRow, CyclesRow, HotlistRow};
use crate::{Error, List};

/// Bytes of memory that a row takes, about, without its values.
pub(super) const ROW: usize = 160;
/// And a value.
const VALUE: usize = 56;

/// Where things are in the profile.
#[derive(Default)]
pub(super) struct Indices {
    image: Option<usize>,
    subject: Option<usize>,
    /// A process that the filter takes.
    process: Option<(i64, usize)>,
    /// A process, and whether the filter takes it.
    takes: Option<(i64, bool)>,
    /// The instruction at an address.
    pc: Option<(u64, usize)>,
}

impl File<'_> {
    /// Takes the rows of chunks into the profile.
    pub(super) fn take_rows(
        &mut self,
        referred: &mut Referred,
        chunks: Vec<Unpacked>,
        parameters: &HashMap<i64, Parameter>,
    ) -> Result<(), Error> {
        for (mut chunk, rows) in chunks {
            let rows = rows.map_err(|bad| self.bad_chunk(chunk.id, bad))?;
            self.take_rows_of(referred, &mut chunk, rows, parameters)?;
        }
        Ok(())
    }

    fn take_rows_of(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        rows: Rows,
        parameters: &HashMap<i64, Parameter>,
    ) -> Result<(), Error> {
        match rows {
            Rows::Cycles(interrupts) => {
                self.charge_unpacked(interrupts.unpacked * ROW)?;
                for process in &interrupts.processes {
                    self.takes(referred, chunk, *process)?;
                }
                let (samples, weight) = interrupts.elsewhere;
                if samples > 0 {
                    let image = self.image_of_chunk(referred, chunk)?;
                    let cycles = weight as f64 * chunk.cycles_per_unit;
                    self.builder.add_total(image, samples, cycles);
                }
                for row in &interrupts.rows {
                    self.take_cycles(referred, chunk, row)?;
                }
            }
            Rows::Instructions(run, all) => {
                self.charge_unpacked(all.rows * ROW)?;
                for process in &all.processes {
                    self.takes(referred, chunk, *process)?;
                }
                if let Some(process) = all.processes.first() {
                    let first = First {
                        process: self.process_of_row(referred, chunk, *process)?,
                        subject: self.subject_of_chunk(referred, chunk)?,
                        time: chunk.place.time,
                    };
                    let image = self.image_of_chunk(referred, chunk)?;
                    let cycles = all.weight as f64 * chunk.cycles_per_unit;
                    self.builder.add_total(image, all.samples, cycles);
                    let stretch = (image, chunk.place.bucket);
                    self.builder.add_instructions(stretch, first, run);
                }
            }
            Rows::Lists {
                lists,
                tuples,
                passed_over,
            } => {
                for (process, address) in passed_over {
                    self.pass_over(referred, chunk, (process, address, None))?;
                }
                let values: usize = lists.iter().map(|list| list.count as usize).sum();
                self.charge_unpacked(lists.len() * ROW + values * VALUE)?;
                let mut list = List::default();
                let mut begin = 0;
                for PackedList { row, count, end } in lists {
                    let of_row = tuples.get(begin..end).unwrap_or_default();
                    begin = end;
                    let at = (row.process, row.address, row.caller);
                    let Some(Parameter {
                        name: parameter, ..
                    }) = parameters.get(&row.parameter)
                    else {
                        return Err(self.dangling("parameter", row.parameter));
                    };
                    if let Some((process, subject, pc, caller)) = self.at(referred, chunk, at)? {
                        list.events = row.list.events;
                        list.threshold = row.list.threshold;
                        list.pairs = row.list.pairs;
                        list.count = count;
                        list.tuples.clear();
                        list.tuples.extend_from_slice(of_row);
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
                            time: chunk.place.time,
                            list,
                        };
                        self.builder.add_list(&row);
                        list = row.list;
                    }
                }
            }
            Rows::Places(places) => {
                for at in places {
                    self.pass_over(referred, chunk, at)?;
                }
            }
            Rows::OtherLists => {
                let image = self.image_of_chunk(referred, chunk)?;
                self.builder.pass_over_code(image);
            }
            Rows::Branches(rows) if chunk.only_places => {
                for row in rows {
                    self.pass_over(referred, chunk, (row.process, row.address, None))?;
                }
            }
            Rows::Calls(rows) if chunk.only_places => {
                for row in rows {
                    self.pass_over(referred, chunk, (row.process, row.address, row.callee))?;
                }
            }
            Rows::Branches(rows) => {
                self.charge_unpacked(rows.len() * ROW)?;
                for row in rows {
                    if !chunk.wants(row.address) {
                        continue;
                    }
                    let at = (row.process, row.address, None);
                    if let Some((process, subject, pc, _)) = self.at(referred, chunk, at)? {
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
                        self.builder.add_branch(row);
                    }
                }
            }
            Rows::Calls(rows) => {
                self.charge_unpacked(rows.len() * ROW)?;
                for row in rows {
                    // Who asks for a function asks who calls it as well.
                    let is_callee = || row.callee.is_some_and(|at| referred.is_place(at));
                    if !chunk.wants(row.address) && !is_callee() {
                        continue;
                    }
                    let at = (row.process, row.address, row.callee);
                    if let Some((process, subject, site, callee)) = self.at(referred, chunk, at)? {
                        let row = CallRow {
                            process,
                            subject,
                            site,
                            callee,
                            calls: row.seen.times,
                            weight: row.seen.weight,
                            squares: row.seen.squares,
                        };
                        self.builder.add_call(row);
                    }
                }
            }
            Rows::Stacks(rows) => self.take_stacks(referred, chunk, &rows)?,
        }
        Ok(())
    }

    fn take_cycles(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        row: &CyclesOf,
    ) -> Result<(), Error> {
        if !self.takes(referred, chunk, row.process)? {
            return Ok(());
        }
        let cycles = row.weight as f64 * chunk.cycles_per_unit;
        let image = self.image_of_chunk(referred, chunk)?;
        self.builder.add_total(image, row.samples, cycles);
        if chunk.only_places {
            return self.pass_over(referred, chunk, (row.process, row.address, row.caller));
        }
        if !chunk.wants(row.address) {
            return Ok(());
        }
        let address = match self.filter.apart {
            // One instruction stands for all of its image.
            Apart::Images => chunk.known.pc.map_or(row.address, |(address, _)| address),
            _ => row.address,
        };
        let at = (row.process, address, row.caller);
        if let Some((process, subject, pc, caller)) = self.at(referred, chunk, at)? {
            self.builder.add_cycles(CyclesRow {
                process,
                subject,
                pc,
                caller,
                samples: row.samples,
                cycles,
                time: chunk.place.time,
            });
        }
        Ok(())
    }

    /// Notes where a row is, and what it names beside that.
    fn pass_over(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        (process, address, other): At,
    ) -> Result<(), Error> {
        if !self.takes(referred, chunk, process)? {
            return Ok(());
        }
        if chunk.wants(address) {
            let image = self.image_of_chunk(referred, chunk)?;
            self.builder.pass_over(image, address);
        }
        // Who asks for functions asks for who calls them as well.
        if let Some((image, address)) = other.filter(|other| referred.is_place(*other)) {
            let image = self.packed_image(referred, image)?;
            self.builder.pass_over(image, address);
        }
        Ok(())
    }

    /// The indices of the process, the subject, the PC and the other place of a row. `None`: the
    /// filter leaves the row out.
    #[expect(clippy::type_complexity, reason = "four indices, two places")]
    pub(super) fn at(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        (process, address, other): (i64, u64, Option<(i64, u64)>),
    ) -> Result<Option<(usize, usize, usize, Option<usize>)>, Error> {
        if !self.takes(referred, chunk, process)? {
            return Ok(None);
        }
        let process = self.process_of_row(referred, chunk, process)?;
        let subject = self.subject_of_chunk(referred, chunk)?;
        let image = self.image_of_chunk(referred, chunk)?;
        let pc = match chunk.known.pc {
            Some((known, index)) if known == address => index,
            _ => {
                let index = self.builder.pc(image, address, None);
                chunk.known.pc = Some((address, index));
                index
            }
        };
        let other = other
            .map(|other| self.packed_pc(referred, other))
            .transpose()?;
        Ok(Some((process, subject, pc, other)))
    }

    /// The index of a process that the filter takes.
    fn process_of_row(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
        process: i64,
    ) -> Result<usize, Error> {
        if let Some((known, index)) = chunk.known.process
            && known == process
        {
            return Ok(index);
        }
        let Some(known) = referred.processes.get_mut(&process) else {
            return Err(self.dangling("process", process));
        };
        let index = *known.index.get_or_insert_with(|| {
            push(
                &mut self.builder.profile.processes,
                known.row.process.clone(),
            )
        });
        chunk.known.process = Some((process, index));
        Ok(index)
    }

    /// The index of the access tag of a chunk.
    fn subject_of_chunk(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
    ) -> Result<usize, Error> {
        if let Some(index) = chunk.known.subject {
            return Ok(index);
        }
        let Some(known) = referred.subjects.get_mut(&chunk.subject) else {
            return Err(self.dangling("subject", chunk.subject));
        };
        let add = || self.builder.subject(known.row);
        let index = *known.index.get_or_insert_with(add);
        chunk.known.subject = Some(index);
        Ok(index)
    }

    /// Whether the filter takes a process of a chunk.
    pub(super) fn takes(
        &self,
        referred: &Referred,
        chunk: &mut ChunkOfFile,
        process: i64,
    ) -> Result<bool, Error> {
        if let Some((known, takes)) = chunk.known.takes
            && known == process
        {
            return Ok(takes);
        }
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
        let takes = self.filter.takes_pid(known.row.process.pid);
        chunk.known.takes = Some((process, takes));
        Ok(takes)
    }

    /// The index of the image of a chunk.
    fn image_of_chunk(
        &mut self,
        referred: &mut Referred,
        chunk: &mut ChunkOfFile,
    ) -> Result<usize, Error> {
        if let Some(index) = chunk.known.image {
            return Ok(index);
        }
        let index = self.packed_image(referred, chunk.image)?;
        chunk.known.image = Some(index);
        Ok(index)
    }

    pub(super) fn packed_image(
        &mut self,
        referred: &mut Referred,
        image: i64,
    ) -> Result<usize, Error> {
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
        Ok(self.builder.pc(image, address, None))
    }

    pub(super) fn bad_chunk(&self, id: i64, bad: Bad) -> Error {
        self.corrupt(format!("chunk {id}: {bad}"))
    }
}
