//! Memory for what handlers write: many records in one block, and blocks that are used again.
//!
//! Records are made by one thread and given up by another, tens of thousands a second. One by one
//! they would keep the allocator busy at both ends, and with it the kernel, which is given memory
//! back between two rounds and asked for as much again.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a block.
const BLOCK: usize = 1 << 16;
/// Blocks that are kept for use: 16 MiB.
const KEPT: usize = 256;

/// Blocks that nobody uses, for the next records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

impl Pool {
    fn take(&self) -> Vec<u8> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }

    /// Takes a block back, if it is one: of no records there is none.
    fn put(&self, mut bytes: Vec<u8>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT && bytes.capacity() >= BLOCK {
            bytes.clear();
            kept.push(bytes);
        }
    }
}

/// Bytes that several parts share.
#[derive(Debug, Default)]
struct PooledBlock {
    bytes: Vec<u8>,
    pool: Option<Pool>,
}

impl Drop for PooledBlock {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.put(std::mem::take(&mut self.bytes));
        }
    }
}

/// A block that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    pool: Pool,
    bytes: Vec<u8>,
    /// Where in it the next part has begun, if it has.
    begun: Option<u32>,
    /// Where in it each part lies.
    parts: Vec<Range<u32>>,
}

impl Filling {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            bytes: Vec::new(),
            begun: None,
            parts: Vec::new(),
        }
    }

    /// Whether it is better [emptied](Self::take) before it gets so many bytes more.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes > BLOCK && !self.parts.is_empty()
    }

    /// Adds a part, or the rest of the one that has [begun](Self::begin).
    pub(crate) fn push(&mut self, part: &[u8]) {
        let start = self.add(part);
        let start = self.begun.take().unwrap_or(start);
        self.parts.push(start..self.bytes.len() as u32);
    }

    /// Begins the next part with these bytes. One that had begun before is given up.
    pub(crate) fn begin(&mut self, bytes: &[u8]) {
        if let Some(start) = self.begun.take() {
            self.bytes.truncate(start as usize);
        }
        self.begun = Some(self.add(bytes));
    }

    /// Where the bytes lie now.
    fn add(&mut self, bytes: &[u8]) -> u32 {
        if self.bytes.capacity() == 0 {
            self.bytes = self.pool.take();
        }
        // A block has few bytes more than BLOCK, however large the parts of a buffer are.
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        start
    }

    /// All parts, in their order. One that has only begun stays.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = BlockBytes> {
        let rest = self.begun.take().map(|start| {
            let rest = self.bytes.get(start as usize..).unwrap_or_default();
            rest.to_vec()
        });
        let block = Arc::new(PooledBlock {
            bytes: std::mem::take(&mut self.bytes),
            pool: Some(self.pool.clone()),
        });
        if let Some(rest) = rest {
            self.begin(&rest);
        }
        self.parts.drain(..).map(move |range| BlockBytes {
            block: Arc::clone(&block),
            range,
        })
    }
}

/// Some bytes of a block, which stays as long as any of them is needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockBytes {
    block: Arc<PooledBlock>,
    range: Range<u32>,
}

impl BlockBytes {
    /// Part of this one.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        let at = |offset: usize| {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            self.range.start.saturating_add(offset).min(self.range.end)
        };
        Self {
            range: at(range.start)..at(range.end),
            block: self.block,
        }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Range { start, end } = self.range;
        let bytes = self.block.bytes.get(start as usize..end as usize);
        bytes.unwrap_or_default()
    }
}

impl From<Vec<u8>> for BlockBytes {
    /// # Panics
    /// There are 4 GiB.
    fn from(bytes: Vec<u8>) -> Self {
        let len = u32::try_from(bytes.len()).expect("what comes with a sample is less than 4 GiB");
        Self {
            block: Arc::new(PooledBlock { bytes, pool: None }),
            range: 0..len,
        }
    }
}

impl PartialEq for BlockBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BlockBytes {}

impl Serialize for BlockBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.deref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BlockBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts are what was put in, and a block is used again when the last of its parts is gone.
    #[test]
    fn blocks_are_used_again() {
        let pool = Pool::default();
        let mut filling = Filling::new(pool.clone());
        let mut made = Vec::new();
        for i in 0..1000_u32 {
            let part = [i as u8; 300];
            if filling.is_full_for(part.len()) {
                made.extend(filling.take());
            }
            filling.push(&part);
        }
        made.extend(filling.take());
        for (i, part) in made.iter().enumerate() {
            assert_eq!(**part, [i as u8; 300]);
            assert_eq!(*part.clone().slice(298..400), [i as u8; 2]);
        }
        let kept = || pool.0.lock().unwrap().len();
        assert_eq!(kept(), 0);
        made.truncate(1);
        assert_eq!(kept(), 4);
        drop(made);
        assert_eq!(kept(), 5);
        // One that has only begun stays for later; of two of them the second.
        filling.push(&[1]);
        filling.begin(&[2, 2]);
        filling.begin(&[3, 3, 3]);
        assert_eq!(
            filling.take().map(|part| part.to_vec()).collect::<Vec<_>>(),
            [[1]]
        );
        filling.push(&[4]);
        filling.push(&[5]);
        let both: Vec<_> = filling.take().map(|part| part.to_vec()).collect();
        assert_eq!(both, [vec![3, 3, 3, 4], vec![5]]);
        // There is nothing in it.
        assert_eq!(filling.take().count(), 0);
        assert_eq!(kept(), 5);
        filling.push(&[1]);
        assert_eq!((kept(), filling.bytes.capacity()), (4, BLOCK));
    }
}
