//! One visit of a thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::waiting::{Change, Changes};
use super::{Hitch, Load, MOST_STEPS, Moment, Next, STANDS, Stepped, ThreadState, Visit};
use crate::breakpoints::hit::USER_CODE;
use crate::breakpoints::untraced;
use crate::cpus::field;
use crate::sys;
use crate::sys::trace::{self, Go, UserState};
use crate::{Miss, Pid, Tid};

/// How long a thread that runs may take to stop, and a system call to return.
const STOPS: Duration = Duration::from_millis(20);
const RETURNS: Duration = Duration::from_millis(5);
/// Bytes of an instruction, and of the stack, that are read.
const CODE: usize = 15;
const STACK: usize = 64;
/// Bytes of saved registers, as far as anything is made of them.
const SAVED: usize = 2816;
/// The trap flag.
const TRAP: u64 = 1 << 8;
/// SIGTRAP in a set of signals.
const TRAPS: u64 = 1 << (libc::SIGTRAP - 1);
/// The codes of a signal that a step has made. The first is what the kernel makes of an exception
/// of which the processor gives no reason: on virtual machines that was seen of steps behind
/// `cpuid`. Instructions that make such exceptions themselves are not stepped.
const STEPPED: [i32; 2] = [libc::TRAP_BRKPT, libc::TRAP_TRACE];
/// What system calls return inside of the kernel where they are to begin anew.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// A traced thread.
struct Traced<'a> {
    changes: &'a Changes,
    tid: Tid,
    memory: File,
    /// The signals that it blocks, where a step changes that.
    mask: Option<u64>,
    /// What is delivered when it goes on.
    signal: i32,
    /// How long it was in system calls.
    called: Duration,
}

/// Why a thread is not stepped on.
enum End {
    /// It stands, and is to be let go.
    Stands(Option<Hitch>),
    /// It does not: it has ended, or is in a system call.
    Runs(Hitch),
}

impl From<Hitch> for End {
    fn from(hitch: Hitch) -> Self {
        Self::Runs(hitch)
    }
}

/// Visits a thread; the caller's thread is to end soon, and the kernel then lets go of whatever was
/// not let go.
pub(super) fn visit(
    changes: &Changes,
    pid: Pid,
    tid: Tid,
    plan: &mut (dyn FnMut(&Moment<'_>) -> Next + Send),
) -> Result<Visit, Hitch> {
    let status = untraced(pid, tid).map_err(|miss| match miss {
        Miss::Traced => Hitch::Traced,
        _ => Hitch::Gone,
    })?;
    let set = |name| {
        let mask = field(&status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.ok_or(Hitch::NotWhole)
    };
    let (ignored, handled) = (set("SigIgn:")?, set("SigCgt:")?);
    if ignored & TRAPS != 0 {
        return Err(Hitch::OwnTraps);
    }
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(|error| hitch(&error))?;
    let stat = File::open(format!("/proc/{pid}/task/{tid}/stat")).map_err(|error| hitch(&error))?;
    trace::seize(tid).map_err(|error| refusal(&error, pid, tid))?;
    let (_, cpu) = place(&stat)?;
    sys::go_to(cpu);
    // As late as can be: what waits must not be interrupted. If this thread has the processor of
    // that one, that one cannot begin to.
    if !place(&stat)?.0 {
        return Err(Hitch::Waits);
    }
    trace::interrupt(tid).map_err(|error| hitch(&error))?;
    let change = changes.next(tid, Some(Instant::now() + STOPS))?;
    let begun = Instant::now();
    let mut traced = Traced {
        changes,
        tid,
        memory,
        mask: None,
        signal: 0,
        called: Duration::ZERO,
    };
    let stands = match change {
        None => return Err(Hitch::NoStop),
        Some(Change::Ended) => return Err(Hitch::Gone),
        Some(Change::Stood) => traced.begin(handled),
        Some(Change::Signal(signal)) => {
            traced.signal = signal;
            Err(Hitch::Signalled)
        }
        Some(Change::Stopped | Change::Call) => Err(Hitch::Stopped),
    };
    let first = match stands {
        Ok(first) => first,
        Err(hitch) => {
            traced.let_go();
            return Err(hitch);
        }
    };
    let mut stack = vec![0; STACK];
    let read = traced.read(first.registers.sp(), &mut stack);
    stack.truncate(read);
    let mut visit = Visit {
        time: sys::clock_now(),
        first,
        stack,
        steps: Vec::new(),
        end: None,
        stood: 0,
    };
    let end = loop {
        if visit.steps.len() >= MOST_STEPS {
            break End::Stands(None);
        }
        if begun.elapsed() > STANDS {
            break End::Stands(Some(Hitch::TooLong));
        }
        let state = visit.steps.last().map_or(&visit.first, |last| &last.after);
        match traced.step(state, plan) {
            Ok((stepped, true)) => visit.steps.push(stepped),
            Ok((stepped, false)) => {
                visit.steps.push(stepped);
                break End::Stands(None);
            }
            Err(end) => break end,
        }
    };
    visit.end = match end {
        End::Stands(hitch) => {
            traced.let_go();
            hitch
        }
        End::Runs(hitch) => Some(hitch),
    };
    let stood = begun.elapsed().saturating_sub(traced.called);
    visit.stood = u64::try_from(stood.as_nanos()).unwrap_or(u64::MAX);
    Ok(visit)
}

/// Why a thread could not be traced: of one that ends the kernel says the same as of one that this
/// user may not trace, or that another one traces by now.
fn refusal(error: &io::Error, pid: Pid, tid: Tid) -> Hitch {
    let other = hitch(error);
    if other != Hitch::NotAllowed {
        return other;
    }
    match untraced(pid, tid) {
        Ok(status) if !field(&status, "State:").is_some_and(ends) => Hitch::NotAllowed,
        Err(Miss::Traced) => Hitch::Traced,
        _ => Hitch::Gone,
    }
}

/// Whether a thread in this state has ended.
fn ends(state: &str) -> bool {
    state.starts_with(['Z', 'X'])
}

/// What an error of the system means.
fn hitch(error: &io::Error) -> Hitch {
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => Hitch::Gone,
        Some(libc::EPERM | libc::EACCES) => Hitch::NotAllowed,
        _ => {
            tracing::debug!(%error, "a thread cannot be traced");
            Hitch::NotWhole
        }
    }
}

/// Whether a thread runs, or could, and on which processor.
fn place(stat: &File) -> Result<(bool, Option<u32>), Hitch> {
    /// Words between the state and the processor.
    const BETWEEN: usize = 35;
    let mut bytes = [0; 1024];
    let read = stat.read_at(&mut bytes, 0).map_err(|error| hitch(&error))?;
    let text = bytes.get(..read).unwrap_or_default();
    // The name before may hold anything.
    let end = text.iter().rposition(|byte| *byte == b')');
    let words = end.and_then(|end| text.get(end + 2..)).unwrap_or_default();
    let mut words = words.split(|byte| *byte == b' ');
    let runs = words.next() == Some(b"R");
    let cpu = words
        .nth(BETWEEN)
        .and_then(|word| std::str::from_utf8(word).ok());
    Ok((runs, cpu.and_then(|cpu| cpu.parse().ok())))
}

impl Traced<'_> {
    /// What the thread has where it stopped first, if it can be stepped there.
    fn begin(&mut self, handled: u64) -> Result<ThreadState, Hitch> {
        let found = trace::user_state(self.tid).map_err(|error| hitch(&error))?;
        let registers = &found.registers;
        if registers.cs != USER_CODE {
            return Err(Hitch::NotLong);
        }
        if found.call.is_some() {
            let is_cut = registers.gpr[0].cast_signed() == -i64::from(libc::EINTR);
            return Err(if is_cut {
                Hitch::CutShort
            } else {
                Hitch::InSystemCall
            });
        }
        let blocked = trace::blocked(self.tid).map_err(|error| hitch(&error))?;
        // A forced signal that is blocked is blocked no more, and its handler is forgotten.
        if blocked & TRAPS != 0 {
            if handled & TRAPS != 0 {
                return Err(Hitch::OwnTraps);
            }
            self.mask = Some(blocked);
        }
        if registers.flags & TRAP != 0 {
            return Err(Hitch::OwnTraps);
        }
        self.state(&found)
    }

    fn state(&self, found: &UserState) -> Result<ThreadState, Hitch> {
        let mut saved = vec![0; SAVED];
        let len = trace::saved(self.tid, &mut saved).map_err(|error| hitch(&error))?;
        saved.truncate(len);
        Ok(ThreadState {
            registers: found.registers,
            fs_base: found.fs_base,
            gs_base: found.gs_base,
            saved,
        })
    }

    /// All registers of the thread where it stands now.
    fn now(&self) -> Result<ThreadState, End> {
        let stands = |hitch| End::Stands(Some(hitch));
        let found = trace::user_state(self.tid).map_err(|error| stands(hitch(&error)))?;
        self.state(&found).map_err(stands)
    }

    /// Has the thread execute one instruction, if the plan says so; what was seen, and whether the
    /// visit may go on.
    fn step(
        &mut self,
        before: &ThreadState,
        plan: &mut (dyn FnMut(&Moment<'_>) -> Next + Send),
    ) -> Result<(Stepped, bool), End> {
        let registers = &before.registers;
        let mut code = vec![0; CODE];
        let read = self.read(registers.ip, &mut code);
        code.truncate(read);
        let next = plan(&Moment {
            registers,
            fs_base: before.fs_base,
            gs_base: before.gs_base,
            code: &code,
        });
        match next {
            Next::End => Err(End::Stands(None)),
            Next::Step {
                len,
                loads,
                leads_to,
            } => {
                code.truncate(len);
                let loaded = loads.iter().filter_map(|load| self.load(load)).collect();
                self.execute()?;
                let after = self.now()?;
                let to = after.registers.ip;
                if to == registers.ip {
                    return Err(End::Stands(Some(Hitch::NoProgress)));
                }
                if !leads_to.contains(&to) {
                    return Err(End::Stands(Some(Hitch::Elsewhere)));
                }
                Ok((
                    Stepped {
                        code,
                        loaded,
                        after,
                    },
                    true,
                ))
            }
            Next::Call => {
                code.truncate(2);
                let behind = registers.ip.wrapping_add(2);
                self.call()?;
                let after = self.now()?;
                if RESTARTS.contains(&after.registers.gpr[0].cast_signed()) {
                    return Err(End::Stands(Some(Hitch::CallRestarts)));
                }
                if after.registers.ip != behind {
                    return Err(End::Stands(Some(Hitch::Elsewhere)));
                }
                Ok((
                    Stepped {
                        code,
                        loaded: Vec::new(),
                        after,
                    },
                    false,
                ))
            }
        }
    }

    /// One instruction. It takes as long as it takes: one that waits for a page is not interrupted.
    fn execute(&mut self) -> Result<(), End> {
        trace::resume(self.tid, Go::Step, 0).map_err(|_| End::Runs(Hitch::Gone))?;
        let change = self.changes.next(self.tid, None)?;
        let end = match change {
            Some(Change::Signal(libc::SIGTRAP)) => match trace::signal_code(self.tid) {
                Ok(code) if STEPPED.contains(&code) => Ok(()),
                _ => self.delivers(libc::SIGTRAP),
            },
            Some(Change::Signal(signal)) => self.delivers(signal),
            Some(Change::Stood | Change::Stopped | Change::Call) => {
                Err(End::Stands(Some(Hitch::Stopped)))
            }
            Some(Change::Ended) | None => Err(End::Runs(Hitch::Gone)),
        };
        if let (Ok(()), Some(mask)) = (&end, self.mask) {
            // If it cannot, the thread is gone.
            let _ = trace::set_blocked(self.tid, mask);
        }
        end
    }

    /// A system call, from before it to behind it. One that waits is left alone: this thread ends.
    fn call(&mut self) -> Result<(), End> {
        let begun = Instant::now();
        let came = self.pass_call();
        self.called = begun.elapsed();
        came
    }

    fn pass_call(&mut self) -> Result<(), End> {
        for _ in ["entry", "end"] {
            trace::resume(self.tid, Go::ToCall, 0).map_err(|_| End::Runs(Hitch::Gone))?;
            let until = Instant::now() + RETURNS;
            match self.changes.next(self.tid, Some(until))? {
                Some(Change::Call) => {}
                Some(Change::Signal(signal)) => return self.delivers(signal),
                Some(Change::Stood | Change::Stopped) => {
                    return Err(End::Stands(Some(Hitch::Stopped)));
                }
                Some(Change::Ended) => return Err(End::Runs(Hitch::Gone)),
                None => return Err(End::Runs(Hitch::CallWaits)),
            }
        }
        Ok(())
    }

    /// A signal came instead. It is delivered when the thread goes on.
    fn delivers(&mut self, signal: i32) -> Result<(), End> {
        self.signal = signal;
        Err(End::Stands(Some(Hitch::Signalled)))
    }

    /// Lets the thread go on. If that fails it has been killed, and there is nothing to be done.
    fn let_go(&self) {
        if let Err(error) = trace::resume(self.tid, Go::Away, self.signal) {
            tracing::debug!(%error, "a thread cannot be let go");
        }
    }

    /// Reads memory from an address on: how many bytes there are.
    fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        if let Ok(read) = self.memory.read_at(bytes, address) {
            return read;
        }
        0
    }

    fn load(&self, load: &Load) -> Option<(u64, Vec<u8>)> {
        let mut bytes = vec![0; load.bytes];
        (self.read(load.address, &mut bytes) == bytes.len()).then_some((load.address, bytes))
    }
}
