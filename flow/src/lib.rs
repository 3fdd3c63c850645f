//! How often the code of a function ran, computed from directions of its branches.
//!
//! Interrupts tell where time goes. An instruction that waits for memory has many of them, so they
//! are poor counts of executions. Directions of branches have no such bias. This crate computes
//! counts from directions: it cuts a function into blocks ([`FunctionCode`]), gives each way out of
//! a block its share ([`Evidence`]), and looks for the counts at which every block runs as often as
//! its predecessors lead to it ([`Counts`]).
//!
//! The counts are the stationary distribution of a Markov chain over the blocks ([`Chain`]). What
//! leaves the function comes back at its entry. A small share of each block's flow goes to where
//! interrupts were seen, so that a wrong direction in a long loop cannot take all of the flow.
//!
//! The crate knows bytes and numbers alone: no file, no database, no process. Time and memory are
//! bounded: a function has [`FunctionCode::MOST_BLOCKS`] blocks at most, and the exact solution of
//! a chain that would take too long gives way to an approximate one.

mod chain;
mod code;
mod counts;
mod evidence;
mod solve;

pub use chain::Chain;
pub use code::{BasicBlock, Call, Exit, FunctionCode};
pub use counts::{Counts, Edge, Options, Way};
pub use evidence::Evidence;
