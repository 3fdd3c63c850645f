//! What a plan brought back, where it was read into.

use std::cell::Cell;

use super::snapshot::MAX_PIECES;

/// Pieces of memory as they were at the interrupt, like a [`Snapshot`](super::Snapshot), but
/// borrowed from the buffer that they came in.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    pieces: [(u64, &'a [u8]); MAX_PIECES],
    count: usize,
    /// The piece that code was found in last: the next instruction is mostly there, too.
    last: Cell<usize>,
    /// The piece that data was found in last: what is loaded next mostly lies in the one behind it.
    data: Cell<usize>,
}

/// Bytes behind which an instruction cannot go on.
const ENOUGH: usize = 16;

impl Default for Pieces<'_> {
    fn default() -> Self {
        Self {
            pieces: [(0, &[]); MAX_PIECES],
            count: 0,
            last: Cell::new(0),
            data: Cell::new(0),
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
        true
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

    /// That with the number of the piece, which means nothing if there is none.
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
        let number = number.min(self.count);
        let mut all = (number..self.count).chain(0..number);
        all.find_map(has)
    }

    /// Where the next piece begins beyond an address; the last address if there is none.
    pub fn next_start(&self, address: u64) -> u64 {
        let starts = self.pieces[..self.count].iter().map(|(start, _)| *start);
        let beyond = starts.filter(|start| *start > address);
        beyond.min().unwrap_or(u64::MAX)
    }

    /// So many bytes from an address on, if one piece has them all.
    #[inline]
    pub fn bytes(&self, address: u64, len: usize) -> Option<&'a [u8]> {
        let offset = |&(start, _): &(u64, &[u8])| address.wrapping_sub(start);
        let has = |piece: &(u64, &'a [u8])| {
            let room = piece.1.len().checked_sub(len);
            room.is_some_and(|room| offset(piece) <= room as u64)
        };
        let pieces = &self.pieces[..self.count];
        let (before, from) = pieces.split_at(self.data.get().min(self.count));
        let number = match from.iter().position(has) {
            Some(behind) => before.len() + behind,
            None => before.iter().position(has)?,
        };
        self.data.set(number);
        let piece = &pieces[number];
        let start = offset(piece) as usize;
        piece.1.get(start..start + len)
    }
}

/// What a piece has from an address on.
#[inline]
pub(super) fn rest<'a>(&(start, piece): &(u64, &'a [u8]), address: u64) -> Option<&'a [u8]> {
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
