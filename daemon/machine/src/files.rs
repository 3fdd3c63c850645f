//! Which file a mapping is of: its build id, else its content id, looked up when the mapping is
//! heard of.
//!
//! The kernel would tell it, but spoils the recordings of others in doing so (crate `sampler`). So
//! the file is looked at here: through the mapping itself as long as that is there, and by its
//! path where it cannot have changed since. What is mapped at the same address by the time of the
//! look may be a younger file that was given the same inode, or was written into it. Where neither
//! can be had, the inode must do. Programs are mapped privately; what is shared is not opened (see
//! `Identity::Shared`).

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustc_hash::FxHashMap;
use sampler::{Mmap, MmapIdentity, Pid};

use crate::elf::{self, LastingIdentity};
use crate::system::clock::{since_epoch, wall_now};
use crate::system::memory::of_map;
use crate::system::procfs::MapsLine;

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Inode {
    major: u32,
    minor: u32,
    inode: u64,
    generation: u64,
}

impl Inode {
    fn of(mmap: &Mmap) -> Option<Self> {
        match mmap.identity {
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                generation,
            } if inode != 0 => Some(Self {
                major,
                minor,
                inode,
                generation,
            }),
            _ => None,
        }
    }
}

impl From<LastingIdentity> for MmapIdentity {
    fn from(known: LastingIdentity) -> Self {
        match known {
            LastingIdentity::BuildId(id) => Self::BuildId(id),
            LastingIdentity::Content(id) => Self::Content(id),
        }
    }
}

/// What tells versions of a file apart: its size, and when it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.size(),
            seconds: metadata.ctime(),
            nanoseconds: metadata.ctime_nsec(),
        }
    }
}

/// What the files that were mapped are known by.
#[derive(Debug, Default)]
pub struct Files {
    known: FxHashMap<Inode, KnownFile>,
    /// The mapping before, if its file was found: a file is mapped in several parts, one after the
    /// other. `None`: it was not found.
    last: Option<Last>,
}

/// A file that was looked at.
#[derive(Debug)]
struct KnownFile {
    version: Version,
    /// `None`: it is no ELF file.
    known: Option<LastingIdentity>,
    /// When it was changed, in wall-clock nanoseconds, and when it was last seen to be this
    /// version, by the clock of samples.
    changed: i64,
    looked: u64,
}

impl KnownFile {
    /// Whether what was mapped at a time, by the clock of samples and by that on the wall, was this
    /// version: the file was there before and had not changed when it was looked at behind it.
    fn was_mapped(&self, time: u64, mapped: i64) -> bool {
        time <= self.looked && self.changed < mapped.saturating_sub(CLOCK_GRAIN)
    }
}

/// A mapping whose file was looked at.
#[derive(Debug)]
struct Last {
    pid: Pid,
    inode: Inode,
    /// When it was mapped, and when that was, in wall-clock nanoseconds: what was mapped before, on
    /// another processor, or later may be of another file.
    mapped: i64,
    looked: i64,
    /// `None`: it is no ELF file.
    known: Option<LastingIdentity>,
}

/// Files kept; when there are more, all are forgotten.
const MAX_KNOWN: usize = 65_536;
/// File systems note the time of a change by a clock that may be so many nanoseconds late: a tick.
const CLOCK_GRAIN: i64 = 4_000_000;

impl Files {
    /// Replaces the inode of a mapping by the build id of its file, where that has one. `mapped` is
    /// when it was mapped, in wall-clock nanoseconds.
    pub fn identify(&mut self, mmap: &mut Mmap, mapped: i64) {
        let Some(inode) = Inode::of(mmap).filter(|_| !mmap.shared()) else {
            return;
        };
        // Processes by the hundred map the same few files: one look at each stands for all that
        // were heard of together.
        let known = self.known.get(&inode);
        if let Some(file) = known.filter(|file| file.was_mapped(mmap.time, mapped)) {
            if let Some(known) = file.known.clone() {
                mmap.identity = known.into();
            }
            return;
        }
        let is_part = |last: &Last| {
            let times = last.mapped..=last.looked;
            last.pid == mmap.pid && last.inode == inode && times.contains(&mapped)
        };
        if !self.last.as_ref().is_some_and(is_part) {
            let (pid, looked) = (mmap.pid, wall_now());
            // What was not found through this part may be through the next.
            self.last = self.look(mmap, inode, mapped).map(|known| Last {
                pid,
                inode,
                mapped,
                looked,
                known,
            });
        }
        let known = self.last.as_ref().and_then(|last| last.known.clone());
        if let Some(known) = known {
            mmap.identity = known.into();
        }
    }

    /// What a file that a mapping is of was known by when it was looked at, if it was.
    pub fn known_of(&self, mmap: &Mmap) -> Option<MmapIdentity> {
        let file = self.known.get(&Inode::of(mmap)?)?;
        file.known.clone().map(MmapIdentity::from)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let ids = self.known.values().filter_map(|file| file.known.as_ref());
        let id = |known: &LastingIdentity| match known {
            LastingIdentity::BuildId(id) => id.capacity(),
            LastingIdentity::Content(id) => id.capacity(),
        };
        of_map(&self.known) + ids.map(id).sum::<usize>()
    }

    fn look(&mut self, mmap: &Mmap, inode: Inode, mapped: i64) -> Option<Option<LastingIdentity>> {
        let Mmap {
            pid, address, len, ..
        } = mmap;
        let mapping = || {
            let end = address.saturating_add(*len);
            format!("/proc/{pid}/map_files/{address:x}-{end:x}")
        };
        // What is mapped is what the file holds now, too.
        let is_mapped =
            |metadata: &Metadata| metadata.ino() == inode.inode && has_content_of(metadata, mapped);
        let unchanged = |metadata: &Metadata| {
            elf::is_inode(metadata, inode.major, inode.minor, inode.inode)
                && elf::last_change(metadata) < mapped.saturating_sub(CLOCK_GRAIN)
        };
        let path = mmap.path.to_str()?;
        // To find a process's mapping takes several times as long as to find a path.
        if let Some(found) = self
            .known_or_read(path, inode, unchanged)
            .or_else(|| self.known_or_read(&mapping(), inode, is_mapped))
        {
            return Some(found);
        }
        // A program's first part is told longer than it then is.
        let same = |line: &MapsLine| {
            (line.major, line.minor, line.inode) == (inode.major, inode.minor, inode.inode)
        };
        let mappings = elf::mapped_files(*pid, same);
        let mut found = mappings.iter();
        found.find_map(|mapping| self.known_or_read(mapping, inode, is_mapped))
    }

    /// What the file there is known by, if it is the one that is meant; the inner `None`: it is no
    /// ELF file.
    fn known_or_read(
        &mut self,
        path: &str,
        inode: Inode,
        is_meant: impl Fn(&Metadata) -> bool,
    ) -> Option<Option<LastingIdentity>> {
        let good = |metadata: &Metadata| metadata.is_file() && is_meant(metadata);
        let looked = sampler::clock_now();
        let there = fs::metadata(path).ok().filter(good)?;
        if let Some(file) = self.known.get_mut(&inode)
            && file.version == Version::of(&there)
        {
            file.looked = looked;
            return Some(file.known.clone());
        }
        let file = File::open(path).ok()?;
        // It may be another one by now.
        let opened = file.metadata().ok().filter(good)?;
        let again = file.try_clone().ok()?;
        let known = elf::known(file);
        // It may have been written meanwhile.
        let version = Version::of(&opened);
        again
            .metadata()
            .ok()
            .filter(|now| Version::of(now) == version)?;
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let file = KnownFile {
            version,
            known: known.clone(),
            changed: elf::last_change(&opened),
            looked,
        };
        self.known.insert(inode, file);
        Some(known)
    }
}

/// Whether a file has the content that it had at a time, in wall-clock nanoseconds, whatever has
/// become of its name. What it was given before says when it was written, but for who lies about
/// it; when it came into being nobody can say but the file system, if that does.
fn has_content_of(metadata: &Metadata, time: i64) -> bool {
    let written = metadata.modified().map_or(i64::MAX, since_epoch);
    let born = metadata.created().ok().map(since_epoch);
    elf::last_change(metadata) <= time || written <= time && born.is_none_or(|born| born <= time)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use nix::sys::stat::{major, minor};
    use sampler::Tid;

    use super::*;

    /// A mapping of this file that is nowhere any more.
    fn gone(path: &Path) -> Mmap {
        let metadata = fs::metadata(path).expect("the file is there");
        let number = |n: u64| u32::try_from(n).expect("a device number");
        Mmap {
            time: sampler::clock_now(),
            pid: Pid(u32::MAX),
            tid: Tid(u32::MAX),
            address: 0x1000,
            len: 0x1000,
            offset: 0,
            identity: MmapIdentity::Inode {
                major: number(major(metadata.dev())),
                minor: number(minor(metadata.dev())),
                inode: metadata.ino(),
                generation: 0,
            },
            prot: 5,
            flags: 2,
            path: path.into(),
        }
    }

    fn identity(files: &mut Files, path: &Path, mapped: i64) -> MmapIdentity {
        let mut mmap = gone(path);
        files.identify(&mut mmap, mapped);
        mmap.identity
    }

    /// One look at a file stands for all mappings before it, and for none behind.
    #[test]
    fn one_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one");
        let own = std::env::current_exe().expect("this program");
        fs::copy(&own, &path).expect("a copy");
        let changed = elf::last_change(&fs::metadata(&path).expect("the copy"));
        let after = changed + 10 * CLOCK_GRAIN;
        let mut files = Files::default();
        let mut before = [gone(&path), gone(&path), gone(&path)];
        let [first, second, early] = &mut before;
        files.identify(first, after);
        let mut later = gone(&path);
        fs::remove_file(&path).expect("it was there");
        files.last = None;
        files.identify(second, after);
        assert!(matches!(second.identity, MmapIdentity::BuildId(_)));
        assert_eq!(first.identity, second.identity);
        for (mmap, mapped) in [(early, changed), (&mut later, after)] {
            files.identify(mmap, mapped);
            assert!(matches!(mmap.identity, MmapIdentity::Inode { .. }));
        }
    }

    /// A file is known by its path if it has not changed since it was mapped, and not otherwise.
    #[test]
    fn changed_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let own = std::env::current_exe().expect("this program");
        fs::copy(&own, &one).expect("a copy");
        let changed = elf::last_change(&fs::metadata(&one).expect("the copy"));
        let (before, after) = (changed - 1, changed + 10 * CLOCK_GRAIN);
        let mut files = Files::default();
        let early = identity(&mut files, &one, before);
        assert!(matches!(early, MmapIdentity::Inode { .. }));
        let mut files = Files::default();
        let late = identity(&mut files, &one, after);
        assert!(matches!(&late, MmapIdentity::BuildId(id) if id.len() >= 8));
        // What is no program is its inode, and what was there before does not matter.
        fs::write(&other, "no program").expect("a file");
        let none = identity(&mut files, &other, i64::MAX);
        assert!(matches!(none, MmapIdentity::Inode { .. }));
        fs::write(&one, "no program any more").expect("another file in its place");
        files.last = None;
        let replaced = identity(&mut files, &one, i64::MAX);
        assert!(matches!(replaced, MmapIdentity::Inode { .. }));
    }
}
