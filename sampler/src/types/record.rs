//! The records of a CPU's buffer: samples, and what explains them.

use std::borrow::Cow;
use std::path::Path;

use addresses::ProcessRange;
use serde::{Deserialize, Serialize};

use super::{Cycles, Pid, RawSample, Tid};
use crate::Packed;

/// How a mapping's file is identified: by the kernel with its inode, by who has looked at the file
/// with its build id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MmapIdentity {
    /// The build id of the mapped ELF file: 1 to 20 bytes.
    BuildId(Vec<u8>),
    /// Device and inode; all zero for a mapping without a file.
    Inode {
        /// Major device number.
        major: u32,
        /// Minor device number.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Inode generation.
        generation: u64,
    },
    /// The content id of a mapped file without a build id.
    Content(String),
}

/// A range of addresses was mapped, or its protection was changed.
///
/// The kernel reports no unmapping: a later mapping over the same addresses replaces this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mmap {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The process.
    pub pid: Pid,
    /// The thread that made the mapping.
    pub tid: Tid,
    /// First address.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// Where in the file the mapping begins, in bytes.
    pub offset: u64,
    /// Which file it is.
    pub identity: MmapIdentity,
    /// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
    pub prot: u32,
    /// `MAP_PRIVATE`, `MAP_SHARED` and the like.
    pub flags: u32,
    /// The path as the kernel gives it: a file, or a name like `[heap]`, `[vdso]`, `//anon`.
    #[serde(with = "path_as_bytes")]
    pub path: Cow<'static, Path>,
}

impl Mmap {
    /// Where it lies.
    pub fn range(&self) -> ProcessRange {
        ProcessRange::of_words(self.address, self.address.saturating_add(self.len))
    }

    /// Whether the mapping may be executed.
    pub fn executable(&self) -> bool {
        self.prot & libc::PROT_EXEC.cast_unsigned() != 0
    }

    /// Whether the mapping may be written.
    pub fn writable(&self) -> bool {
        self.prot & libc::PROT_WRITE.cast_unsigned() != 0
    }

    /// Whether writes go to the mapped file and to whoever else maps it.
    pub fn shared(&self) -> bool {
        self.flags & libc::MAP_SHARED.cast_unsigned() != 0
    }
}

/// Paths need not be text.
mod path_as_bytes {
    use std::borrow::Cow;
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Cow<'static, Path>, D::Error> {
        Vec::deserialize(from).map(|bytes| PathBuf::from(OsString::from_vec(bytes)).into())
    }
}

/// One record of a CPU's buffer. All times are nanoseconds of `CLOCK_MONOTONIC`.
///
/// It is small, since nearly all of them are packed samples, and each is moved several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// An interrupt.
    Sample(Box<RawSample>),
    /// Interrupts whose samples found no room in the buffer of the engine `bpf`.
    Cycles(Box<Cycles>),
    /// A mapping, executable or not.
    Mmap(Box<Mmap>),
    /// A thread has a new name.
    Comm {
        /// When.
        time: u64,
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The name; bytes that are not UTF-8 are replaced.
        name: String,
        /// Whether the name changed because the process executed a new program.
        exec: bool,
    },
    /// A process or thread was made.
    Fork {
        /// When.
        time: u64,
        /// The process of the new thread; equal to `ppid` for a new thread of the same process.
        pid: Pid,
        /// The process of the thread that made it.
        ppid: Pid,
        /// The new thread.
        tid: Tid,
        /// The thread that made it.
        ptid: Tid,
    },
    /// A thread ended.
    Exit {
        /// When.
        time: u64,
        /// The process.
        pid: Pid,
        /// The parent process.
        ppid: Pid,
        /// The thread.
        tid: Tid,
        /// The parent's thread.
        ptid: Tid,
    },
    /// The kernel stopped an event because its interrupts came too fast.
    Throttle {
        /// When.
        time: u64,
    },
    /// The kernel let a throttled event go on.
    Unthrottle {
        /// When.
        time: u64,
    },
    /// Records were lost because the ring was full.
    Lost {
        /// When this was noticed, which is after the loss.
        time: u64,
        /// How many records, samples and others.
        count: u64,
    },
    /// Samples were lost before they reached the ring.
    LostSamples {
        /// When this was noticed.
        time: u64,
        /// How many samples.
        count: u64,
    },
    /// An interrupt, as the engine `bpf` delivers it.
    Packed(Packed),
}

const _: () = assert!(size_of::<Record>() == 56);

impl Record {
    /// When the record was written, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn time(&self) -> u64 {
        match self {
            Record::Sample(sample) => sample.time,
            Record::Packed(packed) => packed.time(),
            Record::Mmap(mmap) => mmap.time,
            Record::Cycles(cycles) => cycles.time,
            Record::Comm { time, .. }
            | Record::Fork { time, .. }
            | Record::Exit { time, .. }
            | Record::Throttle { time }
            | Record::Unthrottle { time }
            | Record::Lost { time, .. }
            | Record::LostSamples { time, .. } => *time,
        }
    }

    /// The same, a packed sample unpacked; one that cannot be stays as it is.
    #[must_use]
    pub fn unpacked(self) -> Self {
        match self {
            Record::Packed(packed) => match packed.unpack() {
                Some(sample) => Record::Sample(Box::new(sample)),
                None => Record::Packed(packed),
            },
            other => other,
        }
    }

    /// Bytes of the memory that came with it, if it is a sample.
    pub fn captured_bytes(&self) -> usize {
        match self {
            Record::Sample(sample) => sample.memory_bytes(),
            Record::Packed(packed) => packed.memory_bytes(),
            _ => 0,
        }
    }

    /// Those and its own.
    pub(crate) fn memory_bytes(&self) -> usize {
        let boxed = match self {
            Record::Mmap(_) => size_of::<Mmap>(),
            Record::Cycles(_) => size_of::<Cycles>(),
            _ => 0,
        };
        size_of::<Self>() + boxed + self.captured_bytes()
    }
}
