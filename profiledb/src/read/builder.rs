//! The profile so far: rows of all files, each recurring one once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::order;
use super::stacks;
use crate::profile::{FlushCounters, Pc, Profile, StackNode, SymbolRow, Total};
use crate::rows::{Image, ImageKind, Subject};

/// The profile so far, and where its rows are.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    images: HashMap<(ImageKind, String, String), usize>,
    subjects: HashMap<Subject, usize>,
    pcs: HashMap<(usize, u64), usize>,
    nodes: HashMap<StackNode, usize>,
    parameters: HashSet<Arc<str>>,
    pub(super) symbols: BTreeMap<(usize, u64), (u64, String)>,
    /// Rows came from chunks: what they refer to is put into an order that does not depend on what
    /// else is read.
    pub(super) packed: bool,
    /// Not all rows are read: see `noted`.
    notes: bool,
    /// Where PCs would be in the profile if all rows were read. Reports break ties by that.
    noted: HashMap<(usize, u64), usize>,
    /// Rows of earlier files that this one has added something to.
    completed: Vec<Completed>,
    /// Instructions of lists that were left out, by image.
    passed_over: HashMap<usize, HashSet<u64>>,
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
    stacks: usize,
    nodes: usize,
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

    /// Notes that there is a list at an instruction, which is left out.
    pub(super) fn pass_over(&mut self, image: usize, address: u64) {
        self.passed_over.entry(image).or_default().insert(address);
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
        self.complete(index, bytes.as_deref());
        index
    }

    /// The node of a frame that is called from another node.
    pub(super) fn node(&mut self, parent: Option<usize>, pc: usize) -> usize {
        let node = StackNode { parent, pc };
        let nodes = &mut self.profile.stack_nodes;
        *self.nodes.entry(node).or_insert_with(|| push(nodes, node))
    }

    /// Notes the encoding of an instruction, if that is in the profile.
    pub(super) fn encoding(&mut self, image: usize, address: u64, bytes: &[u8]) {
        if let Some(&index) = self.pcs.get(&(image, address)) {
            self.complete(index, Some(bytes));
        }
    }

    fn complete(&mut self, pc: usize, bytes: Option<&[u8]>) {
        if let Some(known) = self.profile.pcs.get_mut(pc)
            && known.bytes.is_none()
            && let Some(bytes) = bytes
        {
            known.bytes = Some(bytes.to_vec());
            self.completed.push(Completed::Pc(pc));
        }
    }

    /// A parameter's name, which many rows share.
    pub(crate) fn parameter(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.parameters.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.parameters.insert(Arc::clone(&name));
        name
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
            stacks: profile.stacks.len(),
            nodes: profile.stack_nodes.len(),
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
        profile.stacks.truncate(mark.stacks);
        profile.stack_nodes.truncate(mark.nodes);
        profile.totals = mark.totals;
        self.noted.retain(|_, place| *place < mark.noted);
        profile.counters = mark.counters;
        profile.latest = mark.latest;
        self.images.retain(|_, index| *index < mark.images);
        self.passed_over.retain(|index, _| *index < mark.images);
        self.nodes.retain(|_, index| *index < mark.nodes);
        self.subjects.retain(|_, index| *index < mark.subjects);
        self.pcs.retain(|_, index| *index < mark.pcs);
    }

    pub(super) fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile
            .totals
            .resize(profile.images.len(), Total::default());
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
        profile.passed_over = vec![Vec::new(); profile.images.len()];
        for (image, mut addresses) in self.passed_over {
            addresses.retain(|address| !self.pcs.contains_key(&(image, *address)));
            if let Some(of_image) = profile.passed_over.get_mut(image) {
                of_image.extend(addresses);
                of_image.sort_unstable();
            }
        }
        stacks::add_up(&mut profile.stacks);
        if self.packed {
            order::sort(&mut profile);
        } else if self.notes {
            let place = |pc: &Pc| self.noted.get(&(pc.image, pc.address)).copied();
            order::sort_pcs(&mut profile, place);
        }
        profile
    }
}

pub(super) fn push<T>(rows: &mut Vec<T>, row: T) -> usize {
    rows.push(row);
    rows.len() - 1
}
