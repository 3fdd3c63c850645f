//! Why something is not saved.

use std::io;

/// Why something is not saved, or not yet. What was to be saved is kept, but for a
/// [`Defect`](Self::Defect).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system allows no more threads.
    #[error("cannot start a thread")]
    NoThread(#[source] io::Error),
    /// There is no database to write to.
    #[error("the database is closed")]
    Closed,
    /// The log of the database must be merged before more is written.
    #[error("the disk does not keep up")]
    Behind,
    /// A defect has ended the thread that writes.
    #[error("the thread that saves is gone")]
    Gone,
    /// Who waited has no more patience. It is still being written.
    #[error("it takes too long")]
    TooLong,
    /// What spoils the writing of these samples once would do so again: they are given up.
    #[error(
        "what was to be saved cannot be, by a defect of this program: {0} sample{end} of it are \
         lost",
        end = if *.0 == 1 { "" } else { "s" }
    )]
    Defect(u64),
    /// The database refuses a flush.
    #[error("flush failed")]
    Flush(#[source] profiledb::Error),
    /// The database cannot be closed.
    #[error(transparent)]
    Close(#[from] profiledb::Error),
}
