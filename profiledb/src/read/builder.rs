//! The profile so far: rows of all files, each recurring one once.

use std::collections::{BTreeMap, HashMap};

use crate::profile::{FlushCounters, Pc, Profile, SymbolRow, Total};
use crate::rows::{Image, ImageKind, Subject};

/// The profile so far, and where its rows are.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    images: HashMap<(ImageKind, String, String), usize>,
    subjects: HashMap<Subject, usize>,
    pcs: HashMap<(usize, u64), usize>,
    pub(super) symbols: BTreeMap<(usize, u64), (u64, String)>,
    /// Not all rows are read: see `noted`.
    notes: bool,
    /// Where PCs would be in the profile if all rows were read. Reports break ties by that.
    noted: HashMap<(usize, u64), usize>,
    /// Rows of earlier files that this one has added something to.
    completed: Vec<Completed>,
}

/// A row of an earlier file that was completed from a later one.
enum Completed {
    Image(usize),
    Pc(usize),
}

/// How far the profile had come before a file was read.
pub(super) struct Mark {
    epochs: usize,
    images: usize,
    subjects: usize,
    processes: usize,
    pcs: usize,
    cycles: usize,
    hotlists: usize,
    branches: usize,
    calls: usize,
    totals: Vec<Total>,
    noted: usize,
    counters: BTreeMap<(String, String), u64>,
    latest: Option<FlushCounters>,
}

impl Builder {
    /// A profile of all rows, or of those at some places.
    pub(super) fn new(all: bool) -> Builder {
        Builder {
            notes: !all,
            ..Builder::default()
        }
    }

    /// Notes that there is a row about a PC.
    pub(super) fn note(&mut self, image: usize, address: u64) {
        let next = self.noted.len();
        self.noted.entry((image, address)).or_insert(next);
    }

    /// The image of a PC of the profile.
    pub(super) fn image_of(&self, pc: usize) -> usize {
        self.profile.pcs.get(pc).map_or(0, |pc| pc.image)
    }

    /// Adds interrupts in an image.
    pub(super) fn add_total(&mut self, image: usize, samples: u64, cycles: f64) {
        let totals = &mut self.profile.totals;
        if totals.len() <= image {
            totals.resize(image + 1, Total::default());
        }
        if let Some(total) = totals.get_mut(image) {
            total.samples = total.samples.saturating_add(samples);
            total.cycles += cycles;
        }
    }

    pub(super) fn image(&mut self, image: &Image) -> usize {
        let key = (image.kind, image.identity.clone(), image.path.clone());
        let images = &mut self.profile.images;
        let index = *self
            .images
            .entry(key)
            .or_insert_with(|| push(images, image.clone()));
        if let Some(known) = images.get_mut(index)
            && known.build_id.is_none()
            && image.build_id.is_some()
        {
            known.build_id.clone_from(&image.build_id);
            self.completed.push(Completed::Image(index));
        }
        index
    }

    pub(super) fn subject(&mut self, subject: Subject) -> usize {
        let subjects = &mut self.profile.subjects;
        *self
            .subjects
            .entry(subject)
            .or_insert_with(|| push(subjects, subject))
    }

    pub(super) fn pc(&mut self, image: usize, address: u64, bytes: &Option<Vec<u8>>) -> usize {
        if self.notes {
            self.note(image, address);
        }
        let pcs = &mut self.profile.pcs;
        let index = *self.pcs.entry((image, address)).or_insert_with(|| {
            push(
                pcs,
                Pc {
                    image,
                    address,
                    bytes: None,
                },
            )
        });
        if let Some(known) = pcs.get_mut(index)
            && known.bytes.is_none()
            && bytes.is_some()
        {
            known.bytes.clone_from(bytes);
            self.completed.push(Completed::Pc(index));
        }
        index
    }

    /// Where the profile is to be put back to if the next file turns out to be damaged.
    pub(super) fn mark(&mut self) -> Mark {
        self.completed.clear();
        let profile = &self.profile;
        Mark {
            epochs: profile.epochs.len(),
            images: profile.images.len(),
            subjects: profile.subjects.len(),
            processes: profile.processes.len(),
            pcs: profile.pcs.len(),
            cycles: profile.cycles.len(),
            hotlists: profile.hotlists.len(),
            branches: profile.branches.len(),
            calls: profile.calls.len(),
            totals: profile.totals.clone(),
            noted: self.noted.len(),
            counters: profile.counters.clone(),
            latest: profile.latest.clone(),
        }
    }

    /// Takes back what was read since the mark. Names are not among it: they come last, all or
    /// none.
    pub(super) fn undo(&mut self, mark: Mark) {
        let profile = &mut self.profile;
        for completed in self.completed.drain(..) {
            match completed {
                Completed::Image(index) => {
                    if let Some(image) = profile.images.get_mut(index) {
                        image.build_id = None;
                    }
                }
                Completed::Pc(index) => {
                    if let Some(pc) = profile.pcs.get_mut(index) {
                        pc.bytes = None;
                    }
                }
            }
        }
        profile.epochs.truncate(mark.epochs);
        profile.extents.truncate(mark.epochs);
        profile.images.truncate(mark.images);
        profile.subjects.truncate(mark.subjects);
        profile.processes.truncate(mark.processes);
        profile.pcs.truncate(mark.pcs);
        profile.cycles.truncate(mark.cycles);
        profile.hotlists.truncate(mark.hotlists);
        profile.branches.truncate(mark.branches);
        profile.calls.truncate(mark.calls);
        profile.totals = mark.totals;
        self.noted.retain(|_, place| *place < mark.noted);
        profile.counters = mark.counters;
        profile.latest = mark.latest;
        self.images.retain(|_, index| *index < mark.images);
        self.subjects.retain(|_, index| *index < mark.subjects);
        self.pcs.retain(|_, index| *index < mark.pcs);
    }

    pub(super) fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile
            .totals
            .resize(profile.images.len(), Total::default());
        if self.notes {
            reorder(&mut profile, &self.noted);
        }
        profile.symbols = self
            .symbols
            .into_iter()
            .map(|((image, address), (size, name))| SymbolRow {
                image,
                address,
                size,
                name,
            })
            .collect();
        profile
    }
}

pub(super) fn push<T>(rows: &mut Vec<T>, row: T) -> usize {
    rows.push(row);
    rows.len() - 1
}

/// Puts the PCs into the order of these places.
fn reorder(profile: &mut Profile, places: &HashMap<(usize, u64), usize>) {
    let old = std::mem::take(&mut profile.pcs);
    let mut order: Vec<(Option<usize>, usize)> = old
        .iter()
        .enumerate()
        .map(|(index, pc)| (places.get(&(pc.image, pc.address)).copied(), index))
        .collect();
    order.sort_unstable();
    let mut new_of = vec![0; old.len()];
    for (new, (_, index)) in order.iter().enumerate() {
        if let Some(place) = new_of.get_mut(*index) {
            *place = new;
        }
    }
    let new = |index: usize| new_of.get(index).copied().unwrap_or(index);
    let mut old: Vec<Option<Pc>> = old.into_iter().map(Some).collect();
    let moved = order
        .iter()
        .filter_map(|(_, index)| old.get_mut(*index)?.take());
    profile.pcs = moved.collect();
    for row in &mut profile.cycles {
        (row.pc, row.caller) = (new(row.pc), row.caller.map(new));
    }
    for row in &mut profile.hotlists {
        (row.pc, row.caller) = (new(row.pc), row.caller.map(new));
    }
    for row in &mut profile.branches {
        row.pc = new(row.pc);
    }
    for row in &mut profile.calls {
        (row.site, row.callee) = (new(row.site), row.callee.map(new));
    }
}
