//! Whether views can be made: what kept the last one from it, for as long as it may last.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::statvfs::{FsFlags, statvfs};

/// Readers are answered again when there is twice as much room as when it was too little, and this
/// much more, in bytes.
const MORE: u64 = 1 << 20;

/// Why the last view could not be made.
#[derive(Debug)]
struct Failure {
    why: String,
    room: Option<Room>,
}

/// How a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    bytes: u64,
    read_only: bool,
}

impl Room {
    /// As far as the system tells.
    fn of(directory: &Path) -> Option<Self> {
        let of = statvfs(directory).ok()?;
        Some(Self {
            bytes: of.blocks_available().saturating_mul(of.fragment_size()),
            read_only: of.flags().contains(FsFlags::ST_RDONLY),
        })
    }

    /// Whether it is clearly better than it was.
    fn is_better_than(self, then: Self) -> bool {
        let writable = then.read_only && !self.read_only;
        writable || self.bytes > then.bytes.saturating_mul(2).saturating_add(MORE)
    }
}

/// What those who make views and the service's loop share.
#[derive(Debug, Default)]
pub(super) struct Failing(Mutex<Option<Failure>>);

impl Failing {
    /// One could not be made in this directory.
    pub(super) fn failed(&self, directory: &Path, why: &str) {
        *self.lock() = Some(Failure {
            why: why.to_owned(),
            room: Room::of(directory),
        });
    }

    /// One could be made.
    pub(super) fn works(&self) {
        *self.lock() = None;
    }

    /// Why none can be made, unless one was made since, or there is more room in this directory.
    pub(super) fn look(&self, directory: &Path) -> Option<String> {
        let mut failure = self.lock();
        let then = failure.as_ref()?.room;
        if let (Some(then), Some(now)) = (then, Room::of(directory))
            && now.is_better_than(then)
        {
            *failure = None;
        }
        Some(failure.as_ref()?.why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a reader is told of such an error, and the status: which file it was is not the reader's
/// business, what is to be done is.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
    let mut causes = anyhow::Chain::new(error);
    let mend = "make room there (`vcpid ctl status` names the place), or have it keep less \
                (`keep_mib` under [database])";
    match causes.clone().find_map(cause) {
        Some(Cause::Full) => {
            format!(
                "the answer cannot be made, because the disk with its databases is full: {mend}"
            )
        }
        Some(Cause::ReadOnly) => {
            "the answer cannot be made, because the disk with its databases is \
                                  read-only: mount it writable (`vcpid ctl status` names the place)"
                .to_owned()
        }
        None => {
            let last = causes.next_back().unwrap_or(error);
            format!("the answer cannot be made: {last}")
        }
    }
}

#[derive(Clone, Copy)]
enum Cause {
    Full,
    ReadOnly,
}

fn cause(error: &(dyn Error + 'static)) -> Option<Cause> {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    if let Some(error) = error.downcast_ref::<profiledb::Error>() {
        return match error {
            profiledb::Error::DiskFull { .. } => Some(Cause::Full),
            profiledb::Error::ReadOnly { .. } => Some(Cause::ReadOnly),
            _ => None,
        };
    }
    match error.downcast_ref::<io::Error>()?.kind() {
        StorageFull | QuotaExceeded => Some(Cause::Full),
        ReadOnlyFilesystem => Some(Cause::ReadOnly),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk and one that is read-only are told apart, and the file is not named.
    #[test]
    fn reasons() {
        let full = io::Error::from(nix::errno::Errno::ENOSPC);
        assert!(words(&full).contains("is full: make room"));
        let read_only = profiledb::Error::ReadOnly {
            path: "/secret/place".into(),
        };
        let said = words(&read_only);
        assert!(
            said.contains("read-only") && !said.contains("secret"),
            "{said}"
        );
        let other = io::Error::other("something else");
        assert!(words(&other).ends_with(": something else"));
    }

    /// It is over with clearly more room, when the disk can be written to, or when it works.
    #[test]
    fn room() {
        let full = Room {
            bytes: MORE,
            read_only: false,
        };
        let more = |bytes| Room { bytes, ..full };
        assert!(!more(3 * MORE).is_better_than(full) && more(3 * MORE + 1).is_better_than(full));
        let read_only = Room {
            read_only: true,
            ..full
        };
        assert!(full.is_better_than(read_only) && !read_only.is_better_than(full));
        let failing = Failing::default();
        let here = Path::new(".");
        assert_eq!(failing.look(here), None);
        failing.failed(here, "why");
        assert_eq!(failing.look(here).as_deref(), Some("why"));
        failing.works();
        assert_eq!(failing.look(here), None);
    }
}
