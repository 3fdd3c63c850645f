//! How much memory the parts of the collector hold, as far as that follows from what is in them:
//! what allocators add, and keep for later, is not in it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::prctl;

/// Bytes that the parts of a collector hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorMemory {
    /// Programs: their files, with unwind rules, and the processes that have them mapped.
    pub programs: usize,
    /// Code: pages of files, decoded instructions, basic blocks.
    pub code: usize,
    /// What is noted of the unwind rows that the handler was given.
    pub rows: usize,
}

/// Room for so many things of one kind, in which several keep theirs.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    taken: Arc<AtomicUsize>,
    most: usize,
}

impl Room {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            taken: Arc::default(),
            most,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }

    pub(crate) fn take(&self, things: usize) {
        self.taken.fetch_add(things, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Gives back what was taken.
    pub(crate) fn leave(&self, things: usize) {
        self.taken.fetch_sub(things, Ordering::Relaxed);
    }
}

/// Has the kernel give this process no huge pages. What was freed within one comes back with it, as
/// the kernel puts them in place of small pages at its leisure: of the resident memory a quarter
/// was such, more at one time than at another. They would save a twentieth of the processor time.
/// Programs that are started later inherit this.
pub fn without_huge_pages() {
    // Where it is refused, there are none, or more memory is resident than need be.
    let _ = prctl::set_thp_disable(true);
}

/// Of a vector, without what its elements point to.
pub fn of_vec<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}

/// Of a queue, likewise.
pub fn of_queue<T>(queue: &VecDeque<T>) -> usize {
    queue.capacity() * size_of::<T>()
}

/// Of a hash map, likewise.
pub fn of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    buckets(map.capacity()) * (size_of::<(K, V)>() + 1)
}

/// Of a hash set, likewise.
pub fn of_set<K, S>(set: &HashSet<K, S>) -> usize {
    buckets(set.capacity()) * (size_of::<K>() + 1)
}

/// The standard library fills seven of eight places of its tables, each with a byte beside it.
fn buckets(capacity: usize) -> usize {
    capacity / 7 * 8
}
