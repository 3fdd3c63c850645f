//! What the rows of a file refer to, and where that is in the profile.

use std::sync::Arc;

use foldhash::HashMap;

use super::builder::push;
use super::file::File;
use crate::places::is_in;
use crate::profile::Extent;
use crate::rows::{Epoch, Image, Process, Subject};
use crate::tables::stored::{StoredFlush, StoredPc, StoredProcess};
use crate::tables::{Counted, References};
use crate::{Error, MAX_INSTRUCTION};

/// A row that others refer to, and its place in the profile once one does.
pub(super) struct ReferredRow<T> {
    pub(super) row: T,
    pub(super) index: Option<usize>,
}

pub(super) type Table<T> = HashMap<i64, ReferredRow<T>>;

pub(super) struct PcOfFile {
    pub(super) image: i64,
    pub(super) address: u64,
    pub(super) bytes: Option<Vec<u8>>,
    /// Whether it is among the places asked for.
    pub(super) wanted: bool,
    /// Whether the builder knows that a row is about it.
    noted: bool,
}

pub(super) struct ProcessOfFile {
    pub(super) epoch: i64,
    pub(super) process: Process,
}

pub(super) struct FlushOfFile {
    pub(super) epoch: i64,
    pub(super) started: i64,
    pub(super) ended: i64,
    pub(super) taken: bool,
}

pub(super) struct EpochOfFile {
    pub(super) cycles_per_unit: f64,
    pub(super) taken: bool,
    /// Begin of the first of its flushes that passed the filter.
    began: Option<i64>,
    /// End of the last of them.
    saved: Option<i64>,
    /// Its place in the profile, if it is shown.
    pub(super) index: Option<usize>,
}

/// What the rows of a file refer to.
#[derive(Default)]
pub(crate) struct Referred {
    pub(super) epochs: HashMap<i64, EpochOfFile>,
    pub(super) flushes: HashMap<i64, FlushOfFile>,
    pub(super) images: Table<Image>,
    pub(super) subjects: Table<Subject>,
    pub(super) processes: Table<ProcessOfFile>,
    pub(super) pcs: Table<PcOfFile>,
    /// The places asked for, by image; `None`: all are.
    places: Option<HashMap<i64, Ranges>>,
    /// Those of which lists of all parameters are asked for, by image.
    details: HashMap<i64, Ranges>,
}

/// Ranges of addresses, in the order of their starts.
type Ranges = Arc<[(u64, u64)]>;

/// Where a row belongs.
pub(crate) enum Placed {
    /// The filter leaves it out.
    Nowhere,
    /// It is not at a place asked for: the index of its image, and what a unit is in cycles.
    Elsewhere(usize, f64),
    /// It is in the profile.
    Here(RowIndices),
}

impl Placed {
    pub(crate) fn here(self) -> Option<RowIndices> {
        match self {
            Placed::Here(place) => Some(place),
            Placed::Nowhere | Placed::Elsewhere(..) => None,
        }
    }
}

impl Referred {
    /// The places asked for in an image; `None`: all are.
    pub(super) fn ranges(&self, image: i64) -> Option<Ranges> {
        let places = self.places.as_ref()?;
        Some(places.get(&image).cloned().unwrap_or_default())
    }

    /// The places in an image of which lists of all parameters are asked for.
    pub(super) fn details(&self, image: i64) -> Option<Ranges> {
        self.details.get(&image).cloned()
    }

    /// Whether an instruction is at a place asked for.
    pub(super) fn is_place(&self, (image, address): (i64, u64)) -> bool {
        self.places.as_ref().is_none_or(|places| {
            let ranges = places.get(&image);
            ranges.is_some_and(|ranges| is_in(ranges, address))
        })
    }

    /// Forgets what is in a profile that is done with.
    pub(super) fn forget_indices(&mut self) {
        self.images
            .values_mut()
            .for_each(|known| known.index = None);
        self.subjects
            .values_mut()
            .for_each(|known| known.index = None);
        self.processes
            .values_mut()
            .for_each(|known| known.index = None);
        self.pcs.values_mut().for_each(|known| known.index = None);
    }
}

/// Where a row that passed the filter belongs.
pub(crate) struct RowIndices {
    pub(crate) process: usize,
    pub(crate) subject: usize,
    pub(crate) pc: usize,
    pub(crate) other: Option<usize>,
    pub(super) cycles_per_unit: f64,
    pub(crate) flush_time: (i64, i64),
}

impl File<'_> {
    pub(super) fn read_epochs(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let mut epochs = Vec::new();
        self.rows("ORDER BY id", |file, id, epoch: Epoch| {
            let cycles_per_unit = epoch.cycles_per_unit;
            if !(cycles_per_unit.is_finite() && cycles_per_unit > 0.0) {
                return Err(
                    file.corrupt(format!("epoch {id} has {cycles_per_unit} cycles per unit"))
                );
            }
            let taken = file.filter.takes_epoch(id) && !file.without.contains(&id);
            referred.epochs.insert(
                id,
                EpochOfFile {
                    cycles_per_unit,
                    taken,
                    began: None,
                    saved: None,
                    index: None,
                },
            );
            epochs.push((id, epoch));
            Ok(())
        })?;

        self.read_flushes(referred)?;
        // Without times in the filter an epoch that has saved nothing yet is shown too.
        let timed = self.filter.is_timed();
        let last = epochs.last().map(|(id, _)| *id);
        for (id, epoch) in epochs {
            let Some(of_file) = referred.epochs.get_mut(&id) else {
                continue;
            };
            if !of_file.taken || (timed && of_file.saved.is_none()) {
                continue;
            }
            let profile = &mut self.builder.profile;
            of_file.index = Some(push(&mut profile.epochs, epoch));
            profile.extents.push(Extent {
                path: self.path.to_owned(),
                id,
                last: Some(id) == last,
                samples: 0,
                began: of_file.began,
                saved: of_file.saved,
            });
        }
        Ok(())
    }

    fn read_flushes(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.rows("ORDER BY id", |file, id, flush: StoredFlush| {
            let StoredFlush {
                epoch,
                started,
                ended,
                ..
            } = flush;
            let Some(of_file) = referred.epochs.get_mut(&epoch) else {
                return Err(file.dangling("epoch", epoch));
            };
            let taken = of_file.taken && file.filter.takes_time(ended);
            let cut = file.builder.profile.cut.map_or(0, |(from, to)| to - from);
            if of_file.taken && file.filter.cuts(started, ended) && ended - started > cut {
                file.builder.profile.cut = Some((started, ended));
            }
            if taken {
                let began = of_file.began.map_or(started, |began| began.min(started));
                of_file.began = Some(began);
                of_file.saved = of_file.saved.max(Some(ended));
            }
            referred.flushes.insert(
                id,
                FlushOfFile {
                    epoch,
                    started,
                    ended,
                    taken,
                },
            );
            Ok(())
        })
    }

    pub(super) fn read_images(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.rows("ORDER BY id", |file, id, row: Image| {
            if let Some(places) = &file.filter.places {
                let ranges = places.of(&row).into();
                referred.places.get_or_insert_default().insert(id, ranges);
            }
            let details = file.filter.details.as_ref().map(|places| places.of(&row));
            if let Some(ranges) = details.filter(|ranges| !ranges.is_empty()) {
                referred.details.insert(id, ranges.into());
            }
            referred.images.insert(id, ReferredRow { row, index: None });
            Ok(())
        })
    }

    pub(super) fn read_subjects(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.rows("ORDER BY id", |_, id, row: Subject| {
            referred
                .subjects
                .insert(id, ReferredRow { row, index: None });
            Ok(())
        })
    }

    pub(super) fn read_processes(&mut self, referred: &mut Referred) -> Result<(), Error> {
        self.rows("ORDER BY id", |_, id, row: StoredProcess| {
            let row = ProcessOfFile {
                epoch: row.epoch,
                process: row.process(),
            };
            referred
                .processes
                .insert(id, ReferredRow { row, index: None });
            Ok(())
        })
    }

    pub(super) fn read_pcs(&mut self, referred: &mut Referred) -> Result<(), Error> {
        let mut of_image: HashMap<i64, &[(u64, u64)]> = HashMap::default();
        self.rows("ORDER BY id", |file, id, row: StoredPc| {
            let StoredPc {
                image,
                address,
                bytes,
            } = row;
            if let Some(bytes) = &bytes
                && !(1..=MAX_INSTRUCTION).contains(&bytes.len())
            {
                let detail = format!("pc {id} is an instruction of {} bytes", bytes.len());
                return Err(file.corrupt(detail));
            }
            let Some(ReferredRow { row: known, .. }) = referred.images.get(&image) else {
                return Err(file.dangling("image", image));
            };
            let ranges = match (&file.filter.places, of_image.get(&image)) {
                (None, _) => None,
                (Some(_), Some(ranges)) => Some(*ranges),
                (Some(places), None) => {
                    let ranges = places.of(known);
                    of_image.insert(image, ranges);
                    Some(ranges)
                }
            };
            let pc = PcOfFile {
                image,
                address,
                bytes,
                wanted: ranges.is_none_or(|ranges| is_in(ranges, address)),
                noted: false,
            };
            referred.pcs.insert(
                id,
                ReferredRow {
                    row: pc,
                    index: None,
                },
            );
            Ok(())
        })
    }

    /// Resolves what a row refers to.
    pub(crate) fn place(
        &mut self,
        referred: &mut Referred,
        row: &impl Counted,
    ) -> Result<Placed, Error> {
        self.place_if(referred, row, |pc, _| pc)
    }

    /// As [`File::place`]; whether it is at a place asked for follows from whether the PC is, and
    /// whether the second PC is.
    pub(super) fn place_if(
        &mut self,
        referred: &mut Referred,
        row: &impl Counted,
        is_here: impl Fn(bool, bool) -> bool,
    ) -> Result<Placed, Error> {
        let References {
            flush,
            process,
            subject,
            pc,
            other,
        } = row.references();
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
        let Some(known_process) = referred.processes.get_mut(&process) else {
            return Err(self.dangling("process", process));
        };
        let Some(known_subject) = referred.subjects.get_mut(&subject) else {
            return Err(self.dangling("subject", subject));
        };
        if known_process.row.epoch != epoch {
            let detail = format!("a row of epoch {epoch} refers to process {process} of another");
            return Err(self.corrupt(detail));
        }
        for id in [Some(pc), other].into_iter().flatten() {
            if !referred.pcs.contains_key(&id) {
                return Err(self.dangling("pc", id));
            }
        }
        let image = referred
            .pcs
            .get(&pc)
            .and_then(|pc| referred.images.get(&pc.row.image));
        let wanted = taken
            && self.filter.takes_pid(known_process.row.process.pid)
            && self.filter.takes_subject(&known_subject.row)
            && image.is_some_and(|image| self.filter.takes_image(&image.row));
        if !wanted {
            return Ok(Placed::Nowhere);
        }
        let is_wanted = |id: &i64| referred.pcs.get(id).is_some_and(|pc| pc.row.wanted);
        if !is_here(is_wanted(&pc), other.as_ref().is_some_and(is_wanted)) {
            let image = self.note(referred, pc)?;
            if let Some(other) = other {
                self.note(referred, other)?;
            }
            return Ok(Placed::Elsewhere(image, cycles_per_unit));
        }

        let process = *known_process.index.get_or_insert_with(|| {
            push(
                &mut self.builder.profile.processes,
                known_process.row.process.clone(),
            )
        });
        let subject = *known_subject
            .index
            .get_or_insert_with(|| self.builder.subject(known_subject.row));
        let pc = self.pc_index(referred, pc)?;
        let other = other
            .map(|other| self.pc_index(referred, other))
            .transpose()?;
        Ok(Placed::Here(RowIndices {
            process,
            subject,
            pc,
            other,
            cycles_per_unit,
            flush_time: (started, ended),
        }))
    }

    /// Notes that there is a row about a PC which is not read, and returns its image's index.
    fn note(&mut self, referred: &mut Referred, id: i64) -> Result<usize, Error> {
        let Some(pc) = referred.pcs.get_mut(&id) else {
            return Err(self.dangling("pc", id));
        };
        let Some(image) = referred.images.get_mut(&pc.row.image) else {
            return Err(self.dangling("image", pc.row.image));
        };
        let image = *image
            .index
            .get_or_insert_with(|| self.builder.image(&image.row));
        if !pc.row.noted {
            pc.row.noted = true;
            let (is_wanted, address) = (pc.row.wanted, pc.row.address);
            self.builder.note(image, address);
            if is_wanted {
                // Of a place asked for, who is called from there is an instruction, too.
                self.pc_index(referred, id)?;
            }
        }
        Ok(image)
    }

    pub(super) fn pc_index(&mut self, referred: &mut Referred, id: i64) -> Result<usize, Error> {
        let Some(pc) = referred.pcs.get_mut(&id) else {
            return Err(self.dangling("pc", id));
        };
        if let Some(index) = pc.index {
            return Ok(index);
        }
        let Some(image) = referred.images.get_mut(&pc.row.image) else {
            return Err(self.dangling("image", pc.row.image));
        };
        let image = *image
            .index
            .get_or_insert_with(|| self.builder.image(&image.row));
        let index = self
            .builder
            .pc(image, pc.row.address, pc.row.bytes.as_deref());
        pc.index = Some(index);
        Ok(index)
    }
}
