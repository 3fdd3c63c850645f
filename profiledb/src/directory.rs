//! A directory of databases, one for each epoch of a service: their names, their order, what is
//! kept of them, and what becomes of one that is damaged.
//!
//! A file is called by the time of its beginning (UTC) and a number that is never used twice:
//! `2026-11-21T00-00-00-000017.db`. The number is what orders them, because clocks are set back;
//! the time is for people. Files under other names are not touched.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::Error;
use crate::open;
use crate::recover::{self, Finding};

/// What is put behind the name of a file that is no database (any more).
const ASIDE: &str = ".damaged";

/// Files that SQLite may leave beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What is kept of ended epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long after their last change.
    pub age: Duration,
    /// Bytes of all of them with the running one.
    pub bytes: u64,
    /// How many of the newest are kept whatever their age, the running one among them.
    pub newest: usize,
}

impl Retention {
    /// The size at which the running epoch should give way to a new one, so that the bytes of all
    /// can be held without giving up the newest.
    pub fn bytes_of_one(&self) -> u64 {
        let files = u64::try_from(self.newest).unwrap_or(u64::MAX);
        self.bytes / files.saturating_add(1)
    }
}

/// An epoch's database, or what it was before it was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its place in the order.
    pub sequence: u64,
    /// Its size, with what SQLite keeps beside it.
    pub bytes: u64,
    /// When it was last changed.
    pub modified: SystemTime,
    /// It was moved aside.
    pub aside: bool,
}

impl EpochFile {
    /// What to say of it as long as it is there, if it was moved aside.
    pub fn said(&self) -> Option<Error> {
        self.aside.then(|| Error::SetAside {
            path: self.path.clone(),
        })
    }
}

/// What became of a file that was looked at.
#[derive(Debug)]
pub enum Recovered {
    /// Its writer had died: everything that was committed is in it, and it is closed.
    Closed(PathBuf),
    /// It cannot be used and is now called by the second name.
    Aside {
        /// Its name until then.
        path: PathBuf,
        /// Its name now.
        to: PathBuf,
        /// Why.
        error: Error,
    },
    /// It cannot be used and could not be moved, or the file system kept it from being looked at.
    Left {
        /// The file.
        path: PathBuf,
        /// Why.
        error: Error,
    },
}

/// The directory.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Stands for this directory, which need not exist yet.
    ///
    /// # Errors
    /// If the working directory is not known and the path is relative.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let path = open::absolute(path)?;
        Ok(Self { path })
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All epochs in their order, those moved aside among them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<EpochFile>, Error> {
        let mut sizes = BTreeMap::new();
        let failed = |error| Error::io(&self.path, error);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // It may be gone by now; then it is not listed.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                sizes.insert(entry.path(), (metadata.len(), modified));
            }
        }
        let mut files: Vec<EpochFile> = sizes
            .iter()
            .filter_map(|(path, &(bytes, modified))| {
                let (sequence, aside) = parse(path.file_name()?.to_str()?)?;
                let beside: u64 = companions(path)
                    .filter_map(|companion| sizes.get(&companion))
                    .map(|(bytes, _)| bytes)
                    .sum();
                Some(EpochFile {
                    path: path.clone(),
                    sequence,
                    bytes: bytes.saturating_add(beside),
                    modified,
                    aside,
                })
            })
            .collect();
        files.sort_by(|a, b| (a.sequence, &a.path).cmp(&(b.sequence, &b.path)));
        Ok(files)
    }

    /// What to say of the epochs that were moved aside, as long as their files are there.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn set_aside_before(&self) -> Result<Vec<Error>, Error> {
        Ok(self.list()?.iter().filter_map(EpochFile::said).collect())
    }

    /// The name of a next epoch, which begins at this time (nanoseconds of the Unix epoch), and
    /// its place in the order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn next(&self, started: i64) -> Result<(PathBuf, u64), Error> {
        let last = self.list()?.last().map_or(0, |file| file.sequence);
        let sequence = last.saturating_add(1);
        Ok((self.path.join(name(started, sequence)), sequence))
    }

    /// Looks at every database but those that `skip` names, to which nobody writes any more: closes
    /// what was not closed, ends epochs whose writers died ([`crate::Epoch::is_cut_short`]), and
    /// moves aside what cannot be used. Tells of each at once; those that are well are not told of.
    /// The newest come first: a writer that dies again and again leaves its last ones, and might
    /// never live to see them behind all that are well.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn recover(
        &self,
        skip: impl Fn(&Path) -> bool,
        mut tell: impl FnMut(Recovered),
    ) -> Result<(), Error> {
        for file in self.list()?.into_iter().rev() {
            if file.aside || skip(&file.path) {
                continue;
            }
            match recover::recover(&file.path) {
                Ok(Finding::Well) => {}
                Ok(Finding::Closed) => tell(Recovered::Closed(file.path)),
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_useless(&error) => tell(self.set_aside(&file.path, error)),
                Err(error) => tell(Recovered::Left {
                    path: file.path,
                    error,
                }),
            }
        }
        Ok(())
    }

    /// Gives a database that cannot be used, as `error` says, another name.
    pub fn set_aside(&self, path: &Path, error: Error) -> Recovered {
        let to = with_suffix(path, ASIDE);
        // Its log first: should the rest fail, nothing takes it for that of another database.
        for suffix in COMPANIONS {
            // Most are not there.
            let _ = fs::rename(with_suffix(path, suffix), with_suffix(&to, suffix));
        }
        match fs::rename(path, &to) {
            Ok(()) => Recovered::Aside {
                path: path.to_owned(),
                to,
                error,
            },
            Err(_) => Recovered::Left {
                path: path.to_owned(),
                error,
            },
        }
    }

    /// Removes what is not to be kept, oldest first, but never the running epoch. Returns what was
    /// removed.
    ///
    /// # Errors
    /// If the directory cannot be read, or a file cannot be removed; those after it stay, too.
    pub fn enforce(
        &self,
        retention: &Retention,
        now: SystemTime,
        running: &Path,
    ) -> Result<Vec<EpochFile>, Error> {
        let mut removed = Vec::new();
        for file in surplus(&self.list()?, retention, now, running) {
            self.remove(&file.path)?;
            removed.push(file.clone());
        }
        Ok(removed)
    }

    /// Removes a database, if it is still there, with what SQLite keeps beside it.
    pub(crate) fn remove(&self, path: &Path) -> Result<(), Error> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(path, error));
            }
            _ => {}
        }
        for companion in companions(path) {
            // Most are not there.
            let _ = fs::remove_file(companion);
        }
        Ok(())
    }
}

/// Whether this program can never use the file.
pub fn is_useless(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt { .. }
            | Error::NotADatabase { .. }
            | Error::NewerSchema { .. }
            | Error::OlderSchema { .. }
    )
}

/// Those of the files, oldest first, that are to be removed.
fn surplus<'a>(
    files: &'a [EpochFile],
    retention: &Retention,
    now: SystemTime,
    running: &Path,
) -> Vec<&'a EpochFile> {
    let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let newest = files.len().saturating_sub(retention.newest);
    let mut surplus = Vec::new();
    for (index, file) in files.iter().enumerate() {
        // A file from the future, after a clock was set back, is not old.
        let age = now.duration_since(file.modified).unwrap_or(Duration::ZERO);
        let old = age > retention.age && index < newest;
        if file.path != running && (old || bytes > retention.bytes) {
            bytes = bytes.saturating_sub(file.bytes);
            surplus.push(file);
        }
    }
    surplus
}

/// The name of an epoch's database.
fn name(started: i64, sequence: u64) -> String {
    let time =
        jiff::Timestamp::from_nanosecond(started.into()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{}-{sequence:06}.db", time.strftime("%Y-%m-%dT%H-%M-%S"))
}

/// The place in the order that a name says, and whether it is that of a file moved aside.
fn parse(name: &str) -> Option<(u64, bool)> {
    let (name, aside) = match name.strip_suffix(ASIDE) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (time, sequence) = name.strip_suffix(".db")?.rsplit_once('-')?;
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let is_time = time.chars().map(shape).eq("0000-00-00T00-00-00".chars());
    let is_number = sequence.len() >= 6 && sequence.bytes().all(|byte| byte.is_ascii_digit());
    (is_time && is_number).then(|| Some((sequence.parse().ok()?, aside)))?
}

fn companions(path: &Path) -> impl Iterator<Item = PathBuf> {
    COMPANIONS.iter().map(|suffix| with_suffix(path, suffix))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
