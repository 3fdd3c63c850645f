//! Where the entries of a vector are, by their keys. Most of what a flush has is met once or twice:
//! what it takes decides how often there is one.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Finds entries of a vector by their keys: a hash table of their places alone.
#[derive(Debug, Default)]
pub(crate) struct Places(HashTable<u32>);

impl Places {
    /// Rough size of an entry, in bytes.
    pub(crate) const BYTES: usize = 12;

    /// The place of a key, of which `key_at` tells that of each place.
    #[inline]
    pub(crate) fn find<K: Hash + Eq>(
        &self,
        key: &K,
        key_at: impl Fn(usize) -> Option<K>,
    ) -> Option<u32> {
        let is_it = |place: &u32| key_at(*place as usize).as_ref() == Some(key);
        self.0.find(hash(key), is_it).copied()
    }

    /// Keeps the place of a key that has none yet.
    pub(crate) fn insert<K: Hash>(
        &mut self,
        key: &K,
        place: u32,
        key_at: impl Fn(usize) -> Option<K>,
    ) {
        let hash_at = |place: &u32| key_at(*place as usize).map_or(0, |key| hash(&key));
        self.0.insert_unique(hash(key), place, hash_at);
    }
}

fn hash<K: Hash>(key: &K) -> u64 {
    FxBuildHasher.hash_one(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key is found at its place, and none that is not there, however much the table grows.
    #[test]
    fn keys_are_found() {
        let mut keys: Vec<(u64, u32)> = Vec::new();
        let mut places = Places::default();
        for n in 0..10_000_u32 {
            let key = (u64::from(n % 100) << 32, n / 100);
            assert_eq!(places.find(&key, |place| keys.get(place).copied()), None);
            keys.push(key);
            places.insert(&key, n, |place| keys.get(place).copied());
        }
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(places.find(key, |place| keys.get(place).copied()), Some(n));
        }
        assert_eq!(places.find(&(7, 7), |place| keys.get(place).copied()), None);
    }
}
