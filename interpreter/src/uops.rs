//! Micro-operations: code translated for the handler of the interrupt, which follows with them the
//! thread's own way from the sample on, and reads the memory that it is going to load.
//!
//! A [`Translator`] writes for each instruction what it does to the general registers, to memory and
//! to the flags, as far as that decides which memory is read and where the way leads. What does not,
//! or is rare, is left out: its results are unknown to the handler. What the handler works out is
//! advice, as a [`Plan`](crate::Plan) is: a window computes each address itself, and takes no value
//! but from what was read there. So a translation may be wrong, or of code that has changed since.
//!
//! Translations are of images, not of processes: addresses are relative to the bias, so that all
//! processes of an image share them. [`Uop`] explains the operations.

mod emit;
mod operations;
mod translate;
mod wire;

pub use translate::{Translation, Translator};
pub use wire::Uop;
