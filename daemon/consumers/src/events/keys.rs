//! What events and what is kept of them are keyed by.

use machine::loadmap::ProcessId;
use machine::place::Pc;

/// Index of a [`Pc`] in the tables of one flush interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PcId(pub u32);

/// Index of a [`Subject`](profiledb::Subject).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubjectId(pub u32);

/// Whose events these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process.
    pub process: ProcessId,
    /// Who may see what comes of it.
    pub subject: SubjectId,
}

/// Index of an instruction that windows run through, in the tables of one flush interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteId(pub(crate) u32);

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// An instruction that windows run through, in the code of one owner.
///
/// Windows run through the same instructions again and again. So what is kept of an instruction is
/// found from its site, and its site by the number that the decode cache has for it, without a look
/// into a hash table, which is a miss of the cache each time. A site is a line of that cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Site {
    pub(crate) owner: Owner,
    pub(crate) pc: Pc,
    pub(crate) id: PcId,
    /// Of the values: the first profile, each of which names the next.
    pub(crate) profile: u32,
    /// Of the branches: the directions, if the instruction is a conditional branch; else [`NONE`].
    pub(crate) branch: u32,
}

const _: () = assert!(size_of::<Site>() == 64);
