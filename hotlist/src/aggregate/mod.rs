//! Aggregating functions: summaries f with f(f(a) ∪ f(b)) = f(a ∪ b).
//!
//! What such a function keeps of a set of values is enough to go on with, so every CPU can
//! summarise its own values and the summaries are summarised again when somebody looks. An
//! [`AggregateFunction`] says how its [data](AggregateFunction) is laid out in words; a [`Buffer`]
//! holds the data of many keys for one writer in memory of a fixed size; [`pair`] lets a reader
//! take what has come together while the writer goes on; a [`Table`] adds up what was taken from
//! all of them, and prints it. [`Projection`] makes the number that is summarised out of the words
//! that were seen.

mod buckets;
mod buffer;
mod function;
mod print;
mod projection;
mod table;
mod turns;

pub use buckets::{Linear, LogLinear};
pub use buffer::{Buffer, Snapshot};
pub use function::AggregateFunction;
pub use projection::Projection;
pub use table::{Aggregation, Table};
pub use turns::{Reader, Writer, pair};
