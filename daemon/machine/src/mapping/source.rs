//! Mappings as the kernel tells of them: by a record, or by a line of `/proc/PID/maps`.

use std::os::unix::ffi::OsStrExt;

use addresses::ProcessRange;
use sampler::{Mmap, MmapIdentity, Pid};

use super::{Area, Mapping, MappingKind, Rights};
use crate::images::{Identity, Images};
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
    // Most is called so.
    if matches!(mmap.path.as_os_str().as_bytes(), b"[heap]" | b"//anon") {
        return true;
    }
    let path = mmap.path.to_string_lossy();
    is_anon(&path) && is_regular(&path)
}

/// Whether what was mapped is the heap that `brk` moves the end of.
pub(crate) fn is_heap(mmap: &Mmap) -> bool {
    mmap.path.as_os_str().as_bytes() == b"[heap]"
}

fn is_anon(path: &str) -> bool {
    path != "[vdso]" && (!path.starts_with('/') || path.starts_with("//"))
}

/// From PERF_RECORD_MMAP2.
pub(crate) fn mapping_of_record(mmap: &Mmap, images: &mut Images) -> Mapping {
    let path = mmap.path.to_string_lossy();
    let (identity, kind) = match &mmap.identity {
        _ if is_anon(&path) => (Identity::Anon, MappingKind::Anon),
        _ if path == "[vdso]" => (Identity::Vdso, MappingKind::Vdso),
        MmapIdentity::BuildId(id) => (Identity::BuildId(id.clone()), MappingKind::File),
        MmapIdentity::Content(id) => (Identity::Content(id.clone()), MappingKind::File),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            ..
        } if mmap.shared() => (
            Identity::Shared {
                major: *major,
                minor: *minor,
                inode: *inode,
            },
            MappingKind::File,
        ),
        MmapIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => (
            Identity::Inode {
                major: *major,
                minor: *minor,
                inode: *inode,
                generation: *generation,
            },
            MappingKind::File,
        ),
    };
    let image = images.intern(identity, image_path(&path, kind));
    images.mapped(image, mmap.time);
    let private = mmap.flags & MAP_PRIVATE != 0 || kind == MappingKind::Vdso;
    let writable = mmap.prot & PROT_WRITE != 0;
    Mapping {
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
        special: !is_regular(&path),
        kernel_writes: does_kernel_write(&path),
        kind,
        area: area(&path),
    }
}

/// From a line of `/proc/PID/maps`.
pub(crate) fn mapping_of_line(pid: Option<Pid>, line: &MapsLine, images: &mut Images) -> Mapping {
    let kind = match line.path.as_str() {
        "[vdso]" => MappingKind::Vdso,
        path if path.starts_with('/') && line.inode != 0 => MappingKind::File,
        _ => MappingKind::Anon,
    };
    let identity = match kind {
        MappingKind::Vdso => Identity::Vdso,
        MappingKind::Anon => Identity::Anon,
        MappingKind::File => images.identity_of_mapped(pid, line),
    };
    let image = images.intern(identity, image_path(&line.path, kind));
    Mapping {
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
        special: !is_regular(&line.path),
        kernel_writes: does_kernel_write(&line.path),
        kind,
        area: area(&line.path),
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
fn is_regular(path: &str) -> bool {
    if path.starts_with("/dev/") {
        let memory = ["/dev/shm/", "/dev/zero", "/dev/hugepages/"];
        return memory.iter().any(|prefix| path.starts_with(prefix));
    }
    let devices = ["/sys/", "/proc/", "anon_inode:", "socket:"];
    !devices.iter().any(|prefix| path.starts_with(prefix))
}

fn image_path(path: &str, kind: MappingKind) -> &str {
    match kind {
        MappingKind::File => path.strip_suffix(" (deleted)").unwrap_or(path),
        MappingKind::Vdso => "[vdso]",
        MappingKind::Anon => "[anon]",
    }
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
            assert!(is_regular(path), "{path}");
        }
        for path in [
            "/dev/mem",
            "/sys/bus/pci/x/resource0",
            "anon_inode:[perf_event]",
        ] {
            assert!(!is_regular(path), "{path}");
        }
    }
}
