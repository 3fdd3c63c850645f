//! What values point to: a heap, a stack, a place of an image.
//!
//! A profile tells what lay where in each of its processes, as far as values point there. A value
//! is told if all that is known of its address agrees: processes have their memory at addresses of
//! their own, and a process may have mapped something else in the place of what it had.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::HashMap;
use profiledb::{Mapped, Profile, Region};

use crate::symbols::Symbols;
use crate::symbols::data::Data;
use crate::values::Class;

/// Smaller numbers may be pointers or not, unless something is known to be an address.
const LEAST: u64 = 1 << 32;

/// What lies where in the processes of a profile.
#[derive(Debug, Default)]
pub(crate) struct Pointers {
    /// By their starts.
    regions: Vec<Region<usize>>,
    /// Of each region the largest end of it and of those before it.
    reach: Vec<u64>,
    /// The data of images, by their index.
    data: RefCell<BTreeMap<usize, Rc<Data>>>,
    /// What was told of values.
    told: RefCell<HashMap<u64, Option<Arc<str>>>>,
}

/// What a value points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pointed {
    /// So far into the heap; `None`: of processes whose heaps begin elsewhere.
    Heap(Option<u64>),
    Stack,
    Anon(Option<u64>),
    /// An address of an image.
    Image(usize, u64),
}

impl Pointed {
    fn of(region: &Region<usize>, value: u64) -> Pointed {
        let offset = value - region.start;
        match region.what {
            Mapped::Heap => Pointed::Heap(Some(offset)),
            Mapped::Stack => Pointed::Stack,
            Mapped::Anon => Pointed::Anon(Some(offset)),
            Mapped::Image { image, address } => Pointed::Image(image, address.wrapping_add(offset)),
        }
    }

    /// What both say, if they agree.
    fn and(self, other: Pointed) -> Option<Pointed> {
        match (self, other) {
            (one, other) if one == other => Some(one),
            (Pointed::Heap(_), Pointed::Heap(_)) => Some(Pointed::Heap(None)),
            (Pointed::Anon(_), Pointed::Anon(_)) => Some(Pointed::Anon(None)),
            _ => None,
        }
    }
}

impl Pointers {
    /// Those of a profile.
    pub(crate) fn new(profile: &Profile) -> Pointers {
        let mut regions = profile.regions.clone();
        regions.sort_unstable();
        regions.dedup();
        let mut reach = Vec::with_capacity(regions.len());
        let mut end = 0;
        for region in &regions {
            end = region.end.max(end);
            reach.push(end);
        }
        Pointers {
            regions,
            reach,
            ..Pointers::default()
        }
    }

    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// What lies at an address, if what is known agrees.
    fn at(&self, value: u64) -> Option<Pointed> {
        let begun = self.regions.partition_point(|region| region.start <= value);
        let mut found: Option<Pointed> = None;
        for (region, reach) in self.regions.iter().zip(&self.reach).take(begun).rev() {
            if *reach <= value {
                break;
            }
            if region.end <= value {
                continue;
            }
            let pointed = Pointed::of(region, value);
            found = Some(match found {
                None => pointed,
                Some(known) => known.and(pointed)?,
            });
        }
        found
    }

    /// The image, and the address in it, that an address is of.
    pub(crate) fn image_at(&self, value: u64) -> Option<(usize, u64)> {
        match self.at(value)? {
            Pointed::Image(image, address) => Some((image, address)),
            Pointed::Heap(_) | Pointed::Stack | Pointed::Anon(_) => None,
        }
    }

    /// What a value of a parameter points to, in words: `heap+0x2a0`, `stack 0x7ffc0010`,
    /// `anon+0x10`, `image:symbol+0xoffset`. `None`: it is a number, as far as anybody knows.
    pub(crate) fn text(
        &self,
        symbols: &Symbols<'_>,
        (parameter, class): (&str, Class),
        value: u64,
    ) -> Option<Arc<str>> {
        let is_address = matches!(parameter, "ea" | "base");
        let is_wide = class.integer() == Some(64);
        if self.is_empty() || !is_wide || (value < LEAST && !is_address) {
            return None;
        }
        if let Some(told) = self.told.borrow().get(&value) {
            return told.clone();
        }
        let text = self.at(value).map(|pointed| match pointed {
            Pointed::Heap(Some(offset)) => format!("heap+0x{offset:x}"),
            Pointed::Heap(None) => format!("heap 0x{value:x}"),
            Pointed::Stack => format!("stack 0x{value:x}"),
            Pointed::Anon(Some(offset)) => format!("anon+0x{offset:x}"),
            Pointed::Anon(None) => format!("anon 0x{value:x}"),
            Pointed::Image(image, address) => self.place(symbols, image, address),
        });
        let text: Option<Arc<str>> = text.map(Arc::from);
        self.told.borrow_mut().insert(value, text.clone());
        text
    }

    /// An address of an image: `image:symbol+0xoffset`, or `image+0xaddress`.
    pub(crate) fn place(&self, symbols: &Symbols<'_>, image: usize, address: u64) -> String {
        let data = {
            let mut data = self.data.borrow_mut();
            let of_image = || Rc::new(Data::of(symbols, image));
            Rc::clone(data.entry(image).or_insert_with(of_image))
        };
        let name = data.at(symbols, address);
        match name.or_else(|| symbols.name_at(image, address)) {
            Some(name) => format!("{}:{name}", symbols.short_name(image)),
            None => symbols.plain(image, address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, what: Mapped<usize>) -> Region<usize> {
        Region { start, end, what }
    }

    fn pointers(regions: &[Region<usize>]) -> Pointers {
        Pointers::new(&Profile {
            regions: regions.to_vec(),
            ..Profile::default()
        })
    }

    /// What is in a region is told by it, also where another region ends before.
    #[test]
    fn regions() {
        let image = |image, address| Mapped::Image { image, address };
        let all = pointers(&[
            region(0x9000, 0xa000, image(1, 0x400)),
            region(0x1000, 0x8000, Mapped::Heap),
            region(0xc000, 0xd000, Mapped::Stack),
        ]);
        assert_eq!(all.at(0x1010), Some(Pointed::Heap(Some(0x10))));
        assert_eq!(all.at(0x9008), Some(Pointed::Image(1, 0x408)));
        assert_eq!(all.at(0xcfff), Some(Pointed::Stack));
        assert_eq!([0xfff, 0x8000, 0xd000].map(|at| all.at(at)), [None; 3]);
    }

    /// Where processes have the same, it is told; where they have different things, nothing is.
    #[test]
    fn processes_that_differ() {
        let all = pointers(&[
            region(0x1000, 0x8000, Mapped::Heap),
            region(0x1000, 0x9000, Mapped::Heap),
            region(0x2000, 0x9000, Mapped::Heap),
            region(0x7000, 0x8000, Mapped::Anon),
            region(0xa000, 0xb000, Mapped::Stack),
            region(0xa000, 0xc000, Mapped::Stack),
        ]);
        assert_eq!(all.at(0x1010), Some(Pointed::Heap(Some(0x10))));
        assert_eq!(all.at(0x2010), Some(Pointed::Heap(None)));
        assert_eq!(all.at(0x7010), None);
        assert_eq!(all.at(0xa010), Some(Pointed::Stack));
    }
}
