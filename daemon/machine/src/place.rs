//! Where an instruction lies, whatever process runs it.

use crate::images::ImageId;

/// An instruction: image and ELF virtual address (process address for anonymous memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pc {
    /// The image.
    pub image: ImageId,
    /// The address in it.
    pub address: u64,
}
