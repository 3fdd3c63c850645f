//! Whether the windows of a place lie in stretches of the program that have values of their own.
//!
//! Later events of a window are executions as far as windows are alike. Where a program has slow
//! and quick stretches that are longer than a window, windows begin in the slow ones, and see the
//! values of these. So it is where an interpreter goes through a fixed program, of which few steps
//! are slow: windows see what follows those. Neither is told by how later events depend on the
//! first one, which a stretch makes alike by little.
//!
//! Two things are counted of the most frequent value:
//!
//! - how two events of a window go together that are far from each other. What an execution passes
//!   on to those behind it is forgotten between them, so what is alike in both is of the stretch;
//! - how often events have it in three parts of a window, behind its first quarter. Where the
//!   program is mixed well, these shares are the same.

use std::collections::VecDeque;

use hotlist::Hotlist;
use hotlist::unlike::{ERRORS, MOST_OFF, are_unlike};

/// Events of a list from which on its most frequent value is looked at; and again after so many
/// times as many, since another one may have come to be it.
const SOME: u64 = 16;
const AGAIN: u64 = 4;
/// Where more of the events than this come a quarter of a window behind the one before, a window
/// has too few for this. Where more come an eighth of it behind, those of the first part have not
/// forgotten yet where windows begin.
const MOST_LATE: f64 = 0.02;
/// Events of a window that wait until they are far from the present one.
const WAITING: usize = 16;
/// Rough size of all of it, in bytes.
const BYTES: usize = size_of::<Stretches>() + WAITING * size_of::<(u32, bool)>();

/// The events of a place, by whether they have its most frequent value.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretches {
    value: u64,
    /// Events of the list at which the value is looked at again.
    look_at: u64,
    /// The window, the lower half of its number.
    window: u32,
    /// Its events that are not far from the present one: instruction, and whether they have the
    /// value.
    near: VecDeque<(u32, bool)>,
    /// Those that are, and how many of them have the value.
    far: u64,
    far_equal: u64,
    /// Pairs of events that are far from each other: all, those whose first one has the value,
    /// whose second one has, and whose both have.
    pairs: u64,
    first: u64,
    second: u64,
    both: u64,
    /// See [`parts`].
    begins: [u32; 4],
    parts: [Part; 3],
    last_part: Option<usize>,
    /// Events, and those that come more than a quarter, and an eighth, of a window behind the one
    /// before.
    events: u64,
    late: [u64; 2],
}

/// A part of windows: see [`parts`].
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Windows that have events there.
    windows: u64,
    /// The events, and those of them that have the value.
    events: u64,
    equal: u64,
}

impl Part {
    fn share(&self) -> f64 {
        self.equal as f64 / self.events.max(1) as f64
    }
}

/// Where an event is that is not the first of its window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Where {
    /// The window, the lower half of its number.
    pub(super) window: u32,
    /// Which of its instructions this is, from 1, and how many behind the event before.
    pub(super) depth: u32,
    pub(super) gap: u32,
    /// Instructions of a window.
    pub(super) long: u32,
}

/// The instructions behind which the parts of a window begin, and the last one ends: behind its
/// first quarter, which has not forgotten where the window begins, there are three parts.
///
/// They do not begin at the same instruction in all windows. Where windows begin at one
/// instruction, and rounds have as many as fit into a part, the last one is in it or not by its
/// value, which may take one instruction more than another.
fn parts(window: u32, long: u32) -> [u32; 4] {
    let moved = long / 8;
    // The upper half of the product is as good as drawn.
    let by = (u64::from(window.wrapping_mul(0x9e37_79b9)) * u64::from(moved)) >> 32;
    // It is below `moved`.
    let begin = long / 4 + by as u32;
    let width = (long - long / 4 - moved) / 3;
    [0, 1, 2, 3].map(|part| begin + part * width)
}

impl Stretches {
    fn of(value: u64, events: u64) -> Self {
        Self {
            value,
            look_at: events.saturating_mul(AGAIN),
            ..Self::default()
        }
    }

    /// Begins where a place has some events, and anew where another value has come to be the most
    /// frequent one.
    pub(super) fn look(
        this: &mut Option<Box<Stretches>>,
        events: u64,
        most_frequent: impl FnOnce() -> Option<u64>,
    ) {
        if events < this.as_ref().map_or(SOME, |this| this.look_at) {
            return;
        }
        let Some(value) = most_frequent() else {
            return;
        };
        match this {
            Some(this) if this.value == value => this.look_at = events.saturating_mul(AGAIN),
            Some(this) => **this = Self::of(value, events),
            None => *this = Some(Box::new(Self::of(value, events))),
        }
    }

    /// [Looks](Self::look) at the values of a list.
    pub(super) fn look_at_list(this: &mut Option<Box<Stretches>>, list: &Hotlist<u64>) {
        let top = || list.tuples().next().map(|tuple| tuple.value);
        Stretches::look(this, list.events(), top);
    }

    /// Rough size, in bytes.
    pub(super) fn bytes(this: &Option<Box<Stretches>>) -> usize {
        this.as_ref().map_or(0, |_| BYTES)
    }

    /// Counts an event with a known value.
    pub(super) fn saw(&mut self, at: Where, value: u64) {
        let is_equal = value == self.value;
        self.events += 1;
        for (late, part) in self.late.iter_mut().zip([4, 8]) {
            *late += u64::from(at.gap > at.long / part);
        }
        if self.window != at.window {
            self.window = at.window;
            self.near.clear();
            (self.far, self.far_equal, self.last_part) = (0, 0, None);
            self.begins = parts(at.window, at.long);
        }
        let quarter = at.long / 4;
        while let Some(&(depth, equal)) = self.near.front()
            && depth + quarter <= at.depth
        {
            self.near.pop_front();
            self.far += 1;
            self.far_equal += u64::from(equal);
        }
        self.pairs += self.far;
        self.first += self.far_equal;
        self.second += u64::from(is_equal) * self.far;
        self.both += u64::from(is_equal) * self.far_equal;
        if self.near.len() < WAITING {
            self.near.push_back((at.depth, is_equal));
        }
        let [begin, second, third, end] = self.begins;
        if at.depth > begin && at.depth <= end {
            let number = usize::from(at.depth > second) + usize::from(at.depth > third);
            let of = &mut self.parts[number];
            of.windows += u64::from(self.last_part != Some(number));
            of.events += 1;
            of.equal += u64::from(is_equal);
            self.last_part = Some(number);
        }
    }

    /// Whether what windows show is no share of executions, for either of both reasons.
    pub(super) fn are_unlike(this: &Option<Box<Stretches>>) -> bool {
        let unlike = |of: &Stretches| of.differ() || of.depends_on_place();
        this.as_deref().is_some_and(unlike)
    }

    /// Whether events come so late that one, or both, of the questions cannot be asked: see
    /// [`MOST_LATE`].
    fn are_late(&self) -> [bool; 2] {
        self.late
            .map(|late| late as f64 > MOST_LATE * self.events as f64)
    }

    /// Whether windows are of stretches that differ, so that shares of all windows may be off by
    /// more than [`MOST_OFF`].
    fn differ(&self) -> bool {
        let pairs = self.pairs.max(1) as f64;
        let [first, second, both] =
            [self.first, self.second, self.both].map(|of| of as f64 / pairs);
        let together = both - first * second;
        let error = (first * (1.0 - first) * second * (1.0 - second) / pairs).sqrt();
        !self.are_late()[0] && are_unlike(together, error)
    }

    /// Whether the share of the value depends on how far from the window's beginning it is looked
    /// for, by more than [`MOST_OFF`].
    pub(super) fn depends_on_place(&self) -> bool {
        let parts = match self.are_late() {
            [true, _] => &[],
            [false, true] => &self.parts[1..],
            [false, false] => &self.parts[..],
        };
        let mut pairs = parts
            .iter()
            .flat_map(|one| parts.iter().map(move |other| (one, other)));
        pairs.any(|(one, other)| {
            let all = (one.events + other.events).max(1) as f64;
            let share = (one.equal + other.equal) as f64 / all;
            let of_windows = |of: &Part| 1.0 / of.windows.max(1) as f64;
            // The events of a window may be all alike.
            let square = share * (1.0 - share) * (of_windows(one) + of_windows(other));
            one.windows > 0
                && other.windows > 0
                && (one.share() - other.share()).abs() > MOST_OFF + ERRORS * square.sqrt()
        })
    }
}
