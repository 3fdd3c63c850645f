//! Value events of one instruction, held back until it is known not to fault.
//!
//! A kind that is not captured costs its instructions a test of a bit and a branch not taken. What
//! makes an event of a value is out of line, marked as cold, for the kinds that are captured only
//! when asked for: it takes neither room nor registers where instructions are interpreted, which
//! would weigh more than the test.

use crate::host::Sink;
use crate::word::Word;
use parameters::{Parameter, ValueKinds};

/// No instruction has more: of a vector of eight words those loaded, overwritten, stored and
/// written, three operands read, two addresses, four general registers written.
const MAX: usize = 48;

/// The events of the current instruction.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    /// The kinds that are captured at the current instruction.
    capture: ValueKinds,
    held: [(Parameter, Option<u64>); MAX],
    len: usize,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            capture: ValueKinds::NONE,
            held: [(Parameter::Taken, None); MAX],
            len: 0,
        }
    }

    /// Begins an instruction, of which these kinds are captured.
    #[inline]
    pub(crate) fn begin(&mut self, capture: ValueKinds) {
        self.capture = capture;
        self.len = 0;
    }

    /// Whether any of these kinds is captured.
    #[inline]
    pub(crate) fn wants(&self, kinds: ValueKinds) -> bool {
        self.capture.meets(kinds)
    }

    /// Holds an event, if its kind is captured.
    #[inline]
    pub(crate) fn add(&mut self, parameter: Parameter, value: Option<u64>) {
        if self.wants(parameter.kinds()) {
            self.hold(parameter, value);
        }
    }

    /// Holds the low `bytes` of a word as an event, if its kind is captured.
    #[inline]
    pub(crate) fn add_word(&mut self, parameter: Parameter, word: Word, bytes: u32) {
        if self.wants(parameter.kinds()) {
            self.hold_word(parameter, word, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn hold_word(&mut self, parameter: Parameter, word: Word, bytes: u32) {
        self.hold(parameter, word.get(bytes));
    }

    /// Holds an event that is captured.
    #[inline]
    pub(crate) fn hold(&mut self, parameter: Parameter, value: Option<u64>) {
        let held = self.held.get_mut(self.len);
        debug_assert!(
            held.is_some(),
            "an instruction has more events than were thought of"
        );
        if let Some(held) = held {
            *held = (parameter, value);
            self.len += 1;
        }
    }

    /// Gives the effective address another value.
    pub(crate) fn move_address(&mut self, address: Option<u64>) {
        for held in &mut self.held[..self.len] {
            if held.0 == Parameter::Ea {
                held.1 = address;
            }
        }
    }

    /// Hands out what is held.
    #[inline]
    pub(crate) fn deliver(&self, pc: u64, sink: &mut dyn Sink) {
        let held = self.held.get(..self.len).unwrap_or_default();
        if !held.is_empty() {
            sink.values(pc, held);
        }
    }
}
