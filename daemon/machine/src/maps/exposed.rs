//! Where somebody else may write although one thread alone uses the address space.

use addresses::{ProcessAddress, ProcessRange};

use crate::mapping::Mapping;

/// Ranges that are told apart in one process.
pub(super) const MOST: usize = 32;

/// Where something [exposed](Mapping::is_exposed) was mapped, or may be yet: nothing tells that
/// memory is unmapped.
#[derive(Clone, Debug, Default)]
pub(super) struct Exposed(Vec<ProcessRange>);

impl Exposed {
    /// Takes notice of a mapping.
    pub(super) fn add(&mut self, mapping: &Mapping) {
        if !mapping.is_exposed() {
            return;
        }
        if self.0.len() < MOST {
            self.0.push(mapping.range);
        } else {
            self.0[0] = ProcessRange::of_words(0, u64::MAX);
        }
    }

    /// Whether an address may be exposed.
    pub(super) fn contains(&self, address: ProcessAddress) -> bool {
        self.0.iter().any(|range| range.contains(address))
    }
}
