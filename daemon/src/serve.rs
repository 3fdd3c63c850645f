//! `vcpid serve`: samples the whole machine for as long as it runs, into one database for each
//! epoch, and lets readers see what they may see.

mod epochs;
mod governor;
mod journal;
mod notify;
mod peers;
mod sampling;
mod service;
mod status;

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use listenfd::ListenFd;

use crate::args::ServeArgs;
use crate::config::{Access, Config, DEFAULT_PATH, DEFAULT_TEXT};
use crate::output;
use epochs::Epochs;
use peers::Peers;
use service::Service;

/// Exit status where the configuration is wrong, which no restart mends (`EX_CONFIG`).
const WRONG_CONFIG: u8 = 78;

/// Requests to the service itself that may wait.
const REQUESTS: usize = 16;

/// Runs the service until it is told to end; returns the exit status.
pub(crate) fn run(args: &ServeArgs) -> Result<u8> {
    if args.print_config {
        output::print(DEFAULT_TEXT)?;
        return Ok(0);
    }
    journal::start();
    let (config, path) = match configuration(args.config.as_deref()) {
        Ok(read) => read,
        Err(error) => {
            tracing::error!("{error:#}");
            return Ok(WRONG_CONFIG);
        }
    };
    let epochs = Epochs::open(&config.database)?;
    let (control, requests) = sync_channel(REQUESTS);
    let directory = epochs.directory().path().to_owned();
    let (listener, socket) = listener(&config.access)?;
    let peers = Peers::start(listener, settings(&config.access), directory, control)
        .context("cannot serve readers")?;
    let mut service = Service::new(path, config, epochs, peers, requests)?;
    let ended = service.run();
    if let Some(socket) = socket {
        // Another service may have put its own there.
        let _ = fs::remove_file(socket);
    }
    ended.map(|()| 0)
}

/// The configuration, and where it is read again. Without a file at the usual place the defaults
/// hold.
pub(super) fn configuration(path: Option<&Path>) -> Result<(Config, PathBuf)> {
    let named = path.unwrap_or(Path::new(DEFAULT_PATH));
    if path.is_none() && !named.exists() {
        return Ok((Config::default(), named.to_owned()));
    }
    Ok((Config::read(named)?, named.to_owned()))
}

/// The socket that the service manager has handed over, or one of our own and its path.
fn listener(access: &Access) -> Result<(UnixListener, Option<PathBuf>)> {
    let handed = ListenFd::from_env()
        .take_unix_listener(0)
        .context("what the service manager handed over is no socket")?;
    if let Some(listener) = handed {
        return Ok((listener, None));
    }
    let path = &access.socket.0;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            bail!("{} is something else than a socket", path.display());
        }
        if UnixStream::connect(path).is_ok() {
            bail!("{}: another service listens there", path.display());
        }
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let listener =
        UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    // Everybody may ask; what is answered depends on who asks.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
        .with_context(|| format!("cannot open {} to all", path.display()))?;
    Ok((listener, Some(path.clone())))
}

fn settings(access: &Access) -> peers::Settings {
    let group = nix::unistd::Group::from_name(&access.group);
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    peers::Settings {
        clients: size(access.clients.0),
        clients_per_user: size(access.clients_per_user.0),
        requests_per_minute: access.requests_per_minute.small(),
        view_bytes: access.answer_mib.0 << 20,
        view_time: Duration::from_secs(access.answer_seconds.0),
        group: group.ok().flatten().map(|group| group.gid.as_raw()),
    }
}
