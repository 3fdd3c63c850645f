//! How large and how small what a caller hands in may be. Settings and values keep to it, and
//! errors say it.

/// The largest N of a list.
pub(crate) const MAX_CAPACITY: usize = 255;
/// The largest MaxEnd of a list.
pub(crate) const MAX_END: u32 = 255;
/// The least f of a list.
pub(crate) const MIN_FACTOR: f64 = 1.001;
/// The largest f of a list.
pub(crate) const MAX_FACTOR: f64 = 1e6;
/// The most words that a tuple of correlated values has.
pub(crate) const MAX_TUPLE: usize = 8;
