//! PLT stubs: what they are called by, and where they lead.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use profiledb::Profile;
use symbols::{Exports, Offered};

use super::{STUB, Symbols};
use crate::elf;
use crate::guard::fenced;
use crate::liveness::Code as _;
use crate::symbolize::Bounds;

/// Bytes of tables that are held to find functions by name.
const MAX_TABLES: u64 = 256 << 20;

/// What the images of a profile offer to each other.
pub(crate) struct Offers {
    /// Where names stand in each image; `None`: not all of them fit.
    tables: Option<Vec<Exports>>,
    /// What was found by mangled name; none if several images offer one.
    found: RefCell<HashMap<String, Option<(usize, u64)>>>,
}

/// Has those functions among the instructions of a profile that PLT stubs lead to and that were
/// passed over: whoever is called through a stub is shown as the function behind it. Returns what
/// images offer, if that had to be looked at.
pub(crate) fn recall_targets(profile: &mut Profile) -> Option<Offers> {
    if profile.passed_over.iter().all(Vec::is_empty) {
        return None;
    }
    let callees = profile.calls.iter().filter_map(|row| row.callee);
    let entries: BTreeSet<usize> = callees
        .chain(profile.hotlists.iter().map(|row| row.pc))
        .collect();
    let entries: Vec<(usize, u64)> = entries
        .into_iter()
        .filter_map(|pc| profile.pcs.get(pc))
        .map(|pc| (pc.image, pc.address))
        .collect();
    let (targets, offers) = {
        let symbols = Symbols::empty(profile);
        let targets = symbols.behind_stubs(&entries);
        (targets, symbols.offers.into_inner())
    };
    profile.recall(targets.into_values());
    offers
}

impl Symbols<'_> {
    /// The image and address of each function that one of the PLT stubs at `stubs`
    /// (image, address) leads to, if one image alone offers a function of that name.
    pub(crate) fn behind_stubs(
        &self,
        stubs: &[(usize, u64)],
    ) -> BTreeMap<(usize, u64), (usize, u64)> {
        stubs
            .iter()
            .filter(|place| self.may_be_stub(**place))
            .filter_map(|place| Some((*place, self.behind_stub(place.0, place.1)?)))
            .collect()
    }

    /// Whether a PC of the profile is in a PLT stub, or in what binds such stubs: no call is made
    /// there, whatever a window that began there says.
    pub(crate) fn is_in_stub(&self, pc: usize) -> bool {
        let Some(pc) = self.profile.pcs.get(pc) else {
            return false;
        };
        let Some(elf) = self.elf(pc.image) else {
            return false;
        };
        let start = match elf.stub(pc.address) {
            Some((start, _)) => start,
            None if elf.has_stubs_at(pc.address) => pc.address,
            None => return false,
        };
        self.may_be_stub((pc.image, start))
    }

    /// Whether a PLT stub may begin at a PC: a function of another name does not.
    fn may_be_stub(&self, place: (usize, u64)) -> bool {
        let function = self.by_start.get(&place).and_then(|id| self.function(*id));
        function.is_none_or(|function| !function.named || function.name.ends_with(STUB))
    }

    /// Image and address of the function of a mangled name that one image alone offers to the
    /// others. An indirect function has no address to offer, and no other of its name is meant
    /// then.
    pub(super) fn offered(&self, name: &str) -> Option<(usize, u64)> {
        let offers = self.offers.get_or_init(|| self.look_at_tables());
        if let Some(known) = offers.found.borrow().get(name) {
            return *known;
        }
        let tables = offers.tables.iter().flatten().enumerate();
        let having = tables.filter(|(_, exports)| exports.may_have(name));
        let mut offered = having.filter_map(|(image, exports)| {
            let elf = self.elf(image)?;
            let found = fenced(|| exports.find(elf.binary(), name)).flatten()?;
            Some((image, found))
        });
        let found = match (offered.next(), offered.next()) {
            (Some((image, Offered::At(address))), None) => Some((image, address)),
            _ => None,
        };
        offers.found.borrow_mut().insert(name.to_owned(), found);
        found
    }

    /// Looks at the tables of all images, few of which are needed for more.
    fn look_at_tables(&self) -> Offers {
        let mut left = MAX_TABLES;
        let tables = (0..self.images.len()).map(|image| {
            let of = |elf: &elf::Elf| fenced(|| Exports::of(elf.binary())).flatten();
            let held = self.images.get(image).and_then(|names| names.elf.get());
            let exports = match held {
                Some(None) => Exports::default(),
                Some(Some(elf)) => of(elf)?,
                None => match self.read(image) {
                    Ok(elf) => of(&elf)?,
                    Err(_) => Exports::default(),
                },
            };
            left = left.checked_sub(exports.size())?;
            Some(exports)
        });
        Offers {
            tables: tables.collect(),
            found: RefCell::default(),
        }
    }

    /// The PLT stub around an address. It has no name where no symbol stands for what it leads to.
    pub(super) fn stub(&self, image: usize, address: u64) -> Option<Bounds> {
        let elf = self.elf(image)?;
        if let Some((start, end, name)) = elf.plt(address) {
            return Some(Bounds {
                start,
                end: Some(end),
                name: Some(format!("{}{STUB}", elf::demangle(name)).into()),
            });
        }
        let (start, end) = elf.stub(address)?;
        Some(Bounds {
            start,
            end: Some(end),
            name: None,
        })
    }
}
