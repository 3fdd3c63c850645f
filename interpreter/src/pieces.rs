//! What an interrupt read of memory, and what of it a thread could have seen.
//!
//! The pieces were read one behind the other, and others may have written them meanwhile. A second
//! look told the steady ones, which held their bytes together at one moment, from those that
//! change. A word that changes had its value when it was read, behind the pieces before its own.
//! The processor makes the loads of a program in their order. So such a word is what a load finds
//! only where no load before it was of its own piece or a later one.

use std::cell::Cell;

/// Pieces of memory at most: the lines of a way, the code at the PC, and a few more.
pub const MAX_PIECES: usize = 100;

/// Pieces of memory as they were at the interrupt, each an address and bytes, borrowed from the
/// buffer that they came in.
///
/// What lies within one piece is served, and what two hold of which neither changes. Windows
/// compute each address themselves, so that pieces that were read in vain are never used.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    pieces: [(u64, &'a [u8]); MAX_PIECES],
    count: usize,
    /// The piece that code was found in last: the next instruction is mostly there, too.
    last: Cell<usize>,
    /// The piece that data was found in last: what is loaded next mostly lies in the one behind it.
    data: Cell<usize>,
    /// The pieces that change. In `pieces` these have no bytes.
    changing: Vec<Changing<'a>>,
    /// The number of the first piece of which no load was, nor of those behind it.
    next: Cell<usize>,
    /// Where the last load of a word that changes ended: a load of several words goes on there.
    torn: Cell<u64>,
    /// However short a piece is, it was read at once.
    whole: bool,
    /// By the lowest bits of a line's number one more than that of the piece which is that line.
    lines: [u8; LINES],
}

/// Bytes of a line, as the handler reads memory on a thread's way.
const LINE: u64 = 64;
/// Slots for lines: a power of two.
const LINES: usize = 128;

fn slot_of(address: u64) -> usize {
    // The cast keeps the bits that count.
    (address / LINE) as usize % LINES
}

/// A piece that was another one at the second look.
#[derive(Clone, Debug)]
struct Changing<'a> {
    number: usize,
    address: u64,
    bytes: &'a [u8],
    /// Which words of the piece were others at the second look, counted from its first byte: a bit
    /// each.
    words: u16,
}

/// Bytes that the processor loads and stores at once if they are aligned so.
const WORD: u64 = 8;

/// Bytes behind which an instruction cannot go on.
const ENOUGH: usize = 16;

impl Default for Pieces<'_> {
    fn default() -> Self {
        Self {
            pieces: [(0, &[]); MAX_PIECES],
            count: 0,
            last: Cell::new(0),
            data: Cell::new(0),
            changing: Vec::new(),
            next: Cell::new(0),
            torn: Cell::new(0),
            whole: false,
            lines: [0; LINES],
        }
    }
}

impl<'a> Pieces<'a> {
    /// Adds a piece. False, and nothing is added, if there is no room or it has no bytes.
    pub fn push(&mut self, address: u64, bytes: &'a [u8]) -> bool {
        let Some(piece) = self.pieces.get_mut(self.count) else {
            return false;
        };
        if bytes.is_empty() || address.checked_add(bytes.len() as u64 - 1).is_none() {
            return false;
        }
        *piece = (address, bytes);
        self.count += 1;
        if address.is_multiple_of(LINE) && bytes.len() as u64 == LINE {
            // There are fewer than 256.
            self.lines[slot_of(address)] = self.count as u8;
        }
        true
    }

    /// Adds a piece of which these words (counted from its first byte, a bit each) were others at
    /// the second look. It serves no code.
    pub fn push_changing(&mut self, address: u64, bytes: &'a [u8], words: u16) -> bool {
        let number = self.count;
        if !self.push(address, bytes) {
            return false;
        }
        if let Some(piece) = self.pieces.get_mut(number).filter(|_| words != 0) {
            piece.1 = &[];
            self.changing.push(Changing {
                number,
                address,
                bytes,
                words,
            });
        }
        true
    }

    /// Says that aligned parts of a word were read at once whatever the piece. Otherwise that holds
    /// of whole words of pieces that begin with one: some processors copy the rest byte by byte.
    pub fn read_whole(&mut self) {
        self.whole = true;
    }

    /// The loads of a window begin.
    pub fn open(&self) {
        self.next.set(0);
        self.torn.set(0);
    }

    /// No load from here on finds a word that changes: an instruction that locks memory, or waits
    /// for all stores, lets others see what the window stores, and what they do then is not known.
    /// Its own load is the first: whoever changed the word behind it would have met its store.
    pub fn close(&self) {
        self.next.set(usize::MAX);
    }

    /// A piece by its number: its address and bytes.
    #[inline]
    pub fn piece(&self, number: usize) -> Option<(u64, &'a [u8])> {
        self.pieces[..self.count].get(number).copied()
    }

    /// The code from an address on, as far as one piece has it. Empty if none has any.
    #[inline]
    pub fn code(&self, address: u64) -> &'a [u8] {
        self.numbered_code(address).1
    }

    /// The code at an address with the number of its piece, which means nothing if there is none.
    #[inline]
    pub fn numbered_code(&self, address: u64) -> (usize, &'a [u8]) {
        let last = self.pieces.get(self.last.get());
        let code = match last.and_then(|piece| rest(piece, address)) {
            Some(code) if code.len() >= ENOUGH => code,
            _ => self.longest(address),
        };
        (self.last.get(), code)
    }

    fn longest(&self, address: u64) -> &'a [u8] {
        let line = usize::from(self.lines[slot_of(address)]).wrapping_sub(1);
        let found = self.pieces[..self.count].get(line);
        if let Some(code) = found.and_then(|piece| rest(piece, address))
            && code.len() >= ENOUGH
        {
            self.last.set(line);
            return code;
        }
        let mut longest: &[u8] = &[];
        for (index, piece) in self.pieces[..self.count].iter().enumerate() {
            if let Some(rest) = rest(piece, address)
                && rest.len() > longest.len()
            {
                longest = rest;
                self.last.set(index);
            }
        }
        longest
    }

    /// The first piece from that of a number on, and around to it, that has an address: its number,
    /// where it begins, and its bytes.
    #[inline]
    pub fn next_around(&self, number: usize, address: u64) -> Option<(usize, u64, &'a [u8])> {
        let has = |number: usize| {
            let &(start, bytes) = self.pieces.get(number)?;
            let has = address.wrapping_sub(start) < bytes.len() as u64;
            has.then_some((number, start, bytes))
        };
        let line = usize::from(self.lines[slot_of(address)]).wrapping_sub(1);
        let number = number.min(self.count);
        let mut all = (number..self.count).chain(0..number);
        has(line).or_else(|| all.find_map(has))
    }

    /// Where the next piece begins beyond an address; the last address if there is none.
    pub fn next_start(&self, address: u64) -> u64 {
        let starts = self.pieces[..self.count].iter().map(|(start, _)| *start);
        let beyond = starts.filter(|start| *start > address);
        beyond.min().unwrap_or(u64::MAX)
    }

    /// What a load finds: so many bytes from an address on, if one piece has them all, and a thread
    /// could see them behind the loads before.
    #[inline]
    pub fn bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        // Another piece may have it, too, as it was later.
        if self.goes_on((address, len)) {
            return None;
        }
        match self.find(address, len) {
            Some((number, bytes)) => {
                self.next.set(self.next.get().max(number + 1));
                Some(bytes)
            }
            None if self.changing.is_empty() => None,
            None => self.changing_bytes(address, len),
        }
    }

    /// Whether so many bytes from an address on lie in two lines.
    pub fn are_apart(address: u64, len: usize) -> bool {
        address % LINE + len as u64 > LINE
    }

    /// What a load finds that two pieces have, one behind the other, of which neither changes.
    pub fn across(&self, address: u64, bytes: &mut [u8]) -> bool {
        let first = (LINE - address % LINE) as usize;
        let Some((low, high)) = bytes.split_at_mut_checked(first) else {
            return false;
        };
        let beyond = address.wrapping_add(first as u64);
        let (Some(a), Some(b)) = (self.find(address, low.len()), self.find(beyond, high.len()))
        else {
            return false;
        };
        low.copy_from_slice(a.1);
        high.copy_from_slice(b.1);
        self.next.set(self.next.get().max(a.0.max(b.0) + 1));
        true
    }

    /// The code from an address on that two pieces have, one behind the other: up to 16 bytes, and
    /// how many.
    pub fn code_across(&self, address: u64) -> ([u8; ENOUGH], usize) {
        let mut code = [0; ENOUGH];
        let first = self.code(address);
        let mut len = first.len().min(ENOUGH);
        code[..len].copy_from_slice(&first[..len]);
        if len > 0 && len < ENOUGH {
            let more = self.code(address.wrapping_add(len as u64));
            let count = more.len().min(ENOUGH - len);
            code[len..len + count].copy_from_slice(&more[..count]);
            len += count;
        }
        (code, len)
    }

    /// Bytes of memory that others may write, at which nobody has looked a second time.
    pub fn bytes_seen_once(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        if self.goes_on((address, len)) {
            return None;
        }
        let (number, bytes) = self.find(address, len)?;
        let (start, piece) = self.pieces[number];
        let takes = self.takes_once(number, (start, piece.len()), (address, len));
        takes.then_some(bytes)
    }

    #[inline]
    fn find(&self, address: u64, len: usize) -> Option<(usize, &'a [u8])> {
        let offset = |&(start, _): &(u64, &[u8])| address.wrapping_sub(start);
        let has = |piece: &(u64, &'a [u8])| {
            let room = piece.1.len().checked_sub(len);
            room.is_some_and(|room| offset(piece) <= room as u64)
        };
        let pieces = &self.pieces[..self.count];
        let line = usize::from(self.lines[slot_of(address)]).wrapping_sub(1);
        if let Some(piece) = pieces.get(line).filter(|piece| has(piece)) {
            let start = offset(piece) as usize;
            return Some((line, piece.1.get(start..start + len)?));
        }
        let (before, from) = pieces.split_at(self.data.get().min(self.count));
        let number = match from.iter().position(has) {
            Some(behind) => before.len() + behind,
            None => before.iter().position(has)?,
        };
        self.data.set(number);
        let piece = &pieces[number];
        let start = offset(piece) as usize;
        Some((number, piece.1.get(start..start + len)?))
    }

    /// Bytes of a piece that changes.
    #[inline(never)]
    fn changing_bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        self.changing.iter().find_map(|piece| {
            let start = usize::try_from(address.wrapping_sub(piece.address)).ok()?;
            let bytes = piece.bytes.get(start..start.checked_add(len)?)?;
            let (first, last) = (start / WORD as usize, (start + len - 1) / WORD as usize);
            // Pieces have no more words than there are bits.
            let changes = (first..=last).any(|word| piece.words >> word.min(15) & 1 != 0);
            if !changes {
                self.next.set(self.next.get().max(piece.number + 1));
                return Some(bytes);
            }
            let place = (piece.address, piece.bytes.len());
            let takes = self.takes_once(piece.number, place, (address, len));
            takes.then_some(bytes)
        })
    }

    /// Whether a load of an address and a length is a further word of a load of several, of which
    /// the first was of the moment of its reading: this one may be of another moment, whether it
    /// changes or not.
    #[inline]
    fn goes_on(&self, (address, len): (u64, usize)) -> bool {
        let goes_on = self.torn.get() == address;
        if goes_on {
            self.torn.set(address.wrapping_add(len as u64));
        }
        goes_on
    }

    /// Whether a load finds the bytes of a piece as they were at the moment of its reading. Of both
    /// the address and the length are given.
    fn takes_once(&self, number: usize, piece: (u64, usize), load: (u64, usize)) -> bool {
        let (address, len) = load;
        let (start, bytes) = (piece.0, piece.1 as u64);
        // Where the word ends that the load begins in.
        let end = (address | (WORD - 1)).wrapping_sub(start);
        let at_once = self.whole || start.is_multiple_of(WORD) && end < bytes;
        let in_word = at_once && address % WORD + len as u64 <= WORD;
        if number < self.next.get() || !in_word {
            return false;
        }
        self.next.set(number + 1);
        self.torn.set(address.wrapping_add(len as u64));
        true
    }
}

/// What a piece has from an address on.
#[inline]
fn rest<'a>(&(start, piece): &(u64, &'a [u8]), address: u64) -> Option<&'a [u8]> {
    // From an address below the piece the offset is beyond every piece.
    let offset = usize::try_from(address.wrapping_sub(start)).ok()?;
    piece.get(offset..)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PIECES, Pieces};

    /// Only what lies within one piece is served, code as far as the longest goes on.
    #[test]
    fn only_what_was_read() {
        let mut pieces = Pieces::default();
        assert!(pieces.push(0x1000, &[1, 2, 3, 4]));
        assert!(pieces.push(0x1002, &[3, 4, 5, 6]));
        assert_eq!(pieces.bytes(0x1001, 2), Some([2, 3].as_slice()));
        assert_eq!(pieces.bytes(0x1003, 2), Some([4, 5].as_slice()));
        assert_eq!(pieces.bytes(0x1001, 4), None);
        assert_eq!(pieces.bytes(0xfff, 2), None);
        assert_eq!(pieces.bytes(u64::MAX, 2), None);
        assert_eq!(pieces.code(0x1001), [2, 3, 4]);
        assert_eq!(pieces.code(0x1003), [4, 5, 6]);
        assert_eq!(pieces.code(0x1006), []);
        assert_eq!(pieces.code(0xfff), []);
    }

    /// Long code is served from the piece that served last, and others are found again.
    #[test]
    fn goes_from_piece_to_piece() {
        let (first, second) = ([1; 64], [2; 64]);
        let mut pieces = Pieces::default();
        assert!(pieces.push(0x1000, &first));
        assert!(pieces.push(0x2000, &second));
        for at in [0x1000, 0x2000, 0x2030, 0x1030, 0x1031, 0x2031] {
            let place: &[u8] = if at < 0x2000 { &first } else { &second };
            assert_eq!(pieces.code(at), &place[(at & 0xff) as usize..]);
        }
    }

    /// A seqlock's reader loads the sequence, the data, the sequence: the data that change are
    /// known where they were read behind the sequence, and the second sequence is not.
    #[test]
    fn words_that_change_are_seen_in_order() {
        let bytes: [u8; 64] = std::array::from_fn(|i| i as u8);
        let mut pieces = Pieces::default();
        assert!(pieces.push_changing(0x1000, &bytes[..8], 1));
        assert!(pieces.push_changing(0x2000, &bytes[..24], 0b100));
        assert!(pieces.push(0x3000, &bytes[..8]));
        let reads = |order: &[(u64, usize)]| {
            let pieces = pieces.clone();
            let known = order.iter().map(|at| pieces.bytes(at.0, at.1).is_some());
            known.collect::<Vec<_>>()
        };
        let (sequence, steady, data) = ((0x1000, 8), (0x2008, 8), (0x2010, 4));
        assert_eq!(reads(&[sequence, data, sequence]), [true, true, false]);
        assert_eq!(reads(&[data, sequence]), [true, false]);
        assert_eq!(reads(&[sequence, steady, data]), [true, true, false]);
        assert_eq!(reads(&[sequence, steady, (0x2000, 8)]), [true; 3]);
        assert_eq!(reads(&[(0x3000, 8), sequence, steady]), [true, false, true]);
        // Half of a word is what the whole is; two words at once are no one moment's.
        assert_eq!(reads(&[(0x1004, 4), (0x1000, 4)]), [true, false]);
        assert_eq!(reads(&[(0x200c, 8)]), [false]);
        let closed = pieces.clone();
        closed.close();
        assert_eq!(closed.bytes(0x1000, 8), None);
        assert!(closed.bytes(0x2008, 8).is_some());
        assert!(pieces.code(0x1000).is_empty() && !pieces.code(0x3000).is_empty());
    }

    /// Where short pieces are copied byte by byte, only whole words are one moment's.
    #[test]
    fn parts_of_words() {
        let bytes = [7; 16];
        let known = |start: u64, len: usize, whole: bool| {
            let mut pieces = Pieces::default();
            assert!(pieces.push_changing(start, &bytes[..len], 3));
            if whole {
                pieces.read_whole();
            }
            pieces.bytes(0x1004, 4).is_some()
        };
        assert!(known(0x1000, 8, false) && known(0xff8, 16, false));
        assert!(!known(0x1004, 4, false) && !known(0x1004, 8, false));
        assert!(!known(0xffc, 16, false) && known(0x1004, 4, true));
    }

    /// A vector is loaded by parts; where two of them change, the second is not of the first's
    /// moment.
    #[test]
    fn vectors_that_change() {
        let bytes = [7; 32];
        let mut pieces = Pieces::default();
        assert!(pieces.push_changing(0x1000, &bytes[..16], 0b11));
        assert!(pieces.push_changing(0x1008, &bytes[..16], 0b11));
        assert!(pieces.bytes(0x1000, 8).is_some() && pieces.bytes(0x1008, 8).is_none());
        // Nor where another piece has it, too, as it was later.
        let mut pieces = Pieces::default();
        assert!(pieces.push_changing(0x1000, &bytes[..16], 0b11));
        assert!(pieces.push(0x1000, &bytes[..16]));
        pieces.next.set(0);
        assert!(pieces.changing_bytes(0x1000, 8).is_some() && pieces.bytes(0x1008, 8).is_none());
        assert!(pieces.bytes(0x1000, 8).is_some() && pieces.bytes(0x1008, 8).is_some());
        let mut pieces = Pieces::default();
        assert!(pieces.push(0x1000, &bytes));
        assert!(pieces.bytes_seen_once(0x1008, 8).is_some());
        assert!(pieces.bytes_seen_once(0x1018, 8).is_none());
    }

    /// They are so many and no more, and none runs around the end of memory.
    #[test]
    fn bounded() {
        let mut pieces = Pieces::default();
        assert!(!pieces.push(0, &[]));
        assert!(!pieces.push(u64::MAX, &[0; 2]));
        assert!((0..MAX_PIECES).all(|_| pieces.push(0, &[0])));
        assert!(!pieces.push(0, &[0]));
    }
}
