//! Paths of mappings, which are the same few again and again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Paths that are remembered; when there are more, all are forgotten.
const MOST: usize = 128;

/// Paths of mappings of late. A program's file is mapped in several parts, and programs are started
/// again and again: one copy of a path serves them all, in whatever thread that ends.
#[derive(Debug, Default)]
pub struct Paths(FxHashMap<Box<[u8]>, Arc<Path>>);

impl Paths {
    /// The path of these bytes.
    pub(crate) fn get(&mut self, bytes: &[u8]) -> Arc<Path> {
        if let Some(known) = self.0.get(bytes) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let path: Arc<Path> = Path::new(OsStr::from_bytes(bytes)).into();
        self.0.insert(bytes.into(), Arc::clone(&path));
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One path is one copy, whatever its bytes are, and there are not too many of them.
    #[test]
    fn copies() {
        let mut paths = Paths::default();
        let first = paths.get(b"/a\xff");
        assert_eq!(first.as_os_str().as_bytes(), b"/a\xff");
        assert!(Arc::ptr_eq(&first, &paths.get(b"/a\xff")));
        assert!(!Arc::ptr_eq(&first, &paths.get(b"/a")));
        for number in 0..10 * MOST {
            paths.get(number.to_string().as_bytes());
            assert!(paths.0.len() <= MOST);
        }
        assert_eq!(paths.get(b"/a\xff"), first);
    }
}
