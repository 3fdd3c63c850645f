//! What the sampler delivers: samples, the records that explain them, and the batches they come in.

mod record;

use addresses::ProcessAddress;
use serde::{Deserialize, Serialize};

use std::fmt;

use crate::{CapturedMemory, ProcessKey};

pub use self::record::{Mmap, MmapIdentity, Record};

/// A process (thread group) id as the sampler's own pid namespace sees it.
///
/// The kernel writes 0 for the idle task and for processes outside the namespace, and
/// [`Pid::GONE`] for a task that had already been released when the record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pid(pub u32);

/// A thread id; the same remarks as for [`Pid`] hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tid(pub u32);

impl Pid {
    /// What the kernel writes for a task that no longer has an id.
    pub const GONE: Pid = Pid(u32::MAX);
}

impl Tid {
    /// What the kernel writes for a task that no longer has an id.
    pub const GONE: Tid = Tid(u32::MAX);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The integer registers of a 64-bit thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Registers {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15: the order of instruction encodings.
    pub gpr: [u64; 16],
    /// The instruction pointer: the next instruction to be executed.
    pub ip: u64,
    /// RFLAGS.
    pub flags: u64,
    /// The code segment selector.
    pub cs: u64,
    /// The stack segment selector.
    pub ss: u64,
}

const _: () = assert!(size_of::<Registers>() == 160);

impl Registers {
    /// Index of rsp in [`Registers::gpr`].
    pub const RSP: usize = 4;
    /// Index of rbp in [`Registers::gpr`].
    pub const RBP: usize = 5;

    /// The instruction pointer, as an address of the process.
    pub fn pc(&self) -> ProcessAddress {
        ProcessAddress(self.ip)
    }

    /// The stack pointer.
    pub fn sp(&self) -> u64 {
        self.gpr[Self::RSP]
    }

    /// The frame pointer register, whatever the code uses it for.
    pub fn bp(&self) -> u64 {
        self.gpr[Self::RBP]
    }
}

/// What the CPU was doing when the sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Code of a process.
    User,
    /// Code of the kernel.
    Kernel,
    /// Code of a hypervisor below this kernel.
    Hypervisor,
    /// User code of a virtual machine that this kernel hosts.
    GuestUser,
    /// Kernel code of a virtual machine that this kernel hosts.
    GuestKernel,
    /// The kernel does not say.
    Unknown,
}

/// The registers with which the thread left, or would leave, user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserRegisters {
    /// There are none: a kernel thread, or an interrupt while the kernel was just saving them.
    None,
    /// The thread was running 32-bit code.
    Compat,
    /// The thread was running 64-bit code.
    ///
    /// In a sample of [`Mode::User`] these are the interrupted registers. In a sample of the
    /// kernel they are what it saved on entry, and only `ip`, rsp, rbp, `flags`, `cs` and `ss` can
    /// be relied on: within a system call rax holds no value of the program, rcx and r11 were
    /// overwritten by the entry, and an interrupt that cannot be masked leaves rbx and r12 to r15
    /// as all ones.
    Long(Registers),
}

impl Registers {
    /// The bit of RFLAGS that the kernel sets where a breakpoint stopped a thread, so that it goes
    /// on; no program sees it.
    const RESUMES: u64 = 1 << 16;

    /// Whether all is the same, but for whether a breakpoint has stopped the thread.
    pub fn is_same_but_resuming(&self, other: &Registers) -> bool {
        let lasting = |of: &Registers| Registers {
            flags: of.flags & !Self::RESUMES,
            ..*of
        };
        lasting(self) == lasting(other)
    }
}

impl UserRegisters {
    /// Those of 64-bit code.
    pub fn long(&self) -> Option<&Registers> {
        match self {
            Self::Long(registers) => Some(registers),
            Self::None | Self::Compat => None,
        }
    }
}

/// One interrupt: what was executing, with which registers and which stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSample {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU that was interrupted.
    pub cpu: u32,
    /// The process that was running.
    pub pid: Pid,
    /// The thread that was running.
    pub tid: Tid,
    /// The interval that ended here, in the clock's unit (cycles, or nanoseconds).
    pub period: u64,
    /// The interrupted PC; 0 in a sample of [`crate::Clock::Timer`] of which only the thread is
    /// known, which then counts as one of the kernel.
    pub ip: ProcessAddress,
    /// What was interrupted.
    pub mode: Mode,
    /// The interrupted registers; `None` for 32-bit code, and where the kernel gives none.
    pub interrupted: Option<Registers>,
    /// The user registers, also where the kernel was interrupted.
    pub user: UserRegisters,
    /// User memory from the user stack pointer upward, as much of it as could be copied (it may be
    /// nothing); never padded. The engine `bpf` copies 2,048 bytes at most, and none where an
    /// unwind row leads to the caller. Where more than one caller is asked for and rows are
    /// lacking, it copies up to 32,768 bytes, in which nobody looked for changes: they are for
    /// callers alone.
    pub stack: Box<[u8]>,
    /// What the engine `bpf` brought besides; `None` from the engine `ring`.
    pub capture: Option<CapturedMemory>,
}

impl RawSample {
    /// Bytes of the memory that came with it.
    pub fn memory_bytes(&self) -> usize {
        let captured = self
            .capture
            .as_ref()
            .map_or(0, CapturedMemory::memory_bytes);
        self.stack.len() + captured
    }
}

/// Samples of one PC of one thread that found no room: their cycles are not lost, their values are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycles {
    /// When they were fetched, in nanoseconds of `CLOCK_MONOTONIC`, which is after they were taken.
    pub time: u64,
    /// The process.
    pub process: ProcessKey,
    /// Its effective user id.
    pub euid: u32,
    /// The interrupted PC.
    pub ip: ProcessAddress,
    /// What was interrupted.
    pub mode: Mode,
    /// How many samples.
    pub samples: u64,
    /// Their intervals summed, in the clock's unit.
    pub weight: u64,
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
