//! Tables into the database: one transaction a flush.
//!
//! The collector makes a [`Snapshot`], which holds all that is to be written, and goes on; writing
//! it is the work of another thread (`saver`).

mod copy;
mod regions;
mod stacks;

use std::io;

use addresses::ImageAddress;
use counters::{Counter, Loss};
use hotlist::Estimates;
use interpreter::DecodeCache;
use profiledb::{
    Error, Flush, Image, ImageKind, ImageRowId, NewHotlist, PcRowId, ProcessRowId, Writer,
};
use rustc_hash::{FxHashMap, FxHashSet};

use self::stacks::write_stacks;
use consumers::events::lost::Lost;
use consumers::events::{Owner, PcId};
use consumers::tables::Tables;
use machine::elf::{self, Named};
use machine::images::{ImageId, Images, NamedCode};
use machine::kernel::{Kernel, KernelNames};
use machine::loadmap::ProcessId;
use machine::place::Pc;
use machine::system::memory::of_vec;
use pipeline::collector::{Collector, Totals};

/// Bytes of one file's symbol tables that are read for names that readers will not find.
const NAMES_AT_ONCE: u64 = 96 << 20;

/// The most bytes of an instruction.
const MOST_BYTES: usize = 15;

/// What one flush writes.
pub struct Snapshot {
    tables: Tables,
    images: FxHashMap<ImageId, Image>,
    /// The first bytes of the code at each PC, and how many of them there are.
    code: Vec<([u8; MOST_BYTES], u8)>,
    /// Files whose names readers may not find.
    files: Vec<(ImageId, io::Result<Named>)>,
    /// Those whose names they will not find even now.
    nameless: FxHashSet<ImageId>,
    /// Names of code that was made at run time.
    generated: Vec<(ImageId, Vec<NamedCode>)>,
    /// Images whose code ran in 32-bit mode.
    in_32_bit_mode: FxHashSet<ImageId>,
    /// What lies where values point, and for whom.
    regions: Vec<regions::Told>,
    kernel: Kernel,
    /// Wall-clock nanoseconds.
    started: i64,
    ended: i64,
    /// Of the run, up to here.
    pub(crate) totals: Totals,
}

impl Snapshot {
    /// What was collected between these times; the collector's tables are empty afterwards.
    pub(crate) fn take(collector: &mut Collector, started: i64, ended: i64) -> Self {
        let tables = collector.take_tables();
        let mut snapshot = Self::new(collector, tables, (started, ended));
        snapshot.look_at_images(&mut collector.images, &mut collector.cache);
        snapshot.look_at_regions(&mut collector.loadmap, &mut collector.images);
        collector.close_unmapped_images();
        snapshot
    }

    /// These tables, before anybody has looked at what they refer to.
    fn new(collector: &Collector, tables: Tables, (started, ended): (i64, i64)) -> Self {
        Self {
            images: FxHashMap::default(),
            code: Vec::with_capacity(tables.shared.pcs.len()),
            files: Vec::new(),
            nameless: FxHashSet::default(),
            generated: Vec::new(),
            in_32_bit_mode: FxHashSet::default(),
            regions: Vec::new(),
            kernel: collector.kernel,
            started,
            ended,
            totals: collector.totals,
            tables,
        }
    }

    /// What goes if it is never written: its samples, and what it tells of losses.
    pub(crate) fn losses(&self) -> (u64, &Lost) {
        let counters = self.tables.counters();
        let samples = counters.get(&Counter::Samples.into()).copied();
        (samples.unwrap_or(0), self.tables.lost())
    }

    /// Bytes that it holds, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.bytes() + of_vec(&self.code) + of_vec(&self.regions)
    }

    fn look_at_images(&mut self, images: &mut Images, cache: &mut DecodeCache) {
        let mut generated: FxHashMap<ImageId, Vec<ImageAddress>> = FxHashMap::default();
        for pc in &self.tables.shared.pcs {
            if !self.images.contains_key(&pc.image)
                && let Some(image) = images.row(pc.image)
            {
                self.images.insert(pc.image, image);
                if let Some((named, is_lost)) = images.names_of(pc.image) {
                    self.files.push((pc.image, named));
                    if is_lost {
                        self.nameless.insert(pc.image);
                    }
                }
                if images.base(pc.image).1 {
                    self.in_32_bit_mode.insert(pc.image);
                }
            }
            let mut bytes = [0; MOST_BYTES];
            let mut read = images.read_to_show(pc.image, pc.address, &mut bytes);
            if images.is_anon(pc.image) {
                generated.entry(pc.image).or_default().push(pc.address);
                read = sampled_code(cache, *pc, &mut bytes);
            }
            // At most as many as there are.
            self.code.push((bytes, read as u8));
        }
        self.name_generated(images, generated);
    }

    /// Takes note of the names of generated code, by the addresses in each image that are told of.
    fn name_generated(&mut self, images: &mut Images, at: FxHashMap<ImageId, Vec<ImageAddress>>) {
        let names = at.into_iter().map(|(image, mut addresses)| {
            addresses.sort_unstable();
            (image, images.names_of_generated(image, &addresses))
        });
        self.generated = names.collect();
    }

    /// Writes it. Nothing is written unless all of it is.
    ///
    /// # Errors
    /// Those of the database.
    pub fn write(&self, writer: &mut Writer, names: &mut KernelNames) -> Result<(), Error> {
        let tables = &self.tables;
        let mut flush = writer.begin(self.started, self.ended)?;
        let pcs = self.write_pcs(&mut flush, names)?;
        let pc = |id: PcId| pcs.get(id.0 as usize).copied().flatten();

        let mut subjects = Vec::with_capacity(tables.shared.subjects.len());
        for subject in &tables.shared.subjects {
            subjects.push(flush.subject(subject)?);
        }
        let mut processes: FxHashMap<ProcessId, ProcessRowId> = FxHashMap::default();
        for (&id, process) in &tables.shared.processes {
            processes.insert(id, flush.process(process)?);
        }
        let owner = |owner: &Owner| {
            Some((
                *processes.get(&owner.process)?,
                *subjects.get(owner.subject.0 as usize)?,
            ))
        };

        for (who, cycles) in tables.cycles() {
            if let (Some((process, subject)), Some(at)) = (owner(&who), pc(cycles.pc)) {
                let caller = cycles.caller.and_then(pc);
                flush.cycles(process, subject, at, caller, cycles.samples, cycles.weight)?;
            }
        }
        // A sample is turned away, or begins a window that does not come by: for an instruction,
        // that is a draw. What is left of evenness is the part of its owner's samples that do.
        let samples = tables.samples();
        let even = |windows: u64, owner: Owner| {
            let all = samples
                .get(&owner)
                .copied()
                .unwrap_or(0)
                .max(windows)
                .max(1);
            tables.evenness * windows as f64 / all as f64
        };
        let mut rejected = 0;
        flush.expect_hotlists(tables.consumers.values.profiles.len());
        let values = &tables.consumers.values;
        let come_back = values.come_back();
        for profile in &values.profiles {
            let key = &profile.key;
            let (Some((process, subject)), Some(at)) = (owner(&key.owner), pc(key.pc)) else {
                continue;
            };
            let later = values.executions_of(profile);
            let seen = values.seen_of(profile, later.as_ref());
            let parameter = key.parameter.to_string();
            let of_time = NewHotlist {
                process,
                subject,
                pc: at,
                caller: key.caller.and_then(pc),
                parameter: &parameter,
                reached: seen.reached,
                unknown: seen.unknown,
                windows: seen.windows,
                even: Some(even(seen.windows, key.owner)),
                list: seen.list,
            };
            let unknown_ones = |reached| (reached, reached, 0, Estimates::default());
            let of_executions = match &later {
                Some(later) if later.is_independent => Some((
                    later.reached as f64,
                    later.unknown as f64,
                    later.returns.windows,
                    Estimates::from(&later.returns.list),
                )),
                Some(later) => Some(unknown_ones(later.reached as f64)),
                None => values.never_back(profile, &come_back).map(unknown_ones),
            };
            let of_executions = of_executions.map(|(reached, unknown, windows, list)| NewHotlist {
                reached,
                unknown,
                windows,
                // Most are turned away by draws.
                even: None,
                list,
                ..of_time
            });
            rejected += is_rejected(flush.hotlist(of_time))?;
            if let Some(of_executions) = of_executions {
                let parameter = format!("{}{parameter}", profiledb::OF_EXECUTIONS);
                rejected += is_rejected(flush.hotlist(NewHotlist {
                    parameter: &parameter,
                    ..of_executions
                }))?;
            }
        }
        for ((who, callee), profile, is_of_executions) in tables.consumers.entries.each() {
            let (Some((process, subject)), Some(at)) = (owner(&who), pc(callee)) else {
                continue;
            };
            let known = is_of_executions.then(|| Estimates::from(&profile.list));
            let at_entry = NewHotlist {
                process,
                subject,
                pc: at,
                caller: profile.caller.and_then(pc),
                parameter: &profile.parameter(),
                reached: profile.reached as f64,
                unknown: match known {
                    Some(_) => profile.unknown as f64,
                    None => profile.reached as f64,
                },
                windows: known.as_ref().map_or(0, |_| profile.windows),
                even: None,
                list: known.unwrap_or_default(),
            };
            rejected += is_rejected(flush.hotlist(at_entry))?;
        }
        for (who, at, directions) in tables.consumers.branches.each(&tables.shared) {
            if let (Some((process, subject)), Some(at)) = (owner(&who), pc(at)) {
                flush.branch(process, subject, at, directions)?;
            }
        }
        for (who, site, callee, calls) in tables.consumers.calls.each() {
            if let (Some((process, subject)), Some(site)) = (owner(&who), pc(site)) {
                flush.call(process, subject, site, callee.and_then(pc), calls)?;
            }
        }
        write_stacks(&mut flush, tables, owner, pc)?;
        self.write_regions(&mut flush, &processes)?;
        if rejected > 0 {
            flush.count(Loss::RejectedProfiles, rejected)?;
        }
        for (what, n) in tables.counters() {
            flush.count(what, n)?;
        }
        flush.commit()
    }

    /// Whether names are written for code of an image, if it is new.
    fn may_be_named(&self, image: ImageId) -> bool {
        let kind = self.images.get(&image).map(|image| image.kind);
        kind == Some(ImageKind::Kernel) || self.files.iter().any(|(of, _)| *of == image)
    }

    fn write_pcs(
        &self,
        flush: &mut Flush<'_>,
        names: &mut KernelNames,
    ) -> Result<Vec<Option<PcRowId>>, Error> {
        let mut rows: FxHashMap<ImageId, ImageRowId> = FxHashMap::default();
        for (&id, image) in &self.images {
            rows.insert(id, flush.image(image)?);
        }
        let mut pcs = Vec::with_capacity(self.tables.shared.pcs.len());
        let mut addresses: FxHashMap<ImageId, Vec<ImageAddress>> = FxHashMap::default();
        for (pc, (bytes, read)) in self.tables.shared.pcs.iter().zip(&self.code) {
            let Some(&image) = rows.get(&pc.image) else {
                pcs.push(None);
                continue;
            };
            let bits = match self.in_32_bit_mode.contains(&pc.image) {
                true => 32,
                false => 64,
            };
            let length = instruction_length(&bytes[..usize::from(*read)], bits);
            let bytes = (length > 0).then_some(&bytes[..length]);
            let row = flush.pc(image, pc.address.0, bytes)?;
            pcs.push(Some(row));
            let is_to_be_named = self.nameless.contains(&pc.image)
                // The others got their names with the flush that had them first.
                || (self.may_be_named(pc.image) && flush.is_new(row));
            if is_to_be_named {
                addresses.entry(pc.image).or_default().push(pc.address);
            }
        }
        let kernels = self.images.iter();
        for (id, _) in kernels.filter(|(_, image)| image.kind == ImageKind::Kernel) {
            if let (Some(&row), Some(addresses)) = (rows.get(id), addresses.get(id)) {
                let symbols = names.symbols(&self.kernel, addresses);
                let mut named = FxHashSet::default();
                for symbol in symbols.into_iter().flatten() {
                    if named.insert(symbol.address) {
                        flush.symbol(row, symbol.address.0, symbol.size, &symbol.name)?;
                    }
                }
            }
        }
        self.write_names(flush, &rows, &mut addresses)?;
        Ok(pcs)
    }

    /// Writes the names of functions that readers will not find.
    fn write_names(
        &self,
        flush: &mut Flush<'_>,
        rows: &FxHashMap<ImageId, ImageRowId>,
        addresses: &mut FxHashMap<ImageId, Vec<ImageAddress>>,
    ) -> Result<(), Error> {
        for (id, names) in &self.generated {
            let Some(&row) = rows.get(id) else { continue };
            for (start, size, name) in names {
                flush.symbol(row, *start, *size, name)?;
            }
        }
        let mut nameless = 0;
        for (id, file) in &self.files {
            let (Some(&row), Some(addresses)) = (rows.get(id), addresses.get_mut(id)) else {
                continue;
            };
            addresses.sort_unstable();
            let found = file.as_ref().ok();
            let found = found.and_then(|file| elf::functions(file, addresses, NAMES_AT_ONCE));
            let Some(functions) = found else {
                nameless += 1;
                continue;
            };
            for function in functions {
                let size = function.end - function.start;
                flush.symbol(row, function.start, size, &function.name)?;
            }
        }
        if nameless > 0 {
            flush.count(Loss::NamesOfImages, nameless)?;
        }
        Ok(())
    }
}

/// Puts what an interrupt saw of an instruction of code without a file into `bytes`; how many
/// bytes these are.
fn sampled_code(cache: &mut DecodeCache, pc: Pc, bytes: &mut [u8; MOST_BYTES]) -> usize {
    let code = cache
        .sampled_code(pc.image.0, pc.address.0)
        .unwrap_or_default();
    let read = code.len().min(MOST_BYTES);
    bytes[..read].copy_from_slice(&code[..read]);
    read
}

/// How many profiles were refused. One that contradicts itself is a defect of ours; it must not
/// take the rest of the flush with it.
fn is_rejected(written: Result<(), Error>) -> Result<u64, Error> {
    match written {
        Err(Error::Invalid { .. }) => Ok(1),
        result => result.map(|()| 0),
    }
}

fn instruction_length(bytes: &[u8], bits: u32) -> usize {
    use iced_x86::{Decoder, DecoderOptions};
    let instruction = Decoder::with_ip(bits, bytes, 0, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        0
    } else {
        instruction.len()
    }
}
