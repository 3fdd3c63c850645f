//! What is delivered: samples, the records that explain them, and the batches that they come in.

use std::path::Path;
use std::sync::Arc;

use addresses::ProcessRange;
use serde::{Deserialize, Serialize};

use crate::packed::Packed;
use crate::sample::{Cycles, RawSample};
use crate::thread::{Pid, Tid};

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
    pub path: Arc<Path>,
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Path>, D::Error> {
        Vec::deserialize(from).map(|bytes| Path::new(OsStr::from_bytes(&bytes)).into())
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

/// What one drain of one CPU's ring gave; it may hold no record at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The CPU.
    pub cpu: u32,
    /// The records in the order they were written, which is nearly, but not always, that of time:
    /// an interrupt between a record's time stamp and its place in the ring turns two around.
    pub records: Vec<Record>,
    /// No later batch of this CPU holds a record with an earlier time (nanoseconds of
    /// `CLOCK_MONOTONIC`). Records of this batch may be later than it.
    pub drained_to: u64,
    /// Records that something is to be learned from, the sooner the better: mappings of code, and
    /// samples of processes that the handler of the engine `bpf` was not told of.
    pub urgent: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples of inherited events: their thread keeps the interval that was current when it was
    /// made, and is not reached by redraws.
    pub inherited: u64,
    /// Each interval drawn for this CPU since its last batch, in the clock's unit; in the first
    /// batch those that the events began with. With [`crate::Clock::Timer`] those of the samples.
    pub intervals: Vec<u64>,
    /// Other CPUs that had nothing, and up to when they are drained: as if they had sent empty
    /// batches.
    pub others_drained_to: Vec<(u32, u64)>,
}

impl Batch {
    /// That a CPU had nothing, and up to when it is drained.
    pub fn empty(cpu: u32, drained_to: u64) -> Self {
        Self {
            cpu,
            records: Vec::new(),
            drained_to,
            urgent: 0,
            malformed: 0,
            inherited: 0,
            intervals: Vec::new(),
            others_drained_to: Vec::new(),
        }
    }

    /// The same with all samples unpacked, for who looks at all of them.
    #[must_use]
    pub fn unpacked(mut self) -> Self {
        let all = self.records.len();
        let records = self.records.into_iter().map(Record::unpacked);
        self.records = records
            .filter(|record| !matches!(record, Record::Packed(_)))
            .collect();
        self.malformed += (all - self.records.len()) as u64;
        self
    }

    /// Whether more than one record in eight is urgent.
    pub(crate) fn has_much_urgent(&self) -> bool {
        self.urgent * 8 > self.records.len() as u64
    }

    /// Whether it says no more than up to when its CPU is drained.
    pub fn is_empty(&self) -> bool {
        let Self {
            cpu: _,
            records,
            drained_to: _,
            urgent: _,
            malformed,
            inherited,
            intervals,
            others_drained_to,
        } = self;
        records.is_empty()
            && (*malformed, *inherited) == (0, 0)
            && intervals.is_empty()
            && others_drained_to.is_empty()
    }

    /// Bytes that its records hold, with the memory that came with samples.
    pub fn memory_bytes(&self) -> usize {
        self.records.iter().map(Record::memory_bytes).sum()
    }
}
