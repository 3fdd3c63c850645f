//! A bounded cache of decoded instructions.

use crate::decode::{Decoded, MAX_BYTES};
use crate::stop::StopReason;

/// Entries that a key may lie in.
const WAYS: usize = 4;

/// What an instruction is kept under.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    address: u64,
    space: u32,
    /// It was decoded from the bytes of a sample, which say nothing about those of the image.
    sampled: bool,
}

struct Entry {
    key: Key,
    /// The encoding of a sampled instruction, zeros behind it; of others it is not kept.
    bytes: [u8; MAX_BYTES],
    decoded: Decoded,
}

/// Bounded cache of decoded instructions keyed by (code space, image address).
///
/// A code space is whatever the host numbers so: an image, or the anonymous code of a process.
/// Code that cannot have changed is [decoded once](Self::get_or_decode). Code that can have been
/// written is [checked](Self::get_sampled) against its bytes as of the interrupt each time; the two
/// never serve each other, even for the same space. Memory is allocated once, when the cache is
/// made.
pub struct DecodeCache {
    /// Sets of `WAYS` entries; the number of sets is a power of two.
    entries: Vec<Option<Entry>>,
    len: usize,
    /// Which entry of a full set to give up next.
    turn: usize,
}

impl DecodeCache {
    /// A cache of at least one and about `capacity` instructions (rounded up to a power of two).
    pub fn new(capacity: usize) -> Self {
        let slots = capacity
            .max(WAYS)
            .checked_next_power_of_two()
            .unwrap_or(1 << 20);
        let mut entries = Vec::new();
        entries.resize_with(slots, || None);
        Self {
            entries,
            len: 0,
            turn: 0,
        }
    }

    /// The instruction at an image address. If it is not cached, `read` fills in the code from
    /// there on and says how many bytes it could; a failure is handed on and not cached.
    ///
    /// # Errors
    /// What `read` returns, [`StopReason::Undecodable`] or [`StopReason::TruncatedCode`].
    pub fn get_or_decode(
        &mut self,
        space: u32,
        address: u64,
        read: impl FnOnce(&mut [u8; MAX_BYTES]) -> Result<usize, StopReason>,
    ) -> Result<&Decoded, StopReason> {
        let key = Key {
            address,
            space,
            sampled: false,
        };
        let index = match self.find(key) {
            Some(index) => index,
            None => {
                let mut bytes = [0; MAX_BYTES];
                let len = read(&mut bytes)?.min(bytes.len());
                let decoded = Decoded::new(&bytes[..len], address)?;
                let bytes = [0; MAX_BYTES];
                self.put(Entry {
                    key,
                    bytes,
                    decoded,
                })
            }
        };
        Ok(self.at(index))
    }

    /// The instruction at an image address whose code, from there on, was `code` at the interrupt.
    /// One that is cached is served only if its bytes are the same; otherwise `code` is decoded and
    /// takes its place.
    ///
    /// # Errors
    /// [`StopReason::Undecodable`], or [`StopReason::TruncatedCode`] if the instruction is longer
    /// than `code`.
    pub fn get_sampled(
        &mut self,
        space: u32,
        address: u64,
        code: &[u8],
    ) -> Result<&Decoded, StopReason> {
        let key = Key {
            address,
            space,
            sampled: true,
        };
        let same = |entry: &Entry| code.starts_with(&entry.bytes[..entry.decoded.len()]);
        let held = self.find(key);
        let held = held.filter(|&index| self.entries[index].as_ref().is_some_and(same));
        let index = match held {
            Some(index) => index,
            None => {
                let decoded = Decoded::new(code, address)?;
                let mut bytes = [0; MAX_BYTES];
                let len = decoded.len();
                bytes[..len].copy_from_slice(&code[..len]);
                self.put(Entry {
                    key,
                    bytes,
                    decoded,
                })
            }
        };
        Ok(self.at(index))
    }

    /// Forgets every instruction of a code space.
    pub fn invalidate(&mut self, space: u32) {
        for entry in &mut self.entries {
            if entry.as_ref().is_some_and(|e| e.key.space == space) {
                *entry = None;
                self.len -= 1;
            }
        }
    }

    /// Number of instructions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn find(&self, key: Key) -> Option<usize> {
        let first = self.set_of(key);
        self.entries[first..first + WAYS]
            .iter()
            .position(|entry| entry.as_ref().is_some_and(|e| e.key == key))
            .map(|way| first + way)
    }

    /// Keeps an entry, in place of another of its key or, in a full set, of any; where it is now.
    fn put(&mut self, entry: Entry) -> usize {
        let first = self.set_of(entry.key);
        let index = self.find(entry.key).unwrap_or_else(|| {
            let set = &self.entries[first..first + WAYS];
            match set.iter().position(Option::is_none) {
                Some(way) => {
                    self.len += 1;
                    first + way
                }
                None => {
                    self.turn = (self.turn + 1) % WAYS;
                    first + self.turn
                }
            }
        });
        self.entries[index] = Some(entry);
        index
    }

    fn at(&self, index: usize) -> &Decoded {
        match &self.entries[index] {
            Some(entry) => &entry.decoded,
            None => unreachable!("the entry was found or filled just before"),
        }
    }

    /// Index of the first entry of the set that a key belongs to.
    fn set_of(&self, key: Key) -> usize {
        let mixed = key.address ^ u64::from(key.space).rotate_left(40);
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let sets = self.entries.len() / WAYS;
        (hash as usize & (sets - 1)) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::DecodeCache;
    use crate::StopReason;

    fn nop(bytes: &mut [u8; 15]) -> Result<usize, StopReason> {
        bytes[0] = 0x90;
        Ok(1)
    }

    /// A cached instruction is not read again until its space is invalidated.
    #[test]
    fn decodes_once() {
        let mut cache = DecodeCache::new(64);
        assert_eq!(cache.get_or_decode(1, 0x1000, nop).map(|d| d.len()), Ok(1));
        assert!(
            cache
                .get_or_decode(1, 0x1000, |_| Err(StopReason::ProcessGone))
                .is_ok()
        );
        assert!(
            cache
                .get_or_decode(2, 0x1000, |_| Err(StopReason::ProcessGone))
                .is_err()
        );
        cache.invalidate(1);
        assert!(cache.is_empty());
        assert!(
            cache
                .get_or_decode(1, 0x1000, |_| Err(StopReason::ProcessGone))
                .is_err()
        );
    }

    /// However many instructions come by, the cache stays within its size.
    #[test]
    fn stays_bounded() {
        let mut cache = DecodeCache::new(100);
        for address in 0..10_000 {
            assert!(cache.get_or_decode(0, address, nop).is_ok());
        }
        assert!(cache.len() <= 128);
    }

    /// A read that fails, yields nothing, or claims too much never panics.
    #[test]
    fn bad_reads_are_errors() {
        let mut cache = DecodeCache::new(4);
        assert_eq!(
            cache.get_or_decode(0, 0, |_| Ok(0)).err(),
            Some(StopReason::TruncatedCode)
        );
        let claim = cache.get_or_decode(0, 0, |b| nop(b).map(|_| usize::MAX));
        assert_eq!(claim.map(|d| d.len()), Ok(1));
        assert_eq!(cache.len(), 1);
    }

    /// Code that was rewritten between two samples is decoded anew, and only then.
    #[test]
    fn sampled_code_is_checked() -> Result<(), StopReason> {
        use iced_x86::Mnemonic;
        let mut cache = DecodeCache::new(64);
        let mut mnemonic = |code: &[u8]| {
            let decoded = cache.get_sampled(7, 0x10, code)?;
            Ok(decoded.instruction().mnemonic())
        };
        assert_eq!(mnemonic(&[0x90])?, Mnemonic::Nop);
        assert_eq!(mnemonic(&[0xc3, 0x90])?, Mnemonic::Ret);
        assert_eq!(mnemonic(&[0xc3, 0xcc])?, Mnemonic::Ret);
        // Longer than what was cached, shorter, and one byte of its operand changed.
        assert_eq!(mnemonic(&[0x83, 0xc0, 1])?, Mnemonic::Add);
        assert_eq!(mnemonic(&[0x83, 0xe8, 1])?, Mnemonic::Sub);
        assert_eq!(mnemonic(&[0x83, 0xe8]), Err(StopReason::TruncatedCode));
        assert_eq!(mnemonic(&[]), Err(StopReason::TruncatedCode));
        assert_eq!(mnemonic(&[0x06; 2]), Err(StopReason::Undecodable));
        assert_eq!(mnemonic(&[0x83, 0xe8, 1])?, Mnemonic::Sub);
        assert_eq!(cache.len(), 1);
        Ok(())
    }

    /// What a sample showed at an address of an image is not what the image has there, and the
    /// other way round.
    #[test]
    fn sampled_code_is_apart() -> Result<(), StopReason> {
        let mut cache = DecodeCache::new(64);
        let patched = cache.get_sampled(1, 0x10, &[0xe9, 1, 2, 3, 4])?.len();
        let original = cache.get_or_decode(1, 0x10, nop)?.len();
        assert_eq!((patched, original), (5, 1));
        assert_eq!(cache.get_sampled(1, 0x10, &[0xe9, 1, 2, 3, 4])?.len(), 5);
        assert_eq!(cache.len(), 2);
        cache.invalidate(1);
        assert!(cache.is_empty());
        Ok(())
    }
}
