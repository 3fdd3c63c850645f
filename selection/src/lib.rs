//! Which rows of a profile somebody wants: by time, epoch, process, user, image, place and kind.
//!
//! One type says so to the service, to the database, and from a report to both. It knows neither of
//! them. What somebody may see is another matter, which the service decides.

use serde::{Deserialize, Serialize};

/// Which rows a reader wants of those it may see; what is empty or `None` lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Without flushes that ended before or at this, in nanoseconds of the Unix epoch.
    pub since: Option<i64>,
    /// Without flushes that ended after this, in nanoseconds of the Unix epoch.
    pub until: Option<i64>,
    /// Epochs by their ids, which are those of the service's databases.
    pub epochs: Vec<i64>,
    /// Process ids.
    pub pids: Vec<u32>,
    /// Real user ids.
    pub uids: Vec<u32>,
    /// Images by path, by file name, or by the first four or more digits of the build id.
    pub images: Vec<String>,
    /// Values, branches and calls by their addresses, calls also by those of the callees; empty
    /// lets all through. Shares are of all cycles, so these are there anyhow.
    pub ranges: Vec<Range>,
    /// Kinds of rows.
    pub kinds: Kinds,
}

/// Instructions of an image: a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The image, as in [`Selection::images`].
    pub image: String,
    /// The first address, in what the image's addresses count from.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
}

/// Kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kinds {
    /// Interrupts: time.
    pub cycles: bool,
    /// Value profiles.
    pub values: bool,
    /// Directions of branches.
    pub branches: bool,
    /// Calls and indirect jumps.
    pub calls: bool,
    /// Call stacks.
    pub stacks: bool,
    /// Counters.
    pub counters: bool,
}

impl Kinds {
    /// All of them.
    pub const ALL: Self = Kinds {
        cycles: true,
        values: true,
        branches: true,
        calls: true,
        stacks: true,
        counters: true,
    };

    /// Whether there is no row at all. The privileged get all images and names then.
    pub fn is_none(self) -> bool {
        let Kinds {
            cycles,
            values,
            branches,
            calls,
            stacks,
            counters,
        } = self;
        !(cycles || values || branches || calls || stacks || counters)
    }
}

impl Default for Kinds {
    /// A selection that lets all rows through.
    fn default() -> Self {
        Self::ALL
    }
}
