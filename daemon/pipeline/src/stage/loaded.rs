//! What a window has loaded in its last instructions, and has not stored to since.
//!
//! A window begins anywhere. So what it tells of a load reaches as far back for each of them: over
//! the [`REACH`] instructions before it.
//!
//! Memory may be mapped twice. Two addresses of one byte agree in their lowest twelve bits. So a
//! store casts doubt on what was loaded at the same place of any other page, and nobody has to be
//! asked.

/// How many instructions back a load is remembered. Loads that have fewer before them in their
/// window tell nothing.
pub(super) const REACH: u32 = 64;

/// Bytes of a piece of memory. Each has a bit.
const PIECE: u64 = 8;
/// Pieces of a page. Pieces that may be one at two addresses fall together.
const PLACES: usize = 512;
/// Pieces that are known at most.
const MOST: usize = 4096;
/// No piece.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The address of the first byte, a multiple of [`PIECE`].
    base: u64,
    /// The instruction that loaded each byte last.
    when: [u32; PIECE as usize],
    /// Bytes that were loaded and not stored to since.
    loaded: u8,
    /// Bytes that were loaded, and may have been stored to since.
    doubt: u8,
    /// The next piece at the same place.
    next: u16,
}

impl Piece {
    /// Those of some bytes that were loaded lately.
    fn lately(&self, set: u8, now: u32) -> u8 {
        let is_late = |i: usize| now.saturating_sub(self.when[i]) <= REACH;
        let bytes = (0..self.when.len()).filter(|i| set >> i & 1 != 0 && is_late(*i));
        bytes.fold(0, |found, i| found | 1 << i)
    }

    /// Whether some bytes were all loaded lately, and not stored to since.
    fn again(&self, set: u8, now: u32, missed: bool) -> Option<bool> {
        let loaded = self.lately(self.loaded & set, now);
        let doubt = self.lately(self.doubt & set, now);
        if loaded == set {
            Some(true)
        } else if loaded | doubt != set && !missed {
            Some(false)
        } else {
            None
        }
    }

    fn load(&mut self, set: u8, now: u32) {
        self.loaded |= set;
        self.doubt &= !set;
        for (i, when) in self.when.iter_mut().enumerate() {
            if set >> i & 1 != 0 {
                *when = now;
            }
        }
    }
}

/// What was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The newest piece at each place.
    places: Box<[u16; PLACES]>,
    pieces: Vec<Piece>,
    /// Number of the present instruction, from 1.
    pub(super) now: u32,
    /// The last instruction that may have loaded more than is known.
    missed: Option<u32>,
}

impl Default for Loaded {
    fn default() -> Self {
        Self {
            places: Box::new([NONE; PLACES]),
            pieces: Vec::new(),
            now: 0,
            missed: None,
        }
    }
}

/// The pieces that an access of at most 8 bytes touches: their bases, and their bytes in it.
fn touched(address: u64, bytes: u32) -> [(u64, u8); 2] {
    let offset = address % PIECE;
    let set = (1_u16 << bytes.min(8)) - 1;
    let [low, high] = (set << offset).to_le_bytes();
    let base = address - offset;
    [(base, low), (base.wrapping_add(PIECE), high)]
}

fn place(base: u64) -> usize {
    (base / PIECE) as usize % PLACES
}

impl Loaded {
    /// Makes it as new.
    pub(super) fn clear(&mut self) {
        if !self.pieces.is_empty() {
            *self.places = [NONE; PLACES];
            self.pieces.clear();
        }
        self.now = 0;
        self.missed = None;
    }

    /// A load; whether all of its bytes were loaded lately at their address, and not stored to
    /// since. `None`: nobody knows.
    pub(super) fn load(&mut self, address: Option<u64>, bytes: u32) -> Option<bool> {
        let now = self.now;
        let missed = self
            .missed
            .is_some_and(|at| now.saturating_sub(at) <= REACH);
        let Some(address) = address else {
            self.missed = Some(now);
            return None;
        };
        let mut again = Some(true);
        for (base, set) in touched(address, bytes) {
            if set == 0 {
                continue;
            }
            let of_piece = match self.piece(base) {
                Some(piece) => {
                    let is_again = piece.again(set, now, missed);
                    piece.load(set, now);
                    is_again
                }
                None => {
                    self.missed = Some(now);
                    None
                }
            };
            again = both(again, of_piece);
        }
        again
    }

    /// A store; `is_certain`: to all of these bytes.
    pub(super) fn store(&mut self, address: Option<u64>, bytes: u32, is_certain: bool) {
        let Some(address) = address else {
            return self.doubt_all();
        };
        for (base, set) in touched(address, bytes) {
            let mut at = self.places[place(base)];
            while let Some(piece) = self.pieces.get_mut(usize::from(at)) {
                if piece.base == base && is_certain {
                    piece.doubt &= !set;
                } else {
                    piece.doubt |= piece.loaded & set;
                }
                piece.loaded &= !set;
                at = piece.next;
            }
        }
    }

    /// More is loaded or stored than is told.
    pub(super) fn miss(&mut self) {
        self.missed = Some(self.now);
        self.doubt_all();
    }

    fn doubt_all(&mut self) {
        for piece in &mut self.pieces {
            piece.doubt |= piece.loaded;
            piece.loaded = 0;
        }
    }

    /// A piece; `None`: there are too many.
    fn piece(&mut self, base: u64) -> Option<&mut Piece> {
        let first = self.places[place(base)];
        let mut at = first;
        while let Some(piece) = self.pieces.get(usize::from(at)) {
            if piece.base == base {
                return self.pieces.get_mut(usize::from(at));
            }
            at = piece.next;
        }
        if self.pieces.len() >= MOST {
            return None;
        }
        // There are fewer than `NONE`.
        self.places[place(base)] = self.pieces.len() as u16;
        self.pieces.push(Piece {
            base,
            when: [0; PIECE as usize],
            loaded: 0,
            doubt: 0,
            next: first,
        });
        self.pieces.last_mut()
    }
}

/// Whether both hold.
pub(super) fn both(first: Option<bool>, second: Option<bool>) -> Option<bool> {
    match (first, second) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes count, also where a load touches two pieces.
    #[test]
    fn bytes() {
        let mut loaded = Loaded::default();
        assert_eq!(loaded.load(Some(0x1006), 4), Some(false));
        assert_eq!(loaded.load(Some(0x1008), 2), Some(true));
        assert_eq!(loaded.load(Some(0x1006), 4), Some(true));
        assert_eq!(loaded.load(Some(0x1005), 4), Some(false));
        assert_eq!(loaded.load(Some(0x1005), 5), Some(true));
        loaded.clear();
        assert_eq!(loaded.load(Some(0x1008), 2), Some(false));
    }

    /// A store to the same bytes ends it, one to others beside them does not.
    #[test]
    fn stores() {
        let mut loaded = Loaded::default();
        loaded.load(Some(0x1000), 8);
        loaded.store(Some(0x1008), 8, true);
        assert_eq!(loaded.load(Some(0x1000), 8), Some(true));
        loaded.store(Some(0x1007), 4, true);
        assert_eq!(loaded.load(Some(0x1000), 4), Some(true));
        assert_eq!(loaded.load(Some(0x1000), 8), Some(false));
        assert_eq!(loaded.load(Some(0x1000), 8), Some(true));
    }

    /// A store that may be to these bytes leaves it open: at an unknown address, at the same place
    /// of another page, and of what may not be stored.
    #[test]
    fn doubt() {
        for (address, is_certain) in [(None, true), (Some(0x7000), true), (Some(0x1000), false)] {
            let mut loaded = Loaded::default();
            loaded.load(Some(0x1000), 8);
            loaded.store(address, 8, is_certain);
            assert_eq!(loaded.load(Some(0x1000), 8), None);
            assert_eq!(loaded.load(Some(0x1000), 8), Some(true));
            // What was never loaded is no matter of stores.
            assert_eq!(loaded.load(Some(0x2008), 8), Some(false));
        }
    }

    /// Behind a load that nobody knows the address of, any load may be one again.
    #[test]
    fn untold() {
        let mut loaded = Loaded::default();
        loaded.load(Some(0x1000), 8);
        assert_eq!(loaded.load(None, 8), None);
        assert_eq!(loaded.load(Some(0x1000), 8), Some(true));
        assert_eq!(loaded.load(Some(0x2000), 8), None);
        loaded.miss();
        assert_eq!(loaded.load(Some(0x1000), 8), None);
    }

    /// A load is remembered for so many instructions, and so is one that nobody knows the address
    /// of.
    #[test]
    fn reach() {
        let mut loaded = Loaded::default();
        for (now, address, again) in [
            (1, Some(0x1000), Some(false)),
            (1 + REACH, Some(0x1000), Some(true)),
            (2 + 2 * REACH, Some(0x1000), Some(false)),
            (2 + 2 * REACH, None, None),
            (2 + 3 * REACH, Some(0x2000), None),
            (3 + 3 * REACH, Some(0x3000), Some(false)),
        ] {
            loaded.now = now;
            assert_eq!(loaded.load(address, 8), again, "{now}");
        }
    }

    /// What finds no room is not known.
    #[test]
    fn bounded() {
        let mut loaded = Loaded::default();
        for i in 0..MOST as u64 {
            assert_eq!(loaded.load(Some(8 * i), 8), Some(false));
        }
        assert_eq!(loaded.load(Some(8 * MOST as u64), 8), None);
        assert_eq!(loaded.load(Some(8 * MOST as u64), 8), None);
        assert_eq!(loaded.load(Some(0), 8), Some(true));
    }
}
