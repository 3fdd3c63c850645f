//! A bounded cache of decoded instructions.

use crate::decode::Decoded;
use crate::stop::StopReason;

/// Entries that a key may lie in.
const WAYS: usize = 4;

struct Entry {
    space: u32,
    address: u64,
    decoded: Decoded,
}

/// Bounded cache of decoded instructions keyed by (code space, image address).
///
/// A code space is whatever the host numbers so: an image, or the anonymous code of a process.
/// Memory is allocated once, when the cache is made.
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
        read: impl FnOnce(&mut [u8; 15]) -> Result<usize, StopReason>,
    ) -> Result<&Decoded, StopReason> {
        let first = self.set_of(space, address);
        let set = &self.entries[first..first + WAYS];
        let held = set.iter().position(|e| {
            e.as_ref()
                .is_some_and(|e| e.space == space && e.address == address)
        });
        let index = match held {
            Some(way) => first + way,
            None => {
                let mut bytes = [0; 15];
                let len = read(&mut bytes)?.min(bytes.len());
                let decoded = Decoded::new(&bytes[..len], address)?;
                let way = match set.iter().position(Option::is_none) {
                    Some(way) => {
                        self.len += 1;
                        way
                    }
                    None => {
                        self.turn = (self.turn + 1) % WAYS;
                        self.turn
                    }
                };
                self.entries[first + way] = Some(Entry {
                    space,
                    address,
                    decoded,
                });
                first + way
            }
        };
        match &self.entries[index] {
            Some(entry) => Ok(&entry.decoded),
            None => unreachable!("the entry was found or filled above"),
        }
    }

    /// Forgets every instruction of a code space.
    pub fn invalidate(&mut self, space: u32) {
        for entry in &mut self.entries {
            if entry.as_ref().is_some_and(|e| e.space == space) {
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

    /// Index of the first entry of the set that a key belongs to.
    fn set_of(&self, space: u32, address: u64) -> usize {
        let key = address ^ u64::from(space).rotate_left(40);
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
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
}
