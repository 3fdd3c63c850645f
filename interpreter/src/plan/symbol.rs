//! Registers as expressions over the registers of the sample and what was loaded since.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::wire::{Operation, Part};

/// Loads and sums that a walk can note.
const MAX_NOTES: usize = 160;

/// Where a term comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// A general register of the sample.
    Register(u8),
    Bias,
    FsBase,
    GsBase,
    /// What the note of that index leaves.
    Note(u16),
}

/// Part of a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Term {
    pub(super) origin: Origin,
    pub(super) part: Part,
}

impl Term {
    /// A number of 24 bits, different for different terms, and not 0.
    fn number(self) -> u64 {
        let origin = match self.origin {
            Origin::Register(number) => u16::from(number & 15) + 1,
            Origin::Bias => 17,
            Origin::FsBase => 18,
            Origin::GsBase => 19,
            // Far fewer than would overflow.
            Origin::Note(index) => index.saturating_add(20),
        };
        u64::from(origin) << 8 | u64::from(self.part.number())
    }
}

/// `base + (index << scale) + displacement`, modulo 2^64. There is no index without a scale if
/// there is no base; of two terms without a scale the smaller is the base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    pub(super) base: Option<Term>,
    pub(super) index: Option<(Term, u8)>,
    pub(super) displacement: u64,
}

impl Sum {
    pub(super) const fn constant(displacement: u64) -> Self {
        Self {
            base: None,
            index: None,
            displacement,
        }
    }

    /// The whole of a word.
    pub(super) const fn of(origin: Origin) -> Self {
        let part = Part::WHOLE;
        Self {
            base: Some(Term { origin, part }),
            index: None,
            displacement: 0,
        }
    }

    pub(super) const fn plus(self, displacement: u64) -> Self {
        Self {
            displacement: self.displacement.wrapping_add(displacement),
            ..self
        }
    }

    /// The number, if it is one.
    pub(super) fn as_constant(self) -> Option<u64> {
        (self.base.is_none() && self.index.is_none()).then_some(self.displacement)
    }

    /// The term that is all there is.
    fn as_term(self) -> Option<Term> {
        match self {
            Self {
                base,
                index: None,
                displacement: 0,
            } => base,
            _ => None,
        }
    }

    /// The distance from `other` if both have the same terms.
    pub(super) fn distance(self, other: Self) -> Option<u64> {
        (self.base == other.base && self.index == other.index)
            .then(|| self.displacement.wrapping_sub(other.displacement))
    }

    /// The terms as one number, different for different ones.
    pub(super) fn shape(self) -> u64 {
        let of = |term: Option<Term>| term.map_or(0, Term::number);
        let (index, scale) = self.index.unzip();
        of(self.base) | of(index) << 24 | u64::from(scale.unwrap_or(0)) << 48
    }

    pub(super) fn terms(self) -> impl Iterator<Item = Term> {
        self.base
            .into_iter()
            .chain(self.index.map(|(term, _)| term))
    }
}

/// What a walk has found that a plan may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) address: Sum,
    /// How the base is joined with the rest; for a load an addition.
    pub(super) operation: Operation,
    /// Bytes to load; 0: the joined words themselves.
    pub(super) size: u8,
    pub(super) keep: Part,
    /// Of the likeliest way that it is on.
    pub(super) rank: u16,
}

/// Shape and displacement of the address, and what is done there.
type NoteKey = (u64, u64, u32);

impl Note {
    /// What it does, on whatever way.
    fn key(&self) -> NoteKey {
        let does = [self.operation as u8, self.size, self.keep.number(), 0];
        let Sum { displacement, .. } = self.address;
        (self.address.shape(), displacement, u32::from_le_bytes(does))
    }

    fn of_code(at: u64, size: u8, rank: u16) -> Self {
        Self {
            address: Sum::of(Origin::Bias).plus(at),
            operation: Operation::Add,
            size,
            keep: Part::WHOLE,
            rank,
        }
    }
}

/// The notes of a walk, each different from the others. A note's terms come before it.
#[derive(Default)]
pub(super) struct Notes {
    all: Vec<Note>,
    /// Where in `all` each is, by all of it but the rank.
    places: FxHashMap<NoteKey, u16>,
    /// Loads of code, which nothing is made of.
    code: Vec<Note>,
    /// Where in `code` that of an image address is.
    code_places: FxHashMap<u64, u16>,
    /// The same, where code was not at hand.
    frontiers: Vec<Note>,
    /// Loads that found no room.
    pub(super) dropped: u32,
    /// Where the code that was noted last ends.
    code_end: u64,
    /// How often code did not begin there.
    code_runs: usize,
    /// Bytes of all loads, those of code included.
    bytes: usize,
}

impl Notes {
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
        self.code.clear();
        self.code_places.clear();
        self.frontiers.clear();
        self.dropped = 0;
        (self.code_end, self.code_runs, self.bytes) = (0, 0, 0);
    }

    /// About how many steps and bytes a plan needs for them, if it can merge few of them.
    pub(super) fn needs(&self) -> (usize, usize) {
        (self.all.len() + self.code_runs, self.bytes)
    }

    pub(super) fn all(&self) -> &[Note] {
        &self.all
    }

    pub(super) fn all_code(&self) -> &[Note] {
        &self.code
    }

    pub(super) fn all_frontiers(&self) -> &[Note] {
        &self.frontiers
    }

    /// Code to be brought along, at an image address. The walk looks at a bounded number of
    /// instructions, so these need no bound of their own.
    pub(super) fn code(&mut self, at: u64, size: u8, rank: u16) {
        match self.code_places.entry(at) {
            Entry::Occupied(place) => {
                if let Some(held) = self.code.get_mut(usize::from(*place.get())) {
                    held.rank = held.rank.min(rank);
                }
            }
            Entry::Vacant(place) => {
                // As many as instructions that are looked at.
                place.insert(self.code.len() as u16);
                self.code_runs += usize::from(at != self.code_end);
                self.code_end = at.wrapping_add(u64::from(size));
                self.bytes += usize::from(size);
                self.code.push(Note::of_code(at, size, rank));
            }
        }
    }

    /// Code that is not at hand, at an image address: some of it is to be brought along.
    pub(super) fn frontier(&mut self, at: u64, size: u8) {
        if self.frontiers.iter().all(|n| n.address.displacement != at) {
            self.frontiers.push(Note::of_code(at, size, u16::MAX));
        }
    }

    fn note(&mut self, note: Note) -> Option<Term> {
        let index = match self.places.entry(note.key()) {
            Entry::Occupied(place) => {
                let index = *place.get();
                if let Some(held) = self.all.get_mut(usize::from(index)) {
                    held.rank = held.rank.min(note.rank);
                }
                index
            }
            Entry::Vacant(place) if self.all.len() < MAX_NOTES => {
                // At most MAX_NOTES.
                let index = *place.insert(self.all.len() as u16);
                self.bytes += usize::from(note.size);
                self.all.push(note);
                index
            }
            Entry::Vacant(_) => return None,
        };
        Some(Term {
            origin: Origin::Note(index),
            part: Part::WHOLE,
        })
    }

    /// A load, and what part of it is kept.
    pub(super) fn load(&mut self, address: Sum, size: u8, keep: Part, rank: u16) -> Option<Sum> {
        let note = Note {
            address,
            operation: Operation::Add,
            size,
            keep,
            rank,
        };
        match self.note(note) {
            Some(term) => Some(Sum::of(term.origin)),
            None => {
                self.dropped += 1;
                None
            }
        }
    }

    /// Part of a sum.
    pub(super) fn part(&mut self, sum: Sum, part: Part, rank: u16) -> Option<Sum> {
        if part == Part::WHOLE {
            return Some(sum);
        }
        if let Some(constant) = sum.as_constant() {
            return Some(Sum::constant(part.of(constant)));
        }
        if let Some(term) = sum.as_term()
            && let Some(part) = part_of_part(term.part, part)
        {
            let part = match term.origin {
                Origin::Note(index) => match self.all.get(usize::from(index)) {
                    // It was cut so already.
                    Some(note) if part_of_part(note.keep, part) == Some(note.keep) => Part::WHOLE,
                    _ => part,
                },
                _ => part,
            };
            return Some(Sum {
                base: Some(Term { part, ..term }),
                ..sum
            });
        }
        self.word(sum, part, rank).map(|term| Sum::of(term.origin))
    }

    /// A note of a part of a sum.
    fn word(&mut self, address: Sum, keep: Part, rank: u16) -> Option<Term> {
        self.note(Note {
            address,
            operation: Operation::Add,
            size: 0,
            keep,
            rank,
        })
    }

    /// A sum as one term and a displacement.
    fn one_term(&mut self, sum: Sum, rank: u16) -> Option<(Option<Term>, u64)> {
        if sum.index.is_none() {
            return Some((sum.base, sum.displacement));
        }
        let terms = Sum {
            displacement: 0,
            ..sum
        };
        let term = self.word(terms, Part::WHOLE, rank)?;
        Some((Some(term), sum.displacement))
    }

    /// Two sums joined by an operation that is no addition.
    pub(super) fn joined(
        &mut self,
        operation: Operation,
        a: Sum,
        b: Sum,
        rank: u16,
    ) -> Option<Sum> {
        if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
            return Some(Sum::constant(operation.of(a, b)));
        }
        let base = match a.as_term() {
            Some(term) => Some(term),
            None if a.as_constant() == Some(0) => None,
            None => Some(self.word(a, Part::WHOLE, rank)?),
        };
        let (index, displacement) = self.one_term(b, rank)?;
        let note = Note {
            address: Sum {
                base,
                index: index.map(|term| (term, 0)),
                displacement,
            },
            operation,
            size: 0,
            keep: Part::WHOLE,
            rank,
        };
        self.note(note).map(|term| Sum::of(term.origin))
    }

    /// A sum shifted up.
    pub(super) fn shifted(&mut self, sum: Sum, by: u8, rank: u16) -> Option<Sum> {
        if by == 0 {
            return Some(sum);
        }
        if by > 63 {
            return None;
        }
        let displacement = sum.displacement << by;
        if let (None, Some((term, scale))) = (sum.base, sum.index)
            && scale + by < 64
        {
            return Some(Sum {
                base: None,
                index: Some((term, scale + by)),
                displacement,
            });
        }
        let (term, _) = self.one_term(sum, rank)?;
        Some(Sum {
            base: None,
            index: term.map(|term| (term, by)),
            displacement,
        })
    }

    /// The sum of two.
    pub(super) fn added(&mut self, a: Sum, b: Sum, rank: u16) -> Option<Sum> {
        let displacement = a.displacement.wrapping_add(b.displacement);
        let terms = a.terms().count() + b.terms().count();
        let scaled = a.index.into_iter().chain(b.index).count();
        // Two terms fit, and one of them may be scaled.
        if terms > 2 || scaled > 1 {
            let (more, less) = if a.index.is_some() { (a, b) } else { (b, a) };
            let (term, _) = self.one_term(more, rank)?;
            let more = Sum {
                base: term,
                ..Sum::constant(0)
            };
            let less = Sum {
                displacement: 0,
                ..less
            };
            return self
                .added(more, less, rank)
                .map(|sum| sum.plus(displacement));
        }
        let sum = match (a.base, b.base, a.index.or(b.index)) {
            (Some(x), Some(y), _) => (Some(x.min(y)), Some((x.max(y), 0))),
            (x, y, index) => (x.or(y), index),
        };
        Some(Sum {
            base: sum.0,
            index: sum.1,
            displacement,
        })
    }
}

/// Part `outer` of part `inner` as one part, if it is one.
fn part_of_part(inner: Part, outer: Part) -> Option<Part> {
    if outer.bytes() <= inner.bytes() {
        Some(outer)
    } else if !inner.is_signed() || outer == Part::WHOLE || outer.is_signed() {
        // Zero above, or the sign all the way: the outer part changes nothing.
        Some(inner)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Notes, Operation, Origin, Part, Sum, Term, part_of_part};

    const PARTS: [Part; 7] = [
        Part::WHOLE,
        Part::low(1),
        Part::low(2),
        Part::low(4),
        Part::signed(1),
        Part::signed(2),
        Part::signed(4),
    ];

    /// A part of a part, if it is one, is that part of every word.
    #[test]
    fn parts_of_parts() {
        for inner in PARTS {
            for outer in PARTS {
                let Some(both) = part_of_part(inner, outer) else {
                    continue;
                };
                for word in [
                    0,
                    0x7f,
                    0x80,
                    0x8000,
                    0x8000_0000,
                    u64::MAX,
                    0x0123_89ab_4567_cdef,
                ] {
                    assert_eq!(
                        both.of(word),
                        outer.of(inner.of(word)),
                        "{inner:?} {outer:?}"
                    );
                }
            }
        }
    }

    const WORDS: [u64; 4] = [0x1234_5678_9abc_def0, 7, 0xffff_ffff_8000_0000, 1 << 63];

    fn value_of(term: Term, notes: &Notes) -> u64 {
        let word = match term.origin {
            Origin::Register(number) => WORDS[usize::from(number)],
            Origin::Note(index) => {
                let note = notes.all()[usize::from(index)];
                let base = note.address.base.map_or(0, |term| value_of(term, notes));
                let rest = Sum {
                    base: None,
                    ..note.address
                };
                note.keep.of(note.operation.of(base, value(rest, notes)))
            }
            _ => 0,
        };
        term.part.of(word)
    }

    fn value(sum: Sum, notes: &Notes) -> u64 {
        let base = sum.base.map_or(0, |term| value_of(term, notes));
        let index = sum
            .index
            .map_or(0, |(term, scale)| value_of(term, notes) << scale);
        base.wrapping_add(index).wrapping_add(sum.displacement)
    }

    const OPERATIONS: [Operation; 7] = [
        Operation::Sub,
        Operation::And,
        Operation::Or,
        Operation::Xor,
        Operation::Shr,
        Operation::Sar,
        Operation::Mul,
    ];

    #[derive(Clone, Debug)]
    enum Act {
        Register(u8),
        Add,
        Join(Operation),
        Plus(u64),
        Shift(u8),
        Part(usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            3 => (0u8..4).prop_map(Act::Register),
            2 => Just(Act::Add),
            1 => prop::sample::select(OPERATIONS.to_vec()).prop_map(Act::Join),
            1 => any::<u64>().prop_map(Act::Plus),
            1 => (0u8..70).prop_map(Act::Shift),
            1 => (0usize..7).prop_map(Act::Part),
        ]
    }

    proptest! {
        /// Whatever is added, shifted and cut, the expression has the value of the arithmetic.
        #[test]
        fn expressions_are_arithmetic(acts in prop::collection::vec(act(), 1..40)) {
            let mut notes = Notes::default();
            let mut stack = vec![(Sum::constant(5), 5_u64)];
            for act in acts {
                let Some((sum, word)) = stack.pop() else { break };
                let next = match act {
                    Act::Register(number) => {
                        stack.push((sum, word));
                        Some((Sum::of(Origin::Register(number)), WORDS[usize::from(number)]))
                    }
                    Act::Add => {
                        let (other, more) = stack.pop().unwrap_or((Sum::constant(1), 1));
                        notes.added(sum, other, 0).map(|sum| (sum, word.wrapping_add(more)))
                    }
                    Act::Join(operation) => {
                        let (other, more) = stack.pop().unwrap_or((Sum::constant(1), 1));
                        notes
                            .joined(operation, sum, other, 0)
                            .map(|sum| (sum, operation.of(word, more)))
                    }
                    Act::Plus(by) => Some((sum.plus(by), word.wrapping_add(by))),
                    Act::Shift(by) => notes.shifted(sum, by, 0).map(|sum| (sum, word << by)),
                    Act::Part(part) => {
                        notes.part(sum, PARTS[part], 0).map(|sum| (sum, PARTS[part].of(word)))
                    }
                };
                stack.extend(next);
                for (sum, word) in &stack {
                    prop_assert_eq!(value(*sum, &notes), *word);
                }
            }
        }
    }
}
