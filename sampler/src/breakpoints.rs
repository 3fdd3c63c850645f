//! Pairs of breakpoints: what a thread has in its registers at one instruction, and behind a few
//! more.
//!
//! Two of the processor's debug registers stop the thread, before it executes the instruction at
//! their address. They are events of that thread alone, hit no more often than was asked for, and
//! go with their descriptors: nothing is left behind by a collector that dies.
//!
//! A pair is of one execution only if nothing came between its ends. Three things could: another
//! thread (the thread may go on elsewhere then, where it has restartable sequences), a signal (its
//! handler may change the registers), and a debugger. The first is counted by an event of the same
//! group, which both ends read. [`Watch`] has the second. Threads that are traced are left alone.

mod entries;
pub(crate) mod hit;
mod turning;
mod watch;

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use addresses::ProcessAddress;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perf_event_open_sys::bindings as b;

pub use self::entries::{AtEntries, Burst, Entered, FunctionEntry, entries, entry_cost};
use self::hit::Hit;
pub(crate) use self::turning::with_turning;
use self::watch::Watch;
use crate::bpf::{MOST_OPERANDS, MemoryOperand, Trapped};
use crate::cpus::field;
use crate::decode::{self, REGISTERS};
use crate::packed::BREAKPOINT_PERIOD;
use crate::reasons::reasons;
use crate::sys::{self, Ring};
use crate::{Mode, Pid, RawSample, Registers, Tid, UserRegisters};

/// Pages of the ring that both breakpoints write to: room for their few hits.
const PAGES: u32 = 8;

/// How often the exit may be hit. In a loop the thread may come by there before the entry.
const EXIT_HITS: u32 = 3;

/// The most bytes of code of a block.
const MOST_CODE: usize = 256;

/// Instructions of a thread that are executed one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Address of the first instruction.
    pub entry: ProcessAddress,
    /// Where the thread comes behind the last one. It is not the entry.
    pub exit: ProcessAddress,
    /// The code from the entry on, as the process is to have it.
    pub code: Box<[u8]>,
    /// One of the instructions is a system call: the thread may have to wait in it.
    pub calls_system: bool,
    /// The handler is to bring the vector registers at both ends, where it [can](
    /// Breakpoints::brings_vectors).
    pub wants_vectors: bool,
    /// Memory that the block stores to, which the handler is to read at the exit: as many as
    /// [`Block::MOST_OPERANDS`] at most.
    pub operands: Vec<MemoryOperand>,
}

impl Block {
    /// How many operands are read at the exit.
    pub const MOST_OPERANDS: usize = MOST_OPERANDS;
}

/// What was seen at both ends of a block, in one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// At the entry, as a sample that the engine `ring` takes there.
    pub before: RawSample,
    /// At the exit.
    pub after: Registers,
    /// When the breakpoints were set, and when the thread came to the exit, as times of samples:
    /// the entry was hit once between them.
    pub times: Range<u64>,
    /// By what the records that bring vector registers of both ends name it.
    pub attempt: u32,
    /// The thread was switched away once, which is one of these: for its vector registers to be
    /// brought at the entry, or for another thread. Then it is a pair only if they were brought.
    pub was_switched: bool,
    /// What the operands of the block held at the exit, in their order, where they could be read.
    pub held: Vec<Option<u64>>,
}

reasons! {
    /// Why there is no pair.
    Miss:
    NoEntry, "no_entry", "the thread did not come to the entry in time";
    NoExit, "no_exit", "the thread came to the entry, and not to the exit in time";
    ExitFirst, "exit_first", "the exit was hit as often as it may be before the entry was";
    NoRegister, "no_debug_register", "others use the debug registers: a debugger, say";
    Refused, "refused", "the kernel refused a breakpoint";
    Gone, "thread_gone", "the thread had ended";
    Traced, "traced", "a debugger traces the process";
    OtherCode, "other_code", "the process has other code there";
    Switched, "switched", "another thread ran between entry and exit";
    Signalled, "signalled", "a signal was delivered meanwhile";
    HasHandlers, "has_handlers",
        "the program handles signals, and here nothing tells when one is delivered";
    NotWhole, "not_whole", "what the breakpoints wrote could not be read, or is of 32-bit code";
    Leaves, "leaves", "a system call that does not return behind itself";
}

/// Sets breakpoints, one pair at a time.
pub struct Breakpoints {
    watch: Watch,
    /// What runs at an entry, and reads memory there.
    handler: Option<OwnedFd>,
    stack_bytes: u32,
    /// How many were made.
    attempts: AtomicU32,
}

impl Breakpoints {
    /// Breakpoints that copy so many bytes of the stack, and at whose entries a handler runs, if
    /// there is one.
    pub(crate) fn new(
        handler: Option<OwnedFd>,
        trapped: Option<Trapped>,
        stack_bytes: u32,
    ) -> Breakpoints {
        Breakpoints {
            watch: Watch::new(trapped),
            handler,
            stack_bytes,
            attempts: AtomicU32::new(0),
        }
    }

    /// Whether the handler can bring vector registers.
    pub fn brings_vectors(&self) -> bool {
        self.handler.is_some() && self.watch.brings_vectors()
    }

    /// How the thread is kept from being misread where a signal comes between both ends.
    pub fn watches(&self) -> &'static str {
        self.watch.meaning()
    }

    /// Stops a thread of this process at an address that it comes by again and again.
    ///
    /// # Errors
    /// Why it does not stop.
    pub(crate) fn stop_own(tid: Tid, entry: ProcessAddress, allowed: Duration) -> Result<(), Miss> {
        let breakpoints = Breakpoints::new(None, None, 8);
        let block = Block {
            pid: Pid(std::process::id()),
            tid,
            entry,
            // Within an instruction: the thread never comes there.
            exit: entry.wrapping_add(1),
            code: Box::default(),
            calls_system: false,
            wants_vectors: false,
            operands: Vec::new(),
        };
        match Armed::new(&breakpoints, &block)?.wait(&block, allowed) {
            Ok(_) | Err(Miss::NoExit) => Ok(()),
            Err(miss) => Err(miss),
        }
    }

    /// Stops the thread at both ends of a block, in one execution, if it comes there in time.
    ///
    /// # Errors
    /// Why it is no pair.
    pub fn pair(&self, block: &Block, allowed: Duration) -> Result<Pair, Miss> {
        if block.entry == block.exit || block.code.is_empty() || block.code.len() > MOST_CODE {
            return Err(Miss::NotWhole);
        }
        self.may_touch(block)?;
        let wants_vectors = block.wants_vectors && self.brings_vectors();
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let watched = self.watch.begin(block, attempt, wants_vectors)?;
        let time_set = sys::clock_now();
        let hits = {
            let armed = Armed::new(self, block)?;
            // With the breakpoints set: the code is then what the thread will execute.
            if !has_code(block.pid, block.entry, &block.code) {
                return Err(Miss::OtherCode);
            }
            armed.wait(block, allowed)?
        };
        let [before, after] = hits;
        let switches = after.switches.wrapping_sub(before.switches);
        if switches > wants_vectors.into() && !block.calls_system {
            return Err(Miss::Switched);
        }
        if block.calls_system && leaves(before.registers.gpr[0]) {
            return Err(Miss::Leaves);
        }
        let held = watched.end(before.signals, after.signals)?;
        self.may_touch(block)?;
        Ok(Pair {
            before: RawSample {
                time: before.time,
                cpu: before.cpu,
                pid: block.pid,
                tid: block.tid,
                period: BREAKPOINT_PERIOD,
                ip: block.entry,
                mode: Mode::User,
                interrupted: Some(before.registers),
                user: UserRegisters::Long(before.registers),
                stack: before.stack,
                capture: None,
            },
            after: after.registers,
            times: time_set..after.time,
            attempt,
            was_switched: switches > 0 && !block.calls_system,
            held,
        })
    }

    /// Whether a pair of the thread can be told from what only looks like one: it is not traced,
    /// and signals are seen or not handled.
    fn may_touch(&self, block: &Block) -> Result<(), Miss> {
        let status = untraced(block.pid, block.tid)?;
        let caught = field(&status, "SigCgt:");
        let caught = caught.and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let caught = caught.ok_or(Miss::NotWhole)?;
        if !self.watch.is_exact() && caught & !HARMLESS != 0 {
            return Err(Miss::HasHandlers);
        }
        Ok(())
    }
}

/// A signal of the C library, for threads that are to change their user ids: its handler changes no
/// register of the program. What handles it for another end handles more.
const HARMLESS: u64 = 1 << (33 - 1);

/// Whether a system call of this number does not come back behind itself, with the registers that
/// it was called with: `rt_sigreturn`, `execve` and `execveat`.
fn leaves(number: u64) -> bool {
    let all = [libc::SYS_rt_sigreturn, libc::SYS_execve, libc::SYS_execveat];
    // Of the number the kernel looks at the lower half.
    all.iter().any(|of| *of as u64 == number & 0xffff_ffff)
}

/// What the kernel says of a thread that no debugger traces.
pub(crate) fn untraced(pid: Pid, tid: Tid) -> Result<String, Miss> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
    let status = status.map_err(|_| Miss::Gone)?;
    match field(&status, "TracerPid:") {
        Some("0") => Ok(status),
        _ => Err(Miss::Traced),
    }
}

/// Whether the process has this code there.
fn has_code(pid: Pid, address: ProcessAddress, code: &[u8]) -> bool {
    let mut found = vec![0; code.len()];
    File::open(format!("/proc/{pid}/mem"))
        .and_then(|memory| memory.read_exact_at(&mut found, address.0))
        .is_ok_and(|()| found == code)
}

/// Breakpoints that are set. When this is dropped they are not.
struct Armed {
    ring: Ring,
    entry: OwnedFd,
    exit: OwnedFd,
    /// Counts switches; the leader of the group. Behind it, what counts signals.
    _counters: Vec<OwnedFd>,
    counts_signals: bool,
}

impl Armed {
    fn new(of: &Breakpoints, block: &Block) -> Result<Armed, Miss> {
        let task = i32::try_from(block.tid.0).map_err(|_| Miss::Gone)?;
        let leader = sys::open_in(counter(b::PERF_TYPE_SOFTWARE, SWITCHES), task, None)
            .map_err(|error| miss(&error))?;
        let mut counters = Vec::new();
        let counts_signals = of.watch.trace_point();
        if let Some(point) = counts_signals {
            let attr = counter(b::PERF_TYPE_TRACEPOINT, point);
            let opened = sys::open_in(attr, task, Some(leader.as_fd()));
            counters.push(opened.map_err(|error| miss(&error))?);
        }
        let open = |address: ProcessAddress, stack, wakes| {
            let attr = breakpoint(address, stack, wakes);
            sys::open_in(attr, task, Some(leader.as_fd())).map_err(|error| miss(&error))
        };
        // Who is woken up at the entry takes the thread's place there.
        let entry = open(block.entry, of.stack_bytes, 0)?;
        let exit = open(block.exit, 8, 1)?;
        let refused = |error: io::Error| {
            tracing::debug!(%error, "a breakpoint cannot be set");
            Miss::Refused
        };
        let ring = Ring::map(entry.as_fd(), PAGES).map_err(refused)?;
        sys::set_output(exit.as_fd(), entry.as_fd()).map_err(refused)?;
        if let Some(handler) = &of.handler {
            sys::set_bpf(entry.as_fd(), handler.as_fd()).map_err(refused)?;
        }
        let is_of_use = block.wants_vectors || !block.operands.is_empty();
        if let Some(at_exit) = of.watch.at_exit().filter(|_| is_of_use) {
            sys::set_bpf(exit.as_fd(), at_exit.as_fd()).map_err(refused)?;
        }
        counters.push(leader);
        // The exit first: were it later, a thread that is quick would pass it.
        sys::refresh(exit.as_fd(), EXIT_HITS).map_err(refused)?;
        sys::refresh(entry.as_fd(), 1).map_err(refused)?;
        Ok(Armed {
            ring,
            entry,
            exit,
            _counters: counters,
            counts_signals: counts_signals.is_some(),
        })
    }

    /// Both ends, once the thread has come by.
    fn wait(mut self, block: &Block, allowed: Duration) -> Result<[Hit; 2], Miss> {
        let end = Instant::now() + allowed;
        let mut before: Option<Hit> = None;
        let mut early = 0;
        let mut scratch = Vec::new();
        loop {
            let mut hits = Vec::new();
            let counts_signals = self.counts_signals;
            let uncut = self.ring.drain(|first, second| {
                decode::split(first, second, &mut scratch, |bytes| {
                    hits.push(hit::decode(bytes, counts_signals));
                })
            });
            if uncut > 0 {
                return Err(Miss::NotWhole);
            }
            for hit in hits {
                let hit = hit.ok_or(Miss::NotWhole)?;
                if hit.tid != block.tid {
                    return Err(Miss::NotWhole);
                }
                match &before {
                    None if hit.registers.pc() == block.entry => before = Some(hit),
                    None if hit.registers.pc() == block.exit => early += 1,
                    Some(_) if hit.registers.pc() == block.exit => {
                        // What was set is taken back before anything else.
                        drop(self);
                        return Ok([before.ok_or(Miss::NotWhole)?, hit]);
                    }
                    _ => return Err(Miss::NotWhole),
                }
            }
            if early >= EXIT_HITS {
                return Err(Miss::ExitFirst);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(match before {
                    Some(_) => Miss::NoExit,
                    None => Miss::NoEntry,
                });
            }
            // Whole milliseconds, at least one.
            let left = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).max(1);
            let mut watched = [PollFd::new(self.entry.as_fd(), PollFlags::POLLIN)];
            // An interruption is as a time-out.
            let _ = poll(&mut watched, PollTimeout::from(left));
            let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
            if watched[0]
                .revents()
                .is_some_and(|all| all.intersects(ended))
            {
                return Err(Miss::Gone);
            }
        }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // Closing them does the same, once the kernel comes to it.
        let _ = sys::disable(self.entry.as_fd());
        let _ = sys::disable(self.exit.as_fd());
    }
}

const SWITCHES: u64 = b::PERF_COUNT_SW_CONTEXT_SWITCHES as u64;

/// What an event that cannot be opened means.
fn miss(error: &io::Error) -> Miss {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EBUSY) => Miss::NoRegister,
        Some(libc::ESRCH) => Miss::Gone,
        _ => {
            tracing::debug!(%error, "a breakpoint is refused");
            Miss::Refused
        }
    }
}

/// The attributes of an event that only counts.
fn counter(kind: b::perf_type_id, what: u64) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr {
        type_: kind,
        // The size is that of a small fixed struct.
        size: size_of::<b::perf_event_attr>() as u32,
        config: what,
        read_format: b::PERF_FORMAT_GROUP.into(),
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attr.set_use_clockid(1);
    attr.set_remove_on_exec(1);
    attr
}

/// The attributes of a breakpoint that begins disabled, and whether a hit wakes its reader up.
fn breakpoint(address: ProcessAddress, stack: u32, wakes: u32) -> b::perf_event_attr {
    let mut attr = counter(b::PERF_TYPE_BREAKPOINT, 0);
    attr.sample_period = BREAKPOINT_PERIOD;
    attr.sample_type = (b::PERF_SAMPLE_TID
        | b::PERF_SAMPLE_TIME
        | b::PERF_SAMPLE_CPU
        | b::PERF_SAMPLE_READ
        | b::PERF_SAMPLE_REGS_USER
        | b::PERF_SAMPLE_STACK_USER) as u64;
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = stack;
    attr.wakeup_events = wakes;
    attr.bp_type = b::HW_BREAKPOINT_X;
    attr.bp_addr = address.0;
    attr.bp_len = 8;
    attr.set_disabled(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}
