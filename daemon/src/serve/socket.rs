//! Where readers come in: a socket that the service has made, or one that the service manager has
//! handed over.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;

use super::place;

/// The socket is for all, and so is the way to it.
const SOCKET_MODE: u32 = 0o666;
const FOLDER_MODE: u32 = 0o755;

/// A socket's place, and what readers should find there.
pub(super) struct Socket {
    /// `None` where it has no name, or none that this process can see.
    place: Option<SocketFile>,
    /// The service has made it, and removes it at its end.
    own: bool,
}

struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            identity: (metadata.dev(), metadata.ino()),
        })
    }

    /// Whether readers who go there come to this socket.
    fn is_there(&self) -> bool {
        Self::of(&self.path).is_some_and(|now| now.identity == self.identity)
    }
}

impl Socket {
    /// The one that the service manager has handed over, or one of our own at `path`.
    ///
    /// # Errors
    /// What was handed over is no socket, something else is at `path`, or others could replace what
    /// is there.
    pub(super) fn open(path: &Path) -> Result<(Self, UnixListener)> {
        let handed = ListenFd::from_env()
            .take_unix_listener(0)
            .context("what the service manager handed over is no socket")?;
        if let Some(listener) = handed {
            let address = listener.local_addr().ok();
            let path = address.as_ref().and_then(|address| address.as_pathname());
            let socket = Self {
                place: path.and_then(SocketFile::of),
                own: false,
            };
            return Ok((socket, listener));
        }
        Self::bind(path)
    }

    fn bind(path: &Path) -> Result<(Self, UnixListener)> {
        if let Some(refusal) = place::socket_refusal(path, &[own_user()]) {
            bail!(refusal);
        }
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(FOLDER_MODE)
                .create(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        if fs::symlink_metadata(path).is_ok() {
            if UnixStream::connect(path).is_ok() {
                bail!("{}: another service listens there", path.display());
            }
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        open_to_all(path)?;
        let socket = Self {
            place: SocketFile::of(path),
            own: true,
        };
        Ok((socket, listener))
    }

    /// Sees whether readers still find the socket, and no other. Where they do not, and it was the
    /// service's own, another one is made, whose listener is returned.
    ///
    /// # Errors
    /// They do not, or others could change that, and nothing can be done about it from here.
    pub(super) fn look(&mut self) -> Result<Option<UnixListener>> {
        let Some(place) = self.place.as_ref() else {
            return Ok(None);
        };
        if let Some(exposure) = place::exposure(&place.path, &[own_user()]) {
            bail!(exposure);
        }
        if place.is_there() {
            if self.own && !is_open_to_all(&place.path) {
                open_to_all(&place.path)?;
                tracing::warn!(
                    "{} was closed to some; it is open again",
                    place.path.display()
                );
            }
            return Ok(None);
        }
        if !self.own {
            bail!(
                "{} was removed, so no reader finds it; the service manager had made it, and makes \
                 it anew with `systemctl restart vcpid`",
                place.path.display()
            );
        }
        let path = place.path.clone();
        let (socket, listener) = Self::bind(&path)?;
        tracing::warn!("{} had been removed; it is made anew", path.display());
        *self = socket;
        Ok(Some(listener))
    }
}

/// Everybody may ask; what is answered depends on who asks.
fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))
        .with_context(|| format!("cannot open {} to all", path.display()))
}

fn is_open_to_all(path: &Path) -> bool {
    let mode = fs::symlink_metadata(path).map(|metadata| metadata.permissions().mode());
    mode.is_ok_and(|mode| mode & SOCKET_MODE == SOCKET_MODE)
}

fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another service may have put its own there.
        if let Some(place) = self.place.as_ref().filter(|place| place.is_there())
            && self.own
        {
            // At the end of the service nothing can be done about a failure.
            let _ = fs::remove_file(&place.path);
        }
    }
}
