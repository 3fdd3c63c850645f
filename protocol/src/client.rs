//! The reader's side of a conversation.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::{
    Answer, Control, Decoder, Error, Hello, MAX_REPLY, MAX_REQUEST, Refusal, Reply, Request,
    Selection, encode,
};

/// How long the service may be silent: it may have others to serve first, and a large view
/// to make.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens there, or not to everybody.
    #[error("{}: cannot reach the service", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the service broke")]
    Broken(#[source] io::Error),
    /// The service ended the connection before its answer was complete.
    #[error("the service hung up before its answer was complete")]
    Incomplete,
    /// The service refused.
    #[error("the service refuses: {message}")]
    Refused {
        /// Why, for programs.
        refusal: Refusal,
        /// Why, for people.
        message: String,
    },
    /// The service tried, and could not.
    #[error("the service could not do it: {0}")]
    Failed(String),
    /// What came is not what the service would say.
    #[error("the service's answer makes no sense: {0}")]
    Nonsense(String),
    /// What came could not be put where it belongs.
    #[error("the view cannot be stored")]
    Store(#[source] io::Error),
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        ClientError::Nonsense(error.to_string())
    }
}

/// A view that was received whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its size in bytes.
    pub bytes: u64,
    /// What the service could not read for it, one sentence each.
    pub notes: Vec<String>,
}

/// A connection to the service, good for one request.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the service's socket.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = connect().map_err(|source| ClientError::Unreachable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Client {
            stream,
            decoder: Decoder::new(MAX_REPLY),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Asks for a view and writes it, an SQLite database, to `place`. What is there after an
    /// error is not to be used.
    ///
    /// # Errors
    /// Whatever kept it from arriving whole.
    pub fn view(
        mut self,
        selection: Selection,
        place: &mut impl Write,
    ) -> Result<Received, ClientError> {
        self.ask(&Request::View(selection))?;
        let (bytes, notes) = match self.reply()? {
            Reply::View { bytes, notes } => (bytes, notes),
            other => return Err(unexpected(&other)),
        };
        let mut digest = Sha256::new();
        let mut left = bytes;
        loop {
            match self.reply()? {
                Reply::Chunk(chunk) => {
                    left = u64::try_from(chunk.len())
                        .ok()
                        .and_then(|length| left.checked_sub(length))
                        .ok_or_else(|| nonsense("more than it announced"))?;
                    digest.update(&*chunk);
                    place.write_all(&chunk).map_err(ClientError::Store)?;
                }
                Reply::End { digest: expected } if left == 0 => {
                    if <[u8; 32]>::from(digest.finalize()) != expected {
                        return Err(nonsense("not what it took the digest of"));
                    }
                    return Ok(Received { bytes, notes });
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Asks something of the service itself.
    ///
    /// # Errors
    /// [`ClientError::Refused`] to whom it is not allowed, [`ClientError::Failed`] where the
    /// service could not do it, and whatever kept the answer from arriving.
    pub fn control(mut self, control: Control) -> Result<Answer, ClientError> {
        self.ask(&Request::Control(control))?;
        match self.reply()? {
            Reply::Control(answer) => answer.map_err(ClientError::Failed),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<(), ClientError> {
        let mut frames = encode(&Hello::default(), MAX_REQUEST)?;
        frames.extend(encode(request, MAX_REQUEST)?);
        match self.stream.write_all(&frames) {
            // It may have hung up after saying why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result.map_err(ClientError::Broken),
        }
    }

    fn reply(&mut self) -> Result<Reply, ClientError> {
        loop {
            match self.decoder.take()? {
                Some(Reply::Refused { refusal, message }) => {
                    return Err(ClientError::Refused { refusal, message });
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
            let length = match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ClientError::Incomplete),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ClientError::Broken(error)),
            };
            self.decoder.push(&self.buffer[..length]);
        }
    }
}

fn nonsense(what: &str) -> ClientError {
    ClientError::Nonsense(what.to_owned())
}

fn unexpected(reply: &Reply) -> ClientError {
    nonsense(match reply {
        Reply::Refused { .. } => "a refusal out of turn",
        Reply::View { .. } => "a view out of turn",
        Reply::Chunk(_) => "a part of a view out of turn",
        Reply::End { .. } => "an end before the end",
        Reply::Control(_) => "the answer to another question",
    })
}
