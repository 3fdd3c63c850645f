//! Hotlists: which values are frequent in a stream that is too long to keep, and how frequent.
//!
//! A [`Hotlist`] holds at most N tuples, each a value with its counts, and stands for any number
//! of events. It is what makes value profiles of a whole machine fit into memory: one list per
//! instruction and parameter, 656 bytes for N = 16 and one-word values.
//!
//! Responsible for: lists ([`Hotlist`]), their estimates with variances ([`Estimates`]), sums over
//! many lists ([`Sum`]), intervals of shares ([`Draws`]), trends ([`Trend`]), and aggregating
//! functions for numbers of which the summary is wanted ([`aggregate`]). Not for machines: this
//! crate knows no file, no clock, and no events but the ones that it is offered.
//!
//! - **Unbiased.** While at most N distinct values have come, all counts are exact. Then the list's
//!   p falls: the probability with which an event of a new value takes a place. Each step keeps the
//!   expected estimate of every value, so sums of lists are right on average.
//! - **Sure.** Each estimate has a variance, and each list knows how its events came together. So
//!   an interval counts neither the events of a window nor the windows of a phase as draws.
//! - **Fast.** An event of a list takes 2 to 12 ns and allocates nothing. Most events of concise
//!   samples are passed over without a look.
//!
//! [`method`] has the method, the proofs, and the figures beside other algorithms.

pub mod aggregate;
mod coins;
mod config;
mod course;
mod error;
mod estimates;
mod evict;
mod interval;
mod limits;
mod list;
mod merge;
pub mod method;
mod pairs;
mod parts;
mod reduce;
mod store;
mod sum;
mod trend;
pub mod unlike;
mod value;
mod words;

pub use coins::{Coins, Generator, Scripted};
pub use config::{Config, Eviction, Method};
pub use course::Course;
pub use error::Error;
pub use estimates::{Estimate, Estimates};
pub use interval::{Draws, interval, weighted_interval};
pub use list::{Hotlist, Tuple};
pub use pairs::Pairs;
pub use parts::{Parts, PartsTuple};
pub use sum::{Sum, Summed};
pub use trend::Trend;
pub use value::{Shape, Value};
pub use words::{MAX_WORDS, Words};
