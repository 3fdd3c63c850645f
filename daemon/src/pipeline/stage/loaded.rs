//! What a window has loaded, and has not stored to since.
//!
//! Memory may be mapped twice. Two addresses of one byte agree in their lowest twelve bits. So a
//! store casts doubt on what was loaded at the same place of any other page, and nobody has to be
//! asked.

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
    /// Bytes that were loaded and not stored to since.
    loaded: u8,
    /// Bytes that were loaded, and may have been stored to since.
    doubt: u8,
    /// The next piece at the same place.
    next: u16,
}

/// What was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The newest piece at each place.
    places: Box<[u16; PLACES]>,
    pieces: Vec<Piece>,
    /// More may have been loaded than is known.
    missed: bool,
}

impl Default for Loaded {
    fn default() -> Self {
        Self {
            places: Box::new([NONE; PLACES]),
            pieces: Vec::new(),
            missed: false,
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
        self.missed = false;
    }

    /// A load; whether all of its bytes were loaded before at their address, and not stored to
    /// since. `None`: nobody knows.
    pub(super) fn load(&mut self, address: Option<u64>, bytes: u32) -> Option<bool> {
        let Some(address) = address else {
            self.missed = true;
            return None;
        };
        let mut again = Some(true);
        for (base, set) in touched(address, bytes) {
            if set == 0 {
                continue;
            }
            let Some(index) = self.piece(base) else {
                self.missed = true;
                again = None;
                continue;
            };
            let missed = self.missed;
            let piece = &mut self.pieces[index];
            let is_again = if set & !piece.loaded == 0 {
                Some(true)
            } else if set & !(piece.loaded | piece.doubt) != 0 && !missed {
                Some(false)
            } else {
                None
            };
            piece.loaded |= set;
            piece.doubt &= !set;
            again = super::accesses::both(again, is_again);
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
        self.missed = true;
        self.doubt_all();
    }

    fn doubt_all(&mut self) {
        for piece in &mut self.pieces {
            piece.doubt |= piece.loaded;
            piece.loaded = 0;
        }
    }

    /// The index of a piece; `None`: there are too many.
    fn piece(&mut self, base: u64) -> Option<usize> {
        let first = &mut self.places[place(base)];
        let mut at = *first;
        while let Some(piece) = self.pieces.get(usize::from(at)) {
            if piece.base == base {
                return Some(usize::from(at));
            }
            at = piece.next;
        }
        let new = self.pieces.len();
        if new >= MOST {
            return None;
        }
        self.pieces.push(Piece {
            base,
            loaded: 0,
            doubt: 0,
            next: *first,
        });
        // There are fewer than `NONE`.
        *first = new as u16;
        Some(new)
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
