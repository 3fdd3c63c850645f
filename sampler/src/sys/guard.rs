//! Pages that fault although their mapping allows the access (guard regions, Linux 6.13 and later),
//! asked of the kernel (6.15 and later).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct pm_scan_arg` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const _: () = assert!(size_of::<Scan>() == 96 && size_of::<Region>() == 24);

/// `PAGEMAP_SCAN`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl =
    (3 << 30 | (size_of::<Scan>() as libc::Ioctl) << 16) | 0x66 << 8 | 16;
/// `PAGE_IS_GUARD`.
const GUARD: u64 = 1 << 8;
/// Regions that are told apart.
const MAX_REGIONS: usize = 64;
/// Behind the last page of user memory, with five levels of page tables or four: the kernel refuses
/// what is too much.
const ENDS: [u64; 2] = [(1 << 56) - 4096, (1 << 47) - 4096];

/// The guard regions of a process: first address, and address behind the last. `pagemap` is its
/// open `/proc/PID/pagemap`. `None`: there are more than are told apart.
///
/// # Errors
/// `ENOTTY` or `EINVAL`: the kernel cannot tell. `ESRCH`: the address space is gone.
pub fn guard_regions(pagemap: BorrowedFd<'_>) -> io::Result<Option<Vec<(u64, u64)>>> {
    let mut found = Err(io::Error::from_raw_os_error(libc::EINVAL));
    for end in ENDS {
        found = scan(pagemap, end);
        let refused =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EFAULT));
        if !found.as_ref().is_err_and(refused) {
            break;
        }
    }
    found
}

fn scan(pagemap: BorrowedFd<'_>, end: u64) -> io::Result<Option<Vec<(u64, u64)>>> {
    let mut regions = [Region::default(); MAX_REGIONS];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        end,
        regions: regions.as_mut_ptr().expose_provenance() as u64,
        regions_len: MAX_REGIONS as u64,
        category_mask: GUARD,
        return_mask: GUARD,
        ..Scan::default()
    };
    // SAFETY: `scan` has the size that it states; the kernel writes to it, and to as many regions
    // as it states, which outlive the call.
    let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    let regions = regions.iter().take(count);
    let found = regions.map(|region| (region.start, region.end)).collect();
    Ok((count < MAX_REGIONS).then_some(found))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    const GUARD_INSTALL: libc::c_int = 102;

    /// A guard region of this very process is found; where the kernel makes none, or cannot tell,
    /// it says so.
    #[test]
    fn own_guard_regions() {
        let length = 8 * 4096;
        // SAFETY: new memory, of which nobody else knows.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let page = at.addr() + 4096;
        // SAFETY: the range lies in the memory from above.
        let made = unsafe { libc::madvise(at.byte_add(4096), 2 * 4096, GUARD_INSTALL) };
        let pagemap = File::open("/proc/self/pagemap").expect("own pages");
        match guard_regions(pagemap.as_fd()) {
            Ok(found) => {
                let found = found.expect("few");
                let expected = (page as u64, page as u64 + 2 * 4096);
                assert_eq!(found.contains(&expected), made == 0, "{found:x?}");
            }
            Err(error) => assert!(
                matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTTY)),
                "{error}"
            ),
        }
    }
}
