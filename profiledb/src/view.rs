//! Views: fresh databases of what one reader may see.
//!
//! A view is built by inserting rows into an empty file, one by one, after each was judged:
//! nothing is copied and cut down afterwards, so nothing can be left over in it. Its ids
//! are its own, since those of the sources would tell how much of others lies between.
//!
//! Rules (each table is described with its own, in `tables/stored.rs`):
//! - The privileged see every row. For others a row's access tag must be theirs
//!   ([`Subject::is_of`]), and its PC in user code; kernel code in the place of a caller or a
//!   callee is cut from the row.
//! - Chunks are one subject's and one image's, so whole ones are left out unopened. Of the others
//!   the rows are unpacked, judged like others, and packed anew under the ids of the view.
//! - Call stacks are cut where a frame is in the kernel, for who is not privileged.
//! - What rows refer to (flushes, access tags, processes, images, PCs, and the names of the
//!   functions around these) is there if a row of the view refers to it. Epochs are there if
//!   they were asked for, but for what was typed to begin them and their settings, which say
//!   `withheld` to those who are not privileged.
//! - A region of a process's memory is there if its access tag is theirs, as if it were a row, and
//!   if rows of the process are.
//! - Where addresses are asked for, interrupts elsewhere are one row for each image and access tag
//!   of a flush, for shares are of all of them.
//! - Of a roll-up that the time asked for ends within, there is when it began and ended.
//! - The names of files that a source was made of (`joined`) are in no view.
//! - Counters belong to nobody and so to the privileged. Others find the one that reports
//!   need: how many samples they see.

mod chunks;
mod copy;
mod refer;
mod regions;
mod stacks;
mod target;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::rows::Subject;
use selection::Selection;

use crate::{Error, Writer, open};
use copy::Copy;
use target::Target;

/// Who is going to read a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// Root, and whom root has made equal to it here.
    Privileged,
    /// An ordinary user, by user id.
    User(u32),
}

impl Viewer {
    /// Whether it is for them.
    pub fn may_see(self, subject: &Subject) -> bool {
        match self {
            Viewer::Privileged => true,
            Viewer::User(user) => subject.is_of(user),
        }
    }

    fn is_privileged(self) -> bool {
        self == Viewer::Privileged
    }
}

/// What making a view may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The size of the view in bytes; it is left a few hundred rows behind it.
    pub bytes: u64,
    /// When it has to be ready.
    pub until: Instant,
    /// Nobody waits for it any more.
    pub stop: Arc<AtomicBool>,
}

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// It would be larger than allowed.
    #[error("the view would be larger than {most} bytes; ask for less time, or for one image")]
    TooLarge {
        /// The size allowed.
        most: u64,
    },
    /// It was not ready in time, or was stopped.
    #[error("making the view took too long; ask for less time, or for one image")]
    TooSlow,
    /// It could not be written.
    #[error("the view cannot be written")]
    Target(#[source] Error),
}

/// What stops the building of a view.
#[derive(Debug)]
enum Stop {
    /// The database that is being read.
    Source(Error),
    /// Everything else.
    View(ViewError),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Source(error)
    }
}

/// Writes the view of the databases `sources` for `viewer` to `target`, an empty file that
/// nobody else has open. They are read as by [`Profile::load`](crate::Profile::load), each
/// between two flushes; a collector may be at work.
///
/// Returns why some of the databases are not in it: damage, another schema. Which they are is for
/// the privileged. One that is no longer there is left out silently.
///
/// # Errors
/// Those of [`ViewError`]; the contents of `target` are not to be used then.
pub fn write_view(
    sources: &[PathBuf],
    target: &Path,
    viewer: Viewer,
    selection: &Selection,
    limits: &Limits,
) -> Result<Vec<Error>, ViewError> {
    write_view_with(sources, None, target, viewer, selection, limits)
}

/// As [`write_view`], with what the collector has not saved yet: a database in memory whose epoch
/// is the last one of the sources. Its flushes that are in there by now are left out.
///
/// # Errors
/// As those of [`write_view`].
pub fn write_view_with(
    sources: &[PathBuf],
    newest: Option<&Writer>,
    target: &Path,
    viewer: Viewer,
    selection: &Selection,
    limits: &Limits,
) -> Result<Vec<Error>, ViewError> {
    let mut left_out = Vec::new();
    let mut good: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    // Damage may show only when some rows are in the view already. It is begun again then,
    // without that database: rows that were taken back would still lie in the file.
    loop {
        let mut view = Target::create(target, limits).map_err(ViewError::Target)?;
        let mut failed = None;
        for (index, path) in good.iter().enumerate() {
            match add(&mut view, path, viewer, selection) {
                Ok(()) => {}
                Err(Stop::Source(error)) => {
                    failed = Some((index, error));
                    break;
                }
                Err(Stop::View(error)) => return Err(error),
            }
        }
        if let Some(newest) = newest.filter(|_| failed.is_none()) {
            let copy = Copy::new(&newest.path, &newest.conn, &mut view, viewer, selection);
            match copy.of_newest().run() {
                Ok(()) => {}
                Err(Stop::Source(error)) => return Err(ViewError::Target(error)),
                Err(Stop::View(error)) => return Err(error),
            }
        }
        let Some((index, error)) = failed else {
            view.finish()?;
            return Ok(left_out);
        };
        good.remove(index);
        if !is_missing(&error) {
            left_out.push(match viewer {
                Viewer::Privileged => error,
                Viewer::User(_) => error.without_place(),
            });
        }
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn add(view: &mut Target, path: &Path, viewer: Viewer, selection: &Selection) -> Result<(), Stop> {
    let path = open::absolute(path)?;
    let source = open::for_reading(&path)?;
    Copy::new(&path, &source, view, viewer, selection).run()?;
    view.source_ends();
    Ok(())
}
