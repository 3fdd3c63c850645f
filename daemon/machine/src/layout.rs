//! What lies where in a process, so that readers of its values can tell pointers: the heap, stacks,
//! other memory, images.
//!
//! The kernel's records tell of what was mapped, not of what was unmapped since. So an address is
//! told by what was mapped there last.

use addresses::{ImageAddress, ProcessAddress, ProcessRange};
use sampler::Pid;

use crate::images::{ImageId, Images};
use crate::mapping::{Area, Mapping};
use crate::maps::Maps;

/// What lies somewhere in a process.
pub type Region = profiledb::Region<ImageId>;

/// The first thread's stack grows so far, unless the limit was changed: nothing else is mapped
/// there. Records tell of it as small as it is when a program begins.
const STACK: u64 = 8 << 20;
/// Mappings below one of memory without a file that are looked at for the image whose last segment
/// that may be.
const BELOW: usize = 4;
/// Threads of a process whose stacks are told.
const MOST_STACKS: usize = 256;
const PAGE: u64 = 4096;

/// The mappings of a process.
#[derive(Debug)]
pub struct Layout {
    pid: Pid,
    /// In the order of their addresses.
    mappings: Box<[Mapping]>,
    /// Addresses on stacks.
    stacks: Box<[ProcessAddress]>,
}

/// Addresses on the stacks of a process's threads, beside the first one's.
#[derive(Debug, Default)]
pub struct Stacks {
    seen: Vec<ProcessAddress>,
    /// The mapping that the last one was in.
    last: ProcessRange,
}

impl Stacks {
    /// Takes note of a sample's stack pointer in a mapping.
    pub fn note(
        &mut self,
        pointer: ProcessAddress,
        find: impl FnOnce(ProcessAddress) -> Option<Mapping>,
    ) {
        if self.last.contains(pointer) {
            return;
        }
        let Some(mapping) = find(pointer) else { return };
        self.last = mapping.range;
        let is_known = |seen: &ProcessAddress| mapping.range.contains(*seen);
        let may_be_new = mapping.is_anon() && mapping.area() == Area::Other;
        if may_be_new && self.seen.len() < MOST_STACKS && !self.seen.iter().any(is_known) {
            self.seen.push(pointer);
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<ProcessAddress>()
    }
}

impl Layout {
    /// What a process has mapped now.
    pub(crate) fn of(pid: Pid, maps: &Maps, stacks: &Stacks) -> Self {
        Self {
            pid,
            mappings: maps.mappings().copied().collect(),
            stacks: stacks.seen.as_slice().into(),
        }
    }

    /// How many mappings it has.
    pub(crate) fn len(&self) -> usize {
        self.mappings.len()
    }

    /// The images that it has mapped.
    pub(crate) fn images(&self) -> impl Iterator<Item = ImageId> {
        self.mappings.iter().map(|mapping| mapping.image)
    }

    /// What lies around an address, if that is known.
    pub fn region(&self, address: ProcessAddress, images: &mut Images) -> Option<Region> {
        use profiledb::Mapped;
        let behind = self
            .mappings
            .partition_point(|at| at.range.start <= address);
        let below = self.mappings.get(..behind)?;
        let here = below.last().filter(|mapping| address < mapping.range.end);
        let Some(mapping) = here else {
            // A stack grows without a record.
            let stack = self.mappings.get(behind)?;
            let range = stack_above(below.last(), stack);
            let is_in = stack.area() == Area::Stack && address >= range.start;
            return is_in.then(|| region(range, Mapped::Stack));
        };
        let below = below.get(..below.len() - 1)?;
        let all = |what| region(mapping.range, what);
        if !mapping.is_anon() {
            return self.image(mapping, images);
        }
        match mapping.area() {
            _ if mapping.executable || mapping.special || mapping.is_guard() => None,
            Area::Stack => Some(region(stack_above(below.last(), mapping), Mapped::Stack)),
            Area::Heap => Some(all(Mapped::Heap)),
            Area::Other => {
                let mut near = below.iter().rev().take(BELOW);
                let image = near.find(|mapping| !mapping.is_anon());
                let image = image.and_then(|image| self.image(image, images));
                if let Some(image) = image.filter(|image| address.0 < image.end) {
                    return Some(image);
                }
                let guarded = below.last().is_some_and(|guard| {
                    guard.range.end == mapping.range.start && guard.is_guard()
                });
                let has = |stack: &ProcessAddress| mapping.range.contains(*stack);
                match guarded && self.stacks.iter().any(has) {
                    true => Some(all(Mapped::Stack)),
                    false => Some(all(Mapped::Anon)),
                }
            }
        }
    }

    /// All of the image that a mapping is of, with what lies behind the end of its file.
    fn image(&self, mapping: &Mapping, images: &mut Images) -> Option<Region> {
        if mapping.special {
            return None;
        }
        let through = Some((self.pid, mapping.range));
        let elf = images.elf(mapping.image, through)?;
        // A page of data may be of two segments by its place in the file. Code is of one.
        let of_image = |at: &&Mapping| at.executable && at.image == mapping.image;
        let code = self.mappings.iter().filter(of_image);
        let code = code.min_by_key(|code| code.range.start.0.abs_diff(mapping.range.start.0))?;
        let bias = code.bias(&elf.segments)?;
        let segments = elf.segments.iter();
        let first = segments.clone().map(|segment| segment.address).min()?;
        let last = segments
            .map(|segment| segment.address.saturating_add(segment.memory_size))
            .max()?;
        let address = first & !(PAGE - 1);
        let end = last.checked_next_multiple_of(PAGE)?;
        let range = ProcessRange {
            start: bias.in_process(ImageAddress(address)),
            end: bias.in_process(ImageAddress(end)),
        };
        let image = mapping.image;
        let what = profiledb::Mapped::Image { image, address };
        let is_in = range.contains(mapping.range.start);
        is_in.then(|| region(range, what))
    }
}

/// The stack that a mapping is the upper end of, as far as it can grow, down to what lies below.
fn stack_above(below: Option<&Mapping>, mapping: &Mapping) -> ProcessRange {
    let lowest = below.map_or(ProcessAddress(0), |below| below.range.end);
    let grown = ProcessAddress(mapping.range.end.0.saturating_sub(STACK)).max(lowest);
    ProcessRange {
        start: grown.min(mapping.range.start),
        end: mapping.range.end,
    }
}

/// What lies between these addresses, as the database has it.
fn region(range: ProcessRange, what: profiledb::Mapped<ImageId>) -> Region {
    Region {
        start: range.start.0,
        end: range.end.0,
        what,
    }
}

#[cfg(test)]
mod tests {
    use profiledb::Mapped;

    use super::*;
    use crate::system::procfs::{MapsLine, parse_maps};

    const MAPS: &str = "\
55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000800000-7f0000801000 ---p 00000000 00:00 0
7f0000801000-7f0001000000 rw-p 00000000 00:00 0
7f0001000000-7f0001001000 r-xp 00000000 00:00 0
7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0
7ffd00200000-7ffd00221000 rw-p 00000000 00:00 0 [stack]
";

    fn layout(stacks: &[ProcessAddress], images: &mut Images) -> Layout {
        let lines: Vec<MapsLine> = parse_maps(MAPS);
        let mapping = |line: &MapsLine| images.mapping_of_line(None, line);
        Layout {
            pid: Pid(4_000_001),
            mappings: lines.iter().map(mapping).collect(),
            stacks: stacks.into(),
        }
    }

    /// The heap, stacks and other memory are told apart. A thread's stack lies above a guard; the
    /// first one's grows down to what lies below. Nobody points to code or to a guard.
    #[test]
    fn memory() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let layout = layout(&[ProcessAddress(0x7f00_00ff_0000)], &mut images);
        let mut at = |address| {
            let region = layout.region(ProcessAddress(address), &mut images)?;
            Some((region.start, region.end, region.what))
        };
        let heap = (0x55d0_c000_0000, 0x55d0_c002_1000, Mapped::Heap);
        assert_eq!(at(0x55d0_c000_0010), Some(heap));
        assert_eq!(at(0x55d0_c002_1000), None);
        let anon = (0x7f00_0000_0000, 0x7f00_0040_0000, Mapped::Anon);
        assert_eq!(at(0x7f00_0000_0000), Some(anon));
        assert_eq!((at(0x7f00_0080_0008), at(0x7f00_0100_0008)), (None, None));
        let of_thread = (0x7f00_0080_1000, 0x7f00_0100_0000, Mapped::Stack);
        assert_eq!(at(0x7f00_0080_1000), Some(of_thread));
        let first = (0x7ffd_0000_1000, 0x7ffd_0022_1000, Mapped::Stack);
        assert_eq!(at(0x7ffd_0021_0000), Some(first));
        assert_eq!(at(0x7ffd_0010_0000), Some(first));
        assert_eq!(at(0x7ffd_0022_1000), None);
    }

    /// Memory above a guard is no stack unless some thread's stack pointer was there.
    #[test]
    fn memory_above_a_guard() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let layout = layout(&[], &mut images);
        let region = layout.region(ProcessAddress(0x7f00_0080_1000), &mut images);
        assert_eq!(region.map(|region| region.what), Some(Mapped::Anon));
    }

    /// An image is told with its data behind the end of the file, by the image's own addresses.
    #[test]
    fn images() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let own = Pid(std::process::id());
        let lines = crate::system::procfs::maps(own).expect("maps of this process");
        let mapping = |line: &MapsLine| images.mapping_of_line(Some(own), line);
        let layout = Layout {
            pid: own,
            mappings: lines.iter().map(mapping).collect(),
            stacks: Box::new([]),
        };
        static ZERO: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let data = &raw const ZERO as u64;
        let code = stack_above as *const () as u64;
        let mut of = |address| layout.region(ProcessAddress(address), &mut images);
        let (Some(of_data), Some(of_code)) = (of(data), of(code)) else {
            panic!("this program is not told");
        };
        assert_eq!(of_data, of_code);
        let Mapped::Image { image, .. } = of_data.what else {
            panic!("{of_data:?}");
        };
        let known = images.row(image).expect("an image");
        let path = std::env::current_exe().expect("a path");
        assert_eq!(std::path::Path::new(&known.path), path);
        assert!(matches!(known.kind, profiledb::ImageKind::File));
    }
}
