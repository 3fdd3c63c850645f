//! Runs instructions on the processor, in a process of their own.
//!
//! A batch of [`Slot`]s lies in memory that this process shares with a child. The child takes one
//! after the other: it fills the data page, loads every register, jumps to the instruction, and
//! wherever that leads, saves every register and the data page. What is behind an instruction and
//! at the targets of branches are stubs that say where they are; anything else ends in a signal,
//! whose handler says so. A child that dies is replaced and the instruction reported.
//!
//! All that an instruction may reach lies at fixed low addresses: encodings with 32-bit addresses
//! and absolute displacements reach it too, and next to nothing else is there to be overwritten.
#![expect(
    unsafe_code,
    reason = "instructions are executed, in memory that is mapped for them and shared with a child"
)]

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd as _;
use std::ptr::{NonNull, addr_of, addr_of_mut};

use anyhow::{Context as _, Result, bail};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::trampoline::{self, AREA, Area};

/// Size of a page on x86-64.
const PAGE: usize = 4096;
/// Where the instructions lie.
pub(crate) const CODE: u64 = 0x2000_0000;
/// Bytes of code for each slot of a batch.
pub(crate) const CODE_STRIDE: u64 = 256;
/// Where the data page lies; the pages around it are not accessible.
pub(crate) const DATA: u64 = 0x2200_0000;
/// Bytes of data.
pub(crate) const DATA_BYTES: usize = PAGE;
/// Base of the FS segment while an instruction runs, and of GS.
pub(crate) const SEGMENT_BASES: [u64; 2] = [DATA - 0x10_0000, DATA + 0x20_0000];
/// Slots of a batch.
pub(crate) const BATCH: usize = 64;
/// Time in which the child must have done a batch, in milliseconds: it needs less than one.
const PATIENCE: u16 = 20_000;

/// The registers, as the trampoline loads and saves them.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct NativeState {
    /// `zmm0` to `zmm31`, as far as the processor has them.
    pub(crate) vectors: [[u8; 64]; 32],
    /// The registers of x87, as `fxsave` stores them.
    pub(crate) x87: [u8; 512],
    /// rax rcx rdx rbx rsp rbp rsi rdi r8 to r15.
    pub(crate) gpr: [u64; 16],
    /// `k0` to `k7`, if the processor has them.
    pub(crate) masks: [u64; 8],
    pub(crate) rflags: u64,
    pub(crate) mxcsr: u32,
}

/// An instruction's input and, once it has run, its output.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) before: NativeState,
    pub(crate) after: NativeState,
    pub(crate) data_before: [u8; DATA_BYTES],
    pub(crate) data_after: [u8; DATA_BYTES],
    /// Address of the instruction.
    pub(crate) entry: u64,
    /// Where the processor went; the instruction itself if it could not be completed.
    pub(crate) arrived: u64,
    /// Number of the exception that ended it, or [`NO_EXCEPTION`].
    pub(crate) exception: u64,
}

/// No exception ended an instruction: it came to one of the stubs.
pub(crate) const NO_EXCEPTION: u64 = u64::MAX;

/// What is shared with the child.
#[repr(C)]
struct Shared {
    slots: [Slot; BATCH],
    /// Slots to run.
    count: usize,
    /// The slot that is being run.
    current: usize,
}

/// The child, and what is shared with it.
pub(crate) struct Native {
    shared: NonNull<Shared>,
    code: NonNull<[u8; BATCH * CODE_STRIDE as usize]>,
    child: Option<Child>,
}

struct Child {
    pid: Pid,
    go: PipeWriter,
    done: PipeReader,
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// Every slot has its output.
    All,
    /// Those before this one have; at this one the child died or went astray.
    Lost(usize),
}

impl Native {
    /// Maps what is shared. The child starts with the first batch.
    pub(crate) fn new() -> Result<Self> {
        let shared = map(
            None,
            size_of::<Shared>(),
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        )?;
        let bytes = BATCH * CODE_STRIDE as usize;
        let code = map(
            Some(CODE),
            bytes,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        )?;
        Ok(Self {
            shared: shared.cast(),
            code: code.cast(),
            child: None,
        })
    }

    /// The slots. The child is waiting whenever this can be called.
    pub(crate) fn slots(&mut self) -> &mut [Slot; BATCH] {
        // SAFETY: the mapping is as large as `Shared`, any bytes are a valid one, and the child
        // only touches it within `run`, which borrows `self` mutably.
        unsafe { &mut (*self.shared.as_ptr()).slots }
    }

    /// The code of a slot, at [`CODE`] + its number * [`CODE_STRIDE`].
    pub(crate) fn code(&mut self, slot: usize) -> &mut [u8] {
        // SAFETY: the mapping is as large as the array, and the child only executes it within
        // `run`, which borrows `self` mutably.
        let code = unsafe { self.code.as_mut() };
        let stride = CODE_STRIDE as usize;
        &mut code[slot * stride..(slot + 1) * stride]
    }

    /// Executes the first `count` slots.
    pub(crate) fn run(&mut self, count: usize) -> Result<Ran> {
        // SAFETY: as in `slots`.
        unsafe {
            (*self.shared.as_ptr()).count = count;
            (*self.shared.as_ptr()).current = 0;
        }
        if self.child.is_none() {
            self.child = Some(self.start()?);
        }
        let Some(child) = &mut self.child else {
            bail!("no child");
        };
        let mut answer = [0];
        let told = child.go.write_all(&[1]).is_ok();
        let mut wait = [PollFd::new(
            std::os::fd::AsFd::as_fd(&child.done),
            PollFlags::POLLIN,
        )];
        if told
            && poll(&mut wait, PollTimeout::from(PATIENCE))? == 1
            && child.done.read(&mut answer)? == 1
        {
            return Ok(Ran::All);
        }
        self.stop();
        // SAFETY: as in `slots`; the child is gone.
        Ok(Ran::Lost(unsafe { (*self.shared.as_ptr()).current }))
    }

    /// Forks the child, which waits for work.
    fn start(&self) -> Result<Child> {
        let (go_reader, go) = std::io::pipe()?;
        let (done, done_writer) = std::io::pipe()?;
        let (wait, tell) = (go_reader.as_raw_fd(), done_writer.as_raw_fd());
        // SAFETY: the child calls only what may be called after a fork (system calls, and code of
        // this module that neither allocates nor locks), and never returns from `serve`.
        match unsafe { fork() }.context("fork")? {
            ForkResult::Parent { child } => Ok(Child {
                pid: child,
                go,
                done,
            }),
            ForkResult::Child => {
                // SAFETY: this is a child of its own with the mappings of `new`.
                let _: Option<()> = unsafe { self.prepare() };
                // SAFETY: `prepare` did what `serve` asks for, or its lack ends the child.
                unsafe { serve(self.shared.as_ptr(), wait, tell) }
            }
        }
    }

    /// Maps what instructions may touch, and catches their exceptions.
    ///
    /// # Safety
    /// To be called in the child, before `serve`.
    unsafe fn prepare(&self) -> Option<()> {
        let none = ProtFlags::PROT_NONE;
        let write = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        map(Some(AREA), PAGE, write).ok()?;
        map(Some(DATA - PAGE as u64), 3 * PAGE, none).ok()?;
        // SAFETY: the pages are the ones just mapped, and the code's.
        unsafe {
            mprotect(NonNull::new(DATA as *mut _)?, PAGE, write).ok()?;
            let executable = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
            let bytes = BATCH * CODE_STRIDE as usize;
            mprotect(self.code.cast(), bytes, executable).ok()?;
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            (*(AREA as *mut Area)).prepare();
            catch_exceptions()
        }
    }

    fn stop(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = kill(child.pid, Signal::SIGKILL);
            while let Ok(WaitStatus::StillAlive) = waitpid(child.pid, None) {}
        }
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        self.stop();
        // SAFETY: both are mappings of `new`, and nobody holds a reference to them.
        unsafe {
            let _ = munmap(self.shared.cast(), size_of::<Shared>());
            let _ = munmap(self.code.cast(), BATCH * CODE_STRIDE as usize);
        }
    }
}

/// Maps shared memory, at an address where nothing is yet.
fn map(address: Option<u64>, bytes: usize, access: ProtFlags) -> Result<NonNull<libc::c_void>> {
    let mut flags = MapFlags::MAP_SHARED;
    if address.is_some() {
        flags |= MapFlags::MAP_FIXED_NOREPLACE;
    }
    let place = address.and_then(|at| NonZeroUsize::new(at as usize));
    let length = NonZeroUsize::new(bytes).context("nothing to map")?;
    // SAFETY: a new mapping, which replaces none.
    unsafe { mmap_anonymous(place, length, access, flags) }.context("mapping memory")
}

/// Has the handler called for whatever an instruction may raise, on a stack of its own.
///
/// # Safety
/// To be called in the child.
unsafe fn catch_exceptions() -> Option<()> {
    const STACK: usize = 1 << 16;
    let stack = map(None, STACK, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE).ok()?;
    let signals = [
        libc::SIGSEGV,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGBUS,
        libc::SIGTRAP,
    ];
    // SAFETY: the structures are valid for the calls, and the handler only uses what it is given
    // and the trampoline's area, which is mapped before instructions run.
    unsafe {
        let mut alternate: libc::stack_t = std::mem::zeroed();
        alternate.ss_sp = stack.as_ptr();
        alternate.ss_size = STACK;
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_exception as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        let installed = libc::sigaltstack(&raw const alternate, std::ptr::null_mut()) == 0
            && signals
                .iter()
                .all(|s| libc::sigaction(*s, &raw const action, std::ptr::null_mut()) == 0);
        installed.then_some(())
    }
}

/// Notes what an instruction raised and goes on to where its registers are saved.
///
/// The FS base is the instruction's: nothing here may use thread-local storage.
extern "C" fn on_exception(
    _: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::ucontext_t,
) {
    const DEBUG: i64 = 1;
    const BREAKPOINT: i64 = 3;
    const TRAP_FLAG: i64 = 1 << 8;
    // SAFETY: the kernel hands over the context of the thread, and the area is the child's own.
    unsafe {
        let registers = addr_of_mut!((*context).uc_mcontext.gregs).cast::<i64>();
        let exception = *registers.add(libc::REG_TRAPNO as usize);
        if exception == DEBUG {
            // An instruction set the trap flag: it is cleared, and the stub reached.
            *registers.add(libc::REG_EFL as usize) &= !TRAP_FLAG;
            return;
        }
        let rip = registers.add(libc::REG_RIP as usize);
        let at = *rip - i64::from(exception == BREAKPOINT);
        let area = AREA as *mut Area;
        (*area).arrived = at.cast_unsigned();
        (*area).exception = exception.cast_unsigned();
        *rip = trampoline::exit_address().cast_signed();
    }
}

/// Runs batches until the parent is gone. Never returns.
///
/// # Safety
/// In the child, after `prepare`; `shared` is what the parent fills before it writes to `wait`.
unsafe fn serve(shared: *mut Shared, wait: i32, tell: i32) -> ! {
    const ARCH_SET_GS: i32 = 0x1001;
    const ARCH_SET_FS: i32 = 0x1002;
    let [fs, gs] = SEGMENT_BASES;
    let byte = 1u8;
    // SAFETY: from here on no thread-local storage is used, so the segments are free; the slots
    // are valid for the time between the parent's word and the answer to it.
    unsafe {
        trampoline::system_call(libc::SYS_arch_prctl, [ARCH_SET_GS as u64, gs, 0]);
        trampoline::system_call(libc::SYS_arch_prctl, [ARCH_SET_FS as u64, fs, 0]);
        while trampoline::system_call(libc::SYS_read, [wait as u64, addr_of!(byte) as u64, 1]) == 1
        {
            for i in 0..(*shared).count {
                addr_of_mut!((*shared).current).write_volatile(i);
                run_slot(addr_of_mut!((*shared).slots).cast::<Slot>().add(i));
            }
            trampoline::system_call(libc::SYS_write, [tell as u64, addr_of!(byte) as u64, 1]);
        }
        loop {
            trampoline::system_call(libc::SYS_exit_group, [0, 0, 0]);
        }
    }
}

/// Runs one slot.
///
/// # Safety
/// In the child, after `prepare`; the slot is valid and no one else's.
unsafe fn run_slot(slot: *mut Slot) {
    let area = AREA as *mut Area;
    // SAFETY: see above; the data page and the area are mapped.
    unsafe {
        let data = DATA as *mut [u8; DATA_BYTES];
        data.copy_from_nonoverlapping(addr_of!((*slot).data_before), 1);
        (*area).arrived = 0;
        (*area).exception = NO_EXCEPTION;
        let (before, after) = (addr_of!((*slot).before), addr_of_mut!((*slot).after));
        trampoline::enter(before, (*slot).entry, after);
        addr_of_mut!((*slot).data_after).copy_from_nonoverlapping(data, 1);
        (*slot).arrived = (*area).arrived;
        (*slot).exception = (*area).exception;
    }
}
