//! The messages.

use selection::Selection;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The first bytes of every conversation.
pub const MAGIC: [u8; 4] = *b"vcpi";

/// The version of the messages that this crate describes.
pub const VERSION: u16 = 2;

/// The reader's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// The version that the reader speaks.
    pub version: u16,
}

impl Default for Hello {
    fn default() -> Self {
        Hello {
            magic: MAGIC,
            version: VERSION,
        }
    }
}

/// What a reader wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A database of what the reader may see.
    View(Selection),
    /// Something of the service itself.
    Control(Control),
}

/// Something of the service itself. [`Control::Status`] is for root and the service's
/// group, the others are for root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Control {
    /// How the service is.
    Status,
    /// Write what was collected to the database now.
    Flush,
    /// Begin a new epoch.
    Epoch,
    /// Read the configuration again.
    Reload,
}

/// What the service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// No, or not any more; the last reply.
    Refused {
        /// Why, for programs.
        refusal: Refusal,
        /// Why, for people.
        message: String,
    },
    /// A view has been made and follows.
    View {
        /// The size of the view in bytes.
        bytes: u64,
        /// What could not be read for it, one sentence each.
        notes: Vec<String>,
    },
    /// The next part of the view, at most [`MAX_CHUNK`](crate::MAX_CHUNK) bytes.
    Chunk(ByteBuf),
    /// All of the view has been sent.
    End {
        /// SHA-256 of the view.
        digest: Digest,
    },
    /// The answer to a [`Control`], or why it could not be done.
    Control(Result<Answer, String>),
}

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// The service speaks this version, and not the reader's.
    Version(u16),
    /// What was sent is no request.
    Malformed,
    /// The reader may not ask for this.
    Forbidden,
    /// Too many requests at a time, or in too short a time; later there is room again.
    Busy,
    /// The view would be larger than the service makes them.
    TooLarge,
    /// The request took longer than the service allows.
    TooSlow,
    /// The service failed.
    Failed,
}

/// What a [`Control`] brought, once for people and once for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Lines of text.
    pub text: String,
    /// A JSON object.
    pub json: String,
}
