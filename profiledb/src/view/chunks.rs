//! Chunks of a database into the view: unpacked, judged row by row, packed anew. One all of whose
//! rows are for the view stays as it is, under the view's ids.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};

use super::Stop;
use super::copy::Copy;
use super::refer::ImageOfSource;
use crate::chunk::{
    At, Bad, ChunkKind, ChunkPlace, CyclesOf, Packed, addresses_of, decode_branches, decode_calls,
    decode_code, decode_cycles, decode_some_values, decode_values, encode_branches, encode_calls,
    encode_code, encode_cycles, encode_values, layers, relabelled, sum_cycles,
};
use crate::rows::ImageKind;
use crate::tables::stored::{CHUNK, CODE, StoredChunk, StoredCode, StoredParameter};
use crate::tables::{self, Later};

/// A chunk of the source whose subject, image and flush are for this view.
pub(super) struct ChunkOfSource {
    pub(super) id: i64,
    pub(super) flush: i64,
    kind: ChunkKind,
    pub(super) image: i64,
    subject: i64,
    place: ChunkPlace,
}

/// Interrupts of an image at addresses that are not asked for.
pub(super) struct Elsewhere {
    /// The first chunk that has some of them, where that is, and a process that it names.
    id: i64,
    place: ChunkPlace,
    process: i64,
    /// How many they are, and what they stand for in the epoch's unit.
    samples: u64,
    weight: u64,
}

impl Copy<'_> {
    pub(super) fn chunks(&mut self) -> Result<(), Stop> {
        let names = self.parameter_names()?;
        self.each_chunk(|copy, chunk, data| {
            let kinds = copy.selection.kinds;
            let bad = |copy: &Copy<'_>, bad| copy.bad_chunk(chunk.id, bad);
            let place = chunk.place;
            match chunk.kind {
                ChunkKind::Cycles if kinds.cycles && copy.is_elsewhere(&chunk) => {
                    copy.add_elsewhere(&chunk, data)
                }
                ChunkKind::Cycles if kinds.cycles => {
                    let rows = decode_cycles(place, data).map_err(|e| bad(copy, e))?;
                    let rows = copy.shown(&chunk, rows)?;
                    let samples = rows
                        .iter()
                        .map(|row| row.samples)
                        .fold(0, u64::saturating_add);
                    copy.count(chunk.flush, samples);
                    copy.put_chunks(&chunk, rows, encode_cycles)
                }
                ChunkKind::Branches if kinds.branches => {
                    let rows = decode_branches(place, data).map_err(|e| bad(copy, e))?;
                    if copy.put_whole(&chunk, data, rows.iter().map(Packed::at))? {
                        return Ok(());
                    }
                    let rows = copy.shown(&chunk, rows)?;
                    copy.put_chunks(&chunk, rows, encode_branches)
                }
                ChunkKind::Calls if kinds.calls => {
                    let rows = decode_calls(place, data).map_err(|e| bad(copy, e))?;
                    if copy.put_whole(&chunk, data, rows.iter().map(Packed::at))? {
                        return Ok(());
                    }
                    let rows = copy.shown(&chunk, rows)?;
                    copy.put_chunks(&chunk, rows, encode_calls)
                }
                ChunkKind::Values | ChunkKind::Keyed if kinds.values => {
                    let is_keyed = chunk.kind == ChunkKind::Keyed;
                    if copy.wants_all(&chunk) {
                        let (mut places, mut parameters) = (Vec::new(), HashSet::new());
                        let looked = decode_some_values(place, is_keyed, data, |at, parameter| {
                            places.push(at);
                            parameters.insert(parameter);
                            false
                        });
                        looked.map_err(|e| bad(copy, e))?;
                        for parameter in parameters {
                            copy.put_parameter(parameter, &names)?;
                        }
                        if copy.put_whole(&chunk, data, places.into_iter())? {
                            return Ok(());
                        }
                    }
                    let values = decode_values(place, is_keyed, data).map_err(|e| bad(copy, e))?;
                    let mut rows = copy.shown(&chunk, values.rows)?;
                    for row in &mut rows {
                        row.parameter = copy.put_parameter(row.parameter, &names)?;
                    }
                    let pack = |rows: &_| encode_values(place, values.tau, rows);
                    copy.put_chunks(&chunk, rows, pack)
                }
                ChunkKind::Stacks if kinds.stacks => copy.stacks(&chunk, data),
                _ => Ok(()),
            }
        })?;
        self.put_elsewhere()
    }

    /// Whether the interrupts of a chunk are all at addresses that are not asked for, and whoever
    /// took them counts.
    fn is_elsewhere(&self, chunk: &ChunkOfSource) -> bool {
        let image = self.images.get(&chunk.image);
        self.wanted_processes.is_none()
            && image.is_some_and(|image| !image.may_want(chunk.kind, chunk.place.bucket))
    }

    /// Of interrupts elsewhere it is asked how many they are: shares are of all.
    fn add_elsewhere(&mut self, chunk: &ChunkOfSource, data: &[u8]) -> Result<(), Stop> {
        let more = sum_cycles(data).map_err(|bad| self.bad_chunk(chunk.id, bad))?;
        self.view.look_at_limits()?;
        let Some(&process) = more.processes.first() else {
            return Ok(());
        };
        self.count(chunk.flush, more.samples);
        let key = (chunk.flush, chunk.image, chunk.subject);
        let sum = self.elsewhere.entry(key).or_insert(Elsewhere {
            id: chunk.id,
            process,
            place: chunk.place,
            samples: 0,
            weight: 0,
        });
        sum.samples = sum.samples.saturating_add(more.samples);
        sum.weight = sum.weight.saturating_add(more.weight);
        Ok(())
    }

    /// Puts into the view what interrupts elsewhere add up to: one row for an image and access tag
    /// of a flush, at the first of the addresses that a chunk of them is about.
    fn put_elsewhere(&mut self) -> Result<(), Stop> {
        for ((flush, image, subject), sum) in std::mem::take(&mut self.elsewhere) {
            let chunk = ChunkOfSource {
                id: sum.id,
                flush,
                kind: ChunkKind::Cycles,
                image,
                subject,
                place: sum.place,
            };
            let (address, _) = addresses_of(chunk.kind, chunk.place.bucket);
            let row = CyclesOf {
                process: self.put_process(sum.process, flush)?,
                address,
                caller: None,
                samples: sum.samples,
                weight: sum.weight,
            };
            self.put_chunk(&chunk, encode_cycles(&[row]))?;
        }
        Ok(())
    }

    /// Counts the interrupts that the view would show of chunks.
    pub(super) fn count_packed(&mut self) -> Result<(), Stop> {
        self.each_chunk(|copy, chunk, data| {
            if chunk.kind != ChunkKind::Cycles {
                return Ok(());
            }
            let rows = decode_cycles(chunk.place, data);
            let rows = rows.map_err(|bad| copy.bad_chunk(chunk.id, bad))?;
            let rows = rows.into_iter().filter(|row| copy.wants(&chunk, row.at()));
            let samples = rows.map(|row| row.samples).fold(0, u64::saturating_add);
            if samples > 0 {
                copy.put_flush(chunk.flush)?;
                copy.count(chunk.flush, samples);
            }
            Ok(())
        })
    }

    /// Gives the chunks that may have rows for this view to `take`.
    fn each_chunk(
        &mut self,
        mut take: impl FnMut(&mut Self, ChunkOfSource, &[u8]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let sql = format!("{} NOT INDEXED ORDER BY id", CHUNK.select(self.version()?));
        self.each(&sql, [], |copy, row| {
            let (id, stored) = copy.record::<StoredChunk<Later>>(row)?;
            let StoredChunk {
                flush,
                kind,
                image,
                bucket,
                subject,
                data: Later,
            } = stored;
            let Some(kind) = ChunkKind::of(kind) else {
                return Err(copy.bad_chunk(id, Bad("is of no known kind")));
            };
            let Some(of_source) = copy.images.get(&image) else {
                return Err(copy.dangling("image", image));
            };
            let is_hidden = of_source.row.kind == ImageKind::Kernel && !copy.viewer.is_privileged();
            let (Some(when), false, true, true) = (
                copy.flushes.get(&flush),
                is_hidden,
                copy.subjects.contains_key(&subject),
                match kind {
                    // Shares are of all cycles, and who calls may be anywhere.
                    ChunkKind::Cycles | ChunkKind::Calls | ChunkKind::Stacks => of_source.wanted,
                    _ => of_source.may_want(kind, bucket),
                },
            ) else {
                return Ok(());
            };
            let chunk = ChunkOfSource {
                id,
                flush,
                kind,
                image,
                subject,
                place: ChunkPlace {
                    bucket,
                    time: (when.started, when.ended),
                },
            };
            let data = tables::blob::<StoredChunk<Later>>(row);
            take(copy, chunk, data.map_err(|e| copy.failed(e))?)
        })
    }

    fn wants(&self, chunk: &ChunkOfSource, (process, address, other): At) -> bool {
        let processes = self.wanted_processes.as_ref();
        let is_in_range = |(image, address): (i64, u64)| {
            let image = self.images.get(&image);
            let is_seen = |image: &ImageOfSource| {
                self.viewer.is_privileged() || image.row.kind != ImageKind::Kernel
            };
            image.is_some_and(|image| is_seen(image) && image.is_in_range(address))
        };
        processes.is_none_or(|wanted| wanted.contains(&process))
            && match (self.images.get(&chunk.image), chunk.kind) {
                (None, _) => false,
                (Some(_), ChunkKind::Cycles) => true,
                (Some(image), ChunkKind::Calls) => {
                    image.wants(address) || other.is_some_and(is_in_range)
                }
                (Some(image), _) => image.wants(address),
            }
    }

    /// Those of the rows that are for this view, as it shows them: under its ids, and without
    /// places in the kernel that the viewer may not see.
    fn shown<T: Packed>(&mut self, chunk: &ChunkOfSource, rows: Vec<T>) -> Result<Vec<T>, Stop> {
        self.view.look_behind(rows.len())?;
        let mut shown = Vec::with_capacity(rows.len());
        for mut row in rows {
            let at @ (process, address, other) = row.at();
            if !self.wants(chunk, at) {
                continue;
            }
            let process = self.put_process(process, chunk.flush)?;
            let other = match other {
                Some((image, address)) => self.put_other(image, address)?,
                None => None,
            };
            self.shown.entry(chunk.image).or_default().insert(address);
            row.set_at((process, address, other));
            shown.push(row);
        }
        Ok(shown)
    }

    /// Whether all rows of a chunk are asked for.
    fn wants_all(&self, chunk: &ChunkOfSource) -> bool {
        let image = self.images.get(&chunk.image);
        self.wanted_processes.is_none() && image.is_some_and(ImageOfSource::wants_all)
    }

    /// Puts a chunk into the view as it is, if all its rows are for that: its places, as they are
    /// in the source. Whether it did.
    fn put_whole(
        &mut self,
        chunk: &ChunkOfSource,
        data: &[u8],
        places: impl ExactSizeIterator<Item = At> + Clone,
    ) -> Result<bool, Stop> {
        let is_hidden = |(image, _)| {
            let image = self.images.get(&image);
            image.is_none_or(|image| image.row.kind == ImageKind::Kernel)
        };
        let mut others = places.clone().filter_map(|(_, _, other)| other);
        let hides = !self.viewer.is_privileged() && others.any(is_hidden);
        if hides || !self.wants_all(chunk) {
            return Ok(false);
        }
        self.view.look_behind(places.len())?;
        let mut addresses: Vec<u64> = places.clone().map(|(_, address, _)| address).collect();
        // Rows of one address lie side by side.
        addresses.dedup();
        self.shown.entry(chunk.image).or_default().extend(addresses);
        for (process, _, other) in places {
            self.put_process(process, chunk.flush)?;
            if let Some((image, address)) = other {
                self.put_other(image, address)?;
            }
        }
        let packed = relabelled(
            data,
            |process| self.processes.get(&process).copied(),
            |image| self.images.get(&image)?.id,
            |parameter| self.parameters.get(&parameter).copied(),
        );
        match packed.map_err(|bad| self.bad_chunk(chunk.id, bad))? {
            Some(packed) => self.put_chunk(chunk, packed).map(|()| true),
            // It has ids that none of its rows refers to.
            None => Ok(false),
        }
    }

    /// A caller or callee, if the viewer may see it.
    pub(super) fn put_other(
        &mut self,
        image: i64,
        address: u64,
    ) -> Result<Option<(i64, u64)>, Stop> {
        let Some(of_source) = self.images.get_mut(&image) else {
            return Err(self.dangling("image", image));
        };
        if of_source.row.kind == ImageKind::Kernel && !self.viewer.is_privileged() {
            return Ok(None);
        }
        let id = of_source.put(self.view)?;
        self.shown.entry(image).or_default().insert(address);
        Ok(Some((id, address)))
    }

    fn put_parameter(&mut self, id: i64, names: &HashMap<i64, String>) -> Result<i64, Stop> {
        if let Some(id) = self.parameters.get(&id) {
            return Ok(*id);
        }
        let Some(name) = names.get(&id) else {
            return Err(self.dangling("parameter", id));
        };
        let new = self.view.parameter(name)?;
        self.parameters.insert(id, new);
        Ok(new)
    }

    fn parameter_names(&mut self) -> Result<HashMap<i64, String>, Stop> {
        let mut names = HashMap::new();
        self.rows("", |_, id, row: StoredParameter| {
            names.insert(id, row.name);
            Ok(())
        })?;
        Ok(names)
    }

    /// Packs rows into chunks of the view.
    pub(super) fn put_chunks<T: Packed>(
        &mut self,
        chunk: &ChunkOfSource,
        rows: Vec<T>,
        pack: impl Fn(&[T]) -> Vec<u8>,
    ) -> Result<(), Stop> {
        // Call sites that became unknown may have made rows alike.
        for layer in layers(rows) {
            self.put_chunk(chunk, pack(&layer))?;
        }
        Ok(())
    }

    /// Puts a chunk into the view that has this in it.
    fn put_chunk(&mut self, chunk: &ChunkOfSource, data: Vec<u8>) -> Result<(), Stop> {
        let flush = self.put_flush(chunk.flush)?;
        let subject = self.put_subject(chunk.subject)?;
        let Some(image) = self.images.get_mut(&chunk.image) else {
            return Err(self.dangling("image", chunk.image));
        };
        let image = image.put(self.view)?;
        self.view.insert(&StoredChunk {
            flush,
            kind: chunk.kind.number(),
            image,
            bucket: chunk.place.bucket,
            subject,
            data,
        })?;
        Ok(())
    }

    /// The encodings of the instructions that chunks of the view have.
    pub(super) fn code(&mut self) -> Result<(), Stop> {
        let sql = format!("{} NOT INDEXED ORDER BY id", CODE.select(self.version()?));
        self.each(&sql, [], |copy, row| {
            let (id, code) = copy.record::<StoredCode<Later>>(row)?;
            let (image, bucket) = (code.image, code.bucket);
            let Some(shown) = copy.shown.get(&image) else {
                return Ok(());
            };
            let data = tables::blob::<StoredCode<Later>>(row);
            let rows = decode_code(bucket, data.map_err(|e| copy.failed(e))?);
            let mut rows = rows.map_err(|bad| copy.corrupt(format!("code {id}: {bad}")))?;
            rows.retain(|(address, _)| shown.contains(address));
            let Some(of_source) = copy.images.get(&image) else {
                return Err(copy.dangling("image", image));
            };
            let (false, Some(new)) = (rows.is_empty(), of_source.id) else {
                return Ok(());
            };
            copy.view.insert(&StoredCode {
                image: new,
                bucket,
                data: encode_code(&rows),
            })?;
            Ok(())
        })
    }

    pub(super) fn bad_chunk(&self, id: i64, bad: Bad) -> Stop {
        self.corrupt(format!("chunk {id}: {bad}"))
    }
}
