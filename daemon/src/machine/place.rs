//! Where an instruction lies, whatever process runs it.

use crate::machine::images::ImageId;

/// An instruction: image and ELF virtual address (process address for anonymous memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pc {
    pub(crate) image: ImageId,
    pub(crate) address: u64,
}
