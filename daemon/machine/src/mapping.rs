//! One mapping of a process: what lies there, and whether it can have been written.

mod source;

use addresses::{Bias, ImageAddress, ProcessAddress, ProcessRange};

use crate::elf::Segment;
use crate::place::ImageId;

pub(crate) use self::source::is_heap;
pub use self::source::{is_data, rights};

const PAGE: u64 = 4096;

/// One mapping of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where it lies.
    pub(crate) range: ProcessRange,
    /// Where in the file it begins.
    pub(crate) file_offset: u64,
    /// What is mapped.
    pub image: ImageId,
    pub(crate) executable: bool,
    /// Private, not writable now, and at no time since these file pages were mapped here.
    pub(crate) never_writable: bool,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whoever else has it mapped sees what is written, in this process, too.
    pub(crate) shared: bool,
    /// Of a file that may be a device.
    pub special: bool,
    /// The kernel writes it while the program runs.
    pub(crate) kernel_writes: bool,
    kind: MappingKind,
    area: Area,
}

/// What the kernel uses memory without a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The heap that `brk` moves the end of.
    Heap,
    /// The stack of the first thread.
    Stack,
    /// Nothing that it tells.
    Other,
}

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappingKind {
    File,
    Vdso,
    Anon,
}

impl Mapping {
    /// Where the kernel's image lies: the upper half of all addresses, with `text` as its address
    /// zero.
    pub(crate) fn of_kernel(image: ImageId, text: ProcessAddress) -> Self {
        let range = ProcessRange::of_words(1 << 63, u64::MAX);
        Self {
            range,
            file_offset: range.start.0.wrapping_sub(text.0),
            image,
            executable: true,
            never_writable: false,
            readable: true,
            writable: true,
            shared: false,
            special: false,
            kernel_writes: true,
            kind: MappingKind::File,
            area: Area::Other,
        }
    }

    /// How the image lies in the process, by this mapping; `None` if it shows no segment of the
    /// image.
    pub(crate) fn bias(&self, segments: &[Segment]) -> Option<Bias> {
        if self.kind == MappingKind::Anon {
            return None;
        }
        // Segments may share a page of the file; then the access rights tell which is meant.
        let covers = |s: &&Segment| {
            let first = s.offset & !(PAGE - 1);
            let end = s.offset.saturating_add(s.file_size);
            self.file_offset >= first && self.file_offset < end
        };
        let segment = segments
            .iter()
            .filter(covers)
            .find(|s| s.executable == self.executable && s.writable == self.writable)
            .or_else(|| segments.iter().find(covers))?;
        // In the file as in the image, the mapping begins so far from where the segment does.
        let from_segment = self.file_offset.wrapping_sub(segment.offset);
        let start = segment.address.wrapping_add(from_segment);
        Some(Bias::between(self.range.start, ImageAddress(start)))
    }

    /// This mapping as one of code that was made at run time, of that image.
    pub(crate) fn generated(self, image: ImageId) -> Self {
        Self {
            image,
            file_offset: 0,
            kind: MappingKind::Anon,
            area: Area::Other,
            never_writable: false,
            ..self
        }
    }

    /// Where in the file lies what is mapped at an address. It counts on beside the mapping, too.
    pub(crate) fn file_offset_at(&self, address: ProcessAddress) -> u64 {
        let from_start = address.0.wrapping_sub(self.range.start.0);
        self.file_offset.wrapping_add(from_start)
    }

    /// The part that ends there.
    pub(crate) fn before(self, end: ProcessAddress) -> Self {
        let range = ProcessRange { end, ..self.range };
        Self { range, ..self }
    }

    /// The part that begins there.
    pub(crate) fn behind(self, start: ProcessAddress) -> Self {
        Self {
            range: ProcessRange {
                start,
                ..self.range
            },
            file_offset: self.file_offset_at(start),
            ..self
        }
    }

    /// The part of memory without a file that lies between these addresses.
    pub(crate) fn part(self, range: ProcessRange) -> Self {
        let range = self.range.within(range);
        Self { range, ..self }
    }

    /// This mapping as one of a file's pages that were moved to other memory, where `before` lay.
    pub(crate) fn moved(self, before: &Self) -> Self {
        Self {
            image: before.image,
            file_offset: before.file_offset_at(self.range.start),
            kind: MappingKind::File,
            area: Area::Other,
            never_writable: false,
            ..self
        }
    }

    /// Whether it may be written now.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether it shows a program's file.
    pub(crate) fn is_file(&self) -> bool {
        self.kind == MappingKind::File
    }

    /// Whether this is memory without a file.
    pub(crate) fn is_anon(&self) -> bool {
        self.kind == MappingKind::Anon
    }

    /// What the kernel uses it for.
    pub(crate) fn area(&self) -> Area {
        self.area
    }

    /// Whether this is memory that nobody may access: what lies below a stack.
    pub(crate) fn is_guard(&self) -> bool {
        self.is_anon() && !self.readable && !self.writable && !self.executable
    }

    /// Whether somebody else may write it although one thread alone uses the address space: another
    /// process, or the kernel.
    pub(crate) fn is_exposed(&self) -> bool {
        self.shared || self.kernel_writes
    }

    /// Whether `self`, mapped over `old`, shows the same file pages at the same place: then only
    /// the rights change.
    pub(crate) fn has_same_pages(&self, old: &Self) -> bool {
        old.image == self.image
            && old.kind == self.kind
            && old.file_offset_at(self.range.start) == self.file_offset
    }

    /// Whether this is data without a file, with these rights.
    pub(crate) fn is_data(&self, rights: Rights) -> bool {
        let own = (self.readable, self.writable);
        self.is_anon() && !self.executable && !self.special && own == rights
    }
}

/// Whether data can be read, and written.
pub(crate) type Rights = (bool, bool);

/// A mapping, and how its image lies there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) mapping: Mapping,
    pub(crate) bias: Bias,
}

impl Spot {
    pub(crate) fn has(&self, address: ProcessAddress) -> bool {
        self.mapping.range.contains(address)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const IMAGE: ImageId = ImageId(0);

    pub(crate) fn mapping(start: u64, end: u64, file_offset: u64, writable: bool) -> Mapping {
        Mapping {
            range: ProcessRange::of_words(start, end),
            file_offset,
            image: IMAGE,
            executable: false,
            never_writable: !writable,
            readable: true,
            writable,
            shared: false,
            special: false,
            kernel_writes: false,
            kind: MappingKind::File,
            area: Area::Other,
        }
    }

    /// The load bias is right where ELF addresses and file offsets differ.
    #[test]
    fn bias_of_a_segment() {
        let segments = [
            Segment {
                address: 0,
                offset: 0,
                file_size: 0x1500,
                memory_size: 0x1500,
                writable: false,
                executable: false,
            },
            Segment {
                address: 0x2500,
                offset: 0x1500,
                file_size: 0x800,
                memory_size: 0x900,
                writable: false,
                executable: true,
            },
        ];
        let mut text = mapping(0x7000_2000, 0x7000_3000, 0x1000, false);
        text.executable = true;
        assert_eq!(text.bias(&segments), Some(Bias(0x7000_0000)));
        let headers = mapping(0x7000_0000, 0x7000_2000, 0, false);
        assert_eq!(headers.bias(&segments), Some(Bias(0x7000_0000)));
    }
}
