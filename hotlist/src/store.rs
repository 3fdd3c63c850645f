//! Where a list keeps its tuples: one block of memory, laid out for the search.
//!
//! ```text
//! words: | values, R of W words | mark, pair | (B, D), mark, pair, R times | S, R of 32 bits |
//! B, D:  | 32 bits | 32 bits |
//! mark:  | variance, 16 bits | events in the window before | in this window | its number, 16 |
//! pair:  | pairs within windows, 32 bits | pairs across windows, 32 bits |
//! ```
//! There is room for R tuples: for all N that the list may have, or for as many as it has needed.
//! The first mark and the first pair are of the list, as if all its events had one value.
//! The values come first and together, because every event looks through them and few events
//! need more. Where 16 values of a word begin with a line of the processor's cache, another
//! line has all else that an event of the first two needs. Tuples are kept in order of their
//! estimates, so that the common value is met first. Times are kept as multiples of 2^shift
//! since `base`; the shift grows with the span, so a time is exact while the list spans less
//! than 2^32 units of it and later right to one part in 2^31 of the span. A variance has eight
//! significant bits.

// Over 500 lines: the layout of the block and all that reads and writes it are one type.

use std::marker::PhantomData;

use crate::pairs::Pairs;
use crate::words::MAX_WORDS;
use crate::{Eviction, Words};

/// One tuple without its value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// B: events counted with probability p.
    pub(crate) counted: u64,
    /// D: events counted surely.
    pub(crate) certain: u64,
    /// S: estimated time of the first event still counted.
    pub(crate) first: u64,
    /// Estimated variance of the estimate. It is kept for tuples of one event counted with
    /// probability p that are evicted by weight; of others B and p tell it.
    pub(crate) variance: f32,
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
    /// Tuples that there is room for.
    room: u8,
    len: u8,
    /// The unit of time, in six bits; [`UNTOLD`]; [`BY_WEIGHT`].
    flags: u8,
    value: PhantomData<V>,
}

/// The room that a store begins with which grows, and how many times as large it then becomes.
const FIRST_ROOM: u8 = 1;
const GROWTH: u8 = 4;

const LOW: u64 = 0xffff_ffff;
/// The part of the flags that is the unit of time.
const SHIFT: u8 = 63;
/// The pairs are not known.
const UNTOLD: u8 = 64;
/// Tuples are evicted by weight.
const BY_WEIGHT: u8 = 128;

/// The parts of a mark: see the module's page.
const BEFORE_AT: u32 = 16;
const NOW_AT: u32 = 32;
const WINDOW_AT: u32 = 48;
/// The most events of a window that are told apart.
const MOST_IN_WINDOW: u64 = 0xffff;
/// Either half of a pair is past its middle: it must not come to its end.
const PAST_MIDDLE: u64 = 0x8000_0000_8000_0000;

impl<V: Words> Store<V> {
    /// A store with room for all of its tuples: the only allocation of its life.
    pub(crate) fn new(capacity: u8, eviction: Eviction) -> Self {
        Self::with_room(capacity, capacity, eviction)
    }

    /// A store that takes more room as it needs it.
    pub(crate) fn growing(capacity: u8, eviction: Eviction) -> Self {
        Self::with_room(FIRST_ROOM.min(capacity), capacity, eviction)
    }

    fn with_room(room: u8, capacity: u8, eviction: Eviction) -> Self {
        const {
            assert!(
                V::WORDS >= 1 && V::WORDS <= MAX_WORDS,
                "a value has 1 to MAX_WORDS words"
            )
        };
        let n = usize::from(room);
        let words = n * V::WORDS + n + 2 * (n + 1) + n.div_ceil(2);
        Self {
            words: vec![0; words].into_boxed_slice(),
            base: 0,
            last: 0,
            capacity,
            room,
            len: 0,
            flags: match eviction {
                Eviction::ByEvent => 0,
                Eviction::ByWeight => BY_WEIGHT,
            },
            value: PhantomData,
        }
    }

    /// Keeps the room that it has, or that it first grows to.
    pub(crate) fn stop_growing(&mut self) {
        let most = self.room.max(FIRST_ROOM * GROWTH);
        self.capacity = self.capacity.min(most);
    }

    /// Makes room for more tuples, where there may be more.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let room = self.room.saturating_mul(GROWTH).min(self.capacity);
        let mut grown = Self::with_room(room, self.capacity, self.eviction());
        // Each part of the block is as it was, with more behind it.
        let len = self.len();
        for (from, to, words) in [
            (0, 0, len * V::WORDS),
            (self.list_at(), grown.list_at(), 2 + 3 * len),
            (self.firsts_at(), grown.firsts_at(), len.div_ceil(2)),
        ] {
            grown.words[to..to + words].copy_from_slice(&self.words[from..from + words]);
        }
        (self.words, self.room) = (grown.words, room);
    }

    pub(crate) fn eviction(&self) -> Eviction {
        match self.flags & BY_WEIGHT {
            0 => Eviction::ByEvent,
            _ => Eviction::ByWeight,
        }
    }

    fn shift(&self) -> u32 {
        u32::from(self.flags & SHIFT)
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn room(&self) -> usize {
        usize::from(self.room)
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

    /// Where the mark and the pair of the list are.
    fn list_at(&self) -> usize {
        self.room() * V::WORDS
    }

    fn counts_at(&self, index: usize) -> usize {
        self.list_at() + 2 + 3 * index
    }

    /// (B, D) in one word.
    #[inline]
    fn packed(&self, index: usize) -> u64 {
        self.words
            .get(self.counts_at(index))
            .copied()
            .unwrap_or_default()
    }

    #[inline]
    fn packed_mut(&mut self, index: usize) -> &mut u64 {
        let at = self.counts_at(index);
        &mut self.words[at]
    }

    pub(crate) fn counts(&self, index: usize) -> Counts {
        let packed = self.packed(index);
        // Cast: the part that is a variance.
        let variance = u32::from(self.mark(index + 1) as u16) << 16;
        Counts {
            counted: packed & LOW,
            certain: packed >> 32,
            first: self.time(self.first_offset(index)),
            variance: f32::from_bits(variance),
        }
    }

    /// Where the mark of the list is, or of the tuple before `place`; the pair is behind it.
    fn mark_at(&self, place: usize) -> usize {
        self.list_at() + 3 * place
    }

    fn firsts_at(&self) -> usize {
        self.counts_at(self.room())
    }

    fn mark(&self, place: usize) -> u64 {
        let mark = self.words.get(self.mark_at(place));
        mark.copied().unwrap_or_default()
    }

    /// Whether pairs are counted.
    #[inline]
    pub(crate) fn tells_pairs(&self) -> bool {
        self.flags & UNTOLD == 0
    }

    /// Stops counting pairs, and forgets those that were counted.
    pub(crate) fn forget_pairs(&mut self) {
        self.flags |= UNTOLD;
        for place in 0..=self.room() {
            let at = self.mark_at(place) + 1;
            self.words[at] = 0;
        }
    }

    /// The pairs of the list, or of the tuple before `place`.
    pub(crate) fn pairs(&self, place: usize) -> Pairs {
        let pair = self.words.get(self.mark_at(place) + 1);
        let pair = pair.copied().unwrap_or_default();
        Pairs {
            within: pair & LOW,
            across: pair >> 32,
        }
    }

    /// Brings back pairs that were counted earlier; whether they fit.
    #[must_use]
    pub(crate) fn set_pairs(&mut self, place: usize, pairs: Pairs) -> bool {
        let at = self.mark_at(place) + 1;
        let fit = (pairs.within | pairs.across) <= LOW >> 1;
        if fit {
            self.words[at] = pairs.within | pairs.across << 32;
        }
        fit
    }

    /// Counts the pairs that an event makes with those of the list before it, and with those of
    /// its value, if that is in the list. `opens`: it is the first of its window.
    #[inline]
    pub(crate) fn pair(&mut self, index: Option<usize>, opens: bool) {
        let at = self.list_at();
        let Some([mark, pair]) = self.words.get_mut(at..at + 2) else {
            return;
        };
        let next = match opens || now_of(*mark) == 0 {
            true => marked(*mark, 1 + (*mark >> WINDOW_AT)),
            false => marked(*mark, *mark >> WINDOW_AT),
        };
        *mark = next;
        *pair += made(next);
        let mut past = *pair;
        let of_tuple = index.map_or(0, |index| self.mark_at(index + 1));
        if let Some([mark, pair]) = self.words.get_mut(of_tuple..of_tuple + 2)
            && index.is_some()
        {
            *mark = marked(*mark, next >> WINDOW_AT);
            *pair += made(*mark);
            past |= *pair;
        }
        if past & PAST_MIDDLE != 0 {
            self.forget_pairs();
        }
    }

    /// Marks a tuple that has just come by the event that the list was last paired for.
    pub(crate) fn pair_newcomer(&mut self, index: usize) {
        let window = self.mark(0) >> WINDOW_AT;
        let at = self.mark_at(index + 1);
        self.words[at] = marked(self.words[at], window);
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
        let (of_a, of_b) = (self.counts_at(a), self.counts_at(b));
        for part in 0..3 {
            self.words.swap(of_a + part, of_b + part);
        }
        let (first_a, first_b) = (self.first_offset(a), self.first_offset(b));
        self.set_first_offset(a, first_b);
        self.set_first_offset(b, first_a);
    }

    /// Adds a tuple at the end; the caller has seen that there is room.
    pub(crate) fn push(&mut self, value: V, counts: Counts) {
        if self.is_full() {
            return;
        }
        if self.len >= self.room {
            self.grow();
        }
        let index = self.len();
        if let Some(words) = self.words.get_mut(index * V::WORDS..(index + 1) * V::WORDS) {
            value.write(words);
        }
        if self.len == 0 {
            (self.base, self.last) = (counts.first, 0);
            self.flags &= !SHIFT;
        }
        self.len += 1;
        // As if its last event had come long ago.
        let long_ago = (self.mark(0) >> WINDOW_AT).wrapping_sub(2) << WINDOW_AT;
        let mark = self.mark_at(index + 1);
        self.words[mark] = long_ago;
        self.words[mark + 1] = 0;
        self.set_first_offset(index, 0);
        self.set(index, counts);
    }

    /// Replaces the counts of a tuple.
    pub(crate) fn set_counts(&mut self, index: usize, counts: Counts) {
        *self.packed_mut(index) = counts.pack();
        let at = self.mark_at(index + 1);
        // To the nearest that has so many bits.
        let variance = counts.variance.to_bits().saturating_add(1 << 15) >> 16;
        let mark = &mut self.words[at];
        *mark = *mark & !0xffff | u64::from(variance);
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
        let mut offset = since >> self.shift();
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
        self.base.saturating_add(offset << self.shift())
    }

    /// A time in units since the base, both of which change where they do not fit.
    #[cold]
    #[inline(never)]
    fn offset(&mut self, time: u64) -> u64 {
        if time < self.base {
            self.rebase(time);
        }
        while (time - self.base) >> self.shift() > LOW {
            self.coarsen();
        }
        (time - self.base) >> self.shift()
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
        let (source, target) = (self.counts_at(from), self.counts_at(to));
        self.words.copy_within(source..source + 3, target);
        self.set_first_offset(to, self.first_offset(from));
    }

    /// Two times in a word: even tuples below, odd ones above.
    fn first_offset(&self, index: usize) -> u64 {
        let word = self.words.get(self.firsts_at() + index / 2);
        word.map_or(0, |word| word >> (index % 2 * 32) & LOW)
    }

    fn set_first_offset(&mut self, index: usize, offset: u64) {
        let at = self.firsts_at() + index / 2;
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
        // In six bits: the span of 64 bits fits into 32 long before.
        self.flags += 1;
    }

    /// Moves the base of time to one that is earlier.
    fn rebase(&mut self, base: u64) {
        let back = self.base - base;
        // Above by one for what the two roundings may add.
        while (back >> self.shift()).saturating_add(self.latest() + 1) > LOW {
            self.coarsen();
        }
        for index in 0..self.len() {
            let offset = self.first_offset(index) + (back >> self.shift());
            self.set_first_offset(index, offset);
        }
        // The cast is exact: the latest fits, and last is one of those it is the latest of.
        self.last = (u64::from(self.last) + (back >> self.shift())) as u32;
        self.base = base;
    }

    fn latest(&self) -> u64 {
        let firsts = (0..self.len()).map(|index| self.first_offset(index));
        firsts.fold(u64::from(self.last), u64::max)
    }
}

fn now_of(mark: u64) -> u64 {
    mark >> NOW_AT & MOST_IN_WINDOW
}

/// The mark after an event of this window, which it may be the first of. Numbers of windows have
/// sixteen bits: one that comes again is taken for the same, once in 65,536.
#[inline]
fn marked(mark: u64, window: u64) -> u64 {
    let (before, now) = (mark >> BEFORE_AT & MOST_IN_WINDOW, now_of(mark));
    let (before, now) = match window.wrapping_sub(mark >> WINDOW_AT) & 0xffff {
        0 => (before, (now + 1).min(MOST_IN_WINDOW)),
        1 => (now, 1),
        _ => (0, 1),
    };
    mark & 0xffff | before << BEFORE_AT | now << NOW_AT | window << WINDOW_AT
}

/// The pairs that the event makes after which the mark is this: one in both orders with each
/// before it in the window, and one with each of the window before.
#[inline]
fn made(mark: u64) -> u64 {
    let before = mark >> BEFORE_AT & MOST_IN_WINDOW;
    2 * (now_of(mark) - 1) + (before << 32)
}

/// Where a word is. Most values of a list without common ones are not there: several are looked at
/// before it is asked whether any of them was it.
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
