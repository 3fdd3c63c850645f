//! Which images are known, by what tells them apart, and which numbers are free.
//!
//! Compilers and linkers map thousands of files a minute that have no code which they run. Nothing
//! is known of such an image but its path, so its number is another's once nobody has it mapped.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::{FileState, Identity, Image, ImageId, Images};
use crate::system::memory::of_vec;

/// Images that are many, and bytes of their paths: 12 MB in all. Twice as many are told apart.
const MANY: usize = 1 << 15;
const MANY_PATH_BYTES: usize = 4 << 20;
/// So many are new before it is looked again whose numbers are free.
const BETWEEN_LOOKS: usize = MANY / 8;

/// The numbers of images.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By identity and path.
    numbers: HashTable<ImageId>,
    free: Vec<ImageId>,
    /// Bytes of their paths.
    path_bytes: usize,
    /// Those that were new since the last look for free numbers.
    new: usize,
}

impl Known {
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.numbers.allocation_size();
        numbers + of_vec(&self.free) + self.path_bytes
    }

    fn exceed(&self, times: usize) -> bool {
        self.numbers.len() >= times * MANY || self.path_bytes >= times * MANY_PATH_BYTES
    }
}

fn hash(identity: &Identity, path: &str) -> u64 {
    FxBuildHasher.hash_one((identity, path))
}

impl Images {
    /// Whether so many are known that their number begins to matter.
    pub fn are_many(&self) -> bool {
        self.known.exceed(1)
    }

    /// Whether no more are told apart than are known.
    pub(super) fn are_too_many(&self) -> bool {
        self.known.exceed(2)
    }

    /// Whether there are too many unless numbers [are given back](Self::give_back), and some may
    /// be.
    pub(crate) fn need_numbers(&self) -> bool {
        self.known.new >= BETWEEN_LOOKS && self.are_too_many()
    }

    /// The image with this identity and path, if it is known.
    pub(super) fn known(&self, identity: &Identity, path: &str) -> Option<ImageId> {
        let is_it = |id: &ImageId| {
            let image = self.get(*id);
            image.is_some_and(|image| image.identity == *identity && image.path == path)
        };
        let found = self.known.numbers.find(hash(identity, path), is_it);
        found.copied()
    }

    /// A new image that is not known yet.
    pub(super) fn enter(&mut self, image: Image) -> ImageId {
        self.known.new += 1;
        self.known.path_bytes += image.path.len();
        let hashed = hash(&image.identity, &image.path);
        let id = match self.known.free.pop() {
            Some(id) => id,
            None => ImageId(u32::try_from(self.images.len()).unwrap_or(u32::MAX)),
        };
        match self.images.get_mut(id.0 as usize) {
            Some(free) => *free = image,
            None => self.images.push(image),
        }
        let images = &self.images;
        let again = |id: &ImageId| {
            let image = images.get(id.0 as usize);
            image.map_or(0, |image| hash(&image.identity, &image.path))
        };
        self.known.numbers.insert_unique(hashed, id, again);
        id
    }

    /// Never gives the number of an image to another.
    pub(crate) fn stays(&mut self, id: ImageId) {
        if let Some(image) = self.images.get_mut(id.0 as usize) {
            image.stays = true;
        }
    }

    /// Gives back the numbers of images without code that nobody has mapped, as `mapped` says by
    /// their number.
    pub(crate) fn give_back(&mut self, mapped: &[bool]) {
        self.known.new = 0;
        for (number, image) in (0_u32..).zip(&mut self.images) {
            let is_mapped = mapped.get(number as usize).is_some_and(|mapped| *mapped);
            // What was opened is closed first, with all that was read of it.
            let is_open = matches!(image.state, FileState::Open(_)) || image.kept.is_some();
            // Whether a file was written is not forgotten.
            if is_mapped || image.stays || is_open || image.written {
                continue;
            }
            let hashed = hash(&image.identity, &image.path);
            let is_it = |id: &ImageId| id.0 == number;
            // One that was given back before is not there.
            if let Ok(known) = self.known.numbers.find_entry(hashed, is_it) {
                known.remove();
                self.known.path_bytes -= image.path.len();
                image.path = String::new();
                self.known.free.push(ImageId(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use addresses::ProcessAddress;
    use sampler::{Mmap, MmapIdentity, Pid, Tid};

    use super::*;
    use crate::address_space::AddressSpace;
    use crate::loadmap::Loadmap;

    fn content(number: usize) -> Identity {
        Identity::Content(number.to_string())
    }

    /// The number of data that nobody has mapped is given to another image; those of code, of what
    /// is mapped, and of what may have been written are not.
    #[test]
    fn numbers_of_data() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let mut map = |number, is_code| images.intern_mapped(content(number), "/x", is_code);
        let [code, data, mapped, written] = [(0, true), (1, false), (2, false), (3, false)]
            .map(|(number, is_code)| map(number, is_code));
        // What was mapped as data first, and as code later, is code.
        let both = map(4, false);
        assert_eq!(map(4, true), both);
        images.note_written(content(3));
        images.give_back(&[false, false, true]);
        images.give_back(&[false, false, true]);
        let known: Vec<_> = (0..5).map(|n| images.known(&content(n), "/x")).collect();
        let all = [Some(code), None, Some(mapped), Some(written), Some(both)];
        assert_eq!((known.as_slice(), images.known.free.len()), (&all[..], 1));
        assert_eq!(images.intern_mapped(content(5), "/y", false), data);
        assert_eq!(images.path(data), "/y");
        let another = images.intern_mapped(content(1), "/x", false);
        assert!(![code, data, mapped, written, both].contains(&another));
    }

    /// What was taken for code keeps its number, though no record said that it may be executed.
    #[test]
    fn numbers_of_code() {
        let (mut loadmap, pid) = (Loadmap::new(1 << 20), Pid(4_000_001));
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        loadmap.comm(pid, true, "p", true, 1);
        for (inode, address) in [(1, 0x1000), (2, 0x5000)] {
            let mmap = Mmap {
                time: 2,
                pid,
                tid: Tid(pid.0),
                address,
                len: 0x1000,
                offset: 0,
                identity: MmapIdentity::Inode {
                    major: 0,
                    minor: 0,
                    inode,
                    generation: 0,
                },
                prot: 1,
                flags: 2,
                path: Path::new("/x").into(),
            };
            loadmap.mmap(&mmap, &mut images);
        }
        let (process, host) = loadmap.get_and_host(pid).expect("a process");
        let space = AddressSpace::of(process, host, &mut images, 3);
        let pc = space.place(ProcessAddress(0x1000)).expect("a place");
        images.give_back(&loadmap.mapped_images());
        assert_eq!(images.known.numbers.len(), 2);
        images.give_back(&[]);
        assert_eq!(images.known.numbers.len(), 1);
        assert_eq!(images.path(pc.image), "/x");
    }

    /// However many files are mapped one after the other, they are told apart.
    #[test]
    fn many_files_in_turn() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        for number in 0..10 * MANY {
            if images.need_numbers() {
                images.give_back(&[]);
            }
            images.intern_mapped(content(number), "/x", false);
        }
        assert_eq!(images.not_kept, 0);
        assert!(images.images.len() <= 2 * MANY + BETWEEN_LOOKS);
        images.give_back(&[]);
        assert!(!images.are_many() && images.known.path_bytes == 0);
    }

    /// Those that cannot be given back are not told apart beyond a number.
    #[test]
    fn too_many() {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let mut last = ImageId(0);
        for number in 0..2 * MANY + 10 {
            last = images.intern_mapped(content(number), "/x", true);
        }
        assert!(images.are_many() && images.is_denied(last));
        assert_eq!((images.not_kept, images.images.len()), (10, 2 * MANY + 1));
        images.give_back(&[]);
        assert_eq!(images.known(&content(0), "/x"), Some(ImageId(0)));
    }
}
