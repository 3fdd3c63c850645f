//! The instructions that windows ran through lately, found by process address alone.
//!
//! Windows that begin at one instruction come one behind the other, and mostly take the same way through
//! the same code. What has to be looked at for an instruction (its mapping, whether that may be seen, the
//! piece of code that it lies in, its bytes) is the same for all of them as long as they are of one
//! process, nothing changes what is mapped, and the pieces of code that came with them have the same
//! bytes at the same addresses. That is compared once for a window, piece by piece.

use interpreter::{DecodeCache, Held, Pieces};

/// Instructions that are remembered; of a longer way, the rest is looked up each time.
pub(crate) const INSTRUCTIONS: usize = 1024;
/// A power of two.
const PLACES: usize = 2048;

/// Instructions that windows of one process found in the pieces of code that came with them.
#[derive(Debug)]
pub(crate) struct Recent {
    process: sampler::Pid,
    /// [`DecodeCache::given_up`] when they were found.
    given_up: u64,
    /// In the order in which they were found: mostly that in which they are wanted again.
    instructions: Vec<Instruction>,
    /// Where an instruction may be, by its address.
    places: [u16; PLACES],
    /// The one that is probably wanted next.
    next: usize,
    /// The pieces that they lie in, each with the end of its bytes among those of all.
    pieces: Vec<Piece>,
    /// Those in `pieces`, a bit each.
    seen: u64,
    bytes: Vec<u8>,
    /// Another window begins where this one does: it is worth to remember what this one finds.
    has_next: bool,
    /// How often everything was forgotten.
    epoch: u64,
}

/// An instruction that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    /// Its process address.
    pub(super) pc: u64,
    /// What is to be added to an address of its image.
    pub(super) bias: u64,
    pub(super) held: Held,
}

/// A piece of code as it came with a window.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: usize,
    address: u64,
    end: usize,
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self {
            process: sampler::Pid(0),
            given_up: 0,
            instructions: Vec::with_capacity(INSTRUCTIONS),
            places: [0; PLACES],
            next: 0,
            pieces: Vec::new(),
            seen: 0,
            bytes: Vec::new(),
            has_next: false,
            epoch: 0,
        }
    }

    /// Whether the window behind the next one begins at the same instruction.
    pub(crate) fn has_next(&mut self, has_next: bool) {
        self.has_next = has_next;
    }

    /// Something may have changed what is mapped, or what may be seen of it.
    pub(crate) fn forget(&mut self) {
        self.instructions.clear();
        self.pieces.clear();
        self.bytes.clear();
        (self.next, self.seen) = (0, 0);
        self.epoch += 1;
    }

    /// As long as this number is the same, what was remembered is what is found.
    #[inline]
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it is worth to remember what is found.
    #[inline]
    pub(super) fn repeats(&self) -> bool {
        self.has_next
    }

    /// A window of a process begins, with these pieces.
    pub(super) fn begin(
        &mut self,
        process: sampler::Pid,
        cache: &DecodeCache,
        pieces: Option<&Pieces<'_>>,
    ) {
        let same = self.process == process
            && self.given_up == cache.given_up()
            && pieces.is_some_and(|pieces| self.are_as_before(pieces));
        if !same {
            self.forget();
            (self.process, self.given_up) = (process, cache.given_up());
        }
        self.next = 0;
    }

    fn are_as_before(&self, pieces: &Pieces<'_>) -> bool {
        let mut start = 0;
        self.pieces.iter().all(|piece| {
            let bytes = &self.bytes[start..piece.end];
            start = piece.end;
            pieces.piece(piece.number) == Some((piece.address, bytes))
        })
    }

    /// An instruction that was found before.
    #[inline(always)]
    pub(super) fn find(&mut self, pc: u64) -> Option<Instruction> {
        let is_it = |found: &&Instruction| found.pc == pc;
        if let Some(&found) = self.instructions.get(self.next).filter(is_it) {
            self.next += 1;
            return Some(found);
        }
        let place = usize::from(self.places[place(pc)]);
        let &found = self.instructions.get(place).filter(is_it)?;
        self.next = place + 1;
        Some(found)
    }

    /// Remembers an instruction that was found in the piece of a number, if that may be of use;
    /// whether it does.
    pub(super) fn add(&mut self, found: Instruction, number: usize, pieces: &Pieces<'_>) -> bool {
        let at = self.instructions.len();
        if !self.has_next || at >= INSTRUCTIONS || !self.has_seen(number, pieces) {
            return false;
        }
        // The cast is exact: they are few.
        self.places[place(found.pc)] = at as u16;
        self.instructions.push(found);
        self.next = at + 1;
        true
    }

    /// After the cache was asked for others: what it gave up is no longer remembered.
    pub(super) fn check(&mut self, cache: &DecodeCache) {
        if self.given_up != cache.given_up() {
            self.forget();
            self.given_up = cache.given_up();
        }
    }

    /// Sees to it that a piece is compared from now on.
    fn has_seen(&mut self, number: usize, pieces: &Pieces<'_>) -> bool {
        let Some(bit) = u32::try_from(number)
            .ok()
            .and_then(|n| 1_u64.checked_shl(n))
        else {
            return false;
        };
        if self.seen & bit != 0 {
            return true;
        }
        let Some((address, bytes)) = pieces.piece(number) else {
            return false;
        };
        self.bytes.extend_from_slice(bytes);
        self.pieces.push(Piece {
            number,
            address,
            end: self.bytes.len(),
        });
        self.seen |= bit;
        true
    }
}

/// Where an instruction may be noted. Those of a function have places of their own.
#[inline]
fn place(pc: u64) -> usize {
    (pc ^ pc >> 12) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: sampler::Pid = sampler::Pid(7);
    const SPACE: u32 = 1;
    const NONE: [u64; 0] = [];
    const BIAS: u64 = 0x5555_0000_0000;
    /// `nop; inc eax; nop; dec eax`
    const CODE: [u8; 6] = [0x90, 0xff, 0xc0, 0x90, 0xff, 0xc8];

    fn pieces<'a>(address: u64, code: &'a [u8]) -> Pieces<'a> {
        let mut pieces = Pieces::default();
        pieces.push(BIAS + 0x9000, &CODE[..1]);
        pieces.push(BIAS + address, code);
        pieces
    }

    /// What a window remembers of this code at this image address.
    fn run(recent: &mut Recent, cache: &mut DecodeCache, address: u64, code: &[u8]) -> Vec<u64> {
        let pieces = pieces(address, code);
        recent.has_next(true);
        cache.begin();
        recent.begin(PROCESS, cache, Some(&pieces));
        let mut found = Vec::new();
        for offset in [0, 1, 3, 4] {
            let pc = BIAS + address + offset;
            if recent.find(pc).is_some() {
                found.push(offset);
                continue;
            }
            let (number, code) = pieces.numbered_code(pc);
            let held = cache.hold_sampled(SPACE, address + offset, code);
            recent.check(cache);
            let held = held.expect("an instruction");
            let bias = BIAS;
            recent.add(Instruction { pc, bias, held }, number, &pieces);
        }
        found
    }

    /// A window finds all that one before it went through; the instructions are those that lie there.
    #[test]
    fn found_again() {
        let (mut recent, mut cache) = (Recent::new(), DecodeCache::new(64));
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &CODE), NONE);
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &CODE), [0, 1, 3, 4]);
        // In another order, too.
        let last = recent.find(BIAS + 0x1004).expect("remembered");
        assert_eq!(cache.get(last.held).len(), 2);
        assert!(recent.find(BIAS + 0x1001).is_some());
        assert!(recent.find(BIAS + 0x1002).is_none());
    }

    /// Nothing is remembered for other bytes, at another address, of another process, or where no code
    /// came along.
    #[test]
    fn other_code() {
        let (mut recent, mut cache) = (Recent::new(), DecodeCache::new(64));
        let mut other = CODE;
        other[5] = 0xc0;
        run(&mut recent, &mut cache, 0x1000, &CODE);
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &other), NONE);
        // The cache gave up the old last one for the new one, and with it all that was before.
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &other), [4]);
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &other), [0, 1, 3, 4]);
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &CODE), NONE);
        assert_eq!(run(&mut recent, &mut cache, 0x2000, &CODE), NONE);
        // Shorter by the last byte: it is not the same piece.
        assert_eq!(run(&mut recent, &mut cache, 0x2000, &CODE), [0, 1, 3, 4]);
        recent.begin(PROCESS, &cache, Some(&pieces(0x2000, &CODE[..5])));
        assert!(recent.find(BIAS + 0x2000).is_none());

        run(&mut recent, &mut cache, 0x2000, &CODE);
        recent.begin(sampler::Pid(8), &cache, Some(&pieces(0x2000, &CODE)));
        assert!(recent.find(BIAS + 0x2000).is_none());
        run(&mut recent, &mut cache, 0x2000, &CODE);
        recent.begin(PROCESS, &cache, None);
        assert!(recent.find(BIAS + 0x2000).is_none());
    }

    /// A window that is the last of its place leaves nothing behind, but finds what is there.
    #[test]
    fn last_of_its_place() {
        let (mut recent, mut cache) = (Recent::new(), DecodeCache::new(64));
        run(&mut recent, &mut cache, 0x1000, &CODE);
        let pieces = pieces(0x1000, &CODE);
        recent.has_next(false);
        recent.begin(PROCESS, &cache, Some(&pieces));
        let found = recent.find(BIAS + 0x1001).expect("remembered");
        let other = Instruction {
            pc: BIAS + 0x1005,
            ..found
        };
        recent.add(other, 1, &pieces);
        assert!(recent.find(other.pc).is_none());
        assert!(recent.find(found.pc).is_some());
    }

    /// Where the cache has given an instruction up, or something may have been mapped, nothing is
    /// remembered.
    #[test]
    fn given_up() {
        let (mut recent, mut cache) = (Recent::new(), DecodeCache::new(64));
        run(&mut recent, &mut cache, 0x1000, &CODE);
        cache.invalidate(SPACE);
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &CODE), NONE);
        recent.forget();
        assert_eq!(run(&mut recent, &mut cache, 0x1000, &CODE), NONE);
        // A cache that is full gives up one for each that comes.
        let mut full = DecodeCache::new(2);
        run(&mut recent, &mut full, 0x1000, &CODE);
        assert!(recent.find(BIAS + 0x1000).is_none());
    }

    /// Of a way longer than there is room for, the rest is looked up each time.
    #[test]
    fn bounded() {
        let (mut recent, mut cache) = (Recent::new(), DecodeCache::new(4 * INSTRUCTIONS));
        let code = [0x90; 2 * INSTRUCTIONS];
        let pieces = pieces(0, &code);
        recent.has_next(true);
        recent.begin(PROCESS, &cache, Some(&pieces));
        for pc in BIAS..BIAS + code.len() as u64 {
            let (number, code) = pieces.numbered_code(pc);
            let held = cache.hold_sampled(SPACE, pc - BIAS, code).expect("a nop");
            let bias = BIAS;
            recent.add(Instruction { pc, bias, held }, number, &pieces);
        }
        recent.begin(PROCESS, &cache, Some(&pieces));
        let all = BIAS..BIAS + code.len() as u64;
        let found = all.filter(|pc| recent.find(*pc).is_some());
        assert_eq!(found.count(), INSTRUCTIONS);
    }
}
