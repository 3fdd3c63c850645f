//! What the rows of a source refer to: judged once, and put into the view when a row that
//! goes there refers to it.

use foldhash::{HashMap, HashMapExt as _, HashSet, HashSetExt as _};
use std::rc::Rc;

use super::Stop;
use super::copy::Copy;
use super::target::{LastEpoch, Target};
use crate::chunk::{ChunkKind, bucket_of};
use crate::rows::{Epoch, Image, ImageKind, Subject};
use crate::tables::stored::{StoredFlush, StoredPc, StoredProcess};
use crate::tables::{self, Record};
use crate::{Error, MAX_INSTRUCTION};

/// A flush of the source that was asked for.
pub(super) struct FlushOfSource {
    /// Its epoch in the view.
    epoch: i64,
    pub(super) started: i64,
    pub(super) ended: i64,
    grain: i64,
    replaced: i64,
    /// Its id in the view, once it is there.
    pub(super) id: Option<i64>,
    /// Interrupts that the view shows of it.
    pub(super) samples: u64,
}

/// An access tag that the viewer may see and asked for.
pub(super) struct SubjectOfSource {
    row: Subject,
    id: Option<i64>,
}

/// An image of the source.
pub(super) struct ImageOfSource {
    pub(super) row: Image,
    /// Whether the filter takes it.
    pub(super) wanted: bool,
    /// All addresses are asked for, else those in the ranges.
    all: bool,
    ranges: Vec<(u64, u64)>,
    pub(super) id: Option<i64>,
    /// Addresses of its PCs in the view, where names may be needed for them.
    pub(super) addresses: Vec<u64>,
}

impl ImageOfSource {
    /// Its id in the view, where it is put if it is not there yet.
    pub(super) fn put(&mut self, view: &mut Target) -> Result<i64, Stop> {
        match self.id {
            Some(id) => Ok(id),
            None => Ok(*self.id.insert(view.image(&self.row)?)),
        }
    }

    /// Whether rows of a bucket may be asked for.
    pub(super) fn may_want(&self, kind: ChunkKind, bucket: u64) -> bool {
        let overlaps = |(start, end): &(u64, u64)| {
            (bucket_of(kind, *start)..=bucket_of(kind, end.saturating_sub(1))).contains(&bucket)
        };
        self.wanted && (self.all || self.ranges.iter().any(overlaps))
    }

    /// Whether all of its addresses are asked for.
    pub(super) fn wants_all(&self) -> bool {
        self.wanted && self.all
    }

    /// Whether its address is asked for.
    pub(super) fn wants(&self, address: u64) -> bool {
        self.wanted && (self.all || self.is_in_range(address))
    }

    /// Whether it is asked for by its address.
    pub(super) fn is_in_range(&self, address: u64) -> bool {
        let in_range = |(start, end): &(u64, u64)| (*start..*end).contains(&address);
        self.wanted && self.ranges.iter().any(in_range)
    }
}

/// An instruction of the source.
#[derive(Clone, Copy)]
pub(super) struct PcOfSource {
    pub(super) kernel: bool,
    pub(super) wanted: bool,
    /// Whether its image is, whatever addresses are.
    pub(super) of_wanted_image: bool,
    /// Whether it is wanted for its address.
    pub(super) is_in_range: bool,
    id: Option<i64>,
}

impl Copy<'_> {
    /// Puts the epochs into the view, and notes which flushes are wanted.
    pub(super) fn epochs(&mut self) -> Result<(), Stop> {
        let filter = Rc::clone(&self.filter);
        let mut epochs = Vec::new();
        let mut last = None;
        self.rows("ORDER BY id", |copy, of_source, mut epoch: Epoch| {
            if !copy.viewer.is_privileged() {
                epoch.command.clear();
                epoch.settings = epoch.settings.withheld();
            }
            let id = copy.view.epoch_id(of_source);
            last = Some((of_source, id, epoch.clone()));
            if filter.takes_epoch(id) {
                epochs.push((of_source, id, epoch));
            }
            Ok(())
        })?;
        let ids: HashMap<i64, i64> = epochs.iter().map(|(old, new, _)| (*old, *new)).collect();
        let saved = self.read_flushes(&ids)?;
        if let Some((of_source, id, epoch)) = last {
            self.view.last_epoch = Some(LastEpoch {
                id,
                is_there: false,
                epoch,
                saved: saved.get(&of_source).copied(),
            });
        }
        let of_cut = self.cut.as_ref().map(|(epoch, ..)| *epoch);
        let with_flushes = self.flushes.values().map(|flush| flush.epoch);
        let with_flushes: HashSet<i64> = with_flushes.chain(of_cut).collect();
        for (_, id, epoch) in epochs {
            if filter.is_timed() && !with_flushes.contains(&id) {
                continue;
            }
            self.put_epoch(id, &epoch)?;
        }
        self.put_cut()
    }

    /// Puts the flush into the view that the time asked for ends within, without rows: so its
    /// reader knows that more of that time, or any of it, is not to be had.
    fn put_cut(&mut self) -> Result<(), Stop> {
        if let Some((epoch, started, ended, grain)) = self.cut.take() {
            // What it was made of is nobody's matter who sees nothing of it.
            self.view.insert(&StoredFlush {
                epoch,
                started,
                ended,
                grain,
                replaced: 1,
            })?;
        }
        Ok(())
    }

    fn put_epoch(&mut self, id: i64, epoch: &Epoch) -> Result<(), Stop> {
        self.view.insert_as(id, epoch)?;
        if let Some(last) = self.view.last_epoch.as_mut().filter(|last| last.id == id) {
            last.is_there = true;
        }
        Ok(())
    }

    /// Goes on with the last epoch of the sources before: with the flushes that these lack.
    pub(super) fn go_on(&mut self) -> Result<(), Stop> {
        let mut own = None;
        self.rows("", |_, id, epoch: Epoch| {
            own = Some((id, epoch.started));
            Ok(())
        })?;
        let last = self.view.last_epoch.as_ref();
        let (Some((of_source, started)), Some(last)) = (own, last) else {
            return Ok(());
        };
        let (id, saved) = (last.id, last.saved);
        if started != last.epoch.started || !self.filter.takes_epoch(id) {
            return Ok(());
        }
        self.read_flushes(&std::iter::once((of_source, id)).collect())?;
        self.flushes
            .retain(|_, flush| saved.is_none_or(|saved| flush.started >= saved));
        let epoch = self
            .view
            .last_epoch
            .as_ref()
            .filter(|last| !last.is_there)
            .map(|last| last.epoch.clone());
        if let Some(epoch) = epoch.filter(|_| !self.flushes.is_empty()) {
            self.put_epoch(id, &epoch)?;
        }
        Ok(())
    }

    /// Notes the flushes of these epochs that are wanted, and says when the last of each epoch
    /// ended.
    fn read_flushes(&mut self, epochs: &HashMap<i64, i64>) -> Result<HashMap<i64, i64>, Stop> {
        let filter = Rc::clone(&self.filter);
        let mut saved: HashMap<i64, i64> = HashMap::new();
        self.rows("ORDER BY id", |copy, id, flush: StoredFlush| {
            let StoredFlush {
                epoch,
                started,
                ended,
                grain,
                replaced,
            } = flush;
            let last = saved.entry(epoch).or_insert(ended);
            *last = ended.max(*last);
            if let Some(&epoch) = epochs.get(&epoch)
                && filter.takes_time(ended)
            {
                let flush = FlushOfSource {
                    epoch,
                    started,
                    ended,
                    grain,
                    replaced,
                    id: None,
                    samples: 0,
                };
                copy.flushes.insert(id, flush);
            } else if let Some(&epoch) = epochs.get(&epoch)
                && grain > 0
                && filter.cuts(started, ended)
            {
                copy.cut = Some((epoch, started, ended, grain));
            }
            Ok(())
        })?;
        Ok(saved)
    }

    /// Notes the access tags whose rows go into the view.
    pub(super) fn read_subjects(&mut self) -> Result<(), Stop> {
        let filter = Rc::clone(&self.filter);
        self.rows("", |copy, id, subject: Subject| {
            if copy.viewer.may_see(&subject) && filter.takes_subject(&subject) {
                let row_of_source = SubjectOfSource {
                    row: subject,
                    id: None,
                };
                copy.subjects.insert(id, row_of_source);
            }
            Ok(())
        })
    }

    /// Notes the processes asked for, if not all are.
    pub(super) fn read_pids(&mut self) -> Result<(), Stop> {
        if self.filter.pids.is_empty() {
            return Ok(());
        }
        let mut wanted = HashSet::new();
        self.rows("", |copy, id, process: StoredProcess| {
            if copy.filter.takes_pid(process.pid) {
                wanted.insert(id);
            }
            Ok(())
        })?;
        self.wanted_processes = Some(wanted);
        Ok(())
    }

    pub(super) fn read_images(&mut self) -> Result<(), Stop> {
        self.rows("", |copy, id, image: Image| {
            let selection = copy.selection;
            let ranges: Vec<(u64, u64)> = selection
                .ranges
                .iter()
                .filter(|range| image.is_named(&range.image))
                .map(|range| (range.start, range.end))
                .collect();
            let image = ImageOfSource {
                wanted: copy.filter.takes_image(&image),
                all: selection.ranges.is_empty(),
                row: image,
                ranges,
                id: None,
                addresses: Vec::new(),
            };
            copy.images.insert(id, image);
            Ok(())
        })
    }

    /// What is known of an instruction.
    pub(super) fn pc(&mut self, id: i64) -> Result<PcOfSource, Stop> {
        if let Some(pc) = self.pcs.get(&id) {
            return Ok(*pc);
        }
        let row = self.pc_row(id)?;
        let Some(image) = self.images.get(&row.image) else {
            return Err(self.dangling("image", row.image));
        };
        let address = row.address;
        let is_in_range = image.is_in_range(address);
        let pc = PcOfSource {
            kernel: image.row.kind == ImageKind::Kernel,
            wanted: image.wants(address),
            of_wanted_image: image.wanted,
            is_in_range,
            id: None,
        };
        self.pcs.insert(id, pc);
        // It may be wanted in a moment: a row has two at most.
        self.read.swap(0, 1);
        self.read[0] = Some((id, row));
        Ok(pc)
    }

    fn pc_row(&self, id: i64) -> Result<StoredPc, Stop> {
        let row: StoredPc = self.row(id)?;
        let bytes = row.bytes.as_ref().map(Vec::len);
        match bytes {
            Some(bytes) if !(1..=MAX_INSTRUCTION).contains(&bytes) => {
                Err(self.corrupt(format!("pc {id} is an instruction of {bytes} bytes")))
            }
            _ => Ok(row),
        }
    }

    /// The instruction's id in the view, where it is put if it is not there yet.
    pub(super) fn put_pc(&mut self, id: i64) -> Result<i64, Stop> {
        let pc = self.pc(id)?;
        if let Some(id) = pc.id {
            return Ok(id);
        }
        let is_it =
            |read: &&mut Option<(i64, StoredPc)>| matches!(read, Some((of, _)) if *of == id);
        let StoredPc {
            image: of_source,
            address,
            bytes,
        } = match self.read.iter_mut().find(is_it) {
            Some(read) => match read.take() {
                Some((_, row)) => row,
                None => self.pc_row(id)?,
            },
            None => self.pc_row(id)?,
        };
        let image_id = self.put_image(of_source)?;
        let Some(image) = self.images.get_mut(&of_source) else {
            return Err(self.dangling("image", of_source));
        };
        if self.with_names.contains(&of_source) {
            image.addresses.push(address);
        }
        let new = self.view.pc(&StoredPc {
            image: image_id,
            address,
            bytes,
        })?;
        self.pcs.insert(
            id,
            PcOfSource {
                id: Some(new),
                ..pc
            },
        );
        Ok(new)
    }

    /// The image's id in the view, where it is put if it is not there yet.
    pub(super) fn put_image(&mut self, of_source: i64) -> Result<i64, Stop> {
        match self.images.get_mut(&of_source) {
            Some(image) => image.put(self.view),
            None => Err(self.dangling("image", of_source)),
        }
    }

    /// The flush's id in the view, where it is put if it is not there yet.
    pub(super) fn put_flush(&mut self, id: i64) -> Result<i64, Stop> {
        let Some(flush) = self.flushes.get_mut(&id) else {
            return Err(self.dangling("flush", id));
        };
        if let Some(id) = flush.id {
            return Ok(id);
        }
        let new = self.view.insert(&StoredFlush {
            epoch: flush.epoch,
            started: flush.started,
            ended: flush.ended,
            grain: flush.grain,
            replaced: flush.replaced,
        })?;
        flush.id = Some(new);
        Ok(new)
    }

    /// The access tag's id in the view, where it is put if it is not there yet.
    pub(super) fn put_subject(&mut self, id: i64) -> Result<i64, Stop> {
        let Some(subject) = self.subjects.get_mut(&id) else {
            return Err(self.dangling("subject", id));
        };
        match subject.id {
            Some(id) => Ok(id),
            None => Ok(*subject.id.insert(self.view.subject(&subject.row)?)),
        }
    }

    /// The process's id in the view, where it is put if it is not there yet.
    pub(super) fn put_process(&mut self, id: i64, flush: i64) -> Result<i64, Stop> {
        if let Some(id) = self.processes.get(&id) {
            return Ok(*id);
        }
        let mut row: StoredProcess = self.row(id)?;
        let Some(flush) = self.flushes.get(&flush) else {
            return Err(self.dangling("flush", flush));
        };
        row.epoch = flush.epoch;
        // What the collector has saved may have the process already.
        let known = match self.is_newest {
            true => self.view.find(&row)?,
            false => None,
        };
        let new = match known {
            Some(id) => id,
            None => self.view.insert(&row)?,
        };
        self.processes.insert(id, new);
        Ok(new)
    }

    /// The row of a table of the source that another refers to.
    fn row<R: Record>(&self, id: i64) -> Result<R, Stop> {
        match tables::get(self.source, id).map_err(|e| self.failed(e))? {
            Some(row) => Ok(row),
            None => Err(self.dangling(R::TABLE.name, id)),
        }
    }

    pub(super) fn failed(&self, error: rusqlite::Error) -> Stop {
        Stop::Source(Error::sqlite(self.path, error))
    }

    pub(super) fn corrupt(&self, detail: String) -> Stop {
        Stop::Source(Error::corrupt(self.path, detail))
    }

    pub(super) fn dangling(&self, table: &str, id: i64) -> Stop {
        self.corrupt(format!("a row refers to {table} {id}, which is missing"))
    }
}
