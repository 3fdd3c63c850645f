//! Tables into the database: one transaction a flush.

use hotlist::{Config, Hotlist};
use profiledb::{Error, Flush, ImageId as ImageRow, NewHotlist, PcId as PcRow, ProcessId, Writer};
use rustc_hash::FxHashMap;

use crate::elf;
use crate::images::{ImageId, Images};
use crate::kernel::Kernel;
use crate::loadmap::ProcessId as Process;
use crate::tables::{Owner, PcId, Tables};

/// Bytes of symbol tables that are read in one flush, for names that readers will not find.
const NAMES_PER_FLUSH: u64 = 128 << 20;

/// Writes the tables; `started` and `ended` are wall-clock nanoseconds. Nothing is written
/// unless all of it is.
pub(crate) fn write(
    writer: &mut Writer,
    tables: &Tables,
    images: &mut Images,
    kernel: &mut Kernel,
    started: i64,
    ended: i64,
) -> Result<(), Error> {
    let mut flush = writer.begin(started, ended)?;
    let pcs = write_pcs(&mut flush, tables, images, kernel)?;
    let pc = |id: PcId| pcs.get(id.0 as usize).copied().flatten();

    let mut subjects = Vec::with_capacity(tables.subjects.len());
    for subject in &tables.subjects {
        subjects.push(flush.subject(subject)?);
    }
    let mut processes: FxHashMap<Process, ProcessId> = FxHashMap::default();
    for (&id, process) in &tables.processes {
        processes.insert(id, flush.process(process)?);
    }
    let owner = |owner: &Owner| {
        Some((
            *processes.get(&owner.process)?,
            *subjects.get(owner.subject.0 as usize)?,
        ))
    };

    for ((who, at, caller), cycles) in &tables.cycles {
        if let (Some((process, subject)), Some(at)) = (owner(who), pc(*at)) {
            let caller = caller.and_then(pc);
            flush.cycles(process, subject, at, caller, cycles.samples, cycles.weight)?;
        }
    }
    let mut rejected = 0;
    let empty = Hotlist::new(&Config::default().precise()).to_parts();
    for profile in &tables.profiles {
        let key = &profile.key;
        let (Some((process, subject)), Some(at)) = (owner(&key.owner), pc(key.pc)) else {
            continue;
        };
        let parts = match &profile.list {
            Some(list) => list.to_parts(),
            None => empty.clone(),
        };
        let written = flush.hotlist(&NewHotlist {
            process,
            subject,
            pc: at,
            caller: key.caller.and_then(pc),
            parameter: &key.parameter.to_string(),
            reached: profile.reached,
            unknown: profile.unknown,
            windows: profile.windows,
            parts,
        });
        match written {
            // A profile that contradicts itself is a defect of ours; it must not take the rest of
            // the flush with it.
            Err(Error::Invalid { .. }) => rejected += 1,
            result => result?,
        }
    }
    for (who, at, directions) in tables.branches() {
        if let (Some((process, subject)), Some(at)) = (owner(&who), pc(at)) {
            let (taken, not_taken) = (directions.taken, directions.not_taken);
            flush.branch(process, subject, at, taken, not_taken, directions.unknown)?;
        }
    }
    for ((who, site, callee), calls) in &tables.calls {
        if let (Some((process, subject)), Some(site)) = (owner(who), pc(*site)) {
            flush.call(process, subject, site, callee.and_then(pc), *calls)?;
        }
    }
    if rejected > 0 {
        flush.counter("lost", "rejected_profiles", rejected)?;
    }
    for ((kind, name), value) in tables.counters() {
        flush.counter(kind, name, value)?;
    }
    flush.commit()
}

fn write_pcs(
    flush: &mut Flush<'_>,
    tables: &Tables,
    images: &mut Images,
    kernel: &mut Kernel,
) -> Result<Vec<Option<PcRow>>, Error> {
    let mut rows: FxHashMap<ImageId, Option<(ImageRow, bool)>> = FxHashMap::default();
    let mut pcs = Vec::with_capacity(tables.pcs.len());
    let mut addresses: FxHashMap<ImageId, Vec<u64>> = FxHashMap::default();
    for pc in &tables.pcs {
        let row = match rows.get(&pc.image) {
            Some(row) => *row,
            None => {
                let row = match images.row(pc.image) {
                    Some(image) => {
                        let kernel = image.kind == profiledb::ImageKind::Kernel;
                        Some((flush.image(&image)?, kernel))
                    }
                    None => None,
                };
                rows.insert(pc.image, row);
                row
            }
        };
        let Some((image, _)) = row else {
            pcs.push(None);
            continue;
        };
        addresses.entry(pc.image).or_default().push(pc.address);
        let mut bytes = [0; 15];
        let read = images.read(pc.image, pc.address, &mut bytes);
        let length = instruction_length(&bytes[..read]);
        let bytes = (length > 0).then_some(&bytes[..length]);
        pcs.push(Some(flush.pc(image, pc.address, bytes)?));
    }
    let mut room = NAMES_PER_FLUSH;
    let mut nameless = 0;
    for (id, mut addresses) in addresses {
        let Some((image, is_kernel)) = rows.get(&id).copied().flatten() else {
            continue;
        };
        if is_kernel {
            for symbol in kernel.symbols(&addresses).into_iter().flatten() {
                flush.symbol(image, symbol.address, symbol.size, &symbol.name)?;
            }
        } else if let Some(file) = images.file_without_path(id) {
            if room == 0 {
                nameless += 1;
                continue;
            }
            addresses.sort_unstable();
            let (functions, bytes) = elf::functions(file, &addresses).unwrap_or_default();
            room = room.saturating_sub(bytes);
            for function in functions {
                flush.symbol(image, function.address, function.size, &function.name)?;
            }
        }
    }
    if nameless > 0 {
        flush.counter("lost", "names_of_images", nameless)?;
    }
    Ok(pcs)
}

fn instruction_length(bytes: &[u8]) -> usize {
    use iced_x86::{Decoder, DecoderOptions};
    let instruction = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        0
    } else {
        instruction.len()
    }
}
