//! The service's databases: a directory for root alone, and in it a file for each epoch.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use profiledb::{Directory, Epoch, EpochFile, Error, Recovered, Writer};

use super::place;
use crate::output::chain;
use crate::settings::config::Database;

/// The file that the service holds a lock on, so that there is one at a time.
const LOCK: &str = "vcpid.lock";

/// Why a new epoch is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The time of an epoch is over.
    Time,
    /// The file is so large that others would have to go for it.
    Size,
    /// The file is not there any more, or another one is.
    Gone,
}

/// The file that is written to now.
#[derive(Debug)]
struct Running {
    path: PathBuf,
    /// The epoch's id, which is also in the file's name.
    id: u64,
    /// Device and inode.
    identity: (u64, u64),
    /// Which of all intervals of an epoch's length since 1970 it began in.
    interval: u64,
}

/// The directory and its running epoch.
pub(super) struct Epochs {
    pub(super) settings: Database,
    directory: Directory,
    lock: Option<Flock<File>>,
    running: Option<Running>,
}

impl Epochs {
    /// Makes the directory where there is none, and locks it. If that fails for want of room and
    /// the like, it is tried again with each epoch.
    ///
    /// # Errors
    /// The directory is another service's or others may get into it: nothing that time mends.
    pub(super) fn open(settings: &Database) -> Result<Self> {
        let path = &settings.directory.0;
        let mut epochs = Self {
            settings: settings.clone(),
            directory: Directory::new(path)?,
            lock: None,
            running: None,
        };
        match epochs.prepare() {
            Err(error) if !is_refusal(&error) => {
                tracing::warn!("{error:#}; it is tried again");
            }
            result => result?,
        }
        Ok(epochs)
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The running epoch's file.
    pub(super) fn running(&self) -> Option<&Path> {
        self.running.as_ref().map(|running| running.path.as_path())
    }

    /// The running epoch's id.
    pub(super) fn running_id(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.id)
    }

    fn prepare(&mut self) -> Result<()> {
        let path = self.directory.path();
        if self.lock.is_some() && path.join(LOCK).exists() {
            return Ok(());
        }
        self.lock = None;
        if let Some(refusal) = place::kernels_own(path) {
            bail!(LastingRefusal(refusal));
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make {}", path.display()));
            }
            _ => {}
        }
        let metadata =
            fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
        let own = nix::unistd::geteuid().as_raw();
        if let Some(refusal) = place::refusal(path, &metadata, &[own]) {
            bail!(LastingRefusal(refusal));
        }
        let lock = path.join(LOCK);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock)
            .with_context(|| format!("cannot open {}", lock.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => self.lock = Some(lock),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => bail!(LastingRefusal(format!(
                "{}: another service writes there: end that one, or give this one a directory of \
                 its own (`directory` under [database])",
                path.display()
            ))),
            Err((_, errno)) => {
                return Err(errno).with_context(|| format!("cannot lock {}", lock.display()));
            }
        }
        Ok(())
    }

    /// Sees whether nobody else gets into the directory. Where its mode has come to let others in,
    /// it is put right: what was written meanwhile is closed to them by its own.
    ///
    /// # Errors
    /// They do, and nothing can be done about it from here.
    pub(super) fn look(&self) -> Result<()> {
        let path = self.directory.path();
        let own = [nix::unistd::geteuid().as_raw()];
        // One that has gone is another trouble.
        let Ok(metadata) = fs::metadata(path) else {
            return Ok(());
        };
        let Some(refusal) = place::refusal(path, &metadata, &own) else {
            return Ok(());
        };
        if !place::is_only_open(&metadata, &own) {
            bail!(refusal);
        }
        fs::set_permissions(path, Permissions::from_mode(place::CLOSED)).context(refusal)?;
        let (shown, mode) = (path.display(), metadata.mode() & 0o7777);
        tracing::warn!(
            "{shown} had got mode {mode:o}, which lets others in; it has mode 700 again"
        );
        Ok(())
    }

    /// Begins an epoch in a file of its own.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn begin(&mut self, epoch: &Epoch) -> Result<Writer> {
        self.running = None;
        self.prepare()?;
        let (path, sequence) = self.directory.next(epoch.started)?;
        let mut writer = Writer::create_epoch_as(&path, epoch, Some(sequence))
            .context("cannot begin a database")?;
        writer.set_budget(Some(self.settings.hour_mib.0 << 20), rand::random());
        let identity = identity(&path).context("the new database is not there")?;
        tracing::info!("epoch {sequence} begins in {}", path.display());
        self.running = Some(Running {
            path,
            id: sequence,
            identity,
            interval: self.interval(SystemTime::now()),
        });
        Ok(writer)
    }

    /// Why a new epoch is due, if it is.
    pub(super) fn due(&self) -> Option<Due> {
        let running = self.running.as_ref()?;
        if identity(&running.path) != Some(running.identity) {
            Some(Due::Gone)
        } else if self.interval(SystemTime::now()) != running.interval {
            Some(Due::Time)
        } else if size(&running.path) > self.settings.retention().bytes_of_one() {
            Some(Due::Size)
        } else {
            None
        }
    }

    fn interval(&self, now: SystemTime) -> u64 {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        seconds / (self.settings.epoch_hours.0 * 3600)
    }

    /// Moves the running epoch's file aside, which is damaged.
    pub(super) fn set_aside(&mut self, error: Error) {
        if let Some(running) = self.running.take() {
            say(&self.directory.set_aside(&running.path, error));
        }
    }

    /// Removes what is not to be kept.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn enforce(&self) -> Result<Vec<EpochFile>, Error> {
        let running = self.running().unwrap_or(Path::new(""));
        let retention = self.settings.retention();
        let removed = self
            .directory
            .enforce(&retention, SystemTime::now(), running)?;
        for file in &removed {
            tracing::info!("removed {}, as configured", file.path.display());
        }
        Ok(removed)
    }

    /// Looks at what earlier services left, in a thread of its own: it may be much.
    pub(super) fn recover(&self) {
        let (directory, running) = (self.directory.clone(), self.running().map(Path::to_owned));
        let work = move || {
            let skip = |path: &Path| Some(path) == running.as_deref();
            match directory.recover(skip, |recovered| say(&recovered)) {
                Ok(()) => tracing::info!("all earlier epochs were looked at"),
                Err(error) => {
                    tracing::warn!("earlier epochs cannot be looked at: {}", chain(&error));
                }
            }
        };
        let thread = std::thread::Builder::new().name("recovery".to_owned());
        if let Err(error) = thread.spawn(work) {
            tracing::warn!("earlier epochs cannot be looked at: {error}");
        }
    }
}

/// What time does not mend.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct LastingRefusal(String);

fn is_refusal(error: &anyhow::Error) -> bool {
    error.downcast_ref::<LastingRefusal>().is_some()
}

fn say(recovered: &Recovered) {
    match recovered {
        Recovered::Closed(path) => {
            tracing::info!(
                "{}: its writer had died; its pages are in order, and it is closed now",
                path.display()
            );
        }
        Recovered::Aside { to, error, .. } => {
            // Whose it is cannot be told from what cannot be read. By its name it would be read as
            // an epoch, and removed as one.
            tracing::warn!(
                "{}; it has the name of an epoch, so it was moved aside to {}, as it is, and goes \
                 when epochs of its age do",
                chain(error),
                to.display()
            );
        }
        Recovered::Left { error, .. } => {
            tracing::warn!("{}; left as it is", chain(error));
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Bytes of the database without its log, which is bounded.
fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}
