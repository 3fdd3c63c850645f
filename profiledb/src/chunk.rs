//! Chunks: rows of one kind, subject, image and stretch of its addresses, packed into one blob.
//!
//! `docs/format.md` is the one description of the bytes. Here is what makes them and reads them,
//! without a database: ids are numbers that mean something to whoever asks.
//!
//! A blob is not trusted. Its checksum, lengths, counts, orders and numbers are checked; room is
//! taken only for what can be in it.

pub(crate) mod bytes;
mod code;
mod counts;
mod head;
mod recent;
mod stacks;
mod sums;
mod values;

pub(crate) use code::{decode_code, encode_code};
pub(crate) use counts::{
    BranchOf, CallOf, CyclesOf, decode_branches, decode_calls, decode_cycles, decode_some_cycles,
    encode_branches, encode_calls, encode_cycles,
};
pub(crate) use head::{parameters, relabelled};
pub(crate) use stacks::{FrameOf, MOST_FRAMES, StackOf, decode_stacks, encode_stacks};
pub(crate) use sums::{CyclesSum, InstructionSum, sum_cycles, sum_instructions};
pub(crate) use values::{
    ListOf, decode_some_values, decode_values, each_list, each_place, encode_values, has_double,
};

/// What a blob is not as it should be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it {0}")]
pub(crate) struct Bad(pub(crate) &'static str);

/// Bits of an address within its bucket, for encodings.
pub(crate) const CODE_BITS: u32 = 16;

/// The most bytes of a chunk's columns before they are compressed. Whoever writes makes several
/// chunks of what is more.
pub(crate) const MOST_RAW: usize = 8 << 20;

/// About how many bytes of columns a writer puts into a chunk.
pub(crate) const USUAL_RAW: usize = 256 << 10;

/// A process, an address and another place.
pub(crate) type At = (i64, u64, Option<(i64, u64)>);

/// An instruction's address and its encoding.
pub(crate) type Encoding = (u64, Vec<u8>);

/// A row of any kind.
pub(crate) trait Packed: Sized {
    /// What orders it among others.
    type Key: Ord;

    fn key(&self) -> Self::Key;

    /// Where it is.
    fn at(&self) -> At;

    /// Says that it is elsewhere.
    fn set_at(&mut self, at: At);
}

/// Puts rows in order and splits them such that none is with another of the same key.
pub(crate) fn layers<T: Packed>(mut rows: Vec<T>) -> Vec<Vec<T>> {
    rows.sort_by_key(T::key);
    let mut layers = Vec::new();
    while !rows.is_empty() {
        let (mut layer, mut again): (Vec<T>, Vec<T>) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            match layer.last().is_some_and(|last| last.key() == row.key()) {
                true => again.push(row),
                false => layer.push(row),
            }
        }
        layers.push(layer);
        rows = again;
    }
    layers
}

/// What the rows of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ChunkKind {
    /// Interrupts.
    Cycles,
    /// Lists that are keyed by their instruction alone.
    Values,
    /// Lists that are keyed by a call site, too.
    Keyed,
    /// Directions of branches.
    Branches,
    /// Calls and indirect jumps.
    Calls,
    /// Call stacks, by the image of the interrupted instruction.
    Stacks,
}

impl ChunkKind {
    pub(crate) const ALL: [ChunkKind; 6] = [
        ChunkKind::Cycles,
        ChunkKind::Values,
        ChunkKind::Keyed,
        ChunkKind::Branches,
        ChunkKind::Calls,
        ChunkKind::Stacks,
    ];

    /// Its number in the column `kind`.
    pub(crate) const fn number(self) -> i64 {
        match self {
            ChunkKind::Cycles => 1,
            ChunkKind::Values => 2,
            ChunkKind::Keyed => 3,
            ChunkKind::Branches => 4,
            ChunkKind::Calls => 5,
            ChunkKind::Stacks => 6,
        }
    }

    /// Bits of an address within its bucket. Rows of few bytes, and kinds that have few rows, have
    /// larger buckets: what is around the rows of a chunk takes some 60 bytes.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            ChunkKind::Values | ChunkKind::Keyed => 16,
            ChunkKind::Branches => 18,
            ChunkKind::Cycles | ChunkKind::Calls => 22,
            // A path goes all over an image, and to others.
            ChunkKind::Stacks => 63,
        }
    }

    pub(crate) fn of(number: i64) -> Option<ChunkKind> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// Where the rows of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkPlace {
    /// The highest bits of the addresses.
    pub(crate) bucket: u64,
    /// Begin and end of the time that it covers, in nanoseconds of the Unix epoch.
    pub(crate) time: (i64, i64),
}

/// The bucket of an address, for rows of a kind.
pub(crate) const fn bucket_of(kind: ChunkKind, address: u64) -> u64 {
    address >> kind.bits()
}

/// The first and the last address of a bucket.
pub(crate) const fn addresses_of(kind: ChunkKind, bucket: u64) -> (u64, u64) {
    let first = address_in(kind.bits(), bucket, 0);
    (first, first | ((1 << kind.bits()) - 1))
}

/// The bucket of an address, for encodings.
pub(crate) const fn code_bucket_of(address: u64) -> u64 {
    address >> CODE_BITS
}

/// The address of an offset in a bucket.
const fn address_in(bits: u32, bucket: u64, offset: u64) -> u64 {
    bucket << bits | offset
}

const fn offset_of(bits: u32, address: u64) -> u64 {
    address & ((1 << bits) - 1)
}

/// The offset behind one by `step`, if it is one.
fn later(bits: u32, offset: u64, step: u64) -> Result<u64, Bad> {
    let next = offset.checked_add(step).filter(|next| *next < 1 << bits);
    next.ok_or(Bad("has an address outside its bucket"))
}

#[cfg(test)]
mod tests;
