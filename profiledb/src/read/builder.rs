//! The profile so far: rows of all files, each recurring one once.

mod absorb;
mod addresses;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use self::addresses::Addresses;
use super::instructions::{At, First, Instructions};
use super::order;
use super::pcs::Pcs;
use super::stacks;
use super::sums::Sums;
use super::transfers::Transfers;
use crate::filter::{Apart, Filter};
use crate::profile::{
    BranchRow, CallRow, CyclesRow, Encoding, HotlistRow, Pc, Profile, StackNode, SymbolRow, Total,
};
use crate::rows::{Image, ImageKind, Subject};

/// The profile so far, and where its rows are.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    images: HashMap<(ImageKind, String, String), usize>,
    subjects: HashMap<Subject, usize>,
    pcs: Pcs,
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
    /// Lists that are added up; `None`: they stay apart.
    sums: Option<Sums>,
    /// Call stacks of flushes stay apart.
    by_flush: bool,
    /// How far interrupts are told apart.
    apart: Apart,
    /// The rows of interrupts that others are added to.
    rows: HashMap<Interrupted, u32>,
    /// Names of programs, by which interrupts are told apart.
    programs: HashMap<String, u32>,
    /// The same by PC, where PCs alone are told apart; [`NONE`]: there is none yet.
    row_of_pc: Vec<u32>,
    /// The rows of branches and calls that others are added to.
    transfers: Transfers,
    /// Interrupts that become rows last.
    instructions: Instructions,
    /// Image, address and encoding of some instructions, which may be among these.
    encodings: Vec<(usize, u64, Encoding)>,
    /// Instructions of lists that were left out, by image.
    passed_over: HashMap<usize, Addresses>,
    /// Images of which lists were left out unread: their instructions are among those whose
    /// encodings there are.
    passed_over_code: HashSet<usize>,
}

/// No row.
const NONE: u32 = u32::MAX;

/// Adds interrupts to the row of this index, or as a new one if there is none.
fn add(cycles: &mut Vec<CyclesRow>, index: usize, row: CyclesRow) {
    match cycles.get_mut(index) {
        Some(sum) => {
            sum.samples = sum.samples.saturating_add(row.samples);
            sum.cycles += row.cycles;
        }
        None => cycles.push(row),
    }
}

/// What interrupts are added up by: PC, call site from 1 on (0: none) and program, or process and
/// image, as [`Apart`] says. There are many of these: they are small.
type Interrupted = (u32, u32, u32);

/// An index, where it is small enough.
fn small(index: usize) -> Option<u32> {
    u32::try_from(index).ok().filter(|index| *index < NONE)
}

/// What interrupts of a program are added up by at a PC and call site.
fn at_call(row: &CyclesRow, program: u32) -> Option<Interrupted> {
    let caller = match row.caller {
        Some(caller) => small(caller + 1)?,
        None => 0,
    };
    Some((small(row.pc)?, caller, program))
}

impl Builder {
    /// A profile of the rows that a filter lets through.
    pub(super) fn new(filter: &Filter) -> Builder {
        Builder {
            notes: filter.places.is_some(),
            by_flush: filter.by_flush,
            apart: filter.apart,
            sums: filter.added_up.then(Sums::default),
            ..Builder::default()
        }
    }

    /// Adds interrupts, to those that they are not told apart from.
    pub(super) fn add_cycles(&mut self, row: CyclesRow) {
        let key = match self.apart {
            Apart::Rows => None,
            Apart::Programs => self.program(row.process).and_then(|of| at_call(&row, of)),
            Apart::Calls => at_call(&row, 0),
            Apart::Pcs | Apart::Instructions => {
                self.add_at_pc(row);
                return;
            }
            Apart::Images => {
                let image = self.image_of(row.pc);
                let key = small(row.process).zip(small(image));
                key.map(|(process, image)| (process, image, 0))
            }
        };
        let cycles = &mut self.profile.cycles;
        let Some((key, next)) = key.zip(small(cycles.len())) else {
            cycles.push(row);
            return;
        };
        let index = *self.rows.entry(key).or_insert(next);
        add(cycles, index as usize, row);
    }

    /// The number of a process's name.
    fn program(&mut self, process: usize) -> Option<u32> {
        let name = self.profile.processes.get(process)?.comm.as_str();
        if let Some(known) = self.programs.get(name) {
            return Some(*known);
        }
        let next = small(self.programs.len())?;
        self.programs.insert(name.to_owned(), next);
        Some(next)
    }

    /// Adds interrupts to all others at their PC.
    fn add_at_pc(&mut self, row: CyclesRow) {
        let cycles = &mut self.profile.cycles;
        if self.row_of_pc.len() <= row.pc {
            self.row_of_pc.resize(self.profile.pcs.len(), NONE);
        }
        let next = small(cycles.len()).unwrap_or(NONE);
        match self.row_of_pc.get_mut(row.pc) {
            Some(known) => {
                if *known == NONE {
                    *known = next;
                }
                let index = *known as usize;
                add(cycles, index, row);
            }
            None => cycles.push(row),
        }
    }

    /// Adds interrupts of a stretch of an image's code, in the order of addresses. They are among
    /// the profile's rows last.
    pub(super) fn add_instructions(&mut self, place: (usize, u64), first: First, run: Vec<At>) {
        self.instructions.add(place, first, run);
    }

    /// Has those be rows of the profile.
    fn take_instructions(&mut self) {
        let mut all = std::mem::take(&mut self.instructions);
        let more = all.settle();
        self.profile.pcs.reserve(more);
        self.profile.cycles.reserve(more);
        self.row_of_pc.reserve(more);
        // In this order, nothing has to be sorted.
        for image in order::of_images(&self.profile) {
            all.take(image, |first, at| {
                let pc = self.unnoted(image, at.address, None);
                self.add_at_pc(CyclesRow {
                    process: first.process,
                    subject: first.subject,
                    pc,
                    caller: None,
                    samples: at.samples,
                    cycles: at.cycles,
                    time: first.time,
                });
            });
        }
        for (image, address, bytes) in std::mem::take(&mut self.encodings) {
            self.encoding(image, address, &bytes);
        }
    }

    /// Adds directions of a branch, to those that they are not told apart from.
    pub(super) fn add_branch(&mut self, row: BranchRow) {
        let branches = &mut self.profile.branches;
        match self.apart {
            Apart::Rows => branches.push(row),
            _ => self.transfers.add_branch(branches, row),
        }
    }

    /// Adds calls, to those that they are not told apart from.
    pub(super) fn add_call(&mut self, row: CallRow) {
        let calls = &mut self.profile.calls;
        match self.apart {
            Apart::Rows => calls.push(row),
            _ => self.transfers.add_call(calls, row),
        }
    }

    /// Adds a list.
    pub(crate) fn add_list(&mut self, row: &HotlistRow) {
        let lists = &mut self.profile.hotlists;
        match &mut self.sums {
            Some(sums) => sums.add(lists, row),
            None => lists.push(row.clone()),
        }
    }

    /// Notes that there is a row about a PC.
    pub(super) fn note(&mut self, image: usize, address: u64) {
        let next = self.noted.len();
        self.noted.entry((image, address)).or_insert(next);
    }

    /// Notes that there is a list at an instruction, which is left out.
    pub(super) fn pass_over(&mut self, image: usize, address: u64) {
        self.passed_over.entry(image).or_default().add(address);
    }

    /// Notes that there are lists in an image that were left out unread.
    pub(super) fn pass_over_code(&mut self, image: usize) {
        self.passed_over_code.insert(image);
    }

    /// Whether there are.
    pub(super) fn passes_over_code(&self, image: usize) -> bool {
        self.passed_over_code.contains(&image)
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

    pub(super) fn pc(&mut self, image: usize, address: u64, bytes: Option<&[u8]>) -> usize {
        if self.notes {
            self.note(image, address);
        }
        self.unnoted(image, address, bytes)
    }

    fn unnoted(&mut self, image: usize, address: u64, bytes: Option<&[u8]>) -> usize {
        let pcs = &mut self.profile.pcs;
        let index = self.pcs.get_or_add(image, address, || {
            push(
                pcs,
                Pc {
                    image,
                    address,
                    bytes: None,
                },
            )
        });
        self.complete(index, bytes);
        index
    }

    /// The node of a frame that is called from another node.
    pub(super) fn node(&mut self, parent: Option<usize>, pc: usize) -> usize {
        let node = StackNode { parent, pc };
        let nodes = &mut self.profile.stack_nodes;
        *self.nodes.entry(node).or_insert_with(|| push(nodes, node))
    }

    /// As [`Builder::encoding`], of an instruction that may yet come.
    pub(super) fn encoding_for_later(&mut self, image: usize, address: u64, bytes: &[u8]) {
        let encoding = Encoding::new(bytes);
        let encoding = encoding.map(|encoding| (image, address, encoding));
        self.encodings.extend(encoding);
    }

    /// Notes the encoding of an instruction, if that is in the profile.
    pub(super) fn encoding(&mut self, image: usize, address: u64, bytes: &[u8]) {
        if let Some(index) = self.pcs.get(image, address) {
            self.complete(index, Some(bytes));
        }
    }

    fn complete(&mut self, pc: usize, bytes: Option<&[u8]>) {
        if let Some(known) = self.profile.pcs.get_mut(pc)
            && known.bytes.is_none()
            && let Some(bytes) = bytes
        {
            known.bytes = Encoding::new(bytes);
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

    /// Whether nothing was read yet.
    fn is_empty(&self) -> bool {
        let Profile { epochs, images, .. } = &self.profile;
        epochs.is_empty() && images.is_empty() && self.profile.latest.is_none()
    }

    pub(super) fn finish(mut self) -> Profile {
        self.take_instructions();
        let mut profile = self.profile;
        let added_up = self.sums.is_some();
        if let Some(sums) = self.sums {
            sums.finish(&mut profile.hotlists);
        }
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
            addresses.settle();
            let mut addresses = addresses.all;
            addresses.retain(|address| self.pcs.get(image, *address).is_none());
            if let Some(of_image) = profile.passed_over.get_mut(image) {
                *of_image = addresses;
            }
        }
        stacks::add_up(&mut profile.stacks, self.by_flush);
        // Of millions of rows, room for as many more would be much.
        profile.cycles.shrink_to_fit();
        profile.hotlists.shrink_to_fit();
        profile.branches.shrink_to_fit();
        profile.calls.shrink_to_fit();
        profile.by_flush = self.by_flush;
        profile.added_up = added_up;
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
