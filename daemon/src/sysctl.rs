//! The kernel's limits of sampling, raised for a while if that is allowed, and put back.
//!
//! What they were is written down before anything is changed, so that the next start puts them
//! back if this one could not.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sampler::Pid;
use serde::{Deserialize, Serialize};

use crate::procfs;

/// Samples per second and CPU above which the kernel throttles.
const MAX_RATE: &str = "perf_event_max_sample_rate";
/// Share of time in interrupts above which it lowers that rate; 0: never.
const MAX_PERCENT: &str = "perf_cpu_time_max_percent";

/// Where the limits and the note about them are.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    limits: PathBuf,
    note: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            limits: "/proc/sys/kernel".into(),
            note: "/run/vcpi/sysctl.json".into(),
        }
    }
}

/// What the limits were, and who raised them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    pid: u32,
    started: Option<u64>,
    max_rate: u64,
    max_percent: u64,
}

/// Raised limits, which are put back when this is dropped.
#[derive(Debug)]
pub(crate) struct Raised {
    places: Places,
    note: Note,
}

impl Places {
    /// Raises the limits so that samples at `rate` per second and CPU are not throttled. `None`: they
    /// do not stand in the way.
    ///
    /// # Errors
    /// Another vcpid has raised them, or they may not be written.
    pub(crate) fn raise(&self, rate: u64) -> Result<Option<Raised>> {
        let note = Note {
            pid: std::process::id(),
            started: procfs::start_time(Pid(std::process::id())),
            max_rate: self.read(MAX_RATE)?,
            max_percent: self.read(MAX_PERCENT)?,
        };
        // Random intervals come in bursts of twice the mean rate.
        let wanted = rate.saturating_mul(2).max(note.max_rate);
        if note.max_percent == 0 && wanted == note.max_rate {
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
        if let Some(folder) = self.note.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.note);
        let mut file = made.with_context(|| {
            format!(
                "cannot raise the kernel's limits: {} exists or cannot be made; another vcpid has \
                 raised them",
                self.note.display()
            )
        })?;
        file.write_all(&serde_json::to_vec(&note)?)
            .and_then(|()| file.sync_all())
            .with_context(|| format!("cannot write {}", self.note.display()))?;
        let raised = Raised {
            places: self.clone(),
            note,
        };
        // The rate first: the kernel refuses to change it while the share is without limit.
        if raised.note.max_percent != 0 {
            self.write(MAX_RATE, wanted)?;
        }
        self.write(MAX_PERCENT, 0)?;
        Ok(Some(raised))
    }

    /// Puts back what a vcpid raised that ended without doing so. True if there was something.
    ///
    /// # Errors
    /// The note cannot be read, or a limit not be written.
    pub(crate) fn mend(&self) -> Result<bool> {
        let Ok(bytes) = fs::read(&self.note) else {
            return Ok(false);
        };
        let note: Note = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged: remove it", self.note.display()))?;
        let owner = procfs::start_time(Pid(note.pid));
        if owner.is_some() && owner == note.started {
            return Ok(false);
        }
        self.restore(&note)?;
        Ok(true)
    }

    fn restore(&self, note: &Note) -> Result<()> {
        // The share first, for the same reason.
        self.write(MAX_PERCENT, note.max_percent)?;
        if note.max_percent != 0 {
            self.write(MAX_RATE, note.max_rate)?;
        }
        fs::remove_file(&self.note)
            .with_context(|| format!("cannot remove {}", self.note.display()))
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
        if let Err(error) = self.places.restore(&self.note) {
            eprintln!("vcpid: the kernel's limits could not be put back: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits in a folder of their own.
    fn places(rate: u64, percent: u64) -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places {
            limits: folder.path().to_owned(),
            note: folder.path().join("run/note"),
        };
        places.write(MAX_RATE, rate).expect("written");
        places.write(MAX_PERCENT, percent).expect("written");
        (folder, places)
    }

    fn values(places: &Places) -> (u64, u64) {
        let read = |name| places.read(name).expect("a number");
        (read(MAX_RATE), read(MAX_PERCENT))
    }

    /// Raised limits are put back at the end; where none stands in the way nothing is touched.
    #[test]
    fn raised_and_put_back() {
        let (_folder, places) = places(2_500, 25);
        let raised = places.raise(4_000).expect("raised").expect("in the way");
        assert_eq!(values(&places), (8_000, 0));
        assert!(places.raise(4_000).expect("nothing to do").is_none());
        assert!(places.raise(9_000).is_err(), "somebody else's");
        assert!(!places.mend().expect("read"), "its owner lives");
        drop(raised);
        assert_eq!(values(&places), (2_500, 25));
        assert!(!places.note.exists());
    }

    /// What a vcpid that was killed has raised is put back by the next.
    #[test]
    fn mended_after_a_crash() {
        let (_folder, places) = places(100_000, 25);
        let raised = places.raise(1_000).expect("raised").expect("in the way");
        let gone = Note {
            pid: u32::MAX,
            ..raised.note.clone()
        };
        std::mem::forget(raised);
        fs::write(&places.note, serde_json::to_vec(&gone).expect("JSON")).expect("written");
        assert_eq!(values(&places), (100_000, 0));
        assert!(places.mend().expect("mended"));
        assert_eq!(values(&places), (100_000, 25));
        assert!(!places.mend().expect("nothing left"));
    }
}
