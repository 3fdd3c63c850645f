//! A process that is single-stepped.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use nix::libc::user_regs_struct;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The registers of a stopped process.
pub(crate) struct TraceeState {
    pub(crate) general: user_regs_struct,
    /// `xmm0` to `xmm15`.
    pub(crate) vectors: [[u8; 16]; 16],
    /// `mm0` to `mm7`.
    pub(crate) mmx: [u64; 8],
    pub(crate) mxcsr: u32,
}

/// What a step led to.
pub(crate) enum Step {
    /// The next instruction is due.
    Stopped,
    /// A signal came or was delivered: the step is not one of the program.
    Signal,
    /// The process is gone.
    Gone,
}

/// Where in a program's run the watch begins.
#[derive(Clone)]
pub(crate) enum Start {
    /// After so many system calls.
    Calls(u32),
    /// So many system calls after a file was opened by this name.
    Opened(String, u32),
    /// When a file that was opened by this name has been read to its end.
    EndOf(String),
    /// When it sets itself an alarm, as programs do that measure speed.
    Timed,
}

/// A stopped process. All calls must come from the thread that made it. Killed when dropped.
pub(crate) struct Tracee {
    child: Child,
    pid: Pid,
    /// A signal to deliver when the process goes on.
    pending: Option<Signal>,
    /// The CPUs that this thread had before it was pinned.
    allowed: Option<CpuSet>,
    /// Read since it last stopped.
    pages: RefCell<Pages>,
}

impl Tracee {
    /// Starts a program and stops it at its first instruction.
    pub(crate) fn start<S: AsRef<OsStr>>(command: &[S]) -> Result<Self> {
        // The shell stops itself, so that it can be seized before it becomes the program.
        let child = Command::new("sh")
            .args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""])
            .args(command)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting sh")?;
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let mut tracee = Self {
            child,
            pid,
            pending: None,
            allowed: None,
            pages: RefCell::default(),
        };
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED))? {
            WaitStatus::Stopped(_, Signal::SIGSTOP) => {}
            status => bail!("the shell did not stop: {status:?}"),
        }
        let options = ptrace::Options::PTRACE_O_TRACEEXEC
            | ptrace::Options::PTRACE_O_TRACESYSGOOD
            | ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::seize(pid, options).context("PTRACE_SEIZE")?;
        tracee.allowed = Some(pin(pid)?);
        nix::sys::signal::kill(pid, Signal::SIGCONT)?;
        tracee.run_to_exec()?;
        Ok(tracee)
    }

    fn run_to_exec(&mut self) -> Result<()> {
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceEvent(_, _, event)
                    if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 =>
                {
                    return Ok(());
                }
                WaitStatus::PtraceEvent(..) => ptrace::cont(self.pid, None)?,
                WaitStatus::Stopped(_, signal) => ptrace::cont(self.pid, signal)?,
                status => bail!("no program was started: {status:?}"),
            }
        }
    }

    /// Lets the process run to where it is to be watched from.
    pub(crate) fn run_to(&mut self, start: &Start) -> Result<()> {
        // The exec itself has to be left first.
        self.next_system_call_stop()?;
        let mut opened = matches!(start, Start::Calls(_));
        let mut left = match start {
            Start::Calls(count) | Start::Opened(_, count) => *count,
            Start::EndOf(_) | Start::Timed => 0,
        };
        loop {
            if opened && left == 0 && !matches!(start, Start::EndOf(_)) {
                return Ok(());
            }
            self.next_system_call_stop()?;
            let entry = self.registers()?;
            self.next_system_call_stop()?;
            let call = i64::try_from(entry.orig_rax).unwrap_or(-1);
            match start {
                Start::Opened(path, _) | Start::EndOf(path) if !opened => {
                    opened = call == nix::libc::SYS_openat && self.is_at(path, entry.rsi);
                }
                Start::EndOf(_) => {
                    if call == nix::libc::SYS_read && self.registers()?.rax == 0 {
                        return Ok(());
                    }
                }
                Start::Timed => opened = call == nix::libc::SYS_alarm,
                _ => left -= 1,
            }
        }
    }

    /// Goes on to the next beginning or end of a system call.
    fn next_system_call_stop(&mut self) -> Result<()> {
        loop {
            self.pages.get_mut().held.clear();
            ptrace::syscall(self.pid, self.pending.take())?;
            match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceSyscall(_) => return Ok(()),
                WaitStatus::Stopped(_, signal) => self.pending = Some(signal),
                WaitStatus::PtraceEvent(..) => {}
                status => bail!("the program ended before it was watched: {status:?}"),
            }
        }
    }

    /// Whether this text stands at an address.
    fn is_at(&self, text: &str, address: u64) -> bool {
        let mut bytes = vec![0; text.len() + 1];
        self.read(address, &mut bytes) == bytes.len()
            && bytes.strip_suffix(&[0]) == Some(text.as_bytes())
    }

    /// Executes one instruction (one iteration, if it is repeated).
    pub(crate) fn step(&mut self) -> Result<Step> {
        let delivered = self.pending.take();
        self.pages.get_mut().held.clear();
        ptrace::step(self.pid, delivered).context("PTRACE_SINGLESTEP")?;
        match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
            // If it has a handler, no instruction was executed: the handler's first is due.
            WaitStatus::Stopped(_, Signal::SIGTRAP) if delivered.is_some() => Ok(Step::Signal),
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(Step::Stopped),
            WaitStatus::Stopped(_, signal) => {
                self.pending = Some(signal);
                Ok(Step::Signal)
            }
            WaitStatus::PtraceEvent(..) => Ok(Step::Signal),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => Ok(Step::Gone),
            status => bail!("unexpected state of the traced program: {status:?}"),
        }
    }

    pub(crate) fn registers(&self) -> Result<user_regs_struct> {
        ptrace::getregs(self.pid).context("PTRACE_GETREGS")
    }

    /// All registers that can be had: the upper halves of the vector registers cannot.
    pub(crate) fn state(&self) -> Result<TraceeState> {
        let floating = ptrace::getregset::<ptrace::regset::NT_PRFPREG>(self.pid)
            .context("PTRACE_GETREGSET")?;
        let mut vectors = [[0; 16]; 16];
        for (vector, words) in vectors.iter_mut().zip(floating.xmm_space.chunks_exact(4)) {
            for (bytes, word) in vector.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
        // They are saved from the top of the stack on.
        let top = usize::from(floating.swd >> 11 & 7);
        let mut mmx = [0; 8];
        for (place, words) in floating.st_space.chunks_exact(4).enumerate() {
            mmx[(top + place) & 7] = u64::from(words[1]) << 32 | u64::from(words[0]);
        }
        Ok(TraceeState {
            general: self.registers()?,
            vectors,
            mmx,
            mxcsr: floating.mxcsr,
        })
    }

    /// Reads memory; says how many bytes from the start on it could read.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let offset = (at % PAGE as u64) as usize;
            let count = (bytes.len() - done).min(PAGE - offset);
            let mut pages = self.pages.borrow_mut();
            let Some(page) = pages.at(self.pid, at - offset as u64) else {
                break;
            };
            bytes[done..done + count].copy_from_slice(&page[offset..offset + count]);
            done += count;
        }
        done
    }

    /// First and past-the-end addresses of the pages that the kernel rewrites at any time.
    pub(crate) fn volatile_ranges(&self) -> Result<Vec<(u64, u64)>> {
        self.ranges("[vvar")
    }

    /// First and past-the-end addresses of the code that reads these.
    pub(crate) fn clock_ranges(&self) -> Result<Vec<(u64, u64)>> {
        self.ranges("[vdso]")
    }

    fn ranges(&self, name: &str) -> Result<Vec<(u64, u64)>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        maps.lines()
            .filter(|line| line.contains(name))
            .map(|line| {
                let range = line.split_whitespace().next().unwrap_or_default();
                let (first, end) = range.split_once('-').context("a line of maps")?;
                Ok((
                    u64::from_str_radix(first, 16)?,
                    u64::from_str_radix(end, 16)?,
                ))
            })
            .collect()
    }
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// Pages of the process, as they are while it is stopped.
#[derive(Default)]
struct Pages {
    held: Vec<(u64, [u8; PAGE])>,
}

impl Pages {
    /// Pages that are held at most.
    const MAX: usize = 64;

    fn at(&mut self, pid: Pid, address: u64) -> Option<&[u8; PAGE]> {
        let index = match self.held.iter().position(|(held, _)| *held == address) {
            Some(index) => index,
            None => {
                let mut bytes = [0; PAGE];
                let (base, len) = (usize::try_from(address).ok()?, bytes.len());
                let mut local = [IoSliceMut::new(&mut bytes)];
                let read = process_vm_readv(pid, &mut local, &[RemoteIoVec { base, len }]);
                if read != Ok(PAGE) {
                    return None;
                }
                if self.held.len() == Self::MAX {
                    self.held.clear();
                }
                self.held.push((address, bytes));
                self.held.len() - 1
            }
        };
        self.held.get(index).map(|(_, bytes)| bytes)
    }
}

/// Keeps a process and this thread on one CPU: a step is then a plain switch, and the number of
/// the CPU, which the kernel stores in the process's memory, does not change under the oracle.
/// Returns the CPUs that were allowed before.
fn pin(pid: Pid) -> Result<CpuSet> {
    let allowed = sched_getaffinity(pid)?;
    let cpus: Vec<_> = (0..CpuSet::count())
        .filter(|cpu| allowed.is_set(*cpu) == Ok(true))
        .collect();
    let index = usize::try_from(pid.as_raw())? % cpus.len().max(1);
    let mut one = CpuSet::new();
    one.set(*cpus.get(index).context("a CPU to run on")?)?;
    sched_setaffinity(pid, &one)?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    Ok(allowed)
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // It may be gone already; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(allowed) = &self.allowed {
            let _ = sched_setaffinity(Pid::from_raw(0), allowed);
        }
    }
}
