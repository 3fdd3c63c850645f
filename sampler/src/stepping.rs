//! Stepping: what a thread has in all its registers before and behind each of a few instructions.
//!
//! The thread is traced (`ptrace`), stopped where it is, stepped, and let go. What the processor
//! gave is seen whole: no signal, no other thread's turn and no system call can come between two
//! states of one step, since each of these shows itself as another kind of stop.
//!
//! The program is to go on as if nothing had been, whatever happens here:
//!
//! - A thread that waits in the kernel is not interrupted: some system calls would end early. It is
//!   looked at from its own processor, with a real-time priority, so that it cannot begin to wait
//!   in between. Without the privilege, or where the thread is moved just then, it can: that is
//!   counted ([`Hitch::CutShort`]).
//! - A signal that arrives ends the visit, and is delivered as it came.
//! - System calls are not stepped over, but seen off and met again at their ends. One that takes
//!   long is left to itself: who traces is a thread of its own for each visit, and when that
//!   thread ends the kernel lets go without interrupting anything.
//! - A step is an exception that the kernel forces on the thread. Where the program blocks such
//!   signals its mask is put back, and where it has made its own arrangements it is left alone.
//!
//! Between a step and the end of its visit, some tens of microseconds, a tracer that is killed
//! takes the program with it: the kernel does not take back the flag of single steps. So who calls
//! this is a process that does nothing else, which outlives the death of others, and which nobody
//! ends: it ends itself when it is asked no more ([`Stepper`]).

mod visit;
mod waiting;

use std::io;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use serde::{Deserialize, Serialize};

use self::visit::visit;
use self::waiting::Changes;
use crate::reasons::reasons;
use crate::{Pid, Registers, Tid, VectorState, sys};

/// Instructions of a visit, at most: those of an issue block.
const MOST_STEPS: usize = 4;

/// How long a thread may stand before it is let go instead of being stepped once more.
const STANDS: Duration = Duration::from_millis(2);

reasons! {
    /// Why a thread was not visited, or let go before its block was at its end.
    Hitch:
    Own, "own", "it is one of vcpid's own threads";
    Traced, "traced", "a debugger traces it";
    NotAllowed, "not_allowed", "the kernel does not let this user trace it";
    Gone, "thread_gone", "the thread had ended";
    Waits, "waits", "the thread waited in the kernel, where it is not interrupted";
    NoStop, "no_stop", "the thread did not stop in time";
    InSystemCall, "in_system_call", "the thread had just begun a system call, which begins anew";
    CutShort, "cut_short",
        "the thread had just begun a system call, which ends with EINTR if it was interrupted";
    Stopped, "stopped", "the thread was stopped by a signal, and stays so";
    Signalled, "signalled", "a signal arrived, and was delivered";
    OwnTraps, "own_traps", "the program ignores or handles the signal of steps, or steps itself";
    NotLong, "not_64_bit", "the thread runs other than 64-bit code";
    NotWhole, "not_whole", "what the thread has could not be read";
    TooLong, "too_long", "the thread had stood for 2 ms";
    NoProgress, "no_progress", "an instruction that repeats itself, and was not at its end";
    Elsewhere, "elsewhere", "the thread went where the instruction does not lead";
    CallWaits, "call_waits", "a system call that did not return in time, and was left to itself";
    CallRestarts, "call_restarts", "a system call that begins anew: it has no result";
}

/// All registers of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadState {
    /// The general ones.
    pub registers: Registers,
    /// Base of the FS segment.
    pub fs_base: u64,
    /// Base of the GS segment.
    pub gs_base: u64,
    /// The others as the processor saves them.
    saved: Vec<u8>,
}

impl ThreadState {
    /// The registers that are no general ones; `None` where it is not known how this machine's
    /// processor saves them.
    pub fn vectors(&self) -> Option<Box<VectorState>> {
        VectorState::saved(&self.saved)
    }
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The general registers.
    pub registers: &'a Registers,
    /// Base of the FS segment.
    pub fs_base: u64,
    /// Base of the GS segment.
    pub gs_base: u64,
    /// What lies at the PC: as many bytes as an instruction may have, or up to where no code is.
    pub code: &'a [u8],
}

/// Memory that an instruction loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The first address.
    pub address: u64,
    /// How many bytes there are.
    pub bytes: usize,
}

/// What is to be done with the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The instruction at the PC is to be executed.
    Step {
        /// Its length in bytes.
        len: usize,
        /// What it loads.
        loads: Vec<Load>,
        /// Where it may lead.
        leads_to: [u64; 2],
    },
    /// The instruction at the PC, of two bytes, is a system call that comes back behind itself. The
    /// visit ends behind it.
    Call,
    /// The thread is to go on.
    End,
}

/// One instruction that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stepped {
    /// Its code.
    pub code: Vec<u8>,
    /// What it loaded, as far as that could be read before: addresses and bytes.
    pub loaded: Vec<(u64, Vec<u8>)>,
    /// What the thread has behind it.
    pub after: ThreadState,
}

/// What was seen of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// What the thread has before the first step.
    pub first: ThreadState,
    /// Memory from the stack pointer on, as far as it could be read.
    pub stack: Vec<u8>,
    /// The instructions, in order; there may be none.
    pub steps: Vec<Stepped>,
    /// Why there are not more, if it was not the end of the block.
    pub end: Option<Hitch>,
    /// How long the thread stood, in nanoseconds, without its system call.
    pub stood: u64,
}

/// Visits threads, one at a time.
pub struct Stepper(Changes);

impl Stepper {
    /// To be called before this process has other threads: it keeps signals from them, and needs
    /// SIGCHLD for itself. Nothing but SIGKILL ends the process from then on but its own end.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        let mut all = SigSet::all();
        // Those that tell of defects of this program itself.
        for defect in [
            Signal::SIGSEGV,
            Signal::SIGBUS,
            Signal::SIGILL,
            Signal::SIGFPE,
        ] {
            all.remove(defect);
        }
        all.thread_block()?;
        Changes::new().map(Self)
    }

    /// Stops a thread, has it execute what `plan` says, and lets it go.
    ///
    /// # Errors
    /// Why nothing was seen.
    pub fn visit(
        &self,
        pid: Pid,
        tid: Tid,
        plan: &mut (dyn FnMut(&Moment<'_>) -> Next + Send),
    ) -> Result<Visit, Hitch> {
        let own = std::process::id();
        if pid.0 == own || pid.0 == std::os::unix::process::parent_id() {
            return Err(Hitch::Own);
        }
        let changes = &self.0;
        thread::scope(|scope| {
            // When the thread ends, nothing is traced.
            let visiting = scope.spawn(move || {
                // Who is looked at stands meanwhile, longer without the privilege.
                let _ = sys::become_real_time();
                visit(changes, pid, tid, plan)
            });
            visiting.join().unwrap_or(Err(Hitch::NotWhole))
        })
    }
}
