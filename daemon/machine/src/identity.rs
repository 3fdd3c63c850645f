//! What an image is known by.

use sampler::MmapIdentity;

/// What tells images apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The ELF build id.
    BuildId(Vec<u8>),
    /// The content id of an ELF file without a build id.
    Content(String),
    /// Device, inode and its generation (0 where that is not known), of a file that was not found
    /// in time, or is no ELF file.
    Inode {
        /// The device's major number.
        major: u32,
        /// The device's minor number.
        minor: u32,
        /// The inode's number.
        inode: u64,
        /// Tells it from others of that number.
        generation: u64,
    },
    /// A file that is mapped as memory shared with others, by device and inode. It is never opened:
    /// it may be a database of ours, and closing a file gives up all locks that this process has
    /// on it.
    Shared {
        /// The device's major number.
        major: u32,
        /// The device's minor number.
        minor: u32,
        /// The inode's number.
        inode: u64,
    },
    /// The kernel's own object in user space.
    Vdso,
    /// The kernel, with its modules.
    Kernel,
    /// Memory without a file.
    Anon,
    /// Code that a process between two execs made, or that others made in memory that it shares
    /// with them. Where code was replaced, what came later has a higher generation.
    Generated {
        /// The process.
        pid: u32,
        /// When it started, in clock ticks from the boot on.
        started: u64,
        /// How often it had called exec.
        execs: u32,
        /// How often code of it was replaced before.
        generation: u32,
    },
    /// One of these as far as its code ran in 32-bit mode.
    In32BitMode(Box<Identity>),
}

impl Identity {
    /// That of a file which was looked at; `None`: it is known by its inode alone.
    pub fn lasting(file: &MmapIdentity) -> Option<Self> {
        match file {
            MmapIdentity::BuildId(id) => Some(Self::BuildId(id.clone())),
            MmapIdentity::Content(id) => Some(Self::Content(id.clone())),
            MmapIdentity::Inode { .. } => None,
        }
    }
}
