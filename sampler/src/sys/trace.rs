//! What `ptrace` does of a thread, and what it tells.

use std::io;
use std::ptr;

use super::checked;
use crate::{Registers, Tid};

/// The set of registers that `XSAVE` saves.
const SAVED: usize = 0x202;
/// Bytes of a set of signals.
const MASK: usize = 8;

/// How a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// By one instruction.
    Step,
    /// To the next entry of a system call, or to its end.
    ToCall,
    /// For good, and untraced.
    Away,
}

/// General registers, and what the kernel keeps beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserState {
    pub(crate) registers: Registers,
    pub(crate) fs_base: u64,
    pub(crate) gs_base: u64,
    /// Number of the system call that the thread is in.
    pub(crate) call: Option<u64>,
}

fn id(tid: Tid) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(tid.0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))
}

/// A request whose arguments are numbers.
fn request(what: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    let tid = id(tid)?;
    // SAFETY: no request that is made here has the kernel look at memory of this process.
    let result = unsafe { libc::ptrace(what, tid, address, data) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Traces a thread from now on. It runs on, and when this thread ends it is traced no more.
pub(crate) fn seize(tid: Tid) -> io::Result<()> {
    // A small flag.
    let options = libc::PTRACE_O_TRACESYSGOOD as usize;
    request(libc::PTRACE_SEIZE, tid, 0, options)
}

/// Has a thread stop before it executes another instruction of its program.
pub(crate) fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on, and get a signal where it is not 0.
pub(crate) fn resume(tid: Tid, go: Go, signal: i32) -> io::Result<()> {
    let what = match go {
        Go::Step => libc::PTRACE_SINGLESTEP,
        Go::ToCall => libc::PTRACE_SYSCALL,
        Go::Away => libc::PTRACE_DETACH,
    };
    // Signals are small numbers.
    request(what, tid, 0, signal as usize)
}

/// The general registers of a stopped thread.
pub(crate) fn user_state(tid: Tid) -> io::Result<UserState> {
    let tid = id(tid)?;
    let nothing: *mut libc::c_void = ptr::null_mut();
    // SAFETY: all fields are integers, for which zero is a value.
    let mut found: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes registers to `found`, which is the struct that it means.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, nothing, &raw mut found) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let gpr = [
        found.rax, found.rcx, found.rdx, found.rbx, found.rsp, found.rbp, found.rsi, found.rdi,
        found.r8, found.r9, found.r10, found.r11, found.r12, found.r13, found.r14, found.r15,
    ];
    Ok(UserState {
        registers: Registers {
            gpr,
            ip: found.rip,
            flags: found.eflags,
            cs: found.cs,
            ss: found.ss,
        },
        fs_base: found.fs_base,
        gs_base: found.gs_base,
        call: (found.orig_rax.cast_signed() >= 0).then_some(found.orig_rax),
    })
}

/// The other registers of a stopped thread, as the processor saves them; how many bytes there are.
pub(crate) fn saved(tid: Tid, bytes: &mut [u8]) -> io::Result<usize> {
    let tid = id(tid)?;
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the kernel writes to the part, which is that of `bytes`, and to its length.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, SAVED, &raw mut part) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(part.iov_len.min(bytes.len()))
}

/// The signals that a stopped thread blocks, a bit each.
pub(crate) fn blocked(tid: Tid) -> io::Result<u64> {
    let tid = id(tid)?;
    let mut mask = 0_u64;
    // SAFETY: the kernel writes as many bytes to `mask` as it has.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, tid, MASK, &raw mut mask) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(mask)
}

/// Has a stopped thread block these signals.
pub(crate) fn set_blocked(tid: Tid, mask: u64) -> io::Result<()> {
    let tid = id(tid)?;
    // SAFETY: the kernel reads as many bytes of `mask` as it has.
    let result = unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, tid, MASK, &raw const mask) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The code of the signal that a thread stopped with: who sent it, and why.
pub(crate) fn signal_code(tid: Tid) -> io::Result<i32> {
    let tid = id(tid)?;
    let nothing: *mut libc::c_void = ptr::null_mut();
    // SAFETY: all fields are integers, for which zero is a value.
    let mut found: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to `found`, which is the struct that it means.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, nothing, &raw mut found) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.si_code)
}

/// What became of a traced thread, if anything did since this was told last.
pub(crate) fn changed(tid: Tid) -> io::Result<Option<i32>> {
    let tid = id(tid)?;
    let mut status = 0;
    // SAFETY: the kernel writes to `status`.
    let found = unsafe { libc::waitpid(tid, &raw mut status, libc::WNOHANG | libc::__WALL) };
    checked(found)?;
    Ok((found != 0).then_some(status))
}
