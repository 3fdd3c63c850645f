//! The instructions that windows ran through lately, found by process address alone.
//!
//! Windows that begin at one instruction come one behind the other, and mostly take the same way through
//! the same code. What has to be looked at for an instruction (its mapping, whether that may be seen, the
//! piece of code that it lies in, its bytes) is the same for all of them as long as they are of one
//! process, nothing changes what is mapped, and the pieces of code that came with them have the same
//! bytes at the same addresses. That is compared once for a window, piece by piece.

use interpreter::{DecodeCache, Held, Pieces};

/// Instructions that are remembered; of a longer way, the rest is looked up each time.
const INSTRUCTIONS: usize = 256;
/// A power of two.
const PLACES: usize = 512;

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
        }
    }

    /// Something may have changed what is mapped, or what may be seen of it.
    pub(crate) fn forget(&mut self) {
        self.instructions.clear();
        self.pieces.clear();
        self.bytes.clear();
        (self.next, self.seen) = (0, 0);
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

    /// Remembers an instruction that was found in the piece of a number.
    pub(super) fn add(&mut self, found: Instruction, number: usize, pieces: &Pieces<'_>) {
        let at = self.instructions.len();
        if at >= INSTRUCTIONS || !self.has_seen(number, pieces) {
            return;
        }
        // The cast is exact: they are few.
        self.places[place(found.pc)] = at as u16;
        self.instructions.push(found);
        self.next = at + 1;
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
