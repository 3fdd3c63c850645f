//! What lies packed in blobs, for those who bring the blobs themselves: an extension of SQLite.
//!
//! `docs/format.md` describes the form. A blob is not trusted: what cannot be is [`Damage`].

use hotlist::Estimates;

use crate::chunk::{
    Bad, ChunkKind, ChunkPlace, decode_branches, decode_calls, decode_code, decode_cycles,
    decode_stacks, decode_values,
};
use crate::{Calls, Directions, StackEnd};

/// The newest schema of databases that this crate knows.
pub const SCHEMA: i64 = 7;

/// The number of chunks of interrupts.
pub const CYCLES: i64 = ChunkKind::Cycles.number();
/// The number of chunks of lists.
pub const LISTS: i64 = ChunkKind::Values.number();
/// The number of chunks of lists that a call site keys, too.
pub const KEYED_LISTS: i64 = ChunkKind::Keyed.number();
/// The number of chunks of branches.
pub const BRANCHES: i64 = ChunkKind::Branches.number();
/// The number of chunks of calls.
pub const CALLS: i64 = ChunkKind::Calls.number();
/// The number of chunks of call stacks.
pub const STACKS: i64 = ChunkKind::Stacks.number();

/// Bits of an address within its bucket, for encodings.
pub const CODE_BITS: u32 = crate::chunk::CODE_BITS;

/// Bits of an address within its bucket, for chunks of a kind; `None`: there is no such kind.
pub fn bits(kind: i64) -> Option<u32> {
    ChunkKind::of(kind).map(ChunkKind::bits)
}

/// What a blob is not as it should be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(Bad);

impl From<Bad> for Damage {
    fn from(bad: Bad) -> Self {
        Self(bad)
    }
}

/// Something at an instruction. Ids are rows of the tables of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    /// Row of the process.
    pub process: i64,
    /// Address of the instruction.
    pub address: u64,
    /// Image and address of the call site, or of what is called.
    pub other: Option<(i64, u64)>,
    /// What is there.
    pub what: T,
}

/// Interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// How many.
    pub samples: u64,
    /// What they stand for, in the epoch's unit.
    pub weight: u64,
}

/// The values of a parameter. Numbers are those of all lists that this one stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Row of the parameter.
    pub parameter: i64,
    /// How often windows came by.
    pub reached: f64,
    /// How often of these the value was unknown.
    pub unknown: f64,
    /// Distinct windows that the known values of this list alone came from.
    pub windows: u64,
    /// How far these came at even distances, 0 to 1; `None`: not known.
    pub even: Option<f64>,
    /// As how many lists it counts: 1, but for one that a draw kept.
    pub stands_for: f64,
    /// The values.
    pub estimates: Estimates<u64>,
}

/// Unpacks interrupts of a bucket.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn cycles(bucket: u64, blob: &[u8]) -> Result<Vec<At<Interrupts>>, Damage> {
    let rows = decode_cycles(timeless(bucket), blob)?;
    let rows = rows.into_iter().map(|row| At {
        process: row.process,
        address: row.address,
        other: row.caller,
        what: Interrupts {
            samples: row.samples,
            weight: row.weight,
        },
    });
    Ok(rows.collect())
}

/// Unpacks branches of a bucket.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn branches(bucket: u64, blob: &[u8]) -> Result<Vec<At<Directions>>, Damage> {
    let rows = decode_branches(timeless(bucket), blob)?;
    let rows = rows.into_iter().map(|row| At {
        process: row.process,
        address: row.address,
        other: None,
        what: row.seen,
    });
    Ok(rows.collect())
}

/// Unpacks calls of a bucket.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn calls(bucket: u64, blob: &[u8]) -> Result<Vec<At<Calls>>, Damage> {
    let rows = decode_calls(timeless(bucket), blob)?;
    let rows = rows.into_iter().map(|row| At {
        process: row.process,
        address: row.address,
        other: row.callee,
        what: row.seen,
    });
    Ok(rows.collect())
}

/// A call stack: its interrupted instruction is in the image of its chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Image and address of each frame, the innermost first: the interrupted instruction, then
    /// calls.
    pub frames: Vec<(i64, u64)>,
    /// Why there are no more.
    pub end: StackEnd,
    /// Samples, and what they stand for.
    pub seen: Interrupts,
}

/// Unpacks call stacks. The other place is that of the innermost call.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn stacks(blob: &[u8]) -> Result<Vec<At<Stack>>, Damage> {
    let rows = decode_stacks(blob)?.into_iter().map(|row| At {
        process: row.process,
        address: row.leaf().1,
        other: row.path.iter().rev().nth(1).copied(),
        what: Stack {
            frames: row.path.iter().rev().copied().collect(),
            end: row.end,
            seen: Interrupts {
                samples: row.samples,
                weight: row.weight,
            },
        },
    });
    Ok(rows.collect())
}

/// Unpacks lists of a bucket, of the kind [`LISTS`] or [`KEYED_LISTS`], of a flush that began and
/// ended then.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn lists(
    kind: i64,
    bucket: u64,
    time: (i64, i64),
    blob: &[u8],
) -> Result<Vec<At<List>>, Damage> {
    let values = decode_values(ChunkPlace { bucket, time }, kind == KEYED_LISTS, blob)?;
    let tau = values.tau;
    let rows = values.rows.into_iter().map(|mut row| {
        let stands_for = row.weight(tau);
        row.weigh(tau);
        At {
            process: row.process,
            address: row.address,
            other: row.caller,
            what: List {
                parameter: row.parameter,
                reached: row.reached,
                unknown: row.unknown,
                windows: row.windows,
                even: row.even,
                stands_for,
                estimates: row.list,
            },
        }
    });
    Ok(rows.collect())
}

/// Unpacks encodings of a bucket: addresses and bytes.
///
/// # Errors
/// What the blob is not as it should be in.
pub fn code(bucket: u64, blob: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Damage> {
    Ok(decode_code(bucket, blob)?)
}

/// A place whose rows have no time.
fn timeless(bucket: u64) -> ChunkPlace {
    let time = (0, 0);
    ChunkPlace { bucket, time }
}
