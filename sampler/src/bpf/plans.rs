//! The map of plans, which the handler reads while it is written.
//!
//! Each plan lies in one of two slots, whose numbers follow from its key (`numbers_of` in
//! `bpf/shared.h`), so that the handler needs to look at two lines of the cache at most. Where both
//! are taken, those who have them move on to their other ones, as in cuckoo hashing (Pagh and
//! Rodler, 2001), or one of them is given up that was not used of late.

use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libbpf_rs::{MapCore, MapHandle};

use super::layout::{PLACE_BYTES, PLAN_BYTES, PLAN_VALUE_BYTES};
use crate::sys::Words;
use crate::{Error, Share};

/// Words of a `struct plan_value`.
const SLOT_WORDS: usize = PLAN_VALUE_BYTES / 8;
/// Of its key, the last one of which is the address.
const KEY_WORDS: usize = PLACE_BYTES / 8;
const ADDRESS: usize = KEY_WORDS - 1;
/// The word whose lower half is the tag, behind the key and the load bias.
const TAG: usize = KEY_WORDS + 1;
/// Where the plan itself begins.
const PLAN: usize = SLOT_WORDS - PLAN_BYTES / 8;
/// The word whose lower half is the share, and whose upper half says that it was used.
const SHARE_AND_USED: usize = 6;
const USED: u64 = 1 << 32;
/// No code lies there.
const NOWHERE: u64 = u64::MAX;
/// How many plans move for the sake of one.
const MOVES: usize = 8;

type Key = [u64; KEY_WORDS];

/// The plans that the handler has.
#[derive(Debug)]
pub(crate) struct Plans<M = Words> {
    /// Of a number of slots that is a power of two.
    words: M,
    slots: u64,
    evicted: u64,
}

impl Plans {
    /// Those of a map.
    pub(crate) fn map(map: &MapHandle) -> Result<Self, Error> {
        let slots = map.max_entries() as usize;
        let words = Words::map(map.as_fd(), slots * SLOT_WORDS).map_err(|source| Error::Os {
            what: "map the handler's plans",
            source,
        })?;
        Ok(Self::new(words))
    }
}

impl<M: Deref<Target = [AtomicU64]>> Plans<M> {
    fn new(words: M) -> Self {
        let slots = (words.len() / SLOT_WORDS) as u64;
        debug_assert!(slots.is_power_of_two(), "a number is masked");
        Self {
            words,
            slots,
            evicted: 0,
        }
    }

    /// Puts a `struct plan_value` with this key.
    pub(crate) fn put(&mut self, key: &[u8; PLACE_BYTES], value: &[u8; PLAN_VALUE_BYTES]) {
        let key = words_of(key);
        let slot = self.find(&key).unwrap_or_else(|| self.free_slot(&key));
        self.write(slot, &words_of(value));
    }

    /// Puts another share into a plan, if it is there.
    pub(crate) fn set_share(&mut self, key: &[u8; PLACE_BYTES], share: Share) {
        if let Some(slot) = self.find(&words_of(key)) {
            let word = &self.slot(slot)[SHARE_AND_USED];
            word.store(u64::from(share.0) | USED, Ordering::Relaxed);
        }
    }

    /// Gives a plan up, if it is there.
    pub(crate) fn remove(&mut self, key: &[u8; PLACE_BYTES]) {
        if let Some(slot) = self.find(&words_of(key)) {
            self.clear(slot);
        }
    }

    /// The tag of a plan and what is evaluated, if it is there.
    pub(crate) fn get(&self, key: &[u8; PLACE_BYTES]) -> Option<(u32, Vec<u8>)> {
        let words: [_; SLOT_WORDS] = self.first_words(self.find(&words_of(key))?);
        let plan = words[PLAN..].iter().flat_map(|word| word.to_ne_bytes());
        // The cast picks the lower half.
        Some((words[TAG] as u32, plan.collect()))
    }

    /// Plans that gave way to others so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The slots of a key.
    fn slots(&self, key: &Key) -> [usize; 2] {
        let numbers = numbers_of(key);
        [numbers >> 32, numbers].map(|number| (number & (self.slots - 1)) as usize)
    }

    /// The words of a slot.
    fn slot(&self, slot: usize) -> &[AtomicU64] {
        &self.words[slot * SLOT_WORDS..][..SLOT_WORDS]
    }

    /// So many words of a slot, from the first one on.
    fn first_words<const WORDS: usize>(&self, slot: usize) -> [u64; WORDS] {
        let words = self.slot(slot);
        std::array::from_fn(|index| words[index].load(Ordering::Relaxed))
    }

    fn key(&self, slot: usize) -> Key {
        self.first_words(slot)
    }

    fn is_free(&self, slot: usize) -> bool {
        let address = self.slot(slot)[ADDRESS].load(Ordering::Relaxed);
        address == NOWHERE || address == 0
    }

    /// Whether the handler had no use for what is in a slot since it was last asked to show it.
    fn is_idle(&self, slot: usize) -> bool {
        self.slot(slot)[SHARE_AND_USED].load(Ordering::Relaxed) & USED == 0
    }

    fn find(&self, key: &Key) -> Option<usize> {
        let slots = self.slots(key);
        slots.into_iter().find(|slot| self.key(*slot) == *key)
    }

    /// A slot for a key; who has it moves, or is given up.
    fn free_slot(&mut self, key: &Key) -> usize {
        let slots = self.slots(key);
        let is_freed = |slot: &usize| self.frees(*slot, MOVES, &|slot| self.is_free(slot));
        if let Some(slot) = slots.into_iter().find(is_freed) {
            return slot;
        }
        self.evicted += 1;
        let is_freed = |slot: &usize| self.frees(*slot, MOVES, &|slot| self.is_idle(slot));
        slots.into_iter().find(is_freed).unwrap_or_else(|| {
            for slot in slots {
                self.slot(slot)[SHARE_AND_USED].fetch_and(!USED, Ordering::Relaxed);
            }
            slots[(self.evicted % 2) as usize]
        })
    }

    /// Whether a slot is one to be had, or becomes it: who is in it moves to the other one of its key,
    /// where another may have to move in turn.
    fn frees(&self, slot: usize, moves: usize, may_be_had: &impl Fn(usize) -> bool) -> bool {
        if may_be_had(slot) {
            return true;
        }
        let [one, other] = self.slots(&self.key(slot));
        let to = if one == slot { other } else { one };
        if to == slot || moves == 0 || !self.frees(to, moves - 1, may_be_had) {
            return false;
        }
        self.write(to, &self.first_words(slot));
        self.clear(slot);
        true
    }

    /// Who reads meanwhile finds that it is nobody's, before or after.
    fn write(&self, slot: usize, value: &[u64; SLOT_WORDS]) {
        self.clear(slot);
        let words = self.slot(slot);
        for (index, (word, value)) in words.iter().zip(value).enumerate() {
            if index != ADDRESS {
                word.store(*value, Ordering::Relaxed);
            }
        }
        words[ADDRESS].store(value[ADDRESS], Ordering::Release);
    }

    fn clear(&self, slot: usize) {
        self.slot(slot)[ADDRESS].store(NOWHERE, Ordering::Relaxed);
        // What is written to the slot from now on is seen after that.
        fence(Ordering::Release);
    }
}

/// As `numbers_of` in `bpf/shared.h`.
fn numbers_of(key: &Key) -> u64 {
    const MIX: u64 = 0xd6e8_feb8_6659_fd93;
    let [process, start_time, address] = *key;
    let mixed = process ^ start_time.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ address).wrapping_mul(MIX);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(MIX);
    mixed ^ mixed >> 32
}

fn words_of<const BYTES: usize, const WORDS: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(BYTES == 8 * WORDS, "whole words") };
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(slots: usize) -> Plans<Box<[AtomicU64]>> {
        Plans::new((0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn key(address: u64) -> [u8; PLACE_BYTES] {
        let mut key = [7; PLACE_BYTES];
        key[16..].copy_from_slice(&address.to_ne_bytes());
        key
    }

    /// A value that says in every word behind the key whose it is, with this share.
    fn put(plans: &mut Plans<Box<[AtomicU64]>>, address: u64) {
        let mut value = [0; PLAN_VALUE_BYTES];
        for word in value.as_chunks_mut().0 {
            *word = (address & !USED).to_ne_bytes();
        }
        value[..PLACE_BYTES].copy_from_slice(&key(address));
        plans.put(&key(address), &value);
    }

    fn body(plans: &Plans<Box<[AtomicU64]>>, address: u64) -> Option<Vec<u64>> {
        let slot = plans.find(&words_of(&key(address)))?;
        let words = plans.slot(slot)[KEY_WORDS..].iter();
        Some(words.map(|word| word.load(Ordering::Relaxed)).collect())
    }

    /// Up to half of the slots nothing is given up, wherever it had to move; each plan is whole, and is
    /// there once.
    #[test]
    fn half_full_keeps_all() {
        let mut plans = plans(1024);
        let addresses: Vec<u64> = (0..480).map(|i| 0x40_0000 + 5 * i).collect();
        addresses
            .iter()
            .for_each(|address| put(&mut plans, *address));
        assert_eq!(plans.evicted, 0);
        for address in &addresses {
            let body = body(&plans, *address).expect("kept");
            assert!(body.iter().all(|word| word == address));
        }
        let taken = (0..1024).filter(|slot| !plans.is_free(*slot));
        assert_eq!(taken.count(), addresses.len());
    }

    /// What is used stays, where the others give way.
    #[test]
    fn the_used_stay() {
        let mut plans = plans(64);
        let used: Vec<u64> = (1..=16).map(|i| 0x1000 * i).collect();
        used.iter().for_each(|address| put(&mut plans, *address));
        for other in 0..1000 {
            for address in &used {
                plans.set_share(&key(*address), Share::ALL);
            }
            put(&mut plans, 0x10_0000 + 16 * other);
        }
        assert!(plans.evicted > 500);
        let kept = used.iter().filter(|at| body(&plans, **at).is_some());
        assert_eq!(kept.count(), used.len());
    }

    /// A plan is replaced in its place, has another share, and is gone when it is taken back.
    #[test]
    fn changes() {
        let mut plans = plans(2);
        let share = |plans: &Plans<_>| body(plans, 0x1234).map(|body| body[3]);
        put(&mut plans, 0x1234);
        put(&mut plans, 0x1234);
        assert_eq!(share(&plans), Some(0x1234));
        plans.set_share(&key(0x1234), Share::new(0.5));
        let half = share(&plans).expect("there") as u32;
        assert_eq!(half, Share::new(0.5).0);
        let (tag, plan) = plans.get(&key(0x1234)).expect("there");
        assert_eq!(tag, 0x1234);
        assert_eq!(plan, 0x1234_u64.to_ne_bytes().repeat(PLAN_BYTES / 8));
        plans.remove(&key(0x1234));
        plans.set_share(&key(0x1234), Share::ALL);
        assert_eq!(share(&plans), None);
        assert!((0..2).all(|slot| plans.is_free(slot)));
    }

    /// Where a plan lies is where the handler looks: its function gives the same.
    #[test]
    fn numbers_are_the_handlers() {
        let numbers = numbers_of(&[0x2_0000_1234, 987_654_321, 0x7f00_1234_5678]);
        assert_eq!(numbers, 0xcbab_e52f_2f3e_5bee);
    }
}
