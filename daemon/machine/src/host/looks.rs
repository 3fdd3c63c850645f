//! What looks at a process bring: answers that a recording keeps.

use addresses::ProcessRange;
use sampler::Vma;
use serde::{Deserialize, Serialize};

/// A look at a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLook {
    /// The time before the look, and behind it.
    pub(crate) before: u64,
    pub(crate) behind: u64,
    /// What lay there; `None`: the same as at the last look.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// What single pages of a process may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// Any page may be a guard.
    pub(crate) anywhere: bool,
    /// Any page may raise an exception, when it is written, too, though it can be read.
    pub(crate) by_user: bool,
    /// First addresses of mappings that have guard regions, and addresses behind their last.
    pub(crate) mappings: Vec<(u64, u64)>,
}

impl Marks {
    /// Mappings with guard regions that are told apart.
    pub(crate) const MAX_MAPPINGS: usize = 256;

    /// Adds what another look saw.
    pub(crate) fn add(&mut self, other: Self) {
        self.anywhere |= other.anywhere;
        self.by_user |= other.by_user;
        for mapping in other.mappings {
            if !self.mappings.contains(&mapping) {
                self.mappings.push(mapping);
            }
        }
        if self.mappings.len() > Self::MAX_MAPPINGS {
            self.mappings = Vec::new();
            self.anywhere = true;
        }
    }
}

/// What lies around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Region {
    /// A mapping.
    Mapped(Vma),
    /// Nothing is mapped from `start` on, up to `end`.
    Free {
        /// The first byte.
        start: u64,
        /// The first byte behind.
        end: u64,
    },
}

impl Region {
    pub(crate) fn range(&self) -> ProcessRange {
        match self {
            Region::Mapped(vma) => vma.range(),
            Region::Free { start, end } => ProcessRange::of_words(*start, *end),
        }
    }
}

/// A region, and the time before it was looked at.
pub(crate) type Look = (Region, u64);
