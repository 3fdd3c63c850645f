//! What a roll-up makes.

use crate::chunk::{ChunkKind, ChunkPlace};

/// A chunk as it lies in a database.
#[derive(Debug)]
pub(crate) struct RolledChunk {
    pub(crate) kind: ChunkKind,
    /// Under the ids of what is written.
    pub(crate) subject: i64,
    /// The row of the roll-up that it goes to.
    pub(crate) target: i64,
    pub(crate) place: ChunkPlace,
    pub(crate) data: Vec<u8>,
}

/// What became of a bucket.
pub(crate) struct Rolled {
    pub(crate) chunks: Vec<RolledChunk>,
    /// What lists would take if none were left out, and what those that stay take, roughly.
    pub(crate) estimate: (usize, usize),
    /// Bytes of lists, and of all else.
    pub(crate) lists: usize,
    pub(crate) fixed: usize,
    /// Lists, and events that they have; those of the lists that were left out.
    pub(crate) all: (u64, f64),
    pub(crate) left_out: (u64, f64),
}
