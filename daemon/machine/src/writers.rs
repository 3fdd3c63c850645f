//! Files that somebody may write through a mapping that he shares with others.
//!
//! Such a write shows in no time of the file, and no copy is made for those who have the file
//! mapped privately. So as long as there is such a mapping, the file tells nothing of their memory.
//! Linkers write programs in this way, so that there is one matters only while its process has it.

use rustc_hash::FxHashMap;
use sampler::{Mmap, MmapIdentity, Pid};

use crate::system::memory::of_map;
use crate::system::procfs::{self, MapsLine};

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    major: u32,
    minor: u32,
    inode: u64,
}

impl FileId {
    /// The file that a record tells of by its inode.
    pub fn of_record(mmap: &Mmap) -> Option<Self> {
        match mmap.identity {
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                ..
            } if inode != 0 => Some(Self {
                major,
                minor,
                inode,
            }),
            _ => None,
        }
    }

    pub(crate) fn of_line(line: &MapsLine) -> Self {
        Self {
            major: line.major,
            minor: line.minor,
            inode: line.inode,
        }
    }
}

/// Who may write which file.
#[derive(Debug, Default)]
pub(crate) struct FileWriters {
    of_files: FxHashMap<FileId, Vec<Pid>>,
}

/// Files kept, of processes that may be gone; and processes of each.
const MAX_FILES: usize = 16_384;
const MAX_WRITERS: usize = 64;

impl FileWriters {
    /// Takes note of a mapping.
    pub(crate) fn note(&mut self, file: FileId, pid: Pid) {
        if self.of_files.len() >= MAX_FILES && !self.of_files.contains_key(&file) {
            self.of_files.retain(|file, pids| still_write(*file, pids));
        }
        let pids = self.of_files.entry(file).or_default();
        if !pids.contains(&pid) {
            if pids.len() >= MAX_WRITERS {
                pids.remove(0);
            }
            pids.push(pid);
        }
    }

    /// Whether a file was noted.
    pub(crate) fn may_have(&self, file: FileId) -> bool {
        self.of_files.contains_key(&file)
    }

    /// Whether somebody has a file mapped like that now.
    pub(crate) fn has(&mut self, file: FileId) -> bool {
        let Some(pids) = self.of_files.get_mut(&file) else {
            return false;
        };
        let has = still_write(file, pids);
        if !has {
            self.of_files.remove(&file);
        }
        has
    }

    /// Bytes that it holds, roughly.
    pub(crate) fn bytes(&self) -> usize {
        of_map(&self.of_files) + self.of_files.len() * size_of::<Pid>()
    }
}

/// Leaves the processes that have the file mapped like that now; whether there are any.
fn still_write(file: FileId, pids: &mut Vec<Pid>) -> bool {
    let is_one = |line: &MapsLine| line.shared && line.writable && FileId::of_line(line) == file;
    pids.retain(|pid| procfs::maps(*pid).is_some_and(|lines| lines.iter().any(is_one)));
    !pids.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that was noted may have a writer until it is looked whether it is still mapped.
    #[test]
    fn while_mapped() {
        let own = Pid(std::process::id());
        let file = FileId {
            major: 0,
            minor: 0,
            inode: u64::MAX,
        };
        let mut writers = FileWriters::default();
        assert!(!writers.may_have(file) && !writers.has(file));
        writers.note(file, own);
        writers.note(file, own);
        assert!(writers.may_have(file));
        assert!(!writers.has(file) && !writers.may_have(file));
    }

    /// Files of processes that are gone make room for others.
    #[test]
    fn bounded() {
        let mut writers = FileWriters::default();
        for inode in 1..=MAX_FILES as u64 + 1 {
            let file = FileId {
                major: 8,
                minor: 1,
                inode,
            };
            writers.note(file, Pid(u32::MAX));
        }
        assert_eq!(writers.of_files.len(), 1);
    }
}
