//! What the service `vcpid serve` and its readers say to each other over its socket.
//!
//! Responsible for the messages, their form on the wire, and the reader's side of a
//! conversation ([`Client`]). It decides nothing: what a reader may see and how much of it
//! is the service's business, and what the messages mean for a database that of others.
//!
//! # On the wire
//! Both sides send *frames* over a stream socket: the length of the body as a 32-bit
//! little-endian number, then the body, which is one message in the
//! [postcard](https://postcard.jamesmunns.com/wire-format) format. A body is at most
//! [`MAX_REQUEST`] bytes long towards the service and [`MAX_REPLY`] towards the reader;
//! whoever announces more is hung up on before a byte of it is kept. A body with anything
//! behind its message is no message.
//!
//! # A conversation
//! ```text
//! reader                          service
//! Hello { magic, version }
//! Request::View(selection)
//!                                 Reply::View { bytes, notes }
//!                                 Reply::Chunk(...)              as many as it takes
//!                                 Reply::End { digest }
//! ```
//! or, for [`Request::Control`], one [`Reply::Control`]. In place of any of these replies
//! [`Reply::Refused`] may come, which is the last one. The reader need not wait between its
//! two messages. One connection serves one request; what follows it is refused.
//!
//! The service knows who asks from the kernel (`SO_PEERCRED`, `SO_PEERGROUPS`, both as of the
//! moment of the connection): nothing in a message can claim to be somebody.
//!
//! # Versions
//! [`Hello`] and [`Reply::Refused`] are the same in all versions. A service that does not
//! know the reader's version refuses with [`Refusal::Version`] and says which one it has.
//! Variants and fields of the other messages change only together with [`VERSION`].

mod client;
mod codec;
mod messages;

pub use client::{Client, ClientError, Notice, Received};
pub use codec::{Decoder, Error, encode};
pub use messages::{Answer, Control, Digest, Hello, MAGIC, Refusal, Reply, Request, VERSION};
pub use selection::{Kinds, Range, Selection};

/// The longest body of a frame to the service, in bytes.
pub const MAX_REQUEST: usize = 64 << 10;

/// The longest body of a frame to a reader, in bytes.
pub const MAX_REPLY: usize = 1 << 20;

/// The most bytes of a view in one [`Reply::Chunk`].
pub const MAX_CHUNK: usize = 64 << 10;

/// Where the service listens unless its configuration names another place.
pub const DEFAULT_SOCKET: &str = "/run/vcpi/vcpid.sock";
