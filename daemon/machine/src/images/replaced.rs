//! Whether code without a name was replaced, as interrupts saw it.
//!
//! Code that nobody names is told apart by its bytes. Of each address at which samples were taken
//! the code from there on is remembered; when other bytes are met there, the page has other code
//! from then on, which is a generation of its own. Samples are shown here in order of time.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use rustc_hash::FxHashMap;

const PAGE: u64 = 4096;
/// Bytes of code that are remembered of an address, at most.
const MOST: usize = 64;
/// Addresses of a process of which code is remembered; when there are more, all are forgotten.
const MAX_SEEN: usize = 1 << 14;
/// Generations of a page told apart; what comes later stays in the last.
const MAX_GENERATIONS: usize = 64;
/// Pages with more than one.
const MAX_PAGES: usize = 1 << 12;

/// The code of one process as far as it has no name.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    seen: FxHashMap<u64, ([u8; MOST], u8)>,
    /// When each page had other code, in order.
    pages: FxHashMap<u64, Vec<u64>>,
}

impl Replaced {
    /// Takes notice of the code that was at an address at a time.
    pub(super) fn observe(&mut self, address: u64, time: u64, code: &[u8]) {
        let length = certain(code);
        if length == 0 {
            return;
        }
        let mut run = [0; MOST];
        run[..length].copy_from_slice(&code[..length]);
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        let entry = (run, u8::try_from(length).unwrap_or(u8::MAX));
        let Some((known, known_length)) = self.seen.get(&address) else {
            self.seen.insert(address, entry);
            return;
        };
        let common = length.min(usize::from(*known_length));
        if known[..common] == run[..common] {
            if length > common {
                self.seen.insert(address, entry);
            }
            return;
        }
        // What was seen of the page is what it was.
        let page = address / PAGE;
        self.seen.retain(|at, _| at / PAGE != page);
        self.seen.insert(address, entry);
        if self.pages.len() >= MAX_PAGES && !self.pages.contains_key(&page) {
            return;
        }
        let times = self.pages.entry(page).or_default();
        if times.len() + 1 < MAX_GENERATIONS {
            times.push(time);
        }
    }

    /// How often the page of an address had got other code by then.
    pub(super) fn generation(&self, address: u64, time: u64) -> usize {
        let times = self.pages.get(&(address / PAGE));
        times.map_or(0, |times| times.partition_point(|at| *at <= time))
    }

    /// When other code was met in the page of an address the last time; never, if that is 0. Where
    /// it was too often, that is still to come.
    pub(super) fn last_change(&self, address: u64) -> u64 {
        let times = self.pages.get(&(address / PAGE));
        times.map_or(0, |times| match times.len() + 1 < MAX_GENERATIONS {
            true => times.last().copied().unwrap_or(0),
            false => u64::MAX,
        })
    }

    /// The most generations of any page.
    pub(super) fn generations(&self) -> usize {
        self.pages.values().map(Vec::len).max().unwrap_or(0)
    }

    /// The page of an address, if generations are told apart at all.
    pub(super) fn page(&self, address: u64) -> Option<(u64, u64)> {
        let start = address / PAGE * PAGE;
        (!self.pages.is_empty()).then(|| (start, start.saturating_add(PAGE)))
    }

    /// Bytes that it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.seen.len() * 2 * (MOST + 16) + self.pages.len() * 64
    }
}

/// How many bytes are surely instructions: behind a jump or a return there may be data.
fn certain(code: &[u8]) -> usize {
    let code = &code[..code.len().min(MOST)];
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut length = 0;
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        length = decoder.position();
        if matches!(
            instruction.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        ) {
            break;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other bytes at an address begin a generation of its page, and of no other; more of the same
    /// bytes do not, nor does data behind a return.
    #[test]
    fn generations() {
        let mut code = Replaced::default();
        code.observe(0x1000, 5, &[0x90, 0x90]);
        code.observe(0x1000, 6, &[0x90, 0x90, 0x90]);
        code.observe(0x1800, 7, &[0xc3, 1, 2]);
        code.observe(0x1800, 8, &[0xc3, 3, 4]);
        assert_eq!((code.generations(), code.page(0x1000)), (0, None));
        code.observe(0x1000, 10, &[0x90, 0x48, 0xff, 0xc0]);
        assert_eq!(code.page(0x1234), Some((0x1000, 0x2000)));
        for (address, time, generation) in [
            (0x1000, 9, 0),
            (0x1000, 10, 1),
            (0x1fff, 11, 1),
            (0x2000, 11, 0),
        ] {
            assert_eq!(
                code.generation(address, time),
                generation,
                "{address:x} {time}"
            );
        }
        assert_eq!(code.last_change(0x1000), 10);
        for time in 20..200 {
            let filler = u8::try_from(time).expect("small");
            code.observe(0x1000, time, &[0xb0, filler]);
        }
        assert_eq!(code.generations(), MAX_GENERATIONS - 1);
        let last = [0x1fff, 0x2000].map(|address| code.last_change(address));
        assert_eq!(last, [u64::MAX, 0]);
    }
}
