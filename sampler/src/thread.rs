//! A thread: the ids of it and of its process, what it was doing, and its registers.

use std::fmt;

use addresses::ProcessAddress;
use serde::{Deserialize, Serialize};

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
