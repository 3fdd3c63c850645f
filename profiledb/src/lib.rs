//! The profile database: one SQLite file that a collector appends to and reports read.
//!
//! Responsible for:
//!
//! - the schema, which `schema/0002.sql` and the files behind it explain;
//! - [`Writer`], which saves whole flushes or nothing of them;
//! - [`Profile`], which gives the rows of one or many files as plain vectors;
//! - [`Directory`], which keeps the files of a service in order, and [`rollup`], which adds up what
//!   is past;
//! - [`view`], which writes what one reader may see into a file of its own.
//!
//! Without the feature `database` the crate is [`packed`] alone, and knows no SQLite.
//!
//! A file is not trusted. What is no vcpi database is never written to; a table that
//! is not declared exactly as this crate declares it, a value of the wrong type and a
//! reference to nowhere are errors that say so.

#[cfg(feature = "database")]
mod budget;
#[cfg_attr(
    not(feature = "database"),
    expect(dead_code, unused_imports, reason = "what only writers need")
)]
mod chunk;
#[cfg(feature = "database")]
mod convert;
#[cfg(feature = "database")]
mod directory;
#[cfg(feature = "database")]
mod error;
#[cfg(feature = "database")]
mod filter;
#[cfg(feature = "database")]
mod flush;
#[cfg(feature = "database")]
mod intern;
mod join;
#[cfg(feature = "database")]
mod list;
#[cfg(feature = "database")]
mod log;
#[cfg(feature = "database")]
mod merged;
#[cfg(feature = "database")]
mod moment;
#[cfg(feature = "database")]
mod open;
pub mod packed;
#[cfg(feature = "database")]
mod places;
#[cfg(feature = "database")]
mod profile;
#[cfg(feature = "database")]
mod read;
#[cfg(feature = "database")]
mod recover;
#[cfg(feature = "database")]
mod regions;
#[cfg(feature = "database")]
pub mod rollup;
#[cfg(feature = "database")]
pub mod rows;
#[cfg(feature = "database")]
mod settings;
mod stacks;
#[cfg(feature = "database")]
mod tables;
mod text;
#[cfg(feature = "database")]
pub mod view;
mod ways;
#[cfg(feature = "database")]
mod writer;

#[cfg(feature = "database")]
pub use convert::{convert, unpack};
#[cfg(feature = "database")]
pub use directory::{Directory, EpochFile, Recovered, Retention, is_useless};
#[cfg(feature = "database")]
pub use error::{Error, ReadError};
#[cfg(feature = "database")]
pub use filter::{Apart, Filter};
#[cfg(feature = "database")]
pub use flush::{Flush, NewHotlist};
#[cfg(feature = "database")]
pub use list::List;
#[cfg(feature = "database")]
pub use log::{Checkpoint, checkpoint, log_bytes};
#[cfg(feature = "database")]
pub use merged::Merged;
#[cfg(feature = "database")]
pub use moment::{Level, Moment};
#[cfg(feature = "database")]
pub use places::Places;
#[cfg(feature = "database")]
pub use profile::{
    BranchRow, CallRow, CyclesRow, Doubled, Encoding, Extent, FlushCounters, HotlistRow, Outline,
    Pc, Profile, StackFrame, StackNode, StackRow, SymbolRow, Total,
};
#[cfg(feature = "database")]
#[cfg(feature = "database")]
pub use recover::note_copied;
#[cfg(feature = "database")]
pub use regions::{Mapped, Region};
#[cfg(feature = "database")]
pub use rows::{Epoch, Image, ImageKind, Process, Subject};
#[cfg(feature = "database")]
pub use settings::{EpochSettings, KeyedBy, ListSettings};
pub use stacks::StackEnd;
pub use text::Text;
pub use ways::{Calls, Directions};
#[cfg(feature = "database")]
pub use writer::{ImageRowId, PcRowId, ProcessRowId, SubjectRowId, Writer};

/// The parameter of a hotlist whose shares are of executions begins so; the parameter itself
/// follows. It has the events at an instruction that were not the first there in their window.
pub const OF_EXECUTIONS: &str = "x:";

/// The parameter of a hotlist whose values were seen by a breakpoint at the entry of a function
/// begins so; what they are follows. It has the calls of times that were drawn at random.
pub const AT_ENTRY: &str = "entry.";

/// The parameter of a hotlist without the word for what its shares are of.
pub fn bare_parameter(name: &str) -> &str {
    let bare = |base| name.strip_prefix(base);
    bare(OF_EXECUTIONS)
        .or_else(|| bare(AT_ENTRY))
        .unwrap_or(name)
}

/// The longest encoding of an x86 instruction, in bytes.
const MAX_INSTRUCTION: usize = 15;

/// A machine word as SQLite stores it: the signed integer with the same bits.
#[cfg(feature = "database")]
const fn to_sql(word: u64) -> i64 {
    word.cast_signed()
}

/// The machine word that [`to_sql`] made this integer of.
#[cfg(feature = "database")]
const fn from_sql(integer: i64) -> u64 {
    integer.cast_unsigned()
}
