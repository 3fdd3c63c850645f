//! What a process may have mapped twice, and where it may have nothing mapped any more.
//!
//! Two addresses of one process are the same memory only through a mapping that is shared, and a
//! store shows at the other only if it goes through one that is shared and writable. A process that
//! never had one has no such memory, and nobody needs to be asked:
//! - Private memory is one page at one address. `fork` copies it for another process.
//!   `MREMAP_DONTUNMAP` and `UFFDIO_MOVE` take a page from one address to another, and leave
//!   nothing; `UFFDIO_COPY` makes a page of its own. Huge pages, and pages that the kernel merges
//!   because they are alike (KSM), are no difference: a store makes a copy.
//! - `mremap` with an old size of zero makes a second mapping, of shared memory only.
//! - A private mapping of a file shows what is stored through a shared one, until it is written
//!   itself.
//! - What others write (another thread, `process_vm_writev`, `io_uring`, a debugger) the thread
//!   does not do itself: a window is what it computes when it runs on alone.

use addresses::{ProcessAddress, ProcessRange};
use sampler::{Mmap, MmapIdentity, Vma};

use crate::system::procfs::MapsLine;

/// What may be mapped twice, or not at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    /// Since the program began, it mapped something that was shared and writable.
    pub(crate) shared: bool,
    /// Something may have been mapped without notice.
    pub(crate) unsure: bool,
    /// The files of what was shared and writable.
    files: Vec<File>,
    /// There were more of them.
    more: bool,
    /// Where something was mapped that was known to be mapped.
    remapped: Vec<Remapped>,
}

/// Device and inode.
type File = (u32, u32, u64);

/// Memory that was mapped where such was known: it had been unmapped, which nothing tells. It may
/// be again.
#[derive(Clone, Copy, Debug)]
struct Remapped {
    range: ProcessRange,
    /// When it was seen last.
    time: u64,
}

/// Files that are told apart.
const MAX_FILES: usize = 16;
/// Places that are told apart: then they become larger.
const MAX_REMAPPED: usize = 16;
/// How long a process is taken to map and unmap at the same place, in nanoseconds.
const REMAPS: u64 = 10_000_000_000;

impl Aliases {
    /// Takes notice of a mapping, or a change of rights.
    pub(crate) fn mapped(&mut self, mmap: &Mmap) {
        if !mmap.shared() || !mmap.writable() {
            return;
        }
        match mmap.identity {
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                ..
            } => self.add((major, minor, inode)),
            MmapIdentity::BuildId(_) | MmapIdentity::Content(_) => {
                (self.shared, self.more) = (true, true);
            }
        }
    }

    /// Takes notice of a mapping that is there already.
    pub(crate) fn found(&mut self, line: &MapsLine) {
        if line.shared && line.writable {
            self.add((line.major, line.minor, line.inode));
        }
    }

    fn add(&mut self, file: File) {
        self.shared = true;
        if self.files.contains(&file) {
            return;
        }
        if self.files.len() < MAX_FILES {
            self.files.push(file);
        } else {
            self.more = true;
        }
    }

    /// Whether what is stored through another mapping may show in this one.
    pub(crate) fn may_show(&self, vma: &Vma) -> bool {
        let is_private = vma.inode == 0 && !vma.shared;
        let has_file = self.files.contains(&(vma.major, vma.minor, vma.inode));
        !is_private && (self.unsure || self.more || has_file)
    }

    /// Memory was mapped where it was known to be mapped already, with the same rights.
    pub(crate) fn remapped(&mut self, mut range: ProcessRange, time: u64) {
        self.remapped
            .retain(|old| old.time.saturating_add(REMAPS) >= time);
        self.remapped.retain(|old| {
            // What begins where the other ends becomes one place with it.
            let is_met = old.range.start <= range.end && old.range.end >= range.start;
            if is_met {
                range = range.around(old.range);
            }
            !is_met
        });
        if self.remapped.len() >= MAX_REMAPPED
            && let Some(old) = self.remapped.pop()
        {
            range = range.around(old.range);
        }
        self.remapped.push(Remapped { range, time });
    }

    /// Whether an address may have been unmapped at that time, whatever the kernel says of it now.
    pub(crate) fn may_be_unmapped(&self, address: ProcessAddress, time: u64) -> bool {
        self.remapped
            .iter()
            .any(|place| place.range.contains(address) && time <= place.time.saturating_add(REMAPS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(shared: bool, inode: u64) -> Vma {
        Vma {
            shared,
            inode,
            ..Vma::default()
        }
    }

    /// Only what is of a file that was mapped shared and writable shows what is stored elsewhere;
    /// of too many files, or where something went unnoticed, every file may.
    #[test]
    fn files() {
        let line = |shared: bool, writable: bool, inode: u64| MapsLine {
            start: 0,
            end: 1,
            readable: true,
            writable,
            executable: false,
            shared,
            offset: 0,
            major: 0,
            minor: 0,
            inode,
            path: String::new(),
        };
        let mut aliases = Aliases::default();
        aliases.found(&line(false, true, 7));
        aliases.found(&line(true, false, 7));
        assert!(!aliases.shared && !aliases.may_show(&vma(false, 7)));
        aliases.found(&line(true, true, 7));
        assert!(aliases.shared && aliases.may_show(&vma(false, 7)));
        assert!(!aliases.may_show(&vma(true, 8)) && !aliases.may_show(&vma(false, 0)));
        for inode in 10..10 + MAX_FILES as u64 {
            aliases.found(&line(true, true, inode));
        }
        assert!(aliases.may_show(&vma(true, 8)) && !aliases.may_show(&vma(false, 0)));
        let unsure = Aliases {
            unsure: true,
            ..Aliases::default()
        };
        assert!(unsure.may_show(&vma(false, 8)) && !unsure.may_show(&vma(false, 0)));
    }

    /// Where memory was mapped again it may be unmapped, for a while; many such places become one.
    #[test]
    fn places() {
        let mut aliases = Aliases::default();
        let of = ProcessRange::of_words;
        aliases.remapped(of(0x1000, 0x2000), 5);
        aliases.remapped(of(0x2000, 0x3000), 6);
        assert!(aliases.may_be_unmapped(ProcessAddress(0x1000), 6 + REMAPS));
        assert!(!aliases.may_be_unmapped(ProcessAddress(0x1000), 7 + REMAPS));
        assert!(!aliases.may_be_unmapped(ProcessAddress(0x3000), 6));
        for i in 0..100 {
            aliases.remapped(of(0x10_000 * i, 0x10_000 * i + 0x1000), 7);
        }
        assert_eq!(aliases.remapped.len(), MAX_REMAPPED);
        assert!((0..100).all(|i| aliases.may_be_unmapped(ProcessAddress(0x10_000 * i), 7)));
        aliases.remapped(of(0, 1), 8 + REMAPS);
        assert_eq!(aliases.remapped.len(), 1);
    }
}
