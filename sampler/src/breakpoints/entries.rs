//! Entries of a function: all calls that one thread makes of it, for a short time.
//!
//! A breakpoint that is hit once finds the next call after a moment, and a long gap between calls
//! holds more moments than a short one. So here it stays for a while: each call of that time is
//! seen, and which time it is does not depend on the calls. What a hit takes of the thread is no
//! time of the program: the reader takes it off ([`entry_cost`]).

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use addresses::{ProcessAddress, ReturnAddress};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perf_event_open_sys::bindings as b;

use super::hit::{USER_CODE, fields_of_sample};
use super::{breakpoint, has_code, miss, untraced, with_turning};
use crate::decode::{self, Abi};
use crate::sys::{self, Ring};
use crate::{Miss, Pid, Registers, Tid};

/// Pages of the ring: room for the records of all hits of both breakpoints, 224 bytes each.
const PAGES: u32 = 8;

/// The entry of a function, in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionEntry {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Address of the function's first instruction.
    pub address: ProcessAddress,
    /// The code there, as the process is to have it.
    pub code: Box<[u8]>,
    /// Where a call returns to whose results are wanted.
    pub returns_to: Option<ReturnAddress>,
}

/// What runs where a function is entered, and where a call returns to, and has the thread's vector
/// registers brought: as records of their own ([`AtEntry`](crate::AtEntry)).
#[derive(Debug)]
pub struct AtEntries(OwnedFd);

impl AtEntries {
    pub(crate) fn new(program: OwnedFd) -> Self {
        Self(program)
    }
}

/// A call: what the thread had in its registers when it came to the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// When.
    pub time: u64,
    /// All of them.
    pub registers: Registers,
    /// The word at the top of the stack, if it could be read.
    pub return_address: Option<ReturnAddress>,
    /// How often the thread had stopped since the burst began.
    pub stops: u64,
    /// How it came back to [`FunctionEntry::returns_to`], if it was seen to.
    pub returned: Option<Returned>,
}

/// A call's return: what the thread had in its registers where it came back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// When.
    pub time: u64,
    /// All of them.
    pub registers: Registers,
}

impl Returned {
    /// `rax`, which has an integer result.
    pub fn result(&self) -> u64 {
        self.registers.gpr[0]
    }
}

/// All calls of a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Burst {
    /// When it began.
    pub begin: u64,
    /// The calls, in order.
    pub calls: Vec<Entered>,
    /// It ended with the last of so many calls.
    pub is_full: bool,
}

impl Burst {
    /// Calls of a burst, at most: it ends with the last of them.
    pub const MOST: usize = 64;

    /// The burst of what breakpoints met in the order of time: of the entry, and of where a call
    /// returns to.
    fn new(begin: u64, entry: &FunctionEntry, hits: Vec<Entered>) -> Self {
        let is_call = |hit: &Entered| hit.registers.pc() == entry.address;
        let is_full = hits.iter().filter(|hit| is_call(hit)).count() >= Self::MOST;
        let hits = hits.into_iter().filter(|hit| hit.time >= begin);
        let mut calls: Vec<Entered> = Vec::new();
        // Calls that have not returned.
        let mut open: Vec<usize> = Vec::new();
        for (stops, hit) in (0..).zip(hits) {
            let sp = hit.registers.sp();
            let below = |call: &usize| calls.get(*call).is_some_and(|of| of.registers.sp() < sp);
            if is_call(&hit) {
                // What lies no higher has returned, wherever to.
                while open.last().is_some_and(|call| {
                    below(call) || calls.get(*call).is_some_and(|of| of.registers.sp() == sp)
                }) {
                    open.pop();
                }
                open.push(calls.len());
                calls.push(Entered { stops, ..hit });
                continue;
            }
            let mut last = None;
            while let Some(call) = open.last().copied().filter(below) {
                last = Some(call);
                open.pop();
            }
            // Behind the return the return address is no more on the stack.
            let call = last.and_then(|call| calls.get_mut(call)).filter(|call| {
                call.registers.sp().wrapping_add(8) == sp
                    && call.return_address.map(ReturnAddress::landing) == Some(hit.registers.pc())
            });
            if let Some(call) = call {
                call.returned = Some(Returned {
                    time: hit.time,
                    registers: hit.registers,
                });
            }
        }
        Self {
            begin,
            calls,
            is_full,
        }
    }
}

/// Stops the thread at each entry of a function, for so long or until there were
/// [`Burst::MOST`]. It may last a little longer than it was to. With `vectors` each hit takes
/// longer.
///
/// # Errors
/// Why it is not known what the thread called.
pub fn entries(
    entry: &FunctionEntry,
    lasts: Duration,
    vectors: Option<&AtEntries>,
) -> Result<Burst, Miss> {
    untraced(entry.pid, entry.tid)?;
    let burst = watch(entry, lasts, vectors)?;
    untraced(entry.pid, entry.tid)?;
    Ok(burst)
}

fn watch(
    entry: &FunctionEntry,
    lasts: Duration,
    vectors: Option<&AtEntries>,
) -> Result<Burst, Miss> {
    let task = i32::try_from(entry.tid.0).map_err(|_| Miss::Gone)?;
    // More than are hit: the last one wakes the reader up.
    let refused = |error: std::io::Error| miss(&error);
    let open = |address: ProcessAddress, wakes| {
        let mut attr = breakpoint(address, 8, wakes);
        attr.read_format = 0;
        attr.sample_type &= !u64::from(b::PERF_SAMPLE_READ);
        sys::open_in(attr, task, None).map_err(refused)
    };
    let event = open(entry.address, Burst::MOST as u32)?;
    let mut ring = Ring::map(event.as_fd(), PAGES).map_err(refused)?;
    let exit = entry
        .returns_to
        .map(|to| open(to.landing(), 0))
        .transpose()?;
    for event in [Some(&event), exit.as_ref()].into_iter().flatten() {
        if let Some(AtEntries(program)) = vectors {
            sys::set_bpf(event.as_fd(), program.as_fd()).map_err(refused)?;
        }
    }
    if let Some(exit) = &exit {
        sys::set_output(exit.as_fd(), event.as_fd()).map_err(refused)?;
        sys::refresh(exit.as_fd(), Burst::MOST as u32 + 1).map_err(refused)?;
    }
    sys::refresh(event.as_fd(), Burst::MOST as u32).map_err(refused)?;
    let begin = sys::clock_now();
    let end = Instant::now() + lasts;
    // With the breakpoint set: the code is then what the thread will execute.
    if !has_code(entry.pid, entry.address, &entry.code) {
        return Err(Miss::OtherCode);
    }
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // Whole milliseconds, at least one.
        let wait = u16::try_from(left.as_millis()).unwrap_or(u16::MAX).max(1);
        let mut watched = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
        // An interruption is looked at again.
        let _ = poll(&mut watched, PollTimeout::from(wait));
        let came = watched[0].revents().unwrap_or(PollFlags::empty());
        if came.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Err(Miss::Gone);
        }
        if came.intersects(PollFlags::POLLIN) || end <= Instant::now() {
            break;
        }
    }
    // Closing it does the same, once the kernel comes to it.
    sys::disable(event.as_fd()).map_err(refused)?;
    if let Some(exit) = &exit {
        sys::disable(exit.as_fd()).map_err(refused)?;
    }
    let mut hits = Some(Vec::new());
    let mut scratch = Vec::new();
    let uncut = ring.drain(|first, second| {
        decode::split(first, second, &mut scratch, |bytes| {
            match (decode(bytes, entry), &mut hits) {
                (Some(hit), Some(hits)) => hits.push(hit),
                _ => hits = None,
            }
        })
    });
    match hits {
        Some(hits) if uncut == 0 => Ok(Burst::new(begin, entry, hits)),
        _ => Err(Miss::NotWhole),
    }
}

/// Decodes a record; `None` for anything but a hit of these breakpoints in 64-bit code.
fn decode(bytes: &[u8], entry: &FunctionEntry) -> Option<Entered> {
    let mut fields = fields_of_sample(bytes)?;
    let (_, tid) = fields.ids().ok()?;
    let time = fields.u64().ok()?;
    let _cpu_and_reserved = fields.u64().ok()?;
    let (abi, registers) = fields.registers().ok()?;
    let pc = registers.pc();
    let is_return = entry.returns_to.map(ReturnAddress::landing) == Some(pc);
    let is_it = abi == Abi::Long
        && registers.cs == USER_CODE
        && (pc == entry.address || is_return)
        && tid == entry.tid;
    let stack = fields.stack().ok()?;
    let top = stack.as_ref().try_into().ok().map(u64::from_ne_bytes);
    is_it.then(|| Entered {
        time,
        registers,
        return_address: top.map(ReturnAddress::of_word),
        stops: 0,
        returned: None,
    })
}

/// What a hit takes of the thread, in nanoseconds: the middle one of those of a thread of this
/// process that does nothing else.
///
/// # Errors
/// Why a thread does not stop.
pub fn entry_cost() -> Result<u64, Miss> {
    let burst = with_turning(|tid, address| {
        let entry = FunctionEntry {
            pid: Pid(std::process::id()),
            tid,
            address,
            code: Box::default(),
            returns_to: None,
        };
        watch(&entry, Duration::from_millis(500), None)
    })?;
    let calls = burst.calls.windows(2);
    let mut gaps: Vec<u64> = calls
        .map(|pair| pair[1].time.saturating_sub(pair[0].time))
        .collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().ok_or(Miss::NoEntry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the kernel writes it.
    fn record(tid: u32, ip: u64, copied: u64) -> Vec<u8> {
        let mut words: Vec<u64> = vec![0, 7 | u64::from(tid) << 32, 1234, 1, 2];
        // ip is the ninth of the kernel's registers, cs the eleventh.
        words.extend((0..20).map(|number| match number {
            8 => ip,
            10 => USER_CODE,
            other => 100 + other,
        }));
        words.extend([8, 0x4321, copied]);
        let size = 8 * words.len() as u64;
        words[0] = u64::from(b::PERF_RECORD_SAMPLE) | size << 48;
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// A hit is read with its return address; another thread's, or one elsewhere, is refused.
    #[test]
    fn hits() {
        let entry = FunctionEntry {
            pid: Pid(7),
            tid: Tid(8),
            address: ProcessAddress(0x1000),
            code: Box::default(),
            returns_to: None,
        };
        let call = decode(&record(8, 0x1000, 8), &entry).expect("a hit");
        let to = ReturnAddress::of_word(0x4321);
        assert_eq!((call.time, call.return_address), (1234, Some(to)));
        assert_eq!(call.registers.gpr[7], 105, "rdi");
        let unread = decode(&record(8, 0x1000, 0), &entry).expect("a hit");
        assert_eq!(unread.return_address, None);
        assert_eq!(decode(&record(9, 0x1000, 8), &entry), None);
        assert_eq!(decode(&record(8, 0x1001, 8), &entry), None);
        assert_eq!(decode(&record(8, 0x1000, 8)[..100], &entry), None);
    }

    /// A return is that of the call whose return address it took from the stack, also where calls
    /// lie within each other; what returns elsewhere, or later, has no result.
    #[test]
    fn results() {
        let entry = FunctionEntry {
            pid: Pid(7),
            tid: Tid(8),
            address: ProcessAddress(0x1000),
            code: Box::default(),
            returns_to: Some(ReturnAddress::of_word(0x2000)),
        };
        let hit = |time, ip, sp, to, rax| {
            let mut registers = Registers {
                ip,
                ..Registers::default()
            };
            (registers.gpr[0], registers.gpr[4]) = (rax, sp);
            Entered {
                time,
                registers,
                return_address: Some(ReturnAddress::of_word(to)),
                stops: 0,
                returned: None,
            }
        };
        let hits = vec![
            hit(9, 0x1000, 0x708, 0x2000, 0),
            hit(11, 0x2000, 0x710, 0, 1),
            hit(12, 0x1000, 0x700, 0x2000, 0),
            hit(13, 0x1000, 0x600, 0x3000, 0),
            hit(14, 0x1000, 0x600, 0x2000, 0),
            hit(15, 0x2000, 0x608, 0, 5),
            hit(16, 0x2000, 0x708, 0, 6),
            hit(17, 0x1000, 0x700, 0x2000, 0),
        ];
        let burst = Burst::new(10, &entry, hits);
        let seen: Vec<_> = burst
            .calls
            .iter()
            .map(|of| (of.stops, of.returned.map(|returned| returned.result())))
            .collect();
        assert_eq!(seen, [(1, Some(6)), (2, None), (3, Some(5)), (6, None)]);
        assert!(!burst.is_full);
    }
}
