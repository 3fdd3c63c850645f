//! The system calls and the shared memory: the only unsafe code of the crate.
#![expect(
    unsafe_code,
    reason = "perf_event_open, its ioctls and its ring buffer, PROCMAP_QUERY, SO_PEERGROUPS, kcmp, and ptrace of any signal, have no safe wrapper"
)]

mod guard;
pub(crate) mod trace;
mod vma;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys as perf;
use perf_event_open_sys::bindings::{perf_event_attr, perf_event_mmap_page};

pub use self::guard::guard_regions;
pub use self::vma::{Vma, is_main_stack, vma_from};
use crate::thread::Pid;

/// Size of a page on x86-64.
const PAGE: usize = 4096;

/// The present time in nanoseconds of `CLOCK_MONOTONIC`, the clock of every record.
pub fn clock_now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that the call may write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // The call cannot fail for this clock, and its fields are not negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Whether two processes use the same memory.
///
/// # Errors
/// What the system says: one of them is gone (`ESRCH`), or may not be looked at (`EPERM`).
pub fn share_memory(one: Pid, other: Pid) -> io::Result<bool> {
    /// `KCMP_VM` of `linux/kcmp.h`.
    const MEMORY: libc::c_long = 1;
    let (one, other) = (libc::c_long::from(one.0), libc::c_long::from(other.0));
    // SAFETY: the call takes numbers only.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) };
    match order {
        ..0 => Err(io::Error::last_os_error()),
        order => Ok(order == 0),
    }
}

/// Opens an event. `pid` is a thread id, 0 for the caller, or -1 for everybody.
pub(crate) fn open(attr: perf_event_attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    open_event(attr, pid, cpu, -1)
}

/// Opens an event of a thread, wherever it runs, in the group of this leader if there is one.
pub(crate) fn open_in(
    attr: perf_event_attr,
    tid: i32,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    open_event(
        attr,
        tid,
        -1,
        leader.map_or(-1, |leader| leader.as_raw_fd()),
    )
}

fn open_event(mut attr: perf_event_attr, pid: i32, cpu: i32, group: i32) -> io::Result<OwnedFd> {
    // SAFETY: `attr` is initialised, states its own size, and outlives the call, which may write
    // to its `size` field.
    let fd = unsafe {
        perf::perf_event_open(
            &raw mut attr,
            pid,
            cpu,
            group,
            libc::c_ulong::from(perf::bindings::PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the calling thread the highest priority of ordinary scheduling.
pub(crate) fn raise_priority() -> io::Result<()> {
    // SAFETY: the call takes numbers only; 0 names the calling thread.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) })
}

/// Lets the calling thread run before all that have no real-time priority, as the last of those
/// that have. What it starts has none.
pub(crate) fn become_real_time() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads the parameter during the call; 0 names the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) })
}

/// Has the calling thread run on this processor from now on, if it may.
pub(crate) fn go_to(cpu: Option<u32>) {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut only = CpuSet::new();
    let Some(cpu) = cpu.and_then(|cpu| usize::try_from(cpu).ok()) else {
        return;
    };
    if only.set(cpu).is_ok() {
        // 0 names the calling thread. Where it may not, it stays.
        let _ = sched_setaffinity(nix::unistd::Pid::from_raw(0), &only);
    }
}

/// Where the processor saves components 2 to 7 of its state if each has its own place; 0 for what
/// it does not have.
pub(crate) fn state_places() -> [usize; 6] {
    use std::arch::x86_64::__cpuid_count;
    /// The leaf of saved states.
    const STATES: u32 = 0xd;
    let has_states = std::arch::is_x86_feature_detected!("xsave");
    std::array::from_fn(|index| {
        // There are few, and an address of the area fits.
        let place = |number| __cpuid_count(STATES, number).ebx as usize;
        if has_states {
            place(index as u32 + 2)
        } else {
            0
        }
    })
}

/// Lets the calling thread, and those that it starts, have a processor soon: it needs little of it,
/// but what waits for it too long is lost.
///
/// # Errors
/// What the system says: it takes the privilege to set priorities.
pub fn hasten() -> io::Result<()> {
    // SAFETY: as for `raise_priority`.
    let now = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // Whoever started it may have given it more already.
    if now <= SOON {
        return Ok(());
    }
    // SAFETY: as for `raise_priority`.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, SOON) })
}

/// The nice value of a collector.
const SOON: libc::c_int = -10;

/// Gives the calling thread no more of the processor than a program of any user has.
///
/// # Errors
/// What the system says.
pub fn ordinary_priority() -> io::Result<()> {
    // SAFETY: as for `raise_priority`.
    let now = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // Whoever started it may have given it less.
    if now >= 0 {
        return Ok(());
    }
    // SAFETY: as for `raise_priority`.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) })
}

/// Lets the calling thread, which has work for others, wait for those that have not: it gets the
/// processor after them. Only the privileged can take that back.
///
/// # Errors
/// What the system says.
pub fn lower_priority() -> io::Result<()> {
    // SAFETY: as for `raise_priority`.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) })
}

/// The supplementary groups of whoever connected to a listening Unix socket, as of that moment.
///
/// # Errors
/// If `socket` is no connected Unix socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut bytes = u32::try_from(size_of_val(groups.as_slice()))
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the kernel writes at most `bytes` bytes to `groups`, which has as many, and to
        // `bytes` how many there are.
        let result = checked(unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        });
        let there = bytes as usize / size_of::<libc::gid_t>();
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && there > groups.len() => {
                groups.resize(there, 0);
            }
            Err(error) => return Err(error),
            Ok(()) => {
                groups.truncate(there);
                return Ok(groups);
            }
        }
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// What the system says of numbers that make no sense.
fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// Maps so many bytes that the kernel shares through a descriptor, from the first one on, to read
/// and to write. It refuses more than there are.
fn share(of: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<libc::c_void>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            of.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base).ok_or_else(invalid)
}

/// Lets an event, and all its inherited copies, count.
pub(crate) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; the request takes a plain number.
    checked(unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Stops an event, and all its inherited copies.
pub(crate) fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: as for `enable`.
    checked(unsafe { perf::ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Lets an event run over so many times more, and no more often.
pub(crate) fn refresh(event: BorrowedFd<'_>, times: u32) -> io::Result<()> {
    let times = i32::try_from(times).map_err(|_| invalid())?;
    // SAFETY: the descriptor is open; the request takes a plain number.
    checked(unsafe { perf::ioctls::REFRESH(event.as_raw_fd(), times) })
}

/// Begins a new interval now; inherited copies keep theirs.
pub(crate) fn set_period(event: BorrowedFd<'_>, period: u64) -> io::Result<()> {
    // The request takes the address of the number, though the binding asks for a number.
    let address = (&raw const period).expose_provenance() as u64;
    // SAFETY: the descriptor is open; the kernel reads the number at `address` during the call.
    checked(unsafe { perf::ioctls::PERIOD(event.as_raw_fd(), address) })
}

/// Lets a BPF program run at each overflow of an event.
pub(crate) fn set_bpf(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; the request takes a descriptor's number.
    checked(unsafe {
        perf::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd().cast_unsigned())
    })
}

/// Lets an event write into the ring of another event of the same CPU.
pub(crate) fn set_output(event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; the request takes a descriptor's number.
    checked(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
}

/// What the kernel tells of an event with the read format of [`attributes`](crate::attr::attributes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// What it has counted, in its unit.
    pub(crate) count: u64,
    /// For how long it has been enabled, in nanoseconds.
    pub(crate) enabled: u64,
    /// Records that found no room; unknown to kernels before Linux 6.0.
    pub(crate) lost: Option<u64>,
}

/// Reads an event's totals.
pub(crate) fn totals(event: BorrowedFd<'_>) -> io::Result<Totals> {
    let mut bytes = [0; 24];
    let read = nix::unistd::read(event, &mut bytes)?;
    let (words, _) = bytes[..read].as_chunks();
    let word = |index: usize| words.get(index).copied().map(u64::from_ne_bytes);
    Ok(Totals {
        count: word(0).ok_or(io::ErrorKind::UnexpectedEof)?,
        enabled: word(1).ok_or(io::ErrorKind::UnexpectedEof)?,
        lost: word(2),
    })
}

/// The kernel's id of an event: the stream id of its own samples.
pub(crate) fn id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0_u64;
    // SAFETY: the descriptor is open; the kernel writes one number to `id`.
    checked(unsafe { perf::ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

/// The ring of an event, shared with the kernel: one control page, then the data.
pub(crate) struct Ring {
    base: NonNull<perf_event_mmap_page>,
    /// Of the data, in bytes: a power of two.
    size: usize,
    /// Up to where we have read; counts on and on, as the kernel's head does.
    tail: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Ring` is its only user.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event with `pages` pages of data, a power of two.
    pub(crate) fn map(event: BorrowedFd<'_>, pages: u32) -> io::Result<Ring> {
        let size = (pages as usize).checked_mul(PAGE).ok_or_else(invalid)?;
        let len = size.checked_add(PAGE).ok_or_else(invalid)?;
        Ok(Ring {
            base: share(event, len)?.cast(),
            size,
            tail: 0,
        })
    }

    /// Hands what the ring holds to `read`, in two parts because it may wrap around the end, and
    /// gives the room back to the kernel.
    pub(crate) fn drain<T>(&mut self, read: impl FnOnce(&[u8], &[u8]) -> T) -> T {
        let page = self.base.as_ptr();
        // SAFETY: the control page is mapped, and its head is aligned and accessed atomically, as
        // the kernel writes it.
        let head = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_head) };
        // Acquire: the records below the head are read after it.
        let head = head.load(Ordering::Acquire);
        // The kernel never runs further ahead than the ring is long; were it so, the bound keeps
        // the reads within the mapping.
        let held = usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(self.size);
        let held = held.min(self.size);
        // The size is a power of two, and the remainder is less than it.
        let start = (self.tail & (self.size as u64 - 1)) as usize;
        let first = held.min(self.size - start);
        // SAFETY: the data follows the control page. Both parts lie within its `size` bytes:
        // `start + first <= size` and `held - first <= start`. The kernel has written them before
        // it moved the head (acquire above) and does not write there again before the tail has
        // moved past them, which happens below, when the slices are gone.
        let result = unsafe {
            let data = page.cast::<u8>().add(PAGE);
            read(
                std::slice::from_raw_parts(data.add(start), first),
                std::slice::from_raw_parts(data, held - first),
            )
        };
        self.tail = head;
        // SAFETY: as for the head; only we write the tail.
        let tail = unsafe { AtomicU64::from_ptr(&raw mut (*page).data_tail) };
        // Release: the records were read before the kernel may overwrite them.
        tail.store(head, Ordering::Release);
        result
    }

    /// Cycles of the time stamp counter per second, if the kernel says how it scales them.
    pub(crate) fn tsc_hz(&self) -> Option<u64> {
        let page = self.base.as_ptr();
        // SAFETY: the control page is mapped; the fields are aligned, and written by the kernel
        // only when the event changes, which it does not while it is disabled.
        let (shift, mult, capable) = unsafe {
            let capabilities = (*page).__bindgen_anon_1.__bindgen_anon_1;
            (
                ptr::read_volatile(&raw const (*page).time_shift),
                ptr::read_volatile(&raw const (*page).time_mult),
                capabilities.cap_user_time() != 0,
            )
        };
        if !capable || mult == 0 || shift >= 64 {
            return None;
        }
        // Nanoseconds are (cycles * mult) >> shift.
        let hz = (1_000_000_000_u128 << shift) / u128::from(mult);
        u64::try_from(hz).ok()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, has this length, and is not used after this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size + PAGE) };
    }
}
