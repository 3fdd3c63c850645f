//! ELF files as the collector and the reports read them.
//!
//! This crate answers: which function is around an address ([`Functions`], [`around`]), where a
//! distribution keeps a program's symbols ([`debug_file`]), which functions an image offers to
//! others ([`Exports`]), and which file a file without a build id is ([`content_id`]). It knows
//! neither processes nor databases.
//!
//! Files are hostile until shown otherwise. [`Binary`] reads the pieces that are asked for and
//! never maps a file, so that a file which its owner cuts short ends nothing; all pieces together
//! find room or are not read.

#[cfg(test)]
mod assembly;

mod around;
mod binary;
mod content;
mod debug;
mod exports;
mod frames;
mod functions;
mod headers;
mod labels;
mod named;
mod pieces;
mod scan;
mod table;

pub use around::{Around, around};
pub use binary::{Apart, Binary};
pub use content::content_id;
pub use debug::{debug_file, debug_file_of, debug_places, supplement};
pub use exports::{Exports, Offered};
pub use functions::{Function, Functions};
pub use headers::{AnyHeaders, Error, Headers, Segment};
pub use named::{Named, named};
pub use pieces::{Pieces, Room};
