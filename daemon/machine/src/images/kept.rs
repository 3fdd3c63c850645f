//! Copies of programs that were made just before they ran, which tell names and code when the
//! file's bytes have been replaced: a compiler writes the next build into the same inode.
//!
//! A copy is made while the file is what was mapped. It names functions and shows instructions; no
//! window sees it, since memory may have changed with the file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use symbols::Segment;

/// Files larger than this are not copied.
const MAX_FILE: u64 = 8 << 20;
/// All copies together take no more than this.
const MAX_ALL: usize = 64 << 20;
/// A file that was changed so long before it was mapped is not expected to be replaced, in
/// nanoseconds.
const YOUNG: i64 = 24 * 3600 * 1_000_000_000;

/// A copy.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) bytes: Arc<[u8]>,
    segments: Vec<Segment>,
}

impl Kept {
    /// A copy of a file that was changed and mapped at these times, if it is worth one, beside
    /// others of so many bytes.
    pub(super) fn new(
        file: &File,
        segments: &[Segment],
        changed: i64,
        mapped: i64,
        others: usize,
    ) -> Option<Self> {
        let size = file.metadata().ok()?.len();
        let is_young = changed.saturating_add(YOUNG) > mapped;
        let length = usize::try_from(size.min(MAX_FILE + 1)).ok()?;
        if !is_young || size > MAX_FILE || others + length > MAX_ALL {
            return None;
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0).ok()?;
        Some(Self {
            bytes: bytes.into(),
            segments: segments.to_vec(),
        })
    }

    /// Code at a virtual address; how many bytes there were.
    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let code = |segment: &Segment| {
            let within = address.checked_sub(segment.address)?;
            let left = segment.file_size.checked_sub(within)?;
            let start = usize::try_from(segment.offset.checked_add(within)?).ok()?;
            let length = bytes.len().min(usize::try_from(left).ok()?);
            self.bytes.get(start..start.checked_add(length)?)
        };
        let readable = self.segments.iter().filter(|segment| !segment.writable);
        let Some(code) = readable.filter_map(code).next() else {
            return 0;
        };
        bytes[..code.len()].copy_from_slice(code);
        code.len()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A young file is copied whole, an old one, a large one, and one too many are not.
    #[test]
    fn young_files_are_copied() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"0123456789").expect("written");
        let segments = [Segment {
            address: 0x1000,
            offset: 4,
            file_size: 5,
            memory_size: 5,
            writable: false,
            executable: true,
        }];
        let copy = |mapped, others| Kept::new(&file, &segments, 0, mapped, others);
        let kept = copy(1, 0).expect("a copy");
        let mut bytes = [0; 4];
        assert_eq!(kept.read(0x1003, &mut bytes), 2);
        assert_eq!(&bytes[..2], b"78");
        assert_eq!(kept.read(0x1005, &mut bytes), 0);
        assert!(copy(2 * YOUNG, 0).is_none());
        assert!(copy(1, MAX_ALL).is_none());
        file.set_len(MAX_FILE + 1).expect("longer");
        assert!(copy(1, 0).is_none());
    }
}
