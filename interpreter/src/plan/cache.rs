//! A bounded cache of plans.

use super::Planned;

/// Entries that a key may lie in.
const WAYS: usize = 4;

/// What a plan is kept under.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanKey {
    /// The code space, as for decoded instructions: an image, or the anonymous code of a process.
    pub space: u32,
    /// The image address that the plan's windows start at.
    pub address: u64,
}

/// Bytes of code that a plan for code that can have been written is checked against.
const CODE: usize = 16;

struct Entry {
    key: PlanKey,
    planned: Box<Planned>,
    /// The code at the start, of which so many bytes count.
    code: [u8; CODE],
    code_len: u8,
}

impl Entry {
    fn code(&self) -> &[u8] {
        &self.code[..usize::from(self.code_len)]
    }
}

/// Bounded cache of plans.
///
/// The table is allocated once, when the cache is made; each plan held has its own allocation.
pub struct PlanCache {
    /// Sets of `WAYS` entries; the number of sets is a power of two.
    entries: Vec<Option<Entry>>,
    len: usize,
    /// Which entry of a full set to give up next.
    turn: usize,
}

impl PlanCache {
    /// A cache of at least four and about `capacity` plans (rounded up to a power of two, at most
    /// 2^20).
    pub fn new(capacity: usize) -> Self {
        let slots = capacity.clamp(WAYS, 1 << 20).next_power_of_two();
        let mut entries = Vec::new();
        entries.resize_with(slots, || None);
        Self {
            entries,
            len: 0,
            turn: 0,
        }
    }

    /// The plan kept under a key.
    pub fn get(&self, key: PlanKey) -> Option<&Planned> {
        self.entry(key).map(|entry| &*entry.planned)
    }

    /// The plan kept under a key, if the code at its start was the same when it was made: `code` is
    /// what the sample brought of it, 16 bytes of which count. A plan that passes although code
    /// further on was rewritten costs knowledge and no more.
    pub fn get_sampled(&self, key: PlanKey, code: &[u8]) -> Option<&Planned> {
        let entry = self.entry(key)?;
        let same = entry.code().iter().zip(code).all(|(held, now)| held == now);
        same.then_some(&*entry.planned)
    }

    fn entry(&self, key: PlanKey) -> Option<&Entry> {
        let held = self.set(key).iter().flatten();
        held.into_iter().find(|entry| entry.key == key)
    }

    /// Keeps a plan. Returns the key whose plan had to go for it, if another's had to: a copy of
    /// that elsewhere is stale.
    pub fn insert(&mut self, key: PlanKey, planned: Planned) -> Option<PlanKey> {
        self.insert_sampled(key, &[], planned)
    }

    /// [Keeps](Self::insert) a plan for code that can have been written, and of which a sample
    /// brought `code` from the plan's start on.
    pub fn insert_sampled(
        &mut self,
        key: PlanKey,
        code: &[u8],
        planned: Planned,
    ) -> Option<PlanKey> {
        let set = self.set(key);
        let same = set
            .iter()
            .position(|e| e.as_ref().is_some_and(|e| e.key == key));
        let way = same.or_else(|| set.iter().position(Option::is_none));
        let way = way.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        let first = self.first(key);
        let mut entry = Entry {
            key,
            planned: Box::new(planned),
            code: [0; CODE],
            code_len: code.len().min(CODE) as u8,
        };
        for (kept, byte) in entry.code.iter_mut().zip(code) {
            *kept = *byte;
        }
        let old = self.entries[first + way].replace(entry);
        match old {
            Some(old) => Some(old.key).filter(|old| *old != key),
            None => {
                self.len += 1;
                None
            }
        }
    }

    /// Forgets the plan of a key; says whether there was one.
    pub fn remove(&mut self, key: PlanKey) -> bool {
        self.retain(|held| held != key)
    }

    /// Forgets every plan of a code space; says whether there was one.
    pub fn invalidate(&mut self, space: u32) -> bool {
        self.retain(|held| held.space != space)
    }

    fn retain(&mut self, keep: impl Fn(PlanKey) -> bool) -> bool {
        let before = self.len;
        for entry in &mut self.entries {
            if entry.as_ref().is_some_and(|entry| !keep(entry.key)) {
                *entry = None;
                self.len -= 1;
            }
        }
        self.len < before
    }

    /// Number of plans held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn set(&self, key: PlanKey) -> &[Option<Entry>] {
        let first = self.first(key);
        &self.entries[first..first + WAYS]
    }

    /// Index of the first entry of the set that a key belongs to.
    fn first(&self, key: PlanKey) -> usize {
        let mixed = key.address ^ u64::from(key.space).rotate_left(40);
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let sets = self.entries.len() / WAYS;
        (hash as usize & (sets - 1)) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::{PlanCache, PlanKey};
    use crate::plan::Planned;

    fn key(space: u32, address: u64) -> PlanKey {
        PlanKey { space, address }
    }

    /// Plans are found under their key until it or its space is given up.
    #[test]
    fn keeps_and_forgets() {
        let mut cache = PlanCache::new(64);
        for (space, address) in [(1, 0x10), (1, 0x20), (2, 0x10)] {
            assert_eq!(cache.insert(key(space, address), Planned::default()), None);
        }
        assert_eq!(cache.insert(key(1, 0x10), Planned::default()), None);
        assert_eq!(cache.len(), 3);
        assert!(cache.remove(key(1, 0x20)) && !cache.remove(key(1, 0x20)));
        assert!(cache.get(key(1, 0x10)).is_some() && cache.get(key(1, 0x20)).is_none());
        assert!(cache.invalidate(1) && !cache.invalidate(1));
        assert!(cache.get(key(1, 0x10)).is_none() && cache.get(key(2, 0x10)).is_some());
    }

    /// A plan for code that was rewritten since is not served; bytes that were not brought cannot
    /// tell.
    #[test]
    fn sampled_code_is_checked() {
        let mut cache = PlanCache::new(4);
        cache.insert_sampled(key(1, 0x10), &[1, 2, 3], Planned::default());
        let serves = |code: &[u8]| cache.get_sampled(key(1, 0x10), code).is_some();
        assert!(serves(&[1, 2, 3]) && serves(&[1, 2, 3, 4]) && serves(&[1]));
        assert!(!serves(&[1, 2, 4]) && !serves(&[0]));
    }

    /// However many plans come by, the cache stays within its size and names each that goes.
    #[test]
    fn stays_bounded() {
        let mut cache = PlanCache::new(100);
        let mut gone = 0;
        for address in 0..10_000 {
            if let Some(old) = cache.insert(key(0, address), Planned::default()) {
                assert!(cache.get(old).is_none());
                gone += 1;
            }
        }
        assert!(cache.len() <= 128);
        assert_eq!(cache.len() + gone, 10_000);
    }
}
