//! Names of connections.

/// Names a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token(pub(super) u64);
