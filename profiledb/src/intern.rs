//! Ids of rows that recur in every flush, remembered so that most need no query.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rows::{Image, Subject};

/// Distinguishes the ids of one writer between two rollbacks from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Generation(u64);

impl Generation {
    fn next() -> Generation {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Generation(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A map that forgets everything when it is full: what it held is in the database too.
pub(crate) struct Cache<K, V> {
    entries: HashMap<K, V>,
    limit: usize,
}

impl<K: Eq + Hash, V: Copy> Cache<K, V> {
    fn new(limit: usize) -> Self {
        Cache {
            entries: HashMap::new(),
            limit,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.entries.get(key).copied()
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        if self.entries.len() >= self.limit {
            self.entries.clear();
        }
        self.entries.insert(key, value);
    }
}

/// Pid, start and execs: the natural key of a process within its epoch.
pub(crate) type ProcessKey = (u32, u64, u32);

/// The offsets in a bucket of an image whose encodings are stored.
pub(crate) type Encoded = HashMap<(i64, u64), HashSet<u16>>;

/// All that a writer remembers. The PCs are the most of it: about 15 MB when full.
pub(crate) struct Caches {
    pub(crate) generation: Generation,
    pub(crate) images: Cache<Image, i64>,
    pub(crate) subjects: Cache<Subject, i64>,
    pub(crate) processes: Cache<ProcessKey, i64>,
    pub(crate) parameters: HashMap<String, i64>,
    /// Pages of regions that were written, by process, access tag, first page and kind.
    pub(crate) regions: Cache<(i64, i64, u64, i64), u64>,
    /// PCs that flushes had: see [`Flush::is_new`](crate::Flush::is_new).
    pub(crate) seen: Cache<(i64, u64), ()>,
    pub(crate) encoded: Encoded,
    /// Images whose encodings are all kept.
    pub(crate) without_file: HashSet<i64>,
}

impl Caches {
    pub(crate) fn new() -> Caches {
        Caches {
            generation: Generation::next(),
            images: Cache::new(1 << 14),
            subjects: Cache::new(1 << 14),
            processes: Cache::new(1 << 16),
            parameters: HashMap::new(),
            regions: Cache::new(1 << 16),
            seen: Cache::new(1 << 18),
            encoded: HashMap::new(),
            without_file: HashSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full cache forgets and goes on; it never holds more than its limit.
    #[test]
    fn bounded() {
        let mut cache = Cache::new(4);
        for key in 0..100 {
            cache.put(key, key);
            assert!(cache.entries.len() <= 4);
            assert_eq!(cache.get(&key), Some(key));
        }
    }

    /// No two sets of caches share a generation.
    #[test]
    fn generations_differ() {
        assert_ne!(Caches::new().generation, Caches::new().generation);
    }
}
