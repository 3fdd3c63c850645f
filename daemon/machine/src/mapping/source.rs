//! Mappings as the kernel tells of them: by a record, or by a line of `/proc/PID/maps`.

use std::os::unix::ffi::OsStrExt;

use addresses::ProcessRange;
use sampler::Mmap;

use super::{Area, Mapping, MappingKind, Rights};
use crate::place::ImageId;
use crate::system::procfs::MapsLine;

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;
const MAP_PRIVATE: u32 = 2;

/// The rights that a record tells of.
pub fn rights(mmap: &Mmap) -> Rights {
    (mmap.prot & PROT_READ != 0, mmap.writable())
}

/// Whether what was mapped is data without a file.
pub fn is_data(mmap: &Mmap) -> bool {
    if mmap.executable() {
        return false;
    }
    let path = mmap.path.as_os_str().as_bytes();
    // Most is called so.
    matches!(path, b"[heap]" | b"//anon") || is_anon(path) && is_regular(path)
}

/// Whether what was mapped is the heap that `brk` moves the end of.
pub(crate) fn is_heap(mmap: &Mmap) -> bool {
    mmap.path.as_os_str().as_bytes() == b"[heap]"
}

fn is_anon(path: &[u8]) -> bool {
    path != b"[vdso]" && (!path.starts_with(b"/") || path.starts_with(b"//"))
}

impl MappingKind {
    /// Of what PERF_RECORD_MMAP2 calls so.
    pub(crate) fn of_record(path: &str) -> Self {
        match path {
            "[vdso]" => Self::Vdso,
            path if is_anon(path.as_bytes()) => Self::Anon,
            _ => Self::File,
        }
    }

    /// Of a line of `/proc/PID/maps`.
    pub(crate) fn of_line(line: &MapsLine) -> Self {
        match line.path.as_str() {
            "[vdso]" => Self::Vdso,
            path if path.starts_with('/') && line.inode != 0 => Self::File,
            _ => Self::Anon,
        }
    }

    /// The path that an image has of which the kernel tells by this one.
    pub(crate) fn image_path(self, path: &str) -> &str {
        match self {
            Self::File => path.strip_suffix(" (deleted)").unwrap_or(path),
            Self::Vdso => "[vdso]",
            Self::Anon => "[anon]",
        }
    }
}

impl Mapping {
    /// From PERF_RECORD_MMAP2, of that kind with that path and of that image.
    pub(crate) fn of_record(mmap: &Mmap, kind: MappingKind, path: &str, image: ImageId) -> Self {
        let private = mmap.flags & MAP_PRIVATE != 0 || kind == MappingKind::Vdso;
        let writable = mmap.prot & PROT_WRITE != 0;
        Self {
            range: mmap.range(),
            file_offset: if kind == MappingKind::File {
                mmap.offset
            } else {
                0
            },
            image,
            executable: mmap.prot & PROT_EXEC != 0,
            never_writable: private && !writable,
            readable: mmap.prot & PROT_READ != 0,
            writable,
            shared: !private,
            special: !is_regular(path.as_bytes()),
            kernel_writes: does_kernel_write(path),
            kind,
            area: area(path),
        }
    }

    /// From a line of `/proc/PID/maps`, of that image.
    pub(crate) fn of_line(line: &MapsLine, image: ImageId) -> Self {
        let kind = MappingKind::of_line(line);
        Self {
            range: ProcessRange::of_words(line.start, line.end),
            file_offset: if kind == MappingKind::File {
                line.offset
            } else {
                0
            },
            image,
            executable: line.executable,
            never_writable: !line.shared && !line.writable,
            readable: line.readable,
            writable: line.writable,
            shared: line.shared,
            special: !is_regular(line.path.as_bytes()),
            kernel_writes: does_kernel_write(&line.path),
            kind,
            area: area(&line.path),
        }
    }
}

/// What the kernel uses memory of this name for.
fn area(path: &str) -> Area {
    match path {
        "[heap]" => Area::Heap,
        "[stack]" => Area::Stack,
        _ => Area::Other,
    }
}

/// Whether the kernel writes there while the program runs: the clock's data.
fn does_kernel_write(path: &str) -> bool {
    path.starts_with("[vvar")
}

/// Whether a path of a mapping can only be that of memory or of a regular file.
fn is_regular(path: &[u8]) -> bool {
    if path.starts_with(b"/dev/") {
        let memory = ["/dev/shm/", "/dev/zero", "/dev/hugepages/"];
        return memory
            .iter()
            .any(|prefix| path.starts_with(prefix.as_bytes()));
    }
    let devices = ["/sys/", "/proc/", "anon_inode:", "socket:"];
    !devices
        .iter()
        .any(|prefix| path.starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices are told from memory that merely has a name.
    #[test]
    fn paths() {
        for path in [
            "/usr/bin/x",
            "[heap]",
            "//anon",
            "/dev/shm/a",
            "/dev/zero (deleted)",
            "",
        ] {
            assert!(is_regular(path.as_bytes()), "{path}");
        }
        for path in [
            "/dev/mem",
            "/sys/bus/pci/x/resource0",
            "anon_inode:[perf_event]",
        ] {
            assert!(!is_regular(path.as_bytes()), "{path}");
        }
    }
}
