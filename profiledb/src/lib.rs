//! The profile database: one SQLite file that a collector appends to and reports read.
//!
//! Responsible for:
//!
//! - the schema, which `schema/0002.sql` and the files behind it explain;
//! - [`Writer`], which saves whole flushes or nothing of them;
//! - [`Profile`], which gives the rows of one or many files as plain vectors;
//! - [`Directory`], which keeps the files of a service in order, and [`rollup`], which adds up what
//!   is past;
//! - [`view`], which writes what one reader may see into a file of its own;
//! - [`Loss`], the table of everything that can be lost.
//!
//! Not responsible for: how values arise, and how they are shown.
//!
//! It is fast because it remembers ids of what recurs (images, processes, PCs) between flushes,
//! packs rows into chunks, writes a flush as one transaction, and reads each table once, in the
//! order in which it lies in the file.
//!
//! A file is not trusted. This crate never writes to what is no vcpi database. A table that is not
//! declared exactly as this crate declares it is an error that says so. So is a value of the wrong
//! type, and a reference to nowhere.

mod budget;
mod chunk;
mod convert;
mod directory;
mod error;
mod flush;
mod intern;
mod lists;
mod log;
mod loss;
mod open;
mod places;
mod profile;
mod read;
mod recover;
pub mod rollup;
pub mod rows;
pub mod view;
mod ways;
mod writer;

pub use convert::{convert, unpack};
pub use directory::{Directory, EpochFile, Recovered, Retention, is_useless};
pub use error::{Error, ReadError};
pub use flush::{Flush, NewHotlist};
pub use log::{Checkpoint, checkpoint, log_bytes};
pub use loss::{Cause, LOST, Loss, Unit};
pub use places::Places;
pub use profile::{
    BranchRow, CallRow, CyclesRow, Extent, Filter, FlushCounters, HotlistRow, Merged, Outline, Pc,
    Profile, SymbolRow, Total,
};
pub use rows::{Epoch, Image, ImageKind, Process, Subject};
pub use ways::{Calls, Directions};
pub use writer::{ImageId, PcId, ProcessId, SubjectId, Writer};

/// The parameter of a hotlist whose shares are of executions begins so; the parameter itself
/// follows. It has the events at an instruction that were not the first there in their window.
pub const OF_EXECUTIONS: &str = "x:";

/// The longest encoding of an x86 instruction, in bytes.
const MAX_INSTRUCTION: usize = 15;

/// A machine word as SQLite stores it: the signed integer with the same bits.
const fn to_sql(word: u64) -> i64 {
    word.cast_signed()
}

/// The machine word that [`to_sql`] made this integer of.
const fn from_sql(integer: i64) -> u64 {
    integer.cast_unsigned()
}
