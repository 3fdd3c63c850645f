//! Readers: who asks over the socket, and what they are given.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// What readers may take of the service.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Connections at a time.
    pub(crate) clients: usize,
    /// Connections of one user at a time.
    pub(crate) clients_per_user: usize,
    /// Requests of one user in a minute.
    pub(crate) requests_per_minute: u32,
    /// Bytes of the largest view.
    pub(crate) view_bytes: u64,
    /// Longest time for making a view.
    pub(crate) view_time: Duration,
    /// The group that sees everything, beside root.
    pub(crate) group: Option<u32>,
}

/// A request to the service itself, from a peer who may make it.
#[derive(Debug)]
pub(crate) struct Control {
    /// What is asked.
    pub(crate) request: protocol::Control,
    /// Where the answer goes; it has room for one, so that answering never blocks.
    pub(crate) reply: SyncSender<Result<protocol::Answer, String>>,
}

/// The readers' side of the service; dropped, it hangs up on all of them.
#[derive(Debug)]
pub(crate) struct Peers {}

impl Peers {
    /// Serves readers that connect to `listener` from the databases in `directory`. What they
    /// ask of the service itself goes to `control`, which is never waited for: where it is
    /// full, they are told to come again.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub(crate) fn start(
        _listener: UnixListener,
        _settings: Settings,
        _directory: PathBuf,
        _control: SyncSender<Control>,
    ) -> io::Result<Peers> {
        Ok(Peers {})
    }

    /// Counters since the last time, for the database's kind `peer`.
    pub(crate) fn take_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
