//! A bounded cache of decoded instructions.

use std::hash::BuildHasher;
use std::mem::offset_of;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use instructions::MAX_BYTES;

use crate::code::CODE_BYTES;
use crate::decode::{Decoded, HOT_BYTES};
use crate::processor::Processor;
use crate::stop::StopReason;

/// What an instruction is kept under.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    address: u64,
    /// The code space, and above it where the bytes are from.
    place: u64,
}

/// Bytes of the image.
const IMAGE: u64 = 1 << 32;
/// Bytes of a sample, which say nothing about those of the image.
const SAMPLE: u64 = 2 << 32;

impl Key {
    /// The key of an entry without an instruction.
    const NONE: Self = Self {
        address: 0,
        place: 0,
    };

    fn new(space: u32, address: u64, origin: u64) -> Self {
        Self {
            address,
            place: u64::from(space) | origin,
        }
    }

    fn hash(&self) -> u64 {
        FxBuildHasher.hash_one(self)
    }
}

/// A place for an instruction: what a window needs of most lies together, in two cache lines.
#[repr(C, align(64))]
struct CachedInstruction {
    key: Key,
    /// The encoding of the instruction, zeros behind it.
    bytes: [u8; CODE_BYTES],
    /// The entries that were asked for next, the last times: windows run through the same code
    /// again and again, and a branch leads to two places.
    next: [u32; 2],
    decoded: Decoded,
}

const _: () = assert!(
    size_of::<CachedInstruction>() == 192
        && offset_of!(CachedInstruction, decoded) + HOT_BYTES <= 128
);

/// Bytes that are compared at once.
const WORD: usize = 8;

impl CachedInstruction {
    /// Whether these bytes begin with the instruction's.
    #[inline(always)]
    fn is_start_of(&self, code: &[u8]) -> bool {
        let len = self.decoded.len();
        let bytes = &self.bytes[..len % CODE_BYTES];
        let Some(start) = code.get(..len) else {
            return false;
        };
        if len >= WORD {
            return start.first_chunk::<WORD>() == bytes.first_chunk()
                && start.last_chunk::<WORD>() == bytes.last_chunk();
        }
        let Some(word) = code.first_chunk() else {
            return start == bytes;
        };
        let differing = u64::from_le_bytes(*word) ^ self.first_word();
        // What is not the instruction's is shifted out.
        differing << (u64::BITS as usize - 8 * len) == 0
    }

    fn first_word(&self) -> u64 {
        let word = self.bytes.first_chunk();
        u64::from_le_bytes(*word.unwrap_or(&[0; WORD]))
    }
}

/// Where an instruction is held, until the cache is asked for another.
#[derive(Clone, Copy, Debug)]
pub struct Held(usize);

impl Held {
    /// The number of the entry, at most the cache's capacity.
    pub fn number(self) -> u32 {
        // There are at most 2^24.
        self.0 as u32
    }
}

/// Bounded cache of decoded instructions keyed by (code space, image address).
///
/// A code space is whatever the host numbers so: an image, or the anonymous code of a process.
/// Code that cannot have changed is [decoded once](Self::get_or_decode). Code that can have been
/// written is [checked](Self::get_sampled) against its bytes as of the interrupt each time; the two
/// never serve each other, even for the same space. Memory is allocated once, when the cache is
/// made, and used as instructions come: in the order in which windows first run through them, so
/// that what is used together lies together.
pub struct DecodeCache {
    /// Where the instruction of a key is: its number alone, so that what is looked through is
    /// small, and what is looked at besides is the instruction that is asked for.
    places: HashTable<u32>,
    entries: Vec<CachedInstruction>,
    /// Entries to be used.
    capacity: usize,
    /// The entry that was asked for last.
    last: usize,
    /// The entries that were asked for behind the last one, as the last one has them.
    next: [u32; 2],
    /// The entry that was asked for last while [browsing](Self::browse); while browsing, the one
    /// that was asked for last before.
    other_last: usize,
    browsing: bool,
    /// Which entry to give up next when all are used.
    turn: usize,
    /// Instructions decoded so far.
    decoded: u64,
    /// What instructions there are.
    processor: Processor,
}

impl DecodeCache {
    /// A cache of at least one and at most `capacity` instructions (no more than 2^24).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 24);
        // Before anything was asked for, that was the last.
        let none = CachedInstruction {
            key: Key::NONE,
            bytes: [0; CODE_BYTES],
            next: [0; 2],
            decoded: Decoded::filler(),
        };
        let mut entries = Vec::with_capacity(capacity + 1);
        entries.push(none);
        Self {
            places: HashTable::with_capacity(capacity),
            entries,
            capacity,
            last: 0,
            next: [0; 2],
            other_last: 0,
            browsing: false,
            turn: 0,
            decoded: 0,
            processor: Processor::with_everything(),
        }
    }

    /// Windows are to end before instructions that this processor does not have. What was decoded
    /// before is left as it is.
    pub fn set_processor(&mut self, processor: Processor) {
        self.processor = processor;
    }

    /// The instruction at an image address. If it is not cached, `read` fills in the code from
    /// there on and says how many bytes it could; a failure is handed on and not cached.
    ///
    /// # Errors
    /// What `read` returns, [`StopReason::Undecodable`] or [`StopReason::TruncatedCode`].
    #[inline]
    pub fn get_or_decode(
        &mut self,
        space: u32,
        address: u64,
        read: impl FnOnce(&mut [u8; MAX_BYTES]) -> Result<usize, StopReason>,
    ) -> Result<&Decoded, StopReason> {
        let held = self.hold_or_decode(space, address, read)?;
        Ok(self.get(held))
    }

    /// Where the cache holds the instruction that [`get_or_decode`](Self::get_or_decode) gives.
    ///
    /// # Errors
    /// Those of [`get_or_decode`](Self::get_or_decode).
    #[inline]
    pub fn hold_or_decode(
        &mut self,
        space: u32,
        address: u64,
        read: impl FnOnce(&mut [u8; MAX_BYTES]) -> Result<usize, StopReason>,
    ) -> Result<Held, StopReason> {
        if let Some(held) = self.find_decoded(space, address) {
            return Ok(held);
        }
        let key = Key::new(space, address, IMAGE);
        let mut bytes = [0; MAX_BYTES];
        let len = read(&mut bytes)?.min(bytes.len());
        let decoded = Decoded::new(&bytes[..len], address)?.on(&self.processor);
        let len = decoded.len();
        let index = self.put(key, decoded);
        self.entries[index].bytes[..len].copy_from_slice(&bytes[..len]);
        Ok(Held(index))
    }

    /// Where the cache holds the instruction at an image address, if the cache has it.
    #[inline]
    pub fn find_decoded(&mut self, space: u32, address: u64) -> Option<Held> {
        self.find(Key::new(space, address, IMAGE)).map(Held)
    }

    /// The instruction at an image address whose code, from there on, was `code` at the interrupt.
    /// One that is cached is served only if its bytes are the same; otherwise `code` is decoded and
    /// takes its place.
    ///
    /// # Errors
    /// [`StopReason::Undecodable`], or [`StopReason::TruncatedCode`] if the instruction is longer
    /// than `code`.
    #[inline]
    pub fn get_sampled(
        &mut self,
        space: u32,
        address: u64,
        code: &[u8],
    ) -> Result<&Decoded, StopReason> {
        let held = self.hold_sampled(space, address, code)?;
        Ok(self.get(held))
    }

    /// Where the cache holds the instruction that [`get_sampled`](Self::get_sampled) gives, for
    /// those who have to ask for another if there is none.
    ///
    /// # Errors
    /// Those of [`get_sampled`](Self::get_sampled).
    #[inline]
    pub fn hold_sampled(
        &mut self,
        space: u32,
        address: u64,
        code: &[u8],
    ) -> Result<Held, StopReason> {
        match self.find_sampled(space, address, code) {
            Some(held) => Ok(held),
            None => self.decode_sampled(Key::new(space, address, SAMPLE), code),
        }
    }

    /// The bytes of the instruction at an image address as of the last interrupt that found it
    /// there, if it is held.
    pub fn sampled_code(&mut self, space: u32, address: u64) -> Option<&[u8]> {
        let index = self.find(Key::new(space, address, SAMPLE))?;
        let entry = &self.entries[index];
        entry.bytes.get(..entry.decoded.len())
    }

    /// Where the cache holds the instruction with this code, if the cache has it.
    #[inline(always)]
    pub fn find_sampled(&mut self, space: u32, address: u64, code: &[u8]) -> Option<Held> {
        let key = Key::new(space, address, SAMPLE);
        for hint in self.next {
            let entry = &self.entries[hint as usize];
            if entry.key == key && entry.is_start_of(code) {
                (self.last, self.next) = (hint as usize, entry.next);
                return Some(Held(hint as usize));
            }
        }
        self.find_sampled_elsewhere(key, code)
    }

    /// Finds an instruction that did not come next the last times.
    #[cold]
    #[inline(never)]
    fn find_sampled_elsewhere(&mut self, key: Key, code: &[u8]) -> Option<Held> {
        let index = self.find(key)?;
        self.entries[index].is_start_of(code).then_some(Held(index))
    }

    #[cold]
    #[inline(never)]
    fn decode_sampled(&mut self, key: Key, code: &[u8]) -> Result<Held, StopReason> {
        let decoded = Decoded::new(code, key.address)?.on(&self.processor);
        let len = decoded.len();
        let index = self.put(key, decoded);
        self.entries[index].bytes[..len].copy_from_slice(&code[..len]);
        Ok(Held(index))
    }

    /// A window begins: its first instruction has nothing to do with the last one of the window
    /// before, but windows begin where others began.
    pub fn begin(&mut self) {
        // As before anything was asked for.
        (self.last, self.next) = (0, self.entries[0].next);
    }

    /// From now on what is asked for is no window's way, or is one again: what windows go by is
    /// left alone meanwhile.
    pub fn browse(&mut self, browsing: bool) {
        if self.browsing != browsing {
            self.browsing = browsing;
            std::mem::swap(&mut self.last, &mut self.other_last);
            self.next = self.entries[self.last].next;
        }
    }

    /// Whether what was found there is an instruction at this image address still, whatever else
    /// was asked for since.
    #[inline]
    pub fn is_at(&self, held: Held, address: u64) -> bool {
        self.entries[held.0].key.address == address
    }

    /// How many instructions were decoded so far.
    #[inline]
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// The bytes that an instruction was decoded from, with zeros behind them.
    pub fn bytes_of(&self, held: Held) -> &[u8; CODE_BYTES] {
        &self.entries[held.0].bytes
    }

    /// The instruction of an entry.
    #[inline]
    pub fn get(&self, held: Held) -> &Decoded {
        &self.entries[held.0].decoded
    }

    /// Forgets every instruction of a code space.
    pub fn invalidate(&mut self, space: u32) {
        let entries = &self.entries;
        self.places
            .retain(|index| entries[*index as usize].key.place as u32 != space);
        for entry in &mut self.entries {
            if entry.key.place as u32 == space {
                entry.key = Key::NONE;
            }
        }
    }

    /// Bytes that it takes when it is full, to a few percent.
    pub fn bytes(&self) -> usize {
        let place = size_of::<u32>() + 1;
        self.entries.capacity() * size_of::<CachedInstruction>()
            + self.places.capacity() / 7 * 8 * place
    }

    /// Number of instructions held.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn find(&mut self, key: Key) -> Option<usize> {
        for hint in self.next {
            let entry = &self.entries[hint as usize];
            if entry.key == key {
                (self.last, self.next) = (hint as usize, entry.next);
                return Some(hint as usize);
            }
        }
        // Code lies as it was first run through.
        let behind = self.last + 1;
        let index = match self.entries.get(behind) {
            Some(entry) if entry.key == key => behind,
            _ => self.place_of(key)?,
        };
        self.follow(index);
        Some(index)
    }

    fn place_of(&self, key: Key) -> Option<usize> {
        let is_key = |index: &u32| self.entries[*index as usize].key == key;
        let index = self.places.find(key.hash(), is_key)?;
        Some(*index as usize)
    }

    /// Remembers that this entry came behind the last.
    fn follow(&mut self, index: usize) {
        if !self.browsing {
            // There are at most 2^24.
            self.entries[self.last].next = [index as u32, self.next[0]];
        }
        (self.last, self.next) = (index, self.entries[index].next);
    }

    /// Keeps an instruction, in place of another of its key or, when all entries are used, of the
    /// one that was kept first; where it is now.
    fn put(&mut self, key: Key, decoded: Decoded) -> usize {
        self.decoded += 1;
        let index = match self.place_of(key) {
            Some(index) => index,
            None => self.place(key),
        };
        let entry = &mut self.entries[index];
        (entry.key, entry.bytes, entry.decoded) = (key, [0; CODE_BYTES], decoded);
        self.follow(index);
        index
    }

    /// A place for an instruction that is not held.
    fn place(&mut self, key: Key) -> usize {
        let index = if self.entries.len() <= self.capacity {
            self.entries.push(CachedInstruction {
                key,
                bytes: [0; CODE_BYTES],
                next: [0; 2],
                decoded: Decoded::filler(),
            });
            self.entries.len() - 1
        } else {
            self.turn = self.turn % self.capacity + 1;
            let (old, turn) = (self.entries[self.turn].key, self.turn as u32);
            let is_turn = |index: &u32| *index == turn;
            if let Ok(place) = self.places.find_entry(old.hash(), is_turn) {
                place.remove();
            }
            self.turn
        };
        self.entries[index].key = key;
        let entries = &self.entries;
        // There are at most 2^24.
        self.places
            .insert_unique(key.hash(), index as u32, |index| {
                entries[*index as usize].key.hash()
            });
        index
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
        assert_eq!(cache.len(), 100);
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
