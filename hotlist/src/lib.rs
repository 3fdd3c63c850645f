//! Hotlists: which values are frequent in a stream too long to keep.

mod coins;
mod config;
mod error;
mod interval;
mod list;
mod merge;
mod parts;
mod store;
mod words;

pub use coins::{Coins, Generator, Scripted};
pub use config::{Config, Method};
pub use error::Error;
pub use interval::interval;
pub use list::{Hotlist, Tuple};
pub use parts::{Parts, PartsTuple};
pub use words::{MAX_WORDS, Words};
