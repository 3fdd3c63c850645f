//! Which file a file without a build id is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

/// Bytes at either end that count.
const END: u64 = 1 << 16;
/// Bytes of the hash that are kept: as many as a build id mostly has.
const KEPT: usize = 20;

/// An id of a file's content, in lower-case hex: a hash of its length, its first and its last
/// 64 KiB. The same file has it tomorrow and elsewhere. The ends hold the headers, the
/// tables of sections and symbols, and the lengths of all sections, which differ between builds.
///
/// # Errors
/// If the file cannot be read, or becomes shorter meanwhile.
pub fn content_id(file: &File) -> io::Result<String> {
    let length = file.metadata()?.len();
    let mut hash = Sha256::new();
    hash.update(length.to_le_bytes());
    let mut piece = |start: u64, end: u64| -> io::Result<()> {
        // At most twice END.
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(&mut bytes, start)?;
        hash.update(&bytes);
        Ok(())
    };
    if length <= 2 * END {
        piece(0, length)?;
    } else {
        piece(0, END)?;
        piece(length - END, length)?;
    }
    let digest = hash.finalize();
    let kept = digest.iter().take(KEPT);
    Ok(kept.map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn id(bytes: &[u8]) -> String {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        content_id(&file).expect("an id")
    }

    /// Files of the same content have one id wherever they are; head, tail and length count.
    #[test]
    fn content_counts() {
        let mut bytes = vec![7; 200_000];
        let before = id(&bytes);
        assert_eq!(before, id(&bytes.clone()));
        assert_eq!(before.len(), 2 * KEPT);
        for at in [0, 199_999] {
            bytes[at] = 8;
            assert_ne!(before, id(&bytes), "{at}");
            bytes[at] = 7;
        }
        bytes.push(7);
        assert_ne!(before, id(&bytes));
        assert_ne!(id(b""), id(b"\0"));
    }
}
