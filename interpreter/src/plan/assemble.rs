//! From the notes of a walk to the steps of a plan.

use super::symbol::{Note, Notes, Origin, Sum, Term};
use super::wire::{MAX_STEP_BYTES, MAX_STEPS, Operation, Part, Plan, Source, Step};
use super::{Account, Limits, MAX_SNAPSHOT_BYTES};

/// A step in the making.
struct Draft {
    address: Sum,
    operation: Operation,
    size: u8,
    keep: Part,
    /// Later steps use its result: its address and `keep` are settled.
    used: bool,
}

/// Bytes between two pieces of code, or two loads off one base, that are rather read with them than cost a
/// step more. What is wanted lies at both ends of so small a gap, so it can mostly be read where they can.
const GAP: u64 = 24;

/// Begins a plan with notes; those that are met most likely come first, and among these code, without
/// which nothing else is of use.
pub(super) fn fill(notes: &Notes, limits: Limits, account: &mut Account) -> Assembly {
    let (code, notes) = (notes.all_code(), notes.all());
    let used = used(notes);
    // A note's terms are met on every way that it is met on, so they stay before it.
    let order = by_rank(notes, |i| notes[i].size > 0 || used[i]);
    let code_order = by_rank(code, |_| true);
    let mut code_order = code_order.into_iter().map(|i| &code[i]).peekable();
    let mut assembly = Assembly {
        drafts: Vec::with_capacity(MAX_STEPS),
        places: Vec::with_capacity(MAX_STEPS),
        step_of: vec![None; notes.len()],
        code_shape: Sum::of(Origin::Bias).shape(),
        bytes: 0,
        max_steps: usize::from(limits.steps).min(MAX_STEPS),
        max_bytes: usize::from(limits.bytes).min(MAX_SNAPSHOT_BYTES),
    };
    account.code = code.len() as u32;
    for i in order {
        while let Some(code) = code_order.next_if(|code| code.rank <= notes[i].rank) {
            account.code_dropped += u32::from(!assembly.add_code(code));
        }
        let done = assembly.add(&notes[i], used[i], i);
        if notes[i].size > 0 {
            account.loads += 1;
            account.dropped += u32::from(!done);
        }
    }
    for code in code_order {
        account.code_dropped += u32::from(!assembly.add_code(code));
    }
    assembly
}

/// The numbers of those notes that are wanted, by their rank and then as they were made.
fn by_rank(notes: &[Note], wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let ranked = (0..notes.len()).filter(|&i| wanted(i));
    // What is sorted is small: the notes themselves are not.
    let mut ranked: Vec<_> = ranked.map(|i| (notes[i].rank, i)).collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, i)| i).collect()
}

/// Which notes a load's address is made of.
fn used(notes: &[Note]) -> Vec<bool> {
    let mut used = vec![false; notes.len()];
    for i in (0..notes.len()).rev() {
        if notes[i].size == 0 && !used[i] {
            continue;
        }
        for term in notes[i].address.terms() {
            if let Origin::Note(index) = term.origin
                && let Some(used) = used.get_mut(usize::from(index))
            {
                *used = true;
            }
        }
    }
    used
}

/// Where a step reads.
#[derive(Clone, Copy)]
struct Place {
    /// The shape of its address.
    shape: u64,
    /// The displacement.
    start: u64,
    /// Bytes.
    size: u64,
}

/// A plan in the making.
pub(super) struct Assembly {
    drafts: Vec<Draft>,
    /// Where they are, which is looked through for each note.
    places: Vec<Place>,
    /// The step that leaves what a note does.
    step_of: Vec<Option<u8>>,
    /// The shape of the addresses of code.
    code_shape: u64,
    bytes: usize,
    max_steps: usize,
    max_bytes: usize,
}

impl Assembly {
    /// Steps and bytes that are left for what comes behind the notes.
    pub(super) fn room(&self) -> (usize, usize) {
        let steps = self.max_steps - self.drafts.len();
        (steps, self.max_bytes - self.bytes)
    }

    /// Adds a note; false if it does not fit, or something that it needs did not.
    fn add(&mut self, note: &Note, used: bool, index: usize) -> bool {
        let complete = note.address.terms().all(|term| match term.origin {
            Origin::Note(index) => self
                .step_of
                .get(usize::from(index))
                .is_some_and(Option::is_some),
            _ => true,
        });
        if !complete {
            return false;
        }
        let step = self.merge(note, note.address.shape(), used);
        let step = step.or_else(|| self.start(note, used));
        // There are at most MAX_STEPS.
        self.step_of[index] = step.and_then(|step| u8::try_from(step).ok());
        step.is_some()
    }

    /// Adds code; false if it does not fit.
    fn add_code(&mut self, note: &Note) -> bool {
        let merged = self.merge(note, self.code_shape, false);
        merged.is_some() || self.start(note, false).is_some()
    }

    /// Adds a step of its own for a note, if it fits.
    fn start(&mut self, note: &Note, used: bool) -> Option<usize> {
        let bytes = self.bytes + usize::from(note.size);
        if self.drafts.len() >= self.max_steps || bytes > self.max_bytes {
            return None;
        }
        self.bytes = bytes;
        self.places.push(Place {
            shape: note.address.shape(),
            start: note.address.displacement,
            size: note.size.into(),
        });
        self.drafts.push(Draft {
            address: note.address,
            operation: note.operation,
            size: note.size,
            keep: note.keep,
            used,
        });
        Some(self.drafts.len() - 1)
    }

    /// Lets a step that reads the same place, or at most [`GAP`] bytes beside it, load what the
    /// note asks for; `shape` is that of the note's address.
    fn merge(&mut self, note: &Note, shape: u64, used: bool) -> Option<usize> {
        if note.size == 0 {
            return None;
        }
        (0..self.places.len())
            .find(|&index| self.may_merge(index, note, shape) && self.merge_into(index, note, used))
    }

    /// Whether a step reads there, or at most [`GAP`] bytes beside it.
    #[inline]
    fn may_merge(&self, index: usize, note: &Note, shape: u64) -> bool {
        self.places.get(index).is_some_and(|place| {
            let size = u64::from(note.size);
            let from = note.address.displacement.wrapping_sub(place.start);
            // From so far before its first byte on, up to so far behind its last.
            place.shape == shape && from.wrapping_add(size + GAP) <= place.size + size + 2 * GAP
        })
    }

    /// The same with one step, whose address is of that shape.
    #[inline]
    fn merge_into(&mut self, index: usize, note: &Note, used: bool) -> bool {
        let draft = match self.drafts.get_mut(index) {
            Some(draft) if draft.size > 0 => draft,
            _ => return false,
        };
        let size = u64::from(note.size);
        let distance = note
            .address
            .displacement
            .wrapping_sub(draft.address.displacement);
        let behind = distance.wrapping_neg();
        let old = u64::from(draft.size);
        let (address, new) = if distance <= old + GAP {
            (draft.address, old.max(distance + size))
        } else if behind <= size + GAP && !draft.used && !used {
            (note.address, size.max(behind + old))
        } else {
            return false;
        };
        if used && (distance != 0 || draft.used && draft.keep != note.keep) {
            return false;
        }
        let more = new.saturating_sub(old) as usize;
        if new > MAX_STEP_BYTES as u64 || self.bytes + more > self.max_bytes {
            return false;
        }
        self.bytes += more;
        draft.address = address;
        // At most MAX_STEP_BYTES.
        draft.size = new as u8;
        let place = &mut self.places[index];
        (place.start, place.size) = (address.displacement, new);
        if used {
            draft.used = true;
            draft.keep = note.keep;
        }
        true
    }

    /// The plan. Code that was not at hand comes last: its step may fail, and would end the plan.
    pub(super) fn finish(mut self, notes: &Notes) -> Plan {
        for frontier in notes.all_frontiers() {
            self.start(frontier, false);
        }
        let steps: Vec<_> = self.drafts.iter().map(|draft| self.step(draft)).collect();
        Plan::new(&steps)
    }

    fn step(&self, draft: &Draft) -> Step {
        let mut step = Step::new(draft.address.displacement, draft.size);
        if let Some(term) = draft.address.base {
            (step.base, step.base_part) = self.source(term);
        }
        if let Some((term, scale)) = draft.address.index {
            (step.index, step.index_part) = self.source(term);
            step.scale = scale;
        }
        step.operation = draft.operation;
        if draft.used {
            step.keep = draft.keep;
        }
        step
    }

    fn source(&self, term: Term) -> (Source, Part) {
        let source = match term.origin {
            Origin::Register(number) => Source::register(number),
            Origin::Bias => Source::BIAS,
            Origin::FsBase => Source::FS_BASE,
            Origin::GsBase => Source::GS_BASE,
            Origin::Note(index) => match self.step_of.get(usize::from(index)) {
                Some(Some(step)) => Source::step(*step),
                _ => Source::NONE,
            },
        };
        (source, term.part)
    }
}
