//! `vcpid serve`: samples the whole machine for as long as it runs, into one database for each
//! epoch, and lets readers see what they may see.

mod epochs;
mod governor;
mod journal;
mod losses;
mod newest;
mod notify;
mod peers;
pub(super) mod place;
mod rolling;
mod sampling;
mod service;
mod socket;
mod status;

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use sampler::Clock;
use sampler::probe::{self, Scope};

use crate::output;
use crate::settings::args::ServeArgs;
use crate::settings::config::{Access, Config, DEFAULT_PATH, DEFAULT_TEXT};
use epochs::Epochs;
use machine::system::memory;
use peers::Peers;
use service::Service;
use socket::Socket;
pub(crate) use status::Status;

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
    may_sample()?;
    memory::without_huge_pages();
    if let Err(error) = sampler::hasten() {
        tracing::debug!(%error, "the service has ordinary priority");
    }
    let epochs = Epochs::open(&config.database)?;
    let (control, requests) = sync_channel(REQUESTS);
    let (asking, answering) = newest::channel();
    let directory = epochs.directory().path().to_owned();
    let (socket, listener) = Socket::open(&config.access.socket.0)?;
    let peers = Peers::start(
        listener,
        settings(&config.access),
        directory,
        control,
        &asking,
    )
    .context("cannot serve readers")?;
    let mut service = Service::new(path, config, epochs, socket, peers, requests, answering)?;
    service.run()?;
    Ok(0)
}

/// Sees whether this user may sample the whole machine, before anything is made for it.
fn may_sample() -> Result<()> {
    let Err(error) = probe::probe_clock(Clock::CpuClock, Scope::System) else {
        return Ok(());
    };
    match Errno::from_raw(error.errno) {
        Errno::EACCES | Errno::EPERM => bail!(
            "the service samples the whole machine, which needs root or CAP_PERFMON: start it with \
             `systemctl start vcpid`, or `vcpid serve` as root; without, `vcpid record -- COMMAND` \
             profiles a command of your own"
        ),
        _ => Err(error.into()),
    }
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

/// The id of the group that sees everything, or why there is none.
pub(super) fn group(name: &str) -> Result<u32, String> {
    let found = nix::unistd::Group::from_name(name).ok().flatten();
    found.map(|group| group.gid.as_raw()).ok_or_else(|| {
        format!(
            "there is no group {name}, so root alone sees what is not their own: `groupadd --system \
             {name}`, or name another as `group` under [access]"
        )
    })
}

fn settings(access: &Access) -> peers::Settings {
    let group = group(&access.group).map_err(|why| tracing::warn!("{why}"));
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    peers::Settings {
        clients: size(access.clients.0),
        clients_per_user: size(access.clients_per_user.0),
        requests_per_minute: access.requests_per_minute.small(),
        view_bytes: access.answer_mib.0 << 20,
        view_time: Duration::from_secs(access.answer_seconds.0),
        group: group.ok(),
    }
}
