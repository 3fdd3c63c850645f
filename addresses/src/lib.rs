//! What an address is one of.
//!
//! Three kinds of addresses look alike and must not be taken for each other. A [`ProcessAddress`]
//! says where something lies while it runs. An [`ImageAddress`] says where it lies in a file,
//! whatever process runs it. A [`ReturnAddress`] lies behind a call, and what lies there may belong
//! to another function. A [`Bias`] leads from the first to the second and back.
//!
//! The types stand where two kinds meet. Within arithmetic of one kind, such as that of ELF files
//! and of registers, words stay `u64`.
//!
//! A return address is no place to look something up at:
//!
//! ```compile_fail,E0308
//! # use addresses::{ProcessAddress, ReturnAddress};
//! # fn function_at(address: ProcessAddress) {}
//! function_at(ReturnAddress::of_word(0x1005));
//! ```
//!
//! The call before it is one:
//!
//! ```
//! # use addresses::{ProcessAddress, ReturnAddress};
//! # fn function_at(address: ProcessAddress) {}
//! function_at(ReturnAddress::of_word(0x1005).within_call());
//! ```
//!
//! The crate knows no operating system. Each type is a word, also to serde.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An address of a process as it runs, or of the kernel in this boot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct ProcessAddress(pub u64);

/// An address in an image: an ELF virtual address; of the kernel, relative to `_text`. Memory
/// without a file is an image of its own, whose addresses are those of the process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct ImageAddress(pub u64);

/// Where a call returns to, in a process: the address behind the call instruction. It is nothing to
/// look up; see [`ReturnAddress::within_call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct ReturnAddress(u64);

/// How far an image lies in a process from where its addresses say: what a process address has more
/// than the image's, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bias(pub u64);

/// Addresses of a process: from `start` up to `end`, which is not one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessRange {
    /// The first address.
    pub start: ProcessAddress,
    /// The address behind the last.
    pub end: ProcessAddress,
}

impl ProcessRange {
    /// Between two words that are known to be addresses of a process.
    pub const fn of_words(start: u64, end: u64) -> Self {
        Self {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
        }
    }

    /// Whether an address is one of these.
    #[inline]
    pub const fn contains(self, address: ProcessAddress) -> bool {
        self.start.0 <= address.0 && address.0 < self.end.0
    }

    /// Whether all of `other` lies within.
    pub const fn covers(self, other: Self) -> bool {
        self.start.0 <= other.start.0 && other.end.0 <= self.end.0
    }

    /// The addresses that are in both.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        }
    }

    /// The addresses of both, and those that lie between them.
    #[must_use]
    pub fn around(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Whether there is no address in it.
    pub const fn is_empty(self) -> bool {
        self.start.0 >= self.end.0
    }

    /// How many addresses there are.
    pub const fn bytes(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }
}

impl ProcessAddress {
    /// So many bytes on, modulo 2^64.
    #[must_use]
    pub const fn wrapping_add(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl ReturnAddress {
    /// A word that a call pushed, or that a return is to take.
    pub const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// The word, as it lies on the stack.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The last byte of the call instruction: what is to be looked up. A call that never returns
    /// may be the last instruction of its function, and behind it lies another one.
    #[must_use]
    pub const fn within_call(self) -> ProcessAddress {
        ProcessAddress(self.0.wrapping_sub(1))
    }

    /// Where the thread goes on, which is for execution to arrive at and not for look-ups.
    pub const fn landing(self) -> ProcessAddress {
        ProcessAddress(self.0)
    }
}

impl Bias {
    /// That of memory without a file, whose image has the addresses of the process.
    pub const NONE: Self = Self(0);

    /// The bias of what lies at both addresses.
    pub const fn between(process: ProcessAddress, image: ImageAddress) -> Self {
        Self(process.0.wrapping_sub(image.0))
    }

    /// Where an address of the process lies in the image.
    #[inline]
    pub const fn in_image(self, address: ProcessAddress) -> ImageAddress {
        ImageAddress(address.0.wrapping_sub(self.0))
    }

    /// Where an address of the image lies in the process.
    #[inline]
    pub const fn in_process(self, address: ImageAddress) -> ProcessAddress {
        ProcessAddress(address.0.wrapping_add(self.0))
    }
}

impl fmt::LowerHex for ProcessAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::LowerHex for ImageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bias leads there and back, also where the image's addresses are the higher ones.
    #[test]
    fn there_and_back() {
        for (process, image) in [(0x7f00_0000_1000, 0x1000), (0x1000, 0xffff_ffff_8100_0000)] {
            let (process, image) = (ProcessAddress(process), ImageAddress(image));
            let bias = Bias::between(process, image);
            assert_eq!(bias.in_image(process), image);
            assert_eq!(bias.in_process(image), process);
        }
    }

    /// The end of a range is not in it. A range that ends before it starts has no address.
    #[test]
    fn ranges() {
        let range = ProcessRange::of_words(0x1000, 0x3000);
        let has = |word| range.contains(ProcessAddress(word));
        assert!(!has(0xfff) && has(0x1000) && has(0x2fff) && !has(0x3000));
        assert_eq!(range.bytes(), 0x2000);
        let other = ProcessRange::of_words(0x2000, 0x4000);
        assert_eq!(range.within(other), ProcessRange::of_words(0x2000, 0x3000));
        assert_eq!(range.around(other), ProcessRange::of_words(0x1000, 0x4000));
        assert!(range.covers(range.within(other)) && !range.covers(other));
        let apart = range.within(ProcessRange::of_words(0x5000, 0x6000));
        assert!(apart.is_empty() && apart.bytes() == 0 && !apart.contains(apart.start));
    }

    /// What is looked up of a return address lies within the call, at the edge of addresses too.
    #[test]
    fn within_calls() {
        let of = |word| ReturnAddress::of_word(word).within_call();
        assert_eq!(of(0x1005), ProcessAddress(0x1004));
        assert_eq!(of(0), ProcessAddress(u64::MAX));
    }
}
