//! One reader's connection: what it has said, and what it is being told.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::{
    Decoder, Hello, MAGIC, MAX_CHUNK, MAX_REPLY, MAX_REQUEST, Refusal, Reply, Request, VERSION,
    encode,
};
use serde_bytes::ByteBuf;

use super::identity::Identity;
use super::outcome::Made;

/// How long a reader may take for its request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long a request may wait for its turn and its answer.
const TURN_TIME: Duration = Duration::from_secs(240);
/// How long a reader may take nothing of what it is sent.
const STALL_TIME: Duration = Duration::from_secs(10);
/// How long it may take altogether, besides a second for each of [`BYTES_PER_SECOND`].
const SEND_TIME: Duration = Duration::from_secs(30);
/// How fast a reader has to be at least, in the long run.
const BYTES_PER_SECOND: u64 = 1 << 20;

/// What is read of a connection at a time.
const READ: usize = 16 << 10;

/// What a connection is at.
#[derive(Debug)]
enum ConnectionState {
    /// The request is not complete.
    Asking { decoder: Decoder, greeted: bool },
    /// The answer is not there.
    Waiting,
    /// The answer is being sent: these bytes, of which some are gone, then what is in the view.
    Answering {
        frame: Vec<u8>,
        sent: usize,
        view: Option<Rest>,
        /// When it has to be over.
        end: Instant,
    },
}

/// What of a view is still to be sent.
#[derive(Debug)]
struct Rest {
    made: Made,
    sent: u64,
}

/// What became of a connection that was looked after.
#[derive(Debug)]
pub(super) enum ConnectionStep {
    /// Nothing that the front has to do anything about.
    On,
    /// A whole request.
    Asked(Request),
    /// What it says is refused.
    Refuse(Refusal, String),
    /// All was sent.
    Done,
    /// The reader is gone, or did not take what it was sent.
    Gone,
}

/// One reader's connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    pub(super) identity: Identity,
    state: ConnectionState,
    deadline: Instant,
    /// Tells a worker that nobody waits for the view.
    pub(super) stop: Arc<AtomicBool>,
    /// Bytes of a view that it is being sent; 0 for other answers.
    pub(super) view_bytes: u64,
    /// It is an answer, not a refusal.
    pub(super) answered: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        group: Option<u32>,
        now: Instant,
    ) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        let identity = Identity::of(&stream, group)?;
        Ok(Connection {
            stream,
            identity,
            state: ConnectionState::Asking {
                decoder: Decoder::new(MAX_REQUEST),
                greeted: false,
            },
            deadline: now + REQUEST_TIME,
            stop: Arc::default(),
            view_bytes: 0,
            answered: false,
        })
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// What to wait for: bytes from the reader, room for bytes to it, or only its end.
    pub(super) fn wants(&self) -> (bool, bool) {
        match self.state {
            ConnectionState::Asking { .. } => (true, false),
            ConnectionState::Waiting => (false, false),
            ConnectionState::Answering { .. } => (false, true),
        }
    }

    /// Whether it has not asked for anything yet.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, ConnectionState::Asking { .. })
    }

    /// When something has to have happened.
    pub(super) fn deadline(&self) -> Instant {
        match &self.state {
            ConnectionState::Answering { end, .. } => self.deadline.min(*end),
            _ => self.deadline,
        }
    }

    /// The time is over.
    pub(super) fn expire(&self) -> ConnectionStep {
        match self.state {
            ConnectionState::Asking { .. } => ConnectionStep::Refuse(
                Refusal::TooSlow,
                "the request did not come in time".to_owned(),
            ),
            ConnectionState::Waiting => ConnectionStep::Refuse(
                Refusal::Busy,
                "the service had too much to do; ask again later".to_owned(),
            ),
            ConnectionState::Answering { .. } => ConnectionStep::Gone,
        }
    }

    /// Reads what has come of the request.
    pub(super) fn read(&mut self, now: Instant) -> ConnectionStep {
        let ConnectionState::Asking { decoder, greeted } = &mut self.state else {
            return ConnectionStep::On;
        };
        let mut buffer = [0; READ];
        match self.stream.read(&mut buffer) {
            // It cannot ask any more; what it has asked completely is being answered.
            Ok(0) => return ConnectionStep::Gone,
            Ok(read) => decoder.push(&buffer[..read]),
            Err(error) if is_for_later(&error) => return ConnectionStep::On,
            Err(_) => return ConnectionStep::Gone,
        }
        let malformed = |what: String| ConnectionStep::Refuse(Refusal::Malformed, what);
        if !*greeted {
            match decoder.take::<Hello>() {
                Ok(None) => return ConnectionStep::On,
                Ok(Some(Hello { magic, version })) if magic == MAGIC => {
                    if version != VERSION {
                        let text = format!(
                            "this service speaks version {VERSION} of the protocol, the reader {version}"
                        );
                        return ConnectionStep::Refuse(Refusal::Version(VERSION), text);
                    }
                    *greeted = true;
                }
                Ok(Some(_)) => return malformed("not a reader's greeting".to_owned()),
                Err(error) => return malformed(error.to_string()),
            }
        }
        match decoder.take::<Request>() {
            Ok(None) => ConnectionStep::On,
            Ok(Some(_)) if !decoder.is_empty() => {
                malformed("more than one request on a connection".to_owned())
            }
            Ok(Some(request)) => {
                self.state = ConnectionState::Waiting;
                self.deadline = now + TURN_TIME;
                ConnectionStep::Asked(request)
            }
            Err(error) => malformed(error.to_string()),
        }
    }

    /// Begins to answer with a single reply.
    pub(super) fn reply(&mut self, reply: &Reply, now: Instant) {
        self.answered = matches!(reply, Reply::Control(Ok(_)));
        let frame = encode(reply, MAX_REPLY).unwrap_or_else(|error| {
            let refused = Reply::Refused {
                refusal: Refusal::Failed,
                message: error.to_string(),
            };
            encode(&refused, MAX_REPLY).unwrap_or_default()
        });
        self.answer(frame, None, 0, now);
    }

    /// Begins to send a view.
    pub(super) fn send(&mut self, view: Made, now: Instant) {
        let bytes = view.view.bytes;
        let notes = view.view.notes.iter().take(MAX_NOTES).cloned().collect();
        let head = match encode(&Reply::View { bytes, notes }, MAX_REPLY) {
            Ok(frame) => frame,
            Err(error) => {
                let refused = Reply::Refused {
                    refusal: Refusal::Failed,
                    message: error.to_string(),
                };
                return self.reply(&refused, now);
            }
        };
        self.view_bytes = bytes;
        self.answered = true;
        let rest = Rest {
            made: view,
            sent: 0,
        };
        self.answer(head, Some(rest), bytes, now);
    }

    fn answer(&mut self, frame: Vec<u8>, view: Option<Rest>, bytes: u64, now: Instant) {
        let seconds = Duration::from_secs(bytes / BYTES_PER_SECOND);
        self.state = ConnectionState::Answering {
            frame,
            sent: 0,
            view,
            end: now + SEND_TIME + seconds,
        };
        self.deadline = now + STALL_TIME;
    }

    /// Sends what the reader takes, one frame at most: the others want something, too.
    pub(super) fn write(&mut self, now: Instant) -> ConnectionStep {
        let ConnectionState::Answering {
            frame, sent, view, ..
        } = &mut self.state
        else {
            return ConnectionStep::On;
        };
        match self.stream.write(&frame[*sent..]) {
            Ok(0) => return ConnectionStep::Gone,
            Ok(written) => *sent += written,
            Err(error) if is_for_later(&error) => return ConnectionStep::On,
            Err(_) => return ConnectionStep::Gone,
        }
        self.deadline = now + STALL_TIME;
        if *sent < frame.len() {
            return ConnectionStep::On;
        }
        match next_frame(view) {
            Ok(Some(next)) => {
                (*frame, *sent) = (next, 0);
                ConnectionStep::On
            }
            Ok(None) => ConnectionStep::Done,
            // The file is shorter than it was: the reader notices that the end is missing.
            Err(_) => ConnectionStep::Gone,
        }
    }
}

/// Databases that could not be read, of which a reader is told.
const MAX_NOTES: usize = 100;

fn next_frame(view: &mut Option<Rest>) -> io::Result<Option<Vec<u8>>> {
    let Some(rest) = view else {
        return Ok(None);
    };
    let of = &rest.made.view;
    let length = of.bytes.saturating_sub(rest.sent).min(MAX_CHUNK as u64);
    let reply = if length > 0 {
        // At most MAX_CHUNK.
        let mut chunk = vec![0; length as usize];
        // Others read the same file.
        of.file.read_exact_at(&mut chunk, rest.sent)?;
        rest.sent += length;
        Reply::Chunk(ByteBuf::from(chunk))
    } else {
        let digest = of.digest;
        *view = None;
        Reply::End { digest }
    };
    encode(&reply, MAX_REPLY)
        .map(Some)
        .map_err(io::Error::other)
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
