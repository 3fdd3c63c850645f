//! What the loads and stores of an instruction say together, next to those before it in the window.
//!
//! An instruction may load in several pieces, and an exception may end it behind some of them. So
//! what is found stands until the instruction is known to be done.

use parameters::{Locality, Parameter, ValueKinds};
use rustc_hash::FxHashMap;

use super::loaded::{Loaded, REACH, both};
use consumers::events::Event;

/// What one instruction gives at most: stride, line, reload and silent.
const MOST: usize = 4;

/// The loads and stores of a window.
#[derive(Debug, Default)]
pub(crate) struct Accesses {
    wants_strides: bool,
    wants_redundant: bool,
    /// Where each instruction loaded last, by its PC; `None`: not known.
    last: FxHashMap<u64, Option<u64>>,
    loaded: Loaded,
    present: Present,
}

/// What the present instruction did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Present {
    /// Where it loaded first, if it did; `Some(None)`: not known.
    first: Option<Option<u64>>,
    /// Whether all that it loads was loaded before, if it loads.
    reload: Option<Option<bool>>,
    /// Whether all that it stores was there, if it stores.
    silent: Option<Option<bool>>,
    /// It did more than was told.
    more: bool,
}

/// Values of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    events: [Event; MOST],
    count: usize,
}

impl Found {
    fn push(&mut self, parameter: Parameter, value: Option<u64>) {
        if let Some(event) = self.events.get_mut(self.count) {
            *event = (parameter, value);
            self.count += 1;
        }
    }

    pub(super) fn events(&self) -> &[Event] {
        self.events.get(..self.count).unwrap_or_default()
    }
}

/// Adds what holds of one more piece.
fn join(of_all: &mut Option<Option<bool>>, piece: Option<bool>) {
    *of_all = Some(match *of_all {
        Some(before) => both(before, piece),
        None => piece,
    });
}

impl Accesses {
    /// Begins a window that captures these kinds.
    pub(super) fn begin(&mut self, capture: ValueKinds) {
        self.wants_strides = capture.contains(ValueKinds::STRIDE);
        self.wants_redundant = capture.contains(ValueKinds::REDUNDANT);
        self.present = Present::default();
        if self.wants_strides {
            self.last.clear();
        }
        if self.wants_redundant {
            self.loaded.clear();
        }
    }

    /// The window reaches an instruction: which one it is, from 1.
    pub(super) fn reached(&mut self, depth: u32) {
        self.loaded.now = depth;
    }

    /// Whether anything is wanted of loads and stores.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.wants_strides || self.wants_redundant
    }

    /// The present instruction loads.
    pub(super) fn load(&mut self, address: Option<u64>, bytes: u32) {
        self.present.first.get_or_insert(address);
        if self.wants_redundant {
            let is_again = self.loaded.load(address, bytes);
            if self.loaded.now > REACH {
                join(&mut self.present.reload, is_again);
            }
        }
    }

    /// The present instruction stores; `is_certain`: all of these bytes, whatever becomes of them.
    pub(super) fn store(&mut self, address: Option<u64>, bytes: u32, is_certain: bool) {
        if self.wants_redundant {
            self.loaded.store(address, bytes, is_certain);
        }
    }

    /// What the present instruction stores is there, is not, or nobody knows.
    pub(super) fn stored_over(&mut self, is_same: Option<bool>) {
        if self.wants_redundant {
            join(&mut self.present.silent, is_same);
        }
    }

    /// The present instruction does more than it tells.
    pub(super) fn more(&mut self) {
        self.present.more = true;
        if self.wants_redundant {
            self.loaded.miss();
        }
    }

    /// The present instruction, at this PC, is done: what its accesses say.
    pub(super) fn settle(&mut self, pc: u64) -> Found {
        let Present {
            first,
            reload,
            silent,
            more,
        } = std::mem::take(&mut self.present);
        let mut found = Found {
            events: [(Parameter::Stride, None); MOST],
            count: 0,
        };
        if self.wants_strides {
            let first = match first {
                Some(address) => Some(address.filter(|_| !more)),
                None if more && self.last.contains_key(&pc) => Some(None),
                None => None,
            };
            if let Some(address) = first
                && let Some(last) = self.last.insert(pc, address)
            {
                let pair = last.zip(address);
                let stride = pair.map(|(last, next)| next.wrapping_sub(last));
                let locality = pair.map(|(last, next)| Locality::between(last, next));
                found.push(Parameter::Stride, stride);
                found.push(Parameter::Line, locality.map(|locality| locality as u64));
            }
        }
        for (parameter, told) in [(Parameter::Reload, reload), (Parameter::Silent, silent)] {
            if let Some(holds) = told {
                let holds = holds.filter(|_| !more);
                found.push(parameter, holds.map(u64::from));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: ValueKinds = ValueKinds::STRIDE.with(ValueKinds::REDUNDANT);

    fn begun(capture: ValueKinds) -> Accesses {
        let mut accesses = Accesses::default();
        accesses.begin(capture);
        accesses
    }

    /// An instruction has a stride from its second load on; it is that of its first piece.
    #[test]
    fn strides() {
        let mut accesses = begun(ValueKinds::STRIDE);
        let mut load = |address: u64| {
            accesses.load(Some(address), 8);
            accesses.load(Some(address + 8), 8);
            accesses.settle(1).events().to_vec()
        };
        assert_eq!(load(0x1000), []);
        let found = |stride: i64, locality: Locality| {
            [
                (Parameter::Stride, Some(stride.cast_unsigned())),
                (Parameter::Line, Some(locality as u64)),
            ]
        };
        assert_eq!(load(0x1010), found(16, Locality::Line));
        assert_eq!(load(0x1050), found(64, Locality::Page));
        assert_eq!(load(0x1010), found(-64, Locality::Page));
        assert_eq!(load(0x2010), found(0x1000, Locality::Elsewhere));
        accesses.begin(ValueKinds::STRIDE);
        accesses.load(Some(0x3000), 8);
        assert_eq!(accesses.settle(1).events(), []);
    }

    /// A load at an unknown address has no stride, nor has the one behind it. So it is with one
    /// that is not all told.
    #[test]
    fn unknown_strides() {
        let unknown = [(Parameter::Stride, None), (Parameter::Line, None)];
        let mut accesses = begun(ValueKinds::STRIDE);
        for (address, more, expected) in [
            (Some(8), false, &[][..]),
            (None, false, &unknown[..]),
            (Some(16), false, &unknown[..]),
            (Some(24), true, &unknown[..]),
            (Some(32), false, &unknown[..]),
        ] {
            accesses.load(address, 8);
            if more {
                accesses.more();
            }
            assert_eq!(accesses.settle(1).events(), expected);
        }
        // All that it loads is untold.
        accesses.more();
        assert_eq!(accesses.settle(1).events(), unknown);
        accesses.more();
        assert_eq!(accesses.settle(2).events(), []);
    }

    /// What an instruction loads or stores in several pieces is redundant if all of it is.
    #[test]
    fn redundancy() {
        let mut accesses = begun(BOTH);
        accesses.load(Some(0x1008), 8);
        assert_eq!(accesses.settle(1).events(), []);
        accesses.reached(REACH + 1);
        let mut load = |pc, address: u64, pieces: u64| {
            for piece in 0..pieces {
                accesses.load(Some(address + 8 * piece), 8);
            }
            let found = accesses.settle(pc);
            let reload = found.events().iter().find(|of| of.0 == Parameter::Reload);
            reload.copied().map(|(_, value)| value)
        };
        assert_eq!(load(1, 0x2000, 2), Some(Some(0)));
        assert_eq!(load(2, 0x2008, 1), Some(Some(1)));
        assert_eq!(load(3, 0x2008, 2), Some(Some(0)));
        let mut silent = |pieces: &[Option<bool>]| {
            for piece in pieces {
                accesses.stored_over(*piece);
            }
            let found = accesses.settle(9);
            found.events().to_vec()
        };
        assert_eq!(silent(&[]), []);
        for (pieces, value) in [
            (&[Some(true), Some(true)][..], Some(1)),
            (&[Some(true), None], None),
            (&[None, Some(false)], Some(0)),
        ] {
            assert_eq!(silent(pieces), [(Parameter::Silent, value)]);
        }
    }
}
