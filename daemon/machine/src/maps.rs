//! The mappings of one process: what lies where, and what did since the program began.

mod code;
mod exposed;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use addresses::{ProcessAddress, ProcessRange};
use interpreter::BaseWriters;

pub(crate) use self::code::{CodeOfFile, CodeSeen};
use self::exposed::Exposed;
use crate::aliases::Aliases;
use crate::grants::Grants;
use crate::mapping::{Mapping, Rights, Spot};
use crate::place::ImageId;
use crate::system::memory::Room;

/// The mappings of one process, shared by forked processes until one of them changes.
#[derive(Clone, Debug)]
pub struct Maps {
    tree: Arc<Tree>,
    /// What may be mapped twice, or not at all.
    aliases: Aliases,
    /// The code of the last sample: that of the next is mostly there, too.
    spot: Cell<Option<Spot>>,
    /// What samples may access, for as long as nothing changes.
    grants: Grants,
    /// What was found out about the code that was mapped, and what that depends on.
    pub(crate) bases: Cell<Option<(u32, BaseWriters)>>,
    /// The number that code of these mappings is kept under; 0 until it has one.
    pub(crate) epoch: Cell<u64>,
    /// When names of code came that no sample is behind yet, by the samples' clock.
    renames: RefCell<BTreeSet<u64>>,
}

/// Renames that are waited for at most, of those between samples and the last look.
const MAX_RENAMES: usize = 1024;

/// Mappings by their start, which take their part of the room for all.
#[derive(Debug)]
struct Tree {
    mappings: BTreeMap<ProcessAddress, Mapping>,
    room: Room,
    /// Some had no room.
    incomplete: bool,
    /// Where others may write.
    exposed: Exposed,
    /// Something shared was mapped, which may lie elsewhere by now.
    has_shared: bool,
    /// What code was mapped at any time.
    code: CodeSeen,
}

impl Clone for Tree {
    fn clone(&self) -> Self {
        self.room.take(self.mappings.len());
        Self {
            mappings: self.mappings.clone(),
            room: self.room.clone(),
            incomplete: self.incomplete,
            exposed: self.exposed.clone(),
            has_shared: self.has_shared,
            code: self.code.clone(),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.room.leave(self.mappings.len());
    }
}

/// Bytes that a mapping takes: the nodes of a tree are two thirds full on the average.
pub(crate) const MAPPING_BYTES: usize =
    (size_of::<Mapping>() + size_of::<ProcessAddress>()) * 3 / 2;

impl Maps {
    /// No mappings yet, and so much room for them and those of others.
    pub(crate) fn new(room: &Room) -> Self {
        let tree = Tree {
            mappings: BTreeMap::new(),
            room: room.clone(),
            incomplete: false,
            exposed: Exposed::default(),
            has_shared: false,
            code: CodeSeen::default(),
        };
        Self {
            tree: Arc::new(tree),
            aliases: Aliases::default(),
            spot: Cell::new(None),
            grants: Grants::default(),
            bases: Cell::new(None),
            epoch: Cell::new(0),
            renames: RefCell::default(),
        }
    }

    /// Takes note that code has other images from this time on. Samples of before, which are still
    /// to come, have the images of before.
    pub fn note_rename(&self, time: u64) {
        self.epoch.set(0);
        let mut renames = self.renames.borrow_mut();
        renames.insert(time);
        if renames.len() > MAX_RENAMES {
            renames.pop_first();
        }
    }

    /// Whether a sample of this time is the first one behind a rename.
    pub(crate) fn passes_rename(&self, time: u64) -> bool {
        let mut renames = self.renames.borrow_mut();
        let passes = renames.first().is_some_and(|rename| *rename <= time);
        if passes {
            renames.retain(|rename| *rename > time);
        }
        passes
    }

    /// What was [remembered](Self::remember), unless the mappings have changed since.
    pub(crate) fn remembered(&self) -> Option<Spot> {
        self.spot.get()
    }

    /// Keeps one of the mappings with a bias that will not be another one.
    pub(crate) fn remember(&self, spot: Spot) {
        self.spot.set(Some(spot));
    }

    /// The mapping around an address.
    pub fn find(&self, address: ProcessAddress) -> Option<&Mapping> {
        let (_, mapping) = self.tree.mappings.range(..=address).next_back()?;
        (address < mapping.range.end).then_some(mapping)
    }

    /// The mappings of a process that is forked: the kernel has not been asked about it.
    pub(crate) fn forked(&self) -> Self {
        let maps = self.clone();
        maps.grants.forget();
        maps
    }

    /// Enters a mapping; what it covers of older ones is gone. Without room for it, nothing is
    /// known of its addresses any more, and `false` is returned.
    pub(crate) fn insert(&mut self, new: Mapping) -> bool {
        // Much memory is mapped, given back and mapped again.
        if new.range.is_empty() || self.tree.mappings.get(&new.range.start) == Some(&new) {
            return true;
        }
        self.spot.set(None);
        self.epoch.set(0);
        self.grants.forget();
        if new.executable {
            self.bases.set(None);
        }
        let tree = Arc::make_mut(&mut self.tree);
        let before = tree.mappings.len();
        let mut new = clear(&mut tree.mappings, new);
        tree.code.add(&new);
        tree.exposed.add(&new);
        tree.has_shared |= new.shared;
        if tree.room.is_full() {
            tree.incomplete = true;
        } else {
            // What is not known of may have been writable here.
            new.never_writable &= !tree.incomplete;
            tree.mappings.insert(new.range.start, new);
        }
        tree.room.leave(before);
        tree.room.take(tree.mappings.len());
        tree.mappings.contains_key(&new.range.start)
    }

    /// Whether nothing but data without a file, and with these rights, is known between these
    /// addresses.
    pub fn has_only_data(&self, range: ProcessRange, rights: Rights) -> bool {
        self.overlapped(range).all(|old| old.is_data(rights))
    }

    /// Whether data without a file, and with other rights, is known between these addresses. Rights
    /// that forbid everything are no such: memory is set aside by them, and taken into use later.
    pub(crate) fn replaces(&self, range: ProcessRange, rights: Rights) -> bool {
        let none = (false, false);
        let other = |old: &Mapping| {
            let own = (old.readable, old.writable);
            old.is_data(own) && own != rights && own != none
        };
        rights != none && self.overlapped(range).any(other)
    }

    /// What is known between these addresses, the last first.
    fn overlapped(&self, range: ProcessRange) -> impl Iterator<Item = &Mapping> {
        let before = self.tree.mappings.range(..range.end).rev();
        let before = before.map(|(_, old)| old);
        before.take_while(move |old| old.range.end > range.start)
    }

    /// Whether all that is known between these addresses is one mapping of data without a file, and
    /// with these rights. One more of that kind says nothing new.
    pub(crate) fn is_data(&self, range: ProcessRange, rights: Rights) -> bool {
        let mapping = self.find(range.start);
        mapping.is_some_and(|mapping| range.end <= mapping.range.end && mapping.is_data(rights))
    }

    /// The addresses around one, which no mapping is known at, up to the next mappings.
    pub(crate) fn gap(&self, address: ProcessAddress) -> ProcessRange {
        let before = self.tree.mappings.range(..=address).next_back();
        let behind = self.tree.mappings.range(address..).next();
        ProcessRange {
            start: before.map_or(ProcessAddress(0), |(_, mapping)| mapping.range.end),
            end: behind.map_or(ProcessAddress(u64::MAX), |(start, _)| *start),
        }
    }

    /// What may be mapped twice, or not at all.
    pub(crate) fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// The same, to be changed.
    pub(crate) fn aliases_mut(&mut self) -> &mut Aliases {
        self.grants.forget();
        &mut self.aliases
    }

    /// What samples may access, for as long as nothing changes.
    pub(crate) fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Whether some mapping is not known of, or may have changed without notice.
    pub(crate) fn is_unsure(&self) -> bool {
        self.aliases.unsure || self.tree.incomplete
    }

    /// Whether memory may be mapped at two addresses, one of which can be written.
    pub(crate) fn may_have_aliases(&self) -> bool {
        self.aliases.shared || self.is_unsure()
    }

    /// Whether something was mapped that may be a device.
    pub(crate) fn has_special(&self) -> bool {
        self.tree.incomplete || self.tree.mappings.values().any(|mapping| mapping.special)
    }

    /// Whether somebody else may write at an address although only one thread uses this address
    /// space.
    pub(crate) fn may_be_exposed(&self, address: ProcessAddress) -> bool {
        self.tree.incomplete || self.tree.exposed.contains(address)
    }

    /// Whether something shared was mapped: nothing tells where it was moved to since.
    pub(crate) fn has_shared(&self) -> bool {
        self.tree.has_shared || self.is_unsure()
    }

    /// Whether private pages of a file lie there that is no program's: what others write to the
    /// file shows in those that were not written here. (A program's file is not written while it
    /// runs.)
    pub(crate) fn is_data_file(&self, address: ProcessAddress) -> bool {
        let Some(mapping) = self.find(address).filter(|mapping| mapping.is_file()) else {
            return false;
        };
        let mut code = self.tree.code.of_files.iter();
        !mapping.executable && !code.any(|code| code.image == mapping.image)
    }

    /// The code that was mapped at any time; `None` if some of it may not be known.
    pub(crate) fn code_seen(&self) -> Option<&CodeSeen> {
        (!self.tree.incomplete).then_some(&self.tree.code)
    }

    /// All mappings, in the order of their addresses.
    pub(crate) fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.tree.mappings.values()
    }

    /// The images that are mapped.
    pub(crate) fn images(&self) -> impl Iterator<Item = ImageId> {
        self.tree.mappings.values().map(|mapping| mapping.image)
    }

    /// Bytes that it holds, of which forked processes have their share each.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.mappings.len() * MAPPING_BYTES / Arc::strong_count(&self.tree)
    }

    /// Number of mappings.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tree.mappings.len()
    }
}

/// Takes away what a new mapping covers; returns the new one with what is known of its pages from
/// before.
fn clear(maps: &mut BTreeMap<ProcessAddress, Mapping>, mut new: Mapping) -> Mapping {
    let mut overlapped: Vec<Mapping> = maps
        .range(..new.range.end)
        .rev()
        .map(|(_, m)| *m)
        .take_while(|m| m.range.end > new.range.start)
        .collect();
    // (Mappings never overlap one another, so the walk from the right may stop there.)
    for old in overlapped.drain(..) {
        maps.remove(&old.range.start);
        // What was writable before may have been written.
        if new.has_same_pages(&old) && !old.never_writable {
            new.never_writable = false;
        }
        if old.range.start < new.range.start {
            maps.insert(old.range.start, old.before(new.range.start));
        }
        if old.range.end > new.range.end {
            maps.insert(new.range.end, old.behind(new.range.end));
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::exposed::MOST;
    use super::*;
    use crate::mapping::tests::mapping;

    fn shared(start: u64, end: u64) -> Mapping {
        let mut shared = mapping(start, end, 0, true);
        shared.shared = true;
        shared
    }

    /// A mapping in the middle of another leaves both of its ends, with their file offsets.
    #[test]
    fn splits_what_it_covers() {
        let mut maps = Maps::new(&Room::new(100));
        maps.insert(mapping(0x1000, 0x9000, 0, false));
        maps.insert(mapping(0x3000, 0x5000, 0x10_000, false));
        assert_eq!(maps.len(), 3);
        assert_eq!(
            maps.find(ProcessAddress(0x2fff)).map(|m| m.file_offset),
            Some(0)
        );
        assert_eq!(
            maps.find(ProcessAddress(0x3000)).map(|m| m.file_offset),
            Some(0x10_000)
        );
        assert_eq!(
            maps.find(ProcessAddress(0x5000))
                .map(|m| (m.range.start.0, m.file_offset)),
            Some((0x5000, 0x4000))
        );
        assert!(
            maps.find(ProcessAddress(0x9000)).is_none()
                && maps.find(ProcessAddress(0xfff)).is_none()
        );
    }

    /// What was shared once may be so yet; code that was mapped once is remembered, and whether
    /// some of it was of no file.
    #[test]
    fn what_was_mapped_is_remembered() {
        let mut maps = Maps::new(&Room::new(100));
        maps.insert(shared(0x1000, 0x3000));
        maps.insert(mapping(0x2000, 0x4000, 0, true));
        assert!(
            maps.may_be_exposed(ProcessAddress(0x1000))
                && maps.may_be_exposed(ProcessAddress(0x2fff))
        );
        assert!(!maps.may_be_exposed(ProcessAddress(0x3000)));
        let code = |start: u64, writable| {
            let mut code = mapping(start, start + 0x1000, 0x5000, writable);
            code.executable = true;
            code
        };
        maps.insert(code(0x8000, false));
        maps.insert(mapping(0x8000, 0x9000, 0, true));
        let seen = maps.code_seen().cloned().unwrap_or_default();
        assert!(seen.of_files.len() == 1 && !seen.has_other);
        assert_eq!(
            (seen.of_files[0].range.start.0, seen.of_files[0].file_offset),
            (0x8000, 0x5000)
        );
        maps.bases.set(Some((0, BaseWriters::default())));
        maps.insert(code(0xa000, true));
        assert!(maps.bases.get().is_none());
        assert!(maps.code_seen().is_some_and(|code| code.has_other));
    }

    /// So many ranges of shared memory are told apart; with more, all may be.
    #[test]
    fn much_is_shared() {
        let mut maps = Maps::new(&Room::new(100));
        for number in 0..=MOST as u64 {
            assert!(!maps.may_be_exposed(ProcessAddress(0x1_0000_0000)));
            maps.insert(shared(number << 12, (number + 1) << 12));
        }
        assert!(maps.may_be_exposed(ProcessAddress(0x1_0000_0000)));
    }

    /// Without room for more, nothing is known of a new mapping, and not everything of what comes
    /// later; what is given up gives its room back, also where it was shared.
    #[test]
    fn no_room() {
        let room = Room::new(3);
        let mut one = Maps::new(&room);
        assert!(one.insert(mapping(0x1000, 0x2000, 0, false)));
        let mut other = one.clone();
        assert!(!room.is_full());
        assert!(one.insert(mapping(0x2000, 0x3000, 0, false)));
        assert!(!other.insert(mapping(0x2000, 0x3000, 0, false)) && other.has_special());
        assert!(other.find(ProcessAddress(0x2000)).is_none() && !one.has_special());
        drop(one);
        assert!(other.insert(mapping(0x2000, 0x3000, 0, false)));
        assert!(
            other
                .find(ProcessAddress(0x2000))
                .is_some_and(|m| !m.never_writable)
        );
        drop(other);
        assert_eq!(room.taken(), 0);
    }

    /// A mapping over several removes those it covers whole.
    #[test]
    fn covers_several() {
        let mut maps = Maps::new(&Room::new(100));
        for start in [0x1000, 0x2000, 0x3000, 0x4000] {
            maps.insert(mapping(start, start + 0x1000, 0, false));
        }
        maps.insert(mapping(0x1800, 0x4000, 0x8000, false));
        assert_eq!(maps.len(), 3);
        assert_eq!(
            maps.find(ProcessAddress(0x1000)).map(|m| m.range.end.0),
            Some(0x1800)
        );
        assert_eq!(
            maps.find(ProcessAddress(0x4000)).map(|m| m.range.end.0),
            Some(0x5000)
        );
    }

    /// RELRO (written, then protected) and relocated text do not count as never writable, while
    /// a fresh mapping of other file pages at the place does.
    #[test]
    fn once_writable_is_remembered() {
        let mut maps = Maps::new(&Room::new(100));
        maps.insert(mapping(0x1000, 0x9000, 0, false)); // the loader reserves the whole file
        maps.insert(mapping(0x5000, 0x9000, 0x3000, true)); // its data segment
        maps.insert(mapping(0x5000, 0x6000, 0x3000, false)); // RELRO
        assert!(
            maps.find(ProcessAddress(0x1000))
                .is_some_and(|m| m.never_writable)
        );
        assert!(
            maps.find(ProcessAddress(0x5000))
                .is_some_and(|m| !m.never_writable && !m.writable)
        );
        maps.insert(mapping(0x1000, 0x2000, 0, true)); // text is relocated
        maps.insert(mapping(0x1000, 0x2000, 0, false));
        assert!(
            maps.find(ProcessAddress(0x1000))
                .is_some_and(|m| !m.never_writable)
        );
        assert!(
            maps.find(ProcessAddress(0x2000))
                .is_some_and(|m| m.never_writable)
        );
        maps.insert(mapping(0x5000, 0x6000, 0x7000, false)); // something else is mapped there
        assert!(
            maps.find(ProcessAddress(0x5000))
                .is_some_and(|m| m.never_writable)
        );
    }
}
