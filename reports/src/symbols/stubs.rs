//! PLT stubs: what they are called by, and where they lead.

use std::collections::{BTreeMap, BTreeSet};

use profiledb::Profile;

use super::{Offers, STUB, Symbols};
use crate::elf::{self, Elf};
use crate::symbolize::Bounds;

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
        let leads: BTreeMap<(usize, u64), String> = stubs
            .iter()
            .filter(|place| self.may_be_stub(**place))
            .filter_map(|(image, address)| {
                let (_, _, name) = self.elf(*image)?.plt(*address)?;
                Some(((*image, *address), name.to_owned()))
            })
            .collect();
        if leads.is_empty() {
            return BTreeMap::new();
        }
        let offers = self.offers();
        leads
            .into_iter()
            .filter_map(|(stub, name)| Some((stub, (*offers.get(&name)?)?)))
            .collect()
    }

    /// Whether a PC of the profile is in a PLT stub.
    pub(crate) fn is_in_stub(&self, pc: usize) -> bool {
        let Some(pc) = self.profile.pcs.get(pc) else {
            return false;
        };
        let stub = self.stub(pc.image, pc.address);
        stub.is_some_and(|stub| self.may_be_stub((pc.image, stub.start)))
    }

    /// Whether a PLT stub may begin at a PC: a function of another name does not.
    fn may_be_stub(&self, place: (usize, u64)) -> bool {
        let function = self.by_start.get(&place).and_then(|id| self.function(*id));
        function.is_none_or(|function| !function.named || function.name.ends_with(STUB))
    }

    /// The functions that one image alone offers to the others, by mangled name; `None` for a
    /// name with several, or with an indirect function: that has no address to offer, and no
    /// other of its name is meant then.
    pub(super) fn offers(&self) -> &Offers {
        self.offers.get_or_init(|| {
            let mut offers = Offers::default();
            for image in 0..self.images.len() {
                // All images are looked at, and few of them needed for more.
                let exported = match self.images.get(image).and_then(|names| names.elf.get()) {
                    Some(read) => read.as_ref().map(Elf::exported),
                    None => self.read(image).ok().map(|elf| elf.exported()),
                };
                let exported = exported.unwrap_or_default();
                for (name, address) in exported {
                    let offer = address.map(|address| (image, address));
                    offers
                        .entry(name)
                        .and_modify(|known| *known = known.filter(|known| Some(*known) == offer))
                        .or_insert(offer);
                }
            }
            offers
        })
    }

    /// The PLT stub around an address.
    pub(super) fn stub(&self, image: usize, address: u64) -> Option<Bounds> {
        let (start, end, name) = self.elf(image)?.plt(address)?;
        Some(Bounds {
            start,
            end: Some(end),
            name: Some(format!("{}{STUB}", elf::demangle(name)).into()),
        })
    }
}
