//! What readers ask of the service itself.

use std::sync::mpsc::SyncSender;

/// A request to the service itself, from a peer who may make it.
#[derive(Debug)]
pub(crate) struct Control {
    /// What is asked.
    pub(crate) request: protocol::Control,
    /// Where the answer goes; it has room for one, so that answering never blocks.
    pub(crate) reply: SyncSender<Result<protocol::Answer, String>>,
}
