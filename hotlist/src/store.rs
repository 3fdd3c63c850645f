//! Where a list keeps its tuples: one block of memory, laid out for the search.
//!
//! ```text
//! words: | values, N of W words | (B, D), N of 32 + 32 bits | S, N of 32 bits |
//! ```
//! The values come first and together, because every event looks through them and few events
//! need more. Tuples are kept in order of their estimates, so that the common value is met
//! first. Times are kept as multiples of 2^shift since `base`; the shift grows with the span,
//! so a time is exact while the list spans less than 2^32 units of it and later right to one
//! part in 2^31 of the span.

use std::marker::PhantomData;

use crate::words::MAX_WORDS;
use crate::{Eviction, Words};

/// One tuple without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// B: events counted with probability p.
    pub(crate) counted: u64,
    /// D: events counted surely.
    pub(crate) certain: u64,
    /// S: estimated time of the first event still counted.
    pub(crate) first: u64,
}

impl Counts {
    /// The most that B and D may be; one short of what 32 bits hold, so that every event finds
    /// room to be counted and the list makes room after it.
    pub(crate) const MAX: u64 = LOW - 1;

    /// Whether the list must make room.
    pub(crate) fn is_at_end(self) -> bool {
        self.counted > Self::MAX || self.certain > Self::MAX
    }

    fn pack(self) -> u64 {
        self.counted.min(LOW) | self.certain.min(LOW) << 32
    }
}

/// The tuples of one list.
#[derive(Clone, Debug)]
pub(crate) struct Store<V> {
    words: Box<[u64]>,
    base: u64,
    /// Time of the last event counted.
    last: u32,
    pub(crate) capacity: u8,
    pub(crate) eviction: Eviction,
    len: u8,
    shift: u8,
    value: PhantomData<V>,
}

const LOW: u64 = 0xffff_ffff;

impl<V: Words> Store<V> {
    /// The only allocation of a list's life.
    pub(crate) fn new(capacity: u8, eviction: Eviction) -> Self {
        const {
            assert!(
                V::WORDS >= 1 && V::WORDS <= MAX_WORDS,
                "a value has 1 to MAX_WORDS words"
            )
        };
        let n = usize::from(capacity);
        let words = vec![0; n * V::WORDS + n + n.div_ceil(2)].into_boxed_slice();
        Self {
            words,
            base: 0,
            last: 0,
            capacity,
            eviction,
            len: 0,
            shift: 0,
            value: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn capacity(&self) -> usize {
        usize::from(self.capacity)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// Bytes on the heap.
    pub(crate) fn heap(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Where the value is, if it is in the list.
    #[inline]
    pub(crate) fn find(&self, value: V) -> Option<usize> {
        let used = self.words.get(..self.len() * V::WORDS).unwrap_or_default();
        let mut key = [0; MAX_WORDS];
        let key = key.get_mut(..V::WORDS)?;
        value.write(key);
        let first = *key.first()?;
        if V::WORDS == 1 {
            return position(used, first);
        }
        used.chunks_exact(V::WORDS).position(|words| words == key)
    }

    pub(crate) fn value(&self, index: usize) -> V {
        V::read(
            self.words
                .get(index * V::WORDS..(index + 1) * V::WORDS)
                .unwrap_or_default(),
        )
    }

    fn counts_at(&self) -> usize {
        self.capacity() * V::WORDS
    }

    /// (B, D) in one word.
    #[inline]
    fn packed(&self, index: usize) -> u64 {
        self.words
            .get(self.counts_at() + index)
            .copied()
            .unwrap_or_default()
    }

    #[inline]
    fn packed_mut(&mut self, index: usize) -> &mut u64 {
        let at = self.counts_at() + index;
        &mut self.words[at]
    }

    pub(crate) fn counts(&self, index: usize) -> Counts {
        let packed = self.packed(index);
        Counts {
            counted: packed & LOW,
            certain: packed >> 32,
            first: self.time(self.first_offset(index)),
        }
    }

    /// B + 1; whether it is at its end now.
    #[inline]
    pub(crate) fn count(&mut self, index: usize) -> bool {
        let packed = self.packed_mut(index);
        *packed += 1;
        *packed & LOW == LOW
    }

    /// D + 1; whether it is at its end now.
    #[inline]
    pub(crate) fn count_surely(&mut self, index: usize) -> bool {
        let packed = self.packed_mut(index);
        *packed += 1 << 32;
        *packed >> 32 == LOW
    }

    /// p times the estimate: what the tuples are ordered by.
    #[inline]
    fn score(&self, index: usize, p: f64) -> f64 {
        let packed = self.packed(index);
        (packed & LOW) as f64 + p * (packed >> 32) as f64
    }

    /// Moves a tuple that has grown up to where it belongs.
    #[inline(never)]
    pub(crate) fn rise(&mut self, mut index: usize, p: f64) {
        while index > 0 && self.score(index, p) > self.score(index - 1, p) {
            self.swap(index, index - 1);
            index -= 1;
        }
    }

    /// Puts all tuples in order; equal ones keep theirs.
    pub(crate) fn sort(&mut self, p: f64) {
        let mut before = f64::INFINITY;
        for index in 0..self.len() {
            let score = self.score(index, p);
            if score > before {
                // The one before comes here.
                self.rise(index, p);
            } else {
                before = score;
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        for word in 0..V::WORDS {
            self.words.swap(a * V::WORDS + word, b * V::WORDS + word);
        }
        let counts = self.counts_at();
        self.words.swap(counts + a, counts + b);
        let (first_a, first_b) = (self.first_offset(a), self.first_offset(b));
        self.set_first_offset(a, first_b);
        self.set_first_offset(b, first_a);
    }

    /// Adds a tuple at the end; the caller has seen that there is room.
    pub(crate) fn push(&mut self, value: V, counts: Counts) {
        if self.is_full() {
            return;
        }
        let index = self.len();
        if let Some(words) = self.words.get_mut(index * V::WORDS..(index + 1) * V::WORDS) {
            value.write(words);
        }
        if self.len == 0 {
            (self.base, self.shift, self.last) = (counts.first, 0, 0);
        }
        self.len += 1;
        self.set_first_offset(index, 0);
        self.set(index, counts);
    }

    /// Replaces the counts of a tuple.
    pub(crate) fn set_counts(&mut self, index: usize, counts: Counts) {
        *self.packed_mut(index) = counts.pack();
    }

    /// Replaces the counts and the time of a tuple.
    pub(crate) fn set(&mut self, index: usize, counts: Counts) {
        self.set_counts(index, counts);
        let offset = self.offset(counts.first);
        self.set_first_offset(index, offset);
    }

    /// Notes the time of an event, which may be one that others came before.
    #[inline]
    pub(crate) fn saw(&mut self, time: u64) {
        let since = time.wrapping_sub(self.base);
        let mut offset = since >> self.shift;
        if time < self.base || offset > LOW {
            offset = self.offset(time);
        }
        // Cast: seen to fit.
        self.last = self.last.max(offset as u32);
    }

    /// Time of the last event counted; zero for an empty list.
    pub(crate) fn last(&self) -> u64 {
        if self.len == 0 {
            0
        } else {
            self.time(u64::from(self.last))
        }
    }

    fn time(&self, offset: u64) -> u64 {
        self.base.saturating_add(offset << self.shift)
    }

    /// A time in units since the base, both of which change where they do not fit.
    #[cold]
    #[inline(never)]
    fn offset(&mut self, time: u64) -> u64 {
        if time < self.base {
            self.rebase(time);
        }
        while (time - self.base) >> self.shift > LOW {
            self.coarsen();
        }
        (time - self.base) >> self.shift
    }

    /// Keeps the first `len` tuples.
    pub(crate) fn truncate(&mut self, len: usize) {
        // The cast is exact: len is below a length of 8 bits.
        self.len = len.min(self.len()) as u8;
    }

    /// Copies a tuple to an earlier place.
    pub(crate) fn copy(&mut self, from: usize, to: usize) {
        self.words
            .copy_within(from * V::WORDS..(from + 1) * V::WORDS, to * V::WORDS);
        *self.packed_mut(to) = self.packed(from);
        self.set_first_offset(to, self.first_offset(from));
    }

    /// Two times in a word: even tuples below, odd ones above.
    fn first_offset(&self, index: usize) -> u64 {
        let word = self
            .words
            .get(self.counts_at() + self.capacity() + index / 2);
        word.map_or(0, |word| word >> (index % 2 * 32) & LOW)
    }

    fn set_first_offset(&mut self, index: usize, offset: u64) {
        let at = self.counts_at() + self.capacity() + index / 2;
        let up = index % 2 * 32;
        let word = &mut self.words[at];
        *word = *word & !(LOW << up) | (offset & LOW) << up;
    }

    /// Doubles the unit of time.
    fn coarsen(&mut self) {
        for index in 0..self.len() {
            let offset = self.first_offset(index);
            self.set_first_offset(index, offset >> 1);
        }
        self.last >>= 1;
        self.shift += 1;
    }

    /// Moves the base of time to one that is earlier.
    fn rebase(&mut self, base: u64) {
        let back = self.base - base;
        // Above by one for what the two roundings may add.
        while (back >> self.shift).saturating_add(self.latest() + 1) > LOW {
            self.coarsen();
        }
        for index in 0..self.len() {
            let offset = self.first_offset(index) + (back >> self.shift);
            self.set_first_offset(index, offset);
        }
        // The cast is exact: the latest fits, and last is one of those it is the latest of.
        self.last = (u64::from(self.last) + (back >> self.shift)) as u32;
        self.base = base;
    }

    fn latest(&self) -> u64 {
        let firsts = (0..self.len()).map(|index| self.first_offset(index));
        firsts.fold(u64::from(self.last), u64::max)
    }
}

/// Where a word is. Most values of a list without common ones are not there: several are looked at before
/// it is asked whether any of them was it.
#[inline]
fn position(words: &[u64], word: u64) -> Option<usize> {
    let (groups, rest) = words.as_chunks::<4>();
    for (number, group) in groups.iter().enumerate() {
        let found = group.map(|one| one == word);
        if found.iter().any(|&found| found) {
            let at = found.iter().position(|&found| found)?;
            return Some(number * 4 + at);
        }
    }
    let at = rest.iter().position(|&one| one == word)?;
    Some(groups.len() * 4 + at)
}
