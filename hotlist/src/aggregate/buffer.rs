//! The aggregation buffer: the data of many keys in memory of a fixed size.
//!
//! ```text
//! words: | data sets -> | free | <- chain elements | buckets |
//! ```
//! A data set is a header (aggregation id and length), the key, and the words that the function
//! keeps. It is found through a chain of elements (hash, place of the data set, next element) that
//! begins in one of the buckets. Data grow from the base up and elements from the buckets down;
//! when the two would meet, the event is dropped and counted. To take what is in the buffer, the
//! data sets are copied as they stand.

use super::AggregateFunction;

/// Words of a chain element: hash; place of the data set and next element, 32 bits each.
const ELEMENT: usize = 2;
/// Stands for no element or no data set.
const NONE: u32 = u32::MAX;
/// Words beyond which a buffer cannot be addressed.
const LARGEST: usize = NONE as usize;

/// Data of many keys for one writer.
#[derive(Clone, Debug)]
pub struct Buffer {
    words: Box<[u64]>,
    /// Words of data sets.
    data: usize,
    /// Where the last chain element begins.
    elements: usize,
    /// Where the buckets begin; their number is a power of two.
    buckets: usize,
    drops: u64,
}

impl Buffer {
    /// A buffer of so many words, an eighth of them buckets; more than 2^32 are not used.
    pub fn new(words: usize) -> Self {
        let size = words.clamp(2, LARGEST);
        let buckets = 1 << (size / 8).max(1).ilog2();
        let words = vec![0; size].into_boxed_slice();
        let mut buffer = Self {
            words,
            data: 0,
            elements: 0,
            buckets: size - buckets,
            drops: 0,
        };
        buffer.clear();
        buffer
    }

    /// Forgets all data and the drops.
    pub fn clear(&mut self) {
        self.data = 0;
        self.elements = self.buckets;
        self.drops = 0;
        if let Some(buckets) = self.words.get_mut(self.buckets..) {
            buckets.fill(u64::from(NONE));
        }
    }

    /// Events dropped for want of room since the last [`Buffer::clear`].
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Applies the function of aggregation `id` to the value, for this key. False, and counted,
    /// if the key is new and there is no room for it.
    pub fn update(
        &mut self,
        id: u32,
        function: &AggregateFunction,
        key: &[u64],
        value: i64,
    ) -> bool {
        let length = 1 + key.len() + function.words();
        let Ok(short) = u32::try_from(length) else {
            return self.drop_event();
        };
        let header = u64::from(id) | u64::from(short) << 32;
        let hash = hash(header, key);
        let at = match self.find(hash, header, key) {
            Some(at) => at,
            None => match self.insert(hash, header, key, function, length) {
                Some(at) => at,
                None => return self.drop_event(),
            },
        };
        if let Some(data) = self.words.get_mut(at + 1 + key.len()..at + length) {
            function.apply(data, value);
        }
        true
    }

    fn drop_event(&mut self) -> bool {
        self.drops = self.drops.saturating_add(1);
        false
    }

    /// Where the chains of this hash begin.
    fn bucket(&self, hash: u64) -> usize {
        let buckets = self.words.len() - self.buckets;
        // The cast is exact: masked with less than the length of the buffer.
        self.buckets + (hash & (buckets as u64 - 1)) as usize
    }

    fn find(&self, hash: u64, header: u64, key: &[u64]) -> Option<usize> {
        // The casts take the low and the high 32 bits.
        let mut element = *self.words.get(self.bucket(hash))? as u32;
        while element != NONE {
            let &[its_hash, place] = self
                .words
                .get(element as usize..element as usize + ELEMENT)?
            else {
                return None;
            };
            let at = place as u32 as usize;
            let same = its_hash == hash
                && self.words.get(at) == Some(&header)
                && self.words.get(at + 1..at + 1 + key.len()) == Some(key);
            if same {
                return Some(at);
            }
            element = (place >> 32) as u32;
        }
        None
    }

    fn insert(
        &mut self,
        hash: u64,
        header: u64,
        key: &[u64],
        function: &AggregateFunction,
        length: usize,
    ) -> Option<usize> {
        let element = self.elements.checked_sub(ELEMENT)?;
        let at = self.data;
        let end = at.checked_add(length).filter(|&end| end <= element)?;
        let (its_header, rest) = self.words.get_mut(at..end)?.split_first_mut()?;
        *its_header = header;
        let (its_key, data) = rest.split_at_mut_checked(key.len())?;
        its_key.copy_from_slice(key);
        function.clear(data);
        let bucket = self.bucket(hash);
        let next = self.words.get(bucket).copied()? as u32;
        if let Some(words) = self.words.get_mut(element..element + ELEMENT) {
            words.copy_from_slice(&[hash, at as u64 | u64::from(next) << 32]);
        }
        *self.words.get_mut(bucket)? = element as u64;
        (self.data, self.elements) = (end, element);
        Some(at)
    }

    /// Copies data sets and drops to `snapshot`, whose former contents are lost.
    pub fn copy_to(&self, snapshot: &mut Snapshot) {
        snapshot.words.clear();
        snapshot
            .words
            .extend_from_slice(self.words.get(..self.data).unwrap_or_default());
        snapshot.drops = self.drops;
    }
}

/// A multiplication a word, folded so that high bits count as much as low ones.
fn hash(header: u64, key: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        // The casts keep the low and the high half.
        (product as u64) ^ (product >> 64) as u64
    };
    key.iter().fold(mix(0x2545_f491_4f6c_dd1d, &header), mix)
}

/// The data sets of a buffer at some moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    words: Vec<u64>,
    pub(crate) drops: u64,
}

impl Snapshot {
    /// The data sets: aggregation id, and key and data in one.
    pub(crate) fn data_sets(&self) -> impl Iterator<Item = (u32, &[u64])> {
        let mut rest = self.words.as_slice();
        std::iter::from_fn(move || {
            let header = *rest.first()?;
            // The casts take the high and the low 32 bits.
            let length = ((header >> 32) as usize).max(1);
            let (set, others) = rest.split_at_checked(length)?;
            rest = others;
            Some((header as u32, set.get(1..)?))
        })
    }

    /// Events dropped before the snapshot.
    pub fn drops(&self) -> u64 {
        self.drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that differ in any part have data of their own, and equal ones share it.
    #[test]
    fn keys() {
        let mut buffer = Buffer::new(1 << 12);
        let keys: [(u32, &[u64]); 6] = [
            (1, &[]),
            (2, &[]),
            (1, &[0]),
            (1, &[1]),
            (1, &[0, 0]),
            (1, &[1, 0]),
        ];
        for round in 0..3 {
            for (id, key) in keys {
                assert!(buffer.update(id, &AggregateFunction::Sum, key, round + i64::from(id)));
            }
        }
        let mut snapshot = Snapshot::default();
        buffer.copy_to(&mut snapshot);
        let sets: Vec<_> = snapshot.data_sets().collect();
        assert_eq!(sets.len(), 6);
        for ((id, words), (wanted, key)) in sets.iter().zip(keys) {
            assert_eq!((*id, &words[..key.len()]), (wanted, key));
            assert_eq!(words[key.len()], 3 + 3 * u64::from(wanted));
        }
    }

    /// A full buffer goes on counting the keys it has, and counts what it drops.
    #[test]
    fn full() {
        for words in [0, 1, 2, 3, 8, 64, 1000] {
            let mut buffer = Buffer::new(words);
            let kept = (0..1000)
                .filter(|&key| buffer.update(0, &AggregateFunction::Count, &[key], 0))
                .count();
            assert_eq!(buffer.drops(), 1000 - kept as u64);
            assert!(kept * (3 + ELEMENT) <= words.max(2), "{kept} in {words}");
            assert_eq!(
                buffer.update(0, &AggregateFunction::Count, &[0], 0),
                kept > 0
            );
            let mut snapshot = Snapshot::default();
            buffer.copy_to(&mut snapshot);
            assert_eq!(snapshot.data_sets().count(), kept);
            buffer.clear();
            buffer.copy_to(&mut snapshot);
            assert_eq!((snapshot.data_sets().count(), buffer.drops()), (0, 0));
        }
    }

    /// Distributions too large for the buffer are dropped whole.
    #[test]
    fn large_data() {
        let mut buffer = Buffer::new(150);
        assert!(buffer.update(0, &AggregateFunction::Quantize, &[], 1));
        assert!(!buffer.update(1, &AggregateFunction::Quantize, &[], 1));
        assert_eq!(buffer.drops(), 1);
    }
}
