//! Where an instruction lies, whatever process runs it.

use addresses::ImageAddress;

/// Index of an image in [`Images`](crate::images::Images); also the code space of the decode cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(pub u32);

/// An instruction, by its image and its address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pc {
    /// The image.
    pub image: ImageId,
    /// The address in it.
    pub address: ImageAddress,
}
