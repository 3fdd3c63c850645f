//! Chunks: rows that lie many in a blob, and the encodings of their instructions.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use foldhash::HashMap;
use rusqlite::Row;

use super::file::File;
use super::referred::{EpochOfFile, FlushOfFile, Referred, ReferredRow};
use super::taken::Indices;
use super::unpacked::{Packed, Unpacked, unpack};
use crate::Error;
use crate::chunk::{Bad, ChunkKind, ChunkPlace, decode_code};
use crate::filter::Apart;
use crate::places::is_in;
use crate::rows::{Image, ImageKind};
use crate::tables::stored::{CHUNK, CODE, StoredChunk, StoredCode, StoredParameter};
use crate::tables::{self, Later};

/// Where the rows of a chunk belong.
pub(super) struct ChunkOfFile {
    pub(super) id: i64,
    pub(super) image: i64,
    pub(super) subject: i64,
    pub(super) epoch: i64,
    pub(super) cycles_per_unit: f64,
    pub(super) place: ChunkPlace,
    /// Indices of what was looked up last: rows of a chunk share an image and a subject, and those
    /// of a process and of an instruction lie next to each other.
    pub(super) known: Indices,
    /// The addresses of its image that are asked for; `None`: all.
    ranges: Option<Arc<[(u64, u64)]>>,
    /// Lists of parameters that are not asked for are left out.
    pub(super) narrowed: bool,
    /// But for those at these addresses.
    details: Option<Arc<[(u64, u64)]>>,
    /// It is asked only where its rows are.
    pub(super) only_places: bool,
    /// How far its interrupts are told apart.
    pub(super) apart: Apart,
    /// Call sites are told where details are asked for alone.
    only_detailed_callers: bool,
    /// All processes are asked for.
    pub(super) of_all_processes: bool,
    /// Its interrupts are asked for by instruction alone, and all of them.
    pub(super) only_instructions: bool,
}

/// A parameter of a file.
pub(super) struct Parameter {
    pub(super) name: Arc<str>,
    /// Whether it is asked for.
    pub(super) wanted: bool,
    /// Whether it is where details are.
    pub(super) detailed: bool,
}

impl ChunkOfFile {
    pub(super) fn wants(&self, address: u64) -> bool {
        self.ranges
            .as_ref()
            .is_none_or(|ranges| is_in(ranges, address))
    }

    /// Whether any address between two, which are among these, may be asked for.
    pub(super) fn may_want(&self, (first, last): (u64, u64)) -> bool {
        let overlaps = |(from, end): &(u64, u64)| *from <= last && first < *end;
        let ranges = self.ranges.as_ref();
        ranges.is_none_or(|ranges| ranges.iter().any(overlaps))
    }

    /// Whether lists of all parameters are asked for at an address.
    pub(super) fn wants_details(&self, address: u64) -> bool {
        let ranges = self.details.as_ref();
        ranges.is_some_and(|ranges| is_in(ranges, address))
    }

    /// Whether what calls the code at an address is asked for.
    pub(super) fn tells_callers(&self, address: u64) -> bool {
        let is_there = !self.only_detailed_callers || self.wants_details(address);
        self.only_places || (self.apart.has_callers() && is_there)
    }

    /// Whether lists of all parameters may be asked for somewhere in it.
    pub(super) fn may_want_details(&self) -> bool {
        self.details.is_some()
    }
}

/// Bytes of chunks that are unpacked at a time, and how many of these at most.
const SOME_BYTES: usize = 32 << 10;
const SOME: usize = 512;

/// Chunks that are fetched by one question, at most.
const IN_A_ROW: i64 = 16;

/// The chunks that are still to be read.
enum Rest {
    /// Those of these ids.
    Asked(std::iter::Peekable<std::vec::IntoIter<i64>>),
    /// Those behind this one; `None`: all.
    Behind(Option<i64>),
    Nothing,
}

impl File<'_> {
    /// Reads the chunks that the question is about.
    pub(super) fn read_chunks(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.builder.packed = true;
        let parameters = self.read_parameters()?;
        let mut rest = match self.asked_chunks(referred)? {
            Some(ids) => Rest::Asked(ids.into_iter().peekable()),
            None => Rest::Behind(None),
        };
        let packed = self.some_chunks(referred, &mut rest)?;
        if let Rest::Nothing = rest {
            let unpacked = unpack(packed, &parameters, &mut Vec::new());
            return self.take_rows(referred, unpacked, &parameters);
        }
        thread::scope(|scope| {
            let (work, packed_chunks) = mpsc::channel();
            let (done, unpacked_chunks) = mpsc::channel();
            let known = &parameters;
            scope.spawn(move || {
                let mut room = Vec::new();
                for packed in packed_chunks {
                    // Who wants no more of it has failed.
                    let _ = done.send(unpack(packed, known, &mut room));
                }
            });
            let taken = self.take_beside(
                referred,
                packed,
                rest,
                &parameters,
                (&work, &unpacked_chunks),
            );
            drop(work);
            taken
        })
    }

    /// Hands chunks to a thread that unpacks them. While it does, what it unpacked before goes into
    /// the profile, and the next are fetched.
    fn take_beside(
        &mut self,
        referred: &mut Referred,
        mut packed: Vec<Packed>,
        mut rest: Rest,
        parameters: &HashMap<i64, Parameter>,
        (work, unpacked_chunks): (&Sender<Vec<Packed>>, &Receiver<Vec<Unpacked>>),
    ) -> Result<(), Error> {
        let mut unpacked = Vec::new();
        while !packed.is_empty() {
            // A thread that is gone has panicked, which is told where it is waited for.
            let is_sent = work.send(packed).is_ok();
            self.take_rows(referred, unpacked, parameters)?;
            packed = self.some_chunks(referred, &mut rest)?;
            match unpacked_chunks.recv() {
                Ok(next) if is_sent => unpacked = next,
                _ => return Ok(()),
            }
        }
        self.take_rows(referred, unpacked, parameters)
    }

    /// The next chunks that the filter lets through; none only where there are no more.
    fn some_chunks(&mut self, referred: &Referred, rest: &mut Rest) -> Result<Vec<Packed>, Error> {
        let mut some = Vec::new();
        let mut bytes = 0;
        while some.len() < SOME && bytes < SOME_BYTES {
            let mut take = |file: &mut Self, row: &Row<'_>| {
                let packed = file.packed_chunk(referred, row)?;
                bytes += packed.as_ref().map_or(0, |packed| packed.data.len());
                some.extend(packed);
                Ok(bytes < SOME_BYTES)
            };
            match rest {
                Rest::Asked(ids) => match ids.next() {
                    Some(first) => {
                        // Those of one flush and kind mostly lie behind each other.
                        let mut last = first;
                        while last - first + 1 < IN_A_ROW
                            && let Some(id) = ids.next_if(|id| last.checked_add(1) == Some(*id))
                        {
                            last = id;
                        }
                        self.read_chunks_of(first, last, |file, row| take(file, row).map(drop))?;
                    }
                    None => *rest = Rest::Nothing,
                },
                Rest::Behind(last) => {
                    let before = *last;
                    self.each_behind(before, |file, row| {
                        *last = Some(file.get(row, 0)?);
                        take(file, row)
                    })?;
                    if *last == before {
                        *rest = Rest::Nothing;
                    } else if *last < before {
                        return Err(self.corrupt("its chunks are out of order"));
                    }
                }
                Rest::Nothing => break,
            }
        }
        Ok(some)
    }

    /// Gives the next chunks with ids above `last` to `take`, as long as it says so.
    fn each_behind(
        &mut self,
        last: Option<i64>,
        mut take: impl FnMut(&mut Self, &Row<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let (conn, path) = (self.conn, self.path);
        let failed = |e| Error::sqlite(path, e);
        let behind = match last {
            Some(_) => "id > ?1",
            None => "?1 IS NULL",
        };
        let select = CHUNK.select(self.version()?);
        let sql = format!("{select} NOT INDEXED WHERE {behind} ORDER BY id LIMIT {SOME}");
        let mut statement = conn.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([last]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            self.charge_row()?;
            if !take(self, row)? {
                break;
            }
        }
        Ok(())
    }

    /// A row of the table, if the filter lets it through.
    fn packed_chunk(
        &mut self,
        referred: &Referred,
        row: &Row<'_>,
    ) -> Result<Option<Packed>, Error> {
        let (id, row_of) = self.record::<StoredChunk<Later>>(row)?;
        let StoredChunk {
            flush,
            kind,
            image,
            bucket,
            subject,
            data: Later,
        } = row_of;
        let Some(kind) = ChunkKind::of(kind) else {
            return Err(self.bad_chunk(id, Bad("is of no known kind")));
        };
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
            ChunkKind::Cycles => kinds.cycles,
            ChunkKind::Values | ChunkKind::Keyed => kinds.values,
            ChunkKind::Branches => kinds.branches,
            ChunkKind::Calls => kinds.calls,
            ChunkKind::Stacks => kinds.stacks,
        };
        let is_wanted = taken
            && is_asked
            && self.filter.takes_subject(&known_subject.row)
            && self.filter.takes_image(&known_image.row);
        if !is_wanted {
            return Ok(None);
        }
        let data = tables::blob::<StoredChunk<Later>>(row);
        let data = data.map_err(|e| Error::sqlite(self.path, e))?;
        self.charge(data.len() as u64)?;
        let chunk = ChunkOfFile {
            id,
            image,
            subject,
            epoch,
            cycles_per_unit,
            place: ChunkPlace {
                bucket,
                time: (started, ended),
            },
            known: Indices::default(),
            // Of others the code of all rows tells whether a file is what was profiled.
            narrowed: known_image.row.kind != ImageKind::File || known_image.row.has_known_file(),
            ranges: referred.ranges(image),
            details: referred.details(image),
            only_places: self.filter.only_places,
            apart: self.filter.apart,
            only_detailed_callers: self.filter.tells_detailed_callers(),
            of_all_processes: self.filter.pids.is_empty(),
            only_instructions: self.filter.is_by_instruction(),
        };
        let data = data.to_vec();
        Ok(Some(Packed { chunk, kind, data }))
    }

    fn read_parameters(&mut self) -> Result<HashMap<i64, Parameter>, Error> {
        let mut parameters = HashMap::default();
        self.rows("", |file, id, row: StoredParameter| {
            let name = row.name;
            let wanted = file.filter.takes_parameter(&name);
            let detailed = file.filter.takes_detail(&name);
            let name = file.builder.parameter(&name);
            let parameter = Parameter {
                name,
                wanted,
                detailed,
            };
            parameters.insert(id, parameter);
            Ok(())
        })?;
        Ok(parameters)
    }

    /// The encodings of instructions that rows have referred to.
    pub(super) fn read_code(&mut self, referred: &Referred) -> Result<(), Error> {
        if let Some(ids) = self.asked_code(referred)? {
            return self.read_code_of(&ids, |file, row| file.take_code(referred, row));
        }
        let sql = format!("{} NOT INDEXED ORDER BY id", CODE.select(self.version()?));
        self.each(&sql, |file, row| file.take_code(referred, row))
    }

    /// Whether encodings of an image tell anything. Whoever asks where the time is needs no code,
    /// but where nothing else tells whether a file is what was profiled.
    pub(super) fn needs_code(&self, image: &Image) -> bool {
        let tells = image.kind == ImageKind::File && image.build_id.is_none();
        tells || !self.filter.leaves_code()
    }

    fn take_code(&mut self, referred: &Referred, row: &Row<'_>) -> Result<(), Error> {
        let (id, code) = self.record::<StoredCode<Later>>(row)?;
        let (image, bucket) = (code.image, code.bucket);
        let Some(ReferredRow { row: known, index }) = referred.images.get(&image) else {
            return Err(self.dangling("image", image));
        };
        let Some(index) = *index else {
            return Ok(());
        };
        if !self.needs_code(known) {
            return Ok(());
        }
        let ranges = referred.ranges(image);
        let data = tables::blob::<StoredCode<Later>>(row);
        let data = data.map_err(|e| Error::sqlite(self.path, e))?;
        self.charge(data.len() as u64)?;
        let bad = |bad| self.corrupt(format!("code {id}: {bad}"));
        for (address, bytes) in decode_code(bucket, data).map_err(bad)? {
            let is_asked = ranges.as_ref().map(|ranges| is_in(ranges, address));
            // At a place asked for, what was only ever called from is an instruction, too.
            if is_asked == Some(true) {
                self.builder.pc(index, address, None);
            }
            if is_asked != Some(false) && self.builder.passes_over_code(index) {
                self.builder.pass_over(index, address);
            }
            match self.filter.is_by_instruction() {
                true => self.builder.encoding_for_later(index, address, &bytes),
                false => self.builder.encoding(index, address, &bytes),
            }
        }
        Ok(())
    }
}
