//! Frames: messages to bytes and back. Knows nothing of sockets.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a frame's length.
const HEAD: usize = size_of::<u32>();

/// What is wrong with bytes that should be a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is longer than the receiver takes.
    #[error("a message of {length} bytes, where {most} are allowed")]
    TooLong {
        /// The length of the frame.
        length: usize,
        /// The longest allowed.
        most: usize,
    },
    /// The body is no message of the kind that is due, or more than one.
    #[error("bytes that are no message")]
    Malformed,
}

/// The frame of a message; at most `most` bytes of body.
///
/// # Errors
/// [`Error::TooLong`]; never [`Error::Malformed`] for the messages of this crate.
pub fn encode<T: Serialize>(message: &T, most: usize) -> Result<Vec<u8>, Error> {
    let frame = postcard::to_extend(message, vec![0; HEAD]).map_err(|_| Error::Malformed)?;
    let length = frame.len() - HEAD;
    let head = u32::try_from(length).ok().filter(|_| length <= most);
    let Some(head) = head else {
        return Err(Error::TooLong { length, most });
    };
    let mut frame = frame;
    frame[..HEAD].copy_from_slice(&head.to_le_bytes());
    Ok(frame)
}

/// Collects bytes as they come and gives messages as they are complete.
///
/// It keeps at most one frame of the allowed length and what was pushed with its end, so its
/// memory is bounded by that, whatever is sent.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    most: usize,
}

impl Decoder {
    /// A decoder for bodies of at most `most` bytes.
    pub fn new(most: usize) -> Decoder {
        Decoder {
            buffer: Vec::new(),
            most,
        }
    }

    /// Takes bytes as they came. Messages are to be fetched before more are pushed.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether something is left that no message was made of.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// The stream cannot be made sense of from here on.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let Some((head, rest)) = self.buffer.split_first_chunk() else {
            return Ok(None);
        };
        let most = self.most;
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > most {
            return Err(Error::TooLong { length, most });
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        let (message, behind) = postcard::take_from_bytes(body).map_err(|_| Error::Malformed)?;
        if !behind.is_empty() {
            return Err(Error::Malformed);
        }
        self.buffer.drain(..HEAD + length);
        Ok(Some(message))
    }
}
