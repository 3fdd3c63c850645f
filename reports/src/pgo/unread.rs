//! Whether a program has read a file, by the time of its last access.

use std::fs::{File, FileTimes};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file that nobody has read since.
#[derive(Debug)]
pub(super) struct Unread {
    file: PathBuf,
}

impl Unread {
    /// From now on. `None` where that cannot be told: file systems may leave access times alone.
    pub(super) fn since_now(file: &Path) -> Option<Unread> {
        let unread = Unread {
            file: file.to_owned(),
        };
        unread.forget()?;
        // Who reads it shows, if this does.
        let mut first = [0];
        File::open(file).ok()?.read_exact(&mut first).ok()?;
        if unread.is_still() {
            return None;
        }
        unread.forget()?;
        Some(unread)
    }

    /// Sets the time of the last access to one that is before any other time of the file, so that
    /// the next access is noted.
    fn forget(&self) -> Option<()> {
        let times = FileTimes::new().set_accessed(never());
        File::open(&self.file).ok()?.set_times(times).ok()
    }

    /// Whether nobody has.
    pub(super) fn is_still(&self) -> bool {
        let accessed = self.file.metadata().and_then(|of| of.accessed());
        accessed.is_ok_and(|accessed| accessed <= never())
    }

    /// The file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

fn never() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is unread until somebody reads it. One without a byte cannot be watched.
    #[test]
    fn reading() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(Unread::since_now(file.path()).is_none());
        std::fs::write(file.path(), "profile").expect("is written");
        // Elsewhere nothing is told.
        if let Some(unread) = Unread::since_now(file.path()) {
            assert!(unread.is_still() && unread.file() == file.path());
            std::fs::read(file.path()).expect("is read");
            assert!(!unread.is_still());
        }
        assert!(Unread::since_now(Path::new("/nowhere/file")).is_none());
    }
}
