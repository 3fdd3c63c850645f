//! What readers may take.

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
    /// Bytes of the largest view, and of all views of one user at a time.
    pub(crate) view_bytes: u64,
    /// Longest time for making a view.
    pub(crate) view_time: Duration,
    /// The group that sees everything, beside root.
    pub(crate) group: Option<u32>,
}
