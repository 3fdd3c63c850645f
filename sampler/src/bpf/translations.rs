//! The maps of translated code, which the handler reads while they are written.
//!
//! What stands in them is advice: it says which memory to read. So nothing here is kept from being
//! read half written, and what finds no place near its own takes another's.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::MapHandle;

use super::layout::{self, ENTRIES, ROW_BYTES, SPACES, UOPS};
use crate::sys::Words;
use crate::{Error, ProcessKey, Row};

/// Words of a micro-operation.
const UOP_WORDS: usize = 2;
/// Words of a `struct entry`.
const ENTRY_WORDS: usize = 3;
/// Words of a `struct space`.
const SPACE_WORDS: usize = 5;
/// Which word of a space is its page.
const PAGE: usize = 2;
/// Slots that one may be in. As in `bpf/shared.h`.
const PROBES: u64 = 4;
/// All that a process's code loads is to be read a second time.
const AGAIN: u64 = 1 << 63;

/// Translated code, where its instructions begin, and in which processes it lies where.
#[derive(Debug)]
pub(crate) struct Translations<M = Words> {
    uops: M,
    entries: M,
    spaces: M,
    /// Whom the next one takes the place of that finds none.
    turn: u64,
}

impl Translations {
    /// Those of three maps.
    pub(crate) fn map(
        uops: &MapHandle,
        entries: &MapHandle,
        spaces: &MapHandle,
    ) -> Result<Self, Error> {
        let words = |map: &MapHandle, count: u32, words: usize| {
            Words::map(map.as_fd(), count as usize * words).map_err(|source| Error::Os {
                what: "map the handler's translated code",
                source,
            })
        };
        Ok(Self {
            uops: words(uops, UOPS, UOP_WORDS)?,
            entries: words(entries, ENTRIES, ENTRY_WORDS)?,
            spaces: words(spaces, SPACES, SPACE_WORDS)?,
            turn: 0,
        })
    }
}

impl<M: Deref<Target = [AtomicU64]>> Translations<M> {
    /// Writes a micro-operation to its place, if there is one of that number.
    pub(crate) fn put_uop(&self, at: u32, bytes: &[u8; 16]) {
        let (words, _) = bytes.as_chunks();
        let first = at as usize * UOP_WORDS;
        for (place, word) in self.uops.iter().skip(first).zip(words) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// Says where the translation of an instruction begins, and its unwind row.
    pub(crate) fn put_entry(&mut self, image: u32, address: u64, at: u32, row: Option<Row>) {
        let key = entry_key(image, address);
        let count = (self.entries.len() / ENTRY_WORDS) as u64;
        let row: [u8; ROW_BYTES] = layout::row(row);
        let [a, b, c, d, rest @ ..] = row;
        let first = u64::from(at) | u64::from(u32::from_ne_bytes([a, b, c, d])) << 32;
        let slots = slots(mixed(key), count);
        let has = |slot: &usize, wanted: u64| {
            self.entries[slot * ENTRY_WORDS].load(Ordering::Relaxed) == wanted
        };
        let slot = slots.clone().find(|slot| has(slot, key));
        let slot = slot.or_else(|| slots.clone().find(|slot| has(slot, 0)));
        let slot = slot.unwrap_or_else(|| self.any_of(slots));
        let words = &self.entries[slot * ENTRY_WORDS..][..ENTRY_WORDS];
        words[0].store(0, Ordering::Relaxed);
        words[1].store(first, Ordering::Release);
        words[2].store(u64::from_ne_bytes(rest), Ordering::Relaxed);
        words[0].store(key, Ordering::Release);
    }

    /// Says of which image a page of code in a process is.
    pub(crate) fn put_space(
        &mut self,
        process: ProcessKey,
        page: u64,
        image: u32,
        bias: u64,
        again: bool,
    ) {
        let count = (self.spaces.len() / SPACE_WORDS) as u64;
        let key = space_key(process, page);
        let slots = slots(space_mixed(&key), count);
        let of = |slot: usize| &self.spaces[slot * SPACE_WORDS..][..SPACE_WORDS];
        let is = |slot: &usize| {
            let words = of(*slot);
            (0..3).all(|index| words[index].load(Ordering::Relaxed) == key[index])
        };
        let is_free = |slot: &usize| of(*slot)[PAGE].load(Ordering::Relaxed) == 0;
        let slot = slots.clone().find(is);
        let slot = slot.or_else(|| slots.clone().find(is_free));
        let slot = slot.unwrap_or_else(|| self.any_of(slots));
        let words = &self.spaces[slot * SPACE_WORDS..][..SPACE_WORDS];
        words[PAGE].store(0, Ordering::Release);
        words[0].store(key[0], Ordering::Release);
        words[1].store(key[1], Ordering::Relaxed);
        words[3].store(bias, Ordering::Relaxed);
        let image = u64::from(image) | if again { AGAIN } else { 0 };
        words[4].store(image, Ordering::Relaxed);
        words[PAGE].store(page, Ordering::Release);
    }

    /// Forgets a page of a process, if it is there.
    pub(crate) fn remove_space(&self, process: ProcessKey, page: u64) {
        let count = (self.spaces.len() / SPACE_WORDS) as u64;
        let key = space_key(process, page);
        for slot in slots(space_mixed(&key), count) {
            let words = &self.spaces[slot * SPACE_WORDS..][..SPACE_WORDS];
            if (0..3).all(|index| words[index].load(Ordering::Relaxed) == key[index]) {
                words[PAGE].store(0, Ordering::Release);
            }
        }
    }

    /// Forgets all entries, so that other code can be translated in the place of what there is.
    pub(crate) fn clear_entries(&self) {
        for words in self.entries.chunks(ENTRY_WORDS) {
            words[0].store(0, Ordering::Relaxed);
        }
    }

    fn any_of(&mut self, mut slots: impl Iterator<Item = usize>) -> usize {
        self.turn = self.turn.wrapping_add(1);
        slots.nth((self.turn % PROBES) as usize).unwrap_or(0)
    }
}

/// Numbers of the slots that one may be in.
fn slots(mixed: u64, count: u64) -> impl Iterator<Item = usize> + Clone {
    (0..PROBES).map(move |index| (mixed.wrapping_add(index) & (count - 1)) as usize)
}

/// `image << 40` and the address in it.
fn entry_key(image: u32, address: u64) -> u64 {
    u64::from(image) << 40 | address & ((1 << 40) - 1)
}

fn space_key(process: ProcessKey, page: u64) -> [u64; 3] {
    let ids = u64::from(process.exec_count) << 32 | u64::from(process.tgid);
    [ids, process.start_time, page]
}

fn space_mixed(&[ids, start_time, page]: &[u64; 3]) -> u64 {
    // The casts pick the halves.
    let (tgid, exec_count) = (ids as u32, (ids >> 32) as u32);
    mixed(page ^ start_time ^ u64::from(exec_count) << 40 ^ u64::from(tgid) << 20)
}

/// As `mixed_word` in `bpf/shared.h`.
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ word >> 32
}
