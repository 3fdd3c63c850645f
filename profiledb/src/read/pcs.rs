//! Where instructions are in a profile, by image and address.

use foldhash::HashMap;

/// Bits of an address within its page.
const PAGE: u32 = 12;

/// The places of instructions in a profile. A profile has some hundred thousand, and those that are
/// asked for one after another mostly lie next to each other: those of a page of code are one short
/// list, which the processor has at hand, where a table of all of them has each somewhere else.
#[derive(Default)]
pub(super) struct Pcs {
    /// Which of the lists is that of an image and a page.
    pages: HashMap<(usize, u64), usize>,
    /// Offsets in a page in their order, and the place of each instruction.
    lists: Vec<Vec<(u16, usize)>>,
    /// The page that was asked for last.
    last: Option<((usize, u64), usize)>,
}

impl Pcs {
    /// The place of an instruction that is there.
    pub(super) fn get(&self, image: usize, address: u64) -> Option<usize> {
        let (page, offset) = split(address);
        let list = self.lists.get(*self.pages.get(&(image, page))?)?;
        let at = list.binary_search_by_key(&offset, |(offset, _)| *offset);
        list.get(at.ok()?).map(|(_, place)| *place)
    }

    /// The place of an instruction; `add` makes one for a new one.
    pub(super) fn get_or_add(
        &mut self,
        image: usize,
        address: u64,
        add: impl FnOnce() -> usize,
    ) -> usize {
        let (page, offset) = split(address);
        let list = self.list(image, page);
        // Most come in their order.
        let at = match list.last() {
            Some((last, _)) if *last < offset => Err(list.len()),
            _ => list.binary_search_by_key(&offset, |(offset, _)| *offset),
        };
        match at {
            Ok(at) => list[at].1,
            Err(at) => {
                let place = add();
                list.insert(at, (offset, place));
                place
            }
        }
    }

    fn list(&mut self, image: usize, page: u64) -> &mut Vec<(u16, usize)> {
        let key = (image, page);
        let number = match self.last {
            Some((last, number)) if last == key => number,
            _ => *self.pages.entry(key).or_insert(self.lists.len()),
        };
        if number == self.lists.len() {
            self.lists.push(Vec::new());
        }
        self.last = Some((key, number));
        &mut self.lists[number]
    }
}

/// The page of an address, and the offset in it.
fn split(address: u64) -> (u64, u16) {
    let offset = address & ((1 << PAGE) - 1);
    (address >> PAGE, u16::try_from(offset).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Every instruction keeps the place that it got, in whatever order it is asked for.
    #[test]
    fn places_stay() {
        let mut pcs = Pcs::default();
        let mut known: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        let mut state = 3_u64;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let image = (state >> 40) as usize % 3;
            // Few pages, at both ends of the address space.
            let address = ((state >> 50) % 5000).wrapping_sub(2500);
            let next = known.len();
            let expected = *known.entry((image, address)).or_insert(next);
            assert_eq!(pcs.get_or_add(image, address, || next), expected);
        }
        for ((image, address), place) in &known {
            assert_eq!(pcs.get(*image, *address), Some(*place));
            assert_eq!(pcs.get(image + 3, *address), None);
        }
        assert_eq!(pcs.get(0, 1 << 40), None);
    }
}
