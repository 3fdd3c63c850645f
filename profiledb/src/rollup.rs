//! Roll-ups: what is past is added up, to hours, days and weeks.
//!
//! Sums stay exact, and lists are thinned without bias (`lists`). Hours are rolled up in the file
//! that they are in (`hour`), days and weeks from closed files into new ones (`join`). Each event
//! is told once at any moment, whenever a crash comes; `docs/decisions/068-roll-ups.md` says why.

mod bucket;
mod budget;
mod fold;
mod hour;
mod ids;
mod join;
mod lists;
mod moment;
mod period;
mod rolled;
mod stacks;
mod target;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use counters::Counter;
use rusqlite::Connection;

use crate::tables;
use crate::tables::stored::{PARAMETER, StoredChunk, StoredCounter, StoredParameter};
use crate::{Directory, Error, bare_parameter};
use hour::{Found, Hour};
use join::Join;
pub use moment::Moment;
pub use period::Grain;
use rolled::{Rolled, RolledChunk};

/// The most values of a list that is rolled up.
const MOST_VALUES: usize = 64;
/// About how many bytes of rows are rolled up at once.
const PIECE: u64 = 512 << 10;
/// Buckets that are looked at before the first is thinned.
const SAMPLE: usize = 24;
/// Bytes that a row of a table takes beside its blob.
const ROW: usize = 36;
/// How long a file in which there was nothing to do is left alone, in nanoseconds.
const LEAVE: i64 = 300_000_000_000;

/// The bytes that a period may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// An hour; 0: nothing is rolled up.
    pub hour: u64,
    /// A day; 0: neither days nor weeks are made.
    pub day: u64,
    /// A week; 0: none is made.
    pub week: u64,
}

/// What a step did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollUpStep {
    /// There is nothing to do at present.
    Idle,
    /// A piece of the work.
    Worked,
    /// The last piece of something, with what there is to say of it.
    Finished(String),
}

/// A file that is the same one as long as nobody puts another in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity(u64, u64);

impl Identity {
    fn of(path: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(path).map_err(|e| Error::io(path, e))?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

/// What is being done.
enum Work {
    Hour(PathBuf, Box<Hour>),
    Join(Box<Join>),
}

/// Rolls up the databases of a directory, a piece at a time.
pub struct RollUps {
    directory: Directory,
    work: Option<Work>,
    /// Files in which there was nothing to do, by what they were and when they were looked at.
    rested: HashMap<Identity, i64>,
    /// What a roll-up that did not come to its end left has been removed.
    is_clean: bool,
}

impl RollUps {
    /// Roll-ups of this directory.
    pub fn new(directory: Directory) -> Self {
        Self {
            directory,
            work: None,
            rested: HashMap::new(),
            is_clean: false,
        }
    }

    /// Does a piece of the work, if there is any at `now`, in nanoseconds of the Unix epoch.
    /// `running` is the file that a collector writes to.
    ///
    /// # Errors
    /// Those of the database and the file system. What was done before stays, nothing of the piece
    /// does, and the work is begun again later.
    pub fn step(
        &mut self,
        now: i64,
        running: Option<&Path>,
        limits: &Limits,
    ) -> Result<RollUpStep, Error> {
        if !self.is_clean {
            join::clean(&self.directory)?;
            self.is_clean = true;
        }
        let work = match self.work.take() {
            Some(work) => work,
            None => match self.find(now, running, limits)? {
                Some(work) => work,
                None => return Ok(RollUpStep::Idle),
            },
        };
        match work {
            Work::Hour(path, mut hour) => {
                // Another file may have come to its place, or none be there any more.
                if Identity::of(&path).ok() != Some(hour.identity) {
                    return Ok(RollUpStep::Worked);
                }
                if hour.piece(&path)? {
                    return Ok(RollUpStep::Finished(hour.told()));
                }
                self.work = Some(Work::Hour(path, hour));
            }
            Work::Join(mut join) => {
                if join.piece()? {
                    // What is there twice if this fails must not be joined again.
                    self.is_clean = false;
                    let told = join.finish(&self.directory)?;
                    self.is_clean = true;
                    return Ok(RollUpStep::Finished(told));
                }
                self.work = Some(Work::Join(join));
            }
        }
        Ok(RollUpStep::Worked)
    }

    fn find(
        &mut self,
        now: i64,
        running: Option<&Path>,
        limits: &Limits,
    ) -> Result<Option<Work>, Error> {
        if limits.hour == 0 {
            return Ok(None);
        }
        let files = self.directory.list()?;
        self.rested
            .retain(|_, at| (*at..at.saturating_add(LEAVE)).contains(&now));
        for file in files.iter().filter(|file| !file.aside) {
            let Ok(identity) = Identity::of(&file.path) else {
                continue;
            };
            if self.rested.contains_key(&identity) {
                continue;
            }
            let is_running = running == Some(&file.path);
            match Hour::find(&file.path, now, limits.hour, file.sequence, is_running) {
                Ok(Found::Hour(hour)) => {
                    return Ok(Some(Work::Hour(file.path.clone(), hour)));
                }
                Ok(Found::Nothing) => {}
                // Whoever reads it finds out what it is.
                Err(error) if crate::is_useless(&error) => {}
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.rested.insert(identity, now);
        }
        let join = join::find(&self.directory, &files, now, running, limits)?;
        Ok(join.map(|join| Work::Join(Box::new(join))))
    }
}

/// How the names of parameters begin that reports ask for without any others.
const ASKED_ALONE: [&str; 14] = [
    "arg", "varg", "text", "ret", "vret", "result", "vresult", "target", "stride", "line",
    "reload", "silent", "sys", "sched",
];

/// The rows of these parameters.
fn asked_alone(conn: &Connection) -> rusqlite::Result<HashSet<i64>> {
    let sql = PARAMETER.select(tables::version(conn)?);
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([], tables::read::<StoredParameter>)?;
    let mut found = HashSet::new();
    for row in rows {
        let (id, StoredParameter { name }) = row?;
        let name = bare_parameter(&name);
        if ASKED_ALONE.iter().any(|begin| name.starts_with(begin)) {
            found.insert(id);
        }
    }
    Ok(found)
}

/// Writes what came of a bucket.
fn insert(
    conn: &Connection,
    image: i64,
    bucket: u64,
    chunks: &[RolledChunk],
) -> rusqlite::Result<()> {
    for chunk in chunks {
        let row = StoredChunk {
            flush: chunk.target,
            kind: chunk.kind.number(),
            image,
            bucket,
            subject: chunk.subject,
            data: Cow::Borrowed(chunk.data.as_slice()),
        };
        tables::insert(conn, &row)?;
    }
    Ok(())
}

/// Counts lists and what of them was left out.
fn count<'r>(
    conn: &Connection,
    target: i64,
    rolled: impl Iterator<Item = &'r Rolled>,
) -> rusqlite::Result<()> {
    let (mut lists, mut left_out) = ((0, 0.0), (0, 0.0));
    for rolled in rolled {
        lists = (lists.0 + rolled.all.0, lists.1 + rolled.all.1);
        left_out = (
            left_out.0 + rolled.left_out.0,
            left_out.1 + rolled.left_out.1,
        );
    }
    let counted = [
        (Counter::RolledLists, lists.0),
        (Counter::RolledEvents, lists.1 as u64),
        (Counter::RolledListsLeftOut, left_out.0),
        (Counter::RolledEventsLeftOut, left_out.1 as u64),
    ];
    let named = counted.map(|(counter, n)| {
        let key = (counter.group().name().to_owned(), counter.name().to_owned());
        (key, n)
    });
    add_counters(conn, target, &HashMap::from(named))
}

/// Adds to the counters of a roll-up.
fn add_counters(
    conn: &Connection,
    target: i64,
    counters: &HashMap<(String, String), u64>,
) -> rusqlite::Result<()> {
    for ((kind, name), value) in counters {
        let row = StoredCounter {
            flush: target,
            kind: kind.clone(),
            name: name.clone(),
            value: *value,
        };
        tables::merge(conn, &row)?;
    }
    Ok(())
}
