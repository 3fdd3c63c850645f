//! The kernel's limits of sampling, raised for a while if that is allowed, and put back.
//!
//! What they were is written down before anything is changed, with the processes that need them
//! raised: the last of these to end puts them back, or, if it could not, the next start.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use sampler::Pid;
use serde::{Deserialize, Serialize};

use machine::system::procfs;

/// Samples per second and CPU above which the kernel throttles.
const MAX_RATE: &str = "perf_event_max_sample_rate";
/// Share of time in interrupts above which it lowers that rate; 0: never.
const MAX_PERCENT: &str = "perf_cpu_time_max_percent";

/// Where the limits and the note about them are.
#[derive(Clone, Debug)]
pub(crate) struct LimitFiles {
    limits: PathBuf,
    note: PathBuf,
}

impl Default for LimitFiles {
    fn default() -> Self {
        Self {
            limits: "/proc/sys/kernel".into(),
            note: "/run/vcpi/sysctl.json".into(),
        }
    }
}

/// What the limits were, and who has them raised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    max_rate: u64,
    max_percent: u64,
    #[serde(default)]
    owners: Vec<Owner>,
}

/// A process, told from later ones of its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    pid: u32,
    started: Option<u64>,
}

impl Owner {
    fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: procfs::start_time(Pid(pid)),
        }
    }

    fn lives(&self) -> bool {
        self.started.is_some() && procfs::start_time(Pid(self.pid)) == self.started
    }
}

/// Raised limits, which are put back when this is dropped, unless others need them.
#[derive(Debug)]
pub(crate) struct Raised {
    places: LimitFiles,
    owner: Owner,
    now: (u64, u64),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, percent) = self.now;
        write!(
            f,
            "kernel.{MAX_RATE} is {rate} and kernel.{MAX_PERCENT} {percent} until the end"
        )
    }
}

impl LimitFiles {
    /// Raises the limits so that samples at `rate` per second and CPU are not throttled, and keeps
    /// them so for as long as any process needs that. `None`: they do not stand in the way.
    ///
    /// # Errors
    /// They may not be written.
    pub(crate) fn raise(&self, rate: u64) -> Result<Option<Raised>> {
        self.raise_for(Owner::this_process(), rate)
    }

    fn raise_for(&self, owner: Owner, rate: u64) -> Result<Option<Raised>> {
        let (max_rate, max_percent) = (self.read(MAX_RATE)?, self.read(MAX_PERCENT)?);
        // Random intervals come in bursts of twice the mean rate.
        let wanted = rate.saturating_mul(2).max(max_rate);
        let stand_in_the_way = max_percent != 0 || wanted != max_rate;
        if !stand_in_the_way && !self.note.exists() {
            return Ok(None);
        }
        // Else the first thing that fails would be the note.
        let limit = self.limits.join(MAX_RATE);
        let writable = OpenOptions::new().write(true).open(&limit);
        writable.with_context(|| {
            format!(
                "--allow-sysctl needs root: {} is not to be written",
                limit.display()
            )
        })?;
        let _lock = self.lock()?;
        let mut note = self.noted()?.unwrap_or(Note {
            max_rate,
            max_percent,
            owners: Vec::new(),
        });
        note.owners.push(owner.clone());
        self.write_note(&note)?;
        let raised = Raised {
            places: self.clone(),
            owner,
            now: (wanted, 0),
        };
        // The rate first: the kernel refuses to change it while the share is without limit.
        if wanted != max_rate && note.max_percent != 0 {
            self.write(MAX_PERCENT, note.max_percent)?;
            self.write(MAX_RATE, wanted)?;
        }
        self.write(MAX_PERCENT, 0)?;
        Ok(Some(raised))
    }

    /// Puts back what was raised by processes that ended without doing so, if no other needs it.
    /// True if there was something.
    ///
    /// # Errors
    /// The note cannot be read, or a limit not be written.
    pub(crate) fn mend(&self) -> Result<bool> {
        if !self.note.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let Some(mut note) = self.noted()? else {
            return Ok(false);
        };
        note.owners.retain(Owner::lives);
        self.restore_unless_needed(&note)
    }

    fn give_up(&self, owner: &Owner) -> Result<()> {
        let _lock = self.lock()?;
        let Some(mut note) = self.noted()? else {
            return Ok(());
        };
        let place = note.owners.iter().position(|other| other == owner);
        place.map(|place| note.owners.swap_remove(place));
        note.owners.retain(Owner::lives);
        self.restore_unless_needed(&note)?;
        Ok(())
    }

    /// Puts back what is noted, or only notes who needs it still; true if it was put back.
    fn restore_unless_needed(&self, note: &Note) -> Result<bool> {
        if !note.owners.is_empty() {
            self.write_note(note)?;
            return Ok(false);
        }
        // The share first, for the same reason.
        self.write(MAX_PERCENT, note.max_percent)?;
        if note.max_percent != 0 {
            self.write(MAX_RATE, note.max_rate)?;
        }
        fs::remove_file(&self.note)
            .with_context(|| format!("cannot remove {}", self.note.display()))?;
        Ok(true)
    }

    /// Only one process at a time reads the note and acts on it.
    fn lock(&self) -> Result<Flock<File>> {
        let folder = self.note.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let folder_file =
            File::open(folder).with_context(|| format!("cannot open {}", folder.display()))?;
        Flock::lock(folder_file, FlockArg::LockExclusive)
            .map_err(|(_, error)| error)
            .with_context(|| format!("cannot lock {}", folder.display()))
    }

    fn noted(&self) -> Result<Option<Note>> {
        match fs::read(&self.note) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .with_context(|| format!("{} is damaged: remove it", self.note.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(error).with_context(|| format!("cannot read {}", self.note.display()))
            }
        }
    }

    /// A note is whole or as it was before.
    fn write_note(&self, note: &Note) -> Result<()> {
        let new = self.note.with_extension("new");
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(&serde_json::to_vec(note)?)?;
                file.sync_all()?;
                fs::rename(&new, &self.note)
            });
        written.with_context(|| format!("cannot write {}", self.note.display()))
    }

    fn read(&self, name: &str) -> Result<u64> {
        let path = self.limits.join(name);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match text.trim().parse() {
            Ok(value) => Ok(value),
            Err(_) => bail!("{} holds '{}', no number", path.display(), text.trim()),
        }
    }

    fn write(&self, name: &str, value: u64) -> Result<()> {
        let path: &Path = &self.limits.join(name);
        fs::write(path, value.to_string())
            .with_context(|| format!("cannot write {value} to {}", path.display()))
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Err(error) = self.places.give_up(&self.owner) {
            eprintln!("vcpid: the kernel's limits could not be put back: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits in a folder of their own.
    fn places(rate: u64, percent: u64) -> (tempfile::TempDir, LimitFiles) {
        let folder = tempfile::tempdir().expect("a folder");
        let places = LimitFiles {
            limits: folder.path().to_owned(),
            note: folder.path().join("run/note"),
        };
        places.write(MAX_RATE, rate).expect("written");
        places.write(MAX_PERCENT, percent).expect("written");
        (folder, places)
    }

    fn values(places: &LimitFiles) -> (u64, u64) {
        let read = |name| places.read(name).expect("a number");
        (read(MAX_RATE), read(MAX_PERCENT))
    }

    /// Raised limits are put back at the end; where none stands in the way nothing is touched.
    #[test]
    fn raised_and_put_back() {
        let (_folder, places) = places(2_500, 25);
        let raised = places.raise(4_000).expect("raised").expect("in the way");
        assert_eq!(values(&places), (8_000, 0));
        assert!(!places.mend().expect("read"), "its owner lives");
        drop(raised);
        assert_eq!(values(&places), (2_500, 25));
        assert!(!places.note.exists());

        let (_folder, places) = self::places(100_000, 0);
        assert!(places.raise(4_000).expect("nothing to do").is_none());
        assert!(!places.note.exists());
    }

    /// Limits that several have raised are put back by the last of them, to what they were before
    /// the first.
    #[test]
    fn needed_by_others() {
        let (_folder, places) = places(2_500, 25);
        let raise = |rate| places.raise(rate).expect("raised").expect("needed");
        let (first, second) = (raise(4_000), raise(3_000));
        drop(first);
        assert_eq!(values(&places), (8_000, 0));
        let third = raise(9_000);
        drop(second);
        assert_eq!(values(&places), (18_000, 0));
        drop(third);
        assert_eq!(values(&places), (2_500, 25));
        assert!(!places.note.exists());
    }

    /// What one that was killed has raised is put back by the next, or by the last that needs it.
    #[test]
    fn mended_after_a_crash() {
        let (_folder, places) = places(100_000, 25);
        let crash = || {
            let gone = Owner {
                pid: u32::MAX,
                started: Some(1),
            };
            std::mem::forget(places.raise_for(gone, 1_000).expect("raised"));
            assert_eq!(values(&places), (100_000, 0));
        };
        crash();
        assert!(places.mend().expect("mended"));
        assert_eq!(values(&places), (100_000, 25));
        assert!(!places.mend().expect("nothing left"));

        crash();
        let needed = places.raise(1_000).expect("raised").expect("needed");
        assert!(!places.mend().expect("read"), "another needs it");
        assert_eq!(values(&places), (100_000, 0));
        drop(needed);
        assert_eq!(values(&places), (100_000, 25));
    }
}
