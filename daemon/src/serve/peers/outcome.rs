//! What comes of requests, on its way back to the thread that talks to readers.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use protocol::{Digest, Reply};

use super::queue::Held;
use super::token::Token;

/// A view. Its file has no name any more.
#[derive(Debug)]
pub(super) struct View {
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) digest: Digest,
    pub(super) notes: Vec<String>,
}

/// A view on its way to its readers.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) view: Arc<View>,
    /// Its room, for as long as somebody reads it.
    _held: Arc<Held>,
}

impl Made {
    /// A view, and the room that it takes.
    pub(super) fn new(view: View, held: Held) -> Made {
        Made {
            view: Arc::new(view),
            _held: Arc::new(held),
        }
    }
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    View(Made),
    Reply(Reply),
}

/// Where the others put outcomes.
#[derive(Debug)]
pub(super) struct Finished {
    sender: Sender<(Token, Outcome)>,
    wake: UnixStream,
}

impl Finished {
    pub(super) fn new(sender: Sender<(Token, Outcome)>, wake: UnixStream) -> Finished {
        Finished { sender, wake }
    }

    pub(super) fn try_clone(&self) -> io::Result<Finished> {
        Ok(Finished::new(self.sender.clone(), self.wake.try_clone()?))
    }

    /// Never waits; if the front is gone, so is the reader.
    pub(super) fn send(&self, token: Token, outcome: Outcome) {
        if self.sender.send((token, outcome)).is_ok() {
            // A full stream wakes as well.
            let _ = (&self.wake).write(&[0]);
        }
    }
}
