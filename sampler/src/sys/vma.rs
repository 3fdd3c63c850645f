//! What is mapped at an address of another process, asked of the kernel (Linux 6.11 and later).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use addresses::ProcessRange;
use serde::{Deserialize, Serialize};

use super::checked;

/// A mapping as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// It can be read.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
    /// It can be executed.
    pub executable: bool,
    /// What is written goes to the mapped file, or to whoever else has the memory mapped.
    pub shared: bool,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// Major number of the file's device.
    pub major: u32,
    /// Minor number of the file's device.
    pub minor: u32,
    /// The file's inode; 0 if it has none.
    pub inode: u64,
}

impl Vma {
    /// Where it lies.
    pub fn range(&self) -> ProcessRange {
        ProcessRange::of_words(self.start, self.end)
    }
}

/// `struct procmap_query` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl =
    (3 << 30 | (size_of::<Query>() as libc::Ioctl) << 16) | 0x66 << 8 | 17;
/// Of the mapping around an address, or else of the next one.
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;
/// Longer than the names of mappings without a file.
const NAME: usize = 128;

/// The mapping around an address, else the next above it, if there is one. `maps` is the open
/// `/proc/PID/maps`; it stands for the address space that the process had when it was opened.
///
/// # Errors
/// `ESRCH`: that address space is gone. `ENOTTY`: the kernel does not know the request.
pub fn vma_from(maps: BorrowedFd<'_>, address: u64) -> io::Result<Option<Vma>> {
    let mut query = Query {
        address,
        flags: COVERING_OR_NEXT,
        ..Query::default()
    };
    if !ask(maps, &mut query)? {
        return Ok(None);
    }
    let has = |right: u64| query.rights & right != 0;
    Ok(Some(Vma {
        start: query.start,
        end: query.end,
        readable: has(READABLE),
        writable: has(WRITABLE),
        executable: has(EXECUTABLE),
        shared: has(SHARED),
        offset: query.offset,
        major: query.major,
        minor: query.minor,
        inode: query.inode,
    }))
}

/// Whether the mapping around an address, which has no file, is called `[stack]`.
///
/// # Errors
/// As of [`vma_from`].
pub fn is_main_stack(maps: BorrowedFd<'_>, address: u64) -> io::Result<bool> {
    let mut name = [0_u8; NAME];
    let mut query = Query {
        address,
        name_size: NAME as u32,
        name: name.as_mut_ptr().expose_provenance() as u64,
        ..Query::default()
    };
    Ok(ask(maps, &mut query)? && name.starts_with(b"[stack]\0"))
}

/// Puts a question; false if there is no such mapping.
fn ask(maps: BorrowedFd<'_>, query: &mut Query) -> io::Result<bool> {
    query.size = size_of::<Query>() as u64;
    let query: *mut Query = query;
    // SAFETY: `query` has the size that it states; the kernel writes to it, and to its name if one
    // is asked for, which has as many bytes as it says and outlives the call.
    let asked = checked(unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, query) });
    match asked {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        asked => asked.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    /// Of this very process: its code, its stack, the null page before the first mapping, and
    /// nothing beyond the last. A kernel without the request says so.
    #[test]
    fn own_mappings() {
        let maps = File::open("/proc/self/maps").expect("own mappings");
        let at = |address| vma_from(maps.as_fd(), address);
        let code = own_mappings as *const () as u64;
        let found = match at(code) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => return,
            found => found.expect("an answer").expect("code"),
        };
        assert!((found.start..found.end).contains(&code));
        assert!(found.executable && !found.writable && !found.shared && found.inode != 0);
        let first = at(0).expect("an answer").expect("a mapping");
        assert!(first.start > 0);
        assert_eq!(
            at(1 << 63)
                .expect("an answer")
                .filter(|vma| vma.start < 1 << 63),
            None
        );
        assert!(!is_main_stack(maps.as_fd(), code).expect("an answer"));
    }
}
