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

/// How long the service may be silent unless it is said otherwise: it may have others to serve
/// first, and a large view to make.
const PATIENCE: Duration = Duration::from_secs(300);

/// After so long a silence whoever waits is told.
const NOTICE: Duration = Duration::from_secs(3);

/// Is told, once, that the service has been silent for some seconds, where it listens, and how much
/// longer it is waited for at most.
pub type Notice = fn(&Path, Duration);

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
    /// The service said nothing for so long.
    #[error("the service does not answer: nothing came for {} s", .0.as_secs())]
    Silent(Duration),
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
    /// The size of the view in bytes.
    pub bytes: u64,
    /// What the service could not read for it, one sentence each.
    pub notes: Vec<String>,
}

/// A connection to the service, good for one request.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    /// How long the service may be silent.
    patience: Duration,
    notice: Option<Notice>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the service's socket.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| ClientError::Unreachable {
            path: path.to_owned(),
            source,
        })?;
        Ok(Client {
            stream,
            path: path.to_owned(),
            patience: PATIENCE,
            notice: None,
            decoder: Decoder::new(MAX_REPLY),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Waits for no longer than this while the service says nothing; five minutes otherwise.
    pub fn with_patience(self, patience: Duration) -> Client {
        Client { patience, ..self }
    }

    /// Has `notice` told when the service has been silent for some seconds.
    pub fn with_notice(self, notice: Notice) -> Client {
        Client {
            notice: Some(notice),
            ..self
        }
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
        self.stream
            .set_write_timeout(Some(self.patience))
            .map_err(ClientError::Broken)?;
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
            let length = self.read()?;
            self.decoder.push(&self.buffer[..length]);
        }
    }

    /// Waits for bytes, and says so if that takes long.
    fn read(&mut self) -> Result<usize, ClientError> {
        let mut silent = Duration::ZERO;
        loop {
            let left = self.patience.saturating_sub(silent);
            let wait = match self.notice {
                Some(_) => left.min(NOTICE),
                None => left,
            };
            if wait.is_zero() {
                return Err(ClientError::Silent(self.patience));
            }
            let timeout = self.stream.set_read_timeout(Some(wait));
            timeout.map_err(ClientError::Broken)?;
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(ClientError::Incomplete),
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    silent += wait;
                    if let Some(notice) = self.notice.take() {
                        notice(&self.path, self.patience.saturating_sub(silent));
                    }
                }
                Err(error) => return Err(ClientError::Broken(error)),
            }
        }
    }
}

/// Whether nothing came in time; the kernel calls it the one, other systems the other.
fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::Mutex;

    use super::*;

    /// The times that a waiting client was told of.
    static TOLD: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

    /// A service that says nothing is waited for as long as was said, and whoever waits is told
    /// once that they do.
    #[test]
    fn silence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _silent = UnixListener::bind(&path).unwrap();
        let patience = NOTICE + Duration::from_millis(100);
        let client = Client::connect(&path).unwrap().with_patience(patience);
        let client = client.with_notice(|_, left| TOLD.lock().unwrap().push(left));
        let answer = client.control(Control::Status);
        assert!(matches!(answer, Err(ClientError::Silent(of)) if of == patience));
        assert_eq!(*TOLD.lock().unwrap(), [Duration::from_millis(100)]);
    }
}
